//! The public surface: files written and read back, statistics, predicates, positions, damaged files.

#![expect(clippy::unwrap_used, reason = "tests fail by panic")]

mod hostile;
mod round_trips;
mod support;
