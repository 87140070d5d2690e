//! Deleting the rows for which a predicate is true.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use futures::stream::StreamExt;
use pilum_expr::{Expr, Projection};
use pilum_format::Operation;
use tokio::runtime::Handle;

use crate::commit::Committed;
use crate::commit::removed_rows::RemovedRows;
use crate::dataset::Dataset;
use crate::dml::outcome::StatementOutcome;
use crate::dml::removal::{Prepared, commit_removal};
use crate::dml::statement::StatementOptions;
use crate::error::Result;
use crate::read::options::{ROW_ADDRESS, ScanOptions};
use crate::read::snapshot::Snapshot;

/// What a delete did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeleteOutcome {
    /// The version without the rows: the newest one as it was, with 0 attempts, when no row matched.
    pub committed: Committed,
    /// Rows that this call deleted.
    pub num_deleted_rows: u64,
}

impl StatementOutcome for DeleteOutcome {
    fn without_rows(committed: Committed) -> Self {
        Self {
            committed,
            num_deleted_rows: 0,
        }
    }

    fn committed(&self) -> &Committed {
        &self.committed
    }
}

impl Dataset {
    /// Deletes the rows of the newest version for which `predicate` is true; false and null keep a row.
    ///
    /// Other deletes and updates of the same fragments may be committed concurrently: if they removed other rows, both take
    /// effect, else the statement is retried. When no row matches, nothing is committed.
    ///
    /// # Errors
    /// `InvalidInput` for a predicate that does not fit the columns, `Conflict` when another commit forbids this
    /// one; see [`commit`](crate::commit()). Unless the error is `CommitUnknown`, nothing was changed.
    pub async fn delete(
        &self,
        predicate: &Expr,
        options: &StatementOptions,
        handle: &Handle,
    ) -> Result<DeleteOutcome> {
        let once = |base| async move { delete_from(&base, predicate, options, handle).await };
        options.execute(self, "Delete", once).await
    }
}

/// One execution of the statement.
async fn delete_from(
    base: &Snapshot,
    predicate: &Expr,
    options: &StatementOptions,
    handle: &Handle,
) -> Result<DeleteOutcome> {
    let scan = base.scan(ScanOptions {
        columns: Projection::Names(vec![ROW_ADDRESS.to_owned()]),
        unordered: true,
        ..options.scan(Some(predicate.clone()))
    })?;
    let mut removed = RemovedRows::default();
    let mut batches = scan.batches(handle);
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let addresses = batch.column(0).as_primitive::<UInt64Type>();
        removed.extend(addresses.values().iter().copied());
    }
    if removed.is_empty() {
        return Ok(DeleteOutcome::without_rows(Committed::nothing(
            base.clone(),
        )));
    }
    let operation = |updated, removed_ids| Operation::Delete {
        updated,
        removed_ids,
        predicate: predicate.to_string(),
    };
    let prepared = Prepared::default();
    let committed = commit_removal(&removed, base, operation, prepared, options).await?;
    let num_deleted_rows = if committed.was_committed_before {
        0
    } else {
        removed.len()
    };
    Ok(DeleteOutcome {
        committed,
        num_deleted_rows,
    })
}
