//! Scans: some columns of the rows that pass a predicate, as a bounded stream of record batches.
//!
//! A scan is divided into tasks of a few megabytes. Each task is read on its own, by threads whose number is an option: first
//! the columns of the predicate, then the others, for the rows that pass. So memory is bounded by the tasks in flight.
//!
//! ```text
//!   ScanOptions ──> Plan ──> Scan ──> tasks ──> readers ──> read_task ──> batches
//!                              └── prune: fragments and pages that statistics rule out
//! ```

mod batches;
mod mapped;
mod metrics;
mod plan;
mod planned;
mod prune;
mod read_task;
mod readers;
mod tasks;

pub use metrics::ScanMetrics;
pub(crate) use plan::{Output, Plan, RowIds};
pub(crate) use planned::REMOTE_FRAGMENTS;
pub use planned::Scan;
