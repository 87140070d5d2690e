//! Statements over the rows of a table, and its maintenance: delete, update, restore, compact, cleanup.

use std::time::Duration;

use pilum_table::{
    CleanupOptions, CommitOptions, Committed, CompactOptions, CompactOutcome, Compat, Operation,
    Snapshot, StatementOptions, Transaction, commit,
};
use pyo3::prelude::*;

use crate::arguments::{self, Count, Pairs};
use crate::dataset::Dataset;
use crate::errors::{Ended, Failure};
use crate::expect::Expect;
use crate::expr::Given;
use crate::runtime::{block_on, handle};
use crate::write::WriteResult;

pub(crate) fn statement(
    commit_id: Option<String>,
    properties: Option<Pairs>,
    durability: &str,
    retries: Option<u32>,
) -> Result<StatementOptions, Failure> {
    let mut options = StatementOptions::default();
    options.commit_id = commit_id;
    options.properties = arguments::properties(properties);
    options.durability = arguments::durability(durability)?;
    options.retries = retries.unwrap_or(options.retries);
    Ok(options)
}

/// Waits for a statement. The error of an unclear commit has the `commit_id` with which the caller can repeat it.
pub(crate) fn executed<T: Send>(
    py: Python<'_>,
    options: &StatementOptions,
    work: impl Future<Output = pilum_table::Result<T>> + Send,
) -> Result<T, Ended> {
    block_on(py, work)?.map_err(|error| Ended::from(error).asked_by(options.commit_id.as_deref()))
}

/// The version that a statement made, as a Python object.
pub(crate) fn outcome(
    py: Python<'_>,
    dataset: &Dataset,
    committed: Committed,
    rows: u64,
    bytes: u64,
) -> Result<WriteResult, Ended> {
    let opened = committed.snapshot.into();
    let (attempts, before) = (committed.attempts, committed.was_committed_before);
    Ok(WriteResult::new(
        py,
        dataset.sibling(opened),
        rows,
        bytes,
        attempts,
        before,
    )?)
}

/// Deletes the rows of the newest version for which a condition is true.
#[pyfunction]
#[pyo3(signature = (dataset, predicate, *, commit_id=None, properties=None, durability="full", retries=None, expect=None))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn delete_rows(
    py: Python<'_>,
    dataset: &Dataset,
    predicate: Given,
    commit_id: Option<String>,
    properties: Option<Pairs>,
    durability: &str,
    retries: Option<u32>,
    expect: Option<Expect>,
) -> PyResult<WriteResult> {
    dataset.with(py, |table| {
        let predicate = predicate.tree()?;
        let mut options = statement(commit_id, properties, durability, retries)?;
        let handle = handle()?;
        options.expect = Expect::given(expect)?;
        let deleted = executed(py, &options, table.delete(&predicate, &options, &handle))?;
        outcome(py, dataset, deleted.committed, deleted.num_deleted_rows, 0)
    })
}

/// Gives new values to columns of the rows for which a condition is true.
#[pyfunction]
#[pyo3(signature = (
    dataset, assignments, filter=None, *, commit_id=None, properties=None, durability="full", retries=None,
    expect=None, compat=None
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn update_rows(
    py: Python<'_>,
    dataset: &Dataset,
    assignments: Vec<(String, Given)>,
    filter: Option<Given>,
    commit_id: Option<String>,
    properties: Option<Pairs>,
    durability: &str,
    retries: Option<u32>,
    expect: Option<Expect>,
    compat: Option<&str>,
) -> PyResult<WriteResult> {
    dataset.with(py, |table| {
        let assignments = arguments::expressions(assignments)?;
        let filter = arguments::filter(filter)?;
        let mut options = statement(commit_id, properties, durability, retries)?;
        options.compat = arguments::compat(compat)?;
        let handle = handle()?;
        options.expect = Expect::given(expect)?;
        let update = table.update(&assignments, filter.as_ref(), &options, &handle);
        let updated = executed(py, &options, update)?;
        outcome(
            py,
            dataset,
            updated.committed,
            updated.num_updated_rows,
            updated.num_bytes,
        )
    })
}

/// Makes the rows and the schema of this version those of a new version.
#[pyfunction]
#[pyo3(signature = (
    dataset, *, commit_id=None, properties=None, durability="full", retries=None, expect=None, compat=None
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn restore(
    py: Python<'_>,
    dataset: &Dataset,
    commit_id: Option<&str>,
    properties: Option<Pairs>,
    durability: &str,
    retries: Option<u32>,
    expect: Option<Expect>,
    compat: Option<&str>,
) -> PyResult<WriteResult> {
    dataset.with(py, |table| {
        let durability = arguments::durability(durability)?;
        let store = table.store().clone().with_durability(durability);
        let mut options = CommitOptions::default();
        options.commit_id = commit_id.map(str::to_owned);
        options.retries = retries.unwrap_or(options.retries);
        options.expect = Expect::given(expect)?;
        options.compat = arguments::compat(compat)?.filter(|it| *it == Compat::Lossless);
        let committed = block_on(py, async {
            let newest = Snapshot::newest(&store).await?;
            let version = table.version();
            let mut transaction =
                Transaction::new(newest.version(), Operation::Restore { version });
            transaction.properties = arguments::properties(properties);
            commit(&store, Some(&newest), transaction, &options).await
        })?
        .map_err(|error| Ended::from(error).asked_by(commit_id))?;
        outcome(py, dataset, committed, 0, 0)
    })
}

/// The version that a compaction made, with counts.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "pilum._pilum")]
pub(crate) struct CompactionResult {
    dataset: Py<Dataset>,
    version: u64,
    fragments_removed: u64,
    fragments_added: u64,
    rows: u64,
    bytes: u64,
    attempts: u32,
    was_committed_before: bool,
}

impl CompactionResult {
    pub(crate) fn new(
        py: Python<'_>,
        dataset: &Dataset,
        done: CompactOutcome,
    ) -> Result<Self, Ended> {
        let opened = dataset.sibling(done.committed.snapshot.into());
        Ok(Self {
            version: opened.version,
            dataset: Py::new(py, opened)?,
            fragments_removed: done.num_removed_fragments,
            fragments_added: done.num_added_fragments,
            rows: done.num_rows,
            bytes: done.num_bytes,
            attempts: done.committed.attempts,
            was_committed_before: done.committed.was_committed_before,
        })
    }
}

#[pymethods]
impl CompactionResult {
    fn __repr__(&self) -> String {
        format!(
            "CompactionResult(version={}, fragments_removed={}, fragments_added={}, rows={}, bytes={})",
            self.version, self.fragments_removed, self.fragments_added, self.rows, self.bytes
        )
    }
}

/// Rewrites small fragments and those with many deleted rows into large ones.
#[pyfunction]
#[pyo3(signature = (
    dataset, *, target_rows=None, target_bytes=None, max_deleted_fraction=0.1, memory_limit=None, commit_id=None,
    properties=None, durability="full", retries=None, expect=None
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn compact(
    py: Python<'_>,
    dataset: &Dataset,
    target_rows: Option<Count>,
    target_bytes: Option<Count>,
    max_deleted_fraction: f64,
    memory_limit: Option<Count>,
    commit_id: Option<String>,
    properties: Option<Pairs>,
    durability: &str,
    retries: Option<u32>,
    expect: Option<Expect>,
) -> PyResult<CompactionResult> {
    dataset.with(py, |table| {
        if !(0.0..=1.0).contains(&max_deleted_fraction) {
            return Err(Failure::invalid("max_deleted_fraction must lie between 0 and 1").into());
        }
        let mut options = CompactOptions::default();
        options.target_rows = target_rows.map_or(options.target_rows, Count::get);
        options.target_bytes = target_bytes.map(Count::get);
        options.max_deleted_fraction = max_deleted_fraction;
        options.statement = statement(commit_id, properties, durability, retries)?;
        options.statement.memory_limit = memory_limit.map(Count::get);
        let handle = handle()?;
        options.statement.expect = Expect::given(expect)?;
        let done = executed(py, &options.statement, table.compact(&options, &handle))?;
        CompactionResult::new(py, dataset, done)
    })
}

/// What a cleanup removed, or would remove.
#[derive(Debug, Clone, PartialEq, Eq)]
#[pyclass(frozen, eq, get_all, module = "pilum._pilum")]
pub(crate) struct CleanupResult {
    versions: Vec<u64>,
    files: Vec<String>,
    bytes: u64,
}

#[pymethods]
impl CleanupResult {
    fn __repr__(&self) -> String {
        let (versions, files) = (self.versions.len(), self.files.len());
        format!(
            "CleanupResult({versions} versions, {files} files, {} bytes)",
            self.bytes
        )
    }
}

/// Removes old versions and files that no version names.
#[pyfunction]
#[pyo3(signature = (dataset, *, older_than_seconds, keep_versions=None, unverified_older_than_seconds, dry_run=false))]
pub(crate) fn cleanup(
    py: Python<'_>,
    dataset: &Dataset,
    older_than_seconds: f64,
    keep_versions: Option<Count>,
    unverified_older_than_seconds: f64,
    dry_run: bool,
) -> PyResult<CleanupResult> {
    dataset.with(py, |table| {
        let duration = |name: &str, seconds: f64| {
            Duration::try_from_secs_f64(seconds).map_err(|_| {
                Failure::invalid(format!(
                    "{name} must be a span of time that is not negative"
                ))
            })
        };
        let mut options = CleanupOptions::default();
        options.older_than = duration("older_than", older_than_seconds)?;
        options.keep_versions = keep_versions.map(Count::get);
        options.unverified_older_than =
            duration("unverified_older_than", unverified_older_than_seconds)?;
        options.dry_run = dry_run;
        let done = block_on(py, table.cleanup(&options))??;
        Ok(CleanupResult {
            versions: done.removed_versions,
            files: done.removed_files,
            bytes: done.num_bytes,
        })
    })
}
