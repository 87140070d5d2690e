//! The options of a commit and its result.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use pilum_format::Compat;

use crate::commit::precondition::Precondition;
use crate::error::Error;
use crate::read::snapshot::Snapshot;

/// How often a commit is tried again after it lost an attempt to a commit without a conflict. Each lost attempt is a
/// successful commit of another writer, so losing is no sign of a fault; so many losses mean that the table has too many
/// writers.
pub(crate) const DEFAULT_RETRIES: u32 = 1000;

/// How to commit.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommitOptions {
    /// Attempts after the first one. With 0, an overwrite fails if the table changed since it was read.
    pub retries: u32,
    /// The caller's id: the same id is committed once, however often it is asked for.
    pub commit_id: Option<String>,
    /// Fail if the table exists.
    pub must_create: bool,
    /// Give the rows of a new table stable ids; an existing table keeps what it has.
    pub stable_row_ids: bool,
    /// Dictionary values by field id: those of a new schema, or those of the table with the values of new rows appended.
    pub dictionaries: BTreeMap<i32, ArrayRef>,
    /// Precondition: what must hold of the version that this one follows.
    pub expect: Option<Precondition>,
    /// The compat of the table from this commit on. `None`: a table keeps its own, and a new one is lossless.
    pub compat: Option<Compat>,
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
            compat: None,
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
    /// Why the automatic cleanup after this commit failed, if it did. The version is committed all the same.
    pub cleanup_error: Option<Arc<Error>>,
}

impl Committed {
    /// Nothing was to be done: the version is as it was.
    pub(crate) fn nothing(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            attempts: 0,
            was_committed_before: false,
            cleanup_error: None,
        }
    }

    /// An earlier call with the same commit id committed it.
    pub(crate) fn before(snapshot: Snapshot) -> Self {
        Self {
            was_committed_before: true,
            ..Self::nothing(snapshot)
        }
    }
}
