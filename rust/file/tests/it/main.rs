//! Integration tests of the data file.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests: a failure is a panic, and values are made by truncation"
)]

mod damage;
mod document;
mod fetch;
mod format_document;
mod fuzz;
mod hostile;
mod memory;
mod round_trip;
mod tables;
mod verifies;
