//! Statements over columns: add, drop, alter.

use arrow_schema::Field;
use pilum_table::{ColumnChange, ColumnsOutcome};
use pyo3::intern;
use pyo3::prelude::*;

use crate::arguments::{self, Pairs};
use crate::dataset::Dataset;
use crate::errors::{Ended, Failure};
use crate::expr::Given;
use crate::feed::feed;
use crate::ffi::{import, import_schema};
use crate::progress::Progress;
use crate::runtime::handle;
use crate::statements::{executed, outcome, statement};
use crate::write::WriteResult;

fn done(py: Python<'_>, dataset: &Dataset, changed: ColumnsOutcome) -> Result<WriteResult, Ended> {
    let (rows, bytes) = (changed.num_rows, changed.num_bytes);
    outcome(py, dataset, changed.committed, rows, bytes)
}

/// Adds columns computed from the others.
#[pyfunction]
#[pyo3(signature = (dataset, columns, *, commit_id=None, properties=None, durability="full", retries=None, compat=None))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn add_columns(
    py: Python<'_>,
    dataset: &Dataset,
    columns: Vec<(String, Given)>,
    commit_id: Option<String>,
    properties: Option<Pairs>,
    durability: &str,
    retries: Option<u32>,
    compat: Option<&str>,
) -> PyResult<WriteResult> {
    dataset.with(py, |table| {
        let columns = arguments::expressions(columns)?;
        let mut options = statement(commit_id, properties, durability, retries)?;
        options.compat = arguments::compat(compat)?;
        let handle = handle()?;
        let added = executed(py, &options, table.add_columns(&columns, &options, &handle))?;
        done(py, dataset, added)
    })
}

/// Adds columns with given values.
#[pyfunction]
#[pyo3(signature = (
    dataset, rows, *, commit_id=None, properties=None, durability="full", retries=None, schema=None, cast="exact",
    missing="null", extra="error", compat=None
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn add_columns_from(
    py: Python<'_>,
    dataset: &Dataset,
    rows: &Bound<'_, PyAny>,
    commit_id: Option<String>,
    properties: Option<Pairs>,
    durability: &str,
    retries: Option<u32>,
    schema: Option<&Bound<'_, PyAny>>,
    cast: &str,
    missing: &str,
    extra: &str,
    compat: Option<&str>,
) -> PyResult<WriteResult> {
    dataset.with(py, |table| {
        let asked = commit_id.clone();
        let mut options = statement(commit_id, properties, durability, retries)?;
        options.compat = arguments::compat(compat)?;
        let adapt = arguments::adapt(cast, missing, extra)?;
        let schema = arguments::schema(schema)?;
        let progress = Progress::new(None, rows)?;
        let table = table.clone();
        let add =
            move |rows| async move { table.add_columns_from(rows, schema, adapt, &options).await };
        let added = feed(py, import(rows)?, progress, add)
            .map_err(|ended| ended.asked_by(asked.as_deref()))?;
        done(py, dataset, added)
    })
}

/// Drops columns.
#[pyfunction]
#[pyo3(signature = (dataset, columns, *, commit_id=None, properties=None, durability="full", retries=None))]
#[expect(
    clippy::needless_pass_by_value,
    reason = "what Python hands over is owned"
)]
pub(crate) fn drop_columns(
    py: Python<'_>,
    dataset: &Dataset,
    columns: Vec<String>,
    commit_id: Option<String>,
    properties: Option<Pairs>,
    durability: &str,
    retries: Option<u32>,
) -> PyResult<WriteResult> {
    dataset.with(py, |table| {
        let options = statement(commit_id, properties, durability, retries)?;
        let dropped = executed(py, &options, table.drop_columns(&columns, &options))?;
        done(py, dataset, dropped)
    })
}

/// A path, a new name, a schema whose one field has the new type, and nullability.
type Change<'py> = (
    String,
    Option<String>,
    Option<Bound<'py, PyAny>>,
    Option<bool>,
);

/// Renames and converts columns, and changes whether they may be null.
#[pyfunction]
#[pyo3(signature = (dataset, changes, *, commit_id=None, properties=None, durability="full", retries=None, compat=None))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn alter_columns(
    py: Python<'_>,
    dataset: &Dataset,
    changes: Vec<Change<'_>>,
    commit_id: Option<String>,
    properties: Option<Pairs>,
    durability: &str,
    retries: Option<u32>,
    compat: Option<&str>,
) -> PyResult<WriteResult> {
    dataset.with(py, |table| {
        let mut wanted = Vec::with_capacity(changes.len());
        for (path, name, schema, nullable) in changes {
            let field = match schema {
                None => None,
                Some(schema) => Some(only_field(&schema)?),
            };
            wanted.push(ColumnChange {
                path,
                name,
                field,
                nullable,
            });
        }
        let mut options = statement(commit_id, properties, durability, retries)?;
        options.compat = arguments::compat(compat)?;
        let handle = handle()?;
        let altered = executed(
            py,
            &options,
            table.alter_columns(&wanted, &options, &handle),
        )?;
        done(py, dataset, altered)
    })
}

fn only_field(schema: &Bound<'_, PyAny>) -> Result<Field, Ended> {
    let capsule = schema.call_method0(intern!(schema.py(), "__arrow_c_schema__"))?;
    let schema = import_schema(&capsule)?;
    match schema.fields().iter().as_slice() {
        [field] => Ok(field.as_ref().clone()),
        fields => Err(Failure::invalid(format!(
            "a type is given by one field, not by {}",
            fields.len()
        ))
        .into()),
    }
}
