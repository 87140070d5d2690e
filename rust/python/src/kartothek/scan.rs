//! Planned scans of tables of Kartothek datasets, and their counts, which are those of the Parquet files that they read.

use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use pilum_kartothek::Scan;
use pilum_parquet::ScanOptions;
use pyo3::prelude::*;
use tokio::runtime::Handle;

use super::KartothekDataset;
use crate::errors::Failure;
use crate::parquet::ParquetScanMetrics;
use crate::process::OneProcess;
use crate::run::{Cost, Planned};
use crate::runtime::{block_on, handle};
use crate::scanner::{Source, count};

/// A scan of a table of a dataset.
pub(super) struct TableScan {
    dataset: Py<KartothekDataset>,
    table: String,
    options: ScanOptions,
    labels: Option<Vec<String>>,
    /// The plan. A forked process plans again, on the dataset as it opened it.
    planned: OneProcess<Arc<Scan>>,
}

impl TableScan {
    /// `planned` is the plan of the other arguments in this process.
    pub(super) fn new(
        dataset: Py<KartothekDataset>,
        table: String,
        options: ScanOptions,
        labels: Option<Vec<String>>,
        planned: Arc<Scan>,
    ) -> Self {
        Self {
            dataset,
            table,
            options,
            labels,
            planned: OneProcess::new(planned),
        }
    }
}

impl Source for TableScan {
    fn plan(&self, py: Python<'_>) -> PyResult<Arc<dyn Planned>> {
        let scan = match self.planned.get() {
            Some(planned) => planned.again(),
            None => {
                let dataset = self.dataset.get().dataset(py)?;
                let scan = dataset.scan(&self.table, self.options.clone(), self.labels.as_deref());
                scan.map_err(Failure::from)?
            }
        };
        Ok(Arc::new(PlannedScan(scan)))
    }

    fn count_rows(&self, py: Python<'_>) -> PyResult<u64> {
        let dataset = self.dataset.get().dataset(py)?;
        let (table, labels) = (&self.table, self.labels.as_deref());
        let mut options = self.options.clone();
        if options.limit.is_none() && options.offset == 0 && options.filter.is_none() {
            // The footers tell it.
            let handle = handle()?;
            let counted = dataset.count_rows(table, None, labels, &handle);
            return Ok(block_on(py, counted)?.map_err(Failure::from)?);
        }
        // The number of rows does not depend on the columns of the result.
        options.columns = pilum_parquet::Projection::Names(Vec::new());
        let scan = dataset
            .scan(table, options, labels)
            .map_err(Failure::from)?;
        Ok(count(py, Arc::new(PlannedScan(scan)))?)
    }

    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        let dataset = self.dataset.get().dataset(py)?;
        Ok(format!(
            "table {:?} of Kartothek dataset {:?}",
            self.table,
            dataset.uuid()
        ))
    }
}

/// A planned scan of a table of a dataset.
struct PlannedScan(Arc<Scan>);

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
