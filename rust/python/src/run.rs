//! One run of a scan, and its counts.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use futures::StreamExt;
use futures::stream::BoxStream;
use pilum_table::{Dataset, Scan, Store};
use pyo3::prelude::*;

use crate::errors::Failure;
use crate::runtime::handle;

/// The rows of a scan, as they are read.
pub(crate) struct Rows {
    batches: BoxStream<'static, pilum_table::Result<RecordBatch>>,
    run: Arc<Run>,
}

impl Rows {
    /// Starts a scan of `table`.
    pub(crate) fn of(table: &Dataset, scan: Arc<Scan>) -> Result<Self, Failure> {
        let store = table.store().clone();
        let before = store.counters();
        let batches = scan.batches(&handle()?);
        let run = Arc::new(Run {
            scan,
            requests_before: before.reads,
            bytes_before: before.bytes_read,
            store,
            started: Instant::now(),
            end: OnceLock::new(),
        });
        Ok(Self { batches, run })
    }

    /// The counts of the run.
    pub(crate) fn run(&self) -> Arc<Run> {
        Arc::clone(&self.run)
    }

    /// The next batch, or none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, Failure> {
        let batch = self.batches.next().await.transpose()?;
        if batch.is_none() {
            self.run.finish();
        }
        Ok(batch)
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.run.finish();
    }
}

/// The counts of a run, while it runs and after it.
#[derive(Debug)]
pub(crate) struct Run {
    scan: Arc<Scan>,
    store: Store,
    requests_before: u64,
    bytes_before: u64,
    started: Instant,
    end: OnceLock<End>,
}

#[derive(Clone, Copy, Debug)]
struct End {
    requests: u64,
    bytes_read: u64,
    took: Duration,
}

impl Run {
    fn finish(&self) {
        // Only the first call counts: after the last batch, or when the run is dropped before it.
        let _ = self.end.set(self.now());
    }

    fn now(&self) -> End {
        let counters = self.store.counters();
        End {
            requests: counters.reads.saturating_sub(self.requests_before),
            bytes_read: counters.bytes_read.saturating_sub(self.bytes_before),
            took: self.started.elapsed(),
        }
    }

    pub(crate) fn metrics(&self) -> ScanMetrics {
        let end = self.end.get().copied().unwrap_or_else(|| self.now());
        let scan = self.scan.metrics();
        ScanMetrics {
            fragments_pruned: scan.fragments_pruned,
            pages_total: scan.pages,
            pages_pruned: scan.pages_pruned,
            peak_bytes: scan.peak_bytes,
            rows_scanned: scan.rows_scanned,
            rows_returned: scan.rows_returned,
            requests: end.requests,
            bytes_read: end.bytes_read,
            seconds: end.took.as_secs_f64(),
        }
    }
}

/// The counts of a run of a scan.
#[derive(Clone, Debug, PartialEq)]
#[pyclass(frozen, eq, get_all, module = "pilum._pilum")]
pub(crate) struct ScanMetrics {
    fragments_pruned: u64,
    pages_total: u64,
    pages_pruned: u64,
    rows_scanned: u64,
    rows_returned: u64,
    requests: u64,
    bytes_read: u64,
    peak_bytes: u64,
    seconds: f64,
}

#[pymethods]
impl ScanMetrics {
    fn __repr__(&self) -> String {
        format!(
            "ScanMetrics(fragments_pruned={}, pages_total={}, pages_pruned={}, rows_scanned={}, rows_returned={}, requests={}, \
             bytes_read={}, peak_bytes={}, seconds={:.6})",
            self.fragments_pruned,
            self.pages_total,
            self.pages_pruned,
            self.rows_scanned,
            self.rows_returned,
            self.requests,
            self.bytes_read,
            self.peak_bytes,
            self.seconds
        )
    }
}
