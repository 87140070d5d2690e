//! Scans: some columns of the rows that pass a predicate, as a bounded stream of record batches.
//!
//! A scan is cut into pieces of a few megabytes. Each piece is read on its own, on a pool whose width is the scan's: first the
//! columns of the predicate, then the others, for the rows that are left. So memory is bounded by pieces in flight.

mod doors;
mod fragment;
mod plan;
mod prune;
mod readers;
#[expect(clippy::module_inception, reason = "the scan itself")]
mod scan;
mod stream;
mod take;
mod wake;

pub(crate) use fragment::FragmentReader;
pub use scan::Scan;
