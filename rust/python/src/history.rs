//! Versions and fragments as Python values.

use std::collections::BTreeMap;

use pilum_table::VersionSummary;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The property of a transaction that tells a merge from an update.
pub(crate) const MERGE: &str = "pilum.merge";

/// One version in the history of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[pyclass(frozen, eq, module = "pilum._pilum")]
pub(crate) struct Version {
    summary: VersionSummary,
}

impl From<VersionSummary> for Version {
    fn from(summary: VersionSummary) -> Self {
        Self { summary }
    }
}

#[pymethods]
impl Version {
    #[getter]
    fn version(&self) -> u64 {
        self.summary.version
    }

    /// In UTC, to the microsecond: a float of seconds would round.
    #[getter]
    fn timestamp<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let datetime = py.import("datetime")?;
        let utc = datetime.getattr("timezone")?.getattr("utc")?;
        let midnight = PyDict::new(py);
        midnight.set_item("tzinfo", utc)?;
        let epoch = datetime
            .getattr("datetime")?
            .call((1970, 1, 1), Some(&midnight))?;
        let since = PyDict::new(py);
        since.set_item("microseconds", self.summary.timestamp.timestamp_micros())?;
        epoch.add(datetime.getattr("timedelta")?.call((), Some(&since))?)
    }

    /// In the words of users. The format has one operation for making a table and for replacing its rows, one for updates
    /// and merges, and calls added column files a merge.
    #[getter]
    fn operation(&self) -> Option<&'static str> {
        let operation = self.summary.operation?;
        Some(match operation {
            "Overwrite" if self.summary.version == 1 => "Create",
            "Update" if self.summary.properties.contains_key(MERGE) => "Merge",
            "Merge" => "Backfill",
            operation => operation,
        })
    }

    #[getter]
    fn properties(&self) -> BTreeMap<String, String> {
        let mut properties = self.summary.properties.clone();
        properties.remove(MERGE);
        properties
    }

    #[getter]
    fn num_rows(&self) -> Option<u64> {
        self.summary.num_rows
    }

    fn __hash__(&self) -> u64 {
        self.summary.version
    }

    fn __repr__(&self) -> String {
        let Self { summary } = self;
        let rows = summary
            .num_rows
            .map_or_else(|| "unknown".to_owned(), |rows| rows.to_string());
        format!(
            "Version(version={}, timestamp={}, operation={}, num_rows={rows})",
            summary.version,
            summary.timestamp.format("%Y-%m-%dT%H:%M:%S%.6fZ"),
            self.operation().unwrap_or("unknown"),
        )
    }
}

/// A fragment: its data files, and the number of its deleted rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[pyclass(frozen, eq, hash, get_all, module = "pilum._pilum")]
pub(crate) struct Fragment {
    id: u64,
    num_rows: u64,
    physical_rows: u64,
    num_deleted: u64,
    files: Vec<String>,
    bytes: Option<u64>,
}

impl From<&pilum_table::Fragment> for Fragment {
    fn from(fragment: &pilum_table::Fragment) -> Self {
        let num_deleted = fragment
            .deletion
            .as_ref()
            .map_or(0, |deletion| deletion.num_deleted_rows);
        let sizes = fragment
            .files
            .iter()
            .map(|file| Some(file.byte_len).filter(|&len| len > 0));
        Self {
            id: fragment.id,
            num_rows: fragment.physical_rows.saturating_sub(num_deleted),
            physical_rows: fragment.physical_rows,
            num_deleted,
            files: fragment
                .files
                .iter()
                .map(pilum_table::DataFile::full_path)
                .collect(),
            bytes: sizes.sum(),
        }
    }
}

#[pymethods]
impl Fragment {
    fn __repr__(&self) -> String {
        let Self {
            id,
            num_rows,
            physical_rows,
            num_deleted,
            files,
            ..
        } = self;
        let files = files.len();
        format!(
            "Fragment(id={id}, num_rows={num_rows}, physical_rows={physical_rows}, num_deleted={num_deleted}, files={files})"
        )
    }
}
