//! A run of a scan of any source: its rows, and the requests and bytes that it takes.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use futures::StreamExt;
use futures::stream::BoxStream;
use pyo3::prelude::*;
use tokio::runtime::Handle;

use crate::errors::Failure;
use crate::runtime::handle;

/// A scan that one process planned, of any source. It runs once.
pub(crate) trait Planned: Send + Sync {
    /// The plan as text.
    fn explain(&self) -> String;

    /// Starts to read.
    fn batches(&self, runtime: &Handle) -> BoxStream<'static, Result<RecordBatch, Failure>>;

    /// Requests to the stores of the source, and bytes that they read, since the source was opened.
    fn requests_and_bytes(&self) -> (u64, u64);

    /// The counts of the run up to now, as an object of Python's class for its kind of source.
    fn metrics(&self, py: Python<'_>, cost: Cost) -> PyResult<Py<PyAny>>;
}

/// The requests, the bytes and the time of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) requests: u64,
    pub(crate) bytes_read: u64,
    pub(crate) took: Duration,
}

/// The rows of a scan, as they are read.
pub(crate) struct Rows {
    batches: BoxStream<'static, Result<RecordBatch, Failure>>,
    run: Arc<Run>,
}

impl Rows {
    /// Starts a scan.
    pub(crate) fn of(planned: Arc<dyn Planned>) -> Result<Self, Failure> {
        let (requests_before, bytes_before) = planned.requests_and_bytes();
        let batches = planned.batches(&handle()?);
        let run = Arc::new(Run {
            planned,
            requests_before,
            bytes_before,
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

    /// Reads to the end and counts the rows.
    pub(crate) async fn count(mut self) -> Result<u64, Failure> {
        let mut count = 0;
        while let Some(batch) = self.next().await? {
            count += batch.num_rows() as u64;
        }
        Ok(count)
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.run.finish();
    }
}

/// The counts of a run, while it runs and after it.
pub(crate) struct Run {
    planned: Arc<dyn Planned>,
    requests_before: u64,
    bytes_before: u64,
    started: Instant,
    end: OnceLock<Cost>,
}

impl Run {
    fn finish(&self) {
        // Only the first call counts: after the last batch, or when the run is dropped before it.
        let _ = self.end.set(self.now());
    }

    fn now(&self) -> Cost {
        let (requests, bytes_read) = self.planned.requests_and_bytes();
        Cost {
            requests: requests.saturating_sub(self.requests_before),
            bytes_read: bytes_read.saturating_sub(self.bytes_before),
            took: self.started.elapsed(),
        }
    }

    /// The counts of the run up to now, as an object of Python's class for its kind of source.
    pub(crate) fn metrics(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let cost = self.end.get().copied().unwrap_or_else(|| self.now());
        self.planned.metrics(py, cost)
    }
}

/// The counts of a run as they are printed: their names and values, fractions with six digits.
pub(crate) fn counts_repr(counts: &impl fmt::Debug) -> String {
    format!("{counts:.6?}")
        .replacen(" { ", "(", 1)
        .replace(" }", ")")
        .replace(": ", "=")
}
