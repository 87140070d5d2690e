//! The errors of this crate, one variant for each reaction of a caller.

use pilum_common::Error as CommonError;

/// Result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong with a Kartothek dataset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Damage, a feature or an argument that is refused, a limit, or a fault of pilum itself.
    #[error(transparent)]
    Common(#[from] CommonError),

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

    /// The store failed: fix the cause and try again.
    #[error(transparent)]
    Store(#[from] pilum_store::Error),

    /// An expression does not fit the columns or cannot be computed.
    #[error(transparent)]
    Expr(#[from] pilum_expr::Error),

    /// A Parquet file is damaged or cannot be read.
    #[error(transparent)]
    Parquet(#[from] pilum_parquet::Error),
}

impl Error {
    pub(crate) fn corrupt(path: impl AsRef<str>, reason: impl Into<String>) -> Self {
        CommonError::corrupt(reason).at(path).into()
    }

    pub(crate) fn unsupported(
        path: impl AsRef<str>,
        feature: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        CommonError::unsupported(feature, hint).at(path).into()
    }

    pub(crate) fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Self {
        CommonError::invalid(what, reason).into()
    }

    pub(crate) fn limit(
        what: impl Into<String>,
        needed: impl Into<String>,
        limit: impl Into<String>,
    ) -> Self {
        CommonError::limit(what, needed, limit).into()
    }

    pub(crate) fn bug(what: impl Into<String>) -> Self {
        CommonError::bug(what).into()
    }

    /// A stable word for the kind of error, by what the caller does next.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Common(error) => error.kind(),
            Self::NotFound { .. } => "not_found",
            Self::AlreadyExists { .. } => "already_exists",
            Self::Schema { .. } => "invalid_input",
            Self::Conflict { .. } => "conflict",
            Self::Store(error) => error.kind(),
            Self::Expr(error) => error.kind(),
            Self::Parquet(error) => error.kind(),
        }
    }
}
