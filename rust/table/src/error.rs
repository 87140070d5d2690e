//! One error enum, its variants chosen by what a caller does next.

use pilum_format::Reason;

/// Result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong with a table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not what the format says: restore the file, or read another version.
    #[error("{path} is damaged: {reason}")]
    Corrupt {
        /// The file, or the part of it.
        path: String,
        /// What is wrong, and where.
        reason: String,
    },

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

    /// The table uses, or the caller asked for, something that pilum does not do.
    #[error("{path}: {feature} is not supported; {hint}")]
    Unsupported {
        /// The table or file.
        path: String,
        /// What is not supported, by name.
        feature: String,
        /// What to do instead.
        hint: String,
    },

    /// The caller's data or arguments do not fit the table.
    #[error("{what}: {reason}")]
    InvalidInput {
        /// The argument, column or row.
        what: String,
        /// Why it is refused and what to do.
        reason: String,
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
    Store(pilum_store::Error),

    /// A data file could not be read or written.
    #[error(transparent)]
    File(pilum_file::Error),

    /// An expression cannot be read, does not fit the columns or cannot be computed.
    #[error(transparent)]
    Expr(#[from] pilum_expr::Error),

    /// A fault of pilum itself: neither the table nor the arguments are to blame.
    #[error(
        "internal error of pilum {}: {what}; please report this message with what was called", env!("CARGO_PKG_VERSION")
    )]
    Bug {
        /// What should not have happened, with the table, fragment or column.
        what: String,
    },

    /// The work needs more than the caller allowed.
    #[error(
        "{what} needs {needed}, more than the limit of {limit}; raise the limit or split the work"
    )]
    Limit {
        /// What is too large.
        what: String,
        /// How much it needs, with its unit.
        needed: String,
        /// How much is allowed, with its unit.
        limit: String,
    },
}

impl Error {
    /// Damage in a file whose name the caller adds with [`Error::at`].
    pub(crate) fn corrupt(reason: impl Into<String>) -> Self {
        Self::Corrupt {
            path: String::new(),
            reason: reason.into(),
        }
    }

    pub(crate) fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::InvalidInput {
            what: what.into(),
            reason: reason.into(),
        }
    }

    /// A fault of pilum itself.
    pub(crate) fn bug(what: impl Into<String>) -> Self {
        Self::Bug { what: what.into() }
    }

    pub(crate) fn unsupported(feature: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unsupported {
            path: String::new(),
            feature: feature.into(),
            hint: hint.into(),
        }
    }

    /// Names the file, for errors made by code that sees only its bytes.
    pub(crate) fn at(mut self, place: impl AsRef<str>) -> Self {
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
            Self::NotFound { .. } => "not_found",
            Self::AlreadyExists { .. } => "already_exists",
            Self::Unsupported { .. } => "unsupported",
            Self::InvalidInput { .. } | Self::Source(_) => "invalid_input",
            Self::Conflict { .. } | Self::Contention { .. } => "conflict",
            Self::CommitUnknown { .. } => "commit_unknown",
            Self::Store(error) => store_kind(error),
            Self::File(error) => file_kind(error),
            Self::Expr(error) => expr_kind(error),
            Self::Bug { .. } => "bug",
            Self::Limit { .. } => "limit",
        }
    }
}

impl From<pilum_store::Error> for Error {
    fn from(error: pilum_store::Error) -> Self {
        Self::Store(error)
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
                path,
                reason: match position {
                    Some(position) => format!("{reason} at byte {position}"),
                    None => reason,
                },
            },
            Format::Unsupported {
                path,
                feature,
                hint,
            } => Self::Unsupported {
                path,
                feature,
                hint,
            },
            Format::InvalidInput { what, reason } => Self::InvalidInput { what, reason },
            Format::Limit {
                what,
                needed,
                limit,
            } => Self::Limit {
                what,
                needed,
                limit,
            },
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

fn store_kind(error: &pilum_store::Error) -> &'static str {
    use pilum_store::Error as Store;
    match error {
        Store::NotFound { .. } => "not_found",
        Store::AlreadyExists { .. } => "already_exists",
        Store::Unsupported { .. } => "unsupported",
        Store::InvalidInput { .. } => "invalid_input",
        // A file that is shorter than its manifest says, or a path that leads outside, is damage.
        Store::OutOfRange { .. } | Store::OutsideRoot { .. } => "corrupt",
        Store::Limit { .. } => "limit",
        _ => "store",
    }
}

fn expr_kind(error: &pilum_expr::Error) -> &'static str {
    match error {
        pilum_expr::Error::Unsupported { .. } => "unsupported",
        pilum_expr::Error::Limit { .. } => "limit",
        _ => "invalid_input",
    }
}

fn file_kind(error: &pilum_file::Error) -> &'static str {
    use pilum_file::Error as File;
    match error {
        File::Corrupt { .. } => "corrupt",
        File::Unsupported { .. } => "unsupported",
        File::InvalidInput { .. } | File::Lossy { .. } => "invalid_input",
        File::Limit { .. } => "limit",
        File::Store(error) => store_kind(error),
        _ => "store",
    }
}
