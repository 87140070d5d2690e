//! Scans: some columns of the rows that pass a predicate, as a bounded stream of record batches.
//!
//! A scan is cut into pieces of a few megabytes. Each piece is read on its own, on a pool whose width is the scan's: first the
//! columns of the predicate, then the others, for the rows that are left. So memory is bounded by pieces in flight.

mod cache;
mod doors;
mod fragment;
mod plan;
mod prune;
mod readers;
mod statistics;
mod take;
mod wake;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::SchemaRef;
pub(crate) use fragment::{FragmentReader, ReadContext};
use futures::stream::{BoxStream, StreamExt};
use pilum_expr::{Expr, evaluate, filter_mask};
use pilum_file::Rows;
use pilum_format::Fragment;
use plan::{Output, Plan};
pub use plan::{ROW_ADDRESS, ROW_ID};
use readers::{Outcome, Readers};
use wake::Wake;

use crate::error::{Error, Result};
use crate::read::held::held_bytes;

/// What to read and how.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ScanOptions {
    /// The columns.
    pub columns: Projection,
    /// Only rows for which this is true.
    pub filter: Option<Expr>,
    /// At most so many rows.
    pub limit: Option<u64>,
    /// Leave out so many rows first.
    pub offset: u64,
    /// At most so many rows in a batch.
    pub batch_rows: Option<usize>,
    /// About so many bytes in a batch; 8 MiB when not given.
    pub batch_bytes: Option<u64>,
    /// Add the column `_rowid`.
    pub with_row_id: bool,
    /// Add the column `_rowaddr`.
    pub with_row_address: bool,
    /// Only these fragments.
    pub fragments: Option<Vec<u64>>,
    /// Batches may come in any order.
    pub unordered: bool,
    /// Bytes that the scan may hold at once. With a limit, pages of large files do not stay mapped behind the consumer.
    pub memory_limit: Option<u64>,
    /// Pieces decoded at once; the processors of this machine when not given.
    pub threads: Option<usize>,
}

/// The columns of a scan.
#[derive(Clone, Debug, Default)]
pub enum Projection {
    /// All of the schema.
    #[default]
    All,
    /// These, in this order; `a.b` is member `b` of struct `a`.
    Names(Vec<String>),
    /// Computed ones.
    Expressions(Vec<(String, Expr)>),
}

/// What a scan did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanMetrics {
    /// Rows looked at, deleted ones left out.
    pub rows_scanned: u64,
    /// Rows handed out.
    pub rows_returned: u64,
    /// Pieces read.
    pub pieces: u64,
    /// Pages of the predicate's columns, of the fragments opened so far.
    pub pages: u64,
    /// Pages left out by their statistics.
    pub pages_pruned: u64,
    /// Arrow memory of rows that were read and that the consumer had not done with, mapped files included: the most at once.
    pub peak_bytes: u64,
    /// Fragments left out as a whole; those that were known to be needless are not even opened.
    pub fragments_pruned: u64,
}

#[derive(Debug, Default)]
struct Counters {
    rows_scanned: AtomicU64,
    rows_returned: AtomicU64,
    pieces: AtomicU64,
    pages: AtomicU64,
    pages_pruned: AtomicU64,
    held_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    fragments_pruned: AtomicU64,
}

/// A planned scan of one version.
#[derive(Debug)]
pub struct Scan {
    context: Arc<ReadContext>,
    plan: Plan,
    options: ScanOptions,
    counters: Counters,
}

/// Arrow bytes of a piece when nobody says.
const PIECE_BYTES: u64 = 8 << 20;
/// A first piece of fewer Arrow bytes is ready so soon that parts of it only cost.
const GENTLE_BYTES: u64 = 2 << 20;
/// Pieces of a remote table read at one time, while they may be so large under a memory limit.
const REMOTE_PIECES: usize = 12;
const REMOTE_PIECE_BYTES: u64 = 1 << 20;
/// Fragments of a remote table opened at one time.
const REMOTE_FRAGMENTS: usize = 16;
/// The smallest piece that a memory limit may force.
const MIN_PIECE_BYTES: u64 = 64 << 10;

/// Rows of one fragment that are read at once.
struct Piece {
    fragment: Arc<OpenFragment>,
    rows: Rows,
}

/// The columns of one fragment by phase.
struct OpenFragment {
    /// What the predicate reads; none without one.
    filter: Option<FragmentReader>,
    /// The rows that may pass the predicate, where statistics say so.
    candidates: Option<Rows>,
    /// What else the output needs.
    rest: FragmentReader,
    row_ids: Option<plan::RowIds>,
}

impl OpenFragment {
    fn readers(&self) -> impl Iterator<Item = &FragmentReader> {
        self.filter.iter().chain([&self.rest])
    }

    /// About how many bytes of its files a row takes, those of columns that are not read included.
    fn stored_row_bytes(&self) -> u64 {
        let stored = self.readers().map(FragmentReader::stored_row_bytes);
        stored.fold(0, u64::saturating_add)
    }

    /// Gives back what reading left mapped of large files.
    fn release(&self) {
        self.readers().for_each(FragmentReader::release);
    }
}

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
    pub(crate) fn new(context: Arc<ReadContext>, plan: Plan, options: ScanOptions) -> Result<Self> {
        let scan = Self {
            context,
            plan,
            options,
            counters: Counters::default(),
        };
        scan.piece_bytes()?;
        Ok(scan)
    }

    /// The columns that come out.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.plan.output_schema
    }

    /// What the scan did so far.
    #[must_use]
    pub fn metrics(&self) -> ScanMetrics {
        ScanMetrics {
            rows_scanned: self.counters.rows_scanned.load(Ordering::Relaxed),
            rows_returned: self.counters.rows_returned.load(Ordering::Relaxed),
            pieces: self.counters.pieces.load(Ordering::Relaxed),
            pages: self.counters.pages.load(Ordering::Relaxed),
            pages_pruned: self.counters.pages_pruned.load(Ordering::Relaxed),
            peak_bytes: self.counters.peak_bytes.load(Ordering::Relaxed),
            fragments_pruned: self.counters.fragments_pruned.load(Ordering::Relaxed),
        }
    }

    /// How the scan will go, for people.
    #[must_use]
    pub fn explain(&self) -> String {
        self.plan.explain(&self.options)
    }

    fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.options.threads.unwrap_or(cores).max(1)
    }

    /// While a batch is with the consumer, there is work for everybody and one piece more. Remote stores are waited for:
    /// there as many as memory allows are asked for.
    fn pieces_in_flight(&self) -> usize {
        let least = match self.threads() {
            1 => return 1,
            threads => threads + 2,
        };
        if self.context.store.is_local() {
            return least;
        }
        let affordable = self.options.memory_limit.map_or(u64::MAX, |limit| {
            (limit / (2 * REMOTE_PIECE_BYTES)).saturating_sub(1)
        });
        least.max(REMOTE_PIECES.min(to_usize(affordable)))
    }

    /// The consumer reads too, so it counts where reading is a matter of processors. Remote stores are waited for.
    fn readers_beside_consumer(&self) -> usize {
        match self.threads() {
            threads if self.context.store.is_local() => threads - 1,
            1 => 0,
            _ => self.pieces_in_flight(),
        }
    }

    /// Under a limit of rows the next fragment may not be needed.
    fn fragments_opened_ahead(&self) -> usize {
        match self.options.limit {
            None if !self.context.store.is_local() => REMOTE_FRAGMENTS,
            _ => 1,
        }
    }

    /// Bytes per piece such that the pieces in flight, and what they are decoded from, fit the limit.
    fn piece_bytes(&self) -> Result<u64> {
        let wanted = self.options.batch_bytes.unwrap_or(PIECE_BYTES).max(1);
        let Some(limit) = self.options.memory_limit else {
            return Ok(wanted);
        };
        let shares = 2 * (self.pieces_in_flight() as u64 + 1);
        if limit / shares < MIN_PIECE_BYTES {
            return Err(Error::Limit {
                what: format!("a scan with {} threads", self.threads()),
                needed: format!("{} bytes", shares * MIN_PIECE_BYTES),
                limit: format!("{limit} bytes"),
            });
        }
        Ok(wanted.min(limit / shares))
    }

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

    /// Opens a fragment; none if statistics say that none of its rows passes.
    async fn open(&self, index: usize) -> Result<Option<OpenFragment>> {
        let fragment = &self.plan.fragments[index];
        let context = || Arc::clone(&self.context);
        let mut candidates = None;
        let filter = match &self.plan.filter {
            Some(filter) => {
                if let Some(pruned) = self.context.leaves_out(fragment, filter) {
                    self.count_pruned(pruned, 1);
                    return Ok(None);
                }
                let reader = FragmentReader::open(context(), fragment, &filter.columns).await?;
                let found = self.context.candidates(fragment, &reader, filter).await?;
                let is_empty = found.0.as_ref().is_some_and(Rows::is_empty);
                self.count_pruned(found.1, u64::from(is_empty));
                if is_empty {
                    return Ok(None);
                }
                candidates = found.0;
                Some(reader)
            }
            None => None,
        };
        let rest = FragmentReader::open(context(), fragment, &self.plan.rest).await?;
        let row_ids = if self.plan.needs_row_ids {
            plan::RowIds::of(fragment, self.plan.stable_row_ids)?
        } else {
            None
        };
        Ok(Some(OpenFragment {
            filter,
            candidates,
            rest,
            row_ids,
        }))
    }

    fn count_pruned(&self, pages: prune::Pruned, fragments: u64) {
        let add = |counter: &AtomicU64, more| counter.fetch_add(more, Ordering::Relaxed);
        add(&self.counters.pages, pages.total);
        add(&self.counters.pages_pruned, pages.pruned);
        add(&self.counters.fragments_pruned, fragments);
    }

    async fn read(&self, piece: Piece) -> Outcome {
        let batch = self.passing_rows(&piece).await?;
        Ok((piece, batch))
    }

    /// Reads one piece; none when no row passes.
    async fn passing_rows(&self, piece: &Piece) -> Result<Option<RecordBatch>> {
        self.counters.pieces.fetch_add(1, Ordering::Relaxed);
        self.counters
            .rows_scanned
            .fetch_add(piece.rows.len(), Ordering::Relaxed);
        let fragment = &piece.fragment;
        let (rows, filtered) = match (&self.plan.filter, &fragment.filter) {
            (Some(filter), Some(reader)) => {
                let mut arrays = reader.read(&piece.rows).await?;
                if filter.uses_row_columns {
                    arrays.extend(self.row_columns(fragment, &piece.rows)?);
                }
                let batch = record_batch(&filter.schema, arrays, piece.rows.len())?;
                let mask = filter_mask(&filter.predicate, &batch)?;
                let Some(rows) = selected(&piece.rows, &mask) else {
                    return Ok(None);
                };
                (rows, Some((batch, mask)))
            }
            _ => (piece.rows.clone(), None),
        };
        let rest = fragment.rest.read(&rows).await?;
        let columns = self.assemble(fragment, &rows, &rest, filtered.as_ref())?;
        let batch = record_batch(&self.plan.output_schema, columns, rows.len())?;
        let counters = &self.counters;
        let num_bytes = held_bytes(&batch);
        let held = counters.held_bytes.fetch_add(num_bytes, Ordering::Relaxed) + num_bytes;
        counters.peak_bytes.fetch_max(held, Ordering::Relaxed);
        Ok(Some(batch))
    }

    fn assemble(
        &self,
        fragment: &OpenFragment,
        rows: &Rows,
        rest: &[ArrayRef],
        filtered: Option<&(RecordBatch, BooleanArray)>,
    ) -> Result<Vec<ArrayRef>> {
        let mut inputs = Vec::with_capacity(self.plan.inputs.len());
        for input in &self.plan.inputs {
            inputs.push(match (input, filtered) {
                (Output::Rest(index), _) => Arc::clone(&rest[*index]),
                (Output::Filtered(index), Some((batch, mask))) => {
                    let column = batch.column(*index);
                    if rows.len() == column.len() as u64 {
                        Arc::clone(column)
                    } else {
                        arrow_select::filter::filter(column, mask)
                            .map_err(|error| Error::invalid("filter", error.to_string()))?
                    }
                }
                (Output::Filtered(_), None) => {
                    return Err(Error::invalid("scan", "a column has no source"));
                }
                (Output::RowId, _) => row_id_array(fragment, rows)?,
                (Output::RowAddress, _) => Arc::new(addresses(fragment, rows)),
            });
        }
        let Some(computed) = &self.plan.computed else {
            return Ok(inputs);
        };
        let batch = record_batch(&computed.schema, inputs, rows.len())?;
        computed
            .expressions
            .iter()
            .map(|expression| Ok(evaluate(expression, &batch)?))
            .collect()
    }

    /// `_rowid` and `_rowaddr`, for predicates that name them.
    fn row_columns(&self, fragment: &OpenFragment, rows: &Rows) -> Result<[ArrayRef; 2]> {
        Ok([
            row_id_array(fragment, rows)?,
            Arc::new(addresses(fragment, rows)),
        ])
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

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn record_batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: u64) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(to_usize(rows)));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::corrupt(format!("columns do not fit together: {error}")))
}

/// The rows that a mask keeps; none when it keeps none.
fn selected(rows: &Rows, mask: &BooleanArray) -> Option<Rows> {
    let kept = mask.true_count();
    if kept == 0 {
        return None;
    }
    if kept == mask.len() {
        return Some(rows.clone());
    }
    let bits = match mask.nulls() {
        Some(nulls) => mask.values() & nulls.inner(),
        None => mask.values().clone(),
    };
    let rows = match rows.ranges() {
        [only] => {
            let start = only.start;
            Rows::from_ranges(
                bits.set_slices()
                    .map(|(from, to)| start + from as u64..start + to as u64),
            )
        }
        _ => Rows::from_sorted_indices(
            rows.iter()
                .zip(bits.iter())
                .filter_map(|(row, keep)| keep.then_some(row)),
        ),
    };
    rows.ok()
}

fn addresses(fragment: &OpenFragment, rows: &Rows) -> UInt64Array {
    let high = fragment.rest.id << 32;
    rows.iter()
        .map(|row| high | row)
        .collect::<Vec<u64>>()
        .into()
}

fn row_id_array(fragment: &OpenFragment, rows: &Rows) -> Result<ArrayRef> {
    match &fragment.row_ids {
        None => Ok(Arc::new(addresses(fragment, rows))),
        Some(ids) => Ok(Arc::new(UInt64Array::from(ids.select(rows)?))),
    }
}

/// The values of `_rowid` or `_rowaddr`.
pub(crate) fn integers<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a [u64]> {
    let column = batch.column_by_name(name);
    let column = column.and_then(|it| it.as_primitive_opt::<UInt64Type>());
    let column = column.ok_or_else(|| Error::corrupt(format!("a scan without {name}")))?;
    Ok(column.values())
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
