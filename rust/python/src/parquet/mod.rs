//! Parquet: datasets that are read where they are, and descriptions of files. `scan` has their scans, `write` the exports.

mod scan;
mod write;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, SchemaRef};
use pilum_parquet::{Dataset, Error, OpenOptions, Projection, ScanOptions};
use pilum_table::StorageOptions;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arguments::{self, Count, Pairs};
use crate::batch::{Batch, Schema};
use crate::errors::{Ended, Failure, guarded};
use crate::expr::Given;
use crate::ffi::{import_schema, schema_capsule};
use crate::process::PerProcess;
use crate::run::Planned;
use crate::runtime::{block_on, handle};
use crate::scanner::{Scanner, Source, count};

pub(crate) use scan::ParquetScanMetrics;
use scan::PlannedScan;
pub(crate) use write::parquet_write;

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
            let (columns, handle) = (arguments::projection(columns)?, handle()?);
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
    ) -> PyResult<Scanner> {
        guarded(|| {
            let rows = (limit, offset, batch_rows);
            let options = scan_options(columns, filter, rows, batch_bytes, memory_limit)?;
            let dataset = this.get().dataset(this.py())?;
            let planned = dataset.scan(options.clone()).map_err(Failure::from)?;
            let schema = SchemaRef::clone(planned.schema());
            let source = FileScan {
                dataset: this.clone().unbind(),
                options,
            };
            Ok(Scanner::new(Box::new(source), schema))
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

/// Options of a scan from the arguments of a call: limit, offset and rows of a batch are counts of rows.
pub(crate) fn scan_options(
    columns: Option<&Bound<'_, PyAny>>,
    filter: Option<Given>,
    (limit, offset, batch_rows): (Option<Count>, Option<Count>, Option<Count>),
    batch_bytes: Option<Count>,
    memory_limit: Option<Count>,
) -> Result<ScanOptions, Ended> {
    let mut options = ScanOptions::default();
    options.columns = arguments::projection(columns)?;
    options.filter = arguments::filter(filter)?;
    options.limit = limit.map(Count::get);
    options.offset = offset.map_or(0, Count::get);
    options.batch_rows = batch_rows.map(Count::size);
    options.batch_bytes = batch_bytes.map(Count::get);
    options.memory_limit = memory_limit.map(Count::get);
    Ok(options)
}

/// A scan of Parquet files.
struct FileScan {
    dataset: Py<ParquetDataset>,
    options: ScanOptions,
}

impl FileScan {
    fn planned(&self, py: Python<'_>, options: ScanOptions) -> PyResult<Arc<dyn Planned>> {
        let scan = self.dataset.get().dataset(py)?.scan(options);
        Ok(PlannedScan::of(scan.map_err(Failure::from)?))
    }
}

impl Source for FileScan {
    fn plan(&self, py: Python<'_>) -> PyResult<Arc<dyn Planned>> {
        self.planned(py, self.options.clone())
    }

    fn count_rows(&self, py: Python<'_>) -> PyResult<u64> {
        // The number of rows does not depend on the columns of the result.
        let mut options = self.options.clone();
        options.columns = Projection::Names(Vec::new());
        Ok(count(py, self.planned(py, options)?)?)
    }

    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        let files = self.dataset.get().dataset(py)?.files().len();
        Ok(format!("{files} Parquet files"))
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
