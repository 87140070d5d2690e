//! Reports the progress of a long call to Python.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pyo3::intern;
use pyo3::prelude::*;

use crate::runtime::TICK;

/// What the calling thread does regularly during a call: it checks signals and calls the callable of the user with the
/// number of rows. An exception of either ends the call.
pub(crate) struct Progress {
    callable: Option<Py<PyAny>>,
    done_rows: Arc<AtomicU64>,
    total_rows: Option<Arc<AtomicU64>>,
    told_rows: Option<u64>,
    last: Instant,
}

impl Progress {
    /// For a callable `(done_rows, total_rows | None)`, or none. The total is the size of `rows`, if it has one.
    pub(crate) fn new(callable: Option<Py<PyAny>>, rows: &Bound<'_, PyAny>) -> PyResult<Self> {
        let total_rows = if callable.is_some() {
            count(rows)?.map(|rows| Arc::new(AtomicU64::new(rows)))
        } else {
            None
        };
        Ok(Self {
            callable,
            done_rows: Arc::default(),
            total_rows,
            told_rows: None,
            last: Instant::now(),
        })
    }

    /// For work that counts its rows and knows their total.
    pub(crate) fn of_total(
        callable: Option<Py<PyAny>>,
        done_rows: Arc<AtomicU64>,
        total_rows: Arc<AtomicU64>,
    ) -> Self {
        Self {
            callable,
            done_rows,
            total_rows: Some(total_rows),
            told_rows: None,
            last: Instant::now(),
        }
    }

    /// Where the work counts its rows.
    pub(crate) fn done_rows(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done_rows)
    }

    /// As [`tick`](Self::tick), if it is time for one.
    pub(crate) fn maybe_tick(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.last.elapsed() < TICK {
            Ok(())
        } else {
            self.tick(py)
        }
    }

    /// Checks signals and reports new rows.
    pub(crate) fn tick(&mut self, py: Python<'_>) -> PyResult<()> {
        self.last = Instant::now();
        py.check_signals()?;
        let Some(callable) = &self.callable else {
            return Ok(());
        };
        let done = self.done_rows.load(Ordering::Relaxed);
        if self.told_rows.replace(done) != Some(done) {
            let total = self.total_rows.as_ref();
            let total = total.map(|rows| rows.load(Ordering::Relaxed));
            callable.call1(py, (done, total))?;
        }
        Ok(())
    }
}

/// The rows of a table of pyarrow (`num_rows`) or Polars (`height`). Other objects might compute all rows to count them.
fn count(rows: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    let py = rows.py();
    for name in [intern!(py, "num_rows"), intern!(py, "height")] {
        if let Some(count) = rows.getattr_opt(name)? {
            return Ok(count.extract().ok());
        }
    }
    Ok(None)
}
