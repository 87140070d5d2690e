//! Integration tests of the format.
#![expect(
    clippy::unwrap_used,
    reason = "a test speaks by panicking, its fixtures too"
)]

#[expect(dead_code, reason = "shared with the tests of the table")]
mod forge;
mod fuzz;
mod manifest_bytes;
mod protos;
mod schemas;
