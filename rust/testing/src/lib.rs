//! What the tests of several crates share; no part of the product.
//!
//! - [`plain_types`], [`TIME_UNITS`]: Arrow types without parameters, and the units of those with one.
//! - [`Random`]: numbers that a seed decides, so that a failure can be had again.
//! - [`CountingAllocator`] and [`peak_bytes`]: how much memory something held at once.
//! - [`mutate`]: damage that a reader of untrusted bytes has to expect.
//! - [`Message`] and [`damage_message`]: protobuf messages that no honest writer would write.
//! - [`watched`]: tests that end when something hangs; [`Slowest`]: which of many cases takes longest.
//! - [`events_of`]: what a call tells `tracing`.
//! - [`attack()`] and [`fuzz()`]: bytes without end for one decoder, within the limits that every input must keep.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests speak by panicking, and values are made by truncation"
)]

mod events;
mod fuzz;
mod memory;
mod message;
mod mutate;
mod random;
mod types;
mod watch;

pub use events::events_of;
pub use fuzz::{Target, attack, fuzz};
pub use memory::{CountingAllocator, most_bytes, peak_bytes};
pub use message::{Message, damage_message, varint};
pub use mutate::mutate;
pub use random::Random;
pub use types::{TIME_UNITS, plain_types};
pub use watch::{Slowest, watched};
