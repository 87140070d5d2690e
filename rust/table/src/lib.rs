//! Versions of a table.
//!
//! A table is a folder. Each version is one file in `_versions/`, its *manifest*: the schema, and the
//! *fragments*, which name data files and the rows deleted from them. Data files never change; a change of the
//! table is a new manifest.
//!
//! ```text
//!   Dataset ── opens ──> Snapshot ── one version, pinned ──> Manifest ──> Fragment ──> DataFile, DeletionFile
//!      │                    │
//!      │ write              └──> Scan, take (rows out)
//!      ▼
//!   NewFragments ──> Transaction ── commit ──> the next Manifest
//! ```
//!
//! - What a manifest means is pure: `manifest`, `fragment`, `row_ids`, `deletion`, `transaction`, and the two
//!   functions that everything hangs on: `apply`, from one version to the next, and [`check_conflict`], which
//!   commits go together, by one table: [`CONFLICT_MATRIX`].
//! - [`commit()`] publishes the next version exactly once or not at all, on any store that can create an object
//!   if it is absent.
//! - [`write()`] turns batches into data files and commits them.
//!
//! ```
//! # futures::executor::block_on(async {
//! use std::sync::Arc;
//! use arrow_array::{Int64Array, RecordBatch, RecordBatchIterator};
//! use arrow_schema::{DataType, Field, Schema};
//! use pilum_store::StorageOptions;
//! use pilum_table::{Dataset, VersionRef, WriteOptions};
//!
//! let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
//! let column = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
//! let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
//! let rows = || RecordBatchIterator::new([Ok(batch.clone())], Arc::clone(&schema));
//!
//! let uri = "memory://tour/table";
//! let storage = StorageOptions::new();
//! Dataset::write(uri, rows(), &WriteOptions::default(), &storage).await?;
//! let table = Dataset::open(uri, &VersionRef::Latest, &storage).await?;
//! let written = table.append(rows(), &WriteOptions::default()).await?;
//! assert_eq!((written.snapshot.version(), written.snapshot.num_rows()), (2, 6));
//! assert_eq!(table.num_rows(), 3, "a handle stays on its version");
//! # Ok::<(), pilum_table::Error>(())
//! # }).unwrap();
//! ```

mod allowance;
mod apply;
mod assigned;
mod auto_cleanup;
mod backoff;
mod cleanup;
mod clock;
mod columns;
mod commit;
mod commit_id;
mod compact;
mod config;
mod conflict;
mod conform;
mod created;
mod dataset;
mod delete;
mod deletion;
mod diff;
mod error;
mod expect;
mod external;
mod flags;
#[cfg(test)]
mod format_document;
mod fragment;
mod growing;
mod held;
mod inspect;
mod manifest;
mod manifest_file;
mod merge;
mod naming;
mod places;
mod premise;
mod proto;
mod rebase;
mod removal;
mod reuse;
mod row_ids;
mod row_index;
mod row_versions;
mod scan;
mod snapshot;
mod statement;
mod tags;
mod transaction;
mod turns;
mod update;
mod verify;
mod versions;
mod wire;
mod write;

pub use cleanup::{CleanupOptions, CleanupOutcome};
pub use columns::{ColumnChange, ColumnsOutcome, field_id};
pub use commit::{CommitOptions, Committed, DEFAULT_RETRIES, commit};
pub use compact::{CompactOptions, CompactOutcome, Progress};
pub use conflict::{
    CONFLICT_MATRIX, OPERATIONS, Outcome, ROWS_NAMED, Reason, Rule, check as check_conflict,
};
pub use dataset::{Dataset, VersionRef, VersionSummary};
pub use delete::DeleteOutcome;
pub use deletion::{decode_deletions, deletion_file_kind, encode_deletions};
pub use diff::Diff;
pub use error::{Error, Result};
pub use expect::Expectation;
pub use fragment::{DataFile, DeletionFile, DeletionFileKind, Fragment, REPLACED_FIELD};
pub use inspect::{
    ChecksumCoverage, DataFileDescription, DeletionDescription, FragmentDescription, TableColumn,
    TableDescription, describe_file, verify_file,
};
pub use manifest::{Manifest, WRITER_LIBRARY};
pub use manifest_file::ManifestFile;
pub use merge::{MergeOptions, MergeOutcome, WhenMatched, WhenNotMatched, WhenNotMatchedBySource};
pub use naming::{NamingScheme, parse_manifest_name, versions_of};
pub use pilum_expr::{Expr, from_substrait, parse_sql};
pub use pilum_file::{Compat, Dictionaries, FileDescription, Schema, WriteOptions as FileLayout};
pub use pilum_store::{
    Durability, Examination, ManifestRegister, RegisterEntry, StorageOptions, Store, examine,
};
pub use proto::IndexMetadata;
pub use proto::transaction::rewrite::RewrittenIndex;
pub use row_ids::RowIdSequence;
pub use row_versions::RowVersions;
pub use scan::{Projection, ROW_ADDRESS, ROW_ID, Scan, ScanMetrics, ScanOptions};
pub use snapshot::Snapshot;
pub use statement::StatementOptions;
pub use tags::Tag;
pub use transaction::{ConfigUpdate, MapUpdate, Operation, RewriteGroup, Transaction};
pub use update::UpdateOutcome;
pub use verify::{Check, Problem, Uncovered, VerifyReport};
pub use write::{
    NewFragments, WriteMode, WriteOptions, Written, commit_fragments, commit_pieces, write,
    write_fragments,
};
