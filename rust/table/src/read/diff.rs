//! The difference of two versions: rows added, removed and updated, and columns.
//!
//! With stable row ids a row is its id, and it was updated if the two versions name different versions that changed it last:
//! exact, whatever happened between them, compaction and restores included. Without stable row ids a row is its address: a
//! row that was updated or moved by a compaction counts as removed and added, and nothing is said about updates.

mod columns;
mod id_runs;

use std::collections::{BTreeMap, BTreeSet};

use id_runs::{MAX_RUNS, Side, VersionRun, Window};
use pilum_format::{Fragment, RowVersions};

use crate::error::Result;
use crate::read::row_ids::{live_runs, row_ids_of};
use crate::read::snapshot::{Snapshot, live_rows};
use crate::versions::created_versions::FIRST_VERSION;

/// From the older of two versions to the newer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diff {
    /// The older version.
    pub from_version: u64,
    /// The newer version.
    pub to_version: u64,
    /// Rows that only the newer has.
    pub num_added: u64,
    /// Rows that only the older has.
    pub num_removed: u64,
    /// Rows of both that were given new values; none without stable row ids, where they count as removed and added.
    pub num_updated: Option<u64>,
    /// Columns that only the newer has, by path.
    pub added_columns: Vec<String>,
    /// Columns that only the older has, by path.
    pub removed_columns: Vec<String>,
    /// Columns of both with another name, type or nullability, by their new path.
    pub altered_columns: Vec<String>,
}

impl Snapshot {
    /// The difference between this version and `other`, from the older to the newer. No data file is read; the cost is that
    /// of the row ids and deletion files of the fragments in which they differ.
    ///
    /// Row ids are compared as runs, at most 2^20 of them (about 64 MiB) at one time. Where the versions have more, the
    /// fragments are read again for each such part of the ids.
    ///
    /// # Errors
    /// When a deletion file cannot be read, or row ids are damaged.
    pub async fn diff(&self, other: &Self) -> Result<Diff> {
        let (old, new) = if self.version() <= other.version() {
            (self, other)
        } else {
            (other, self)
        };
        let mut diff = Diff {
            from_version: old.version(),
            to_version: new.version(),
            ..Diff::default()
        };
        diff.compare_columns(old.schema(), new.schema());
        let stable = |it: &Self| it.manifest().has_stable_row_ids();
        if stable(old) && stable(new) {
            diff.compare_ids(old, new).await?;
        } else {
            diff.compare_addresses(old, new).await?;
        }
        Ok(diff)
    }

    /// Adds the live rows of the fragments that `other` does not have in the same state.
    async fn collect_runs(&self, other: &Self, side: Side, window: &mut Window) -> Result<()> {
        for fragment in self.fragments() {
            if other.manifest().fragment(fragment.id) == Some(fragment) {
                continue;
            }
            let deleted = self.read_context().deleted(fragment).await?;
            let added = add_runs(fragment, deleted.as_deref(), side, window);
            added.map_err(|error| error.at(self.uri()))?;
        }
        Ok(())
    }
}

/// Adds the live rows of a fragment with the versions that changed them last.
fn add_runs(
    fragment: &Fragment,
    deleted: Option<&roaring::RoaringBitmap>,
    side: Side,
    window: &mut Window,
) -> Result<()> {
    let ids = row_ids_of(fragment)?;
    let versions = fragment.last_updated_at()?;
    let versions = versions.unwrap_or_else(|| RowVersions::uniform(ids.len(), FIRST_VERSION));
    let mut versions = versions.runs();
    // Rows before `end` that are not before an earlier end were changed last by `version`.
    let (mut end, mut version) = (0_u64, FIRST_VERSION);
    let mut first_row = 0;
    for segment in ids.segments() {
        for run in live_runs(segment, first_row, deleted) {
            let (mut row, mut id) = (run.first_row, run.first_id);
            let run_end = run.first_row + run.num_rows;
            while row < run_end {
                while end <= row {
                    let Some((rows, next)) = versions.next() else {
                        (end, version) = (u64::MAX, FIRST_VERSION);
                        break;
                    };
                    (end, version) = (end.saturating_add(rows), next);
                }
                let num_rows = end.min(run_end) - row;
                let last = id + (num_rows - 1);
                let first = id;
                window.push(
                    side,
                    VersionRun {
                        first,
                        last,
                        version,
                    },
                )?;
                (row, id) = (row + num_rows, last.saturating_add(1));
            }
        }
        first_row += segment.len();
    }
    Ok(())
}

impl Diff {
    async fn compare_ids(&mut self, old: &Snapshot, new: &Snapshot) -> Result<()> {
        let mut from = Some(0);
        let mut num_updated = 0;
        while let Some(first) = from {
            let mut window = Window::starting_at(first, MAX_RUNS);
            old.collect_runs(new, Side::Old, &mut window).await?;
            new.collect_runs(old, Side::New, &mut window).await?;
            let compared = window.compare().map_err(|error| error.at(new.uri()))?;
            self.num_added += compared.num_added;
            self.num_removed += compared.num_removed;
            num_updated += compared.num_updated;
            from = compared.next;
        }
        self.num_updated = Some(num_updated);
        Ok(())
    }

    async fn compare_addresses(&mut self, old: &Snapshot, new: &Snapshot) -> Result<()> {
        let newer: BTreeMap<u64, &Fragment> =
            new.fragments().iter().map(|it| (it.id, it)).collect();
        let mut common = BTreeSet::new();
        for fragment in old.fragments() {
            match newer.get(&fragment.id) {
                Some(after) if after.physical_rows == fragment.physical_rows => {
                    common.insert(fragment.id);
                    if after.deletion == fragment.deletion {
                        continue;
                    }
                    let before = old.read_context().deleted(fragment).await?;
                    let before = before.unwrap_or_default();
                    let after = new.read_context().deleted(after).await?.unwrap_or_default();
                    self.num_removed += after.difference_len(&before);
                    self.num_added += before.difference_len(&after);
                }
                _ => self.num_removed += live_rows(fragment),
            }
        }
        let added = new.fragments().iter().filter(|it| !common.contains(&it.id));
        self.num_added += added.map(live_rows).sum::<u64>();
        Ok(())
    }
}
