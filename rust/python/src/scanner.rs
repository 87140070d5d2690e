//! Planned scans, and their runs.

use std::sync::{Arc, Mutex};

use arrow_schema::SchemaRef;
use pilum_table::{Projection, Scan, ScanOptions};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::batch::{Batch, Schema};
use crate::dataset::Dataset;
use crate::errors::{Failure, guarded};
use crate::ffi::{schema_capsule, stream_capsule};
use crate::process::OneProcess;
use crate::run::{Rows, Run, ScanMetrics};
use crate::runtime::{block_on, block_on_anywhere};

/// A planned read of one version.
#[pyclass(frozen, module = "pilum._pilum")]
pub(crate) struct Scanner {
    dataset: Py<Dataset>,
    options: ScanOptions,
    schema: SchemaRef,
    /// The plan. A forked process plans again, on the table as it opened it.
    planned: OneProcess<Arc<Scan>>,
    /// Locked for an instant and with the GIL held, so that no fork finds it locked.
    last_run: Mutex<Option<OneProcess<Arc<Run>>>>,
}

impl Scanner {
    /// `planned` is a scan of the dataset by `options`.
    pub(crate) fn new(dataset: Py<Dataset>, options: ScanOptions, planned: Arc<Scan>) -> Self {
        Self {
            dataset,
            options,
            schema: SchemaRef::clone(planned.schema()),
            planned: OneProcess::new(planned),
            last_run: Mutex::default(),
        }
    }

    /// A scan that has not run.
    fn scan(&self, table: &pilum_table::Dataset) -> Result<Arc<Scan>, Failure> {
        match self.planned.get() {
            Some(planned) => Ok(planned.again()),
            None => Ok(table.snapshot().scan(self.options.clone())?),
        }
    }

    fn start(&self, py: Python<'_>) -> PyResult<Rows> {
        self.dataset.get().with(py, |table| {
            let rows = Rows::of(table, self.scan(table)?)?;
            if let Ok(mut last) = self.last_run.try_lock() {
                *last = Some(OneProcess::new(rows.run()));
            }
            Ok(rows)
        })
    }
}

#[pymethods]
impl Scanner {
    #[getter]
    fn schema(&self) -> Schema {
        Schema(SchemaRef::clone(&self.schema))
    }

    #[getter]
    fn metrics(&self) -> Option<ScanMetrics> {
        let last = self.last_run.try_lock().ok()?;
        last.as_ref()?.get().map(|run| run.metrics())
    }

    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        self.dataset
            .get()
            .with(py, |table| Ok(self.scan(table)?.explain()))
    }

    fn count_rows(&self, py: Python<'_>) -> PyResult<u64> {
        self.dataset.get().with(py, |table| {
            // The number of rows does not depend on the columns of the result.
            let mut options = self.options.clone();
            options.columns = Projection::Names(Vec::new());
            (
                options.with_row_id,
                options.with_row_address,
                options.unordered,
            ) = (false, false, true);
            let scan = table.snapshot().scan(options).map_err(Failure::from)?;
            let mut rows = Rows::of(table, scan)?;
            let counted = block_on(py, async {
                let mut count = 0;
                while let Some(batch) = rows.next().await? {
                    count += batch.num_rows() as u64;
                }
                Ok::<_, Failure>(count)
            })?;
            Ok(counted?)
        })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Batches> {
        guarded(|| Ok(Batches(Mutex::new(OneProcess::new(self.start(py)?)))))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.dataset.get().with(py, |table| {
            Ok(format!(
                "<pilum._pilum.Scanner of {} version {}>",
                table.uri(),
                table.version()
            ))
        })
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        guarded(|| schema_capsule(py, &self.schema))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        guarded(|| {
            let mut rows = OneProcess::new(self.start(py)?);
            let next = move || {
                let rows = rows.get_mut().ok_or_else(of_another_process)?;
                Ok(block_on_anywhere(rows.next())??)
            };
            stream_capsule(py, &self.schema, next, requested_schema)
        })
    }
}

/// A running scan.
#[pyclass(frozen, module = "pilum._pilum")]
pub(crate) struct Batches(Mutex<OneProcess<Rows>>);

#[pymethods]
impl Batches {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        guarded(|| {
            // The lock is not waited for: another thread holds it without the GIL, and after a fork no thread would release it.
            let mut rows = self.0.try_lock().map_err(|_| {
                Failure::invalid(
                    "two threads ask one running scan for batches: start a scan in each thread",
                )
            })?;
            let rows = rows.get_mut().ok_or_else(of_another_process)?;
            let batch = block_on(py, rows.next())?;
            Ok(batch?.map(Batch))
        })
    }
}

fn of_another_process() -> Failure {
    Failure::invalid("this scan was started by another process: start one in this process")
}
