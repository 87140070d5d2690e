//! Versions of a table: manifests, transactions, conflicts, commits, scans, takes.
mod apply;
mod conflict;
mod deletion;
mod dictionary;
mod error;
mod flags;
mod fragment;
mod manifest;
mod manifest_file;
mod naming;
pub mod proto;
mod row_ids;
mod row_versions;
mod tags;
mod transaction;
mod wire;
pub use error::{Error, Result};
