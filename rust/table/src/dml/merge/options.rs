//! What a merge is asked for, and what it did.

use pilum_expr::Expr;

use crate::commit::Committed;
use crate::dml::statement::StatementOptions;

/// What becomes of a row of the table whose key a source row has.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum WhenMatched {
    /// It gets the values of the source's columns; where there is a condition, over columns `source.x` and
    /// `target.x`, only if it is true.
    Update(Option<Expr>),
    /// It stays.
    #[default]
    Keep,
    /// The merge is refused.
    Fail,
    /// It is deleted.
    Delete,
}

/// What becomes of a source row whose key no row of the table has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenNotMatched {
    /// It is inserted; columns that the source does not have are null.
    Insert,
    /// Nothing.
    #[default]
    Ignore,
}

/// What becomes of a row of the table whose key no source row has.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum WhenNotMatchedBySource {
    /// It stays.
    #[default]
    Keep,
    /// It is deleted; where there is a condition over the table's columns, only if it is true.
    Delete(Option<Expr>),
}

/// How to merge.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MergeOptions {
    /// Rows that are in both.
    pub when_matched: WhenMatched,
    /// Rows that are only in the source.
    pub when_not_matched: WhenNotMatched,
    /// Rows that are only in the table.
    pub when_not_matched_by_source: WhenNotMatchedBySource,
    /// How to execute it. A quarter of the memory limit is for source rows, a quarter for scanning; more of the
    /// source is put aside in a temporary file.
    pub statement: StatementOptions,
}

/// What a merge did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MergeOutcome {
    /// The merged version: the newest one as it was, with 0 attempts, when nothing was to be done.
    pub committed: Committed,
    /// Rows inserted.
    pub num_inserted_rows: u64,
    /// Rows that got new values.
    pub num_updated_rows: u64,
    /// Rows deleted, by a match or for the want of one.
    pub num_deleted_rows: u64,
    /// Bytes of the new data files.
    pub num_bytes: u64,
}

impl MergeOutcome {
    pub(super) fn nothing(committed: Committed) -> Self {
        Self {
            committed,
            num_inserted_rows: 0,
            num_updated_rows: 0,
            num_deleted_rows: 0,
            num_bytes: 0,
        }
    }
}
