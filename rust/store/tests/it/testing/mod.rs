//! The tools for tests, and the stores that pass the conformance suite.

mod conformance;
mod power;
