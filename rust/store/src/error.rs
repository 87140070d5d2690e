//! One error enum, its variants chosen by what a caller does next.

use std::io;
use std::ops::Range;

/// Result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong where bytes live.
///
/// `path` is always the full address of the object for people: the URI of the table's root joined with
/// the relative path, never with credentials in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such object: look for another, or report the missing table.
    #[error("{path} does not exist")]
    NotFound {
        /// The object that is missing.
        path: String,
    },

    /// Create-if-absent lost: somebody else wrote this name first (or we did, in an attempt whose answer was lost).
    #[error("{path} exists already; read it to see who wrote it")]
    AlreadyExists {
        /// The name that is taken.
        path: String,
    },

    /// The store, or this build, cannot do this at all: retrying is useless.
    #[error("{path}: {feature} is not supported")]
    Unsupported {
        /// What is missing, and how to get it when a build feature is all it takes.
        feature: String,
        /// Where it was asked for.
        path: String,
    },

    /// The caller asked for something that makes no sense.
    #[error("{what}: {reason}")]
    InvalidInput {
        /// The argument, quoted without secrets.
        what: String,
        /// Why it is refused and what to write instead.
        reason: String,
    },

    /// A read beyond the end of an object: the caller's idea of the object is wrong, often because the
    /// object is truncated.
    #[error("{path}: bytes {}..{} asked of an object of {size} bytes; the file may be truncated", range.start, range.end)]
    OutOfRange {
        /// The object that is read.
        path: String,
        /// The bytes asked for.
        range: Range<u64>,
        /// The bytes there are.
        size: u64,
    },

    /// The store failed and nothing was written (or the call was a read): fix the cause and try again.
    #[error("{path}: cannot {operation}: {source}")]
    Io {
        /// The object or folder.
        path: String,
        /// The step that failed, as a verb phrase.
        operation: &'static str,
        /// The store's own words, secrets removed.
        source: io::Error,
    },

    /// A path that would leave the table's folder: the file naming it is damaged or hostile.
    #[error("{path}: refused, {reason}; paths must stay inside the folder of the table")]
    OutsideRoot {
        /// The path as given, escaped for printing.
        path: String,
        /// The rule it breaks.
        reason: &'static str,
    },

    /// A write whose answer was lost: it may or may not have happened. Read back before doing anything else;
    /// never clean up what it may refer to.
    #[error(
        "{path}: the write may or may not have happened, read it back before trying again: {source}"
    )]
    Unclear {
        /// The object that may have been written.
        path: String,
        /// Why there is no answer.
        source: io::Error,
    },

    /// The object is larger than the caller is ready to hold in memory.
    #[error(
        "{path}: {size} bytes exceed the limit of {limit} bytes; raise the limit if the object is genuine"
    )]
    Limit {
        /// The object.
        path: String,
        /// Its size.
        size: u64,
        /// What the caller allowed.
        limit: u64,
    },
}

/// An error of another library with its causes, but for those whose words were said already.
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

    /// True when the object is simply not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// True when create-if-absent found the name taken.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::AlreadyExists { .. })
    }
}
