//! A stream of batches into one file, or into the files of a folder: cut by rows, or by the values of columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch, UInt32Array};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Schema, SchemaRef};
use arrow_select::take::take_record_batch;
use pilum_store::{Durability, StorageOptions, Store};

use crate::discover::{folder_of, open_parent};
use crate::error::{Error, Result};
use crate::write::{FileWriter, WriteOptions, WrittenFile};

/// Partitions that are written at once: each has buffers for its columns.
const MAX_OPEN: usize = 512;

/// How to write files.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ExportOptions {
    /// How to write each file.
    pub file: WriteOptions,
    /// A file is ended when it has so many rows; the address is then a folder.
    pub max_rows_per_file: Option<u64>,
    /// Columns whose values become names of folders, `key=value`, and are left out of the files.
    pub partition_by: Vec<String>,
    /// Whether the files survive a power cut when the export is acknowledged.
    pub durability: Durability,
}

/// An export in progress. If it fails, call [`discard`](Self::discard): it removes the files that are complete already.
#[derive(Debug)]
pub struct Exporter {
    store: Store,
    options: ExportOptions,
    /// Columns of the files.
    schema: SchemaRef,
    /// Positions of the columns that become names of folders.
    keys: Vec<usize>,
    rest: Vec<usize>,
    /// The name of the only file; none for a folder.
    single: Option<String>,
    /// Files being written, with their paths, by folder.
    open: BTreeMap<String, (String, FileWriter)>,
    /// Paths below the root of the store, with the files that are complete.
    done: Vec<(String, WrittenFile)>,
    num_files: usize,
}

impl Exporter {
    /// Begins an export of batches of a schema. The address is a file if it ends in `.parquet`, `.parq` or `.pq` and the rows
    /// are not to be divided, else a folder, which must have no file.
    ///
    /// # Errors
    /// [`Error::Store`] with `AlreadyExists` for a folder with files; `CommonError::InvalidInput` for a column to divide by that is
    /// not there or has a type without a text that is read back as the same value.
    pub async fn create(
        uri: &str,
        storage: &StorageOptions,
        schema: &SchemaRef,
        options: &ExportOptions,
    ) -> Result<Self> {
        if options.max_rows_per_file == Some(0) {
            return Err(Error::invalid("max_rows_per_file", "must be at least 1"));
        }
        let is_divided = options.max_rows_per_file.is_some() || !options.partition_by.is_empty();
        let is_file = [".parquet", ".parq", ".pq"]
            .iter()
            .any(|end| uri.ends_with(end));
        let single = match is_file && !is_divided {
            true => open_parent(uri, storage)?,
            false => None,
        };
        let (store, single) = match single {
            Some((store, name)) => (store, Some(name)),
            None => {
                let store = Store::open(uri, storage)?;
                if let Some(first) = store.list_recursive("").await?.first() {
                    return Err(pilum_store::Error::AlreadyExists {
                        path: format!("{}/{}", store.uri(), first.path),
                    }
                    .into());
                }
                (store, None)
            }
        };
        let mut keys = Vec::new();
        for name in &options.partition_by {
            keys.push(key(schema, name)?);
        }
        let rest: Vec<usize> = (0..schema.fields().len())
            .filter(|at| !keys.contains(at))
            .collect();
        let schema = schema
            .project(&rest)
            .map_err(|error| Error::bug(format!("{}: {error}", store.uri())))?;
        Ok(Self {
            store: store.with_durability(options.durability),
            options: options.clone(),
            schema: Arc::new(schema),
            keys,
            rest,
            single,
            open: BTreeMap::new(),
            done: Vec::new(),
            num_files: 0,
        })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// As [`FileWriter::write`]; `CommonError::Limit` for more partitions at once than can be written.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let faulty =
            |error: arrow_schema::ArrowError| Error::invalid("the batch", error.to_string());
        if self.keys.is_empty() {
            return self.write_to("", batch).await;
        }
        let mut rows_of: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for row in 0..batch.num_rows() {
            let mut folder = String::new();
            for key in &self.keys {
                let column = batch.column(*key);
                let text = column
                    .is_valid(row)
                    .then(|| array_value_to_string(column, row))
                    .transpose()
                    .map_err(faulty)?;
                let name = batch.schema_ref().field(*key).name();
                folder.push_str(&folder_of(name, text.as_deref()));
                folder.push('/');
            }
            let row =
                u32::try_from(row).map_err(|_| Error::invalid("the batch", "has 2^32 rows"))?;
            rows_of.entry(folder).or_default().push(row);
        }
        let values = batch.project(&self.rest).map_err(faulty)?;
        for (folder, rows) in rows_of {
            let part = match rows.len() == batch.num_rows() {
                true => values.clone(),
                false => take_record_batch(&values, &UInt32Array::from(rows)).map_err(faulty)?,
            };
            self.write_to(&folder, &part).await?;
        }
        Ok(())
    }

    /// Completes all files. Returns their paths below the address, or the name of the only file.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn finish(&mut self) -> Result<Vec<(String, WrittenFile)>> {
        if self.num_files == 0 && self.keys.is_empty() {
            // Without rows there is one file, which has the schema.
            self.begin("").await?;
        }
        while let Some((_, (path, writer))) = self.open.pop_first() {
            self.done.push((path, writer.finish().await?));
        }
        Ok(std::mem::take(&mut self.done))
    }

    /// The address that the paths are below.
    #[must_use]
    pub fn root(&self) -> &str {
        self.store.uri()
    }

    /// Removes the files that are complete already, after an error.
    pub async fn discard(&mut self) {
        self.open.clear();
        for (path, _) in std::mem::take(&mut self.done) {
            // The error that led here is the one to report.
            let _ = self.store.delete(&path).await;
        }
    }

    async fn write_to(&mut self, folder: &str, batch: &RecordBatch) -> Result<()> {
        let most = self.options.max_rows_per_file.unwrap_or(u64::MAX);
        let mut start = 0;
        while start < batch.num_rows() {
            if !self.open.contains_key(folder) {
                self.begin(folder).await?;
            }
            let Some((_, writer)) = self.open.get_mut(folder) else {
                return Err(Error::bug("a file that was begun is not open"));
            };
            let room = usize::try_from(most - writer.num_rows()).unwrap_or(usize::MAX);
            let len = room.min(batch.num_rows() - start);
            writer.write(&batch.slice(start, len)).await?;
            start += len;
            if writer.num_rows() >= most
                && let Some((path, writer)) = self.open.remove(folder)
            {
                self.done.push((path, writer.finish().await?));
            }
        }
        Ok(())
    }

    async fn begin(&mut self, folder: &str) -> Result<()> {
        if self.open.len() >= MAX_OPEN {
            return Err(Error::limit(
                format!("{}: partitions written at once", self.store.uri()),
                format!("{}", self.open.len() + 1),
                format!("{MAX_OPEN}; sort the rows by the partition columns"),
            ));
        }
        let path = match &self.single {
            Some(name) => name.clone(),
            None => format!("{folder}part-{:05}.parquet", self.num_files),
        };
        let writer =
            FileWriter::create(&self.store, &path, &self.schema, &self.options.file).await?;
        self.num_files += 1;
        self.open.insert(folder.to_owned(), (path, writer));
        Ok(())
    }
}

/// The position of a column that can be a name of a folder.
fn key(schema: &Schema, name: &str) -> Result<usize> {
    let what = || format!("partition column `{name}`");
    let (place, field) = schema
        .fields()
        .find(name)
        .ok_or_else(|| Error::invalid(what(), "there is no column of that name"))?;
    let data_type = match field.data_type() {
        DataType::Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    let is_exact = data_type.is_integer()
        || matches!(
            data_type,
            DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Date32
                | DataType::Boolean
        );
    match is_exact && schema.fields().len() > 1 {
        true => Ok(place),
        false => Err(Error::invalid(
            what(),
            format!(
                "of type {data_type}; divide by integers, strings, dates or booleans, and leave one column"
            ),
        )),
    }
}
