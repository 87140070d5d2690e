//! Verification and descriptions of tables and files, as objects and as JSON.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pilum_table::{Store, describe_file, examine, verify_file};
use pyo3::prelude::*;
use serde::Serialize;

use crate::arguments::{self, Count, Pairs};
use crate::dataset::Dataset;
use crate::errors::{Ended, Failure, guarded};
use crate::progress::Progress;
use crate::runtime::{block_on, block_on_ticking};

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
#[pyclass(frozen, eq, module = "pilum._pilum")]
pub(crate) struct VerifyReport(pilum_table::VerifyReport);

#[pymethods]
impl VerifyReport {
    #[getter]
    fn ok(&self) -> bool {
        self.0.is_ok()
    }

    #[getter]
    fn version(&self) -> u64 {
        self.0.version
    }

    #[getter]
    fn problems(&self) -> Vec<(&str, &str)> {
        let pairs = self.0.problems.iter();
        pairs
            .map(|it| (it.path.as_str(), it.reason.as_str()))
            .collect()
    }

    #[getter]
    fn uncovered(&self) -> Vec<&str> {
        self.0.uncovered.iter().map(|it| it.path.as_str()).collect()
    }

    #[getter]
    fn orphans(&self) -> Vec<String> {
        self.0.orphans.clone()
    }

    #[getter]
    fn files(&self) -> u64 {
        self.0.num_files
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.0.num_rows
    }

    fn to_json(&self) -> PyResult<String> {
        /// The report with `ok`.
        #[derive(Serialize)]
        struct Answered<'a> {
            ok: bool,
            #[serde(flatten)]
            report: &'a pilum_table::VerifyReport,
        }
        json(&Answered {
            ok: self.ok(),
            report: &self.0,
        })
    }

    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (self.to_json()?,))
    }

    fn __bool__(&self) -> bool {
        self.ok()
    }

    fn __repr__(&self) -> String {
        format!(
            "VerifyReport(version={}, ok={}, {} problems, {} files, {} rows)",
            self.version(),
            if self.ok() { "True" } else { "False" },
            self.0.problems.len(),
            self.files(),
            self.rows()
        )
    }
}

fn json(described: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(described)
        .map_err(|error| Failure::bug(format!("cannot be written as JSON: {error}")).into())
}

/// Reads and checks every file of the version.
#[pyfunction]
#[pyo3(signature = (dataset, *, progress=None))]
pub(crate) fn verify(
    py: Python<'_>,
    dataset: &Dataset,
    progress: Option<Py<PyAny>>,
) -> PyResult<VerifyReport> {
    dataset.with(py, |table| {
        // Also for a handle that does not compare checksums: without them the verification would prove little.
        let snapshot = table.snapshot().clone().with_verification(true);
        let (done, total) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut shown = Progress::of_total(progress, Arc::clone(&done), Arc::clone(&total));
        let tell: pilum_table::Progress = Arc::new(move |done_rows, total_rows| {
            total.store(total_rows, Ordering::Relaxed);
            done.store(done_rows, Ordering::Relaxed);
        });
        let verified = snapshot.verify_with(&tell);
        let report = block_on_ticking(py, verified, |py| shown.tick(py))??;
        shown.tick(py)?;
        Ok(VerifyReport(report))
    })
}

/// Reads and checks one data file without its table.
#[pyfunction(name = "verify_file")]
#[pyo3(signature = (uri, *, storage_options=None))]
pub(crate) fn verify_one(
    py: Python<'_>,
    uri: &str,
    storage_options: Option<Pairs>,
) -> PyResult<VerifyReport> {
    guarded(|| {
        let options = arguments::storage_options(storage_options);
        let report =
            block_on(py, verify_file(uri, &options))?.map_err(|it| named(uri, &options, it))?;
        Ok(VerifyReport(report))
    })
}

/// The parts of a version, as JSON.
#[pyfunction]
pub(crate) fn describe(py: Python<'_>, dataset: &Dataset) -> PyResult<String> {
    dataset.with(py, |table| Ok(json(&table.snapshot().describe())?))
}

/// The layout of one data file, as JSON.
#[pyfunction(name = "describe_file")]
#[pyo3(signature = (uri, *, storage_options=None))]
pub(crate) fn describe_one(
    py: Python<'_>,
    uri: &str,
    storage_options: Option<Pairs>,
) -> PyResult<String> {
    guarded(|| {
        let options = arguments::storage_options(storage_options);
        let described = block_on(py, describe_file(uri, &options))?;
        json(&described.map_err(|it| named(uri, &options, it))?)
    })
}

/// Tests whether a store behaves as tables need it: whether only one of several writers can create an object, for example.
/// Returns the findings as JSON text.
#[pyfunction]
#[pyo3(signature = (uri, *, rounds, storage_options=None))]
pub(crate) fn doctor(
    py: Python<'_>,
    uri: &str,
    rounds: Count,
    storage_options: Option<Pairs>,
) -> PyResult<String> {
    /// One rule and what was observed.
    #[derive(Serialize)]
    struct Check<'a> {
        name: &'a str,
        ok: bool,
        finding: &'a str,
    }
    /// All rules.
    #[derive(Serialize)]
    struct Found<'a> {
        trusted: bool,
        uri: &'a str,
        checks: Vec<Check<'a>>,
    }
    guarded(|| {
        let options = arguments::storage_options(storage_options);
        let failed = |error| Ended::from(pilum_table::Error::from(error));
        let store = Store::open(uri, &options).map_err(failed)?;
        let rounds = u32::try_from(rounds.get()).unwrap_or(u32::MAX);
        let found = block_on(py, examine(&store, rounds))?.map_err(failed)?;
        let checks = found.checks.iter().map(|it| Check {
            name: it.name,
            ok: it.is_ok,
            finding: &it.finding,
        });
        json(&Found {
            trusted: found.is_trusted(),
            uri: &found.uri,
            checks: checks.collect(),
        })
    })
}

/// The error with the address of the file, without secrets.
fn named(uri: &str, options: &pilum_table::StorageOptions, error: pilum_table::Error) -> PyErr {
    let error = Ended::from(error);
    match Store::open(uri, options) {
        Ok(store) => error.at(store.uri()).into(),
        Err(_) => error.into(),
    }
}
