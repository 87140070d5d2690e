//! Reading one data file: plan which bytes, fetch them, decode (spec sections 3 and 5).
//!
//! Planning and decoding are pure; only the fetch between them waits. A mapped file needs no plan for scattered rows: every
//! byte is at hand.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use arrow_array::ArrayRef;
use arrow_buffer::Buffer;
use bytes::Bytes;
use pilum_encoding::{
    Error as PageError, Layout, PageSource, Rows, Segments, assemble_dictionary, assemble_items,
    assemble_list, assemble_struct, decode_list_offsets, decode_nulls, decode_page, plan_bytes,
    plan_fixed, plan_validity,
};
use pilum_store::ReadAt;
use prost::Message;

use crate::checked::{CheckedSource, Coverage};
use crate::directory::{Column, Directory, PageEntry};
use crate::error::{Error, Result};
use crate::proto;
use crate::schema::{Field, FieldId, Schema};
use crate::shape::{self, count_fields};
use crate::write::Dictionaries;

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

/// Ranges closer than this are fetched as one; joined ranges of a mapped file cost one system call.
const JOIN: u64 = 4096;
/// From this many bytes on, a read of contiguous rows of a mapped file is prefetched and released again.
const STREAM: u64 = 1 << 20;

impl FileReader {
    /// Opens a file by its footer.
    ///
    /// # Errors
    /// `Corrupt` for what is no Lance v1 file, `Unsupported` for a later one.
    pub async fn open(file: Arc<dyn ReadAt>, options: OpenOptions<'_>) -> Result<Self> {
        let directory =
            Directory::open(file, !options.skip_verification, options.metadata_crc32c).await?;
        let mut reader = Self {
            directory,
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
        let page_rows = self.batch_rows(batch);
        let mut read = BatchRead {
            reader: self,
            columns: &columns,
            batch,
            segments: Segments::default(),
            dictionaries,
        };
        read.check_pages(fields)?;
        read.fetch(fields, rows).await?;
        fields
            .iter()
            .map(|field| read.decode(field, &field.name, rows, page_rows.end - page_rows.start))
            .collect()
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
        if rows.end() > self.num_rows() {
            let message = format!(
                "{}: row {} of {} rows",
                self.path(),
                rows.end().saturating_sub(1),
                self.num_rows()
            );
            return Err(Error::InvalidInput { message });
        }
        let mut parts: Vec<Vec<ArrayRef>> = Vec::new();
        for (batch, rows) in self.split(rows) {
            parts.push(self.read_batch(fields, batch, &rows, dictionaries).await?);
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

    /// Cuts rows of the file into rows of its batches; batches without any are left out.
    #[must_use]
    pub fn split(&self, rows: &Rows) -> Vec<(usize, Rows)> {
        let mut parts: Vec<(usize, Vec<Range<u64>>)> = Vec::new();
        for range in rows.ranges() {
            let mut start = range.start;
            while start < range.end {
                let batch = self.batch_of_row(start);
                let of_batch = self.batch_rows(batch);
                let end = range.end.min(of_batch.end);
                if end <= start {
                    break;
                }
                let part = start - of_batch.start..end - of_batch.start;
                match parts.last_mut() {
                    Some((last, ranges)) if *last == batch => ranges.push(part),
                    _ => parts.push((batch, vec![part])),
                }
                start = end;
            }
        }
        parts
            .into_iter()
            .map(|(batch, ranges)| {
                (
                    batch,
                    Rows::from_ranges(ranges).unwrap_or_else(|_| Rows::empty()),
                )
            })
            .collect()
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

/// The read of some rows of one batch.
struct BatchRead<'a> {
    reader: &'a FileReader,
    columns: &'a Columns,
    batch: usize,
    segments: Segments,
    dictionaries: &'a Dictionaries,
}

impl BatchRead<'_> {
    fn entry(&self, field: &Field) -> Result<&PageEntry> {
        self.columns
            .get(field.id)
            .and_then(|column| column.pages.get(self.batch))
            .ok_or_else(|| {
                self.reader.directory.corrupt(
                    format!("column `{}` has no page {}", field.name, self.batch),
                    None,
                )
            })
    }

    fn source<'s>(&'s self, entry: &'s PageEntry) -> CheckedSource<'s> {
        CheckedSource::new(&self.segments, entry.coverage.iter())
    }

    /// The rows that are asked for are in the batch: a page that does not have them contradicts the directory.
    fn failed(&self, path: &str, error: PageError) -> Error {
        let error = match error {
            PageError::InvalidInput { message } => PageError::Corrupt {
                what: message,
                position: None,
            },
            other => other,
        };
        Error::page(self.reader.path(), path, error)
    }

    /// Pages never share bytes, so together they are no larger than the file. Without this a small file could name one page
    /// as that of thousands of columns, and each would take memory of its own.
    fn check_pages(&self, fields: &[Field]) -> Result<()> {
        let mut total = 0_u64;
        for field in fields.iter().flat_map(Field::walk) {
            let length = self.entry(field)?.page.length;
            let layout =
                Layout::of(&field.data_type).map_err(|error| self.failed(&field.name, error))?;
            total = total.saturating_add(match layout {
                Layout::Fixed(fixed) => match fixed.item_bytes {
                    Some(bytes) => length.saturating_mul(bytes.saturating_mul(fixed.items)),
                    None => length.saturating_mul(fixed.items) / 8,
                },
                Layout::Keys { width } => length.saturating_mul(width),
                Layout::Var { .. } | Layout::Offsets { large: true } => length.saturating_mul(8),
                Layout::Offsets { large: false } => length.saturating_mul(4),
                Layout::Null | Layout::Struct | Layout::Items { .. } => 0,
            });
        }
        if total > self.reader.num_bytes() {
            let names: Vec<_> = fields.iter().take(3).map(|f| f.name.as_str()).collect();
            let what = format!(
                "columns `{}`: pages of {total} bytes overlap or leave the file",
                names.join("`, `")
            );
            return Err(self.reader.directory.corrupt(what, None));
        }
        Ok(())
    }

    /// Brings the bytes that decoding will ask for.
    async fn fetch(&mut self, fields: &[Field], rows: &Rows) -> Result<()> {
        let file = &self.reader.directory.file;
        let mapped = file.mapped();
        if let Some(whole) = mapped {
            let streams = rows.is_single_range() && self.span(fields, rows) >= STREAM;
            if streams && self.reader.stays_mapped {
                fields
                    .iter()
                    .try_for_each(|field| self.make_resident(field))?;
            }
            if !streams || self.reader.stays_mapped {
                self.segments = Segments::new([(0, Buffer::from(whole.clone()))]);
                return Ok(());
            }
        }
        let mut fetched: Vec<(u64, Buffer)> = Vec::new();
        loop {
            let mut wanted = Vec::new();
            for field in fields {
                self.plan(field, &field.name, rows, &mut wanted)?;
            }
            wanted.retain(|range| !range.is_empty() && self.segments.slice(range.clone()).is_err());
            if wanted.is_empty() {
                return Ok(());
            }
            let wanted = joined(wanted);
            let bytes: Vec<Bytes> = if mapped.is_some() {
                let map = |range: &Range<u64>| file.read_mapped(range.clone()).transpose();
                wanted
                    .iter()
                    .map(map)
                    .collect::<std::result::Result<Option<Vec<_>>, _>>()?
                    .unwrap_or_default()
            } else {
                file.read_ranges(&wanted).await?
            };
            fetched.extend(
                wanted
                    .iter()
                    .zip(bytes)
                    .map(|(range, bytes)| (range.start, bytes.into())),
            );
            self.segments = Segments::new(fetched.iter().cloned());
        }
    }

    /// Brings pages into the mapping, each once: a disk that cannot be read is an error here, and a signal later.
    fn make_resident(&self, field: &Field) -> Result<()> {
        for node in field.walk() {
            let entry = self.entry(node)?;
            if entry.coverage.is_empty() || entry.is_resident.swap(true, Ordering::Relaxed) {
                continue;
            }
            for coverage in &entry.coverage {
                self.reader
                    .directory
                    .file
                    .prefetch(coverage.range.clone())?;
            }
        }
        Ok(())
    }

    /// About how many bytes the fixed parts of these rows take.
    fn span(&self, fields: &[Field], rows: &Rows) -> u64 {
        let mut planned = Vec::new();
        for field in fields {
            if let Ok(entry) = self.entry(field) {
                // What does not plan fails when it is decoded, with its reason.
                let _ = plan_fixed(&field.data_type, &entry.page, rows, &mut planned);
            }
        }
        planned.iter().map(|range| range.end - range.start).sum()
    }

    /// The bytes of one node and of those below it, as far as the offsets at hand tell.
    fn plan(
        &self,
        field: &Field,
        path: &str,
        rows: &Rows,
        wanted: &mut Vec<Range<u64>>,
    ) -> Result<()> {
        let entry = self.entry(field)?;
        let source = self.source(entry);
        let failed = |error| self.failed(path, error);
        let from = wanted.len();
        let page_rows = self.page_rows(field, entry);
        plan_validity(&entry.validity, &field.data_type, page_rows, rows, wanted)
            .map_err(failed)?;
        plan_fixed(&field.data_type, &entry.page, rows, wanted).map_err(failed)?;
        pending(plan_bytes(
            &field.data_type,
            &entry.page,
            rows,
            &source,
            wanted,
        ))
        .map_err(failed)?;
        widen(wanted, from, entry);
        let child_rows = match Layout::of(&field.data_type).map_err(failed)? {
            Layout::Struct => Some(rows.clone()),
            Layout::Items { size } => Some(rows.times(size).map_err(failed)?),
            Layout::Offsets { .. } => self.child_rows(field, path, entry, rows, &source)?,
            _ => return Ok(()),
        };
        if let Some(rows) = child_rows {
            for child in &field.children {
                self.plan(child, &format!("{path}.{}", child.name), &rows, wanted)?;
            }
        }
        Ok(())
    }

    /// The rows of a list's child, once the offsets are at hand.
    fn child_rows(
        &self,
        field: &Field,
        path: &str,
        entry: &PageEntry,
        rows: &Rows,
        source: &CheckedSource<'_>,
    ) -> Result<Option<Rows>> {
        let child_length = self.child_length(field)?;
        let page_rows = self.page_rows(field, entry);
        match decode_list_offsets(
            &field.to_arrow(),
            &entry.page,
            page_rows,
            child_length,
            &entry.validity,
            rows,
            source,
        ) {
            Ok(offsets) => Ok(Some(offsets.child_rows)),
            Err(PageError::Missing(_)) => Ok(None),
            Err(error) => Err(self.failed(path, error)),
        }
    }

    /// Values in the child page of a list.
    fn child_length(&self, field: &Field) -> Result<u64> {
        let Some(child) = field.children.first() else {
            return Ok(0);
        };
        Ok(self.page_rows(child, self.entry(child)?))
    }

    /// Rows of a node's page, by the page table.
    fn page_rows(&self, field: &Field, entry: &PageEntry) -> u64 {
        match Layout::of(&field.data_type) {
            Ok(Layout::Offsets { .. }) => entry.page.length.saturating_sub(1),
            // The pair of a struct with members is (0, 0): they tell.
            Ok(Layout::Struct) => match field.children.first() {
                Some(child) => self
                    .entry(child)
                    .map_or(0, |entry| self.page_rows(child, entry)),
                None => entry.page.length,
            },
            _ => entry.page.length,
        }
    }

    fn item<'f>(&self, field: &'f Field, path: &str) -> Result<&'f Field> {
        field.children.first().ok_or_else(|| {
            self.reader
                .directory
                .corrupt(format!("list `{path}` has no item"), None)
        })
    }

    fn decode(&self, field: &Field, path: &str, rows: &Rows, num_rows: u64) -> Result<ArrayRef> {
        let entry = self.entry(field)?;
        let page_rows = self.page_rows(field, entry);
        if page_rows != num_rows {
            let what = format!(
                "column `{path}`: a page of {page_rows} rows where the batch has {num_rows}"
            );
            return Err(self.reader.directory.corrupt(what, entry.page.position));
        }
        let source = self.source(entry);
        let failed = |error| self.failed(path, error);
        let selected = usize::try_from(rows.len()).unwrap_or(usize::MAX);
        match Layout::of(&field.data_type).map_err(failed)? {
            Layout::Struct => {
                let children = field
                    .children
                    .iter()
                    .map(|child| {
                        self.decode(child, &format!("{path}.{}", child.name), rows, num_rows)
                    })
                    .collect::<Result<Vec<_>>>()?;
                let nulls =
                    decode_nulls(&field.to_arrow(), num_rows, &entry.validity, rows, &source)
                        .map_err(failed)?;
                assemble_struct(&field.data_type, children, nulls, selected).map_err(failed)
            }
            Layout::Items { size } => {
                let child = self.item(field, path)?;
                let num_items = num_rows.checked_mul(size).ok_or_else(|| {
                    let what = format!("column `{path}`: {num_rows} lists of {size} items");
                    self.reader.directory.corrupt(what, None)
                })?;
                let item_rows = rows.times(size).map_err(failed)?;
                let path = format!("{path}.{}", child.name);
                let items = self.decode(child, &path, &item_rows, num_items)?;
                let nulls =
                    decode_nulls(&field.to_arrow(), num_rows, &entry.validity, rows, &source)
                        .map_err(failed)?;
                assemble_items(&field.data_type, items, nulls, selected).map_err(failed)
            }
            Layout::Offsets { .. } => {
                let child_length = self.child_length(field)?;
                let offsets = decode_list_offsets(
                    &field.to_arrow(),
                    &entry.page,
                    page_rows,
                    child_length,
                    &entry.validity,
                    rows,
                    &source,
                )
                .map_err(failed)?;
                let child = self.item(field, path)?;
                let path = format!("{path}.{}", child.name);
                let values = self.decode(child, &path, &offsets.child_rows, child_length)?;
                assemble_list(&field.data_type, offsets, values).map_err(failed)
            }
            Layout::Keys { .. } => {
                let keys = decode_page(
                    &field.to_arrow(),
                    &entry.page,
                    page_rows,
                    &entry.validity,
                    rows,
                    &source,
                )
                .map_err(failed)?;
                let values = self.dictionaries.get(&field.id).ok_or_else(|| {
                    self.reader
                        .directory
                        .corrupt(format!("column `{path}`: no dictionary values"), None)
                })?;
                assemble_dictionary(&keys, Arc::clone(values), &field.data_type).map_err(failed)
            }
            _ => decode_page(
                &field.to_arrow(),
                &entry.page,
                page_rows,
                &entry.validity,
                rows,
                &source,
            )
            .map_err(failed),
        }
    }
}

/// Offsets that are not there yet are no error while planning: the next round has them.
fn pending(planned: std::result::Result<(), PageError>) -> std::result::Result<(), PageError> {
    match planned {
        Err(PageError::Missing(_)) => Ok(()),
        other => other,
    }
}

/// Widens the ranges from number `from` on to the blocks that their verification needs, and asks for the checksums of those.
fn widen(ranges: &mut Vec<Range<u64>>, from: usize, entry: &PageEntry) {
    for index in from..ranges.len() {
        let range = &mut ranges[index];
        let covering = |coverage: &&Coverage| coverage.covers(range);
        if let Some(coverage) = entry.coverage.iter().find(covering) {
            let checksums = coverage.checksums_of(range).filter(|_| !range.is_empty());
            *range = coverage.blocks_around(range);
            ranges.extend(checksums);
        }
    }
}

/// Sorts ranges and joins those that overlap or lie close together.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(JOIN) => {
                last.end = last.end.max(range.end)
            }
            _ => joined.push(range),
        }
    }
    joined
}
