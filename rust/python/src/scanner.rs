//! Planned scans of any source of rows, and their runs, as objects of Python.

use std::sync::{Arc, Mutex};

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::batch::{Batch, Schema};
use crate::errors::{Ended, Failure, guarded};
use crate::ffi::{schema_capsule, stream_capsule};
use crate::process::OneProcess;
use crate::run::{Planned, Rows, Run};
use crate::runtime::{block_on, block_on_anywhere};

/// What a scanner reads: one version of a table, or Parquet files, with the options of the scan.
pub(crate) trait Source: Send + Sync {
    /// A scan that has not run, planned in this process. Errors have the address of the source.
    fn plan(&self, py: Python<'_>) -> PyResult<Arc<dyn Planned>>;

    /// The number of rows of the result. Errors have the address of the source.
    fn count_rows(&self, py: Python<'_>) -> PyResult<u64>;

    /// The source in a few words, for `repr`.
    fn describe(&self, py: Python<'_>) -> PyResult<String>;
}

/// A planned read.
#[pyclass(frozen, module = "pilum._pilum")]
pub(crate) struct Scanner {
    source: Box<dyn Source>,
    schema: SchemaRef,
    /// Locked for an instant and with the GIL held, so that no fork finds it locked.
    last_run: Mutex<Option<OneProcess<Arc<Run>>>>,
}

impl Scanner {
    /// `schema` has the columns of the result.
    pub(crate) fn new(source: Box<dyn Source>, schema: SchemaRef) -> Self {
        Self {
            source,
            schema,
            last_run: Mutex::default(),
        }
    }

    fn start(&self, py: Python<'_>) -> PyResult<Rows> {
        let rows = Rows::of(self.source.plan(py)?)?;
        if let Ok(mut last) = self.last_run.try_lock() {
            *last = Some(OneProcess::new(rows.run()));
        }
        Ok(rows)
    }
}

#[pymethods]
impl Scanner {
    #[getter]
    fn schema(&self) -> Schema {
        Schema(SchemaRef::clone(&self.schema))
    }

    #[getter]
    fn metrics(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let run = self.last_run.try_lock().ok().and_then(|last| {
            let run = last.as_ref()?.get()?;
            Some(Arc::clone(run))
        });
        run.map(|run| run.metrics(py)).transpose()
    }

    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        guarded(|| Ok(self.source.plan(py)?.explain()))
    }

    fn count_rows(&self, py: Python<'_>) -> PyResult<u64> {
        guarded(|| self.source.count_rows(py))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Batches> {
        guarded(|| Ok(Batches(Mutex::new(OneProcess::new(self.start(py)?)))))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        guarded(|| {
            let source = self.source.describe(py)?;
            Ok(format!("<pilum._pilum.Scanner of {source}>"))
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

/// Runs a scan to its end and returns the number of its rows.
pub(crate) fn count(py: Python<'_>, planned: Arc<dyn Planned>) -> Result<u64, Ended> {
    let rows = Rows::of(planned)?;
    Ok(block_on(py, rows.count())??)
}

fn of_another_process() -> Failure {
    Failure::invalid("this scan was started by another process: start one in this process")
}
