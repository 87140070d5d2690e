//! The public face of the crate: text in, rows out.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test says what went wrong by failing, and knows its numbers"
)]

mod adapter;
mod bind;
mod check;
mod convert;
mod display;
mod dnf;
mod eval;
mod message;
mod parse;
mod proto;
mod prune;
mod rows;
mod substrait;

#[global_allocator]
static ALLOCATOR: pilum_testing::CountingAllocator = pilum_testing::CountingAllocator;
