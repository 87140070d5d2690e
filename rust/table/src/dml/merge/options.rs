//! The options and the outcome of a merge.

use pilum_expr::{AdaptOptions, Expr};

use crate::commit::Committed;
use crate::dml::outcome::StatementOutcome;
use crate::dml::statement::StatementOptions;

/// What becomes of a row of the table whose key a source row has.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum WhenMatched {
    /// It gets the values of the source's columns; where there is a condition, over columns `source.x` and
    /// `target.x` (or `x`, where only one of them has it), only if it is true.
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
    /// It is left out.
    #[default]
    Ignore,
}

/// What becomes of a row of the table whose key no source row has.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum WhenNotMatchedBySource {
    /// It stays.
    #[default]
    Keep,
    /// It is deleted; where there is a condition over the table's columns, `x` or `target.x`, only if it is true.
    Delete(Option<Expr>),
}

/// How to merge.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MergeOptions {
    /// Rows of the table whose key is in the source.
    pub when_matched: WhenMatched,
    /// Rows of the source whose key is not in the table.
    pub when_not_matched: WhenNotMatched,
    /// Rows of the table whose key is not in the source.
    pub when_not_matched_by_source: WhenNotMatchedBySource,
    /// How strictly rows of the source must fit the columns of the table.
    pub adapt: AdaptOptions,
    /// How to execute it. A quarter of the memory limit is for source rows, a quarter for scanning; further source rows
    /// are spilled to a temporary file.
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
    /// Rows deleted, because they matched or because they did not.
    pub num_deleted_rows: u64,
    /// Bytes of the new data files.
    pub num_bytes: u64,
}

impl StatementOutcome for MergeOutcome {
    fn without_rows(committed: Committed) -> Self {
        Self {
            committed,
            num_inserted_rows: 0,
            num_updated_rows: 0,
            num_deleted_rows: 0,
            num_bytes: 0,
        }
    }

    fn committed(&self) -> &Committed {
        &self.committed
    }
}
