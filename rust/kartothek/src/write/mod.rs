//! Writing partitions: rows are converted, sorted, divided by partition keys and buckets, and written as files that no document
//! names yet.

pub(crate) mod inverted;
mod labels;
pub(crate) mod schema_file;
pub(crate) mod split;
mod stage;
mod staged;
mod types;

pub use split::Buckets;
pub use stage::{Frame, Layout};
pub(crate) use stage::{remove as remove_files, stage as stage_frame};
pub use staged::StagedPartition;
