//! The errors of this crate, one variant for each reaction of a caller.

use parquet::errors::ParquetError;

/// Result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong with a Parquet file or dataset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not what the format says: restore the file.
    #[error("{path} is damaged: {reason}")]
    Corrupt {
        /// The file.
        path: String,
        /// What is wrong, and where.
        reason: String,
    },

    /// The file uses something that this reader lacks.
    #[error("{path}: {feature} is not supported; {hint}")]
    Unsupported {
        /// The file.
        path: String,
        /// What is not supported, by name.
        feature: String,
        /// What to do instead.
        hint: String,
    },

    /// The arguments do not fit the file, or the files do not fit each other.
    #[error("{what}: {reason}")]
    InvalidInput {
        /// The argument, column or file.
        what: String,
        /// Why it is refused and what to do.
        reason: String,
    },

    /// The work needs more than a limit allows.
    #[error(
        "{what} needs {needed}, more than the limit of {limit}; raise the limit or split the work"
    )]
    Limit {
        /// What is too large, with the file.
        what: String,
        /// How much it needs, with its unit.
        needed: String,
        /// How much is allowed, with its unit.
        limit: String,
    },

    /// The store failed: fix the cause and try again.
    #[error(transparent)]
    Store(#[from] pilum_store::Error),

    /// An expression does not fit the columns or cannot be computed.
    #[error(transparent)]
    Expr(#[from] pilum_expr::Error),

    /// A fault of pilum itself: neither the file nor the arguments are to blame.
    #[error("internal error of pilum {}: {what}; please report this message with what was called", env!("CARGO_PKG_VERSION"))]
    Bug {
        /// What should not have happened, with the file.
        what: String,
    },
}

impl Error {
    pub(crate) fn corrupt(path: &str, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    pub(crate) fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::InvalidInput {
            what: what.into(),
            reason: reason.into(),
        }
    }

    pub(crate) fn bug(what: impl Into<String>) -> Self {
        Self::Bug { what: what.into() }
    }

    /// An error of the decoder, about the file at `path`.
    pub(crate) fn of_decoder(path: &str, error: &ParquetError) -> Self {
        let text = error.to_string();
        let is_unsupported = matches!(error, ParquetError::NYI(_))
            || [
                "not supported",
                "unsupported",
                "not yet implemented",
                "Disabled feature",
            ]
            .iter()
            .any(|words| text.contains(words));
        if text.contains("crypt") {
            return Self::encrypted(path);
        }
        if is_unsupported {
            return Self::Unsupported {
                path: path.to_owned(),
                feature: text,
                hint: "write the file again without it".to_owned(),
            };
        }
        Self::corrupt(path, text)
    }

    pub(crate) fn encrypted(path: &str) -> Self {
        Self::Unsupported {
            path: path.to_owned(),
            feature: "an encrypted file".to_owned(),
            hint: "decrypt it with the library that wrote it".to_owned(),
        }
    }

    /// A stable word for the kind of error, by what the caller does next.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Corrupt { .. } => "corrupt",
            Self::Unsupported { .. } => "unsupported",
            Self::InvalidInput { .. } => "invalid_input",
            Self::Limit { .. } => "limit",
            Self::Store(error) => store_kind(error),
            Self::Expr(error) => match error {
                pilum_expr::Error::Unsupported { .. } => "unsupported",
                pilum_expr::Error::Limit { .. } => "limit",
                _ => "invalid_input",
            },
            Self::Bug { .. } => "bug",
        }
    }
}

fn store_kind(error: &pilum_store::Error) -> &'static str {
    use pilum_store::Error as Store;
    match error {
        Store::NotFound { .. } => "not_found",
        Store::AlreadyExists { .. } => "already_exists",
        Store::Unsupported { .. } => "unsupported",
        Store::InvalidInput { .. } => "invalid_input",
        // A file that became shorter since its footer was read, or a path that leads outside.
        Store::OutOfRange { .. } | Store::OutsideRoot { .. } => "corrupt",
        Store::Limit { .. } => "limit",
        _ => "store",
    }
}
