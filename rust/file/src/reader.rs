//! An open data file: its directory, and the pages of the columns that were read so far.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use pilum_encoding::{Rows, Segments};
use pilum_format::message_size as shape;
use pilum_format::proto::file as proto;
use pilum_format::{Field, FieldId, Schema, count_fields};
use pilum_store::ReadAt;
use prost::Message;

use crate::columns::Column;
use crate::directory::{Directory, Fetched};
use crate::error::{Error, Result};
use crate::events::EVENTS;

/// What the table knows of a file before opening it.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions<'a> {
    /// Ids of the fields in the file, ascending, tombstones (-2) included; the origin of the page table is the first.
    /// Without them, the reader takes the ids from the schema embedded in the file.
    pub field_ids: Option<&'a [FieldId]>,
    /// CRC-32C of the Metadata message, from the table's manifest.
    pub metadata_crc32c: Option<u32>,
    /// Do not compare checksums.
    pub skip_verification: bool,
    /// Keep the pages of a mapped file in the mapping after they were read: for tables that are small enough to stay in
    /// memory. Otherwise each read of contiguous rows releases its pages, and resident memory is that of the arrays alive.
    pub stays_mapped: bool,
}

/// An open data file.
#[derive(Debug)]
pub struct FileReader {
    pub(crate) directory: Directory,
    first_id: FieldId,
    /// All bytes of a mapped file. They must be prefetched before they are touched.
    pub(crate) whole: Option<Segments>,
    pub(crate) stays_mapped: bool,
    /// Page tables and extension records read so far. Taken with `try_lock` only: a contended or poisoned cache is a miss, so
    /// a process that was forked while another thread held the lock does not wait for that thread.
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
    /// `Corrupt` for a file that is no Lance v1 file or is damaged, `Unsupported` for a later version, `Limit` for a directory
    /// that takes too much memory, `Store` if the file cannot be read.
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
            // The first id is a tombstone: only the file itself still has the origin of its page table.
            _ => reader.schema().await?.ids().into_iter().min().unwrap_or(0),
        };
        tracing::debug!(
            target: EVENTS,
            path = reader.path(),
            bytes = reader.num_bytes(),
            rows = reader.num_rows(),
            batches = reader.num_batches(),
            is_mapped = reader.whole.is_some(),
            "open"
        );
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

    /// The row of a field in the page table; `None` for a field before its origin.
    pub(crate) fn page_table_row(&self, id: FieldId) -> Option<u64> {
        u64::try_from(i64::from(id) - i64::from(self.first_id)).ok()
    }

    /// Size of the file in bytes.
    #[must_use]
    pub fn num_bytes(&self) -> u64 {
        self.directory.file.size()
    }

    /// Memory in bytes that the reader holds, without a mapping of the file.
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

    /// Number of batches in the file: each column has one page per batch.
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

    /// Whether the statistics give +inf as the maximum of every page of floats that holds NaN.
    pub fn statistics_cover_nan(&self) -> bool {
        let extension = self.directory.extension.as_ref();
        extension.is_some_and(|extension| extension.statistics_cover_nan)
    }

    /// Whether a reader that ignores the extension block would read wrong values.
    #[must_use]
    pub fn needs_extension(&self) -> bool {
        self.directory
            .extension
            .as_ref()
            .is_some_and(|extension| extension.required)
    }

    /// Bytes per checksum block; `None` when the file has no checksums.
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

    /// The schema embedded in the file, and the library that wrote the file.
    pub(crate) async fn embedded_manifest(&self) -> Result<(Schema, Option<proto::WriterVersion>)> {
        let directory = &self.directory;
        let position = directory.manifest_position;
        if position == 0 {
            return Err(directory
                .unsupported("a file without an embedded schema, opened outside of its table"));
        }
        directory.prefetch_end()?;
        let what = "the embedded manifest";
        let extent = directory
            .extension
            .as_ref()
            .and_then(|extension| extension.manifest.as_ref());
        let message = match extent {
            Some(extent) if directory.verify => {
                let range = extent.position..extent.position.saturating_add(extent.length);
                let bytes = directory
                    .read_covered(Some(extent), range, what, &Fetched::NONE)
                    .await?;
                bytes.slice(4.min(bytes.len())..)
            }
            _ => directory.read_message(position, what).await?,
        };
        directory.check_shape(&shape::EMBEDDED_MANIFEST, &message, what, position)?;
        let mut manifest = proto::EmbeddedManifest {
            fields: Vec::with_capacity(count_fields(&message, 1)),
            ..Default::default()
        };
        manifest
            .merge(message)
            .map_err(|error| directory.corrupt(format!("{what}: {error}"), position))?;
        let schema =
            Schema::from_protos(&directory.path, &manifest.fields, &manifest.schema_metadata)?;
        Ok((schema, manifest.writer_version))
    }

    /// Learns where the pages of some columns are. Reading them does this by itself, one column after the other: of a remote
    /// file this call asks once for all. Does nothing for mapped files.
    ///
    /// # Errors
    /// `Corrupt` with column and place, `Limit` for pages that take too much memory, `Store` if the file cannot be read.
    pub async fn prepare(&self, fields: &[Field]) -> Result<()> {
        if self.whole.is_some() {
            return Ok(());
        }
        let rows: Vec<u64> = match self.columns.try_lock() {
            Ok(known) => fields
                .iter()
                .flat_map(Field::walk)
                .filter(|field| known.get(field.id).is_none())
                .filter_map(|field| self.page_table_row(field.id))
                .collect(),
            Err(_) => return Ok(()),
        };
        if rows.is_empty() {
            return Ok(());
        }
        let fetched = self.directory.prefetch_columns(&rows).await?;
        self.load_with(fields, &fetched).await?;
        Ok(())
    }

    /// The pages of some nodes and of those below them.
    pub(crate) async fn load(&self, fields: &[Field]) -> Result<Columns> {
        self.load_with(fields, &Fetched::NONE).await
    }

    async fn load_with(&self, fields: &[Field], fetched: &Fetched) -> Result<Columns> {
        let mut columns = Columns::default();
        let mut is_end_safe = false;
        let mut stack: Vec<&Field> = fields.iter().rev().collect();
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
                    if !is_end_safe {
                        self.directory.prefetch_end()?;
                        is_end_safe = true;
                    }
                    self.load_column(field, fetched).await?
                }
            };
            columns.insert(field.id, column);
            self.check_pages(columns.by_id.len())?;
            self.check_memory(&columns)?;
        }
        Ok(columns)
    }

    /// Reads the pages of one node and puts them into the cache.
    async fn load_column(&self, field: &Field, fetched: &Fetched) -> Result<Arc<Column>> {
        let column = self
            .directory
            .column(self.first_id, field.id, &field.name, fetched)
            .await?;
        let column = Arc::new(column);
        if let Ok(mut cache) = self.columns.try_lock() {
            // Columns read one by one could add up to more than what one read may take.
            if self.check_memory(&cache).is_err() {
                *cache = Columns::default();
            }
            cache.insert(field.id, Arc::clone(&column));
        }
        Ok(column)
    }

    /// Records of the extension block may overlap, so that parsed they take more memory than the file has bytes: this is
    /// refused.
    fn check_memory(&self, columns: &Columns) -> Result<()> {
        self.directory
            .check_memory(columns.num_bytes, "the page table of the columns")
    }

    /// Refuses more pages than a file of this size can describe: records of the extension block may overlap and each of them is
    /// parsed, and a page takes at least two bytes of a record.
    pub(crate) fn check_pages(&self, num_columns: usize) -> Result<()> {
        let num_pages = (num_columns as u64).saturating_mul(self.num_batches() as u64);
        if num_pages.saturating_mul(2) > self.num_bytes() {
            let what = format!("{num_pages} pages in a file of {} bytes", self.num_bytes());
            return Err(self.directory.corrupt(what, None));
        }
        Ok(())
    }

    /// Gives back the memory of a mapped file, unless the reader was opened with `stays_mapped`. Arrays that still lie in the
    /// mapping stay right: touching them maps their pages again.
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
}
