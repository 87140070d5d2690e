//! The errors of this crate. Variants differ where callers react differently.

use pilum_common::Error as CommonError;

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
            return Error::TooLarge {
                key: key.to_owned(),
                member: member.into(),
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

    /// A damaged file, an argument or a feature that is refused, a limit, or a fault of pilum itself.
    #[error(transparent)]
    Common(#[from] CommonError),

    /// A member of the set asks for more than a limit allows.
    #[error("{}, {member}: {reason}", shown(key))]
    TooLarge {
        /// The key of the reference, or the name of the document's member.
        key: String,
        /// The part of the value.
        member: String,
        /// The limit, and how to raise it where that is possible.
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

    /// The store that holds the set failed.
    #[error(transparent)]
    Store(#[from] pilum_store::Error),

    /// The table that references are made of could not be read.
    #[error(transparent)]
    Table(#[from] pilum_table::Error),
}

impl Error {
    pub(crate) fn corrupt(path: &str, reason: impl Into<String>) -> Self {
        CommonError::corrupt(reason).at(path).into()
    }

    pub(crate) fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Self {
        CommonError::invalid(what, reason).into()
    }

    /// A stable word for the kind of error, by what the caller does next.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid_input",
            Self::Common(error) => error.kind(),
            Self::TooLarge { .. } => "limit",
            Self::NotReachable { .. } => "store",
            Self::Store(error) => error.kind(),
            Self::Table(error) => error.kind(),
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
