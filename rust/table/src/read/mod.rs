//! Reading one version: snapshot, scan, take, diff.

pub(crate) mod batches;
mod cache;
pub(crate) mod context;
pub(crate) mod diff;
pub(crate) mod held;
pub(crate) mod options;
mod row_index;
pub(crate) mod scan;
pub(crate) mod snapshot;
mod statistics;
