//! Integration tests of the format.
#![expect(
    clippy::unwrap_used,
    reason = "a test speaks by panicking, its fixtures too"
)]

mod protos;
mod schemas;
