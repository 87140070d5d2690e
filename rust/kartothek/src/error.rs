//! The errors of this crate, one variant for each reaction of a caller.

/// Result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong with a Kartothek dataset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes of the dataset are not what the format says: restore the file.
    #[error("{path} is damaged: {reason}")]
    Corrupt {
        /// The object of the store.
        path: String,
        /// What is wrong, and where.
        reason: String,
    },

    /// There is no such dataset, or an object that the dataset names is missing.
    #[error("{path}: {reason}")]
    NotFound {
        /// The object of the store.
        path: String,
        /// What is missing, and what to do.
        reason: String,
    },

    /// What was to be created is there already.
    #[error("{path}: {reason}")]
    AlreadyExists {
        /// The object of the store.
        path: String,
        /// What exists, and what to do.
        reason: String,
    },

    /// The dataset uses something that this reader lacks, or the call asks for something that it does not do.
    #[error("{path}: {feature} is not supported; {hint}")]
    Unsupported {
        /// The object of the store, or the argument.
        path: String,
        /// What is not supported, by name.
        feature: String,
        /// What to do instead.
        hint: String,
    },

    /// The arguments do not fit the dataset.
    #[error("{what}: {reason}")]
    InvalidInput {
        /// The argument, column or table.
        what: String,
        /// Why it is refused, and what to do.
        reason: String,
    },

    /// The columns of some rows are not those of their table.
    #[error("Schema violation in table `{table}`: {}", differences.join("; "))]
    Schema {
        /// The table.
        table: String,
        /// Each difference, with the column, both types and both sources.
        differences: Vec<String>,
    },

    /// Another writer changed the dataset in a way that this change does not allow.
    #[error("{path}: {reason}")]
    Conflict {
        /// The metadata document.
        path: String,
        /// What both writers changed, and what to do.
        reason: String,
        /// Whether another attempt may succeed.
        retryable: bool,
    },

    /// The work needs more than a limit allows.
    #[error(
        "{what} needs {needed}, more than the limit of {limit}; raise the limit or split the work"
    )]
    Limit {
        /// What is too large, with the object.
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

    /// A Parquet file is damaged or cannot be read.
    #[error(transparent)]
    Parquet(#[from] pilum_parquet::Error),

    /// A fault of pilum itself: neither the dataset nor the arguments are to blame.
    #[error("internal error of pilum {}: {what}; please report this message with what was called", env!("CARGO_PKG_VERSION"))]
    Bug {
        /// What should not have happened, with the object.
        what: String,
    },
}

impl Error {
    pub(crate) fn corrupt(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            path: path.into(),
            reason: reason.into(),
        }
    }

    pub(crate) fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::InvalidInput {
            what: what.into(),
            reason: reason.into(),
        }
    }

    pub(crate) fn unsupported(
        path: impl Into<String>,
        feature: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::Unsupported {
            path: path.into(),
            feature: feature.into(),
            hint: hint.into(),
        }
    }

    /// A stable word for the kind of error, by what the caller does next.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Corrupt { .. } => "corrupt",
            Self::NotFound { .. } => "not_found",
            Self::AlreadyExists { .. } => "already_exists",
            Self::Unsupported { .. } => "unsupported",
            Self::InvalidInput { .. } | Self::Schema { .. } => "invalid_input",
            Self::Conflict { .. } => "conflict",
            Self::Limit { .. } => "limit",
            Self::Store(error) => error.kind(),
            Self::Expr(error) => error.kind(),
            Self::Parquet(error) => error.kind(),
            Self::Bug { .. } => "bug",
        }
    }
}
