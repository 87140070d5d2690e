//! The public surface: pages written, planned, fetched and decoded.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests fail by panic, and their numbers are small"
)]

mod arrays;
mod bytes;
#[path = "../../../file/tests/it/document.rs"]
mod document;
mod hostile;
mod packed;
mod round_trip;
mod statistics;
mod tree;

#[global_allocator]
static ALLOCATOR: pilum_testing::CountingAllocator = pilum_testing::CountingAllocator;
