//! A scan, and how one of its pieces is read: the columns of the predicate first, then the others for the rows that are left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow_schema::SchemaRef;
use pilum_expr::{evaluate, filter_mask};
use pilum_file::Rows;

use super::fragment::FragmentReader;
use super::plan::{Output, Plan, RowIds};
use super::prune::Pruned;
use crate::error::{Error, Result};
use crate::read::batches::{record_batch, to_usize};
use crate::read::context::{REMOTE_FRAGMENTS, ReadContext};
use crate::read::held::held_bytes;
use crate::read::options::{ScanMetrics, ScanOptions};

/// A piece and what became of it; `None` when none of its rows passed.
pub(super) type Outcome = Result<(Piece, Option<RecordBatch>)>;

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) rows_scanned: AtomicU64,
    pub(super) rows_returned: AtomicU64,
    pieces: AtomicU64,
    pages: AtomicU64,
    pages_pruned: AtomicU64,
    pub(super) held_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    fragments_pruned: AtomicU64,
}

/// A planned scan of one version.
#[derive(Debug)]
pub struct Scan {
    pub(super) context: Arc<ReadContext>,
    pub(super) plan: Plan,
    pub(super) options: ScanOptions,
    pub(super) counters: Counters,
}

/// Arrow bytes of a piece when nobody says.
const PIECE_BYTES: u64 = 8 << 20;
/// Pieces of a remote table read at one time, while they may be so large under a memory limit.
const REMOTE_PIECES: usize = 12;
const REMOTE_PIECE_BYTES: u64 = 1 << 20;
/// The smallest piece that a memory limit may force.
const MIN_PIECE_BYTES: u64 = 64 << 10;

/// Rows of one fragment that are read at once.
pub(super) struct Piece {
    pub(super) fragment: Arc<OpenFragment>,
    pub(super) rows: Rows,
}

/// The columns of one fragment by phase.
pub(super) struct OpenFragment {
    /// What the predicate reads; none without one.
    pub(super) filter: Option<FragmentReader>,
    /// The rows that may pass the predicate, where statistics say so.
    pub(super) candidates: Option<Rows>,
    /// What else the output needs.
    pub(super) rest: FragmentReader,
    row_ids: Option<RowIds>,
}

impl OpenFragment {
    fn readers(&self) -> impl Iterator<Item = &FragmentReader> {
        self.filter.iter().chain([&self.rest])
    }

    /// About how many bytes of its files a row takes, those of columns that are not read included.
    pub(super) fn stored_row_bytes(&self) -> u64 {
        let stored = self.readers().map(FragmentReader::stored_row_bytes);
        stored.fold(0, u64::saturating_add)
    }

    /// Gives back what reading left mapped of large files.
    pub(super) fn release(&self) {
        self.readers().for_each(FragmentReader::release);
    }
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
    pub(super) fn pieces_in_flight(&self) -> usize {
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
    pub(super) fn readers_beside_consumer(&self) -> usize {
        match self.threads() {
            threads if self.context.store.is_local() => threads - 1,
            1 => 0,
            _ => self.pieces_in_flight(),
        }
    }

    /// Under a limit of rows the next fragment may not be needed.
    pub(super) fn fragments_opened_ahead(&self) -> usize {
        match self.options.limit {
            None if !self.context.store.is_local() => REMOTE_FRAGMENTS,
            _ => 1,
        }
    }

    /// Bytes per piece such that the pieces in flight, and what they are decoded from, fit the limit.
    pub(super) fn piece_bytes(&self) -> Result<u64> {
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

    /// Opens a fragment; none if statistics say that none of its rows passes.
    pub(super) async fn open(&self, index: usize) -> Result<Option<OpenFragment>> {
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
            RowIds::of(fragment, self.plan.stable_row_ids)?
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

    pub(super) fn count_pruned(&self, pages: Pruned, fragments: u64) {
        let add = |counter: &AtomicU64, more| counter.fetch_add(more, Ordering::Relaxed);
        add(&self.counters.pages, pages.total);
        add(&self.counters.pages_pruned, pages.pruned);
        add(&self.counters.fragments_pruned, fragments);
    }

    pub(super) async fn read(&self, piece: Piece) -> Outcome {
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
