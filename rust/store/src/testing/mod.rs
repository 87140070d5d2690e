//! For tests of this crate and of those above it: the conformance suite of stores, stores whose requests follow a script,
//! a record of all changes of a disk with the states that a power cut may leave, and pauses that take no time.

mod conformance;
pub mod power;
pub mod record;
mod scripted;
mod timer;

pub use conformance::conformance;
pub use scripted::{Fate, Late, Script, Verb};
