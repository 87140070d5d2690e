//! What a commit is asked for, and what it answers.

use std::collections::BTreeMap;

use arrow_array::ArrayRef;

use crate::commit::precondition::Precondition;
use crate::read::snapshot::Snapshot;

/// How often a commit is tried again after losing a race to commits that it goes together with. Each of them is somebody
/// else's success, so no number of them says that something is wrong; this one says that the table cannot take so many writers.
pub const DEFAULT_RETRIES: u32 = 1000;

/// How to commit.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommitOptions {
    /// Attempts after the first one. 0: an overwrite fails if the table changed since it was read.
    pub retries: u32,
    /// The caller's id: the same id is committed once, however often it is asked for.
    pub commit_id: Option<String>,
    /// Fail if the table exists.
    pub must_create: bool,
    /// Give the rows of a new table stable ids; an existing table keeps what it has.
    pub stable_row_ids: bool,
    /// Dictionary values by field id: of the columns of a new schema, or of the table, longer by what new rows brought.
    pub dictionaries: BTreeMap<i32, ArrayRef>,
    /// What must hold of the version that this one follows.
    pub expect: Option<Precondition>,
}

impl Default for CommitOptions {
    fn default() -> Self {
        Self {
            retries: DEFAULT_RETRIES,
            commit_id: None,
            must_create: false,
            stable_row_ids: false,
            dictionaries: BTreeMap::new(),
            expect: None,
        }
    }
}

/// A commit that happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Committed {
    /// The version that it made.
    pub snapshot: Snapshot,
    /// How many attempts it took; 0 if it was committed before, or nothing was to be done.
    pub attempts: u32,
    /// An earlier call with the same commit id had committed already: nothing was written, and what this call
    /// prepared is not part of the table.
    pub was_committed_before: bool,
}

impl Committed {
    /// Nothing was to be done: the version is as it was.
    pub(crate) fn nothing(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            attempts: 0,
            was_committed_before: false,
        }
    }

    /// An earlier call did it.
    pub(crate) fn before(snapshot: Snapshot) -> Self {
        Self {
            was_committed_before: true,
            ..Self::nothing(snapshot)
        }
    }
}
