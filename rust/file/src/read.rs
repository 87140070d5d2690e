//! Reading rows of a data file: plan which bytes, fetch them, decode (`docs/format.md`, sections 2.2 and 3).
//!
//! Planning (`plan`) and decoding (`decode`) are pure; only the step between them (`fetch`) waits for bytes.

mod batch;
mod decode;
mod fetch;
mod plan;

use arrow_array::{Array, ArrayRef};
use pilum_encoding::Rows;
use pilum_format::{Dictionaries, Field};

use crate::error::{Error, Result};
use crate::events::EVENTS;
use crate::reader::FileReader;
use batch::BatchRead;
use fetch::{fetch_rounds, prefetch_mapped};

impl FileReader {
    /// Rows of one batch, one array per field of `fields`; dictionary columns take their values from `dictionaries`.
    ///
    /// # Errors
    /// `Corrupt` with column and place (other columns stay readable), `Unsupported` for a page that this version does not
    /// know, `Limit` for more values than one array holds, `Store` if the file cannot be read or was cut short.
    pub async fn read_batch(
        &self,
        fields: &[Field],
        batch: usize,
        rows: &Rows,
        dictionaries: &Dictionaries,
    ) -> Result<Vec<ArrayRef>> {
        let mut arrays = self
            .read_each(fields, &[(batch, rows)], dictionaries)
            .await?;
        Ok(arrays.pop().unwrap_or_default())
    }

    /// Rows of the file, concatenated over its batches.
    ///
    /// # Errors
    /// As [`read_batch`](Self::read_batch); `InvalidInput` for rows beyond the file, or more than fit one array.
    pub async fn read_rows(
        &self,
        fields: &[Field],
        rows: &Rows,
        dictionaries: &Dictionaries,
    ) -> Result<Vec<ArrayRef>> {
        self.read_parts(fields, &self.split(rows)?, dictionaries)
            .await
    }

    /// Rows of several batches, as [`split`](Self::split) returns them, concatenated: for a caller that reads the same rows of
    /// one column after the other.
    ///
    /// # Errors
    /// As [`read_rows`](Self::read_rows).
    pub async fn read_parts(
        &self,
        fields: &[Field],
        parts: &[(usize, Rows)],
        dictionaries: &Dictionaries,
    ) -> Result<Vec<ArrayRef>> {
        self.prepare(fields).await?;
        let parts: Vec<_> = parts.iter().map(|(batch, rows)| (*batch, rows)).collect();
        let arrays = self.read_each(fields, &parts, dictionaries).await?;
        self.concatenate(fields, arrays)
    }

    /// Rows of several batches, one list of arrays for each.
    async fn read_each(
        &self,
        fields: &[Field],
        parts: &[(usize, &Rows)],
        dictionaries: &Dictionaries,
    ) -> Result<Vec<Vec<ArrayRef>>> {
        let columns = self.load(fields).await?;
        let mut reads = Vec::with_capacity(parts.len());
        for &(batch, rows) in parts {
            let read = BatchRead::new(self, &columns, batch, fields, dictionaries)?;
            reads.push((read, rows));
        }
        let streaming = match &self.whole {
            Some(whole) => prefetch_mapped(self, whole, fields, &mut reads)?,
            None => {
                fetch_rounds(self, fields, &mut reads).await?;
                vec![false; reads.len()]
            }
        };
        let mut decoded = Vec::with_capacity(reads.len());
        for (mut read, streams) in reads.into_iter().zip(streaming) {
            // A read that streams holds its bytes no longer than it needs them.
            if streams {
                fetch_rounds(self, fields, std::slice::from_mut(&mut read)).await?;
            }
            let (read, rows) = read;
            decoded.push(read.decode_all(fields, rows)?);
        }
        tracing::trace!(
            target: EVENTS,
            path = self.path(),
            columns = fields.len(),
            batches = parts.len(),
            rows = parts.iter().map(|(_, rows)| rows.len()).sum::<u64>(),
            "decode"
        );
        Ok(decoded)
    }

    /// The arrays of several batches, column by column.
    fn concatenate(
        &self,
        fields: &[Field],
        mut parts: Vec<Vec<ArrayRef>>,
    ) -> Result<Vec<ArrayRef>> {
        if parts.len() == 1 {
            return Ok(parts.pop().unwrap_or_default());
        }
        let concatenate = |(column, field): (usize, &Field)| {
            let arrays: Vec<&dyn Array> = parts.iter().map(|part| part[column].as_ref()).collect();
            if arrays.is_empty() {
                return Ok(arrow_array::new_empty_array(&field.data_type));
            }
            arrow_select::concat::concat(&arrays).map_err(|error| Error::InvalidInput {
                message: format!(
                    "{}: column `{}`: {error}; read fewer rows at once",
                    self.path(),
                    field.name
                ),
            })
        };
        fields.iter().enumerate().map(concatenate).collect()
    }
}
