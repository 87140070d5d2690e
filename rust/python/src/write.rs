//! Writes: rows into the next version, or into staged fragments that another process commits.

use pilum_table::{
    Snapshot, StagedFragments, StorageOptions, Store, WriteMode, WriteOptions, commit_staged,
    write, write_fragments as write_new,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments::{self, Count, Pairs};
use crate::dataset::Dataset;
use crate::errors::{Ended, Failure, guarded};
use crate::expect::Expect;
use crate::feed::feed;
use crate::ffi::import;
use crate::progress::Progress;
use crate::runtime::block_on;

/// The version that a write or a statement made, with counts.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "pilum._pilum")]
pub(crate) struct WriteResult {
    dataset: Py<Dataset>,
    rows: u64,
    bytes: u64,
    attempts: u32,
    version: u64,
    was_committed_before: bool,
}

impl WriteResult {
    pub(crate) fn new(
        py: Python<'_>,
        dataset: Dataset,
        rows: u64,
        bytes: u64,
        attempts: u32,
        was_committed_before: bool,
    ) -> PyResult<Self> {
        let dataset = Py::new(py, dataset)?;
        let version = dataset.get().version;
        Ok(Self {
            dataset,
            rows,
            bytes,
            attempts,
            version,
            was_committed_before,
        })
    }
}

#[pymethods]
impl WriteResult {
    fn __repr__(&self) -> String {
        let Self {
            rows,
            bytes,
            attempts,
            version,
            ..
        } = self;
        format!("WriteResult(version={version}, rows={rows}, bytes={bytes}, attempts={attempts})")
    }
}

/// Options about data files, which all writes take.
struct Files<'a> {
    mode: &'a str,
    compat: Option<&'a str>,
    max_rows_per_file: Option<Count>,
    max_rows_per_page: Option<Count>,
    max_bytes_per_file: Option<Count>,
    durability: &'a str,
    layout: Option<&'a str>,
    schema: Option<&'a Bound<'a, PyAny>>,
    /// `cast`, `missing` and `extra`.
    adapt: [&'a str; 3],
}

impl Files<'_> {
    fn options(&self) -> Result<WriteOptions, Ended> {
        let mut options = WriteOptions::default();
        let [cast, missing, extra] = self.adapt;
        options.adapt = arguments::adapt(cast, missing, extra)?;
        options.schema = arguments::schema(self.schema)?;
        options.mode = arguments::mode(self.mode)?;
        options.compat = arguments::compat(self.compat)?;
        if let Some(Count(most)) = self.max_rows_per_file {
            options.max_rows_per_file = most;
        }
        options.max_rows_per_page = self.max_rows_per_page.map(Count::get);
        match self.max_bytes_per_file.map(Count::get) {
            None => {}
            Some(0) => return Err(Failure::invalid("max_bytes_per_file must be at least 1").into()),
            Some(most) => options.max_bytes_per_file = most,
        }
        options.durability = arguments::durability(self.durability)?;
        options.layout = arguments::layout(self.layout)?;
        Ok(options)
    }
}

/// Writes rows as the next version of a table.
#[pyfunction]
#[pyo3(signature = (
    rows, uri, *, mode="create", compat=None, max_rows_per_file=None, max_rows_per_page=None,
    max_bytes_per_file=None, stable_row_ids=false, durability="full", properties=None, commit_id=None,
    storage_options=None, progress=None, layout=None, expect=None, verify_checksums=true, must_exist=false,
    schema=None, cast="exact", missing="null", extra="error"
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn write_dataset(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    uri: &str,
    mode: &str,
    compat: Option<&str>,
    max_rows_per_file: Option<Count>,
    max_rows_per_page: Option<Count>,
    max_bytes_per_file: Option<Count>,
    stable_row_ids: bool,
    durability: &str,
    properties: Option<Pairs>,
    commit_id: Option<&str>,
    storage_options: Option<Pairs>,
    progress: Option<Py<PyAny>>,
    layout: Option<&str>,
    expect: Option<Expect>,
    verify_checksums: bool,
    must_exist: bool,
    schema: Option<&Bound<'_, PyAny>>,
    cast: &str,
    missing: &str,
    extra: &str,
) -> PyResult<WriteResult> {
    let files = Files {
        mode,
        compat,
        max_rows_per_file,
        max_rows_per_page,
        max_bytes_per_file,
        durability,
        layout,
        schema,
        adapt: [cast, missing, extra],
    };
    let storage = arguments::storage_options(storage_options);
    at_table(uri, &storage, |store| {
        let mut options = files.options()?;
        options.stable_row_ids = stable_row_ids;
        options.must_exist = must_exist;
        options.properties = arguments::properties(properties);
        options.commit_id = commit_id.map(str::to_owned);
        options.expect = Expect::given(expect)?;
        let progress = Progress::new(progress, rows)?;
        let write = |rows| async move { write(&store, rows, &options).await };
        let written =
            feed(py, import(rows)?, progress, write).map_err(|ended| ended.asked_by(commit_id))?;
        let dataset = Dataset::new(
            opened(written.snapshot, verify_checksums),
            uri.to_owned(),
            storage.clone(),
        );
        let (rows, bytes) = (written.num_rows, written.num_bytes);
        let before = written.was_committed_before;
        Ok(WriteResult::new(
            py,
            dataset,
            rows,
            bytes,
            written.attempts,
            before,
        )?)
    })
}

/// Writes data files without a commit and returns their descriptions.
#[pyfunction]
#[pyo3(signature = (
    rows, uri, *, mode="append", compat=None, max_rows_per_file=None, max_rows_per_page=None,
    max_bytes_per_file=None, durability="full", storage_options=None, progress=None, layout=None, schema=None,
    cast="exact", missing="null", extra="error"
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn write_fragments<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    uri: &str,
    mode: &str,
    compat: Option<&str>,
    max_rows_per_file: Option<Count>,
    max_rows_per_page: Option<Count>,
    max_bytes_per_file: Option<Count>,
    durability: &str,
    storage_options: Option<Pairs>,
    progress: Option<Py<PyAny>>,
    layout: Option<&str>,
    schema: Option<&Bound<'py, PyAny>>,
    cast: &str,
    missing: &str,
    extra: &str,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let files = Files {
        mode,
        compat,
        max_rows_per_file,
        max_rows_per_page,
        max_bytes_per_file,
        durability,
        layout,
        schema,
        adapt: [cast, missing, extra],
    };
    at_table(uri, &arguments::storage_options(storage_options), |store| {
        let options = files.options()?;
        let progress = Progress::new(progress, rows)?;
        let write = |rows| async move {
            let store = store.with_durability(options.durability);
            let newest = match options.mode {
                WriteMode::Append | WriteMode::Overwrite => Snapshot::try_newest(&store).await?,
                WriteMode::Create => None,
            };
            let base = newest
                .as_ref()
                .filter(|_| options.mode == WriteMode::Append);
            // Rows for an overwrite bring their own columns, and keep the compat of the table.
            let mut options = options;
            let compat = newest.as_ref().map(|newest| newest.manifest().compat());
            options.compat = options.compat.or(compat);
            let mut new = write_new(&store, base, rows, &options).await?;
            new.read_version = newest.as_ref().map_or(0, Snapshot::version);
            match new.encode() {
                Ok(staged) => Ok(staged),
                Err(error) => {
                    new.discard(&store).await;
                    Err(error)
                }
            }
        };
        let staged = feed(py, import(rows)?, progress, write)?;
        Ok(vec![PyBytes::new(py, &staged)])
    })
}

/// Checks that columns of one schema can become those of another one, before any row is read.
#[pyfunction]
#[pyo3(signature = (schema, target, *, cast="exact", missing="null", extra="error"))]
pub(crate) fn check_fits(
    schema: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    cast: &str,
    missing: &str,
    extra: &str,
) -> PyResult<()> {
    guarded(|| {
        let adapt = arguments::adapt(cast, missing, extra)?;
        let schemas = (
            arguments::schema(Some(schema))?,
            arguments::schema(Some(target))?,
        );
        if let (Some(schema), Some(target)) = schemas {
            pilum_table::check_fits(&schema, &target, adapt).map_err(Failure::from)?;
        }
        Ok(())
    })
}

/// Makes staged fragments part of a table, in one version.
#[pyfunction]
#[pyo3(signature = (
    uri, staged, *, mode="append", read_version=None, commit_id=None, properties=None, stable_row_ids=false,
    durability="full", storage_options=None, expect=None, verify_checksums=true, compat=None
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn commit_fragments(
    py: Python<'_>,
    uri: &str,
    staged: Vec<Vec<u8>>,
    mode: &str,
    read_version: Option<Count>,
    commit_id: Option<&str>,
    properties: Option<Pairs>,
    stable_row_ids: bool,
    durability: &str,
    storage_options: Option<Pairs>,
    expect: Option<Expect>,
    verify_checksums: bool,
    compat: Option<&str>,
) -> PyResult<WriteResult> {
    let storage = arguments::storage_options(storage_options);
    at_table(uri, &storage, |store| {
        let mut options = WriteOptions::default();
        options.compat = arguments::compat(compat)?;
        options.mode = arguments::mode(mode)?;
        options.durability = arguments::durability(durability)?;
        options.stable_row_ids = stable_row_ids;
        options.properties = arguments::properties(properties);
        options.commit_id = commit_id.map(str::to_owned);
        options.expect = Expect::given(expect)?;
        let store = store.with_durability(options.durability);
        let staged = staged.into_iter().map(StagedFragments::decode);
        let staged: Vec<_> = staged.collect::<Result<_, _>>()?;
        let written = block_on(py, async {
            let base = match (options.mode, read_version) {
                // The commit finds a table that exists, and knows whether an earlier attempt of this call made it.
                (WriteMode::Create, _) => None,
                (_, Some(Count(version))) => Some(Snapshot::at_version(&store, version).await?),
                (_, None) => Snapshot::try_newest(&store).await?,
            };
            commit_staged(&store, base, &staged, &options).await
        })?
        .map_err(|error| Ended::from(error).asked_by(commit_id))?;
        let dataset = Dataset::new(
            opened(written.snapshot, verify_checksums),
            uri.to_owned(),
            storage.clone(),
        );
        Ok(WriteResult::new(
            py,
            dataset,
            written.num_rows,
            written.num_bytes,
            written.attempts,
            written.was_committed_before,
        )?)
    })
}

/// The version that a write made, read with or without checksums from now on.
fn opened(snapshot: Snapshot, verifies_checksums: bool) -> pilum_table::Dataset {
    pilum_table::Dataset::from(snapshot).with_verification(verifies_checksums)
}

/// Calls `work` with the store of the table at `uri`. Its errors get the address of the table.
pub(crate) fn at_table<T>(
    uri: &str,
    storage: &StorageOptions,
    work: impl FnOnce(Store) -> Result<T, Ended>,
) -> PyResult<T> {
    guarded(|| {
        let store = Store::open(uri, storage)
            .map_err(|error| Failure::from(pilum_table::Error::from(error)))?;
        Ok(work(store.clone()).map_err(|error| error.at(store.uri()))?)
    })
}
