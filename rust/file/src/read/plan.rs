//! Which bytes some rows of a batch need. Pure: the caller fetches them.

use std::ops::Range;

use pilum_encoding::{
    Error as PageError, Layout, Rows, Segments, plan_bytes, plan_child_span, plan_fixed,
    plan_validity,
};
use pilum_format::Field;

use super::batch::BatchRead;
use crate::checked::{CheckedSource, Coverage};
use crate::columns::PageEntry;
use crate::error::Result;

/// From this many bytes on, reading rows that lie close together releases the pages of a mapped file again.
const STREAM_BYTES: u64 = 1 << 20;

/// What a prefetch of one small range brings into memory at least: the store prefetches whole blocks of this size.
const PREFETCH_BLOCK: u64 = 64 << 10;

/// Whether the rows are many that lie close together, so that their pages should not stay in memory.
pub(super) fn streams(read: &BatchRead<'_>, fields: &[Field], rows: &Rows) -> bool {
    // Deleted rows leave small gaps: at least half of the rows between the first and the last are wanted.
    let is_dense = rows
        .span()
        .is_some_and(|span| (span.end - span.start) / 2 < rows.len());
    is_dense && read.fixed_bytes(fields, rows) >= STREAM_BYTES
}

impl BatchRead<'_> {
    /// About how many bytes the fixed parts of these rows take.
    fn fixed_bytes(&self, fields: &[Field], rows: &Rows) -> u64 {
        let mut planned = Vec::new();
        for field in fields {
            if let Ok(entry) = self.entry(field) {
                // A plan that fails is reported when the column is decoded.
                let _ = plan_fixed(&field.data_type, &entry.page, rows, &mut planned);
            }
        }
        num_bytes(&planned)
    }

    /// The ranges of one node and of those below it, as far as the offsets fetched so far tell.
    pub(super) fn plan(
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
        self.plan_fixed(field, entry, rows, wanted)
            .map_err(failed)?;
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

    /// The ranges of one page that no offsets of a page tell: values, keys, offsets, validity.
    fn plan_fixed(
        &self,
        field: &Field,
        entry: &PageEntry,
        rows: &Rows,
        wanted: &mut Vec<Range<u64>>,
    ) -> std::result::Result<(), PageError> {
        let page_rows = self.page_rows(field, entry);
        plan_validity(&entry.validity, &field.data_type, page_rows, rows, wanted)?;
        plan_fixed(&field.data_type, &entry.page, rows, wanted)
    }

    /// The rows of a list's child, once the offsets were fetched.
    fn child_rows(
        &self,
        field: &Field,
        path: &str,
        entry: &PageEntry,
        rows: &Rows,
        source: &CheckedSource<'_>,
    ) -> Result<Option<Rows>> {
        match self.list_offsets(field, entry, rows, source)? {
            Ok(offsets) => Ok(Some(offsets.child_rows)),
            Err(PageError::Missing(_)) => Ok(None),
            Err(error) => Err(self.failed(path, error)),
        }
    }
}

/// Offsets that were not fetched yet are no error while planning: the next round has them.
fn pending(planned: std::result::Result<(), PageError>) -> std::result::Result<(), PageError> {
    match planned {
        Err(PageError::Missing(_)) => Ok(()),
        other => other,
    }
}

/// Widens the ranges from number `from` on to the blocks that their verification needs, and adds the checksums of those.
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

fn num_bytes(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// The ranges of a mapped file that decoding will touch, round by round.
///
/// Planned from bytes that are not verified, and more generously than [`BatchRead::plan`]: prefetching a gap costs less than
/// planning around it. A node whose plan fails is left out, because decoding it fails for the same reason before it touches
/// further bytes.
pub(super) struct MappedPlan<'a, 'r> {
    whole: &'a Segments,
    file_size: u64,
    ranges: Vec<Range<u64>>,
    /// Nodes whose offsets are among the ranges of this round: the bytes that they point at belong to the next.
    nodes: Vec<(&'r BatchRead<'a>, &'r Field, Rows)>,
}

impl<'a, 'r> MappedPlan<'a, 'r> {
    pub(super) fn new(whole: &'a Segments, file_size: u64) -> Self {
        Self {
            whole,
            file_size,
            ranges: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// Adds some rows of a batch.
    pub(super) fn add(
        &mut self,
        read: &'r BatchRead<'a>,
        fields: &'r [Field],
        rows: &Rows,
    ) -> Result<()> {
        let of_batch = read.reader.batch_rows(read.batch);
        let is_most = (of_batch.end - of_batch.start) / 2 < rows.len();
        for field in fields {
            if is_most && self.add_pages(read, field)? {
                continue;
            }
            self.add_node(read, field, rows.clone())?;
        }
        Ok(())
    }

    /// The ranges of this round, which the caller prefetches before it calls [`advance`](Self::advance).
    pub(super) fn take_ranges(&mut self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.ranges)
    }

    /// Plans the next round from the offsets that were prefetched; false if there is none. Each round is one level further down
    /// the trees of fields, so the rounds end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        let nodes = std::mem::take(&mut self.nodes);
        let has_more = !nodes.is_empty();
        for (read, field, rows) in nodes {
            self.add_pointed_at(read, field, &rows)?;
        }
        Ok(has_more)
    }

    /// Adds whole pages of a node and of those below it; false if checksums do not tell where all of them end.
    fn add_pages(&mut self, read: &BatchRead<'_>, field: &Field) -> Result<bool> {
        let from = self.ranges.len();
        for node in field.walk() {
            let entry = read.entry(node)?;
            let has_bytes = !matches!(
                Layout::of(&node.data_type),
                Ok(Layout::Null | Layout::Struct | Layout::Items { .. })
            );
            if has_bytes && entry.page.length > 0 && entry.coverage.is_empty() {
                self.ranges.truncate(from);
                return Ok(false);
            }
            for coverage in &entry.coverage {
                self.ranges.push(coverage.range.clone());
                self.ranges.extend(coverage.checksums_of(&coverage.range));
            }
        }
        Ok(true)
    }

    /// Adds the fixed parts of a node and of those below it that need no offsets.
    fn add_node(&mut self, read: &'r BatchRead<'a>, field: &'r Field, rows: Rows) -> Result<()> {
        let entry = read.entry(field)?;
        self.add_ranges(entry, &rows, |rows, ranges| {
            read.plan_fixed(field, entry, rows, ranges)
        });
        let rows = match Layout::of(&field.data_type) {
            Ok(Layout::Struct) => rows,
            Ok(Layout::Items { size }) => match rows.times(size) {
                Ok(rows) => rows,
                Err(_) => return Ok(()),
            },
            Ok(Layout::Var { .. } | Layout::Offsets { .. }) => {
                self.nodes.push((read, field, rows));
                return Ok(());
            }
            _ => return Ok(()),
        };
        for child in &field.children {
            self.add_node(read, child, rows.clone())?;
        }
        Ok(())
    }

    /// Adds the bytes that the offsets of a node point at.
    fn add_pointed_at(
        &mut self,
        read: &'r BatchRead<'a>,
        field: &'r Field,
        rows: &Rows,
    ) -> Result<()> {
        let entry = read.entry(field)?;
        let (data_type, page, whole) = (&field.data_type, &entry.page, self.whole);
        if let Ok(Layout::Var { .. }) = Layout::of(data_type) {
            self.add_ranges(entry, rows, |rows, ranges| {
                plan_bytes(data_type, page, rows, whole, ranges)
            });
            return Ok(());
        }
        let child_rows = match rows.is_single_range() {
            true => plan_child_span(data_type, page, rows, whole).map(Rows::range),
            false => read
                .list_offsets(field, entry, rows, whole)?
                .map(|offsets| offsets.child_rows),
        };
        if let Ok(child_rows) = child_rows {
            for child in &field.children {
                self.add_node(read, child, child_rows.clone())?;
            }
        }
        Ok(())
    }

    /// Adds the ranges that `plan` gives for the rows. If the gaps between the rows are small, it plans all rows from the first
    /// to the last as one range.
    fn add_ranges(
        &mut self,
        entry: &PageEntry,
        rows: &Rows,
        plan: impl Fn(&Rows, &mut Vec<Range<u64>>) -> std::result::Result<(), PageError>,
    ) {
        let from = self.ranges.len();
        let num_ranges = rows.ranges().len() as u64;
        let span = rows.span().map_or_else(Rows::empty, Rows::range);
        let mut is_planned = plan(&span, &mut self.ranges);
        if num_bytes(&self.ranges[from..]) > num_ranges.saturating_mul(PREFETCH_BLOCK) {
            self.ranges.truncate(from);
            is_planned = plan(rows, &mut self.ranges);
        }
        if is_planned.is_err() {
            self.ranges.truncate(from);
            return;
        }
        widen(&mut self.ranges, from, entry);
        // The decoder reports ranges outside of the file with column and place.
        let mut index = from;
        while index < self.ranges.len() {
            if self.ranges[index].end > self.file_size {
                self.ranges.swap_remove(index);
            } else {
                index += 1;
            }
        }
    }
}
