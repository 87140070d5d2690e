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
//!   StagedFragments ──> Transaction ── commit ──> the next Manifest
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

mod commit;
mod dataset;
mod dml;
mod error;
mod failpoints;
mod maintenance;
mod read;
mod versions;
mod write;

pub use commit::cleanup::{CleanupOptions, CleanupOutcome};
pub use commit::conflict::{CONFLICT_MATRIX, Outcome, Rule, check as check_conflict};
pub use commit::precondition::Precondition;
pub use commit::{CommitOptions, Committed, commit, find_commit};
pub use dataset::{Dataset, VersionRef, VersionSummary};
pub use dml::columns::distributed::{ColumnFiles, commit_columns, write_column_files};
pub use dml::columns::{ColumnChange, ColumnsOutcome, field_id};
pub use dml::delete::DeleteOutcome;
pub use dml::distributed::{Changes, ChangesOutcome, commit_changes};
pub use dml::merge::{
    MergeOptions, MergeOutcome, WhenMatched, WhenNotMatched, WhenNotMatchedBySource,
};
pub use dml::row_set::{encode_row_set, with_row_ids};
pub use dml::statement::StatementOptions;
pub use dml::update::UpdateOutcome;
pub use error::{Error, Result};
#[doc(hidden)]
pub use failpoints::FAIL_POINTS;
pub use maintenance::compact::distributed::{commit_rewrite, plan_compaction, rewrite_group};
pub use maintenance::compact::{CompactOptions, CompactOutcome};
pub use maintenance::describe::{
    ChecksumCoverage, DataFileDescription, DeletionDescription, FragmentDescription, TableColumn,
    TableDescription, describe_file, verify_file,
};
pub use maintenance::progress::Progress;
pub use maintenance::verify::{Check, Problem, Uncovered, VerifyReport};
pub use pilum_common::Error as CommonError;
pub use pilum_expr as expr;
pub use pilum_expr::{
    AdaptError, AdaptOptions, Expr, Extra, Missing, Mode, Projection, SchemaAdapter,
    from_substrait, in_order_of, parse_sql,
};
pub use pilum_file::{Compat, FileDescription, WriteOptions as FileLayout};
pub use pilum_format::{
    ConfigUpdate, DataFile, Dictionaries, Fragment, MapUpdate, Operation, Reason, Schema, Tag,
    Transaction,
};
pub use pilum_store::{Durability, Examination, ProcessGeneration, StorageOptions, Store, examine};
pub use read::diff::Diff;
pub use read::options::{ROW_ADDRESS, ROW_ID, ScanOptions};
pub use read::scan::{Scan, ScanMetrics};
pub use read::snapshot::Snapshot;
pub use read::statistics::StatisticsOfColumn;
pub use write::{
    StagedFragments, WriteMode, WriteOptions, Written, check_fits, combine_staged,
    commit_fragments, commit_staged, discard_staged, write, write_fragments,
};
