//! Planned scans of tables of Kartothek datasets, and their counts, which are those of the Parquet files that they read.

use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use pilum_kartothek::Scan;
use pyo3::prelude::*;
use tokio::runtime::Handle;

use crate::errors::Failure;
use crate::parquet::ParquetScanMetrics;
use crate::run::{Cost, Planned};

/// A planned scan of a table of a dataset.
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
        self.0.requests_and_bytes()
    }

    fn metrics(&self, py: Python<'_>, cost: Cost) -> PyResult<Py<PyAny>> {
        let metrics = ParquetScanMetrics::of(self.0.metrics(), cost);
        Ok(Py::new(py, metrics)?.into_any())
    }
}
