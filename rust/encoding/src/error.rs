//! What can go wrong between bytes and arrays, by what the caller does next.

use std::ops::Range;

/// The errors of this crate.
///
/// Pages know neither file nor column: the caller adds those when it passes an error on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes contradict the format: report the place, do not retry.
    #[error("corrupt page: {what}{}", at(*position))]
    Corrupt {
        /// What is wrong, with the values seen.
        what: String,
        /// File position of the offending bytes, where one byte is to blame.
        position: Option<u64>,
    },
    /// A type that the format does not hold, or a page of an encoding, form or flag that this release does not know: convert the
    /// column first, or read the file with the release that wrote it.
    #[error("{feature} is not supported")]
    Unsupported {
        /// The type or feature, by name.
        feature: String,
    },
    /// The caller's array or rows contradict themselves or the field: fix the input.
    #[error("invalid input: {message}")]
    InvalidInput {
        /// What to fix.
        message: String,
    },
    /// The source does not hold these bytes: fetch them and try again. While planning this is expected.
    #[error("bytes {}..{} of the file were not fetched", .0.start, .0.end)]
    Missing(Range<u64>),
    /// The rows asked for do not fit one array: read them in smaller batches.
    #[error("{what}: {actual} exceeds {limit}; read fewer rows at once")]
    Limit {
        /// What is too large.
        what: String,
        /// The size asked for.
        actual: u64,
        /// The largest size that works.
        limit: u64,
    },
}

fn at(position: Option<u64>) -> String {
    position.map_or_else(String::new, |p| format!(" (at byte {p})"))
}

impl Error {
    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt {
            what: what.into(),
            position: None,
        }
    }

    pub(crate) fn corrupt_at(what: impl Into<String>, position: u64) -> Self {
        Self::Corrupt {
            what: what.into(),
            position: Some(position),
        }
    }

    pub(crate) fn unsupported(feature: impl Into<String>) -> Self {
        Self::Unsupported {
            feature: feature.into(),
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::InvalidInput {
            message: message.into(),
        }
    }
}

/// A number of bytes or rows in a file as an index into memory.
pub(crate) fn to_usize(value: u64, what: &str) -> Result<usize, Error> {
    usize::try_from(value).map_err(|_| Error::Limit {
        what: what.to_owned(),
        actual: value,
        limit: usize::MAX as u64,
    })
}

/// `position + count * width`, the arithmetic of every page address.
pub(crate) fn offset_by(position: u64, count: u64, width: u64) -> Result<u64, Error> {
    count
        .checked_mul(width)
        .and_then(|bytes| position.checked_add(bytes))
        .ok_or_else(|| {
            Error::corrupt_at(
                format!("{count} values of {width} bytes overflow the file"),
                position,
            )
        })
}
