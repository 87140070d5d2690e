//! The public surface: datasets that Kartothek 5.3.0 wrote, and datasets that are made here.

#![expect(clippy::unwrap_used, reason = "tests fail by panic")]

mod documents;
mod fuzz;
mod planning;
