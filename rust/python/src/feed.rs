//! Rows from Python into the engine: the calling thread pulls them, another thread encodes and writes them.
//!
//! ```text
//!   calling thread:  pull a batch (Python may run) ── channel of one ──> writer thread: encode, write, commit
//!                    check signals, report progress  <── rows done ──
//! ```
//!
//! So a generator of the user runs on the thread of the caller, its exceptions reach the caller with their classes, and
//! pulling the next batch overlaps with writing the previous one.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use futures::channel::mpsc::{Receiver, Sender, channel};
use futures::{SinkExt, StreamExt};
use pyo3::prelude::*;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::errors::{Ended, Failure, guarded};
use crate::ffi::Source;
use crate::progress::Progress;
use crate::runtime;

/// Arrow bytes handed over at once. Between two of them signals are checked and progress is reported.
const PART_BYTES: usize = 64 << 20;
const PART_ROWS: usize = 8192;

/// How long an aborted write may take to remove its files.
const GRACE: Duration = Duration::from_secs(5);

/// The end of the channel that the writer reads.
pub(crate) struct Fed {
    schema: SchemaRef,
    batches: Receiver<Message>,
    done_rows: Arc<AtomicU64>,
    handed_rows: u64,
}

enum Message {
    Batch(RecordBatch),
    End,
}

impl Iterator for Fed {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The writer asks for the next batch when it has written the previous one.
        self.done_rows
            .fetch_add(std::mem::take(&mut self.handed_rows), Ordering::Relaxed);
        match futures::executor::block_on(self.batches.next()) {
            Some(Message::Batch(batch)) => {
                self.handed_rows = batch.num_rows() as u64;
                Some(Ok(batch))
            }
            Some(Message::End) => None,
            // The calling thread has the reason and raises it.
            None => Some(Err(ArrowError::ExternalError(
                "the write was aborted".into(),
            ))),
        }
    }
}

impl RecordBatchReader for Fed {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

/// Runs `write` over the rows of `source` and returns what it returns.
///
/// If the rows, a signal or the progress callable raise, the write is aborted: its rows end with an error, and it removes the
/// files that it wrote.
pub(crate) fn feed<T, E, F>(
    py: Python<'_>,
    source: Source,
    mut progress: Progress,
    write: impl FnOnce(Fed) -> F + Send + 'static,
) -> Result<T, Ended>
where
    T: Send + 'static,
    F: Future<Output = Result<T, E>>,
    Failure: From<E>,
{
    let (sender, batches) = channel(0);
    let schema = SchemaRef::clone(source.schema());
    let fed = Fed {
        schema,
        batches,
        done_rows: progress.done_rows(),
        handed_rows: 0,
    };
    let (cancel, cancelled) = oneshot::channel::<()>();
    let handle = runtime::handle()?;
    let mut writer = handle.clone().spawn_blocking(move || {
        guarded(|| {
            handle.block_on(async {
                tokio::select! {
                    written = write(fed) => written.map_err(Failure::from),
                    _ = cancelled => Err(Failure::interrupted("the write was aborted")),
                }
            })
        })
    });
    let pumped = pump(py, source, sender, &mut progress).and_then(|()| {
        Ok(runtime::block_on_ticking(py, &mut writer, |py| {
            progress.tick(py)
        })?)
    });
    match pumped {
        Ok(joined) => {
            let written = joined.unwrap_or_else(|error| Err(Failure::bug(error.to_string())))?;
            progress.tick(py)?;
            Ok(written)
        }
        Err(ended) => {
            // The sender is dropped, so the write fails at its next batch. A write that waits for a store is cancelled.
            py.detach(|| abort(writer, cancel))?;
            Err(ended)
        }
    }
}

/// Hands over all batches. If the writer ended early this is no error here: the writer returns its own.
fn pump(
    py: Python<'_>,
    mut source: Source,
    mut sender: Sender<Message>,
    progress: &mut Progress,
) -> Result<(), Ended> {
    loop {
        let pulled = source.pull(py);
        // A signal that arrived during the pull comes before an error of the rows, which it may have caused.
        progress.maybe_tick(py)?;
        let Some(batch) = pulled? else {
            let sent = sender.send(Message::End);
            // If the writer ended early, it returns its error.
            let _ = runtime::block_on_ticking(py, sent, |py| progress.tick(py))?;
            return Ok(());
        };
        for part in parts(&batch) {
            let sent = sender.send(Message::Batch(part));
            if runtime::block_on_ticking(py, sent, |py| progress.tick(py))?.is_err() {
                return Ok(());
            }
        }
    }
}

/// A batch in parts of about [`PART_BYTES`]: a whole table may come as one batch.
fn parts(batch: &RecordBatch) -> Vec<RecordBatch> {
    let rows = batch.num_rows();
    let measured = batch
        .columns()
        .iter()
        .map(|column| column.to_data().get_slice_memory_size());
    // The size of a slice of lists counts all items, which would make the parts too small: hence a least number of rows.
    let bytes: usize = measured.map(Result::unwrap_or_default).sum();
    let step = rows
        .div_ceil(bytes.div_ceil(PART_BYTES).max(1))
        .max(PART_ROWS);
    let starts = (0..rows.max(1)).step_by(step);
    starts
        .map(|start| batch.slice(start, step.min(rows - start)))
        .collect()
}

fn abort<T>(writer: JoinHandle<T>, cancel: oneshot::Sender<()>) -> Result<(), Failure> {
    let mut writer = writer;
    runtime::handle()?.block_on(async {
        if tokio::time::timeout(GRACE, &mut writer).await.is_err() {
            drop(cancel);
            let _ = writer.await;
        }
    });
    Ok(())
}
