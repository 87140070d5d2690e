//! The public surface: documents, expressions, Parquet sets, targets.

#![expect(clippy::unwrap_used, reason = "tests fail by panic")]

mod documents;
mod fuzz;
mod parquet;
mod written;
