//! A planned scan, and how its work is divided: how many tasks at once, and how large they are.

use std::sync::Arc;

use arrow_schema::SchemaRef;

use super::metrics::{Counters, ScanMetrics};
use super::plan::Plan;
use crate::error::{Error, Result};
use crate::read::context::ReadContext;
use crate::read::event;
use crate::read::options::ScanOptions;

/// Arrow bytes of a task when the caller names no size.
const TASK_BYTES: u64 = 8 << 20;
/// The smallest task that a memory limit may force.
const MIN_TASK_BYTES: u64 = 64 << 10;
/// Tasks of a remote table read at one time, while each may take [`REMOTE_TASK_BYTES`] under a memory limit.
const REMOTE_TASKS: usize = 12;
const REMOTE_TASK_BYTES: u64 = 1 << 20;
/// Fragments of a remote table opened at one time.
pub(crate) const REMOTE_FRAGMENTS: usize = 16;

/// A planned scan of one version.
#[derive(Debug)]
pub struct Scan {
    pub(super) context: Arc<ReadContext>,
    pub(super) plan: Arc<Plan>,
    pub(super) options: ScanOptions,
    pub(super) counters: Arc<Counters>,
}

impl Scan {
    /// # Errors
    /// `Limit` when the memory limit is too small for any task.
    pub(crate) fn new(context: Arc<ReadContext>, plan: Plan, options: ScanOptions) -> Result<Self> {
        let scan = Self {
            context,
            plan: Arc::new(plan),
            options,
            counters: Arc::default(),
        };
        scan.task_bytes()?;
        tracing::debug!(
            target: event::READ,
            uri = scan.context.store.uri(),
            fragments = scan.plan.fragments.len(),
            columns = scan.plan.output_schema.fields().len(),
            is_filtered = scan.plan.filter.is_some(),
            "planned a scan"
        );
        Ok(scan)
    }

    /// The same scan with metrics that begin at 0; the plan is shared.
    #[must_use]
    pub fn again(&self) -> Arc<Self> {
        Arc::new(Self {
            context: Arc::clone(&self.context),
            plan: Arc::clone(&self.plan),
            options: self.options.clone(),
            counters: Arc::default(),
        })
    }

    /// The columns that come out.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.plan.output_schema
    }

    /// What the scan did so far.
    #[must_use]
    pub fn metrics(&self) -> ScanMetrics {
        self.counters.metrics()
    }

    /// A description of the plan for people: fragments, filter, columns, offset and limit.
    #[must_use]
    pub fn explain(&self) -> String {
        self.plan.explain(&self.options)
    }

    pub(super) fn is_local(&self) -> bool {
        self.context.store.is_local()
    }

    fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.options.threads.unwrap_or(cores).max(1)
    }

    /// Tasks that are read, or read and not consumed. While the consumer works on a batch, each thread has a task, and one
    /// more batch is ready. Requests to remote stores wait: there as many tasks as memory allows are in flight.
    pub(super) fn tasks_in_flight(&self) -> usize {
        let least = match self.threads() {
            1 => return 1,
            threads => threads + 2,
        };
        if self.is_local() {
            return least;
        }
        let affordable = self.options.memory_limit.map_or(u64::MAX, |limit| {
            (limit / (2 * REMOTE_TASK_BYTES)).saturating_sub(1)
        });
        least.max(REMOTE_TASKS.min(usize::try_from(affordable).unwrap_or(usize::MAX)))
    }

    /// Readers on threads of the runtime. The consumer is a reader too, so on local stores, where reading occupies a
    /// processor, there is one fewer than threads. On remote stores, where reading waits, there is one for each task.
    pub(super) fn readers_beside_consumer(&self) -> usize {
        match self.threads() {
            threads if self.is_local() => threads - 1,
            1 => 0,
            _ => self.tasks_in_flight(),
        }
    }

    /// Under a limit of rows the next fragment may not be needed, so none is opened ahead.
    pub(super) fn fragments_opened_ahead(&self) -> usize {
        match self.options.limit {
            None if !self.is_local() => REMOTE_FRAGMENTS,
            _ => 1,
        }
    }

    /// Arrow bytes per task such that the tasks in flight, and the bytes that they are decoded from, fit the memory limit.
    ///
    /// # Errors
    /// `Limit` when tasks would be smaller than [`MIN_TASK_BYTES`].
    pub(super) fn task_bytes(&self) -> Result<u64> {
        let wanted = self.options.batch_bytes.unwrap_or(TASK_BYTES).max(1);
        let Some(limit) = self.options.memory_limit else {
            return Ok(wanted);
        };
        let shares = 2 * (self.tasks_in_flight() as u64 + 1);
        if limit / shares < MIN_TASK_BYTES {
            return Err(Error::limit(
                format!("a scan with {} threads", self.threads()),
                format!("{} bytes", shares * MIN_TASK_BYTES),
                format!("{limit} bytes"),
            ));
        }
        Ok(wanted.min(limit / shares))
    }
}
