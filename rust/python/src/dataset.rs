//! One version of a table, as Python holds it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use pilum_table::{
    CommitOptions, DEFAULT_RETRIES, Operation, Scan, ScanOptions, Snapshot, StorageOptions,
    Transaction, VersionRef, commit,
};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arguments::{self, Pairs};
use crate::batch::{Batch, Schema};
use crate::errors::{Failure, guarded};
use crate::ffi::schema_capsule;
use crate::history::{Fragment, Version};
use crate::process::PerProcess;
use crate::runtime::{block_on, handle};
use crate::scanner::Scanner;
use crate::write::WriteResult;

/// One version of a table.
///
/// After a fork the child opens the version again when it first needs it: connections and caches of the parent are not used.
#[derive(Debug)]
#[pyclass(frozen, eq, module = "pilum._pilum")]
pub(crate) struct Dataset {
    opened: PerProcess<pilum_table::Dataset>,
    /// As it was asked for: what it takes to open it again.
    uri: String,
    storage: StorageOptions,
    pub(crate) version: u64,
    verifies_checksums: bool,
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
            let opened = block_on(
                py,
                pilum_table::Dataset::open(&self.uri, &version, &self.storage),
            )?;
            Ok(opened
                .map_err(Failure::from)?
                .with_verification(self.verifies_checksums))
        })
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<&Snapshot> {
        Ok(self.table(py)?.snapshot())
    }

    /// Plans a scan.
    pub(crate) fn plan(&self, py: Python<'_>, options: ScanOptions) -> PyResult<Arc<Scan>> {
        Ok(self.snapshot(py)?.scan(options).map_err(Failure::from)?)
    }

    /// Another version of the same table.
    fn sibling(&self, opened: pilum_table::Dataset) -> Self {
        Self::new(opened, self.uri.clone(), self.storage.clone())
    }

    fn arrow_schema(&self, py: Python<'_>) -> PyResult<SchemaRef> {
        Ok(self.snapshot(py)?.schema().to_arrow())
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
        let version = match (version, asof_micros) {
            (None, None) => VersionRef::Latest,
            (Some(version), None) => arguments::version(version)?,
            (None, Some(micros)) => VersionRef::AsOf(arguments::moment(micros)?),
            (Some(_), Some(_)) => {
                let message =
                    format!("{uri}: version= and asof= both choose a version: pass one of them");
                return Err(Failure::invalid(message).into());
            }
        };
        let opened = block_on(py, pilum_table::Dataset::open(&uri, &version, &storage))?;
        let opened = opened
            .map_err(Failure::from)?
            .with_verification(verify_checksums);
        Ok(Dataset::new(opened, uri, storage))
    })
}

#[pymethods]
impl Dataset {
    /// Without what it may have held of secrets.
    #[getter]
    fn uri(&self, py: Python<'_>) -> PyResult<String> {
        guarded(|| Ok(self.table(py)?.uri().to_owned()))
    }

    #[getter]
    fn version(&self) -> u64 {
        self.version
    }

    #[getter]
    fn compat(&self, py: Python<'_>) -> PyResult<&'static str> {
        guarded(|| {
            let needs_extension = self.snapshot(py)?.manifest().needs_extension();
            Ok(if needs_extension { "lossless" } else { "lance" })
        })
    }

    #[getter]
    fn data_format(&self, py: Python<'_>) -> PyResult<String> {
        guarded(|| {
            let format = self.snapshot(py)?.manifest().data_format.clone();
            // Tables from before the manifest said so are of the one format that there was.
            Ok(format.unwrap_or_else(|| "0.1".to_owned()))
        })
    }

    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<Schema> {
        guarded(|| Ok(Schema(self.arrow_schema(py)?)))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        guarded(|| schema_capsule(py, &*self.arrow_schema(py)?))
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        BuildHasherDefault::<DefaultHasher>::default().hash_one((&self.uri, self.version))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        guarded(|| {
            Ok(format!(
                "<pilum._pilum.Dataset {} version {}>",
                self.table(py)?.uri(),
                self.version
            ))
        })
    }

    fn latest_version(&self, py: Python<'_>) -> PyResult<u64> {
        guarded(|| Ok(block_on(py, self.table(py)?.latest_version())?.map_err(Failure::from)?))
    }

    fn versions(&self, py: Python<'_>) -> PyResult<Vec<Version>> {
        guarded(|| {
            let versions = block_on(py, self.table(py)?.versions())?.map_err(Failure::from)?;
            Ok(versions.into_iter().map(Version::from).collect())
        })
    }

    fn checkout(&self, py: Python<'_>, version: &Bound<'_, PyAny>) -> PyResult<Self> {
        guarded(|| {
            let version = arguments::version(version)?;
            let opened =
                block_on(py, self.table(py)?.checkout(&version))?.map_err(Failure::from)?;
            Ok(self.sibling(opened))
        })
    }

    #[pyo3(signature = (*, commit_id=None, properties=None, durability="full", retries=DEFAULT_RETRIES))]
    fn restore(
        &self,
        py: Python<'_>,
        commit_id: Option<String>,
        properties: Option<Pairs>,
        durability: &str,
        retries: u32,
    ) -> PyResult<WriteResult> {
        guarded(|| {
            let table = self.table(py)?;
            let store = table
                .store()
                .clone()
                .with_durability(arguments::durability(durability)?);
            let properties = arguments::properties(properties);
            let mut options = CommitOptions::default();
            (options.commit_id, options.retries) = (commit_id, retries);
            let committed = block_on(py, async {
                let newest = Snapshot::newest(&store).await?;
                let operation = Operation::Restore {
                    version: self.version,
                };
                let mut transaction = Transaction::new(newest.version(), operation);
                transaction.properties = properties;
                commit(&store, Some(&newest), transaction, &options).await
            })?;
            let committed = committed.map_err(Failure::from)?;
            let opened = self.sibling(reopened(committed.snapshot, self.verifies_checksums));
            WriteResult::new(
                py,
                opened,
                0,
                0,
                committed.attempts,
                committed.was_committed_before,
            )
        })
    }

    fn tags_list(&self, py: Python<'_>) -> PyResult<BTreeMap<String, u64>> {
        guarded(|| {
            let tags = block_on(py, self.table(py)?.tags())?.map_err(Failure::from)?;
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
        guarded(|| {
            let version =
                version.map_or(Ok(VersionRef::Number(self.version)), arguments::version)?;
            let table = self.table(py)?;
            let created = block_on(py, async {
                let version = match version {
                    VersionRef::Number(version) => version,
                    other => table.checkout(&other).await?.version(),
                };
                table.create_tag(name, Some(version)).await
            })?;
            Ok(created.map_err(Failure::from)?)
        })
    }

    fn tags_delete(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        guarded(|| Ok(block_on(py, self.table(py)?.delete_tag(name))?.map_err(Failure::from)?))
    }

    fn fragments(&self, py: Python<'_>) -> PyResult<Vec<Fragment>> {
        guarded(|| {
            Ok(self
                .table(py)?
                .fragments()
                .iter()
                .map(Fragment::from)
                .collect())
        })
    }

    #[pyo3(signature = (filter=None))]
    fn count_rows(&self, py: Python<'_>, filter: Option<&str>) -> PyResult<u64> {
        guarded(|| {
            let filter = arguments::filter(filter)?;
            let (snapshot, handle) = (self.snapshot(py)?, handle()?);
            Ok(block_on(py, snapshot.count_rows(filter, &handle))?.map_err(Failure::from)?)
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
            let columns = arguments::projection(columns)?;
            let taken = block_on(py, self.snapshot(py)?.take(&positions, columns))?;
            Ok(Batch(taken.map_err(Failure::from)?))
        })
    }

    #[pyo3(signature = (row_ids, columns=None))]
    fn take_rows(
        &self,
        py: Python<'_>,
        row_ids: &Bound<'_, PyAny>,
        columns: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Batch> {
        guarded(|| {
            let row_ids = arguments::row_numbers("row id", row_ids)?;
            let columns = arguments::projection(columns)?;
            let taken = block_on(py, self.snapshot(py)?.take_rows(&row_ids, columns))?;
            Ok(Batch(taken.map_err(Failure::from)?))
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
        filter: Option<&str>,
        limit: Option<u64>,
        offset: Option<u64>,
        batch_rows: Option<usize>,
        batch_bytes: Option<u64>,
        with_row_id: bool,
        with_row_address: bool,
        fragments: Option<Vec<u64>>,
        ordered: bool,
        memory_limit: Option<u64>,
    ) -> PyResult<Scanner> {
        guarded(|| {
            let mut options = ScanOptions::default();
            options.columns = arguments::projection(columns)?;
            options.filter = arguments::filter(filter)?;
            options.limit = limit;
            options.offset = offset.unwrap_or(0);
            options.batch_rows = batch_rows;
            options.batch_bytes = batch_bytes;
            options.with_row_id = with_row_id;
            options.with_row_address = with_row_address;
            options.fragments = fragments;
            options.unordered = !ordered;
            options.memory_limit = memory_limit;
            Scanner::new(this.clone().unbind(), options, this.py())
        })
    }
}

/// A snapshot that a commit returned, as it would be opened.
pub(crate) fn reopened(snapshot: Snapshot, verifies_checksums: bool) -> pilum_table::Dataset {
    pilum_table::Dataset::from(snapshot).with_verification(verifies_checksums)
}
