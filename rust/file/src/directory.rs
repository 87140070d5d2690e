//! What a data file says of itself: footer, Metadata, page table, extension block; every position checked before use.

use std::fmt::Display;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use pilum_encoding::{Page, Segments, Validity, crc32c};
use pilum_format::proto::{file as proto, pilum};
use pilum_format::{FieldId, MAX_DEPTH, Shape, contents, message_size as shape, without_fields};
use pilum_store::ReadAt;
use prost::Message;

use crate::checked::{CheckedSource, Checksums, Coverage};
use crate::error::{Error, Result};
use crate::read::joined;
use crate::trailer::{DIRECTORY_ENTRY, EXTENSION_VERSION, FOOTER_LEN, MAGIC};

/// Bytes fetched with the footer: enough for the directory of most files in one request.
const TAIL: u64 = 64 << 10;

/// Messages up to this size are fetched at once, on the word of whoever points at them; longer ones after their length.
const MOST_AHEAD: u64 = 16 << 20;

/// What one structure of a file may take in memory beside the size of the file. A reader has three at most at one time, a
/// schema takes twice as much again once it is typed, and all of it stays below four times the file and 64 MiB.
const FREE_BYTES: u64 = 12 << 20;

/// Number of `Metadata.statistics`.
const STATISTICS: u64 = 5;

/// The sizes of checksum blocks that are read.
const BLOCK_SIZES: std::ops::RangeInclusive<u32> = 64..=1 << 20;

/// The parsed directory of one file.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) file: Arc<dyn ReadAt>,
    pub(crate) path: String,
    /// Running row counts: 0 first.
    pub(crate) batch_offsets: Vec<u64>,
    pub(crate) page_table_position: u64,
    /// The encoded `StatisticsMetadata`: four fields for a column, decoded for the columns that are asked for.
    pub(crate) statistics: Option<Bytes>,
    pub(crate) manifest_position: u64,
    pub(crate) extension: Option<pilum::Extension>,
    /// Where Metadata begins: nothing that it points at lies behind.
    pub(crate) end: u64,
    pub(crate) verify: bool,
    /// The last bytes of the file, fetched with the footer.
    tail: Bytes,
    tail_start: u64,
    /// Other bytes brought for columns about to be opened. Taken with `try_lock` only.
    near: Mutex<Vec<(u64, Bytes)>>,
}

/// The pages of one column.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) pages: Vec<PageEntry>,
    /// Memory that they take.
    pub(crate) num_bytes: u64,
}

/// One page of a column.
#[derive(Debug)]
pub(crate) struct PageEntry {
    /// Set once the page was brought into the mapping of a file that stays mapped.
    pub(crate) is_resident: AtomicBool,
    pub(crate) page: Page,
    pub(crate) validity: Vec<Validity>,
    /// Empty when the file has no checksums or the reader wants none verified.
    pub(crate) coverage: Vec<Coverage>,
}

impl PageEntry {
    /// Memory that it takes.
    fn num_bytes(&self) -> u64 {
        let words = self
            .coverage
            .iter()
            .map(|coverage| match &coverage.checksums {
                Checksums::Inline(words) => size_of_val(words.as_slice()),
                Checksums::Stored { .. } => 0,
            });
        let below = self.coverage.capacity() * size_of::<Coverage>()
            + self.validity.capacity() * size_of::<Validity>();
        (size_of::<Self>() + below + words.sum::<usize>()) as u64
    }
}

impl Directory {
    pub(crate) async fn open(
        file: Arc<dyn ReadAt>,
        verify: bool,
        metadata_crc32c: Option<u32>,
    ) -> Result<Self> {
        let path = file.path().to_owned();
        let size = file.size();
        let tail = file.read_tail(TAIL).await?;
        let tail_start = size - tail.len() as u64;
        let footer = tail
            .len()
            .checked_sub(FOOTER_LEN)
            .map(|start| &tail[start..]);
        let (Some(footer), true) = (footer, tail.ends_with(MAGIC)) else {
            let what =
                format!("no Lance footer at the end of {size} bytes: truncated, or another format");
            return Err(Error::corrupt(&path, what, size));
        };
        let major = u16::from_le_bytes([footer[8], footer[9]]);
        let minor = u16::from_le_bytes([footer[10], footer[11]]);
        if major > 0 || minor > 2 {
            let feature = format!("Lance file version {major}.{minor} (pilum stores version 0.1)");
            return Err(Error::Unsupported {
                file: path,
                feature,
            });
        }
        let footer_start = size - FOOTER_LEN as u64;
        let position = u64::from_le_bytes(footer[..8].try_into().unwrap_or_default());
        let mut directory = Self {
            file,
            path,
            batch_offsets: vec![0],
            page_table_position: 0,
            statistics: None,
            manifest_position: 0,
            extension: None,
            end: footer_start,
            verify,
            tail,
            tail_start,
            near: Mutex::default(),
        };
        directory.bring_tail(position..footer_start).await?;
        let message = directory.read_message(position, "Metadata").await?;
        if verify && metadata_crc32c.is_some_and(|expected| expected != crc32c(&message)) {
            return Err(directory.corrupt("Metadata fails its checksum", position));
        }
        let damaged =
            |error: &dyn Display| directory.corrupt(format!("Metadata: {error}"), position);
        directory.check_shape(&shape::METADATA, &message, "Metadata", position)?;
        let rest = without_fields(&message, &[STATISTICS]).map_err(|error| damaged(&error))?;
        let metadata = proto::Metadata::decode(rest.as_slice()).map_err(|error| damaged(&error))?;
        let statistics = contents(&message, STATISTICS)
            .last()
            .transpose()
            .map_err(|error| damaged(&error))?;
        directory.end = position;
        directory.page_table_position = metadata.page_table_position;
        directory.manifest_position = metadata.manifest_position;
        directory.statistics = statistics.map(|range| message.slice(range));
        directory.set_batches(&metadata.batch_offsets)?;
        if let Some(pointer) = metadata.extension {
            directory.read_extension(&pointer).await?;
        }
        Ok(directory)
    }

    pub(crate) fn corrupt(
        &self,
        what: impl Into<String>,
        position: impl Into<Option<u64>>,
    ) -> Error {
        Error::corrupt(&self.path, what, position)
    }

    /// Refuses what takes more memory than a structure of this file may.
    pub(crate) fn check_memory(&self, num_bytes: u64, what: &str) -> Result<()> {
        let limit = self.file.size().saturating_add(FREE_BYTES);
        if num_bytes <= limit {
            return Ok(());
        }
        Err(Error::Limit {
            file: self.path.clone(),
            what: format!(
                "{what} takes {num_bytes} bytes of memory, more than the {limit} for a file of {} bytes",
                self.file.size()
            ),
        })
    }

    /// Refuses a message that unpacks to more than it may, before it is decoded.
    pub(crate) fn check_shape(
        &self,
        shape: &Shape,
        message: &[u8],
        what: &str,
        position: u64,
    ) -> Result<()> {
        let num_bytes = shape.num_bytes(message);
        let num_bytes =
            num_bytes.map_err(|error| self.corrupt(format!("{what}: {error}"), position))?;
        self.check_memory(num_bytes, what)
    }

    /// Memory that it takes; what lies in a mapping is not counted.
    pub(crate) fn num_bytes_held(&self) -> u64 {
        let fetched = match self.file.mapped() {
            Some(_) => 0,
            None => self.tail.len() + self.statistics.as_ref().map_or(0, Bytes::len),
        };
        let extension = self.extension.as_ref().map_or(0, Message::encoded_len);
        let offsets = size_of_val(self.batch_offsets.as_slice());
        (fetched + 2 * extension + offsets + size_of::<Self>()) as u64
    }

    pub(crate) fn num_batches(&self) -> usize {
        self.batch_offsets.len() - 1
    }

    pub(crate) fn num_rows(&self) -> u64 {
        self.batch_offsets.last().copied().unwrap_or(0)
    }

    pub(crate) fn batch_rows(&self, batch: usize) -> Range<u64> {
        match self.batch_offsets.get(batch..batch + 2) {
            Some(&[start, end]) => start..end,
            _ => 0..0,
        }
    }

    fn set_batches(&mut self, offsets: &[i32]) -> Result<()> {
        let Some((&first, rest)) = offsets.split_first() else {
            return Ok(());
        };
        if first != 0 {
            return Err(self.corrupt(format!("batch offsets begin with {first}, not 0"), None));
        }
        // Every batch has a pair in the page table.
        if (rest.len() as u64).saturating_mul(16) > self.file.size() {
            let what = format!(
                "{} batches in a file of {} bytes",
                rest.len(),
                self.file.size()
            );
            return Err(self.corrupt(what, None));
        }
        self.batch_offsets.reserve_exact(rest.len());
        let mut last = 0;
        for &offset in rest {
            let offset = u64::try_from(offset).ok().filter(|&offset| offset >= last);
            let Some(offset) = offset else {
                return Err(self.corrupt("batch offsets do not ascend", None));
            };
            self.batch_offsets.push(offset);
            last = offset;
        }
        Ok(())
    }

    async fn read_extension(&mut self, pointer: &pilum::ExtensionPointer) -> Result<()> {
        let end = pointer
            .position
            .saturating_add(pointer.length)
            .saturating_add(4);
        if end <= self.end && pointer.length <= MOST_AHEAD {
            let message = pointer.position..end;
            self.bring(vec![message]).await?;
        }
        let message = self
            .read_message(pointer.position, "the extension block")
            .await?;
        self.let_go();
        let damaged = message.len() as u64 != pointer.length || crc32c(&message) != pointer.crc32c;
        if damaged {
            return Err(self.corrupt("the extension block fails its checksum", pointer.position));
        }
        self.check_shape(
            &shape::EXTENSION,
            &message,
            "the extension block",
            pointer.position,
        )?;
        let extension = pilum::Extension::decode(message).map_err(|error| {
            self.corrupt(format!("the extension block: {error}"), pointer.position)
        })?;
        if extension.version != EXTENSION_VERSION {
            let feature = format!(
                "extension version {} (this reader knows {EXTENSION_VERSION})",
                extension.version
            );
            return Err(Error::Unsupported {
                file: self.path.clone(),
                feature,
            });
        }
        if extension.block_size != 0 && !BLOCK_SIZES.contains(&extension.block_size) {
            let what = format!("checksum blocks of {} bytes", extension.block_size);
            return Err(self.corrupt(what, pointer.position));
        }
        self.extension = Some(extension);
        Ok(())
    }

    /// A length-prefixed message, whole inside the file and before its end.
    pub(crate) async fn read_message(&self, position: u64, what: &str) -> Result<Bytes> {
        let after = position.checked_add(4).filter(|&after| after <= self.end);
        let after = after.ok_or_else(|| {
            self.corrupt(
                format!(
                    "{what} at byte {position} of a file of {} bytes",
                    self.file.size()
                ),
                None,
            )
        })?;
        let prefix = self.read(position..after).await?;
        let length = u64::from(u32::from_le_bytes(
            prefix.as_ref().try_into().unwrap_or_default(),
        ));
        let end = after.checked_add(length).filter(|&end| end <= self.end);
        let end = end.ok_or_else(|| {
            self.corrupt(
                format!("{what} of {length} bytes reaches beyond the file"),
                position,
            )
        })?;
        self.read(after..end).await
    }

    /// Bytes of the file, from those at hand when they are there.
    pub(crate) async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        if let Some(bytes) = self.at_hand(&range) {
            return Ok(bytes);
        }
        let ranges = [range];
        let mut bytes = self.file.read_ranges(&ranges).await?;
        Ok(bytes.pop().unwrap_or_default())
    }

    fn at_hand(&self, range: &Range<u64>) -> Option<Bytes> {
        let cut = |start: u64, bytes: &Bytes| {
            let from = usize::try_from(range.start.checked_sub(start)?).ok()?;
            let to = usize::try_from(range.end.checked_sub(start)?).ok()?;
            (from <= to && to <= bytes.len()).then(|| bytes.slice(from..to))
        };
        let brought = || {
            let near = self.near.try_lock().ok()?;
            near.iter().find_map(|(start, bytes)| cut(*start, bytes))
        };
        cut(self.tail_start, &self.tail).or_else(brought)
    }

    /// Fetches what [`column`](Self::column) will read of some rows of the page table, in two requests for all of them. They
    /// stay at hand until [`let_go`](Self::let_go).
    pub(crate) async fn bring_columns(&self, rows: &[u64]) -> Result<()> {
        let width = 16 * self.num_batches() as u64;
        let extension = self.extension.as_ref();
        let table = extension.and_then(|extension| extension.page_table.as_ref());
        let directory = extension.and_then(|extension| extension.directory.as_ref());
        let part = |origin: u64, row: u64, width: u64, extent: Option<&pilum::Extent>| {
            let start = row.checked_mul(width)?.checked_add(origin)?;
            let range = start..start.checked_add(width)?;
            match self.coverage(extent) {
                Some(coverage) if coverage.covers(&range) => Some(coverage.blocks_around(&range)),
                Some(_) => None,
                None => Some(range),
            }
        };
        let mut wanted: Vec<Range<u64>> = Vec::new();
        for &row in rows {
            wanted.extend(part(self.page_table_position, row, width, table));
            if let Some(directory) = directory {
                let entry = DIRECTORY_ENTRY as u64;
                wanted.extend(part(directory.position, row, entry, Some(directory)));
            }
        }
        self.bring(wanted).await?;
        let mut records = Vec::new();
        for &row in rows {
            // What is damaged says so when the column is opened.
            if let Ok(Some((record, _))) = self.record_place(row, "a column").await {
                records.push(record);
            }
        }
        self.bring(records).await
    }

    /// Fetches the rest of the file's end, from `range` on, where the first request brought too little: once, instead of
    /// length by length.
    async fn bring_tail(&mut self, range: Range<u64>) -> Result<()> {
        let is_known = range.start >= self.tail_start || self.file.mapped().is_some();
        if is_known || range.end.saturating_sub(range.start) > MOST_AHEAD {
            return Ok(());
        }
        let before = range.start..self.tail_start;
        let ranges = [before];
        let mut bytes = self.file.read_ranges(&ranges).await?;
        let mut tail = Vec::from(bytes.pop().unwrap_or_default());
        tail.extend_from_slice(&self.tail);
        self.tail = tail.into();
        self.tail_start = range.start;
        Ok(())
    }

    async fn bring(&self, mut ranges: Vec<Range<u64>>) -> Result<()> {
        ranges.retain(|range| range.end <= self.end && self.at_hand(range).is_none());
        if ranges.is_empty() {
            return Ok(());
        }
        let ranges = joined(ranges);
        let bytes = self.file.read_ranges(&ranges).await?;
        if let Ok(mut near) = self.near.try_lock() {
            near.extend(ranges.iter().map(|range| range.start).zip(bytes));
        }
        Ok(())
    }

    /// Forgets what was brought.
    pub(crate) fn let_go(&self) {
        if let Ok(mut near) = self.near.try_lock() {
            near.clear();
        }
    }

    /// Bytes inside an extent, verified; without an extent they are only read.
    pub(crate) async fn read_covered(
        &self,
        extent: Option<&pilum::Extent>,
        range: Range<u64>,
        what: &str,
    ) -> Result<Bytes> {
        if range.start > range.end || range.end > self.end {
            return Err(self.corrupt(
                format!("{what}: bytes {range:?} lie outside the file"),
                range.start,
            ));
        }
        let Some(coverage) = self.coverage(extent) else {
            return self.read(range).await;
        };
        if !coverage.covers(&range) {
            let what = format!("{what}: bytes {range:?} lie outside {:?}", coverage.range);
            return Err(self.corrupt(what, range.start));
        }
        // Of the whole extent, not of the blocks that are read: which of its blocks passed is noted in a bit for each.
        if coverage.range.end > self.end {
            return Err(self.corrupt(format!("{what} reaches beyond the file"), range.start));
        }
        let blocks = coverage.blocks_around(&range);
        let bytes = self.read(blocks.clone()).await?;
        let segments = Segments::new([(blocks.start, bytes.clone().into())]);
        let source = CheckedSource::new(&segments, std::iter::once(&coverage));
        pilum_encoding::PageSource::slice(&source, range.clone())
            .map_err(|error| Error::page(&self.path, what, error))?;
        let start = usize::try_from(range.start - blocks.start).unwrap_or(usize::MAX);
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        Ok(bytes.slice(start..start.saturating_add(length)))
    }

    /// The coverage of an extent that stands whole in the extension block; none when nothing is to be verified.
    fn coverage(&self, extent: Option<&pilum::Extent>) -> Option<Coverage> {
        let block_size = u64::from(self.extension.as_ref()?.block_size);
        if !self.verify || block_size == 0 {
            return None;
        }
        let extent = extent?;
        let end = extent.position.saturating_add(extent.length);
        Some(Coverage {
            range: extent.position..end,
            block_size,
            checksums: Checksums::inline(&extent.block_crc32c),
        })
    }

    /// The pages of one column: its row of the page table and its record in the extension block.
    ///
    /// `first_id` is the origin of the page table.
    pub(crate) async fn column(
        &self,
        first_id: FieldId,
        id: FieldId,
        name: &str,
    ) -> Result<Column> {
        let row = u64::try_from(i64::from(id) - i64::from(first_id)).map_err(|_| {
            self.corrupt(format!("column `{name}`: field {id} precedes the page table, which begins at {first_id}"), None)
        })?;
        let width = 16 * self.num_batches() as u64;
        let start = row
            .checked_mul(width)
            .and_then(|skip| skip.checked_add(self.page_table_position));
        let end = start.and_then(|start| start.checked_add(width));
        let (Some(start), Some(end)) = (start, end) else {
            return Err(self.corrupt(
                format!("column `{name}`: no row {row} in the page table"),
                None,
            ));
        };
        let record = self.column_record(row, name).await?;
        let extent = self
            .extension
            .as_ref()
            .and_then(|extension| extension.page_table.as_ref());
        // A trailing struct owns no page, and its row of the table is not written.
        let in_table =
            extent.is_none_or(|extent| end <= extent.position.saturating_add(extent.length));
        let pairs = if in_table && end <= self.end {
            self.read_covered(extent, start..end, &format!("page table of `{name}`"))
                .await?
        } else if record.is_some() {
            Bytes::from(vec![0_u8; usize::try_from(width).unwrap_or(0)])
        } else {
            return Err(self.corrupt(
                format!("column `{name}`: row {row} lies outside the page table"),
                start,
            ));
        };
        let mut pages = Vec::with_capacity(self.num_batches());
        let mut num_bytes = 0_u64;
        for (batch, pair) in pairs.chunks_exact(16).enumerate() {
            let (position, length) = pair.split_at(8);
            let word = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap_or_default());
            let (Ok(position), Ok(length)) =
                (u64::try_from(word(position)), u64::try_from(word(length)))
            else {
                let what = format!("column `{name}`, page {batch}: negative position or length");
                return Err(self.corrupt(what, start));
            };
            let mut entry = PageEntry {
                page: Page { position, length },
                validity: Vec::new(),
                coverage: Vec::new(),
                is_resident: AtomicBool::new(false),
            };
            if let Some(page) = record.as_ref().and_then(|record| record.pages.get(batch)) {
                self.extend(&mut entry, page, &format!("column `{name}`, page {batch}"))?;
            }
            num_bytes = num_bytes.saturating_add(entry.num_bytes());
            pages.push(entry);
        }
        Ok(Column { pages, num_bytes })
    }

    /// Where the extension block has what it says of one column, and the CRC-32C of that.
    async fn record_place(&self, row: u64, name: &str) -> Result<Option<(Range<u64>, u32)>> {
        let Some(directory) = self
            .extension
            .as_ref()
            .and_then(|extension| extension.directory.as_ref())
        else {
            return Ok(None);
        };
        let what = format!("column directory of `{name}`");
        let start = row
            .checked_mul(DIRECTORY_ENTRY as u64)
            .filter(|start| *start < directory.length);
        let start = start.and_then(|start| start.checked_add(directory.position));
        let end = start.and_then(|start| start.checked_add(DIRECTORY_ENTRY as u64));
        let (Some(start), Some(end)) = (start, end) else {
            return Ok(None);
        };
        let entry = self
            .read_covered(Some(directory), start..end, &what)
            .await?;
        let position = u64::from_le_bytes(entry[..8].try_into().unwrap_or_default());
        let length = u64::from(u32::from_le_bytes(
            entry[8..12].try_into().unwrap_or_default(),
        ));
        let expected = u32::from_le_bytes(entry[12..].try_into().unwrap_or_default());
        if length == 0 {
            return Ok(None);
        }
        let end = position.checked_add(length).filter(|&end| end <= self.end);
        let end =
            end.ok_or_else(|| self.corrupt(format!("{what} points outside the file"), position))?;
        Ok(Some((position..end, expected)))
    }

    /// What the extension block says of one column.
    pub(crate) async fn column_record(
        &self,
        row: u64,
        name: &str,
    ) -> Result<Option<pilum::ColumnExtension>> {
        let Some((place, expected)) = self.record_place(row, name).await? else {
            return Ok(None);
        };
        let (position, end) = (place.start, place.end);
        let what = format!("column directory of `{name}`");
        let record = self.read(position..end).await?;
        if crc32c(&record) != expected {
            return Err(self.corrupt(format!("{what} fails its checksum"), position));
        }
        self.check_shape(&shape::COLUMN, &record, &what, position)?;
        let record = pilum::ColumnExtension::decode(record)
            .map_err(|error| self.corrupt(format!("{what}: {error}"), position))?;
        if record.pages.len() != self.num_batches() {
            let pages = record.pages.len();
            return Err(self.corrupt(
                format!("{what} has {pages} pages, the file {}", self.num_batches()),
                position,
            ));
        }
        Ok(Some(record))
    }

    /// Puts validity and checksums on a page.
    fn extend(&self, entry: &mut PageEntry, page: &pilum::PageExtension, what: &str) -> Result<()> {
        if page.encoding != 0 {
            let feature = format!("{what}: page encoding {}", page.encoding);
            return Err(Error::Unsupported {
                file: self.path.clone(),
                feature,
            });
        }
        if page.validity.len() > MAX_DEPTH {
            let levels = page.validity.len();
            return Err(self.corrupt(format!("{what}: {levels} levels of validity"), None));
        }
        entry.validity.reserve_exact(page.validity.len());
        entry.coverage.reserve_exact(1);
        let block_size = u64::from(
            self.extension
                .as_ref()
                .map_or(0, |extension| extension.block_size),
        );
        let verify = self.verify && block_size > 0;
        let range = |position: u64, length: u64| {
            let end = position.checked_add(length).filter(|&end| end <= self.end);
            end.map(|end| position..end)
                .ok_or_else(|| self.corrupt(format!("{what} reaches beyond the file"), position))
        };
        if verify && page.length > 0 {
            let mut coverage = Coverage {
                range: range(page.position, page.length)?,
                block_size,
                checksums: Checksums::inline(&[]),
            };
            let words = range(
                page.checksums_position,
                coverage.num_blocks().saturating_mul(4),
            )?;
            coverage.checksums = Checksums::Stored {
                range: words,
                crc32c: page.checksums_crc32c,
            };
            entry.coverage.push(coverage);
        }
        for level in &page.validity {
            use pilum::validity::Kind;
            entry.validity.push(match Kind::try_from(level.kind) {
                Ok(Kind::V1) => Validity::V1,
                Ok(Kind::AllValid) => Validity::AllValid,
                Ok(Kind::AllNull) => Validity::AllNull,
                Ok(Kind::Bitmap) => {
                    let extent = level.bitmap.as_ref();
                    let extent = extent.ok_or_else(|| {
                        self.corrupt(format!("{what}: a bitmap without a place"), None)
                    })?;
                    let covered = range(extent.position, extent.length)?;
                    if verify && extent.length > 0 {
                        let checksums = Checksums::inline(&extent.block_crc32c);
                        entry.coverage.push(Coverage {
                            range: covered,
                            block_size,
                            checksums,
                        });
                    }
                    Validity::Bitmap {
                        position: extent.position,
                    }
                }
                Err(_) => {
                    let feature = format!("{what}: validity kind {}", level.kind);
                    return Err(Error::Unsupported {
                        file: self.path.clone(),
                        feature,
                    });
                }
            });
        }
        Ok(())
    }
}
