//! The batches of a scan: outputs of its tasks, cut by offset, limit and batch size.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::RecordBatch;
use futures::stream::{BoxStream, StreamExt};
use tokio::runtime::Handle;

use super::mapped::MappedRelease;
use super::planned::Scan;
use super::read_task::TaskOutput;
use super::readers::Readers;
use crate::error::Result;
use crate::read::event;

impl Scan {
    /// The batches, read by the consumer and up to [`ScanOptions::threads`](crate::ScanOptions::threads) less one threads of
    /// `runtime`.
    ///
    /// # Errors
    /// The stream ends with the first error; the rows before it are handed out first.
    pub fn batches(self: &Arc<Self>, runtime: &Handle) -> BoxStream<'static, Result<RecordBatch>> {
        let outputs = Readers::new(Arc::clone(self), runtime.clone()).outputs();
        // Without a predicate, the tasks have been cut by offset and limit.
        let (skip, left) = match self.plan.filter {
            Some(_) => (self.options.offset, self.options.limit),
            None => (0, None),
        };
        let batches = Batches {
            outputs,
            skip,
            left,
            ready: VecDeque::new(),
            consumed: None,
            mapped: self.options.memory_limit.map(MappedRelease::new),
            scan: Arc::clone(self),
        };
        futures::stream::try_unfold(batches, |mut batches| async move {
            Ok(batches.next().await?.map(|batch| (batch, batches)))
        })
        .boxed()
    }
}

/// The consumer's end of a running scan.
struct Batches {
    scan: Arc<Scan>,
    outputs: BoxStream<'static, Result<TaskOutput>>,
    /// Rows to leave out.
    skip: u64,
    /// Rows that may still be handed out.
    left: Option<u64>,
    /// Slices of the batch read last.
    ready: VecDeque<RecordBatch>,
    /// The task that `ready` is of.
    consumed: Option<TaskOutput>,
    /// Unmaps files behind the consumer, under a memory limit.
    mapped: Option<MappedRelease>,
}

impl Batches {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                let returned = &self.scan.counters.rows_returned;
                returned.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                return Ok(Some(batch));
            }
            if self.left == Some(0) {
                return Ok(None);
            }
            // A new poll means that the previous batch was consumed: its memory no longer counts.
            if let Some(output) = self.consumed.take() {
                drop(output.held);
                self.mapped
                    .iter_mut()
                    .for_each(|mapped| mapped.pass(&output.task));
            }
            let Some(mut output) = self.outputs.next().await.transpose()? else {
                return Ok(None);
            };
            if let Some(batch) = output.batch.take() {
                self.cut(&batch);
            }
            self.consumed = Some(output);
        }
    }

    /// Makes slices of at most the rows that a batch may have, within offset and limit.
    fn cut(&mut self, batch: &RecordBatch) {
        let num_rows = batch.num_rows();
        let start = usize::try_from(self.skip).map_or(num_rows, |skip| skip.min(num_rows));
        let available = (num_rows - start) as u64;
        let taken = self.left.map_or(available, |left| left.min(available));
        self.skip -= start as u64;
        self.left = self.left.map(|left| left - taken);
        // No more than `available`, which is a `usize`.
        let end = start + usize::try_from(taken).unwrap_or(num_rows - start);
        let step = self.scan.options.batch_rows.unwrap_or(usize::MAX).max(1);
        let mut start = start;
        while start < end {
            let len = step.min(end - start);
            self.ready.push_back(batch.slice(start, len));
            start += len;
        }
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        let metrics = self.scan.metrics();
        tracing::debug!(
            target: event::READ,
            uri = self.scan.context.store.uri(),
            rows_scanned = metrics.rows_scanned,
            rows = metrics.rows_returned,
            pages_pruned = metrics.pages_pruned,
            fragments_pruned = metrics.fragments_pruned,
            peak_bytes = metrics.peak_bytes,
            "ended a scan"
        );
    }
}
