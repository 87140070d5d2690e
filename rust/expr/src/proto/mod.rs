//! Protobuf messages of conditions from elsewhere, generated from `protos/substrait.proto`.
#![expect(
    unreachable_pub,
    reason = "generated; the .proto file holds the documentation"
)]

#[rustfmt::skip]
#[path = "substrait.rs"]
mod substrait;
pub use substrait::*;
