//! The target of this crate's events (`docs/design.md`, "Observability").

/// Opening and writing a file are events of level `DEBUG`, planning and decoding rows of level `TRACE`.
pub(crate) const EVENTS: &str = "pilum::file";
