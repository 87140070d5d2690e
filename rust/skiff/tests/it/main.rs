//! The public surface: schemas, streams both ways, YSON.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panic"
)]

mod annotated;
mod cases;
mod fixtures;
mod held;
mod hostile;
mod members;
mod nodes;
mod nulls;
mod one_table;
mod options;
mod random;
mod tables;
mod written;
