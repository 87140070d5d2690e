//! The `tracing` target of events about reading; `docs/design.md` ("Observability") says what their fields mean.

/// Opening a version, planning and running scans, takes, differences.
pub(crate) const READ: &str = "pilum::table::read";
