//! One error enum, its variants chosen by what a caller does next.

use pilum_common::Error as CommonError;
use pilum_format::Reason;

/// Result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong with a table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Damage, a feature or an argument that is refused, a limit, or a fault of pilum itself.
    #[error(transparent)]
    Common(#[from] CommonError),

    /// There is no such table, version or tag.
    #[error("{what} does not exist; {hint}")]
    NotFound {
        /// The table, version or tag.
        what: String,
        /// What to do instead.
        hint: String,
    },

    /// The table or tag to create is there already.
    #[error("{what} exists already; {hint}")]
    AlreadyExists {
        /// The table or tag.
        what: String,
        /// What to do instead.
        hint: String,
    },

    /// Another commit came first and the two do not go together. Nothing was changed.
    #[error(
        "{uri}: {ours} conflicts with the {theirs} committed as version {version}: {reason}; {}",
        if *.retryable { "read the newest version, redo the work on it and commit again" }
        else { "doing it again cannot help: decide what the table should look like now" }
    )]
    Conflict {
        /// The table.
        uri: String,
        /// The operation that could not be committed.
        ours: &'static str,
        /// The operation that came first.
        theirs: &'static str,
        /// The version that it made.
        version: u64,
        /// Why they do not go together.
        reason: Reason,
        /// True when the same statement, executed on the newest version, may succeed.
        retryable: bool,
    },

    /// Every attempt lost its race. Nothing was changed.
    #[error("{uri}: {attempts} attempts to commit lost against other writers; try again later")]
    Contention {
        /// The table.
        uri: String,
        /// How many attempts were made.
        attempts: u32,
    },

    /// The store never said whether the commit happened. The written files are kept: they may be in use.
    #[error(
        "{uri}: the commit of transaction {transaction} as version {version} may or may not have happened: {source}; \
         ask again with the same commit_id"
    )]
    CommitUnknown {
        /// The table.
        uri: String,
        /// The version that it would have made.
        version: u64,
        /// The transaction's id: the token to ask again with.
        transaction: String,
        /// Why there is no answer.
        source: pilum_store::Error,
    },

    /// The source of the rows failed; the table is as it was.
    #[error("the data to write failed: {0}")]
    Source(#[source] arrow_schema::ArrowError),

    /// The store failed: fix the cause and try again.
    #[error(transparent)]
    Store(#[from] pilum_store::Error),

    /// A data file could not be read or written.
    #[error(transparent)]
    File(pilum_file::Error),

    /// An expression cannot be read, does not fit the columns or cannot be computed.
    #[error(transparent)]
    Expr(#[from] pilum_expr::Error),
}

impl Error {
    /// Damage in a file whose name the caller adds with [`Error::at`].
    pub(crate) fn corrupt(reason: impl Into<String>) -> Self {
        CommonError::corrupt(reason).into()
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

    /// A fault of pilum itself.
    pub(crate) fn bug(what: impl Into<String>) -> Self {
        CommonError::bug(what).into()
    }

    pub(crate) fn unsupported(feature: impl Into<String>, hint: impl Into<String>) -> Self {
        CommonError::unsupported(feature, hint).into()
    }

    /// Names the file, for errors made by code that sees only its bytes.
    pub(crate) fn at(self, place: impl AsRef<str>) -> Self {
        match self {
            Self::Common(error) => Self::Common(error.at(place)),
            other => other,
        }
    }

    /// A stable word for the kind of error, by what the caller does next.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Common(error) => error.kind(),
            Self::NotFound { .. } => "not_found",
            Self::AlreadyExists { .. } => "already_exists",
            Self::Source(_) => "invalid_input",
            Self::Conflict { .. } | Self::Contention { .. } => "conflict",
            Self::CommitUnknown { .. } => "commit_unknown",
            Self::Store(error) => error.kind(),
            Self::File(error) => error.kind(),
            Self::Expr(error) => error.kind(),
        }
    }
}

impl From<pilum_file::Error> for Error {
    fn from(error: pilum_file::Error) -> Self {
        match error {
            pilum_file::Error::Store(error) => Self::Store(error),
            error => Self::File(error),
        }
    }
}

/// The error of a source of batches, for readers made of fallible iterators.
impl From<Error> for arrow_schema::ArrowError {
    fn from(error: Error) -> Self {
        Self::ExternalError(Box::new(error))
    }
}
