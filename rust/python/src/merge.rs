//! Merging rows into a table by key.

use pilum_table::{MergeOptions, WhenMatched, WhenNotMatched, WhenNotMatchedBySource};
use pyo3::prelude::*;

use crate::arguments::{self, Count, Pairs};
use crate::dataset::Dataset;
use crate::errors::Failure;
use crate::expect::Expect;
use crate::expr::Given;
use crate::feed::feed;
use crate::ffi::import;
use crate::history::MERGE;
use crate::progress::Progress;
use crate::runtime::handle;
use crate::statements::statement;

/// The version that a merge made, with counts.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "pilum._pilum")]
pub(crate) struct MergeResult {
    dataset: Py<Dataset>,
    version: u64,
    inserted: u64,
    updated: u64,
    deleted: u64,
    bytes: u64,
    attempts: u32,
    was_committed_before: bool,
}

#[pymethods]
impl MergeResult {
    fn __repr__(&self) -> String {
        format!(
            "MergeResult(version={}, inserted={}, updated={}, deleted={}, attempts={})",
            self.version, self.inserted, self.updated, self.deleted, self.attempts
        )
    }
}

/// A word, and the condition that some words take.
type Choice = (String, Option<Given>);

fn unknown(argument: &str, word: &str, condition: Option<&Given>, known: &str) -> Failure {
    let condition = condition.map_or("", |_| " with a condition");
    Failure::invalid(format!("{argument} is {known}, not {word:?}{condition}"))
}

fn when_matched((word, condition): Choice) -> Result<WhenMatched, Failure> {
    match (word.as_str(), condition) {
        ("update", condition) => Ok(WhenMatched::Update(arguments::filter(condition)?)),
        ("keep", None) => Ok(WhenMatched::Keep),
        ("fail", None) => Ok(WhenMatched::Fail),
        ("delete", None) => Ok(WhenMatched::Delete),
        (_, condition) => Err(unknown(
            "when_matched",
            &word,
            condition.as_ref(),
            "\"update\", \"update if <condition>\", \"keep\", \"fail\" or \"delete\"",
        )),
    }
}

fn when_not_matched((word, condition): Choice) -> Result<WhenNotMatched, Failure> {
    match (word.as_str(), condition) {
        ("insert", None) => Ok(WhenNotMatched::Insert),
        ("ignore", None) => Ok(WhenNotMatched::Ignore),
        (_, condition) => Err(unknown(
            "when_not_matched",
            &word,
            condition.as_ref(),
            "\"insert\" or \"ignore\"",
        )),
    }
}

fn when_not_matched_by_source(
    (word, condition): Choice,
) -> Result<WhenNotMatchedBySource, Failure> {
    match (word.as_str(), condition) {
        ("keep", None) => Ok(WhenNotMatchedBySource::Keep),
        ("delete", condition) => {
            let condition = arguments::filter(condition)?;
            Ok(WhenNotMatchedBySource::Delete(condition))
        }
        (_, condition) => Err(unknown(
            "when_not_matched_by_source",
            &word,
            condition.as_ref(),
            "\"keep\", \"delete\" or \"delete if <condition>\"",
        )),
    }
}

/// Merges rows into the newest version by the columns of a key.
#[pyfunction]
#[pyo3(signature = (
    dataset, on, rows, *, matched, not_matched, not_matched_by_source, memory_limit=None, progress=None,
    commit_id=None, properties=None, durability="full", retries=None, expect=None, cast="exact", missing="null",
    extra="error", compat=None
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn merge_rows(
    py: Python<'_>,
    dataset: &Dataset,
    on: Vec<String>,
    rows: &Bound<'_, PyAny>,
    matched: Choice,
    not_matched: Choice,
    not_matched_by_source: Choice,
    memory_limit: Option<Count>,
    progress: Option<Py<PyAny>>,
    commit_id: Option<String>,
    properties: Option<Pairs>,
    durability: &str,
    retries: Option<u32>,
    expect: Option<Expect>,
    cast: &str,
    missing: &str,
    extra: &str,
    compat: Option<&str>,
) -> PyResult<MergeResult> {
    dataset.with(py, |table| {
        let mut options = MergeOptions::default();
        options.adapt = arguments::adapt(cast, missing, extra)?;
        options.when_matched = when_matched(matched)?;
        options.when_not_matched = when_not_matched(not_matched)?;
        options.when_not_matched_by_source = when_not_matched_by_source(not_matched_by_source)?;
        let asked = commit_id.clone();
        options.statement = statement(commit_id, properties, durability, retries)?;
        options.statement.compat = arguments::compat(compat)?;
        let marked = (MERGE.to_owned(), "true".to_owned());
        options.statement.properties.extend([marked]);
        options.statement.memory_limit = memory_limit.map(Count::get);
        let handle = handle()?;
        options.statement.expect = Expect::given(expect)?;
        let progress = Progress::new(progress, rows)?;
        let target = table.clone();
        let merge = |rows| async move { target.merge_insert(&on, rows, &options, &handle).await };
        let done = feed(py, import(rows)?, progress, merge)
            .map_err(|ended| ended.asked_by(asked.as_deref()))?;
        let opened = dataset.sibling(done.committed.snapshot.into());
        Ok(MergeResult {
            version: opened.version,
            dataset: Py::new(py, opened)?,
            inserted: done.num_inserted_rows,
            updated: done.num_updated_rows,
            deleted: done.num_deleted_rows,
            bytes: done.num_bytes,
            attempts: done.committed.attempts,
            was_committed_before: done.committed.was_committed_before,
        })
    })
}
