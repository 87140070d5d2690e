//! Changing the values of some columns in the rows for which a predicate is true.
//!
//! The changed rows are written to new fragments, whole, and deleted from the old ones, in one commit. In tables
//! with stable row ids they keep their ids.

use futures::stream::StreamExt;
use pilum_expr::Expr;
use pilum_format::RowIdSequence;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::commit::Committed;
use crate::dataset::Dataset;
use crate::dml::assigned_values::{Refusal, row_at};
use crate::dml::assignments::Assigned;
use crate::dml::outcome::StatementOutcome;
use crate::dml::rewritten_files::{MadeOf, RewrittenFiles, others};
use crate::dml::statement::{REWRITE_SHARE, StatementOptions};
use crate::error::{Error, Result};
use crate::read::batches::integers;
use crate::read::options::{ROW_ADDRESS, ROW_ID, ScanOptions};
use crate::read::snapshot::Snapshot;
use crate::write::incoming::Origin;
use crate::write::write_stream;

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

impl StatementOutcome for UpdateOutcome {
    fn without_rows(committed: Committed) -> Self {
        Self {
            committed,
            num_updated_rows: 0,
            num_bytes: 0,
        }
    }

    fn committed(&self) -> &Committed {
        &self.committed
    }
}

impl Dataset {
    /// Sets columns to new values in the rows of the newest version for which `filter` is true. Without a filter it sets them
    /// in all rows. Every expression is evaluated on the values before the update. Its result is converted to the type of the
    /// column by the rules of [`pilum_expr::rule`]: a result that the type cannot hold exactly is refused. To round a result,
    /// write `CAST` in the expression.
    ///
    /// `a.b` is a field of the struct `a`; the other fields of `a` keep their values. A struct that is null stays null,
    /// because it has no field to assign to. To give it a value, assign the whole struct.
    ///
    /// Other deletes and updates may be committed concurrently, as with [`Dataset::delete`]. When one of them changed the same
    /// rows, the statement is retried; files that it wrote, none of whose rows are affected, are reused. Changed rows stand
    /// behind all others.
    ///
    /// # Errors
    /// `InvalidInput` for an unknown column, one that is assigned twice, an expression or value that does not fit (with its
    /// row);
    /// `Conflict` when another commit forbids this one; see [`commit`](crate::commit()). Unless the error is
    /// `CommitUnknown`, nothing was changed.
    pub async fn update(
        &self,
        assignments: &[(String, Expr)],
        filter: Option<&Expr>,
        options: &StatementOptions,
        handle: &Handle,
    ) -> Result<UpdateOutcome> {
        let files = Mutex::new(RewrittenFiles::default());
        let kept = &files;
        let once = |base| async move {
            let mut files = kept.lock().await;
            update(&base, assignments, filter, &mut files, options, handle).await
        };
        let result = options.execute(self, "Update", once).await;
        let committed = result.as_ref().map(|outcome| &outcome.committed);
        files.into_inner().finish(self.store(), committed).await;
        result
    }
}

/// One execution of the statement.
async fn update(
    base: &Snapshot,
    assignments: &[(String, Expr)],
    filter: Option<&Expr>,
    files: &mut RewrittenFiles,
    options: &StatementOptions,
    handle: &Handle,
) -> Result<UpdateOutcome> {
    let stable = base.manifest().has_stable_row_ids();
    files.carry_to(base).await?;
    let scan = base.scan(ScanOptions {
        with_row_id: stable,
        with_row_address: true,
        fragments: files.unsettled(),
        ..options.scan_with(REWRITE_SHARE, filter.cloned())
    })?;
    let assigned = Assigned::new(base, scan.schema(), assignments)?;
    let reused = files.rows();
    let mut made_of = MadeOf::default();
    let mut refused = None;
    let batches = scan.batches(handle).map(|batch| {
        let batch = others(&reused, batch?)?;
        made_of.origins.extend(integers(&batch, ROW_ADDRESS)?);
        if stable {
            let row_ids = integers(&batch, ROW_ID)?;
            made_of.row_ids.extend(&RowIdSequence::from_values(row_ids));
        }
        let addresses = integers(&batch, ROW_ADDRESS)?;
        assigned.apply(&batch).map_err(|refusal| match refusal {
            Refusal::Error(error) => error,
            Refusal::Value(value) => {
                let address = addresses.get(value.row).copied().unwrap_or_default();
                refused = Some((address, value));
                // The caller of this closure replaces this error below: finding the row number of the address needs an await.
                Error::bug("an update refused a value and told none")
            }
        })
    });
    let layout = options.files();
    let columns = (assigned.schema.as_ref(), Origin::Table);
    let written = write_stream(base.store(), Some(base), columns, batches, &layout);
    let written = match (written.await, refused) {
        (Err(_), Some((address, value))) => {
            let row = row_at(base, address).await?;
            return Err(value.into_error(base.uri(), row));
        }
        (written, _) => written?,
    };
    files
        .add(written, made_of)
        .map_err(|error| error.at(base.uri()))?;
    if files.is_empty() {
        return Ok(UpdateOutcome::without_rows(Committed::nothing(
            base.clone(),
        )));
    }
    let removed = files.rows();
    let committed = files.commit(base, &removed, None, options).await?;
    if committed.was_committed_before {
        return Ok(UpdateOutcome::without_rows(committed));
    }
    Ok(UpdateOutcome {
        committed,
        num_updated_rows: removed.len(),
        num_bytes: files.num_bytes(),
    })
}
