//! Scans: some columns of the rows that pass a predicate, as a bounded stream of record batches.
//!
//! Row groups are decoded by several threads at once, each of which hands out one batch after the other and waits until it was
//! taken. So memory is bounded by a few batches for each thread, however large the row groups are.
//!
//! ```text
//!   ScanOptions ──> Plan ──> tasks of the next file ──> decoders, a few at once ──> batches in row order
//!                              └── prune: files by hive keys, row groups and pages by statistics
//! ```

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::num::NonZero;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use futures::stream::{BoxStream, StreamExt};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use pilum_expr::filter_mask;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::dataset::Dataset;
use crate::decode::{Decoder, Step};
use crate::error::{Error, Result};
use crate::file::ParquetFile;
use crate::options::{Held, ScanMetrics, ScanOptions, Tally};
use crate::plan::{DEFAULT_BATCH_BYTES, FilePlan, Plan, TaskRows, tasks};
use crate::project::Fit;

/// Remote files are read by at least so many tasks at once, which mostly wait.
const REMOTE_TASKS: usize = 8;
/// Batches that one task holds: one being decoded, one handed over, and the pages of both.
const BATCHES_HELD: u64 = 4;

/// A planned read of a dataset. It can run any number of times.
#[derive(Debug)]
pub struct Scan {
    dataset: Arc<Dataset>,
    plan: Arc<Plan>,
    options: ScanOptions,
    tally: Arc<Tally>,
}

impl Dataset {
    /// Plans a scan.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` and [`Error::Expr`] for columns and expressions that do not fit the schema.
    pub fn scan(self: &Arc<Self>, mut options: ScanOptions) -> Result<Arc<Scan>> {
        if let Some(limit) = options.memory_limit {
            let batch = options.batch_bytes.unwrap_or(DEFAULT_BATCH_BYTES);
            options.batch_bytes = Some(batch.min(limit / (4 * BATCHES_HELD)).max(1));
        }
        Ok(Arc::new(Scan {
            plan: Arc::new(Plan::new(self.schema(), &options)?),
            dataset: Arc::clone(self),
            options,
            tally: Arc::default(),
        }))
    }

    /// The number of rows that pass a predicate; without one it is known from the footers.
    ///
    /// # Errors
    /// As [`scan`](Self::scan) and as reading.
    pub async fn count_rows(
        self: &Arc<Self>,
        filter: Option<pilum_expr::Expr>,
        runtime: &Handle,
    ) -> Result<u64> {
        if filter.is_none() {
            return Ok(self.num_rows());
        }
        let options = ScanOptions {
            filter,
            columns: pilum_expr::Projection::Names(Vec::new()),
            ..ScanOptions::default()
        };
        let mut batches = self.scan(options)?.batches(runtime);
        let mut rows = 0;
        while let Some(batch) = batches.next().await {
            rows += batch?.num_rows() as u64;
        }
        Ok(rows)
    }
}

impl Scan {
    /// The columns of the batches.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.plan.schema
    }

    /// The dataset that is read.
    #[must_use]
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// What the scan did so far.
    #[must_use]
    pub fn metrics(&self) -> ScanMetrics {
        self.tally.metrics()
    }

    /// The same scan with counts of its own.
    #[must_use]
    pub fn again(&self) -> Arc<Self> {
        Arc::new(Self {
            dataset: Arc::clone(&self.dataset),
            plan: Arc::clone(&self.plan),
            options: self.options.clone(),
            tally: Arc::default(),
        })
    }

    /// The same columns and filter of other files, which have the same schema. Both scans count together.
    ///
    /// # Errors
    /// `CommonError::Bug` for files of another schema.
    pub fn over(
        &self,
        dataset: Arc<Dataset>,
        offset: u64,
        limit: Option<u64>,
    ) -> Result<Arc<Self>> {
        if dataset.schema() != self.dataset.schema() {
            return Err(Error::bug("a scan of files of another schema"));
        }
        let mut options = self.options.clone();
        (options.offset, options.limit) = (offset, limit);
        Ok(Arc::new(Self {
            dataset,
            plan: Arc::clone(&self.plan),
            options,
            tally: Arc::clone(&self.tally),
        }))
    }

    /// The plan as text.
    #[must_use]
    pub fn explain(&self) -> String {
        let (files, rows) = (self.dataset.files().len(), self.dataset.num_rows());
        let columns = self.explain_columns();
        format!("scan of {files} Parquet files, {rows} rows\n{columns}")
    }

    /// The filter and the columns of the plan as text.
    #[must_use]
    pub fn explain_columns(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        if let Some(filter) = &self.options.filter {
            let _ = writeln!(text, "  filter: {filter}");
        }
        let columns = self.plan.inputs.paths.iter().map(|path| path.join("."));
        let _ = writeln!(
            text,
            "  columns: {}",
            columns.collect::<Vec<_>>().join(", ")
        );
        text
    }

    /// The batches in row order, decoded by threads of `runtime`.
    ///
    /// # Errors
    /// The stream ends with the first error; the rows before it are handed out first.
    pub fn batches(self: &Arc<Self>, runtime: &Handle) -> BoxStream<'static, Result<RecordBatch>> {
        let (skip, left) = (self.options.offset, self.options.limit);
        let run = Run {
            scan: Arc::clone(self),
            runtime: runtime.clone(),
            next_part: 0,
            waiting: VecDeque::new(),
            running: VecDeque::new(),
            width: self.width(),
            skip,
            left,
            is_cut_early: self.plan.filter.is_none(),
            consumed: None,
        };
        futures::stream::try_unfold(run, |mut run| async move {
            Ok(run.next().await?.map(|batch| (batch, run)))
        })
        .boxed()
    }

    /// Tasks at once.
    fn width(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let wanted = self
            .options
            .threads
            .unwrap_or(match self.dataset.is_local() {
                true => cores,
                false => cores.max(REMOTE_TASKS),
            });
        let batch = self.options.batch_bytes.unwrap_or(DEFAULT_BATCH_BYTES);
        let most = self.options.memory_limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit / batch.saturating_mul(BATCHES_HELD).max(1)).unwrap_or(usize::MAX)
        });
        wanted.min(most).max(1)
    }
}

/// A batch whose bytes count as held by its scan.
type Handed = (RecordBatch, Held);

/// A task that waits for a thread.
struct Waiting {
    file: Arc<ParquetFile>,
    footer: ArrowReaderMetadata,
    plan: Arc<FilePlan>,
    rows: TaskRows,
}

/// The consumer's end of a running scan.
struct Run {
    scan: Arc<Scan>,
    runtime: Handle,
    next_part: usize,
    waiting: VecDeque<Waiting>,
    running: VecDeque<mpsc::Receiver<Result<Handed>>>,
    width: usize,
    skip: u64,
    left: Option<u64>,
    /// Without a predicate, the tasks have been cut by offset and limit.
    is_cut_early: bool,
    consumed: Option<Held>,
}

impl Run {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        // A new poll means that the previous batch was consumed: its memory no longer counts.
        self.consumed = None;
        loop {
            if !self.is_cut_early && self.left == Some(0) {
                self.running.clear();
                return Ok(None);
            }
            self.start().await?;
            let Some(first) = self.running.front_mut() else {
                return Ok(None);
            };
            let Some(handed) = first.recv().await else {
                self.running.pop_front();
                continue;
            };
            let (mut batch, held) = handed?;
            if !self.is_cut_early {
                batch = self.cut(&batch);
            }
            if batch.num_rows() == 0 {
                continue;
            }
            Tally::add(&self.scan.tally.rows_returned, batch.num_rows() as u64);
            self.consumed = Some(held);
            return Ok(Some(batch));
        }
    }

    /// Keeps as many tasks running as may run.
    async fn start(&mut self) -> Result<()> {
        while self.running.len() < self.width {
            if let Some(task) = self.waiting.pop_front() {
                self.check_memory(&task)?;
                self.running.push_back(self.spawn(task));
                continue;
            }
            let is_complete = self.is_cut_early && self.left == Some(0);
            let scan = Arc::clone(&self.scan);
            let Some(part) = scan
                .dataset
                .parts
                .get(self.next_part)
                .filter(|_| !is_complete)
            else {
                return Ok(());
            };
            self.next_part += 1;
            let rows = part.file.num_rows();
            if self.is_cut_early && self.skip >= rows {
                // The whole file is before the offset.
                self.skip -= rows;
                continue;
            }
            let plan = Arc::new(FilePlan::new(&scan.plan, &scan.dataset, part)?);
            let cut = (&mut self.skip, &mut self.left);
            let (footer, rows) = if self.is_cut_early {
                tasks(part, &plan, &scan.plan, &scan.options, cut, &scan.tally).await?
            } else {
                let cut = (&mut 0, &mut None);
                tasks(part, &plan, &scan.plan, &scan.options, cut, &scan.tally).await?
            };
            self.waiting.extend(rows.into_iter().map(|rows| Waiting {
                file: Arc::clone(&part.file),
                footer: footer.clone(),
                plan: Arc::clone(&plan),
                rows,
            }));
        }
        Ok(())
    }

    /// Refuses a task of a remote file whose bytes alone exceed the memory limit: they are read before the first row.
    fn check_memory(&self, task: &Waiting) -> Result<()> {
        let Some(limit) = self.scan.options.memory_limit else {
            return Ok(());
        };
        if task.file.source().mapped().is_some() || task.rows.rows.rows.is_some() {
            return Ok(());
        }
        let group = task.footer.metadata().row_group(task.rows.rows.group);
        let wanted = |leaf: &&parquet::file::metadata::ColumnChunkMetaData| {
            let path = leaf.column_path().parts();
            task.plan
                .columns
                .paths
                .iter()
                .any(|wanted| path.starts_with(wanted))
        };
        let bytes: u64 = group
            .columns()
            .iter()
            .filter(wanted)
            .map(|leaf| leaf.compressed_size().cast_unsigned())
            .sum();
        if bytes > limit {
            return Err(Error::limit(
                format!("{}: row group {}", task.file.path(), task.rows.rows.group),
                format!("{bytes} bytes"),
                format!("{limit} bytes"),
            ));
        }
        Ok(())
    }

    fn spawn(&self, task: Waiting) -> mpsc::Receiver<Result<Handed>> {
        let (sender, receiver) = mpsc::channel(1);
        let (scan, runtime) = (Arc::clone(&self.scan), self.runtime.clone());
        self.runtime.spawn_blocking(move || {
            if let Err(error) = run_task(&scan, &runtime, &task, &sender) {
                // Sending fails only when the consumer dropped the stream: then nobody reads the error.
                let _ = sender.blocking_send(Err(error));
            }
        });
        receiver
    }

    /// The part of a batch within offset and limit.
    fn cut(&mut self, batch: &RecordBatch) -> RecordBatch {
        let rows = batch.num_rows();
        let start = usize::try_from(self.skip).map_or(rows, |skip| skip.min(rows));
        self.skip -= start as u64;
        let len = match self.left {
            Some(left) => usize::try_from(left).map_or(rows - start, |left| left.min(rows - start)),
            None => rows - start,
        };
        self.left = self.left.map(|left| left - len as u64);
        batch.slice(start, len)
    }
}

/// Decodes the rows of a task and hands them over, batch by batch.
fn run_task(
    scan: &Scan,
    runtime: &Handle,
    task: &Waiting,
    sender: &mpsc::Sender<Result<Handed>>,
) -> Result<()> {
    let plan = task.plan.as_ref();
    let rows = std::slice::from_ref(&task.rows.rows);
    let pushed = plan.pushed.as_ref();
    let batch_rows = task.rows.batch_rows;
    let mut decoder = Decoder::new(
        &task.file,
        &task.footer,
        &plan.columns,
        rows,
        batch_rows,
        pushed,
    )?;
    Tally::add(&scan.tally.rows_scanned, task.rows.num_rows);
    let is_mapped = task.file.source().mapped().is_some();
    let mut read = Vec::new();
    let mut number = 0;
    loop {
        match decoder.step()? {
            Step::Read(ranges) => {
                if !is_mapped {
                    let bytes = ranges.iter().map(|range| range.end - range.start).sum();
                    read.push(Held::of(&scan.tally, bytes));
                }
                runtime.block_on(decoder.read(ranges))?;
            }
            Step::Batch(batch) => {
                let path = task.file.path();
                let batch = fitted(plan, &plan.fit, path, &batch, number)?;
                let batch = match &plan.filter {
                    Some(_) => select(&scan.plan, path, &batch)?,
                    None => batch,
                };
                let batch = scan.plan.output(path, batch)?;
                number += 1;
                let held = Held::of(&scan.tally, batch.get_array_memory_size() as u64);
                if batch.num_rows() > 0 && sender.blocking_send(Ok((batch, held))).is_err() {
                    return Ok(());
                }
            }
            Step::Finished => return Ok(()),
        }
    }
}

/// A batch of a file with the columns of its dataset, and only the rows that pass a predicate which the decoder did not apply.
pub(crate) fn fitted(
    plan: &FilePlan,
    fit: &Fit,
    path: &str,
    batch: &RecordBatch,
    number: u64,
) -> Result<RecordBatch> {
    let batch = fit.apply(path, batch, number)?;
    let Some(filter) = &plan.filter else {
        return Ok(batch);
    };
    let mask = filter_mask(filter, &batch)?;
    filter_record_batch(&batch, &mask).map_err(|error| Error::bug(format!("{path}: {error}")))
}

/// The inputs of the output, out of a batch that has columns of the predicate too.
fn select(plan: &Plan, path: &str, batch: &RecordBatch) -> Result<RecordBatch> {
    let fit = Fit {
        adapter: None,
        constants: Arc::default(),
        schema: Arc::clone(&plan.inputs.schema),
    };
    fit.apply(path, batch, 0)
}
