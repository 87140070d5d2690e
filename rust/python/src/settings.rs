//! Config and metadata of a table, differences between versions, the versions in which rows were created and updated.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use pilum_table::{ConfigUpdate, Diff, MapUpdate, VersionRef, field_id};
use pyo3::prelude::*;

use crate::arguments::{self, Pairs};
use crate::batch::Batch;
use crate::dataset::Dataset;
use crate::errors::Failure;
use crate::runtime::block_on;
use crate::statements::{executed, outcome, statement};
use crate::write::WriteResult;

/// Keys to set, and keys (with None) to delete.
type Edits = Vec<(String, Option<String>)>;

/// Edits the config of a table (`"config"`), its metadata (`"table"`), that of its schema (`"schema"`) or of the field at a
/// path.
#[pyfunction]
#[pyo3(signature = (
    dataset, map, edits, *, path=None, replace=false, commit_id=None, properties=None, durability="full", retries=None
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn update_config(
    py: Python<'_>,
    dataset: &Dataset,
    map: &str,
    edits: Edits,
    path: Option<&str>,
    replace: bool,
    commit_id: Option<String>,
    properties: Option<Pairs>,
    durability: &str,
    retries: Option<u32>,
) -> PyResult<WriteResult> {
    dataset.with(py, |table| {
        let edits = MapUpdate {
            entries: edits.into_iter().collect(),
            replace,
        };
        let mut update = ConfigUpdate::default();
        match (map, path) {
            ("config", None) => update.config = edits,
            ("table", None) => update.table_metadata = edits,
            ("schema", None) => update.schema_metadata = edits,
            ("field", Some(path)) => {
                let newest = block_on(py, table.checkout(&VersionRef::Latest))??;
                let id = field_id(newest.snapshot().schema(), path)?;
                update.field_metadata.insert(id, edits);
            }
            _ => return Err(Failure::invalid(format!("there is no map {map:?}")).into()),
        }
        let options = statement(commit_id, properties, durability, retries)?;
        let committed = executed(py, &options, table.update_config(&update, &options))?;
        outcome(py, dataset, committed, 0, 0)
    })
}

/// The config of this version, and the metadata of the table.
#[pyfunction]
pub(crate) fn table_maps(
    py: Python<'_>,
    dataset: &Dataset,
) -> PyResult<(BTreeMap<String, String>, BTreeMap<String, String>)> {
    dataset.with(py, |table| {
        let manifest = table.snapshot().manifest();
        Ok((manifest.config.clone(), manifest.table_metadata.clone()))
    })
}

/// The difference between two versions, from the older to the newer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[pyclass(frozen, eq, module = "pilum._pilum")]
pub(crate) struct VersionDiff(Diff);

#[pymethods]
impl VersionDiff {
    #[getter]
    #[expect(clippy::wrong_self_convention, reason = "its name in Python")]
    fn from_version(&self) -> u64 {
        self.0.from_version
    }

    #[getter]
    fn to_version(&self) -> u64 {
        self.0.to_version
    }

    #[getter]
    fn added(&self) -> u64 {
        self.0.num_added
    }

    #[getter]
    fn removed(&self) -> u64 {
        self.0.num_removed
    }

    #[getter]
    fn updated(&self) -> Option<u64> {
        self.0.num_updated
    }

    #[getter]
    fn exact(&self) -> bool {
        self.0.num_updated.is_some()
    }

    #[getter]
    fn added_columns(&self) -> Vec<String> {
        self.0.added_columns.clone()
    }

    #[getter]
    fn removed_columns(&self) -> Vec<String> {
        self.0.removed_columns.clone()
    }

    #[getter]
    fn altered_columns(&self) -> Vec<String> {
        self.0.altered_columns.clone()
    }

    fn __repr__(&self) -> String {
        let updated = match self.0.num_updated {
            Some(updated) => updated.to_string(),
            None => "None".to_owned(),
        };
        format!(
            "VersionDiff({} -> {}: added={}, removed={}, updated={updated}, exact={})",
            self.0.from_version,
            self.0.to_version,
            self.0.num_added,
            self.0.num_removed,
            if self.exact() { "True" } else { "False" },
        )
    }
}

/// The difference between this version and another one.
#[pyfunction]
pub(crate) fn diff(
    py: Python<'_>,
    dataset: &Dataset,
    other: &Bound<'_, PyAny>,
) -> PyResult<VersionDiff> {
    dataset.with(py, |table| {
        let other = arguments::version(other)?;
        let diff = block_on(py, async {
            let other = table.checkout(&other).await?;
            table.snapshot().diff(other.snapshot()).await
        })?;
        Ok(VersionDiff(diff?))
    })
}

/// The versions in which the rows with these ids were created and last updated.
#[pyfunction]
pub(crate) fn row_versions(
    py: Python<'_>,
    dataset: &Dataset,
    row_ids: &Bound<'_, PyAny>,
) -> PyResult<Batch> {
    dataset.with(py, |table| {
        let ids = arguments::row_numbers("row id", row_ids)?;
        let versions = block_on(py, table.snapshot().row_versions(&ids))??;
        let (created, updated): (Vec<u64>, Vec<u64>) = versions.into_iter().unzip();
        let column = |values: Vec<u64>| -> ArrayRef { Arc::new(UInt64Array::from(values)) };
        Ok(Batch(batch(vec![
            ("_rowid", column(ids)),
            ("_row_created_at_version", column(created)),
            ("_row_last_updated_at_version", column(updated)),
        ])?))
    })
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, Failure> {
    RecordBatch::try_from_iter(columns).map_err(|error| Failure::bug(error.to_string()))
}
