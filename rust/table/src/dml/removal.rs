//! The commit of a statement that removes rows from fragments.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::ArrayRef;
use pilum_format::{Fragment, Operation};

use crate::commit::read_set::ReadSet;
use crate::commit::removed_rows::RemovedRows;
use crate::commit::{Committed, Work, commit_work};
use crate::dml::statement::StatementOptions;
use crate::error::Result;
use crate::read::snapshot::Snapshot;
use crate::versions::durable_put::remove_files;

/// The read set and the dictionaries of a statement that removes rows.
#[derive(Default)]
pub(crate) struct Prepared<'a> {
    /// Rows, beside the removed ones, that the statement relies on.
    pub(crate) read_set: Option<&'a ReadSet<'a>>,
    /// The dictionaries of what it wrote, by field id.
    pub(crate) dictionaries: BTreeMap<i32, ArrayRef>,
}

/// Commits the operation that `operation` makes of the fragments that keep rows, and of the ids of those that keep none.
/// After an error the files that this call wrote are removed.
pub(crate) async fn commit_removal(
    removed: &RemovedRows,
    base: &Snapshot,
    operation: impl FnOnce(Vec<Fragment>, Vec<u64>) -> Operation,
    prepared: Prepared<'_>,
    options: &StatementOptions,
) -> Result<Committed> {
    let mut files = Vec::new();
    let (updated, removed_ids) = match removed.write(base, &mut files).await {
        Ok(left) => left,
        Err(error) => {
            remove_files(base.store(), &files).await;
            return Err(error);
        }
    };
    let work = Work {
        transaction: options.transaction(base.version(), operation(updated, removed_ids)),
        removed: Some(removed),
        read_set: prepared.read_set,
        dictionaries: prepared.dictionaries,
        files,
        plain_files: BTreeSet::new(),
    };
    commit_work(base.store(), Some(base), work, &options.commit()).await
}
