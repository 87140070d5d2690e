//! Changing the values of some columns in the rows for which a predicate is true.
//!
//! The changed rows are written to new fragments, whole, and deleted from the old ones, in one commit. In tables
//! with stable row ids they keep their ids.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use futures::stream::StreamExt;
use pilum_expr::Expr;
use tokio::runtime::Handle;

use crate::assigned::Assigned;
use crate::commit::{Committed, remove_files};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::premise::Premise;
use crate::removal::{Prepared, RemovedRows};
use crate::row_ids::RowIdSequence;
use crate::scan::{ROW_ADDRESS, ROW_ID, ScanOptions};
use crate::snapshot::Snapshot;
use crate::statement::StatementOptions;
use crate::transaction::Operation;
use crate::write::{NewFragments, WriteOptions, write_stream};

/// What an update did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UpdateOutcome {
    /// The version with the new values: the newest one as it was, with 0 attempts, when no row matched.
    pub committed: Committed,
    /// Rows that this call changed.
    pub num_updated_rows: u64,
    /// Bytes of the data files with the changed rows.
    pub num_bytes: u64,
}

impl UpdateOutcome {
    fn nothing(committed: Committed) -> Self {
        Self {
            committed,
            num_updated_rows: 0,
            num_bytes: 0,
        }
    }
}

impl Dataset {
    /// Sets columns to new values in the rows of the newest version for which `filter` is true; in all rows without
    /// one. Expressions see the old values, and their results must fit the columns' types.
    ///
    /// `a.b` is a field of the struct `a`, whose other fields stay. Where `a` is null it becomes a struct with nothing
    /// else in it, unless the new value is null too.
    ///
    /// Other deletes and updates may be committed meanwhile, as with [`Dataset::delete`]. Changed rows stand behind
    /// all others.
    ///
    /// # Errors
    /// `InvalidInput` for an unknown column, one that is assigned twice, an expression or value that does not fit;
    /// `Conflict` when another commit forbids this one; see [`commit`](crate::commit()). Unless the error is
    /// `CommitUnknown`, nothing was changed.
    pub async fn update(
        &self,
        assignments: &[(String, Expr)],
        filter: Option<&Expr>,
        options: &StatementOptions,
        handle: &Handle,
    ) -> Result<UpdateOutcome> {
        let once = |base| async move { update(&base, assignments, filter, options, handle).await };
        options
            .execute(self, "Update", UpdateOutcome::nothing, once)
            .await
    }
}

/// One execution of the statement.
async fn update(
    base: &Snapshot,
    assignments: &[(String, Expr)],
    filter: Option<&Expr>,
    options: &StatementOptions,
    handle: &Handle,
) -> Result<UpdateOutcome> {
    let stable = base.manifest().has_stable_row_ids();
    let scan = base.scan(ScanOptions {
        with_row_id: stable,
        with_row_address: true,
        ..options.scan(filter.cloned())
    })?;
    let assigned = Assigned::new(base, scan.schema(), assignments)?;
    let mut removed = RemovedRows::default();
    let mut row_ids = Vec::new();
    let batches = scan.batches(handle).map(|batch| {
        let batch = batch?;
        removed.extend(integers(&batch, ROW_ADDRESS)?.iter().copied());
        if stable {
            row_ids.extend_from_slice(integers(&batch, ROW_ID)?);
        }
        assigned.apply(&batch)
    });
    let layout = WriteOptions::default();
    let written = write_stream(base.store(), Some(base), &assigned.schema, batches, &layout);
    let written = written.await?;
    if removed.is_empty() {
        written.discard(base.store()).await;
        return Ok(UpdateOutcome::nothing(Committed::nothing(base.clone())));
    }
    let num_bytes = written.num_bytes;
    let rewritten = Rewritten {
        removed: &removed,
        written,
        row_ids: &row_ids,
        premise: None,
    };
    let committed = rewritten.commit(base, options).await?;
    if committed.was_committed_before {
        return Ok(UpdateOutcome::nothing(committed));
    }
    Ok(UpdateOutcome {
        committed,
        num_updated_rows: removed.len(),
        num_bytes,
    })
}

/// The values of `_rowid` or `_rowaddr`.
pub(crate) fn integers<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a [u64]> {
    let column = batch.column_by_name(name);
    let column = column.and_then(|it| it.as_primitive_opt::<UInt64Type>());
    let column = column.ok_or_else(|| Error::corrupt(format!("a scan without {name}")))?;
    Ok(column.values())
}

/// Rows written anew, to be removed from where they were in the same commit. New rows may stand behind them.
pub(crate) struct Rewritten<'a> {
    pub(crate) removed: &'a RemovedRows,
    pub(crate) written: NewFragments,
    /// The ids of the rows, as they were written; none in tables without stable ids.
    pub(crate) row_ids: &'a [u64],
    /// What else the statement relies on.
    pub(crate) premise: Option<&'a Premise<'a>>,
}

impl Rewritten<'_> {
    /// Commits the rows as an update. What was written for them is removed if that fails.
    pub(crate) async fn commit(
        mut self,
        base: &Snapshot,
        options: &StatementOptions,
    ) -> Result<Committed> {
        let files = self.written.paths();
        if base.manifest().has_stable_row_ids()
            && let Err(error) = self.keep_ids()
        {
            remove_files(base.store(), &files).await;
            return Err(error.at(base.uri()));
        }
        let added = self.written.fragments;
        let operation = |updated, removed_ids| Operation::Update {
            removed_ids,
            updated,
            added,
            fields_modified: Vec::new(),
            fields_preserving_index: Vec::new(),
            rewrites_columns: false,
        };
        let prepared = Prepared {
            premise: self.premise,
            dictionaries: self.written.dictionaries,
            files,
        };
        self.removed
            .commit(base, operation, prepared, options)
            .await
    }

    /// Gives the rows the ids that they had: the commit then takes their created versions over too. Rows behind them
    /// get new ids.
    fn keep_ids(&mut self) -> Result<()> {
        let mut rest = self.row_ids;
        for fragment in &mut self.written.fragments {
            let rows = usize::try_from(fragment.physical_rows).unwrap_or(usize::MAX);
            let (ids, next) = rest.split_at(rows.min(rest.len()));
            fragment.row_ids = Some(RowIdSequence::from_values(ids).encode());
            rest = next;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let reason = format!("{} rows that were read were not written", rest.len());
        Err(Error::corrupt(reason))
    }
}
