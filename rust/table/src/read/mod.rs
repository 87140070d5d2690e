//! Reading one version: snapshot, scan, take, diff.
//!
//! ```text
//!   snapshot ── queries ──> scan, take ──> fragment ──> context ──> cache, statistics, row_index
//!      └── diff                                            └── shared by all reads of one version
//! ```

pub(crate) mod batches;
pub(crate) mod cache;
mod column_sources;
pub(crate) mod context;
pub(crate) mod diff;
pub(crate) mod event;
pub(crate) mod fragment;
mod gather;
pub(crate) mod held;
pub(crate) mod options;
mod queries;
pub(crate) mod row_ids;
pub(crate) mod row_index;
pub(crate) mod scan;
pub(crate) mod snapshot;
pub(crate) mod statistics;
pub(crate) mod take;
mod zone_maps;
