//! Rebase: two commits deleted or updated different rows of one fragment. The later commit adds the rows that the earlier
//! one deleted to its own deletion files, instead of being executed again.

use std::collections::BTreeSet;

use pilum_format::{DeletionFileKind, Operation, Reason};
use roaring::RoaringBitmap;

use crate::commit::removed_rows::{RemovedRows, without};
use crate::error::Result;
use crate::read::snapshot::Snapshot;

/// Operations that change old fragments by deletion files only.
pub(crate) fn is_removal(operation: &Operation) -> bool {
    match operation {
        Operation::Delete { .. } => true,
        Operation::Update {
            rewrites_columns, ..
        } => !rewrites_columns,
        _ => false,
    }
}

/// Why the fragments `ids` of `after` cannot lose `removed` too: they have other data files than in `base`, or have
/// lost some of these rows already. `None` if they can.
pub(crate) async fn shared_rows(
    base: &Snapshot,
    removed: &RemovedRows,
    after: &Snapshot,
    ids: &[u64],
) -> Result<Option<Reason>> {
    let fragments = || Ok(Some(Reason::Fragments(ids.to_vec())));
    for id in ids {
        let before = base.manifest().fragment(*id);
        let (Some(before), Some(fragment), Some(rows)) =
            (before, after.manifest().fragment(*id), removed.of(*id))
        else {
            return fragments();
        };
        if before.files != fragment.files {
            return fragments();
        }
        let deleted = after.read_context().deleted(fragment).await?;
        let common = deleted.map_or_else(RoaringBitmap::new, |deleted| &*deleted & rows);
        if !common.is_empty() {
            return Ok(Some(Reason::rows(*id, &common)));
        }
    }
    Ok(None)
}

/// Rewrites `operation`, which removes the rows `removed` of the fragments `shared`, for `current`. Returns the deletion
/// files that it no longer names.
pub(crate) async fn rebase(
    current: &Snapshot,
    removed: &RemovedRows,
    shared: &BTreeSet<u64>,
    operation: &mut Operation,
    files: &mut Vec<String>,
) -> Result<Vec<String>> {
    let mut replaced = Vec::new();
    let (Operation::Delete {
        updated,
        removed_ids,
        ..
    }
    | Operation::Update {
        updated,
        removed_ids,
        ..
    }) = operation
    else {
        return Ok(replaced);
    };
    for id in shared {
        let (Some(fragment), Some(rows)) = (current.manifest().fragment(*id), removed.of(*id))
        else {
            continue;
        };
        for fragment in updated.extract_if(.., |fragment| fragment.id == *id) {
            replaced.extend(fragment.deletion.map(|it| it.path(*id)));
        }
        removed_ids.retain(|removed| removed != id);
        let kind = |_| DeletionFileKind::Bitmap;
        match without(current, fragment, rows, kind, files).await? {
            Some(fragment) => updated.push(fragment),
            None => removed_ids.push(*id),
        }
    }
    updated.sort_by_key(|fragment| fragment.id);
    Ok(replaced)
}
