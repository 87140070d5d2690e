//! Planned scans of Parquet files, and their counts.

use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use pilum_parquet::Scan;
use pyo3::prelude::*;
use tokio::runtime::Handle;

use crate::errors::Failure;
use crate::run::{Cost, Planned, counts_repr};

/// A planned scan of Parquet files.
pub(super) struct PlannedScan(Arc<Scan>);

impl PlannedScan {
    pub(super) fn of(scan: Arc<Scan>) -> Arc<dyn Planned> {
        Arc::new(Self(scan))
    }
}

impl Planned for PlannedScan {
    fn explain(&self) -> String {
        self.0.explain()
    }

    fn batches(&self, runtime: &Handle) -> BoxStream<'static, Result<RecordBatch, Failure>> {
        self.0.batches(runtime).map_err(Failure::from).boxed()
    }

    fn requests_and_bytes(&self) -> (u64, u64) {
        self.0.dataset().counters()
    }

    fn metrics(&self, py: Python<'_>, cost: Cost) -> PyResult<Py<PyAny>> {
        let metrics = ParquetScanMetrics::of(self.0.metrics(), cost);
        Ok(Py::new(py, metrics)?.into_any())
    }
}

/// The counts of a run of a scan of Parquet files.
#[derive(Clone, Debug, PartialEq)]
#[pyclass(frozen, eq, get_all, module = "pilum._pilum")]
pub(crate) struct ParquetScanMetrics {
    files_total: u64,
    files_pruned: u64,
    row_groups_total: u64,
    row_groups_pruned: u64,
    pages_total: u64,
    pages_pruned: u64,
    rows_scanned: u64,
    rows_returned: u64,
    requests: u64,
    bytes_read: u64,
    peak_bytes: u64,
    seconds: f64,
}

impl ParquetScanMetrics {
    pub(crate) fn of(scan: pilum_parquet::ScanMetrics, cost: Cost) -> Self {
        Self {
            files_total: scan.files,
            files_pruned: scan.files_pruned,
            row_groups_total: scan.row_groups,
            row_groups_pruned: scan.row_groups_pruned,
            pages_total: scan.pages,
            pages_pruned: scan.pages_pruned,
            rows_scanned: scan.rows_scanned,
            rows_returned: scan.rows_returned,
            requests: cost.requests,
            bytes_read: cost.bytes_read,
            peak_bytes: scan.peak_bytes,
            seconds: cost.took.as_secs_f64(),
        }
    }
}

#[pymethods]
impl ParquetScanMetrics {
    fn __repr__(&self) -> String {
        counts_repr(self)
    }
}
