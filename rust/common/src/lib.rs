//! Errors, type names and path checks that several crates share. This crate does no IO and uses no other crate of the
//! workspace.
//!
//! - [`Error`]: the errors that mean the same in the formats, the tables and the Parquet files.
//! - [`type_name`]: names of Arrow types as pyarrow prints them.
//! - [`path_fault`], [`literal_path_fault`]: the rules for relative paths that untrusted bytes name.

mod error;
mod path;
mod type_name;

pub use error::{AtByte, Error};
pub use path::{literal_path_fault, path_fault};
pub use type_name::{type_name, unit_name};
