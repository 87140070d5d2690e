//! The Python object for one version of a table.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use pilum_table::{Projection, Scan, ScanOptions, StorageOptions, Store, VersionRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arguments::{self, Count, Pairs};
use crate::batch::{Batch, Schema};
use crate::errors::{Ended, Failure, guarded};
use crate::expr::Given;
use crate::ffi::schema_capsule;
use crate::history::{Fragment, Version};
use crate::process::{OneProcess, PerProcess};
use crate::run::Planned;
use crate::runtime::{block_on, handle};
use crate::scanner::{Scanner, Source, count};
use crate::table_scan::PlannedScan;

/// One version of a table.
///
/// After a fork the child opens the version again when it first needs it: connections and caches of the parent are not used.
#[derive(Debug)]
#[pyclass(frozen, eq, module = "pilum._pilum")]
pub(crate) struct Dataset {
    opened: PerProcess<pilum_table::Dataset>,
    /// As the caller passed it, to open the table again.
    uri: String,
    storage: StorageOptions,
    pub(crate) version: u64,
    pub(crate) verifies_checksums: bool,
}

impl PartialEq for Dataset {
    fn eq(&self, other: &Self) -> bool {
        (&self.uri, self.version) == (&other.uri, other.version)
    }
}

impl Dataset {
    pub(crate) fn new(opened: pilum_table::Dataset, uri: String, storage: StorageOptions) -> Self {
        Self {
            version: opened.version(),
            verifies_checksums: opened.snapshot().verifies_checksums(),
            opened: PerProcess::new(opened),
            uri,
            storage,
        }
    }

    /// The table, opened in this process.
    pub(crate) fn table(&self, py: Python<'_>) -> PyResult<&pilum_table::Dataset> {
        self.opened.get_or_try_make(|| {
            let version = VersionRef::Number(self.version);
            let opened = pilum_table::Dataset::open(&self.uri, &version, &self.storage);
            let opened = block_on(py, opened)?.map_err(Failure::from)?;
            Ok(opened.with_verification(self.verifies_checksums))
        })
    }

    /// Calls `work` with the opened table. Its errors get the address of the table.
    pub(crate) fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&pilum_table::Dataset) -> Result<T, Ended>,
    ) -> PyResult<T> {
        guarded(|| {
            let table = self.table(py)?;
            Ok(work(table).map_err(|error| error.at(table.uri()))?)
        })
    }

    /// Another version of the same table, read with or without checksums as this one is.
    pub(crate) fn sibling(&self, opened: pilum_table::Dataset) -> Self {
        let opened = opened.with_verification(self.verifies_checksums);
        Self::new(opened, self.uri.clone(), self.storage.clone())
    }
}

/// Opens a table.
#[pyfunction]
#[pyo3(signature = (uri, *, version=None, asof_micros=None, storage_options=None, verify_checksums=true))]
pub(crate) fn open(
    py: Python<'_>,
    uri: String,
    version: Option<&Bound<'_, PyAny>>,
    asof_micros: Option<i64>,
    storage_options: Option<Pairs>,
    verify_checksums: bool,
) -> PyResult<Dataset> {
    guarded(|| {
        let storage = arguments::storage_options(storage_options);
        let store = Store::open(&uri, &storage).map_err(pilum_table::Error::from);
        let store = store.map_err(Ended::from)?;
        let opened = || -> Result<_, Ended> {
            let version = match (version, asof_micros) {
                (None, None) => VersionRef::Latest,
                (Some(version), None) => arguments::version(version)?,
                (None, Some(micros)) => VersionRef::AsOf(arguments::moment(micros)?),
                (Some(_), Some(_)) => {
                    let message = "version= and asof= both choose a version: pass one of them";
                    return Err(Failure::invalid(message).into());
                }
            };
            Ok(block_on(
                py,
                pilum_table::Dataset::open_in(&store, &version),
            )??)
        };
        let opened = opened().map_err(|error| error.at(store.uri()))?;
        Ok(Dataset::new(
            opened.with_verification(verify_checksums),
            uri,
            storage,
        ))
    })
}

#[pymethods]
impl Dataset {
    /// Opens the same version with other options.
    fn reopened(&self, py: Python<'_>, storage_options: Option<Pairs>) -> PyResult<Self> {
        guarded(|| {
            let storage = arguments::storage_options(storage_options);
            let version = VersionRef::Number(self.version);
            let opened = pilum_table::Dataset::open(&self.uri, &version, &storage);
            let opened = block_on(py, opened)?.map_err(Ended::from)?;
            let opened = opened.with_verification(self.verifies_checksums);
            Ok(Self::new(opened, self.uri.clone(), storage))
        })
    }

    /// The address without secrets.
    #[getter]
    fn uri(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |table| Ok(table.uri().to_owned()))
    }

    #[getter]
    fn version(&self) -> u64 {
        self.version
    }

    #[getter]
    fn verify_checksums(&self) -> bool {
        self.verifies_checksums
    }

    #[getter]
    fn compat(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |table| {
            let needs_extension = table.snapshot().manifest().needs_extension();
            Ok(if needs_extension { "lossless" } else { "lance" })
        })
    }

    #[getter]
    fn write_compat(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |table| Ok(table.snapshot().manifest().compat().word()))
    }

    #[getter]
    fn data_format(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |table| {
            let format = table.snapshot().manifest().data_format.clone();
            // Manifests of old writers do not name the format: there was only this one.
            Ok(format.unwrap_or_else(|| "0.1".to_owned()))
        })
    }

    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<Schema> {
        self.with(py, |table| Ok(Schema(table.snapshot().schema().to_arrow())))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.with(py, |table| {
            Ok(schema_capsule(py, &table.snapshot().schema().to_arrow())?)
        })
    }

    fn __hash__(&self) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one((&self.uri, self.version))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |table| {
            Ok(format!(
                "<pilum._pilum.Dataset {} version {}>",
                table.uri(),
                self.version
            ))
        })
    }

    fn latest_version(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |table| Ok(block_on(py, table.latest_version())??))
    }

    fn versions(&self, py: Python<'_>) -> PyResult<Vec<Version>> {
        self.with(py, |table| {
            let versions = block_on(py, table.versions())??;
            Ok(versions.into_iter().map(Version::from).collect())
        })
    }

    fn summary(&self, py: Python<'_>) -> PyResult<Version> {
        self.with(py, |table| Ok(block_on(py, table.summary())??.into()))
    }

    fn checkout(&self, py: Python<'_>, version: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.with(py, |table| {
            let version = arguments::version(version)?;
            Ok(self.sibling(block_on(py, table.checkout(&version))??))
        })
    }

    fn tags_list(&self, py: Python<'_>) -> PyResult<BTreeMap<String, u64>> {
        self.with(py, |table| {
            let tags = block_on(py, table.tags())??;
            Ok(tags
                .into_iter()
                .map(|(name, tag)| (name, tag.version))
                .collect())
        })
    }

    #[pyo3(signature = (name, version=None))]
    fn tags_create(
        &self,
        py: Python<'_>,
        name: &str,
        version: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.with(py, |table| {
            if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
                let message = format!(
                    "tag name {name:?}: digits alone are the number of a version; add a letter"
                );
                return Err(Failure::invalid(message).into());
            }
            let version =
                version.map_or(Ok(VersionRef::Number(self.version)), arguments::version)?;
            let created = block_on(py, async {
                let version = match version {
                    VersionRef::Number(version) => version,
                    other => table.checkout(&other).await?.version(),
                };
                table.create_tag(name, Some(version)).await
            })?;
            Ok(created?)
        })
    }

    fn tags_delete(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.with(py, |table| Ok(block_on(py, table.delete_tag(name))??))
    }

    fn fragments(&self, py: Python<'_>) -> PyResult<Vec<Fragment>> {
        self.with(py, |table| {
            Ok(table.fragments().iter().map(Fragment::from).collect())
        })
    }

    #[pyo3(signature = (filter=None))]
    fn count_rows(&self, py: Python<'_>, filter: Option<Given>) -> PyResult<u64> {
        self.with(py, |table| {
            let (filter, handle) = (arguments::filter(filter)?, handle()?);
            Ok(block_on(py, table.snapshot().count_rows(filter, &handle))??)
        })
    }

    #[pyo3(signature = (indices, columns=None))]
    fn take(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        columns: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Batch> {
        self.with(py, |table| {
            let positions = arguments::row_numbers("row position", indices)?;
            let columns = arguments::projection(columns)?;
            Ok(Batch(block_on(
                py,
                table.snapshot().take(&positions, columns),
            )??))
        })
    }

    #[pyo3(signature = (row_ids, columns=None))]
    fn take_rows(
        &self,
        py: Python<'_>,
        row_ids: &Bound<'_, PyAny>,
        columns: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Batch> {
        self.with(py, |table| {
            let row_ids = arguments::row_numbers("row id", row_ids)?;
            let columns = arguments::projection(columns)?;
            Ok(Batch(block_on(
                py,
                table.snapshot().take_rows(&row_ids, columns),
            )??))
        })
    }

    #[pyo3(signature = (
        columns=None, filter=None, limit=None, offset=None, batch_rows=None, batch_bytes=None, with_row_id=false,
        with_row_address=false, fragments=None, ordered=true, memory_limit=None
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
        with_row_id: bool,
        with_row_address: bool,
        fragments: Option<Vec<Count>>,
        ordered: bool,
        memory_limit: Option<Count>,
    ) -> PyResult<Scanner> {
        this.get().with(this.py(), |table| {
            let mut options = ScanOptions::default();
            options.columns = arguments::projection(columns)?;
            options.filter = arguments::filter(filter)?;
            options.limit = limit.map(Count::get);
            options.offset = offset.map_or(0, Count::get);
            options.batch_rows = batch_rows.map(Count::size);
            options.batch_bytes = batch_bytes.map(Count::get);
            options.with_row_id = with_row_id;
            options.with_row_address = with_row_address;
            options.fragments = fragments.map(|ids| ids.into_iter().map(Count::get).collect());
            options.unordered = !ordered;
            options.memory_limit = memory_limit.map(Count::get);
            let planned = table.snapshot().scan(options.clone())?;
            let schema = SchemaRef::clone(planned.schema());
            let source = TableScan {
                dataset: this.clone().unbind(),
                options,
                planned: OneProcess::new(planned),
            };
            Ok(Scanner::new(Box::new(source), schema))
        })
    }
}

/// A scan of one version.
struct TableScan {
    dataset: Py<Dataset>,
    options: ScanOptions,
    /// The plan. A forked process plans again, on the table as it opened it.
    planned: OneProcess<Arc<Scan>>,
}

impl Source for TableScan {
    fn plan(&self, py: Python<'_>) -> PyResult<Arc<dyn Planned>> {
        self.dataset.get().with(py, |table| {
            let scan = match self.planned.get() {
                Some(planned) => planned.again(),
                None => table.snapshot().scan(self.options.clone())?,
            };
            Ok(PlannedScan::of(table, scan))
        })
    }

    fn count_rows(&self, py: Python<'_>) -> PyResult<u64> {
        self.dataset.get().with(py, |table| {
            // The number of rows does not depend on the columns of the result, nor on the order.
            let mut options = self.options.clone();
            options.columns = Projection::Names(Vec::new());
            (options.with_row_id, options.with_row_address) = (false, false);
            options.unordered = true;
            count(py, PlannedScan::of(table, table.snapshot().scan(options)?))
        })
    }

    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        self.dataset.get().with(py, |table| {
            Ok(format!("{} version {}", table.uri(), table.version()))
        })
    }
}
