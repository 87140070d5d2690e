//! Which columns of a file need the extension, and for which value: not every column of a file that needs it does.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use bytes::Bytes;
use futures::future::BoxFuture;
use pilum_encoding::{Rows, Validity};
use pilum_format::{Dictionaries, Schema};
use pilum_store::ObjectWriter;

use crate::directory::Fetched;
use crate::error::{Error, Result};
use crate::options::{Compat, WriteOptions};
use crate::{FileReader, FileWriter};

impl FileReader {
    /// Whether a reader that ignores the extension block would read wrong values in the columns of `schema`, which the file
    /// holds. Reads the page tables of these columns and none of their pages.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) for a damaged page table, [`Error::Store`](crate::Error::Store) when the
    /// file cannot be read.
    pub async fn columns_need_extension(&self, schema: &Schema) -> Result<bool> {
        let Some(extension) = (self.directory.extension.as_ref()).filter(|it| it.required) else {
            return Ok(false);
        };
        let is_dictionary = |data_type: &DataType| matches!(data_type, DataType::Dictionary(..));
        let has_dictionary = schema.walk().any(|field| is_dictionary(&field.data_type));
        if schema.is_beyond_v1() || has_dictionary && extension.dictionary_has_empty {
            return Ok(true);
        }
        for field in schema.walk() {
            let column = self
                .directory
                .column(self.first_id(), field.id, &field.name, &Fetched::NONE)
                .await?;
            let mut levels = column.pages.iter().flat_map(|page| &page.validity);
            if levels.any(|level| *level != Validity::V1) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The first value of the columns of `schema`, which the file holds, that Lance v1 cannot hold: with its column, and
    /// its row in the file. `None` if there is none. Reads the columns up to that value.
    ///
    /// # Errors
    /// As [`read_batch`](Self::read_batch).
    pub async fn first_lossy(
        &self,
        schema: &Schema,
        dictionaries: &Dictionaries,
    ) -> Result<Option<String>> {
        let options = WriteOptions {
            compat: Compat::Lance,
            ..WriteOptions::default()
        };
        self.prepare(&schema.fields).await?;
        for batch in 0..self.num_batches() {
            let rows = self.batch_rows(batch);
            let all = Rows::all(rows.end - rows.start);
            let columns = self.read_batch(&schema.fields, batch, &all, dictionaries);
            let columns = columns.await?;
            let written = RecordBatch::try_new(schema.to_arrow(), columns);
            let written = written.map_err(|error| Error::InvalidInput {
                message: format!("{}: {error}", self.path()),
            })?;
            // The writer finds the values that would be lost; its sink discards the bytes.
            let options = WriteOptions {
                max_rows_per_page: Some(written.num_rows().max(1) as u64),
                ..options.clone()
            };
            let schema = Arc::new(schema.clone());
            let sink = Box::new(Nowhere::default());
            let refused = match FileWriter::new(schema, self.path(), sink, options, rows.start) {
                Ok(mut writer) => writer.write(&written).await.err(),
                Err(error) => Some(error),
            };
            match refused {
                None => {}
                Some(Error::Lossy {
                    column,
                    first_row,
                    what,
                    ..
                }) => {
                    let first =
                        format!("column `{column}` has {what} at row {first_row} of the file");
                    return Ok(Some(first));
                }
                Some(Error::Unsupported { feature, .. }) => return Ok(Some(feature)),
                Some(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Takes bytes and keeps none.
#[derive(Debug, Default)]
struct Nowhere(u64);

impl ObjectWriter for Nowhere {
    fn path(&self) -> &'static str {
        "nowhere"
    }

    fn position(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, pilum_store::Result<()>> {
        self.0 += bytes.len() as u64;
        Box::pin(async { Ok(()) })
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, pilum_store::Result<u64>> {
        Box::pin(async move { Ok(self.0) })
    }
}
