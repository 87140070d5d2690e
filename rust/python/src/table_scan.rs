//! Planned scans of tables, and their counts.

use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use pilum_table::{Dataset, Scan, Store};
use pyo3::prelude::*;
use tokio::runtime::Handle;

use crate::errors::Failure;
use crate::run::{Cost, Planned, counts_repr};

/// A planned scan of one version, with the store whose requests it counts.
pub(crate) struct PlannedScan {
    scan: Arc<Scan>,
    store: Store,
}

impl PlannedScan {
    /// `scan` is one of `table`.
    pub(crate) fn of(table: &Dataset, scan: Arc<Scan>) -> Arc<dyn Planned> {
        let store = table.store().clone();
        Arc::new(Self { scan, store })
    }
}

impl Planned for PlannedScan {
    fn explain(&self) -> String {
        self.scan.explain()
    }

    fn batches(&self, runtime: &Handle) -> BoxStream<'static, Result<RecordBatch, Failure>> {
        self.scan.batches(runtime).map_err(Failure::from).boxed()
    }

    fn requests_and_bytes(&self) -> (u64, u64) {
        let counters = self.store.counters();
        (counters.reads, counters.bytes_read)
    }

    fn metrics(&self, py: Python<'_>, cost: Cost) -> PyResult<Py<PyAny>> {
        let scan = self.scan.metrics();
        let metrics = ScanMetrics {
            fragments_pruned: scan.fragments_pruned,
            pages_total: scan.pages,
            pages_pruned: scan.pages_pruned,
            peak_bytes: scan.peak_bytes,
            rows_scanned: scan.rows_scanned,
            rows_returned: scan.rows_returned,
            requests: cost.requests,
            bytes_read: cost.bytes_read,
            seconds: cost.took.as_secs_f64(),
        };
        Ok(Py::new(py, metrics)?.into_any())
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
        counts_repr(self)
    }
}
