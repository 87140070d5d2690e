//! What can go wrong with one data file, by what the caller does about it.

use std::fmt;

/// Errors of reading and writing one data file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes contradict the format or their checksum. Other columns and files may be sound.
    #[error("{file} is damaged: {what}{}; restore the file or read other columns", At(*position))]
    Corrupt {
        /// Path of the file.
        file: String,
        /// Structure, column and reason.
        what: String,
        /// Absolute file position, where one can be told.
        position: Option<u64>,
    },
    /// Sound bytes that this version does not understand, or a type that cannot be stored.
    #[error("{file}: {feature} is not supported")]
    Unsupported {
        /// Path of the file.
        file: String,
        /// What is not supported.
        feature: String,
    },
    /// The caller's columns or values do not fit.
    #[error("{message}")]
    InvalidInput {
        /// What is wrong and what to do.
        message: String,
    },
    /// `compat="lance"`: a value that Lance v1 would lose.
    #[error(
        "column `{column}`: Lance v1 cannot hold {what} ({count} values, first at row {first_row}); \
         write with compat=\"lossless\" or change the values"
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
    /// A declared size passes a limit.
    #[error("{file}: {what}")]
    Limit {
        /// Path of the file.
        file: String,
        /// The limit and the size.
        what: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] pilum_store::Error),
}

/// Formats an optional position.
struct At(Option<u64>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .map_or(Ok(()), |position| write!(f, " at byte {position}"))
    }
}

impl Error {
    pub(crate) fn corrupt(
        file: &str,
        what: impl Into<String>,
        position: impl Into<Option<u64>>,
    ) -> Self {
        Self::Corrupt {
            file: file.to_owned(),
            what: what.into(),
            position: position.into(),
        }
    }

    /// Puts the file's path and a column on an error of the page layer.
    pub(crate) fn page(file: &str, column: &str, error: pilum_encoding::Error) -> Self {
        use pilum_encoding::Error as Page;
        let file = file.to_owned();
        match error {
            Page::Corrupt { what, position } => Self::Corrupt {
                file,
                what: format!("column `{column}`: {what}"),
                position,
            },
            Page::Unsupported { feature } => Self::Unsupported {
                file,
                feature: format!("column `{column}`: {feature}"),
            },
            Page::InvalidInput { message } => Self::InvalidInput {
                message: format!("column `{column}`: {message}"),
            },
            Page::Missing(range) => Self::Corrupt {
                file,
                what: format!("column `{column}`: bytes {range:?} lie outside the file"),
                position: Some(range.start),
            },
            other => Self::Limit {
                file,
                what: format!("column `{column}`: {other}"),
            },
        }
    }
}

impl From<pilum_format::Error> for Error {
    fn from(error: pilum_format::Error) -> Self {
        use pilum_format::Error as Format;
        match error {
            Format::Corrupt {
                path,
                reason,
                position,
            } => Self::Corrupt {
                file: path,
                what: reason,
                position,
            },
            Format::Unsupported { path, feature, .. } => Self::Unsupported {
                file: path,
                feature,
            },
            Format::Limit {
                what,
                needed,
                limit,
            } => Self::Limit {
                file: what,
                what: format!("needs {needed}, more than the limit of {limit}"),
            },
            Format::InvalidInput { what, reason } => Self::InvalidInput {
                message: format!("{what}: {reason}"),
            },
        }
    }
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;
