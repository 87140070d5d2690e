//! Protobuf messages, generated from `protos/*.proto`.
#![expect(
    missing_docs,
    reason = "generated; the .proto files hold the documentation"
)]

/// `lance.file`: the messages of a data file.
#[rustfmt::skip]
#[path = "lance.file.rs"]
pub mod file;

/// `lance.table`: the messages of manifests, transactions and row ids.
#[expect(clippy::all, reason = "generated")]
#[rustfmt::skip]
#[path = "lance.table.rs"]
pub mod table;

/// `pilum`: the messages of our extension of data files.
#[rustfmt::skip]
pub mod pilum;
