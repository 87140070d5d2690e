//! Reading: the partitions that a predicate leaves, some files at a time, as batches with the columns of `_common_metadata`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use pilum_common::type_name;
use pilum_expr::Expr;
use pilum_parquet::{ParquetFile, Projection, ScanMetrics, ScanOptions};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::names::stored_key;
use crate::open::Dataset;
use crate::schema::same_type;

/// Files whose footers are in memory at once, and as many again while the next ones are opened.
const FILES_AT_ONCE: usize = 64;
/// Footers that are read at once.
const OPENED_AT_ONCE: usize = 16;

/// A planned read of a table of a dataset. It can run any number of times.
#[derive(Debug)]
pub struct Scan {
    dataset: Arc<Dataset>,
    table: String,
    options: ScanOptions,
    /// Only these partitions, by place.
    chosen: Option<Vec<usize>>,
    /// The read of files of this table: of none, until partitions are opened.
    planned: Arc<pilum_parquet::Scan>,
    partitions_pruned: AtomicU64,
    rows_returned: AtomicU64,
}

impl Dataset {
    /// Plans a read of a table. `labels` restricts it to these partitions.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` for a table, column or label that the dataset does not have; [`Error::Expr`] for expressions that
    /// do not fit the columns.
    pub fn scan(
        self: &Arc<Self>,
        table: &str,
        options: ScanOptions,
        labels: Option<&[String]>,
    ) -> Result<Arc<Scan>> {
        let schema = Arc::clone(self.schema(table)?);
        let empty = Arc::new(pilum_parquet::Dataset::with_schema(Vec::new(), schema)?);
        let planned = empty.scan(options.clone())?;
        Ok(Arc::new(Scan {
            planned,
            partitions_pruned: AtomicU64::new(0),
            rows_returned: AtomicU64::new(0),
            chosen: labels.map(|labels| self.places_of(labels)).transpose()?,
            dataset: Arc::clone(self),
            table: table.to_owned(),
            options,
        }))
    }

    /// The number of rows of a table that pass a predicate, in all partitions or in those of `labels`. Without a predicate the
    /// footers tell it.
    ///
    /// # Errors
    /// As [`scan`](Self::scan) and as reading.
    pub async fn count_rows(
        self: &Arc<Self>,
        table: &str,
        filter: Option<Expr>,
        labels: Option<&[String]>,
        runtime: &Handle,
    ) -> Result<u64> {
        let mut rows = 0;
        if filter.is_some() {
            let mut options = ScanOptions::default();
            options.columns = Projection::Names(Vec::new());
            options.filter = filter;
            let mut batches = self.scan(table, options, labels)?.batches(runtime);
            while let Some(batch) = batches.next().await {
                rows += batch?.num_rows() as u64;
            }
            return Ok(rows);
        }
        let places = match labels {
            Some(labels) => self.places_of(labels)?,
            None => (0..self.labels().len()).collect(),
        };
        for places in places.chunks(FILES_AT_ONCE) {
            rows += self.open_partitions(table, places).await?.num_rows();
        }
        Ok(rows)
    }

    /// The positions of `labels` among the labels of all partitions, in the order of `labels`.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` if no partition has one of the labels.
    pub fn places_of(&self, labels: &[String]) -> Result<Vec<usize>> {
        let place = |label: &String| {
            let found = self
                .labels()
                .binary_search_by(|it| it.as_ref().cmp(label.as_str()));
            found.map_err(|_| {
                Error::invalid(
                    format!("partition {label:?}"),
                    format!("dataset `{}` has no such partition", self.uuid()),
                )
            })
        };
        labels.iter().map(place).collect()
    }

    /// Some partitions of a table as one dataset of Parquet files, with their partition keys.
    pub(crate) async fn open_partitions(
        &self,
        table: &str,
        places: &[usize],
    ) -> Result<Arc<pilum_parquet::Dataset>> {
        let schema = self.schema(table)?;
        let keys = self.keys()?;
        let opened = futures::stream::iter(places.to_vec()).map(|place| {
            let keys = &keys.rows;
            async move {
                let file = self.open_file(table, place).await?;
                let fields = keys.schema_ref().fields().iter();
                let constants: HashMap<String, ArrayRef> = fields
                    .zip(keys.columns())
                    .map(|(field, column)| (field.name().clone(), column.slice(place, 1)))
                    .collect();
                Ok::<_, Error>((file, constants))
            }
        });
        let files: Vec<_> = opened.buffered(OPENED_AT_ONCE).try_collect().await?;
        let opened = pilum_parquet::Dataset::with_schema(files, Arc::clone(schema))?;
        Ok(Arc::new(opened))
    }

    /// The file of a partition, which has to fit its table.
    async fn open_file(&self, table: &str, place: usize) -> Result<Arc<ParquetFile>> {
        let label = self.labels().get(place).map_or("", AsRef::as_ref);
        let key = self.files(place).and_then(|files| files.get(table));
        let Some(key) = key else {
            return Err(Error::corrupt(
                self.path(),
                format!("partition {label:?} has no file of table `{table}`"),
            ));
        };
        let limits = &self.options.limits.parquet;
        let key = stored_key(&self.store, key);
        let file = match ParquetFile::open(&self.store, &key, None, limits).await {
            Ok(file) => file,
            Err(pilum_parquet::Error::Store(pilum_store::Error::NotFound { path })) => {
                return Err(Error::NotFound {
                    path,
                    reason: format!(
                        "the file of partition {label:?} is missing; restore it, or delete the partition from the dataset"
                    ),
                });
            }
            Err(error) => return Err(error.into()),
        };
        let stored = self.table_schema(table)?;
        let mut differences = Vec::new();
        for field in stored.schema().fields() {
            let is_key = self.partition_keys().contains(field.name());
            let found = file
                .schema()
                .fields()
                .find(field.name())
                .filter(|_| !is_key);
            if let Some((_, found)) = found
                && !same_type(field.data_type(), found.data_type())
            {
                differences.push(format!(
                    "column `{}` is {} in {} and {} in {}",
                    field.name(),
                    type_name(field.data_type()),
                    stored.source(),
                    type_name(found.data_type()),
                    file.path()
                ));
            }
        }
        match differences.is_empty() {
            true => Ok(file),
            false => Err(Error::Schema {
                table: table.to_owned(),
                differences,
            }),
        }
    }
}

impl Scan {
    /// The columns of the batches.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        self.planned.schema()
    }

    /// The dataset that is read.
    #[must_use]
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// The same scan with counts of its own.
    #[must_use]
    pub fn again(&self) -> Arc<Self> {
        Arc::new(Self {
            dataset: Arc::clone(&self.dataset),
            table: self.table.clone(),
            options: self.options.clone(),
            chosen: self.chosen.clone(),
            planned: self.planned.again(),
            partitions_pruned: AtomicU64::new(0),
            rows_returned: AtomicU64::new(0),
        })
    }

    /// What the scan did so far. A partition that its keys or an index exclude counts as a file that was pruned.
    #[must_use]
    pub fn metrics(&self) -> ScanMetrics {
        let mut metrics = self.planned.metrics();
        let pruned = self.partitions_pruned.load(Ordering::Relaxed);
        metrics.files += pruned;
        metrics.files_pruned += pruned;
        metrics.rows_returned = self.rows_returned.load(Ordering::Relaxed);
        metrics
    }

    /// Requests to the store of the dataset, and bytes read from it, since the dataset was opened.
    #[must_use]
    pub fn requests_and_bytes(&self) -> (u64, u64) {
        let counters = self.dataset.store.counters();
        (counters.reads, counters.bytes_read)
    }

    /// The plan as text. No index is read for it.
    #[must_use]
    pub fn explain(&self) -> String {
        let partitions = match &self.chosen {
            Some(chosen) => chosen.len(),
            None => self.dataset.labels().len(),
        };
        format!(
            "scan of table `{}` of dataset `{}`, {partitions} partitions\n{}",
            self.table,
            self.dataset.uuid(),
            self.planned.explain_columns()
        )
    }

    /// The batches, partition after partition in the order of the labels, decoded by threads of `runtime`. Memory is bounded by a
    /// few batches for each thread, and by the footers of 128 files.
    pub fn batches(self: &Arc<Self>, runtime: &Handle) -> BoxStream<'static, Result<RecordBatch>> {
        let run = Run {
            skip: self.options.offset,
            left: self.options.limit,
            scan: Arc::clone(self),
            runtime: runtime.clone(),
            waiting: None,
            opening: None,
            current: None,
        };
        futures::stream::try_unfold(run, |mut run| async move {
            Ok(run.next().await?.map(|batch| (batch, run)))
        })
        .boxed()
    }

    async fn places(&self, runtime: &Handle) -> Result<Vec<usize>> {
        let places = match &self.options.filter {
            Some(filter) => self.dataset.dispatch(&self.table, filter, runtime).await?,
            None => (0..self.dataset.labels().len()).collect(),
        };
        let (all, places) = match &self.chosen {
            None => (self.dataset.labels().len(), places),
            Some(chosen) => {
                let kept = |place: &&usize| places.binary_search(place).is_ok();
                (chosen.len(), chosen.iter().filter(kept).copied().collect())
            }
        };
        let pruned = (all - places.len()) as u64;
        self.partitions_pruned.fetch_add(pruned, Ordering::Relaxed);
        Ok(places)
    }
}

/// Files that are being opened.
struct Opening(JoinHandle<Result<Arc<pilum_parquet::Dataset>>>);

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The consumer's end of a running scan.
struct Run {
    scan: Arc<Scan>,
    runtime: Handle,
    /// Partitions that were not opened yet; none before the first batch is asked for.
    waiting: Option<VecDeque<usize>>,
    opening: Option<Opening>,
    current: Option<BoxStream<'static, pilum_parquet::Result<RecordBatch>>>,
    skip: u64,
    left: Option<u64>,
}

impl Run {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.left == Some(0) {
                (self.current, self.opening) = (None, None);
                return Ok(None);
            }
            if let Some(current) = &mut self.current {
                match current.next().await {
                    Some(batch) => {
                        let batch = self.cut(&batch?);
                        if batch.num_rows() > 0 {
                            let rows = batch.num_rows() as u64;
                            self.scan.rows_returned.fetch_add(rows, Ordering::Relaxed);
                            return Ok(Some(batch));
                        }
                    }
                    None => self.current = None,
                }
                continue;
            }
            if self.waiting.is_none() {
                let places = self.scan.places(&self.runtime).await?;
                self.waiting = Some(places.into());
                self.open();
            }
            let Some(mut opening) = self.opening.take() else {
                return Ok(None);
            };
            let opened = (&mut opening.0).await.map_err(|error| {
                Error::bug(format!(
                    "{}: opening files: {error}",
                    self.scan.dataset.path()
                ))
            })??;
            self.open();
            let limit = self.left.map(|left| left.saturating_add(self.skip));
            let files = self.scan.planned.over(opened, 0, limit)?;
            self.current = Some(files.batches(&self.runtime));
        }
    }

    /// Begins to open the next files.
    fn open(&mut self) {
        let Some(waiting) = &mut self.waiting else {
            return;
        };
        let places: Vec<usize> = waiting.drain(..FILES_AT_ONCE.min(waiting.len())).collect();
        if places.is_empty() {
            return;
        }
        let scan = Arc::clone(&self.scan);
        let opening = self
            .runtime
            .spawn(async move { scan.dataset.open_partitions(&scan.table, &places).await });
        self.opening = Some(Opening(opening));
    }

    /// The part of a batch within offset and limit.
    fn cut(&mut self, batch: &RecordBatch) -> RecordBatch {
        let rows = batch.num_rows();
        let start = usize::try_from(self.skip).map_or(rows, |skip| skip.min(rows));
        self.skip -= start as u64;
        let rest = rows - start;
        let len = self.left.map_or(rest, |left| {
            usize::try_from(left).map_or(rest, |left| left.min(rest))
        });
        self.left = self.left.map(|left| left - len as u64);
        batch.slice(start, len)
    }
}
