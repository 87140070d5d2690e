//! The Python exceptions, and the one table that maps errors of the engine to them.
//!
//! Every class is derived from `PilumError` and, if Python has a class for the same thing, from that too: `except
//! FileNotFoundError` catches a missing table. PyO3's macro makes classes with one base, so these are made by `type()`.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_schema::ArrowError;
use pilum_table::{Error, Reason};
use pyo3::exceptions::{
    PyException, PyFileExistsError, PyFileNotFoundError, PyMemoryError, PyNotImplementedError,
    PyOSError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

/// One class: its kind, its name, its second base, its docstring.
struct Class {
    kind: &'static str,
    name: &'static str,
    also: Option<fn(Python<'_>) -> Bound<'_, PyType>>,
    doc: &'static str,
}

/// The mapping. The kinds are those of the engine's errors; the first class is the base of the others, and never raised.
const CLASSES: [Class; 11] = [
    Class {
        kind: "any",
        name: "PilumError",
        also: None,
        doc: "Base of all errors of pilum.",
    },
    Class {
        kind: BUG,
        name: "InternalError",
        also: None,
        doc: "A fault of pilum itself: report the message and the traceback. The table and the arguments are not to blame.",
    },
    Class {
        kind: "corrupt",
        name: "CorruptError",
        also: None,
        doc: "Bytes of the table are not what they should be: restore the file that is named.",
    },
    Class {
        kind: "not_found",
        name: "NotFoundError",
        also: Some(builtin::<PyFileNotFoundError>),
        doc: "There is no such table, version, tag or file.",
    },
    Class {
        kind: "already_exists",
        name: "AlreadyExistsError",
        also: Some(builtin::<PyFileExistsError>),
        doc: "What was to be created is there already.",
    },
    Class {
        kind: "unsupported",
        name: "UnsupportedError",
        also: Some(builtin::<PyNotImplementedError>),
        doc: "The table needs, or the call asks for, something that pilum does not do.",
    },
    Class {
        kind: "invalid_input",
        name: "InvalidInputError",
        also: Some(builtin::<PyValueError>),
        doc: "The rows or the arguments do not fit: the message names the column, and the row where there is one.",
    },
    Class {
        kind: "conflict",
        name: "ConflictError",
        also: None,
        doc: "Another writer came first. `retryable` says whether doing it again may help.",
    },
    Class {
        kind: "commit_unknown",
        name: "CommitUnknownError",
        also: None,
        doc: "The store did not say whether it took the commit. `token` is the commit_id to ask again with.",
    },
    Class {
        kind: "store",
        name: "StoreError",
        also: Some(builtin::<PyOSError>),
        doc: "The store failed: no space, no permission, no answer. The table is as it was.",
    },
    Class {
        kind: "limit",
        name: "LimitError",
        also: Some(builtin::<PyMemoryError>),
        doc: "The work needs more than a limit allows: raise it or split the work.",
    },
];

/// The kind of a fault of pilum itself.
const BUG: &str = "bug";

fn builtin<T: pyo3::PyTypeInfo>(py: Python<'_>) -> Bound<'_, PyType> {
    py.get_type::<T>()
}

/// The Python classes, in the order of [`CLASSES`].
static MADE: PyOnceLock<Vec<Py<PyType>>> = PyOnceLock::new();

fn made(py: Python<'_>) -> PyResult<&Vec<Py<PyType>>> {
    MADE.get_or_try_init(py, || {
        let mut made: Vec<Py<PyType>> = Vec::with_capacity(CLASSES.len());
        for class in &CLASSES {
            let base = match made.first() {
                None => builtin::<PyException>(py),
                Some(base) => base.bind(py).clone(),
            };
            let bases = match class.also {
                None => PyTuple::new(py, [base])?,
                Some(also) => PyTuple::new(py, [base, also(py)])?,
            };
            let namespace = PyDict::new(py);
            namespace.set_item("__module__", "pilum")?;
            namespace.set_item("__doc__", class.doc)?;
            namespace.set_item("kind", class.kind)?;
            let class = py
                .get_type::<PyType>()
                .call1((class.name, bases, namespace))?;
            made.push(class.cast_into::<PyType>()?.unbind());
        }
        Ok(made)
    })
}

/// Adds the classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for (class, made) in CLASSES.iter().zip(made(module.py())?) {
        module.add(class.name, made)?;
    }
    Ok(())
}

/// An exception that is not raised yet: it can be made and sent to another thread without the GIL.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    kind: &'static str,
    message: String,
    errno: Option<i32>,
    attributes: Vec<(&'static str, Attribute)>,
}

#[derive(Debug, Clone)]
enum Attribute {
    Text(String),
    Number(u64),
    Numbers(Vec<u64>),
    Flag(bool),
    Nothing,
}

// These numbers are the same on all supported systems.
const ENOENT: i32 = 2;
const EEXIST: i32 = 17;

impl Failure {
    fn new(kind: &'static str, message: impl Into<String>) -> Self {
        let errno = match kind {
            "not_found" => Some(ENOENT),
            "already_exists" => Some(EEXIST),
            _ => None,
        };
        Self {
            kind,
            message: message.into(),
            errno,
            attributes: Vec::new(),
        }
    }

    /// The caller's data or arguments do not fit.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new("invalid_input", message)
    }

    /// This release cannot do what was asked for.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new("unsupported", message)
    }

    /// The store or the system failed.
    pub(crate) fn store(message: impl Into<String>, cause: &io::Error) -> Self {
        Self {
            errno: cause.raw_os_error(),
            ..Self::new("store", message)
        }
    }

    /// A signal or an exception of Python ended the work.
    pub(crate) fn interrupted(by: impl Into<String>) -> Self {
        Self::new("store", format!("interrupted: {}", by.into()))
    }

    /// A fault of pilum itself.
    pub(crate) fn bug(what: impl Into<String>) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        Self::new(
            BUG,
            format!(
                "internal error of pilum {version}: {}; please report this message with its traceback, and what was called",
                what.into()
            ),
        )
    }

    /// Adds the address of the table to a message that does not have it.
    pub(crate) fn at(mut self, uri: &str) -> Self {
        if !self.message.contains(uri) {
            self.message = format!("{uri}: {}", self.message);
        }
        self
    }

    /// Sets `token` to the `commit_id` with which the caller can repeat the commit.
    fn asked_by(mut self, commit_id: &str) -> Self {
        for (name, value) in &mut self.attributes {
            if *name == "token" {
                *value = Attribute::Text(commit_id.to_owned());
            }
        }
        self
    }

    fn with(mut self, name: &'static str, value: Attribute) -> Self {
        self.attributes.push((name, value));
        self
    }

    fn raise(&self, py: Python<'_>) -> PyResult<PyErr> {
        // A kind that is missing in the table is a fault of pilum.
        let of = |kind| CLASSES.iter().position(|class| class.kind == kind);
        let place = of(self.kind).or_else(|| of(BUG)).unwrap_or_default();
        let class = made(py)?.get(place).map(|class| class.bind(py).clone());
        let class = class.unwrap_or_else(|| builtin::<PyException>(py));
        let raised = class.call1((self.message.as_str(),))?;
        if let Some(errno) = self.errno {
            raised.setattr("errno", errno)?;
        }
        for (name, value) in &self.attributes {
            match value {
                Attribute::Text(text) => raised.setattr(*name, text)?,
                Attribute::Number(number) => raised.setattr(*name, number)?,
                Attribute::Numbers(numbers) => raised.setattr(*name, numbers)?,
                Attribute::Flag(flag) => raised.setattr(*name, flag)?,
                Attribute::Nothing => raised.setattr(*name, py.None())?,
            }
        }
        Ok(PyErr::from_value(raised))
    }

    /// The nearest error of Arrow, for C streams: the consumer of the stream chooses its exception by the error code.
    pub(crate) fn into_arrow(self) -> ArrowError {
        // A C string ends at the first zero byte.
        let message = self.message.replace('\0', "\u{fffd}");
        match self.kind {
            "unsupported" => ArrowError::NotYetImplemented(message),
            "limit" => ArrowError::MemoryError(message),
            "invalid_input" => ArrowError::InvalidArgumentError(message),
            _ => ArrowError::IoError(message.clone(), io::Error::other(message)),
        }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::try_attach(|py| failure.raise(py).unwrap_or_else(|error| error))
            .unwrap_or_else(|| PyOSError::new_err(failure.message))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let failure = Self::new(error.kind(), error.to_string());
        let failure = Self {
            errno: failure.errno.or_else(|| errno(&error)),
            ..failure
        };
        match error {
            Error::Conflict {
                version,
                retryable,
                ours,
                theirs,
                reason,
                ..
            } => failure
                .with("rows", Attribute::Numbers(rows_of(reason)))
                .with("version", Attribute::Number(version))
                .with("retryable", Attribute::Flag(retryable))
                .with("ours", Attribute::Text(ours.to_owned()))
                .with("theirs", Attribute::Text(theirs.to_owned())),
            Error::Contention { .. } => failure.with("retryable", Attribute::Flag(true)),
            Error::CommitUnknown {
                transaction,
                version,
                ..
            } => failure
                .with("token", Attribute::Nothing)
                .with("transaction", Attribute::Text(transaction))
                .with("version", Attribute::Number(version)),
            _ => failure,
        }
    }
}

impl From<pilum_parquet::Error> for Failure {
    fn from(error: pilum_parquet::Error) -> Self {
        let failure = Self::new(error.kind(), error.to_string());
        let errno = failure.errno.or_else(|| errno(&error));
        Self { errno, ..failure }
    }
}

impl From<pilum_kartothek::Error> for Failure {
    fn from(error: pilum_kartothek::Error) -> Self {
        use pilum_kartothek::Error as Kartothek;
        let error = match error {
            Kartothek::Store(error) => return Error::from(error).into(),
            Kartothek::Parquet(error) => return error.into(),
            other => other,
        };
        let failure = Self::new(error.kind(), error.to_string());
        match error {
            Kartothek::Conflict { retryable, .. } => {
                failure.with("retryable", Attribute::Flag(retryable))
            }
            _ => failure,
        }
    }
}

impl From<pilum_references::Error> for Failure {
    fn from(error: pilum_references::Error) -> Self {
        use pilum_references::{Error as References, Unreachable};
        let error = match error {
            References::Store(error) => return Error::from(error).into(),
            References::Table(error) => return error.into(),
            other => other,
        };
        let kind = error.kind();
        let failure = Self::new(kind, error.to_string());
        let text = |it: String| Attribute::Text(it);
        match error {
            References::Invalid {
                key, member, peer, ..
            } => failure
                .with("key", text(key))
                .with("member", text(member))
                .with("peer", text(peer.name().to_owned())),
            // fsspec raises a ValueError for a document that it cannot read.
            References::Common(_) if kind == "corrupt" => {
                failure.with("peer", text("ValueError".to_owned()))
            }
            References::NotReachable {
                key, target, cause, ..
            } => {
                let cause = match cause {
                    Unreachable::Missing => "FileNotFoundError",
                    Unreachable::Refused => "refused",
                    Unreachable::Malformed(peer) => peer.name(),
                    _ => "OSError",
                };
                failure
                    .with("reference", text(key))
                    .with("target", text(target))
                    .with("cause", text(cause.to_owned()))
            }
            _ => failure,
        }
    }
}

impl From<pilum_skiff::Error> for Failure {
    fn from(error: pilum_skiff::Error) -> Self {
        use pilum_skiff::Error as Skiff;
        let mut failure = Self::new(error.kind(), error.to_string());
        if let Skiff::Io(cause) = &error {
            failure.errno = cause.raw_os_error();
        }
        let number = |it: usize| Attribute::Number(it as u64);
        let text = |it: Option<String>| it.map_or(Attribute::Nothing, Attribute::Text);
        let failure = failure.with("error_class", Attribute::Text(error.class().to_owned()));
        match error {
            Skiff::Stream {
                offset,
                table,
                row,
                column,
                ..
            } => failure
                .with("offset", Attribute::Number(offset))
                .with("table", table.map_or(Attribute::Nothing, number))
                .with("row", Attribute::Number(row))
                .with("column", text(column)),
            Skiff::Value {
                table, row, column, ..
            } => failure
                .with("table", number(table))
                .with("row", Attribute::Number(row))
                .with("column", text(column)),
            Skiff::Yson { offset, .. } => failure.with("offset", number(offset)),
            Skiff::Row { row, .. } => failure.with("row", number(row)),
            _ => failure,
        }
    }
}

/// The rows that a conflict names.
fn rows_of(reason: Reason) -> Vec<u64> {
    match reason {
        Reason::Rows(addresses) => addresses,
        Reason::Expected { row_ids, .. } => row_ids,
        _ => Vec::new(),
    }
}

/// The `errno` of the cause of an error.
fn errno(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(code) = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return Some(code);
        }
        cause = error.source();
    }
    None
}

/// Why work ended early: an error of the engine, or an exception of Python such as `KeyboardInterrupt`.
#[derive(Debug)]
pub(crate) enum Ended {
    Failed(Failure),
    Raised(PyErr),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<pilum_parquet::Error> for Ended {
    fn from(error: pilum_parquet::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<pilum_kartothek::Error> for Ended {
    fn from(error: pilum_kartothek::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl Ended {
    /// As [`Failure::at`]; an exception of Python is not changed.
    pub(crate) fn at(self, uri: &str) -> Self {
        match self {
            Self::Failed(failure) => Self::Failed(failure.at(uri)),
            raised @ Self::Raised(_) => raised,
        }
    }

    /// As [`Failure::asked_by`], if the caller gave an id.
    pub(crate) fn asked_by(self, commit_id: Option<&str>) -> Self {
        match (self, commit_id) {
            (Self::Failed(failure), Some(id)) => Self::Failed(failure.asked_by(id)),
            (ended, _) => ended,
        }
    }
}

impl From<PyErr> for Ended {
    fn from(raised: PyErr) -> Self {
        Self::Raised(raised)
    }
}

impl From<Ended> for PyErr {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Failed(failure) => failure.into(),
            Ended::Raised(raised) => raised,
        }
    }
}

/// Runs what Python or a C callback calls. A panic becomes an `InternalError` and does not unwind into C code.
pub(crate) fn guarded<T, E: From<Failure>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    // Unwind safety: objects are frozen and streams end after an error, so no half-changed state is used again.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Failure::bug(panic_message(panic.as_ref())).into()))
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}
