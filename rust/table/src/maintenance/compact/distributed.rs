//! Compaction by several processes: one plans the groups of fragments, each group is rewritten anywhere, one process commits.

use pilum_format::{Operation, RewriteGroup};
use pilum_store::Store;
use tokio::runtime::Handle;

use super::{CompactOptions, CompactOutcome, WrittenGroups, bins, number, rewrite};
use crate::commit::precondition::Precondition;
use crate::commit::{CommitOptions, Committed, Work, commit_id, commit_work};
use crate::dml::outcome::StatementOutcome;
use crate::dml::statement::StatementOptions;
use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;
use crate::write::{StagedFragments, check_files};

/// The groups of fragments, by id, that a compaction of this version rewrites; each can be rewritten on its own.
///
/// # Errors
/// `CommonError::InvalidInput` for options that no compaction can have.
pub fn plan_compaction(base: &Snapshot, options: &CompactOptions) -> Result<Vec<Vec<u64>>> {
    options.check()?;
    let groups = bins(base, options)?.into_iter();
    Ok(groups
        .map(|group| group.iter().map(|fragment| fragment.id).collect())
        .collect())
}

/// Writes the rows of a group of fragments to new files, with their row ids and versions.
///
/// # Errors
/// `CommonError::InvalidInput` for a fragment that is not in this version; else as a scan and a write.
pub async fn rewrite_group(
    base: &Snapshot,
    group: &[u64],
    options: &CompactOptions,
    handle: &Handle,
) -> Result<StagedFragments> {
    let mut old = Vec::with_capacity(group.len());
    for id in group {
        old.push(
            base.manifest()
                .fragment(*id)
                .ok_or_else(|| missing(base, *id))?
                .clone(),
        );
    }
    let mut written = WrittenGroups::default();
    written.prepare(base);
    let (fragments, num_bytes) = rewrite(base, &old, options, handle, &mut written).await?;
    Ok(StagedFragments {
        num_rows: fragments
            .iter()
            .map(|fragment| fragment.physical_rows)
            .sum(),
        num_bytes,
        fragments,
        schema: std::sync::Arc::clone(base.schema()),
        dictionaries: base.dictionaries().clone(),
        read_version: base.version(),
    })
}

/// Commits groups that [`rewrite_group`] wrote, all of them made from version `read_version`, in one version.
///
/// # Errors
/// `CommonError::InvalidInput` for a group that is not of this version; [`Error::Conflict`] when another commit changed one of
/// its fragments; else as [`crate::commit()`]. The staged files stay after an error.
pub async fn commit_rewrite(
    store: &Store,
    read_version: u64,
    groups: &[(Vec<u64>, StagedFragments)],
    options: &StatementOptions,
) -> Result<CompactOutcome> {
    let store = &store.clone().with_durability(options.durability);
    if let Some(done) = commit_id::of(store, options.commit_id.as_deref()).await? {
        return Ok(CompactOutcome::without_rows(Committed::before(done)));
    }
    let base = Snapshot::at_version(store, read_version).await?;
    let mut outcome = CompactOutcome::without_rows(Committed::nothing(base.clone()));
    if groups.is_empty() {
        return Ok(outcome);
    }
    let mut rewritten = Vec::with_capacity(groups.len());
    for (ids, staged) in groups {
        check_files(store, std::slice::from_ref(staged)).await?;
        let mut old = Vec::with_capacity(ids.len());
        for id in ids {
            old.push(
                base.manifest()
                    .fragment(*id)
                    .ok_or_else(|| missing(&base, *id))?
                    .clone(),
            );
        }
        if staged.schema != *base.schema() {
            let reason = format!("were written for other columns than version {read_version} has");
            return Err(Error::invalid("the rewritten fragments", reason));
        }
        let live: u64 = old.iter().map(crate::read::snapshot::live_rows).sum();
        if live != staged.num_rows {
            let reason = format!("hold {} rows, and the old ones {live}", staged.num_rows);
            return Err(Error::invalid("the rewritten fragments", reason));
        }
        outcome.num_removed_fragments += old.len() as u64;
        outcome.num_added_fragments += staged.fragments.len() as u64;
        outcome.num_rows += staged.num_rows;
        outcome.num_bytes += staged.num_bytes;
        let new = staged.fragments.clone();
        rewritten.push(RewriteGroup { old, new });
    }
    let mut commit = options.commit();
    let reserve = CommitOptions {
        commit_id: None,
        ..commit.clone()
    };
    let reserved = number(&base, &mut rewritten, &reserve).await?;
    if let (Some(Precondition::Version(expected)), Some(reserved)) = (&mut commit.expect, reserved)
    {
        *expected = reserved;
    }
    let operation = Operation::Rewrite {
        groups: rewritten,
        rewritten_indices: Vec::new(),
    };
    let work = Work::of(options.transaction(base.version(), operation));
    let committed = commit_work(store, Some(&base), work, &commit).await?;
    if committed.was_committed_before {
        return Ok(CompactOutcome::without_rows(committed));
    }
    Ok(CompactOutcome {
        committed,
        ..outcome
    })
}

fn missing(base: &Snapshot, id: u64) -> Error {
    let reason = format!("is not in version {} of {}", base.version(), base.uri());
    Error::invalid(format!("fragment {id}"), reason)
}
