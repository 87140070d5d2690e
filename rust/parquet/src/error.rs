//! The errors of this crate, one variant for each reaction of a caller.

use parquet::errors::ParquetError;
use pilum_common::Error as CommonError;

/// Result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong with a Parquet file or dataset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Damage, a feature or an argument that is refused, a limit, or a fault of pilum itself.
    #[error(transparent)]
    Common(#[from] CommonError),

    /// The store failed: fix the cause and try again.
    #[error(transparent)]
    Store(#[from] pilum_store::Error),

    /// An expression does not fit the columns or cannot be computed.
    #[error(transparent)]
    Expr(#[from] pilum_expr::Error),
}

impl Error {
    pub(crate) fn corrupt(path: &str, reason: impl Into<String>) -> Self {
        CommonError::corrupt(reason).at(path).into()
    }

    pub(crate) fn unsupported(
        path: &str,
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
            return Self::unsupported(path, text, "write the file again without it");
        }
        Self::corrupt(path, text)
    }

    pub(crate) fn encrypted(path: &str) -> Self {
        let hint = "decrypt it with the library that wrote it";
        Self::unsupported(path, "an encrypted file", hint)
    }

    /// A stable word for the kind of error, by what the caller does next.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Common(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Expr(error) => error.kind(),
        }
    }
}
