//! The directory of a data file: footer, Metadata, page table, extension block (`docs/format.md`, sections 2 and 6). Every
//! position is checked before it is used.

mod fetched;

use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pilum_encoding::{PageSource, Segments, crc32c};
use pilum_format::message_size as shape;
use pilum_format::proto::{file as proto, pilum};
use pilum_format::{Shape, contents, without_fields};
use pilum_store::ReadAt;
use prost::Message;

use crate::checked::{CheckedSource, Checksums, Coverage};
use crate::error::{Error, Result};
use crate::footer::{EXTENSION_VERSION, FOOTER_LEN, MAGIC, PAGE_TABLE_PAIR};
use crate::ranges::joined;
pub(crate) use fetched::Fetched;

use fetched::cut;

/// Bytes fetched with the footer: enough for the directory of most files in one request.
const TAIL: u64 = 64 << 10;

/// A message whose position and length stand in another one is fetched in one request up to this size. A longer one may be a
/// hostile claim: its own length prefix is read first.
const MAX_PREFETCH: u64 = 16 << 20;

/// Memory that one structure of a file may take in addition to the size of the file. A reader holds at most three such
/// structures at one time, and a schema takes twice as much again once it is typed; all of it stays below four times the file
/// and 64 MiB.
const EXTRA_BYTES: u64 = 12 << 20;

/// Number of the field `Metadata.statistics`.
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
    /// The encoded `StatisticsMetadata`: four fields for a column, decoded for the columns that are asked for. In a mapped
    /// file, [`prefetch_end`](Self::prefetch_end) first.
    pub(crate) statistics: Option<Bytes>,
    pub(crate) manifest_position: u64,
    pub(crate) extension: Option<pilum::Extension>,
    /// Position of Metadata: no other structure may reach beyond it.
    pub(crate) end: u64,
    pub(crate) verify: bool,
    /// The last bytes of the file, fetched with the footer.
    tail: Bytes,
    tail_start: u64,
}

impl Directory {
    /// Reads the directory from the end of the file.
    pub(crate) async fn open(
        file: Arc<dyn ReadAt>,
        verify: bool,
        metadata_crc32c: Option<u32>,
    ) -> Result<Self> {
        let tail = file.read_tail(TAIL).await?;
        let footer_start = file.size().saturating_sub(FOOTER_LEN as u64);
        let position = parse_footer(file.as_ref(), &tail)?;
        let mut directory = Self {
            path: file.path().to_owned(),
            batch_offsets: vec![0],
            page_table_position: 0,
            statistics: None,
            manifest_position: 0,
            extension: None,
            end: footer_start,
            verify,
            tail_start: file.size() - tail.len() as u64,
            tail,
            file,
        };
        directory.extend_tail(position..footer_start).await?;
        let message = directory.read_message(position, "Metadata").await?;
        if verify && metadata_crc32c.is_some_and(|expected| expected != crc32c(&message)) {
            return Err(directory.corrupt("Metadata fails its checksum", position));
        }
        directory.end = position;
        let extension = directory.set_metadata(&message)?;
        if let Some(pointer) = extension {
            directory.read_extension(&pointer).await?;
        }
        Ok(directory)
    }

    /// Takes over what the Metadata message says; returns where the extension block is.
    fn set_metadata(&mut self, message: &Bytes) -> Result<Option<pilum::ExtensionPointer>> {
        let position = self.end;
        let damaged = |error: &dyn Display| self.corrupt(format!("Metadata: {error}"), position);
        self.check_shape(&shape::METADATA, message, "Metadata", position)?;
        let rest = without_fields(message, &[STATISTICS]).map_err(|error| damaged(&error))?;
        let metadata = proto::Metadata::decode(rest.as_slice()).map_err(|error| damaged(&error))?;
        let statistics = contents(message, STATISTICS)
            .last()
            .transpose()
            .map_err(|error| damaged(&error))?;
        self.page_table_position = metadata.page_table_position;
        self.manifest_position = metadata.manifest_position;
        self.statistics = statistics.map(|range| message.slice(range));
        self.set_batches(&metadata.batch_offsets)?;
        Ok(metadata.extension)
    }

    pub(crate) fn corrupt(
        &self,
        what: impl Into<String>,
        position: impl Into<Option<u64>>,
    ) -> Error {
        Error::corrupt(&self.path, what, position)
    }

    pub(crate) fn unsupported(&self, feature: impl Into<String>) -> Error {
        Error::Unsupported {
            path: self.path.clone(),
            feature: feature.into(),
        }
    }

    /// Refuses a structure that takes more memory than one structure of this file may.
    pub(crate) fn check_memory(&self, num_bytes: u64, what: &str) -> Result<()> {
        let limit = self.file.size().saturating_add(EXTRA_BYTES);
        if num_bytes <= limit {
            return Ok(());
        }
        Err(Error::Limit {
            path: self.path.clone(),
            what: format!(
                "{what} takes {num_bytes} bytes of memory, more than the {limit} for a file of {} bytes",
                self.file.size()
            ),
        })
    }

    /// Refuses a message that would take more memory than it may, before it is decoded.
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

    /// Memory that the directory takes, without bytes that lie in a mapping.
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
        if (rest.len() as u64).saturating_mul(PAGE_TABLE_PAIR) > self.file.size() {
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
        let mut fetched = Fetched::NONE;
        if end <= self.end && pointer.length <= MAX_PREFETCH {
            let message = pointer.position..end;
            self.prefetch(vec![message], &mut fetched).await?;
        }
        let what = "the extension block";
        let message = self
            .read_message_of(pointer.position, what, &fetched)
            .await?;
        let damaged = message.len() as u64 != pointer.length || crc32c(&message) != pointer.crc32c;
        if damaged {
            return Err(self.corrupt("the extension block fails its checksum", pointer.position));
        }
        self.check_shape(&shape::EXTENSION, &message, what, pointer.position)?;
        let extension = pilum::Extension::decode(message)
            .map_err(|error| self.corrupt(format!("{what}: {error}"), pointer.position))?;
        if extension.version != EXTENSION_VERSION {
            return Err(self.unsupported(format!(
                "extension version {} (this reader knows {EXTENSION_VERSION})",
                extension.version
            )));
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
        self.read_message_of(position, what, &Fetched::NONE).await
    }

    async fn read_message_of(&self, position: u64, what: &str, fetched: &Fetched) -> Result<Bytes> {
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
        let prefix = self.read(position..after, fetched).await?;
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
        self.read(after..end, fetched).await
    }

    /// Bytes of the file: from its tail or from `fetched` if they are there, else by a request of their own.
    pub(crate) async fn read(&self, range: Range<u64>, fetched: &Fetched) -> Result<Bytes> {
        if let Some(bytes) = self.in_memory(&range, fetched) {
            return Ok(bytes);
        }
        let ranges = [range];
        let mut bytes = self.file.read_ranges(&ranges).await?;
        Ok(bytes.pop().unwrap_or_default())
    }

    fn in_memory(&self, range: &Range<u64>, fetched: &Fetched) -> Option<Bytes> {
        cut(self.tail_start, &self.tail, range).or_else(|| fetched.get(range))
    }

    /// Makes the end of a mapped file, from Metadata or the tail on, safe to touch: since it was read, the file may have been
    /// cut short, or the memory released. Does nothing for other files.
    pub(crate) fn prefetch_end(&self) -> Result<()> {
        let start = self.end.min(self.tail_start);
        Ok(self
            .file
            .prefetch(std::slice::from_ref(&(start..self.file.size())))?)
    }

    /// Fetches the rest of the file's end, from `range` on, if the tail begins behind it: in one request, instead of one for
    /// the length and one for the message.
    async fn extend_tail(&mut self, range: Range<u64>) -> Result<()> {
        let is_known = range.start >= self.tail_start || self.file.mapped().is_some();
        if is_known || range.end.saturating_sub(range.start) > MAX_PREFETCH {
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

    /// Adds the bytes of `ranges` to `fetched`, in as few requests as possible; ranges outside of the file are left out.
    pub(crate) async fn prefetch(
        &self,
        mut ranges: Vec<Range<u64>>,
        fetched: &mut Fetched,
    ) -> Result<()> {
        ranges.retain(|range| range.end <= self.end && self.in_memory(range, fetched).is_none());
        if ranges.is_empty() {
            return Ok(());
        }
        let ranges = joined(ranges);
        let bytes = self.file.read_ranges(&ranges).await?;
        fetched.extend(ranges.iter().map(|range| range.start).zip(bytes));
        Ok(())
    }

    /// Bytes inside an extent, verified; without an extent they are only read.
    pub(crate) async fn read_covered(
        &self,
        extent: Option<&pilum::Extent>,
        range: Range<u64>,
        what: &str,
        fetched: &Fetched,
    ) -> Result<Bytes> {
        if range.start > range.end || range.end > self.end {
            return Err(self.corrupt(
                format!("{what}: bytes {range:?} lie outside the file"),
                range.start,
            ));
        }
        let Some(coverage) = self.coverage(extent) else {
            return self.read(range, fetched).await;
        };
        if !coverage.covers(&range) {
            let what = format!("{what}: bytes {range:?} lie outside {:?}", coverage.range);
            return Err(self.corrupt(what, range.start));
        }
        // The whole extent must lie in the file, not only the blocks that are read: the source below allocates one bit for
        // each of its blocks.
        if coverage.range.end > self.end {
            return Err(self.corrupt(format!("{what} reaches beyond the file"), range.start));
        }
        let blocks = coverage.blocks_around(&range);
        let bytes = self.read(blocks.clone(), fetched).await?;
        let segments = Segments::new([(blocks.start, bytes.clone().into())]);
        let source = CheckedSource::new(&segments, std::iter::once(&coverage));
        source
            .slice(range.clone())
            .map_err(|error| Error::page(&self.path, what, error))?;
        let start = usize::try_from(range.start - blocks.start).unwrap_or(usize::MAX);
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        Ok(bytes.slice(start..start.saturating_add(length)))
    }

    /// Bytes per checksum; `None` if the file has no checksums or the reader wants none verified.
    pub(crate) fn verified_block_size(&self) -> Option<u64> {
        let block_size = u64::from(self.extension.as_ref()?.block_size);
        (self.verify && block_size > 0).then_some(block_size)
    }

    /// The coverage of an extent of the extension block; `None` if nothing is to be verified.
    pub(crate) fn coverage(&self, extent: Option<&pilum::Extent>) -> Option<Coverage> {
        let block_size = self.verified_block_size()?;
        let extent = extent?;
        let end = extent.position.saturating_add(extent.length);
        Some(Coverage {
            range: extent.position..end,
            block_size,
            checksums: Checksums::inline(&extent.block_crc32c),
        })
    }
}

/// The position of Metadata, from a footer that is that of a Lance v1 file.
fn parse_footer(file: &dyn ReadAt, tail: &Bytes) -> Result<u64> {
    let footer = tail
        .len()
        .checked_sub(FOOTER_LEN)
        .map(|start| &tail[start..]);
    let (Some(footer), true) = (footer, tail.ends_with(MAGIC)) else {
        let size = file.size();
        let what =
            format!("no Lance footer at the end of {size} bytes: truncated, or another format");
        return Err(Error::corrupt(file.path(), what, size));
    };
    let major = u16::from_le_bytes([footer[8], footer[9]]);
    let minor = u16::from_le_bytes([footer[10], footer[11]]);
    if major > 0 || minor > 2 {
        return Err(Error::Unsupported {
            path: file.path().to_owned(),
            feature: format!("Lance file version {major}.{minor} (pilum stores version 0.1)"),
        });
    }
    Ok(u64::from_le_bytes(
        footer[..8].try_into().unwrap_or_default(),
    ))
}
