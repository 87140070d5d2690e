//! Kartothek datasets: tables of partitions in a store, found by partition keys and inverted indices.
//!
//! A dataset is one metadata document, a schema file for each table, data files, and index files. [`DatasetMetadata`] is the
//! document, read and written without loss in both of its forms; [`names`] are the rules of keys and labels, [`key_value`] the
//! values in paths, [`schema`] the types. [`Dataset`] reads the state of one document; [`DatasetWriter`] writes data files, and
//! commits, in one step, a document that names them.
//!
//! Kartothek 5.3.0 reads what this crate writes. Where that release gives wrong answers (nulls and indices, bool keys, slashes
//! in values), this crate gives the answer of the rows.

mod commit;
#[cfg(test)]
mod crash_tests;
mod dispatch;
mod error;
mod garbage_collect;
mod hash;
mod history;
mod index;
mod index_build;
mod index_read;
mod json_text;
pub mod key_value;
mod limits;
mod metadata;
pub mod names;
mod open;
mod parsed;
mod partition_keys;
mod partition_keys_read;
mod partitions;
mod predicate;
mod restore;
mod scan;
pub mod schema;
mod scope;
mod state;
mod update;
mod write;
mod writer;

pub use commit::{Committed, FAIL_POINTS};
pub use error::{Error, Result};
pub use garbage_collect::{Garbage, Retention};
pub use history::{BOOKKEEPING, Version};
pub use index::{Index, PARTITION_COLUMN};
pub use json_text::JsonText;
pub use limits::Limits;
pub use metadata::{CREATION_TIME, DatasetMetadata, IndexReference, METADATA_VERSION};
pub use names::{DocumentForm, StrayComponents};
pub use open::{Dataset, OpenOptions, read_document};
pub use partition_keys::KeyColumns;
pub use partitions::{Files, Partition};
pub use predicate::{Condition, from_predicates};
pub use scan::Scan;
pub use scope::{DeleteScope, scope_rows};
pub use update::{Existing, Update};
pub use write::{Buckets, Frame, Layout, StagedPartition};
pub use writer::{DatasetWriter, LayoutOfDataset};
