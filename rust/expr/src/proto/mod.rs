//! Protobuf messages of Substrait expressions, generated from `protos/substrait.proto`.
#![expect(
    unreachable_pub,
    reason = "generated; the .proto file holds the documentation"
)]

#[rustfmt::skip]
#[path = "substrait.rs"]
pub mod substrait;
