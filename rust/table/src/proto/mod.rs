//! Protobuf messages of manifests and transactions, generated from `protos/table.proto`,
//! `protos/transaction.proto` and `protos/rowids.proto`.
#![expect(
    missing_docs,
    unreachable_pub,
    clippy::all,
    reason = "generated; the .proto files hold the documentation"
)]

#[rustfmt::skip]
#[path = "lance.table.rs"]
mod lance_table;
pub use lance_table::*;
