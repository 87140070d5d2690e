//! Protobuf messages, generated from `protos/substrait.proto` and `protos/expression.proto`.
#![expect(
    unreachable_pub,
    reason = "generated; the .proto file holds the documentation"
)]

#[rustfmt::skip]
#[path = "expression.rs"]
pub mod expression;
#[rustfmt::skip]
#[path = "substrait.rs"]
pub mod substrait;
