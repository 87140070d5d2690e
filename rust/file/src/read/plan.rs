//! Which bytes some rows of a batch need, and bringing them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::Ordering;

use arrow_buffer::Buffer;
use bytes::Bytes;
use pilum_encoding::{
    Error as PageError, Layout, PageSource, Rows, Segments, plan_bytes, plan_fixed, plan_validity,
};
use pilum_format::Field;

use super::batch::BatchRead;
use crate::checked::{CheckedSource, Coverage};
use crate::directory::PageEntry;
use crate::error::Result;

/// Ranges closer than this are fetched as one; joined ranges of a mapped file cost one system call.
const JOIN: u64 = 4096;
/// From this many bytes on, a read of rows close together of a mapped file is prefetched and released again.
const STREAM: u64 = 1 << 20;

impl BatchRead<'_> {
    /// Brings the bytes that decoding will ask for.
    pub(super) async fn fetch(&mut self, fields: &[Field], rows: &Rows) -> Result<()> {
        let file = &self.reader.directory.file;
        if let Some(whole) = &self.reader.whole {
            // Most of what lies between the first row and the last: deleted rows leave small gaps.
            let is_dense = rows
                .span()
                .is_some_and(|span| (span.end - span.start) / 2 < rows.len());
            let streams = is_dense && self.span(fields, rows) >= STREAM;
            if streams && self.reader.stays_mapped {
                fields
                    .iter()
                    .try_for_each(|field| self.make_resident(field))?;
            }
            if !streams || self.reader.stays_mapped {
                self.segments = Cow::Borrowed(whole);
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
            let bytes: Vec<Bytes> = if self.reader.whole.is_some() {
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
            self.segments = Cow::Owned(Segments::new(fetched.iter().cloned()));
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
                    .prefetch(std::slice::from_ref(&coverage.range))?;
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
        match self.list_offsets(field, entry, rows, source)? {
            Ok(offsets) => Ok(Some(offsets.child_rows)),
            Err(PageError::Missing(_)) => Ok(None),
            Err(error) => Err(self.failed(path, error)),
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
pub(crate) fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
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
