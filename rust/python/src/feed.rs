//! Rows from Python into the engine: pulled on the thread that called, encoded and written on another.
//!
//! ```text
//!   calling thread:  pull a batch (Python may run) ── channel of one ──> writer thread: encode, write, commit
//!                    hear signals, tell progress  <── rows done ──
//! ```
//!
//! So a generator of the user's runs where it was called, an exception of it reaches the caller as it is, and pulling the
//! next batch overlaps with writing the last one.

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

/// Arrow bytes handed over at once: what signals and progress wait for.
const PART_BYTES: usize = 64 << 20;
const PART_ROWS: usize = 8192;

/// How long a write that was given up may take to remove its files.
const GRACE: Duration = Duration::from_secs(5);

/// The batches, on the writer's side.
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
        // Who asks for more is done with what it had.
        self.done_rows
            .fetch_add(std::mem::take(&mut self.handed_rows), Ordering::Relaxed);
        match futures::executor::block_on(self.batches.next()) {
            Some(Message::Batch(batch)) => {
                self.handed_rows = batch.num_rows() as u64;
                Some(Ok(batch))
            }
            Some(Message::End) => None,
            // The reason is known on the other side.
            None => Some(Err(ArrowError::ExternalError(
                "the write was given up".into(),
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
/// When the rows, a signal or the progress callable raise, the write is given up: it sees its rows fail, and removes what it
/// wrote.
pub(crate) fn feed<T, F>(
    py: Python<'_>,
    source: Source,
    mut progress: Progress,
    write: impl FnOnce(Fed) -> F + Send + 'static,
) -> Result<T, Ended>
where
    T: Send + 'static,
    F: Future<Output = pilum_table::Result<T>>,
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
                    _ = cancelled => Err(Failure::interrupted("the write was given up")),
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
            // The sender is gone by now, and the write fails at its next batch. What waits for a store is cut short.
            py.detach(|| give_up(writer, cancel))?;
            Err(ended)
        }
    }
}

/// Hands over all batches. It ends early, and well, when the writer is gone: the writer knows why.
fn pump(
    py: Python<'_>,
    mut source: Source,
    mut sender: Sender<Message>,
    progress: &mut Progress,
) -> Result<(), Ended> {
    loop {
        let pulled = source.pull(py);
        // A signal that came meanwhile is the reason, whatever the rows made of it.
        progress.maybe_tick(py)?;
        let Some(batch) = pulled? else {
            let sent = sender.send(Message::End);
            // A writer that is gone has an error to tell.
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
    // Too many for a slice of lists, whose items are counted in full: hence the least number of rows.
    let bytes: usize = measured.map(Result::unwrap_or_default).sum();
    let step = rows
        .div_ceil(bytes.div_ceil(PART_BYTES).max(1))
        .max(PART_ROWS);
    let starts = (0..rows.max(1)).step_by(step);
    starts
        .map(|start| batch.slice(start, step.min(rows - start)))
        .collect()
}

fn give_up<T>(writer: JoinHandle<T>, cancel: oneshot::Sender<()>) -> Result<(), Failure> {
    let mut writer = writer;
    runtime::handle()?.block_on(async {
        if tokio::time::timeout(GRACE, &mut writer).await.is_err() {
            drop(cancel);
            let _ = writer.await;
        }
    });
    Ok(())
}
