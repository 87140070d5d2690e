//! Why data does not fit a table.

use std::fmt;

use crate::convert::ConversionError;

/// Why data does not fit a table.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AdaptError {
    /// The schemas do not go together.
    #[error("the data does not fit the table: {}", list(differences))]
    Schema {
        /// Every difference, each with its column.
        differences: Vec<String>,
    },
    /// A batch contradicts the schema of its stream.
    #[error(
        "batch {batch} contradicts the schema of its stream: {difference}; make every batch as the schema says"
    )]
    Batch {
        /// Number of the batch, counted from 0.
        batch: u64,
        /// What the schema says and what the batch has.
        difference: String,
    },
    /// A value would be lost.
    #[error(transparent)]
    Value(Box<ConversionError>),
}

fn list(differences: &[String]) -> impl fmt::Display {
    differences.join("; ")
}
