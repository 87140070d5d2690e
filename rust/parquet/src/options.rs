//! What a reader asks for, and what a run of it did.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pilum_expr::{Expr, Projection};

/// What to read and how.
#[derive(Debug, Clone, Default)]
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
    /// Bytes that the scan may hold at once.
    pub memory_limit: Option<u64>,
    /// Row groups, or parts of them, decoded at once; the processors of this machine when not given, for remote files at
    /// least 8.
    pub threads: Option<usize>,
}

/// What a scan did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanMetrics {
    /// Files of which at least one row group was read, or all were left out by statistics.
    pub files: u64,
    /// Files of which no row was read because of statistics or partition keys.
    pub files_pruned: u64,
    /// Row groups of the files opened so far.
    pub row_groups: u64,
    /// Row groups that were not read because of statistics.
    pub row_groups_pruned: u64,
    /// Pages of the predicate's columns, in row groups that were not pruned, as far as the files have a page index.
    pub pages: u64,
    /// Pages of these that were not read because of their statistics.
    pub pages_pruned: u64,
    /// Rows that were not left out by statistics.
    pub rows_scanned: u64,
    /// Rows handed out.
    pub rows_returned: u64,
    /// The most bytes at once of batches that were decoded and not yet consumed, with the bytes of remote files.
    pub peak_bytes: u64,
}

/// The counters behind [`ScanMetrics`].
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) files: AtomicU64,
    pub(crate) files_pruned: AtomicU64,
    pub(crate) row_groups: AtomicU64,
    pub(crate) row_groups_pruned: AtomicU64,
    pub(crate) pages: AtomicU64,
    pub(crate) pages_pruned: AtomicU64,
    pub(crate) rows_scanned: AtomicU64,
    pub(crate) rows_returned: AtomicU64,
    held: AtomicU64,
    peak: AtomicU64,
}

impl Tally {
    pub(crate) fn add(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn metrics(&self) -> ScanMetrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ScanMetrics {
            files: read(&self.files),
            files_pruned: read(&self.files_pruned),
            row_groups: read(&self.row_groups),
            row_groups_pruned: read(&self.row_groups_pruned),
            pages: read(&self.pages),
            pages_pruned: read(&self.pages_pruned),
            rows_scanned: read(&self.rows_scanned),
            rows_returned: read(&self.rows_returned),
            peak_bytes: read(&self.peak),
        }
    }
}

/// Counts bytes as held by a scan until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    tally: Arc<Tally>,
    num_bytes: u64,
}

impl Held {
    pub(crate) fn of(tally: &Arc<Tally>, num_bytes: u64) -> Self {
        let before = tally.held.fetch_add(num_bytes, Ordering::Relaxed);
        tally
            .peak
            .fetch_max(before.saturating_add(num_bytes), Ordering::Relaxed);
        Self {
            tally: Arc::clone(tally),
            num_bytes,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.tally.held.fetch_sub(self.num_bytes, Ordering::Relaxed);
    }
}
