//! What is committed: a transaction with all that was prepared for it.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::ArrayRef;
use pilum_format::Transaction;

use crate::commit::read_set::ReadSet;
use crate::commit::removed_rows::RemovedRows;

/// What is committed, with all that was prepared for it.
pub(crate) struct Work<'a> {
    pub(crate) transaction: Transaction,
    /// The rows that a delete or update takes out of the fragments of the base.
    pub(crate) removed: Option<&'a RemovedRows>,
    /// Rows that must still be there, and rows that must not have been added.
    pub(crate) read_set: Option<&'a ReadSet<'a>>,
    /// The dictionaries of what was written, by field id.
    pub(crate) dictionaries: BTreeMap<i32, ArrayRef>,
    /// Files that were written for the commit. Those that the committed version does not name are removed; when nothing
    /// was committed, all of them.
    pub(crate) files: Vec<String>,
    /// Data files, by their path below `data/`, that do not need the extension with the schema of this commit.
    pub(crate) plain_files: BTreeSet<String>,
}

impl Work<'_> {
    /// A transaction alone.
    pub(crate) fn of(transaction: Transaction) -> Self {
        Self {
            transaction,
            removed: None,
            read_set: None,
            dictionaries: BTreeMap::new(),
            files: Vec::new(),
            plain_files: BTreeSet::new(),
        }
    }
}
