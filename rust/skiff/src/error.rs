//! The errors of this crate: one enum, and one stable class name for each way in which a schema, a stream or a value is
//! refused.

use std::fmt;
use std::io;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a schema, a stream, a value or a YSON node was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A schema breaks a rule of the format.
    #[error("Skiff schema, {place}: {reason}")]
    Schema {
        /// The node, as a path of table number and names.
        place: String,
        /// The rule, and what to change.
        reason: String,
    },
    /// A schema or a type is legal, but this crate does not map it.
    #[error("{place}: {reason}")]
    Unsupported {
        /// The column or the node.
        place: String,
        /// What is not mapped, and what to use instead.
        reason: String,
    },
    /// The bytes of a stream are not rows of its schema.
    #[error("Skiff stream, byte {offset}, {}: {fault}: {reason}", Place(*table, *row, column.as_deref()))]
    Stream {
        /// The class of the fault.
        fault: StreamFault,
        /// Offset of the faulty bytes from the beginning of the stream.
        offset: u64,
        /// Number of the table, when its tag was read.
        table: Option<usize>,
        /// Number of the row from the beginning of the stream, over all tables.
        row: u64,
        /// The top-level column.
        column: Option<String>,
        /// What was found and what was expected.
        reason: String,
    },
    /// A value of a record batch cannot be written under the schema.
    #[error("{}: {fault}: {reason}", Place(Some(*table), *row, column.as_deref()))]
    Value {
        /// The class of the fault.
        fault: ValueFault,
        /// Number of the table.
        table: usize,
        /// Number of the row from the first one that this encoder was given.
        row: u64,
        /// The top-level column.
        column: Option<String>,
        /// What was found and what was expected.
        reason: String,
    },
    /// Bytes that should be one YSON node are not.
    #[error("YSON, byte {offset}: {reason}")]
    Yson {
        /// Offset in the bytes of the node.
        offset: usize,
        /// What was found and what was expected.
        reason: String,
    },
    /// JSON text that should be one value is not, or has no YSON counterpart.
    #[error("JSON: {reason}")]
    Json {
        /// What was found and what was expected.
        reason: String,
    },
    /// A value of an array, with its row, that a kernel refused.
    #[error("row {row}: {source}")]
    Row {
        /// Row of the array.
        row: usize,
        /// Why.
        source: Box<Error>,
    },
    /// The work needs more memory than a limit allows.
    #[error("{what}; {remedy}")]
    Limit {
        /// What is too large.
        what: String,
        /// What to change.
        remedy: &'static str,
    },
    /// Arrow refused arrays or a schema.
    #[error("Arrow: {0}")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// The file, pipe or socket failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Error {
    /// The stable name of the class of this error.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Schema { .. } => "SchemaError",
            Self::Unsupported { .. } => "Unsupported",
            Self::Stream { fault, .. } => fault.name(),
            Self::Value { fault, .. } => fault.name(),
            Self::Yson { .. } => "BadYson",
            Self::Json { .. } => "BadJson",
            Self::Row { source, .. } => source.class(),
            Self::Limit { .. } => "Limit",
            Self::Arrow(_) => "Arrow",
            Self::Io(_) => "Io",
        }
    }

    /// A stable word for the kind of error, by what the caller does next.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stream { .. } => "corrupt",
            Self::Unsupported { .. } => "unsupported",
            Self::Limit { .. } => "limit",
            Self::Row { source, .. } if matches!(**source, Self::Limit { .. }) => "limit",
            Self::Io(_) => "store",
            Self::Schema { .. }
            | Self::Value { .. }
            | Self::Yson { .. }
            | Self::Json { .. }
            | Self::Row { .. }
            | Self::Arrow(_) => "invalid_input",
        }
    }

    pub(crate) fn schema(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Schema {
            place: place.into(),
            reason: reason.into(),
        }
    }

    pub(crate) fn unsupported(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Unsupported {
            place: place.into(),
            reason: reason.into(),
        }
    }
}

/// Where an error is, in words: the table, the row and the column.
pub(crate) struct Place<'a>(
    pub(crate) Option<usize>,
    pub(crate) u64,
    pub(crate) Option<&'a str>,
);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(table) = self.0 {
            write!(f, "table {table}, ")?;
        }
        write!(f, "row {}", self.1)?;
        match self.2 {
            Some(column) => write!(f, ", column `{column}`"),
            None => Ok(()),
        }
    }
}

/// The ways in which a stream can be malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamFault {
    /// The stream ends inside a tag, a value, a list or the sparse part, or before its end-of-stream tag.
    TruncatedStream,
    /// A table index that is not below the number of table schemas.
    BadTableTag,
    /// A variant tag that is not below the number of children, or an index tag that has no previous value.
    BadVariantTag,
    /// A list tag that is neither a child nor the terminator.
    BadRepeatedTag,
    /// A sparse tag that is not below the number of sparse columns.
    BadSparseTag,
    /// A boolean byte above 1.
    BadBoolean,
    /// Bytes that are not exactly one YSON node.
    BadYson,
    /// `$other_columns` is a YSON node, but not a map without attributes.
    OtherColumnsNotMap,
    /// Bytes behind the end-of-stream tag.
    TrailingBytes,
    /// `$remaining_row_bytes` differs from the bytes that follow.
    BadRemainingRowBytes,
    /// A value that does not fit the Arrow type that was asked for.
    OutOfRange,
    /// A string that is not UTF-8, in a column that was asked for as text.
    BadUtf8,
    /// `$other_columns` has a key that is the name of a column too.
    DuplicateColumn,
}

impl StreamFault {
    /// The stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TruncatedStream => "TruncatedStream",
            Self::BadTableTag => "BadTableTag",
            Self::BadVariantTag => "BadVariantTag",
            Self::BadRepeatedTag => "BadRepeatedTag",
            Self::BadSparseTag => "BadSparseTag",
            Self::BadBoolean => "BadBoolean",
            Self::BadYson => "BadYson",
            Self::OtherColumnsNotMap => "OtherColumnsNotMap",
            Self::TrailingBytes => "TrailingBytes",
            Self::BadRemainingRowBytes => "BadRemainingRowBytes",
            Self::OutOfRange => "OutOfRange",
            Self::BadUtf8 => "BadUtf8",
            Self::DuplicateColumn => "DuplicateColumn",
        }
    }
}

impl fmt::Display for StreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The ways in which a value cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueFault {
    /// A null in a column or item that the schema requires.
    NullInRequired,
    /// A value outside of its wire type or of the Arrow type of the format, or a string beyond 4 GiB.
    OutOfRange,
    /// A column of the batch without a slot in the schema, and no `$other_columns` to put it in.
    UnexpectedColumn,
    /// A required column that the batch does not have.
    MissingColumn,
    /// A string that is not UTF-8, in a column that is decoded to text.
    BadUtf8,
    /// An item of `$sparse_columns` that is not the number of a sparse column, or is there twice.
    BadSparseTag,
    /// Bytes that are not exactly one YSON node.
    BadYson,
    /// `$other_columns` holds a YSON node that is not a map without attributes.
    OtherColumnsNotMap,
    /// Two columns of a batch have one name, or `$other_columns` has a key that is the name of a column too.
    DuplicateColumn,
    /// A key of `$other_columns` whose value has another type than its column.
    TypeConflict,
}

impl ValueFault {
    /// The stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NullInRequired => "NullInRequired",
            Self::OutOfRange => "OutOfRange",
            Self::UnexpectedColumn => "UnexpectedColumn",
            Self::MissingColumn => "MissingColumn",
            Self::BadUtf8 => "BadUtf8",
            Self::BadSparseTag => "BadSparseTag",
            Self::BadYson => "BadYson",
            Self::OtherColumnsNotMap => "OtherColumnsNotMap",
            Self::DuplicateColumn => "DuplicateColumn",
            Self::TypeConflict => "TypeConflict",
        }
    }
}

impl fmt::Display for ValueFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
