//! Integration tests of the table.
#![expect(
    clippy::unwrap_used,
    reason = "a test speaks by panicking, its fixtures too"
)]

mod acts;
mod commit;
mod dml;
mod events;
mod every_file;
mod flips;
#[path = "../../../format/tests/it/forge.rs"]
mod forge;
mod fuzz;
mod golden;
mod hostile;
mod maintenance;
#[path = "../../../format/tests/it/manifest_bytes.rs"]
mod manifest_bytes;
mod model;
mod paths;
mod read;
mod support;
mod versions;
mod write;
