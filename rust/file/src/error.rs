//! Errors of reading and writing one data file, one variant per reaction of the caller.

use pilum_common::AtByte;

/// Errors of reading and writing one data file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes contradict the format or their checksum: restore the file, or read other columns, which may be sound.
    #[error("{path} is damaged: {reason}{}; restore the file or read other columns", AtByte(*position))]
    Corrupt {
        /// Path of the file.
        path: String,
        /// The structure, the column where there is one, and what is wrong.
        reason: String,
        /// Position in the file, if the error concerns one place.
        position: Option<u64>,
    },
    /// A format version or encoding that this version does not know, or a type that cannot be stored.
    #[error("{path}: {feature} is not supported")]
    Unsupported {
        /// Path of the file.
        path: String,
        /// What is not supported.
        feature: String,
    },
    /// The caller's columns or values do not fit.
    #[error("{message}")]
    InvalidInput {
        /// What is wrong and what to do.
        message: String,
    },
    /// A value that Lance v1 would lose, under `compat="lance"`.
    #[error(
        "column `{column}`: Lance v1 cannot hold {what} ({count} {}, first at row {first_row} of the data to write, counted from 0); \
         change the values, or pass compat=\"lossless\" to keep them: pylance can then no longer read the table",
        if *.count == 1 { "value" } else { "values" }
    )]
    Lossy {
        /// Dotted path of the column.
        column: String,
        /// First offending row, counted from the start of the written data.
        first_row: u64,
        /// Offending values in that page.
        count: u64,
        /// What v1 would lose.
        what: String,
    },
    /// A size exceeds a limit.
    #[error("{path}: {what}")]
    Limit {
        /// Path of the file.
        path: String,
        /// The size and the limit.
        what: String,
    },
    /// A fault of pilum itself.
    #[error(transparent)]
    Bug(pilum_common::Error),
    /// The store could not read or write the file.
    #[error(transparent)]
    Store(#[from] pilum_store::Error),
}

impl Error {
    /// A stable word for the kind of error, by what the caller does next.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Corrupt { .. } => "corrupt",
            Self::Unsupported { .. } => "unsupported",
            Self::InvalidInput { .. } | Self::Lossy { .. } => "invalid_input",
            Self::Limit { .. } => "limit",
            Self::Bug(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    pub(crate) fn corrupt(
        path: &str,
        reason: impl Into<String>,
        position: impl Into<Option<u64>>,
    ) -> Self {
        Self::Corrupt {
            path: path.to_owned(),
            reason: reason.into(),
            position: position.into(),
        }
    }

    /// An error of the page layer with the file's path and the column.
    pub(crate) fn page(path: &str, column: &str, error: pilum_encoding::Error) -> Self {
        use pilum_encoding::Error as Page;
        let path = path.to_owned();
        match error {
            Page::Corrupt { what, position } => Self::Corrupt {
                path,
                reason: format!("column `{column}`: {what}"),
                position,
            },
            Page::Unsupported { feature } => Self::Unsupported {
                path,
                feature: format!("column `{column}`: {feature}"),
            },
            Page::InvalidInput { message } => Self::InvalidInput {
                message: format!("column `{column}`: {message}"),
            },
            Page::Missing(range) => Self::Corrupt {
                path,
                reason: format!("column `{column}`: bytes {range:?} lie outside the file"),
                position: Some(range.start),
            },
            other => Self::Limit {
                path,
                what: format!("column `{column}`: {other}"),
            },
        }
    }
}

impl From<pilum_common::Error> for Error {
    fn from(error: pilum_common::Error) -> Self {
        use pilum_common::Error as Common;
        match error {
            Common::Corrupt {
                path,
                reason,
                position,
            } => Self::Corrupt {
                path,
                reason,
                position,
            },
            Common::Unsupported { path, feature, .. } => Self::Unsupported { path, feature },
            Common::Limit {
                what,
                needed,
                limit,
            } => Self::Limit {
                path: what,
                what: format!("needs {needed}, more than the limit of {limit}"),
            },
            Common::InvalidInput { what, reason } => Self::InvalidInput {
                message: format!("{what}: {reason}"),
            },
            bug @ Common::Bug { .. } => Self::Bug(bug),
        }
    }
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;
