//! The errors of this crate. Variants differ where callers react differently.

use std::io;
use std::ops::Range;

/// Result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A request to a store failed.
///
/// `path` is the full address of the object: the URI of the table's root joined with the relative path, without
/// credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such object: look for another, or report the missing table.
    #[error("{path} does not exist")]
    NotFound {
        /// The object that is missing.
        path: String,
    },

    /// The name was taken when an object was to be created: by another writer, or by an earlier attempt of this one whose
    /// answer was lost.
    #[error("{path} exists already; read it to see who wrote it")]
    AlreadyExists {
        /// The name that is taken.
        path: String,
    },

    /// The object that was to be replaced is another one than the writer had read, or is gone.
    #[error("{path} was changed by another writer; read it again")]
    Changed {
        /// The object that was changed.
        path: String,
    },

    /// The store or this build does not have the feature: another attempt fails as well.
    #[error("{path}: {feature} is not supported")]
    Unsupported {
        /// The missing feature; a feature of the build is named, so that the user can enable it.
        feature: String,
        /// Where it was asked for.
        path: String,
    },

    /// An argument is invalid.
    #[error("{what}: {reason}")]
    InvalidInput {
        /// The argument, quoted without secrets.
        what: String,
        /// Why it is refused and what to write instead.
        reason: String,
    },

    /// A read beyond the end of an object. Often the object was truncated after the caller learnt its size.
    #[error("{path}: bytes {}..{} asked of an object of {size} bytes; the file may be truncated", range.start, range.end)]
    OutOfRange {
        /// The object that is read.
        path: String,
        /// The bytes asked for.
        range: Range<u64>,
        /// The size of the object in bytes.
        size: u64,
    },

    /// The store failed and nothing was written, or the request was a read: fix the cause and try again.
    #[error("{path}: cannot {operation}: {source}")]
    Io {
        /// The object or folder.
        path: String,
        /// The step that failed, as a verb phrase.
        operation: &'static str,
        /// The message of the store, from which secrets are removed.
        source: io::Error,
    },

    /// A path would leave the table's folder: the file that names it is damaged or was made by an attacker.
    #[error("{path}: refused, {reason}; paths must stay inside the folder of the table")]
    OutsideRoot {
        /// The path as given, escaped for printing.
        path: String,
        /// The rule it breaks.
        reason: &'static str,
    },

    /// The answer to a write was lost: the object may exist or not. Read it back before any other step, and delete nothing
    /// that the object may refer to.
    #[error(
        "{path}: the write may or may not have happened, read it back before trying again: {source}"
    )]
    Unclear {
        /// The object that may have been written.
        path: String,
        /// Why the answer was lost.
        source: io::Error,
    },

    /// The object exceeds the size that the caller allows in memory.
    #[error(
        "{path}: {size} bytes exceed the limit of {limit} bytes; raise the limit if the object is genuine"
    )]
    Limit {
        /// The object.
        path: String,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
}

/// The message of an error of another library with the messages of its causes, each once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

impl Error {
    pub(crate) fn io(path: impl Into<String>, operation: &'static str, source: io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            _ => Self::Io {
                path,
                operation,
                source,
            },
        }
    }

    pub(crate) fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::InvalidInput {
            what: what.into(),
            reason: reason.into(),
        }
    }

    pub(crate) fn unsupported(feature: impl Into<String>, path: impl Into<String>) -> Self {
        Self::Unsupported {
            feature: feature.into(),
            path: path.into(),
        }
    }

    /// A stable word for the kind of error, by what the caller does next.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::AlreadyExists { .. } => "already_exists",
            Self::Unsupported { .. } => "unsupported",
            Self::InvalidInput { .. } => "invalid_input",
            // A file that is shorter than its manifest or footer says, or a path that leads outside, is damage.
            Self::OutOfRange { .. } | Self::OutsideRoot { .. } => "corrupt",
            Self::Limit { .. } => "limit",
            Self::Changed { .. } => "conflict",
            Self::Io { .. } | Self::Unclear { .. } => "store",
        }
    }

    /// True when the object does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// True when the name of an object that was to be created is taken.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::AlreadyExists { .. })
    }
}
