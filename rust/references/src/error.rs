//! The errors of this crate. Variants differ where callers react differently.

/// Result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of exception that fsspec raises for the same fault. Python programs catch these classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// `ValueError`
    Value,
    /// `TypeError`
    Type,
    /// `IndexError`
    Index,
    /// `KeyError`
    Key,
    /// `AttributeError`
    Attribute,
}

impl Peer {
    /// The name of the class in Python.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Value => "ValueError",
            Self::Type => "TypeError",
            Self::Index => "IndexError",
            Self::Key => "KeyError",
            Self::Attribute => "AttributeError",
        }
    }
}

/// A fault of a value or an expression, without its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) peer: Peer,
    /// Whether a limit was exceeded; otherwise the input is wrong.
    pub(crate) is_limit: bool,
    pub(crate) reason: String,
}

impl Fault {
    pub(crate) fn new(peer: Peer, reason: impl Into<String>) -> Self {
        Self {
            peer,
            is_limit: false,
            reason: reason.into(),
        }
    }

    pub(crate) fn value(reason: impl Into<String>) -> Self {
        Self::new(Peer::Value, reason)
    }

    pub(crate) fn type_of(reason: impl Into<String>) -> Self {
        Self::new(Peer::Type, reason)
    }

    pub(crate) fn limit(reason: impl Into<String>) -> Self {
        Self {
            is_limit: true,
            ..Self::new(Peer::Value, reason)
        }
    }

    /// The error for the member `member` of `key`.
    pub(crate) fn at(self, key: &str, member: impl Into<String>) -> Error {
        if self.is_limit {
            return Error::Limit {
                what: format!("{}, {}", shown(key), member.into()),
                reason: self.reason,
            };
        }
        Error::Invalid {
            key: key.to_owned(),
            member: member.into(),
            reason: self.reason,
            peer: self.peer,
        }
    }
}

/// Why the target of a reference could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreachable {
    /// The target does not exist.
    Missing,
    /// The allow-list or a rule that protects this machine refuses the target.
    Refused,
    /// The URL or the range cannot be a target; fsspec raises an error of this class inside.
    Malformed(Peer),
    /// The store failed.
    Store,
}

/// A request to a reference set failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The set has a malformed member.
    #[error("{}, {member}: {reason}", shown(key))]
    Invalid {
        /// The key of the reference, or the name of the document's member.
        key: String,
        /// The part of the value: `offset`, `template`, ...
        member: String,
        /// What is wrong and what to write instead.
        reason: String,
        /// The class that fsspec raises.
        peer: Peer,
    },

    /// An argument is invalid.
    #[error("{what}: {reason}")]
    InvalidInput {
        /// The argument.
        what: String,
        /// Why it is refused and what to pass instead.
        reason: String,
    },

    /// The document is not JSON, or its Parquet files are damaged.
    #[error("{path}: {reason}")]
    Corrupt {
        /// The file.
        path: String,
        /// What is wrong, with the position.
        reason: String,
    },

    /// The work needs more than a limit allows.
    #[error("{what}: {reason}")]
    Limit {
        /// The member that exceeds it.
        what: String,
        /// The limit, and how to raise it.
        reason: String,
    },

    /// The key exists, but the bytes to which it refers could not be read. This is never a missing key: zarr replaces missing
    /// keys by fill values.
    #[error("Reference {key:?} failed to fetch target {target}: {reason}")]
    NotReachable {
        /// The key.
        key: String,
        /// The URL of the target, without secrets.
        target: String,
        /// Which reaction makes sense.
        cause: Unreachable,
        /// The message of the store.
        reason: String,
    },

    /// Something that the set asks for is not done by this release.
    #[error("{what} is not supported: {reason}")]
    Unsupported {
        /// The feature.
        what: String,
        /// What to do instead.
        reason: String,
    },

    /// The store that holds the set failed.
    #[error(transparent)]
    Store(#[from] pilum_store::Error),

    /// The table that references are made of could not be read.
    #[error(transparent)]
    Table(#[from] pilum_table::Error),
}

impl Error {
    pub(crate) fn corrupt(path: &str, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    pub(crate) fn input(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::InvalidInput {
            what: what.into(),
            reason: reason.into(),
        }
    }
}

/// A key for a message: quoted, and cut where it is very long.
pub(crate) fn shown(key: &str) -> String {
    const MOST: usize = 200;
    match key.char_indices().nth(MOST) {
        None => format!("{key:?}"),
        Some((end, _)) => format!("{:?}...", key.get(..end).unwrap_or_default()),
    }
}
