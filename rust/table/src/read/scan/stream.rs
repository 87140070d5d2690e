//! The batches of a scan: its pieces in row order, read side by side, then cut to the offset, the limit and the size of a batch.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::RecordBatch;
use futures::stream::{BoxStream, StreamExt};
use pilum_format::Fragment;

use super::readers::Readers;
use super::scan::{OpenFragment, Outcome, Piece, Scan};
use super::wake::Wake;
use crate::error::Result;
use crate::read::batches::to_usize;
use crate::read::held::held_bytes;

/// A first piece of fewer Arrow bytes is ready so soon that parts of it only cost.
const GENTLE_BYTES: u64 = 2 << 20;

/// Where the unfolding of pieces stands.
struct Cursor {
    scan: Arc<Scan>,
    /// Fragments to read, opened ahead on remote stores.
    opened: BoxStream<'static, Result<Option<OpenFragment>>>,
    has_begun: bool,
    ready: VecDeque<(Arc<OpenFragment>, Range<u64>)>,
    skip: u64,
    left: Option<u64>,
}

impl Scan {
    /// The batches, read by the consumer and up to [`ScanOptions::threads`] less one workers of the runtime behind `handle`.
    pub fn batches(
        self: &Arc<Self>,
        handle: &tokio::runtime::Handle,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let filtered = self.plan.filter.is_some();
        let pieces = self.pieces(filtered);
        let read = Readers::new(
            Arc::clone(self),
            handle.clone(),
            pieces,
            self.readers_beside_consumer(),
            self.pieces_in_flight(),
        );
        let read = read.outcomes();
        self.trimmed(read, filtered)
    }

    /// Applies offset and limit behind a predicate, and cuts batches to size.
    fn trimmed(
        self: &Arc<Self>,
        read: BoxStream<'static, Outcome>,
        filtered: bool,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let scan = Arc::clone(self);
        let skip = if filtered { scan.options.offset } else { 0 };
        let left = if filtered { scan.options.limit } else { None };
        let wake = scan.options.memory_limit.map(Wake::new);
        let state = (read, skip, left, VecDeque::new(), None, wake);
        let stream = futures::stream::try_unfold(
            state,
            move |(mut read, mut skip, mut left, mut ready, mut handed_out, mut wake)| {
                let scan = Arc::clone(&scan);
                async move {
                    loop {
                        if let Some(batch) = ready.pop_front() {
                            let batch: RecordBatch = batch;
                            scan.counters
                                .rows_returned
                                .fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                            let state = (read, skip, left, ready, handed_out, wake);
                            return Ok(Some((batch, state)));
                        }
                        if left == Some(0) {
                            return Ok(None);
                        }
                        // Who asks for more has done with what it got.
                        if let Some((piece, num_bytes)) = handed_out.take() {
                            let held = &scan.counters.held_bytes;
                            held.fetch_sub(num_bytes, Ordering::Relaxed);
                            wake.iter_mut().for_each(|wake| wake.pass(&piece));
                        }
                        let Some(outcome) = read.next().await else {
                            return Ok(None);
                        };
                        let (piece, batch) = outcome?;
                        handed_out = Some((piece, batch.as_ref().map_or(0, held_bytes)));
                        let Some(batch) = batch else { continue };
                        let rows = batch.num_rows() as u64;
                        let start = skip.min(rows);
                        let taken = left.map_or(rows - start, |left| left.min(rows - start));
                        skip -= start;
                        left = left.map(|left| left - taken);
                        ready.extend(scan.cut(&batch, start, taken));
                    }
                }
            },
        );
        stream.boxed()
    }

    /// Slices of at most the rows that a batch may have.
    fn cut(&self, batch: &RecordBatch, start: u64, rows: u64) -> Vec<RecordBatch> {
        let (mut start, end) = (to_usize(start), to_usize(start + rows));
        let step = self.options.batch_rows.unwrap_or(usize::MAX).max(1);
        let mut slices = Vec::new();
        while start < end {
            let length = step.min(end - start);
            slices.push(batch.slice(start, length));
            start += length;
        }
        slices
    }

    /// The pieces in row order, fragments opened as they come up. Without a predicate, offset and limit already cut them.
    fn pieces(self: &Arc<Self>, filtered: bool) -> BoxStream<'static, Result<Piece>> {
        let fragments = &self.plan.fragments;
        let filter = self.plan.filter.as_ref();
        let whole = filter.filter(|_| self.options.fragments.is_none());
        let none_passes = whole.and_then(|it| self.context.leaves_out_all(fragments, it));
        let mut skip = if filtered { 0 } else { self.options.offset };
        let mut first = 0;
        if let Some(pruned) = none_passes {
            self.count_pruned(pruned, fragments.len() as u64);
            first = fragments.len();
        }
        while let Some(rows) = fragments.get(first).and_then(Fragment::num_rows)
            && rows <= skip
            && skip > 0
        {
            skip -= rows;
            first += 1;
        }
        let scan = Arc::clone(self);
        let opened = (first..fragments.len()).map(move |index| {
            let scan = Arc::clone(&scan);
            async move { scan.open(index).await }
        });
        let cursor = Cursor {
            scan: Arc::clone(self),
            opened: futures::stream::iter(opened)
                .buffered(self.fragments_opened_ahead())
                .boxed(),
            has_begun: false,
            ready: VecDeque::new(),
            skip,
            left: if filtered { None } else { self.options.limit },
        };
        futures::stream::try_unfold(cursor, |mut cursor| async move {
            let piece = cursor.next().await?;
            Ok(piece.map(|piece| (piece, cursor)))
        })
        .boxed()
    }
}

impl Cursor {
    async fn next(&mut self) -> Result<Option<Piece>> {
        loop {
            if self.left == Some(0) {
                return Ok(None);
            }
            if let Some((fragment, range)) = self.ready.pop_front() {
                let mut rows = fragment.rest.live(range);
                if let Some(candidates) = &fragment.candidates {
                    rows = rows.intersect(candidates);
                }
                let skipped = self.skip.min(rows.len());
                let taken = self
                    .left
                    .map_or(rows.len() - skipped, |left| left.min(rows.len() - skipped));
                self.skip -= skipped;
                self.left = self.left.map(|left| left - taken);
                if skipped > 0 || taken < rows.len() {
                    rows = rows.slice(skipped, taken);
                }
                if !rows.is_empty() {
                    return Ok(Some(Piece { fragment, rows }));
                }
                continue;
            }
            let Some(fragment) = self.opened.next().await else {
                return Ok(None);
            };
            let Some(fragment) = fragment? else {
                continue;
            };
            let fragment = Arc::new(fragment);
            let reader = fragment.filter.as_ref().unwrap_or(&fragment.rest);
            let mut target = self.scan.piece_bytes()?;
            if let (Some(_), Some(filter)) = (self.scan.options.memory_limit, &fragment.filter) {
                // Every row may pass, and then brings the other columns.
                let filter_bytes = filter.row_bytes().max(1);
                let row_bytes = filter_bytes.saturating_add(fragment.rest.row_bytes());
                target = (u128::from(target) * u128::from(filter_bytes) / u128::from(row_bytes))
                    .try_into()
                    .unwrap_or(target);
            }
            let mut ranges = reader.pieces(target);
            if !std::mem::replace(&mut self.has_begun, true) && self.scan.context.store.is_local() {
                let least_rows = GENTLE_BYTES / reader.row_bytes().max(1);
                ranges = start_gently(ranges, least_rows);
            }
            self.ready.extend(
                ranges
                    .into_iter()
                    .map(|range| (Arc::clone(&fragment), range)),
            );
        }
    }
}

/// Pieces of which the first comes in parts, each twice the one before: the consumer has work at once, while others read on.
fn start_gently(mut ranges: Vec<Range<u64>>, least_rows: u64) -> Vec<Range<u64>> {
    let Some(first) = ranges.first().cloned() else {
        return ranges;
    };
    if first.end - first.start <= least_rows {
        return ranges;
    }
    let mut parts = Vec::new();
    // Whole words of a bitmap, which are then shared and not shifted.
    let mut part = ((first.end - first.start) / 32).max(1).next_multiple_of(64);
    let mut start = first.start;
    while start < first.end {
        let end = (start + part).min(first.end);
        parts.push(start..end);
        (start, part) = (end, 2 * part);
    }
    ranges.splice(..1, parts);
    ranges
}

#[cfg(test)]
mod tests {
    use super::start_gently;

    #[test]
    fn the_parts_of_a_first_piece_are_the_piece() {
        for rows in [0, 1, 2, 31, 32, 63, 64, 65, 1000, 1024, 7168, 65_536] {
            for (start, least_rows) in [(0, 0), (5, 0), (4096, 1000)] {
                let pieces = vec![start..start + rows, start + rows..start + rows + 9];
                let parts = start_gently(pieces.clone(), least_rows);
                assert_eq!(parts.last(), pieces.last());
                assert_eq!(parts.first().unwrap().start, start);
                assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
                assert_eq!(parts.len() > 2, rows > least_rows.max(64), "{parts:?}");
                assert!(parts.iter().all(|part| !part.is_empty() || rows == 0));
            }
        }
        assert!(start_gently(Vec::new(), 0).is_empty());
    }
}
