//! The read set of a statement: what it read and relies on. The commit checks it against every version that was committed
//! since the statement read the table.
//!
//! The commit itself compares the rows that a statement removes. A merge relies on more: rows that it matched and kept must
//! still exist, and no row may have been added that it would have matched.

use arrow_array::RecordBatch;
use futures::stream::StreamExt;
use pilum_format::{Fragment, Operation, Reason};
use tokio::runtime::Handle;

use pilum_expr::Projection;

use crate::commit::conflict::touched_fragments;
use crate::commit::removed_rows::RemovedRows;
use crate::error::Result;
use crate::read::options::ScanOptions;
use crate::read::snapshot::Snapshot;

/// What must hold of every version up to the commit.
pub(crate) struct ReadSet<'a> {
    /// Rows that must still exist.
    pub(crate) kept: &'a RemovedRows,
    /// Which rows may have been added.
    pub(crate) new_rows: NewRows<'a>,
}

/// Rows that other commits may add.
pub(crate) enum NewRows<'a> {
    /// Any: they count as added after the statement.
    Allowed,
    /// None.
    Forbidden,
    /// None by a version behind this one: the statement knows the rows of the versions before.
    ForbiddenAfter(u64),
    /// Those for which `forbids` is false; it gets these columns of the added rows.
    Unless {
        columns: &'a [String],
        forbids: &'a (dyn Fn(&RecordBatch) -> Result<bool> + Sync),
        /// Bytes that the scan of the added rows may hold.
        memory_limit: Option<u64>,
        handle: &'a Handle,
    },
}

impl ReadSet<'_> {
    /// Why the operation that made `after` of `before` breaks the read set, if it does.
    pub(crate) async fn broken_by(
        &self,
        before: Option<&Snapshot>,
        theirs: &Operation,
        after: &Snapshot,
    ) -> Result<Option<Reason>> {
        match theirs {
            Operation::Append { .. } => self.new_rows_of(before, after).await,
            Operation::Delete { .. } => self.rows_gone(theirs, after).await,
            Operation::Update {
                rewrites_columns: false,
                ..
            } => match self.rows_gone(theirs, after).await? {
                None => self.new_rows_of(before, after).await,
                gone => Ok(gone),
            },
            // Rewritten rows have new addresses, so we can no longer check that the kept rows still exist.
            Operation::Rewrite { .. } => {
                let touched = touched_fragments(theirs);
                let ours = touched.into_iter().filter(|id| self.kept.of(*id).is_some());
                let ours: Vec<u64> = ours.collect();
                Ok((!ours.is_empty()).then_some(Reason::Fragments(ours)))
            }
            Operation::CreateIndex { .. }
            | Operation::ReserveFragments { .. }
            | Operation::UpdateConfig(_)
            | Operation::Project { .. } => Ok(None),
            // Values changed in place, or the whole table was replaced.
            _ => Ok(Some(Reason::RowsAdded)),
        }
    }

    async fn rows_gone(&self, theirs: &Operation, after: &Snapshot) -> Result<Option<Reason>> {
        for id in touched_fragments(theirs) {
            let Some(kept) = self.kept.of(id) else {
                continue;
            };
            let gone = match after.manifest().fragment(id) {
                None => kept.clone(),
                Some(fragment) => match after.read_context().deleted(fragment).await? {
                    Some(deleted) => &*deleted & kept,
                    None => continue,
                },
            };
            if !gone.is_empty() {
                return Ok(Some(Reason::rows(id, &gone)));
            }
        }
        Ok(None)
    }

    async fn new_rows_of(
        &self,
        before: Option<&Snapshot>,
        after: &Snapshot,
    ) -> Result<Option<Reason>> {
        let added = added_fragments(before, after);
        if added.is_empty() {
            return Ok(None);
        }
        let (columns, forbids, memory_limit, handle) = match &self.new_rows {
            NewRows::Allowed => return Ok(None),
            NewRows::ForbiddenAfter(known) if after.version() <= *known => return Ok(None),
            NewRows::Forbidden | NewRows::ForbiddenAfter(_) => return Ok(Some(Reason::RowsAdded)),
            NewRows::Unless {
                columns,
                forbids,
                memory_limit,
                handle,
            } => (columns, forbids, *memory_limit, handle),
        };
        let scan = after.scan(ScanOptions {
            columns: Projection::Names(columns.to_vec()),
            fragments: Some(added),
            memory_limit,
            ..ScanOptions::default()
        })?;
        let mut batches = scan.batches(handle);
        while let Some(batch) = batches.next().await {
            if forbids(&batch?)? {
                return Ok(Some(Reason::RowsAdded));
            }
        }
        Ok(None)
    }
}

/// The fragments of `after` that `before` does not have, or has with other files.
pub(crate) fn added_fragments(before: Option<&Snapshot>, after: &Snapshot) -> Vec<u64> {
    let is_old = |fragment: &Fragment| {
        let old = before.and_then(|before| before.manifest().fragment(fragment.id));
        old.is_some_and(|old| old.files == fragment.files)
    };
    let new = after.fragments().iter().filter(|it| !is_old(it));
    new.map(|fragment| fragment.id).collect()
}
