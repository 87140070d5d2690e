//! Compaction: small and much-deleted fragments rewritten as few good ones, their rows unchanged.
//!
//! Fragments are ordered by id and new ones get new ids: rewritten rows keep their order and stand behind the
//! rows of fragments that stay.
//!
//! Rows stream from a scan into the file writer, so memory is bounded by the scan's tasks and one page of the
//! writer, whatever the size of the table. Two commits: one takes fragment ids, one swaps the fragments.

pub(crate) mod distributed;
mod plan;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use arrow_array::ArrayRef;
use futures::stream::StreamExt;
use pilum_expr::Projection;
use pilum_format::{
    Compat, Field, FieldId, Fragment, Operation, RewriteGroup, RowIdSequence, RowVersions, Schema,
    Transaction, continues,
};
use plan::{Target, plan};
use roaring::RoaringBitmap;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::commit::conflict::covered_fragments;
use crate::commit::precondition::Precondition;
use crate::commit::{CommitOptions, Committed, Work, commit_work, remove_unused};
use crate::dataset::Dataset;
use crate::dml::outcome::StatementOutcome;
use crate::dml::statement::{REWRITE_SHARE, StatementOptions};
use crate::error::{Error, Result};
use crate::failpoints::pass;
use crate::maintenance::progress::Progress;
use crate::read::options::ScanOptions;
use crate::read::snapshot::Snapshot;
use crate::write::incoming::Origin;
use crate::write::{WriteOptions, write_files_of, write_stream};

/// How to compact.
#[derive(Clone)]
#[non_exhaustive]
pub struct CompactOptions {
    /// Rows of a good fragment. Smaller neighbours are joined.
    pub target_rows: u64,
    /// Bytes of a good fragment, where rows alone do not tell.
    pub target_bytes: Option<u64>,
    /// A fragment with a larger share of deleted rows is rewritten.
    pub max_deleted_fraction: f64,
    /// How to read and commit.
    pub statement: StatementOptions,
    /// Layout of the new data files.
    pub write: WriteOptions,
    /// Called with the rows that are done and the rows of all.
    pub progress: Option<Progress>,
}

impl Default for CompactOptions {
    fn default() -> Self {
        Self {
            target_rows: 1 << 20,
            target_bytes: None,
            max_deleted_fraction: 0.1,
            statement: StatementOptions::default(),
            write: WriteOptions::default(),
            progress: None,
        }
    }
}

impl CompactOptions {
    fn check(&self) -> Result<()> {
        let is_share = (0.0..=1.0).contains(&self.max_deleted_fraction);
        if self.target_rows == 0 || self.target_bytes == Some(0) || !is_share {
            return Err(Error::invalid(
                "target_rows, target_bytes, max_deleted_fraction",
                "must be at least 1, at least 1, and between 0 and 1",
            ));
        }
        Ok(())
    }
}

impl fmt::Debug for CompactOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactOptions")
            .field("target_rows", &self.target_rows)
            .field("target_bytes", &self.target_bytes)
            .field("max_deleted_fraction", &self.max_deleted_fraction)
            .field("statement", &self.statement)
            .field("write", &self.write)
            .finish_non_exhaustive()
    }
}

/// What a compaction did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CompactOutcome {
    /// The compacted version: the newest one as it was, with 0 attempts, when nothing was to be done.
    pub committed: Committed,
    /// Fragments removed from the table.
    pub num_removed_fragments: u64,
    /// Fragments added to the table.
    pub num_added_fragments: u64,
    /// Rows rewritten.
    pub num_rows: u64,
    /// Bytes written.
    pub num_bytes: u64,
}

impl StatementOutcome for CompactOutcome {
    fn without_rows(committed: Committed) -> Self {
        Self {
            committed,
            num_removed_fragments: 0,
            num_added_fragments: 0,
            num_rows: 0,
            num_bytes: 0,
        }
    }

    fn committed(&self) -> &Committed {
        &self.committed
    }
}

impl Dataset {
    /// Rewrites small and much-deleted fragments of the newest version. Rows, their stable ids and versions stay.
    /// Rewritten rows keep their order among themselves and stand behind those of fragments that stay. Indices over
    /// rewritten fragments are dropped.
    ///
    /// # Errors
    /// `Conflict` when others kept changing the same fragments; see [`commit`](crate::commit()). Unless the error is
    /// `CommitUnknown`, no row was touched.
    pub async fn compact(
        &self,
        options: &CompactOptions,
        handle: &Handle,
    ) -> Result<CompactOutcome> {
        options.check()?;
        let written = Mutex::new(WrittenGroups::default());
        let kept = &written;
        let once = |base: Snapshot| async move {
            let mut written = kept.lock().await;
            compact(&base, options, handle, &mut written).await
        };
        let result = options.statement.execute(self, "Rewrite", once).await;
        let committed = result.as_ref().map(|outcome| &outcome.committed);
        remove_unused(self.store(), written.into_inner().paths, committed).await;
        result
    }
}

/// The fragments that earlier executions wrote, for a retry: a group of unchanged fragments is not rewritten again.
#[derive(Default)]
struct WrittenGroups {
    schema: Option<Arc<Schema>>,
    dictionaries: BTreeMap<i32, ArrayRef>,
    groups: Vec<(RewriteGroup, u64)>,
    paths: Vec<String>,
    progress: RowCount,
}

/// The rows that all executions together have rewritten, and that are left.
#[derive(Default)]
struct RowCount {
    done: u64,
    left: u64,
}

impl RowCount {
    fn tell(&self, options: &CompactOptions) {
        if let Some(progress) = &options.progress {
            progress(self.done, self.done + self.left);
        }
    }
}

impl WrittenGroups {
    /// Drops groups that were written for another schema, or with dictionary keys that mean other values now.
    fn prepare(&mut self, base: &Snapshot) {
        let is_same = self.schema.as_ref() == Some(base.schema());
        if !is_same || !continues(base.dictionaries(), &self.dictionaries) {
            self.schema = Some(Arc::clone(base.schema()));
            self.groups.clear();
        }
        self.dictionaries.clone_from(base.dictionaries());
    }

    /// The fragments written for these, and their bytes.
    fn of(&self, old: &[Fragment]) -> Option<(Vec<Fragment>, u64)> {
        let written = self.groups.iter().find(|(group, _)| group.old == old);
        written.map(|(group, num_bytes)| (group.new.clone(), *num_bytes))
    }
}

async fn compact(
    base: &Snapshot,
    options: &CompactOptions,
    handle: &Handle,
    written: &mut WrittenGroups,
) -> Result<CompactOutcome> {
    written.prepare(base);
    let mut outcome = CompactOutcome::without_rows(Committed::nothing(base.clone()));
    let bins = bins(base, options)?;
    if bins.is_empty() {
        return Ok(outcome);
    }
    let unwritten = bins.iter().filter(|old| written.of(old).is_none());
    written.progress.left = unwritten.map(|old| live_rows(old)).sum();
    let mut groups = Vec::with_capacity(bins.len());
    for old in bins {
        let (new, num_bytes) = match written.of(&old) {
            Some(group) => group,
            None => {
                let (new, num_bytes) = rewrite(base, &old, options, handle, written).await?;
                let group = RewriteGroup {
                    old: old.clone(),
                    new: new.clone(),
                };
                written.groups.push((group, num_bytes));
                (new, num_bytes)
            }
        };
        outcome.num_removed_fragments += old.len() as u64;
        outcome.num_added_fragments += new.len() as u64;
        outcome.num_rows += new
            .iter()
            .map(|fragment| fragment.physical_rows)
            .sum::<u64>();
        outcome.num_bytes += num_bytes;
        groups.push(RewriteGroup { old, new });
    }
    let mut commit = options.statement.commit();
    // The commit id is that of the version with the new fragments: the one that reserves their ids does nothing yet.
    let reserve = CommitOptions {
        commit_id: None,
        ..commit.clone()
    };
    let reserved = number(base, &mut groups, &reserve).await?;
    if let (Some(Precondition::Version(expected)), Some(reserved)) = (&mut commit.expect, reserved)
    {
        // The version that reserved the ids is our own.
        *expected = reserved;
    }
    pass(base.store(), "compact.before_rewrite")?;
    let operation = Operation::Rewrite {
        groups,
        rewritten_indices: Vec::new(),
    };
    let work = Work::of(options.statement.transaction(base.version(), operation));
    let committed = commit_work(base.store(), Some(base), work, &commit).await?;
    if committed.was_committed_before {
        return Ok(CompactOutcome::without_rows(committed));
    }
    Ok(CompactOutcome {
        committed,
        ..outcome
    })
}

/// Rows to rewrite; where a count is unknown, the physical rows.
fn live_rows(fragments: &[Fragment]) -> u64 {
    let fragments = fragments.iter();
    let rows = fragments.map(|it| it.num_rows().unwrap_or(it.physical_rows));
    rows.sum()
}

fn bins(base: &Snapshot, options: &CompactOptions) -> Result<Vec<Vec<Fragment>>> {
    let target = Target {
        rows: options.target_rows,
        bytes: options.target_bytes,
        max_deleted_fraction: options.max_deleted_fraction,
    };
    let indices = base.manifest().indices()?;
    let covered: Vec<Option<RoaringBitmap>> = indices.iter().map(covered_fragments).collect();
    let covering = |fragment: &Fragment| -> Vec<bool> {
        let id = u32::try_from(fragment.id).unwrap_or(u32::MAX);
        let covers = |it: &Option<RoaringBitmap>| it.as_ref().is_none_or(|it| it.contains(id));
        covered.iter().map(covers).collect()
    };
    // Only fragments that lack the same columns are joined.
    let lacking = |fragment: &Fragment| lacking(base, std::slice::from_ref(fragment), options);
    Ok(plan(base.fragments(), target, |fragment| {
        (covering(fragment), lacking(fragment))
    }))
}

/// The columns that no file of the fragments holds any part of, as other writers leave them where all values are null. Lance
/// v1 cannot hold these nulls, so the rows are written without such columns again. With the extension they are written.
fn lacking(base: &Snapshot, fragments: &[Fragment], options: &CompactOptions) -> Vec<FieldId> {
    let compat = options.write.compat;
    if compat.unwrap_or_else(|| base.manifest().compat()) == Compat::Lossless {
        return Vec::new();
    }
    let files = || fragments.iter().flat_map(|fragment| &fragment.files);
    let is_held = |field: &Field| {
        let mut parts = field.walk();
        parts.any(|part| files().any(|file| file.field_ids.contains(&part.id)))
    };
    let columns = base.schema().fields.iter();
    columns
        .filter(|field| !is_held(field))
        .map(|field| field.id)
        .collect()
}

/// Writes the live rows of `old` to new files. The fragments have no id yet.
async fn rewrite(
    base: &Snapshot,
    old: &[Fragment],
    options: &CompactOptions,
    handle: &Handle,
    written: &mut WrittenGroups,
) -> Result<(Vec<Fragment>, u64)> {
    let layout = options.statement.layout(WriteOptions {
        max_rows_per_file: options.target_rows,
        max_bytes_per_file: options
            .target_bytes
            .unwrap_or(options.write.max_bytes_per_file),
        ..options.write.clone()
    });
    let lacking = lacking(base, old, options);
    let is_kept = |field: &&Field| !lacking.contains(&field.id);
    let kept: Vec<&Field> = base.schema().fields.iter().filter(is_kept).collect();
    let scan = base.scan(ScanOptions {
        columns: match lacking.is_empty() {
            true => Projection::All,
            false => Projection::Names(kept.iter().map(|field| field.name.clone()).collect()),
        },
        fragments: Some(old.iter().map(|fragment| fragment.id).collect()),
        ..options.statement.scan_with(REWRITE_SHARE, None)
    })?;
    let progress = &mut written.progress;
    let expected = live_rows(old);
    let left_after = progress.left.saturating_sub(expected);
    let mut rows = 0;
    let batches = scan.batches(handle).inspect(|batch| {
        if let Ok(batch) = batch {
            let read = batch.num_rows() as u64;
            rows += read;
            progress.done += read;
            progress.left = left_after + expected.saturating_sub(rows);
            progress.tell(options);
        }
    });
    let files = if lacking.is_empty() {
        let columns = (scan.schema().as_ref(), Origin::Table);
        write_stream(base.store(), Some(base), columns, batches, &layout).await?
    } else {
        let schema = Arc::new(Schema {
            fields: kept.into_iter().cloned().collect(),
            ..Schema::default()
        });
        let columns = (&schema, base.dictionaries());
        let layout = WriteOptions {
            compat: Some(Compat::Lance),
            ..layout
        };
        let lens = VecDeque::new();
        write_files_of(base.store(), columns, scan.schema(), batches, lens, &layout).await?
    };
    if rows < expected {
        // The manifest of a very old writer may not say how many rows are deleted.
        progress.left = left_after;
        progress.tell(options);
    }
    written.paths.extend(files.paths());
    let mut new = files.fragments;
    if base.manifest().has_stable_row_ids() {
        carry_over(base, old, &mut new).await?;
    }
    Ok((new, files.num_bytes))
}

/// Gives rewritten rows their row ids and row versions.
async fn carry_over(base: &Snapshot, old: &[Fragment], new: &mut [Fragment]) -> Result<()> {
    let mut ids = RowIdSequence::default();
    let (mut updated, mut created) = (RowVersions::default(), RowVersions::default());
    for fragment in old {
        let deleted = base.read_context().deleted(fragment).await?;
        let deleted = deleted.as_deref().cloned().unwrap_or_default();
        let of_fragment = fragment.row_ids()?.ok_or_else(|| {
            Error::corrupt(format!("fragment {} has no row ids", fragment.id)).at(base.uri())
        })?;
        ids.extend(&of_fragment.without(&deleted));
        // Rows without recorded versions count as rows of the first version.
        let known = |versions: Option<RowVersions>| {
            versions
                .unwrap_or_else(|| RowVersions::uniform(fragment.physical_rows, 1))
                .without(&deleted)
        };
        updated.extend(&known(fragment.last_updated_at()?));
        created.extend(&known(fragment.created_at()?));
    }
    let mut first = 0;
    for fragment in new {
        let rows = fragment.physical_rows;
        fragment.row_ids = Some(ids.slice(first, rows).encode());
        fragment.last_updated_at = Some(updated.slice(first, rows).encode());
        fragment.created_at = Some(created.slice(first, rows).encode());
        first += rows;
    }
    if first != ids.len() {
        let reason = format!("{first} rows were rewritten, and {} have an id", ids.len());
        return Err(Error::bug(reason));
    }
    Ok(())
}

/// Reserves fragment ids and gives them to the new fragments. Returns the version that reserved them, if any was needed.
async fn number(
    base: &Snapshot,
    groups: &mut [RewriteGroup],
    commit: &CommitOptions,
) -> Result<Option<u64>> {
    let count: usize = groups.iter().map(|group| group.new.len()).sum();
    if count == 0 {
        return Ok(None);
    }
    let num_fragments = u32::try_from(count)
        .map_err(|_| Error::limit("a compaction", format!("{count} fragments"), "2^32"))?;
    let operation = Operation::ReserveFragments { num_fragments };
    let work = Work::of(Transaction::new(base.version(), operation));
    let reserved = commit_work(base.store(), Some(base), work, commit).await?;
    let last = reserved
        .snapshot
        .manifest()
        .max_fragment_id
        .map_or(0, u64::from);
    let first = (last + 1).saturating_sub(u64::from(num_fragments));
    let fragments = groups.iter_mut().flat_map(|group| &mut group.new);
    for (fragment, id) in fragments.zip(first..) {
        fragment.id = id;
    }
    Ok(Some(reserved.snapshot.version()))
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator};
    use futures::executor::block_on;
    use pilum_store::{StorageOptions, Store};

    use super::*;

    /// A scan that gives fewer rows than the fragments have ids would let ids slide to other rows.
    #[test]
    fn a_compaction_that_loses_rows_is_a_fault_of_pilum() {
        let store = Store::open("memory://tests/compact-bug", &StorageOptions::new()).unwrap();
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
        let schema = batch.schema();
        let reader = RecordBatchIterator::new([Ok(batch)], schema);
        let options = WriteOptions {
            stable_row_ids: true,
            ..WriteOptions::default()
        };
        let base = block_on(crate::write::write(&store, reader, &options));
        let base = base.unwrap().snapshot;
        let mut new = [Fragment {
            physical_rows: 2,
            ..Fragment::default()
        }];
        let error = block_on(carry_over(&base, base.fragments(), &mut new)).unwrap_err();
        assert_eq!(error.kind(), "bug");
        let told = error.to_string();
        assert!(
            told.contains("2 rows were rewritten, and 3 have an id") && told.contains("report"),
            "{told}"
        );
    }
}
