//! What a scan did so far, counted by all threads that read for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;

use super::prune::Pruned;
use crate::read::held::held_bytes;

/// What a scan did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanMetrics {
    /// Rows looked at; deleted rows do not count.
    pub rows_scanned: u64,
    /// Rows handed out.
    pub rows_returned: u64,
    /// Tasks read.
    pub tasks: u64,
    /// Pages of the predicate's columns, of the fragments opened so far.
    pub pages: u64,
    /// Pages that were not read because of their statistics.
    pub pages_pruned: u64,
    /// The most bytes of Arrow memory, mapped files included, that rows took at once between being read and the consumer's
    /// next poll after it received them.
    pub peak_bytes: u64,
    /// Fragments of which no row was read because of statistics. Fragments whose statistics are in memory are not opened.
    pub fragments_pruned: u64,
}

/// The counters behind [`ScanMetrics`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) rows_scanned: AtomicU64,
    pub(super) rows_returned: AtomicU64,
    pub(super) tasks: AtomicU64,
    pages: AtomicU64,
    pages_pruned: AtomicU64,
    held_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    fragments_pruned: AtomicU64,
}

impl Counters {
    pub(super) fn metrics(&self) -> ScanMetrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ScanMetrics {
            rows_scanned: read(&self.rows_scanned),
            rows_returned: read(&self.rows_returned),
            tasks: read(&self.tasks),
            pages: read(&self.pages),
            pages_pruned: read(&self.pages_pruned),
            peak_bytes: read(&self.peak_bytes),
            fragments_pruned: read(&self.fragments_pruned),
        }
    }

    pub(super) fn add_pruned(&self, pages: Pruned, fragments: u64) {
        let add = |counter: &AtomicU64, more| counter.fetch_add(more, Ordering::Relaxed);
        add(&self.pages, pages.total);
        add(&self.pages_pruned, pages.pruned);
        add(&self.fragments_pruned, fragments);
    }
}

/// The memory of a batch in the count of its scan: counted until this is dropped, whether the batch was handed out, discarded
/// after an error, or belongs to a scan that was given up.
#[derive(Debug)]
pub(super) struct HeldBytes {
    counters: Arc<Counters>,
    num_bytes: u64,
}

impl HeldBytes {
    pub(super) fn of(batch: &RecordBatch, counters: &Arc<Counters>) -> Self {
        let num_bytes = held_bytes(batch);
        let before = counters.held_bytes.fetch_add(num_bytes, Ordering::Relaxed);
        let held = before.saturating_add(num_bytes);
        counters.peak_bytes.fetch_max(held, Ordering::Relaxed);
        Self {
            counters: Arc::clone(counters),
            num_bytes,
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let held = &self.counters.held_bytes;
        held.fetch_sub(self.num_bytes, Ordering::Relaxed);
    }
}
