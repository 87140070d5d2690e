//! Parquet: datasets that are read where they are, files that are written, and descriptions of files.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use futures::StreamExt;
use futures::stream::BoxStream;
use pilum_parquet::{
    Dataset, Error, ExportOptions, Exporter, FileCompression, OpenOptions, Projection, Scan,
    ScanOptions, WriteOptions,
};
use pilum_table::StorageOptions;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arguments::{self, Count, Pairs};
use crate::batch::{Batch, Schema};
use crate::errors::{Ended, Failure, guarded};
use crate::expr::Given;
use crate::feed::feed;
use crate::ffi::{import, import_schema, schema_capsule, stream_capsule};
use crate::process::{OneProcess, PerProcess};
use crate::progress::Progress;
use crate::runtime::{block_on, block_on_anywhere, handle};

/// Parquet files that are read as one table. After a fork the child opens them again when it first needs them.
#[derive(Debug)]
#[pyclass(frozen, module = "pilum._pilum")]
pub(crate) struct ParquetDataset {
    opened: PerProcess<Arc<Dataset>>,
    uris: Vec<String>,
    storage: StorageOptions,
    options: OpenOptions,
    schema: SchemaRef,
}

impl ParquetDataset {
    fn dataset(&self, py: Python<'_>) -> PyResult<&Arc<Dataset>> {
        self.opened.get_or_try_make(|| {
            let opened = Dataset::open(&self.uris, &self.storage, &self.options);
            let opened = block_on(py, opened)?.map_err(Failure::from)?;
            Ok(Arc::new(opened))
        })
    }
}

/// Opens Parquet files and folders as one table.
#[pyfunction]
#[pyo3(signature = (uris, *, hive=true, key_types=None, storage_options=None))]
pub(crate) fn parquet_open(
    py: Python<'_>,
    uris: Vec<String>,
    hive: bool,
    key_types: Option<&Bound<'_, PyAny>>,
    storage_options: Option<Pairs>,
) -> PyResult<ParquetDataset> {
    guarded(|| {
        let storage = arguments::storage_options(storage_options);
        let mut options = OpenOptions::default();
        options.hive = hive;
        options.key_types = match key_types {
            None => HashMap::new(),
            Some(capsule) => {
                let fields = import_schema(capsule)?.fields;
                let pair = |field: &Arc<arrow_schema::Field>| -> (String, DataType) {
                    (field.name().clone(), field.data_type().clone())
                };
                fields.iter().map(pair).collect()
            }
        };
        let opened = block_on(py, Dataset::open(&uris, &storage, &options))?;
        let opened = Arc::new(opened.map_err(Failure::from)?);
        Ok(ParquetDataset {
            schema: SchemaRef::clone(opened.schema()),
            opened: PerProcess::new(opened),
            uris,
            storage,
            options,
        })
    })
}

fn projection(columns: Option<&Bound<'_, PyAny>>) -> Result<Projection, Ended> {
    use pilum_table::Projection as Given;
    Ok(match arguments::projection(columns)? {
        Given::All => Projection::All,
        Given::Names(names) => Projection::Names(names),
        Given::Expressions(expressions) => Projection::Expressions(expressions),
    })
}

#[pymethods]
impl ParquetDataset {
    #[getter]
    fn schema(&self) -> Schema {
        Schema(SchemaRef::clone(&self.schema))
    }

    #[getter]
    fn num_rows(&self, py: Python<'_>) -> PyResult<u64> {
        guarded(|| Ok(self.dataset(py)?.num_rows()))
    }

    /// Path, rows, bytes of each file.
    fn files(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, u64)>> {
        guarded(|| {
            let files = self.dataset(py)?.files();
            Ok(files
                .map(|it| (it.path().to_owned(), it.num_rows(), it.size()))
                .collect())
        })
    }

    #[pyo3(signature = (filter=None))]
    fn count_rows(&self, py: Python<'_>, filter: Option<Given>) -> PyResult<u64> {
        guarded(|| {
            let (dataset, filter, handle) =
                (self.dataset(py)?, arguments::filter(filter)?, handle()?);
            Ok(block_on(py, dataset.count_rows(filter, &handle))?.map_err(Failure::from)?)
        })
    }

    #[pyo3(signature = (indices, columns=None))]
    fn take(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        columns: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Batch> {
        guarded(|| {
            let positions = arguments::row_numbers("row position", indices)?;
            let (columns, handle) = (projection(columns)?, handle()?);
            let taken = block_on(py, self.dataset(py)?.take(&positions, columns, &handle))?;
            Ok(Batch(taken.map_err(Failure::from)?))
        })
    }

    #[pyo3(signature = (
        columns=None, filter=None, limit=None, offset=None, batch_rows=None, batch_bytes=None, memory_limit=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn scan(
        this: &Bound<'_, Self>,
        columns: Option<&Bound<'_, PyAny>>,
        filter: Option<Given>,
        limit: Option<Count>,
        offset: Option<Count>,
        batch_rows: Option<Count>,
        batch_bytes: Option<Count>,
        memory_limit: Option<Count>,
    ) -> PyResult<ParquetScanner> {
        guarded(|| {
            let mut options = ScanOptions::default();
            options.columns = projection(columns)?;
            options.filter = arguments::filter(filter)?;
            options.limit = limit.map(Count::get);
            options.offset = offset.map_or(0, Count::get);
            options.batch_rows =
                batch_rows.map(|rows| usize::try_from(rows.get()).unwrap_or(usize::MAX));
            options.batch_bytes = batch_bytes.map(Count::get);
            options.memory_limit = memory_limit.map(Count::get);
            let dataset = this.get().dataset(this.py())?;
            let planned = dataset.scan(options.clone()).map_err(Failure::from)?;
            Ok(ParquetScanner {
                dataset: this.clone().unbind(),
                options,
                schema: SchemaRef::clone(planned.schema()),
                last_run: Mutex::default(),
            })
        })
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        guarded(|| schema_capsule(py, &self.schema))
    }

    fn __repr__(&self) -> String {
        format!(
            "<pilum._pilum.ParquetDataset of {} addresses>",
            self.uris.len()
        )
    }
}

/// A planned read of Parquet files.
#[pyclass(frozen, module = "pilum._pilum")]
pub(crate) struct ParquetScanner {
    dataset: Py<ParquetDataset>,
    options: ScanOptions,
    schema: SchemaRef,
    /// Locked for an instant and with the GIL held, so that no fork finds it locked.
    last_run: Mutex<Option<OneProcess<Arc<Run>>>>,
}

impl ParquetScanner {
    fn start(&self, py: Python<'_>) -> Result<Rows, Ended> {
        let dataset = self.dataset.get().dataset(py)?;
        let scan = dataset.scan(self.options.clone()).map_err(Failure::from)?;
        let (requests_before, bytes_before) = dataset.counters();
        let batches = scan.batches(&handle()?);
        let run = Arc::new(Run {
            scan,
            requests_before,
            bytes_before,
            started: Instant::now(),
            end: OnceLock::new(),
        });
        if let Ok(mut last) = self.last_run.try_lock() {
            *last = Some(OneProcess::new(Arc::clone(&run)));
        }
        Ok(Rows { batches, run })
    }
}

#[pymethods]
impl ParquetScanner {
    #[getter]
    fn schema(&self) -> Schema {
        Schema(SchemaRef::clone(&self.schema))
    }

    #[getter]
    fn metrics(&self) -> Option<ParquetScanMetrics> {
        let last = self.last_run.try_lock().ok()?;
        last.as_ref()?.get().map(|run| run.metrics())
    }

    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        guarded(|| {
            let dataset = self.dataset.get().dataset(py)?;
            let scan = dataset.scan(self.options.clone()).map_err(Failure::from)?;
            Ok(scan.explain())
        })
    }

    fn count_rows(&self, py: Python<'_>) -> PyResult<u64> {
        guarded(|| {
            // The number of rows does not depend on the columns of the result.
            let mut options = self.options.clone();
            options.columns = Projection::Names(Vec::new());
            let dataset = self.dataset.get().dataset(py)?;
            let scan = dataset.scan(options).map_err(Failure::from)?;
            let mut batches = scan.batches(&handle()?);
            let counted = block_on(py, async {
                let mut count = 0;
                while let Some(batch) = batches.next().await {
                    count += batch?.num_rows() as u64;
                }
                Ok::<_, Error>(count)
            })?;
            Ok(counted.map_err(Failure::from)?)
        })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<ParquetBatches> {
        guarded(|| Ok(ParquetBatches(Mutex::new(OneProcess::new(self.start(py)?)))))
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

/// A running scan of Parquet files.
#[pyclass(frozen, module = "pilum._pilum")]
pub(crate) struct ParquetBatches(Mutex<OneProcess<Rows>>);

#[pymethods]
impl ParquetBatches {
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

/// The rows of a scan, as they are read.
struct Rows {
    batches: BoxStream<'static, pilum_parquet::Result<RecordBatch>>,
    run: Arc<Run>,
}

impl Rows {
    async fn next(&mut self) -> Result<Option<RecordBatch>, Failure> {
        let batch = self.batches.next().await.transpose()?;
        if batch.is_none() {
            self.run.finish();
        }
        Ok(batch)
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.run.finish();
    }
}

/// The counts of a run, while it runs and after it.
struct Run {
    scan: Arc<Scan>,
    requests_before: u64,
    bytes_before: u64,
    started: Instant,
    end: OnceLock<(u64, u64, Duration)>,
}

impl Run {
    fn finish(&self) {
        // Only the first call counts: after the last batch, or when the run is dropped before it.
        let _ = self.end.set(self.now());
    }

    fn now(&self) -> (u64, u64, Duration) {
        let (requests, bytes) = self.scan.dataset().counters();
        (
            requests.saturating_sub(self.requests_before),
            bytes.saturating_sub(self.bytes_before),
            self.started.elapsed(),
        )
    }

    fn metrics(&self) -> ParquetScanMetrics {
        let (requests, bytes_read, took) = self.end.get().copied().unwrap_or_else(|| self.now());
        let scan = self.scan.metrics();
        ParquetScanMetrics {
            files_total: scan.files,
            files_pruned: scan.files_pruned,
            row_groups_total: scan.row_groups,
            row_groups_pruned: scan.row_groups_pruned,
            pages_total: scan.pages,
            pages_pruned: scan.pages_pruned,
            rows_scanned: scan.rows_scanned,
            rows_returned: scan.rows_returned,
            requests,
            bytes_read,
            peak_bytes: scan.peak_bytes,
            seconds: took.as_secs_f64(),
        }
    }
}

/// The counts of a run of a scan of Parquet files.
#[derive(Clone, Debug, PartialEq)]
#[pyclass(frozen, eq, get_all, module = "pilum._pilum")]
pub(crate) struct ParquetScanMetrics {
    files_total: u64,
    files_pruned: u64,
    row_groups_total: u64,
    row_groups_pruned: u64,
    pages_total: u64,
    pages_pruned: u64,
    rows_scanned: u64,
    rows_returned: u64,
    requests: u64,
    bytes_read: u64,
    peak_bytes: u64,
    seconds: f64,
}

#[pymethods]
impl ParquetScanMetrics {
    fn __repr__(&self) -> String {
        format!("{self:?}")
            .replacen(" { ", "(", 1)
            .replace(" }", ")")
            .replace(": ", "=")
    }
}

/// Describes one file as JSON.
#[pyfunction]
#[pyo3(signature = (uri, *, pages=true, storage_options=None))]
pub(crate) fn parquet_inspect(
    py: Python<'_>,
    uri: String,
    pages: bool,
    storage_options: Option<Pairs>,
) -> PyResult<String> {
    guarded(|| {
        let storage = arguments::storage_options(storage_options);
        let described = block_on(py, async {
            let mut options = OpenOptions::default();
            options.hive = false;
            let opened = Dataset::open(&[uri], &storage, &options).await?;
            let mut described = Vec::new();
            for file in opened.files() {
                described.push(pilum_parquet::inspect(file, pages).await?);
            }
            Ok::<_, Error>(serde_json::Value::Array(described))
        })?;
        Ok(described.map_err(Failure::from)?.to_string())
    })
}

/// Writes rows to one file, or to the files of a folder. Returns the root and path, rows, row groups and bytes of each file.
#[pyfunction]
#[pyo3(signature = (
    rows, uri, *, row_group_rows=None, row_group_bytes=None, page_bytes=None, page_rows=None, compression=None,
    compression_level=None, dictionary=true, page_index=true, page_checksums=true, data_page_v2=false, bloom_filters=None,
    metadata=None, max_rows_per_file=None, partition_by=None, durability="full", storage_options=None, progress=None
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
#[expect(
    clippy::type_complexity,
    reason = "rows of a table, which Python gives names"
)]
pub(crate) fn parquet_write(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    uri: String,
    row_group_rows: Option<Count>,
    row_group_bytes: Option<Count>,
    page_bytes: Option<Count>,
    page_rows: Option<Count>,
    compression: Option<&str>,
    compression_level: Option<i32>,
    dictionary: bool,
    page_index: bool,
    page_checksums: bool,
    data_page_v2: bool,
    bloom_filters: Option<Vec<String>>,
    metadata: Option<Pairs>,
    max_rows_per_file: Option<Count>,
    partition_by: Option<Vec<String>>,
    durability: &str,
    storage_options: Option<Pairs>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Vec<(String, u64, u64, u64)>)> {
    guarded(|| {
        let size = |given: Option<Count>, or: usize| {
            given.map_or(or, |it| usize::try_from(it.get()).unwrap_or(usize::MAX))
        };
        let mut file = WriteOptions::default();
        file.row_group_rows = size(row_group_rows, file.row_group_rows);
        file.row_group_bytes = size(row_group_bytes, file.row_group_bytes);
        file.page_bytes = size(page_bytes, file.page_bytes);
        file.page_rows = size(page_rows, file.page_rows);
        file.compression = compression_of(compression, compression_level)?;
        file.dictionary = dictionary;
        file.page_index = page_index;
        file.page_checksums = page_checksums;
        file.data_page_v2 = data_page_v2;
        file.bloom_filters = bloom_filters.unwrap_or_default();
        file.key_value_metadata = arguments::properties(metadata).into_iter().collect();
        let mut options = ExportOptions::default();
        options.file = file;
        options.max_rows_per_file = max_rows_per_file.map(Count::get);
        options.partition_by = partition_by.unwrap_or_default();
        options.durability = arguments::durability(durability)?;
        let storage = arguments::storage_options(storage_options);
        let progress = Progress::new(progress, rows)?;
        let source = import(rows)?;
        let schema = SchemaRef::clone(source.schema());
        let write = move |fed| async move {
            let mut exporter = Exporter::create(&uri, &storage, &schema, &options).await?;
            match write_all(&mut exporter, fed).await {
                Ok(files) => Ok((exporter.root().to_owned(), files)),
                Err(error) => {
                    exporter.discard().await;
                    Err(error)
                }
            }
        };
        let (root, files) = feed(py, source, progress, write)?;
        let files = files.into_iter().map(|(path, file)| {
            (
                path,
                file.num_rows,
                file.num_row_groups as u64,
                file.num_bytes,
            )
        });
        Ok((root, files.collect()))
    })
}

async fn write_all(
    exporter: &mut Exporter,
    rows: crate::feed::Fed,
) -> Result<Vec<(String, pilum_parquet::WrittenFile)>, Error> {
    for batch in rows {
        let batch = batch.map_err(|error| Error::InvalidInput {
            what: "the data to write failed".to_owned(),
            reason: error.to_string(),
        })?;
        exporter.write(&batch).await?;
    }
    exporter.finish().await
}

fn compression_of(word: Option<&str>, level: Option<i32>) -> Result<FileCompression, Failure> {
    let positive = || {
        level
            .map(u32::try_from)
            .transpose()
            .map_err(|_| Failure::invalid("compression_level must not be negative here"))
    };
    Ok(match word.unwrap_or("zstd") {
        "zstd" => FileCompression::Zstd(level),
        "gzip" => FileCompression::Gzip(positive()?),
        "brotli" => FileCompression::Brotli(positive()?),
        word if level.is_some() => {
            return Err(Failure::invalid(format!(
                "compression {word:?} has no levels"
            )));
        }
        "none" => FileCompression::Uncompressed,
        "snappy" => FileCompression::Snappy,
        "lz4" => FileCompression::Lz4,
        word => {
            return Err(Failure::invalid(format!(
                "compression is \"zstd\", \"snappy\", \"lz4\", \"gzip\", \"brotli\" or \"none\", not {word:?}"
            )));
        }
    })
}
