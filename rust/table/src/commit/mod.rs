//! The commit: publishing the next version, exactly once or not at all.
//!
//! ```text
//! 1 put _transactions/{read version}-{uuid}.txn    a crash leaves a file that nothing refers to
//! 2 list _versions, read every version since        conflict check, oldest first; a version with our uuid: done
//! 3 build the manifest of newest + 1                pure
//! 4 publish it: create it if absent                 the instant of the commit
//!     created          done
//!     name taken       back to 2: read that version; it may be ours, when an earlier response was lost
//!     outcome unknown  back to 2: the version exists (then its uuid says whose it is), or it is published again
//!     failed           nothing was written
//!
//! A listing may be stale. A version that is known to exist (the base, a name that was taken) is read by its name.
//! ```
//!
//! Step 4 is repeated under the same name while the name is free. So a request that arrives late either publishes our
//! version or finds its name taken. When the attempts end while the outcome of a request is unknown, the error is
//! `CommitUnknown`, and no file is removed.
//!
//! Two commits that only remove rows may change the same fragments: between 2 and 3 the later one writes deletion files
//! with the rows of both, and a new transaction file (`rebase`).

pub(crate) mod apply;
mod attempt;
mod auto_cleanup;
mod checks;
pub(crate) mod cleanup;
pub(crate) mod commit_id;
mod compat;
pub(crate) mod conflict;
#[cfg(test)]
mod format_document;
mod group_commit;
mod options;
pub(crate) mod precondition;
pub(crate) mod read_set;
mod rebase;
pub(crate) mod removed_rows;
pub(crate) mod replaced_files;
pub(crate) mod retry;
pub(crate) mod stream_batch;
mod unused_files;
mod work;

pub(crate) use options::DEFAULT_RETRIES;
pub use options::{CommitOptions, Committed};
use pilum_format::Transaction;
use pilum_store::Store;
pub(crate) use unused_files::remove_unused;
pub(crate) use work::Work;

use crate::commit::attempt::Attempt;
use crate::error::Result;
use crate::read::snapshot::Snapshot;

/// Publishes `transaction` as the next version of the table in `store`.
///
/// `base` is the version that the work was done on, `transaction.read_version`; `None` for a table that did
/// not exist.
///
/// # Errors
/// `Conflict` when another commit forbids this one, `AlreadyExists` under
/// [`CommitOptions::must_create`], `Contention` when every attempt lost, `CommitUnknown` when
/// the store did not say whether the version was published. After every other error nothing was committed.
pub async fn commit(
    store: &Store,
    base: Option<&Snapshot>,
    transaction: Transaction,
    options: &CommitOptions,
) -> Result<Committed> {
    let id = options.commit_id.as_deref();
    if let Some(expected) = &options.expect
        && commit_id::of(store, id).await?.is_none()
        && let Err(error) = expected
            .check(store, base, transaction.operation.name())
            .await
    {
        let before = commit_id::instead_of(store, id, transaction.read_version, error).await;
        return before.map(Committed::before);
    }
    let work = Work {
        dictionaries: options.dictionaries.clone(),
        ..Work::of(transaction)
    };
    commit_work(store, base, work, options).await
}

/// The version that was committed with this id, if one was.
///
/// # Errors
/// `Corrupt` when the version that the id names is lost; the errors of the store.
pub async fn find_commit(store: &Store, commit_id: &str) -> Result<Option<Snapshot>> {
    commit_id::find(store, commit_id).await
}

/// As [`commit`], for work that brings its files, and that may share fragments with other deletes and updates.
pub(crate) async fn commit_work(
    store: &Store,
    base: Option<&Snapshot>,
    work: Work<'_>,
    options: &CommitOptions,
) -> Result<Committed> {
    let mut attempt = Attempt::new(store, base, work, options);
    let mut result = attempt.prepare_and_run().await;
    if let Err(error) = result {
        let id = options.commit_id.as_deref();
        let before = commit_id::instead_of(store, id, attempt.checked, error).await;
        result = before.map(Committed::before);
    }
    if let Ok(committed) = &result
        && committed.attempts > 0
        && let Some(id) = &options.commit_id
    {
        commit_id::record_version(store, id, committed.snapshot.version()).await;
    }
    if let Ok(committed) = &mut result
        && committed.attempts > 0
    {
        committed.cleanup_error = auto_cleanup::after(&committed.snapshot).await;
    }
    remove_unused(store, attempt.work.files, result.as_ref()).await;
    result
}
