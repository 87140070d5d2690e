//! The commit of a statement whose rows other processes found and wrote: an update, a merge or a delete as one version.
//!
//! ```text
//!   tasks, each on its own, all on one version:   rows to remove ──> row set      new rows ──> staged fragments
//!                                                        └───────────────┬───────────────┘
//!   one process:                                       deletion files, one commit as of an update
//! ```
//!
//! The commit compares the removed rows with every version since, as for a statement of one process. It does not execute the
//! statement again: the caller does, on a [`Error::Conflict`] that says that this helps.

use pilum_format::Operation;
use pilum_store::Store;

use super::row_set::{copy_row_ids, union};
use crate::commit::read_set::{NewRows, ReadSet};
use crate::commit::{Committed, commit_id};
use crate::dml::event;
use crate::dml::outcome::StatementOutcome;
use crate::dml::removal::{Prepared, commit_removal};
use crate::dml::statement::StatementOptions;
use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;
use crate::versions::durable_put::remove_files;
use crate::write::{StagedFragments, WriteOptions, check_files, check_staged, join};

/// What the tasks of a statement found and wrote.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// The version that all tasks read.
    pub read_version: u64,
    /// Sets of the rows to remove, as [`encode_row_set`](super::row_set::encode_row_set) returns them; no row is in two.
    pub removed: Vec<Vec<u8>>,
    /// Sets of rows that stay and that the statement relies on.
    pub kept: Vec<Vec<u8>>,
    /// The new rows.
    pub staged: Vec<StagedFragments>,
    /// The last version whose added rows the statement knows: rows that a later commit adds are a conflict. `None` if other
    /// commits may add rows.
    pub no_new_rows_after: Option<u64>,
    /// The condition of a delete, for the transaction; `None` for an update or merge.
    pub predicate: Option<String>,
}

/// What the commit of [`Changes`] did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChangesOutcome {
    /// The version with the changes: the one that was read, with 0 attempts, if there was none.
    pub committed: Committed,
    /// Rows that this call removed, those with new values among them.
    pub num_removed_rows: u64,
    /// Rows that this call added.
    pub num_added_rows: u64,
    /// Bytes of the data files with them.
    pub num_bytes: u64,
}

impl StatementOutcome for ChangesOutcome {
    fn without_rows(committed: Committed) -> Self {
        Self {
            committed,
            num_removed_rows: 0,
            num_added_rows: 0,
            num_bytes: 0,
        }
    }

    fn committed(&self) -> &Committed {
        &self.committed
    }
}

/// Commits what the tasks of a statement found and wrote, in one version or not at all.
///
/// The staged files stay after an error: remove them with `discard_staged`, or commit again after
/// [`Error::CommitUnknown`] with the same commit id.
///
/// # Errors
/// `CommonError::InvalidInput` if two tasks remove the same row, or the staged rows have other columns than the version that was
/// read; [`Error::Conflict`] when another commit changed the same rows, or added some where none may be added; else as
/// [`crate::commit()`].
pub async fn commit_changes(
    store: &Store,
    changes: &Changes,
    options: &StatementOptions,
) -> Result<ChangesOutcome> {
    let store = store.clone().with_durability(options.durability);
    let result = commit_all(&store, changes, options).await;
    event::statement(&store, name(changes), &result);
    result
}

fn name(changes: &Changes) -> &'static str {
    match changes.predicate {
        Some(_) => "Delete",
        None => "Update",
    }
}

async fn commit_all(
    store: &Store,
    changes: &Changes,
    options: &StatementOptions,
) -> Result<ChangesOutcome> {
    if let Some(done) = commit_id::of(store, options.commit_id.as_deref()).await? {
        return Ok(ChangesOutcome::without_rows(Committed::before(done)));
    }
    let base = Snapshot::at_version(store, changes.read_version).await?;
    let removed = union(&changes.removed)?;
    let kept = union(&changes.kept)?;
    if removed.is_empty() && changes.staged.is_empty() {
        return Ok(ChangesOutcome::without_rows(Committed::nothing(base)));
    }
    check_files(store, &changes.staged).await?;
    check_staged(&changes.staged, &base)?;
    let files = WriteOptions::default();
    let joined = join(
        store,
        base.dictionaries(),
        base.schema(),
        &changes.staged,
        &files,
    );
    let mut joined = joined.await?;
    let staged = changes.staged.iter().flat_map(|one| &one.fragments);
    copy_row_ids(staged, &mut joined.new.fragments);
    let added = joined.new.fragments.clone();
    let operation = |updated, removed_ids| match &changes.predicate {
        Some(predicate) if added.is_empty() => Operation::Delete {
            updated,
            removed_ids,
            predicate: predicate.clone(),
        },
        _ => Operation::Update {
            removed_ids,
            updated,
            added,
            fields_modified: Vec::new(),
            fields_preserving_index: Vec::new(),
            rewrites_columns: false,
        },
    };
    let new_rows = changes
        .no_new_rows_after
        .map_or(NewRows::Allowed, NewRows::ForbiddenAfter);
    let read_set = ReadSet {
        kept: &kept,
        new_rows,
    };
    let relies_on_more = !kept.is_empty() || changes.no_new_rows_after.is_some();
    let prepared = Prepared {
        read_set: relies_on_more.then_some(&read_set),
        dictionaries: joined.new.dictionaries.clone(),
    };
    let committed = commit_removal(&removed, &base, operation, prepared, options).await;
    match &committed {
        // The version may name any of the files.
        Err(Error::CommitUnknown { .. }) => {}
        Ok(committed) if !committed.was_committed_before => {
            remove_files(store, &joined.replaced).await;
        }
        _ => remove_files(store, &joined.written).await,
    }
    let committed = committed?;
    if committed.was_committed_before {
        return Ok(ChangesOutcome::without_rows(committed));
    }
    Ok(ChangesOutcome {
        committed,
        num_removed_rows: removed.len(),
        num_added_rows: joined.new.num_rows,
        num_bytes: joined.new.num_bytes,
    })
}
