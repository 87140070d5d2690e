//! The pages of one column: its row of the page table and its record in the extension block (`docs/format.md`, sections 2.2
//! and 6).

use std::ops::Range;

use bytes::Bytes;
use pilum_encoding::{Page, Validity, crc32c};
use pilum_format::message_size as shape;
use pilum_format::proto::pilum;
use pilum_format::{FieldId, MAX_DEPTH};
use prost::Message;

use crate::checked::{Checksums, Coverage};
use crate::directory::{Directory, Fetched};
use crate::error::Result;
use crate::footer::{DIRECTORY_ENTRY, PAGE_TABLE_PAIR};

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
        let vectors = self.coverage.capacity() * size_of::<Coverage>()
            + self.validity.capacity() * size_of::<Validity>();
        (size_of::<Self>() + vectors + words.sum::<usize>()) as u64
    }
}

impl Directory {
    /// Fetches the bytes that [`column`](Self::column) will read of some rows of the page table, in two requests for all of
    /// them.
    pub(crate) async fn prefetch_columns(&self, rows: &[u64]) -> Result<Fetched> {
        let width = PAGE_TABLE_PAIR * self.num_batches() as u64;
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
        let mut fetched = Fetched::NONE;
        self.prefetch(wanted, &mut fetched).await?;
        let mut records = Vec::new();
        for &row in rows {
            // Damage is reported when the column itself is read.
            if let Ok(Some((record, _))) = self.record_place(row, "a column", &fetched).await {
                records.push(record);
            }
        }
        self.prefetch(records, &mut fetched).await?;
        Ok(fetched)
    }

    /// The pages of one column.
    ///
    /// `first_id` is the origin of the page table. Bytes that are not in `fetched` cost requests of their own.
    pub(crate) async fn column(
        &self,
        first_id: FieldId,
        id: FieldId,
        name: &str,
        fetched: &Fetched,
    ) -> Result<Column> {
        let row = u64::try_from(i64::from(id) - i64::from(first_id)).map_err(|_| {
            let what = format!(
                "column `{name}`: field {id} precedes the page table, which begins at {first_id}"
            );
            self.corrupt(what, None)
        })?;
        let record = self.column_record(row, name, fetched).await?;
        let (start, pairs) = self
            .page_table_row(row, name, record.is_some(), fetched)
            .await?;
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
            };
            if let Some(page) = record.as_ref().and_then(|record| record.pages.get(batch)) {
                self.extend(&mut entry, page, &format!("column `{name}`, page {batch}"))?;
            }
            num_bytes = num_bytes.saturating_add(entry.num_bytes());
            pages.push(entry);
        }
        Ok(Column { pages, num_bytes })
    }

    /// Position and bytes of one row of the page table.
    async fn page_table_row(
        &self,
        row: u64,
        name: &str,
        has_record: bool,
        fetched: &Fetched,
    ) -> Result<(u64, Bytes)> {
        let width = PAGE_TABLE_PAIR * self.num_batches() as u64;
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
        let extent = self
            .extension
            .as_ref()
            .and_then(|extension| extension.page_table.as_ref());
        // The rows of trailing structs, which own no page, are not written.
        let in_table =
            extent.is_none_or(|extent| end <= extent.position.saturating_add(extent.length));
        let pairs = if in_table && end <= self.end {
            let what = format!("page table of `{name}`");
            self.read_covered(extent, start..end, &what, fetched)
                .await?
        } else if has_record {
            Bytes::from(vec![0_u8; usize::try_from(width).unwrap_or(0)])
        } else {
            return Err(self.corrupt(
                format!("column `{name}`: row {row} lies outside the page table"),
                start,
            ));
        };
        Ok((start, pairs))
    }

    /// Where the extension block has the record of one column, and the CRC-32C of that record.
    async fn record_place(
        &self,
        row: u64,
        name: &str,
        fetched: &Fetched,
    ) -> Result<Option<(Range<u64>, u32)>> {
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
            .read_covered(Some(directory), start..end, &what, fetched)
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

    /// The record of one column in the extension block; `None` if it has none.
    pub(crate) async fn column_record(
        &self,
        row: u64,
        name: &str,
        fetched: &Fetched,
    ) -> Result<Option<pilum::ColumnExtension>> {
        let Some((place, expected)) = self.record_place(row, name, fetched).await? else {
            return Ok(None);
        };
        let position = place.start;
        let what = format!("column directory of `{name}`");
        let record = self.read(place, fetched).await?;
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
            return Err(self.unsupported(format!("{what}: page encoding {}", page.encoding)));
        }
        if page.validity.len() > MAX_DEPTH {
            let levels = page.validity.len();
            return Err(self.corrupt(format!("{what}: {levels} levels of validity"), None));
        }
        entry.validity.reserve_exact(page.validity.len());
        entry.coverage.reserve_exact(1);
        if let Some(block_size) = self.verified_block_size()
            && page.length > 0
        {
            let mut coverage = Coverage {
                range: self.range_of(page.position, page.length, what)?,
                block_size,
                checksums: Checksums::inline(&[]),
            };
            let length = coverage.num_blocks().saturating_mul(4);
            coverage.checksums = Checksums::Stored {
                range: self.range_of(page.checksums_position, length, what)?,
                crc32c: page.checksums_crc32c,
            };
            entry.coverage.push(coverage);
        }
        for level in &page.validity {
            self.extend_validity(entry, level, what)?;
        }
        Ok(())
    }

    /// Puts one level of validity on a page, with the checksums of its bitmap.
    fn extend_validity(
        &self,
        entry: &mut PageEntry,
        level: &pilum::Validity,
        what: &str,
    ) -> Result<()> {
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
                let range = self.range_of(extent.position, extent.length, what)?;
                if let Some(block_size) = self.verified_block_size()
                    && extent.length > 0
                {
                    entry.coverage.push(Coverage {
                        range,
                        block_size,
                        checksums: Checksums::inline(&extent.block_crc32c),
                    });
                }
                Validity::Bitmap {
                    position: extent.position,
                }
            }
            Err(_) => {
                return Err(self.unsupported(format!("{what}: validity kind {}", level.kind)));
            }
        });
        Ok(())
    }

    fn range_of(&self, position: u64, length: u64, what: &str) -> Result<Range<u64>> {
        let end = position.checked_add(length).filter(|&end| end <= self.end);
        end.map(|end| position..end)
            .ok_or_else(|| self.corrupt(format!("{what} reaches beyond the file"), position))
    }
}
