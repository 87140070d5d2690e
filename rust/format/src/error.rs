//! The errors of this crate, which mean the same in every crate, and those of the page layer with a column.

pub use pilum_common::Error;

/// Result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What to do about a type or feature of a page that this release does not hold.
const CONVERT: &str = "convert the column to another type";

/// Puts a column on an error of the page layer, which knows none. The caller names the file with [`Error::at`].
pub(crate) fn of_column(column: &str, error: pilum_encoding::Error) -> Error {
    use pilum_encoding::Error as Page;
    let corrupt = |reason: String, position| Error::Corrupt {
        path: String::new(),
        reason: format!("column `{column}`: {reason}"),
        position,
    };
    match error {
        Page::Corrupt { what, position } => corrupt(what, position),
        Page::Unsupported { feature } => {
            Error::unsupported(format!("column `{column}`: {feature}"), CONVERT)
        }
        Page::InvalidInput { message } => Error::invalid(format!("column `{column}`"), message),
        Page::Missing(range) => corrupt(
            format!("bytes {range:?} lie outside the file"),
            Some(range.start),
        ),
        Page::Limit {
            what,
            actual,
            limit,
        } => Error::limit(
            format!("column `{column}`: {what}"),
            actual.to_string(),
            limit.to_string(),
        ),
        other => corrupt(other.to_string(), None),
    }
}
