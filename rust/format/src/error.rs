//! What can go wrong between bytes and types, by what the caller does next.

use std::fmt;

/// Result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of decoding and encoding the structures of a table.
///
/// Decoders see bytes, not files: the caller names the file with [`Error::at`]. The enum is exhaustive, so that the crates
/// above convert every variant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes contradict the format or their checksum: restore the file, or read another version.
    #[error("{path} is damaged: {reason}{}", At(*position))]
    Corrupt {
        /// The file; empty until the caller names it.
        path: String,
        /// The structure, the column where there is one, and what is wrong.
        reason: String,
        /// Position of the offending byte in the file, where one byte is to blame.
        position: Option<u64>,
    },
    /// Sound bytes with a feature that this release does not know, or a type that cannot be stored.
    #[error("{path}: {feature} is not supported; {hint}")]
    Unsupported {
        /// The file; empty until the caller names it.
        path: String,
        /// What is not supported, by name.
        feature: String,
        /// What to do instead.
        hint: String,
    },
    /// The caller's columns or values do not fit.
    #[error("{what}: {reason}")]
    InvalidInput {
        /// The argument, column or row.
        what: String,
        /// Why it is refused and what to do.
        reason: String,
    },
    /// A declared size passes a limit; nothing was allocated for it.
    #[error("{what} needs {needed}, more than the limit of {limit}")]
    Limit {
        /// What is too large.
        what: String,
        /// How much it needs, with its unit.
        needed: String,
        /// How much is allowed, with its unit.
        limit: String,
    },
}

/// Formats an optional position.
struct At(Option<u64>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .map_or(Ok(()), |position| write!(f, " at byte {position}"))
    }
}

/// What to do about a type or feature of a page that this release does not hold.
const CONVERT: &str = "convert the column to another type";

impl Error {
    /// Damage in a file whose name the caller adds with [`Error::at`].
    pub(crate) fn corrupt(reason: impl Into<String>) -> Self {
        Self::Corrupt {
            path: String::new(),
            reason: reason.into(),
            position: None,
        }
    }

    /// An argument, column or row that is refused.
    pub(crate) fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::InvalidInput {
            what: what.into(),
            reason: reason.into(),
        }
    }

    /// A feature that is not supported, in a file whose name the caller adds with [`Error::at`].
    pub(crate) fn unsupported(feature: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unsupported {
            path: String::new(),
            feature: feature.into(),
            hint: hint.into(),
        }
    }

    /// Puts a column on an error of the page layer, which knows none.
    pub(crate) fn column(column: &str, error: pilum_encoding::Error) -> Self {
        use pilum_encoding::Error as Page;
        let path = String::new();
        match error {
            Page::Corrupt { what, position } => Self::Corrupt {
                path,
                reason: format!("column `{column}`: {what}"),
                position,
            },
            Page::Unsupported { feature } => Self::Unsupported {
                path,
                feature: format!("column `{column}`: {feature}"),
                hint: CONVERT.to_owned(),
            },
            Page::InvalidInput { message } => Self::InvalidInput {
                what: format!("column `{column}`"),
                reason: message,
            },
            Page::Missing(range) => Self::Corrupt {
                path,
                reason: format!("column `{column}`: bytes {range:?} lie outside the file"),
                position: Some(range.start),
            },
            Page::Limit {
                what,
                actual,
                limit,
            } => Self::Limit {
                what: format!("column `{column}`: {what}"),
                needed: actual.to_string(),
                limit: limit.to_string(),
            },
            other => Self::Corrupt {
                path,
                reason: format!("column `{column}`: {other}"),
                position: None,
            },
        }
    }

    /// Names the file, for an error of a decoder, which saw only bytes.
    #[must_use]
    pub fn at(mut self, place: impl AsRef<str>) -> Self {
        match &mut self {
            Self::Corrupt { path, .. } | Self::Unsupported { path, .. } if path.is_empty() => {
                place.as_ref().clone_into(path);
            }
            Self::Limit { what, .. } if !what.starts_with(place.as_ref()) => {
                *what = format!("{}: {what}", place.as_ref());
            }
            _ => {}
        }
        self
    }

    /// A stable word for the kind of error, by what the caller does next.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Corrupt { .. } => "corrupt",
            Self::Unsupported { .. } => "unsupported",
            Self::InvalidInput { .. } => "invalid_input",
            Self::Limit { .. } => "limit",
        }
    }
}
