//! Reading one version: snapshot, scan, take, diff.

pub(crate) mod diff;
pub(crate) mod held;
pub(crate) mod row_index;
pub(crate) mod scan;
pub(crate) mod snapshot;
