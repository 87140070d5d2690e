//! Statements whose work other processes do: what a task calls, and what the one process calls that commits.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use pilum_table::{
    Changes, ColumnFiles, CompactOptions, Snapshot, StagedFragments, StatementOptions, Store,
    WriteOptions, combine_staged, commit_changes as commit_all, commit_columns as commit_files,
    commit_rewrite as commit_groups, discard_staged, encode_row_set, find_commit,
    plan_compaction as plan, rewrite_group, with_row_ids as give_ids, write_column_files,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments::{self, Count, Pairs};
use crate::dataset::Dataset;
use crate::errors::{Ended, Failure, guarded};
use crate::expect::Expect;
use crate::feed::feed;
use crate::ffi::import;
use crate::history::MERGE;
use crate::progress::Progress;
use crate::runtime::{block_on, handle};
use crate::statements::{CompactionResult, executed, outcome, statement};
use crate::write::{WriteResult, at_table};

/// The version that a commit id made, if it was committed.
#[pyfunction]
#[pyo3(signature = (uri, commit_id, *, storage_options=None, verify_checksums=true))]
pub(crate) fn committed(
    py: Python<'_>,
    uri: &str,
    commit_id: &str,
    storage_options: Option<Pairs>,
    verify_checksums: bool,
) -> PyResult<Option<WriteResult>> {
    let storage = arguments::storage_options(storage_options);
    at_table(uri, &storage, |store| {
        let Some(found) = block_on(py, find_commit(&store, commit_id))?? else {
            return Ok(None);
        };
        let opened = pilum_table::Dataset::from(found).with_verification(verify_checksums);
        let dataset = Dataset::new(opened, uri.to_owned(), storage.clone());
        Ok(Some(WriteResult::new(py, dataset, 0, 0, 0, true)?))
    })
}

/// The numbers in the only column of an Arrow batch: row ids or addresses.
fn numbers(py: Python<'_>, rows: &Bound<'_, PyAny>) -> Result<Vec<u64>, Ended> {
    let mut source = import(rows)?;
    let mut numbers = Vec::new();
    while let Some(batch) = source.pull(py)? {
        numbers.extend(numbers_of(&batch)?);
    }
    Ok(numbers)
}

fn numbers_of(batch: &RecordBatch) -> Result<Vec<u64>, Failure> {
    let refused =
        || Failure::invalid("row numbers are one column of int64 or uint64 without nulls");
    let [column] = batch.columns() else {
        return Err(refused());
    };
    if column.null_count() > 0 {
        return Err(refused());
    }
    match column.data_type() {
        DataType::UInt64 => Ok(column.as_primitive::<UInt64Type>().values().to_vec()),
        DataType::Int64 => {
            let signed = column.as_primitive::<Int64Type>().values().iter();
            let numbers = signed.map(|number| u64::try_from(*number));
            numbers.collect::<Result<_, _>>().map_err(|_| refused())
        }
        _ => Err(refused()),
    }
}

/// The bytes of a set of row addresses.
#[pyfunction]
pub(crate) fn row_set<'py>(
    py: Python<'py>,
    addresses: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    guarded(|| {
        let addresses = numbers(py, addresses)?;
        let bytes = py.detach(|| encode_row_set(&addresses));
        Ok::<_, Ended>(PyBytes::new(py, &bytes.map_err(Failure::from)?))
    })
    .map_err(PyErr::from)
}

/// The piece with ids for its first rows.
#[pyfunction]
pub(crate) fn with_row_ids<'py>(
    py: Python<'py>,
    piece: Vec<u8>,
    row_ids: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    guarded(|| {
        let staged = StagedFragments::decode(piece).map_err(Failure::from)?;
        let staged = give_ids(staged, &numbers(py, row_ids)?).map_err(Failure::from)?;
        let bytes = staged.encode().map_err(Failure::from)?;
        Ok::<_, Ended>(PyBytes::new(py, &bytes))
    })
    .map_err(PyErr::from)
}

fn decoded(pieces: Vec<Vec<u8>>) -> Result<Vec<StagedFragments>, Failure> {
    let pieces = pieces.into_iter().map(StagedFragments::decode);
    Ok(pieces.collect::<Result<_, _>>()?)
}

/// Removes the files of pieces that will not be committed and that no version names.
#[pyfunction]
#[pyo3(signature = (uri, pieces, *, storage_options=None))]
pub(crate) fn discard_fragments(
    py: Python<'_>,
    uri: &str,
    pieces: Vec<Vec<u8>>,
    storage_options: Option<Pairs>,
) -> PyResult<usize> {
    at_table(uri, &arguments::storage_options(storage_options), |store| {
        let pieces = decoded(pieces)?;
        Ok(block_on(py, discard_staged(&store, &pieces))??)
    })
}

/// Rows and bytes of a piece, and whether `combine_fragments` takes it.
#[pyfunction]
pub(crate) fn piece_size(piece: Vec<u8>) -> PyResult<(u64, u64, bool)> {
    guarded(|| {
        let staged = StagedFragments::decode(piece).map_err(Failure::from)?;
        let has_row_ids = staged.fragments.iter().any(|it| it.row_ids.is_some());
        let combines = !has_row_ids && staged.dictionaries.is_empty();
        Ok::<_, Failure>((staged.num_rows, staged.num_bytes, combines))
    })
    .map_err(PyErr::from)
}

/// Writes the rows of several pieces again, to as large files as the options allow.
#[pyfunction]
#[pyo3(signature = (
    uri, pieces, *, max_rows_per_file=None, max_rows_per_page=None, max_bytes_per_file=None, durability="full",
    storage_options=None
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn combine_fragments<'py>(
    py: Python<'py>,
    uri: &str,
    pieces: Vec<Vec<u8>>,
    max_rows_per_file: Option<Count>,
    max_rows_per_page: Option<Count>,
    max_bytes_per_file: Option<Count>,
    durability: &str,
    storage_options: Option<Pairs>,
) -> PyResult<Bound<'py, PyBytes>> {
    at_table(uri, &arguments::storage_options(storage_options), |store| {
        let mut options = WriteOptions::default();
        if let Some(Count(most)) = max_rows_per_file {
            options.max_rows_per_file = most;
        }
        if let Some(Count(most)) = max_bytes_per_file {
            options.max_bytes_per_file = most;
        }
        options.max_rows_per_page = max_rows_per_page.map(Count::get);
        let store = store.with_durability(arguments::durability(durability)?);
        let pieces = decoded(pieces)?;
        let piece = block_on(py, async {
            let staged = combine_staged(&store, &pieces, &options).await?;
            encoded(&store, staged).await
        })??;
        Ok(PyBytes::new(py, &piece))
    })
}

/// Commits one version that removes rows, adds rows, and replaces rows by changed ones.
#[pyfunction]
#[pyo3(signature = (
    dataset, *, pieces, removed, kept, no_new_rows_after=None, predicate=None, is_merge=false, commit_id=None,
    properties=None, durability="full", expect=None, compat=None
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn commit_changes(
    py: Python<'_>,
    dataset: &Dataset,
    pieces: Vec<Vec<u8>>,
    removed: Vec<Vec<u8>>,
    kept: Vec<Vec<u8>>,
    no_new_rows_after: Option<Count>,
    predicate: Option<String>,
    is_merge: bool,
    commit_id: Option<String>,
    properties: Option<Pairs>,
    durability: &str,
    expect: Option<Expect>,
    compat: Option<&str>,
) -> PyResult<(WriteResult, u64)> {
    dataset.with(py, |table| {
        let mut options = statement(commit_id, properties, durability, None)?;
        options.compat = arguments::compat(compat)?;
        options.expect = Expect::given(expect)?;
        if is_merge {
            options
                .properties
                .extend([(MERGE.to_owned(), "true".to_owned())]);
        }
        let changes = Changes {
            read_version: table.version(),
            removed,
            kept,
            staged: decoded(pieces)?,
            no_new_rows_after: no_new_rows_after.map(Count::get),
            predicate,
        };
        let done = executed(py, &options, commit_all(table.store(), &changes, &options))?;
        let (rows, bytes) = (done.num_added_rows, done.num_bytes);
        Ok((
            outcome(py, dataset, done.committed, rows, bytes)?,
            done.num_removed_rows,
        ))
    })
}

fn compaction(
    target_rows: Option<Count>,
    target_bytes: Option<Count>,
    max_deleted_fraction: f64,
) -> CompactOptions {
    let mut options = CompactOptions::default();
    options.target_rows = target_rows.map_or(options.target_rows, Count::get);
    options.target_bytes = target_bytes.map(Count::get);
    options.max_deleted_fraction = max_deleted_fraction;
    options
}

/// The groups of fragments that a compaction of this version rewrites.
#[pyfunction]
#[pyo3(signature = (dataset, *, target_rows=None, target_bytes=None, max_deleted_fraction=0.1))]
pub(crate) fn plan_compaction(
    py: Python<'_>,
    dataset: &Dataset,
    target_rows: Option<Count>,
    target_bytes: Option<Count>,
    max_deleted_fraction: f64,
) -> PyResult<Vec<Vec<u64>>> {
    dataset.with(py, |table| {
        let options = compaction(target_rows, target_bytes, max_deleted_fraction);
        Ok(plan(table.snapshot(), &options)?)
    })
}

/// Writes the rows of a group of fragments to new files.
#[pyfunction]
#[pyo3(signature = (dataset, fragments, *, target_rows=None, target_bytes=None, durability="full"))]
#[expect(
    clippy::needless_pass_by_value,
    reason = "what Python hands over is owned"
)]
pub(crate) fn rewrite_fragments<'py>(
    py: Python<'py>,
    dataset: &Dataset,
    fragments: Vec<u64>,
    target_rows: Option<Count>,
    target_bytes: Option<Count>,
    durability: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    dataset.with(py, |table| {
        let options = compaction(target_rows, target_bytes, 0.1);
        let store = table.store().clone();
        let store = store.with_durability(arguments::durability(durability)?);
        let handle = handle()?;
        let staged = block_on(py, async {
            let base = Snapshot::at_version(&store, table.version()).await?;
            let base = base.with_verification(table.snapshot().verifies_checksums());
            let staged = rewrite_group(&base, &fragments, &options, &handle).await?;
            encoded(&store, staged).await
        })??;
        Ok(PyBytes::new(py, &staged))
    })
}

/// The bytes of staged fragments; if they have none, their files are removed.
async fn encoded(store: &Store, staged: StagedFragments) -> pilum_table::Result<Vec<u8>> {
    match staged.encode() {
        Ok(bytes) => Ok(bytes.to_vec()),
        Err(error) => {
            staged.discard(store).await;
            Err(error)
        }
    }
}

/// Replaces groups of fragments in one version.
#[pyfunction]
#[pyo3(signature = (dataset, groups, *, commit_id=None, properties=None, durability="full", expect=None))]
pub(crate) fn commit_rewrite(
    py: Python<'_>,
    dataset: &Dataset,
    groups: Vec<(Vec<u64>, Vec<u8>)>,
    commit_id: Option<String>,
    properties: Option<Pairs>,
    durability: &str,
    expect: Option<Expect>,
) -> PyResult<CompactionResult> {
    dataset.with(py, |table| {
        let mut options = statement(commit_id, properties, durability, None)?;
        options.expect = Expect::given(expect)?;
        let mut staged = Vec::with_capacity(groups.len());
        for (ids, piece) in groups {
            staged.push((ids, StagedFragments::decode(piece).map_err(Failure::from)?));
        }
        let commit = commit_groups(table.store(), table.version(), &staged, &options);
        let done = executed(py, &options, commit)?;
        CompactionResult::new(py, dataset, done)
    })
}

/// Writes the values of new columns for the rows of some fragments.
#[pyfunction]
#[pyo3(signature = (
    dataset, rows, fragments, *, schema, durability="full", cast="exact", missing="null", extra="error"
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn write_columns<'py>(
    py: Python<'py>,
    dataset: &Dataset,
    rows: &Bound<'py, PyAny>,
    fragments: Vec<u64>,
    schema: &Bound<'py, PyAny>,
    durability: &str,
    cast: &str,
    missing: &str,
    extra: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    dataset.with(py, |table| {
        let adapt = arguments::adapt(cast, missing, extra)?;
        let Some(schema) = arguments::schema(Some(schema))? else {
            return Err(Failure::invalid("write_columns needs a schema").into());
        };
        let store = table.store().clone();
        let store = store.with_durability(arguments::durability(durability)?);
        let version = table.version();
        let progress = Progress::new(None, rows)?;
        let write = move |rows| async move {
            let base = Snapshot::at_version(&store, version).await?;
            let staged = write_column_files(&base, &schema, &fragments, rows, adapt).await?;
            encoded(&store, staged).await
        };
        let piece = feed(py, import(rows)?, progress, write)?;
        Ok(PyBytes::new(py, &piece))
    })
}

/// Adds columns whose files other processes wrote.
#[pyfunction]
#[pyo3(signature = (
    dataset, pieces, *, schema, commit_id=None, properties=None, durability="full", expect=None, compat=None
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn commit_columns(
    py: Python<'_>,
    dataset: &Dataset,
    pieces: Vec<(u64, Vec<u64>, Vec<u8>)>,
    schema: &Bound<'_, PyAny>,
    commit_id: Option<String>,
    properties: Option<Pairs>,
    durability: &str,
    expect: Option<Expect>,
    compat: Option<&str>,
) -> PyResult<WriteResult> {
    dataset.with(py, |table| {
        let mut options: StatementOptions = statement(commit_id, properties, durability, None)?;
        options.expect = Expect::given(expect)?;
        options.compat = arguments::compat(compat)?;
        let Some(schema) = arguments::schema(Some(schema))? else {
            return Err(Failure::invalid("commit_columns needs a schema").into());
        };
        let mut files = Vec::with_capacity(pieces.len());
        for (read_version, fragments, piece) in pieces {
            files.push(ColumnFiles {
                read_version,
                fragments,
                staged: StagedFragments::decode(piece).map_err(Failure::from)?,
            });
        }
        let commit = commit_files(table.store(), table.version(), &schema, &files, &options);
        let added = executed(py, &options, commit)?;
        let (rows, bytes) = (added.num_rows, added.num_bytes);
        outcome(py, dataset, added.committed, rows, bytes)
    })
}
