//! Reading one data file: plan which bytes, fetch them, decode (spec sections 3 and 5).
//!
//! Planning (`plan`) and decoding (`batch`) are pure; only the fetch between them waits. A mapped file needs no plan for
//! scattered rows: every byte is at hand. Of a file that is far away (`far`) all batches are planned together.

mod batch;
mod far;
mod plan;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow_array::ArrayRef;
use batch::BatchRead;
use pilum_encoding::{Rows, Segments};
use pilum_format::proto::file as proto;
use pilum_format::{Dictionaries, Field, FieldId, Schema, count_fields, message_size as shape};
use pilum_store::ReadAt;
pub(crate) use plan::joined;
use prost::Message;

use crate::directory::{Column, Directory};
use crate::error::{Error, Result};

/// What the table knows of a file before opening it.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions<'a> {
    /// Ids of the fields in the file, ascending, tombstones (-2) included; the origin of the page table is the first.
    /// Without them, the schema embedded in the file tells.
    pub field_ids: Option<&'a [FieldId]>,
    /// CRC-32C of the Metadata message, from the table's manifest.
    pub metadata_crc32c: Option<u32>,
    /// Leave checksums unread.
    pub skip_verification: bool,
    /// Leave what was read of a mapped file in the mapping: for tables small enough that their size is no matter. Otherwise
    /// each read of contiguous rows lets go of its pages, and resident memory is that of the arrays alive.
    pub stays_mapped: bool,
}

/// An open data file.
#[derive(Debug)]
pub struct FileReader {
    pub(crate) directory: Directory,
    first_id: FieldId,
    /// All bytes of a mapped file.
    whole: Option<Segments>,
    stays_mapped: bool,
    /// Page tables and extension records read so far. Taken with `try_lock` only: a contended or poisoned cache is a miss, so
    /// a process forked at the wrong moment cannot wait for a thread that it does not have.
    columns: Mutex<Columns>,
}

/// Pages of some columns, and the memory that they take.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    by_id: BTreeMap<FieldId, Arc<Column>>,
    num_bytes: u64,
}

impl Columns {
    pub(crate) fn get(&self, id: FieldId) -> Option<&Arc<Column>> {
        self.by_id.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Column>> {
        self.by_id.values()
    }

    fn insert(&mut self, id: FieldId, column: Arc<Column>) {
        self.num_bytes = self.num_bytes.saturating_add(column.num_bytes);
        if let Some(old) = self.by_id.insert(id, column) {
            self.num_bytes = self.num_bytes.saturating_sub(old.num_bytes);
        }
    }
}

impl FileReader {
    /// Opens a file by its footer.
    ///
    /// # Errors
    /// `Corrupt` for what is no Lance v1 file, `Unsupported` for a later one.
    pub async fn open(file: Arc<dyn ReadAt>, options: OpenOptions<'_>) -> Result<Self> {
        let directory =
            Directory::open(file, !options.skip_verification, options.metadata_crc32c).await?;
        let whole = directory.file.mapped().cloned();
        let mut reader = Self {
            directory,
            whole: whole.map(|bytes| Segments::new([(0, bytes.into())])),
            first_id: 0,
            stays_mapped: options.stays_mapped,
            columns: Mutex::default(),
        };
        reader.first_id = match options.field_ids.and_then(|ids| ids.first()) {
            Some(&first) if first >= 0 => first,
            // The first id is a tombstone: the origin of the page table is remembered by the file itself.
            _ => reader.schema().await?.ids().into_iter().min().unwrap_or(0),
        };
        Ok(reader)
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.directory.path
    }

    /// The field whose pages come first in the page table.
    pub(crate) fn first_id(&self) -> FieldId {
        self.first_id
    }

    /// Size of the file.
    #[must_use]
    pub fn num_bytes(&self) -> u64 {
        self.directory.file.size()
    }

    /// Memory that the reader holds, beside a mapping of the file.
    #[must_use]
    pub fn num_bytes_held(&self) -> u64 {
        let columns = self.columns.try_lock().map_or(0, |known| known.num_bytes);
        self.directory.num_bytes_held().saturating_add(columns)
    }

    /// Rows in the file.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.directory.num_rows()
    }

    /// Batches, that is, pages per column.
    #[must_use]
    pub fn num_batches(&self) -> usize {
        self.directory.num_batches()
    }

    /// Rows of the file that a batch holds.
    #[must_use]
    pub fn batch_rows(&self, batch: usize) -> Range<u64> {
        self.directory.batch_rows(batch)
    }

    /// The batch that holds a row.
    #[must_use]
    pub fn batch_of_row(&self, row: u64) -> usize {
        self.directory
            .batch_offsets
            .partition_point(|&offset| offset <= row)
            .saturating_sub(1)
    }

    /// Whether a reader that ignores the extension block would read wrong values.
    #[must_use]
    pub fn needs_extension(&self) -> bool {
        self.directory
            .extension
            .as_ref()
            .is_some_and(|extension| extension.required)
    }

    /// Bytes per checksum block; none when the file has no checksums.
    #[must_use]
    pub fn checksum_block(&self) -> Option<u32> {
        self.directory
            .extension
            .as_ref()
            .map(|extension| extension.block_size)
            .filter(|&size| size > 0)
    }

    /// The schema embedded in the file, dictionary positions included.
    ///
    /// # Errors
    /// `Unsupported` when the file has none (it is optional), `Corrupt` when it is damaged.
    pub async fn schema(&self) -> Result<Schema> {
        Ok(self.embedded_manifest().await?.0)
    }

    /// The schema embedded in the file and who wrote it.
    pub(crate) async fn embedded_manifest(&self) -> Result<(Schema, Option<proto::WriterVersion>)> {
        let directory = &self.directory;
        let position = directory.manifest_position;
        if position == 0 {
            let feature =
                "a file without an embedded schema, opened outside of its table".to_owned();
            return Err(Error::Unsupported {
                file: directory.path.clone(),
                feature,
            });
        }
        let extent = directory
            .extension
            .as_ref()
            .and_then(|extension| extension.manifest.as_ref());
        let message = match extent {
            Some(extent) if directory.verify => {
                let end = extent.position.saturating_add(extent.length);
                let bytes = directory
                    .read_covered(Some(extent), extent.position..end, "embedded manifest")
                    .await?;
                bytes.slice(4.min(bytes.len())..)
            }
            _ => {
                directory
                    .read_message(position, "the embedded manifest")
                    .await?
            }
        };
        directory.check_shape(
            &shape::EMBEDDED_MANIFEST,
            &message,
            "the embedded manifest",
            position,
        )?;
        let mut manifest = proto::EmbeddedManifest {
            fields: Vec::with_capacity(count_fields(&message, 1)),
            ..Default::default()
        };
        manifest
            .merge(message)
            .map_err(|error| directory.corrupt(format!("embedded manifest: {error}"), position))?;
        let schema =
            Schema::from_protos(&directory.path, &manifest.fields, &manifest.schema_metadata)?;
        Ok((schema, manifest.writer_version))
    }

    /// Rows of one batch, one array per field of `fields`; dictionary columns take their values from `dictionaries`.
    ///
    /// # Errors
    /// `Corrupt` with column and place; other columns stay readable.
    pub async fn read_batch(
        &self,
        fields: &[Field],
        batch: usize,
        rows: &Rows,
        dictionaries: &Dictionaries,
    ) -> Result<Vec<ArrayRef>> {
        let mut columns = Columns::default();
        for field in fields {
            self.load(field, &mut columns).await?;
        }
        let mut read = BatchRead::new(self, &columns, batch, fields, dictionaries)?;
        read.fetch(fields, rows).await?;
        read.decode_all(fields, rows)
    }

    /// Rows of the file, batch by batch, concatenated.
    ///
    /// # Errors
    /// As [`read_batch`](Self::read_batch); `InvalidInput` for rows beyond the file.
    pub async fn read_rows(
        &self,
        fields: &[Field],
        rows: &Rows,
        dictionaries: &Dictionaries,
    ) -> Result<Vec<ArrayRef>> {
        self.read_parts(fields, &self.split(rows)?, dictionaries)
            .await
    }

    /// The rows that [`split`](Self::split) told the batches of, concatenated: for who reads the same rows of one column
    /// after the other.
    ///
    /// # Errors
    /// As [`read_batch`](Self::read_batch).
    pub async fn read_parts(
        &self,
        fields: &[Field],
        parts: &[(usize, Rows)],
        dictionaries: &Dictionaries,
    ) -> Result<Vec<ArrayRef>> {
        self.prepare(fields).await?;
        let mut columns = Columns::default();
        for field in fields {
            self.load(field, &mut columns).await?;
        }
        let mut reads = Vec::with_capacity(parts.len());
        for (batch, rows) in parts {
            let read = BatchRead::new(self, &columns, *batch, fields, dictionaries)?;
            reads.push((read, rows));
        }
        let mut parts = Vec::with_capacity(reads.len());
        if self.whole.is_some() {
            for (mut read, rows) in reads {
                read.fetch(fields, rows).await?;
                parts.push(read.decode_all(fields, rows)?);
            }
        } else {
            self.fetch_far(fields, &mut reads).await?;
            for (read, rows) in reads {
                parts.push(read.decode_all(fields, rows)?);
            }
        }
        if parts.len() == 1 {
            return Ok(parts.pop().unwrap_or_default());
        }
        (0..fields.len())
            .map(|column| {
                let arrays: Vec<&dyn arrow_array::Array> =
                    parts.iter().map(|part| part[column].as_ref()).collect();
                if arrays.is_empty() {
                    return Ok(arrow_array::new_empty_array(&fields[column].data_type));
                }
                arrow_select::concat::concat(&arrays).map_err(|error| Error::InvalidInput {
                    message: format!(
                        "{}: column `{}`: {error}; read fewer rows at once",
                        self.path(),
                        fields[column].name
                    ),
                })
            })
            .collect()
    }

    /// Learns where the pages of some columns are, which reading them does by itself, one by one: of a file that is far away
    /// this asks once for all. Nothing is done for mapped files.
    ///
    /// # Errors
    /// As [`read_batch`](Self::read_batch).
    pub async fn prepare(&self, fields: &[Field]) -> Result<()> {
        if self.whole.is_some() {
            return Ok(());
        }
        let rows: Vec<u64> = match self.columns.try_lock() {
            Ok(known) => fields
                .iter()
                .flat_map(Field::walk)
                .filter(|field| known.get(field.id).is_none())
                .filter_map(|field| {
                    u64::try_from(i64::from(field.id) - i64::from(self.first_id)).ok()
                })
                .collect(),
            Err(_) => return Ok(()),
        };
        if rows.is_empty() {
            return Ok(());
        }
        self.directory.bring_columns(&rows).await?;
        let mut columns = Columns::default();
        for field in fields {
            self.load(field, &mut columns).await?;
        }
        self.directory.let_go();
        Ok(())
    }

    /// Gives back the memory of a mapped file, unless it is to stay mapped. Nothing that was read changes: the next touch of a
    /// byte, be it by an array that still lies in the mapping, maps its page again.
    pub fn release(&self) {
        if !self.stays_mapped {
            self.directory.file.release(0..self.num_bytes());
        }
    }

    /// Cuts rows of the file into rows of its batches; batches without any are left out.
    ///
    /// # Errors
    /// `InvalidInput` for rows beyond the file.
    pub fn split(&self, rows: &Rows) -> Result<Vec<(usize, Rows)>> {
        let (path, num_rows) = (self.path(), self.num_rows());
        if rows.end() > num_rows {
            let row = rows.end().saturating_sub(1);
            let message = format!("{path}: row {row} of {num_rows} rows");
            return Err(Error::InvalidInput { message });
        }
        let mut parts = Vec::new();
        let mut next = rows.first_from(0);
        while let Some(row) = next {
            let batch = self.batch_of_row(row);
            let of_batch = self.batch_rows(batch);
            parts.push((batch, rows.within(&of_batch)));
            next = rows.first_from(of_batch.end.max(row.saturating_add(1)));
        }
        Ok(parts)
    }

    /// Loads the pages of a node and of those below it.
    pub(crate) async fn load(&self, field: &Field, columns: &mut Columns) -> Result<()> {
        let mut stack = vec![field];
        while let Some(field) = stack.pop() {
            stack.extend(&field.children);
            let cached = self
                .columns
                .try_lock()
                .ok()
                .and_then(|cache| cache.get(field.id).cloned());
            let column = match cached {
                Some(column) => column,
                None => {
                    let column = Arc::new(
                        self.directory
                            .column(self.first_id, field.id, &field.name)
                            .await?,
                    );
                    if let Ok(mut cache) = self.columns.try_lock() {
                        // Columns read one by one could add up to more than what one read may take.
                        if self.check_memory(&cache).is_err() {
                            *cache = Columns::default();
                        }
                        cache.insert(field.id, Arc::clone(&column));
                    }
                    column
                }
            };
            columns.insert(field.id, column);
            self.check_pages(columns.by_id.len())?;
            self.check_memory(columns)?;
        }
        Ok(())
    }

    /// Records of the extension block may overlap, and what is parsed of each stays in memory.
    fn check_memory(&self, columns: &Columns) -> Result<()> {
        self.directory
            .check_memory(columns.num_bytes, "what is known of its pages")
    }

    /// Records of the extension block may overlap, and each is parsed: two bytes are the least for a page.
    pub(crate) fn check_pages(&self, num_columns: usize) -> Result<()> {
        let num_pages = (num_columns as u64).saturating_mul(self.num_batches() as u64);
        if num_pages.saturating_mul(2) > self.num_bytes() {
            let what = format!("{num_pages} pages in a file of {} bytes", self.num_bytes());
            return Err(self.directory.corrupt(what, None));
        }
        Ok(())
    }
}
