//! Tests of the house itself: which crate and which module may use which.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test speaks by panicking"
)]

mod edges;
mod modules;
