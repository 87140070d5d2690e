//! Files that one execution of a statement wrote, for a retry on a newer version: a file whose rows are still valid is reused.
//!
//! A rewritten row is made of one row of the table, of one source row, or of one of each, and of nothing else. It is valid
//! in a newer version as long as the row that it was made of exists there, in the same files. A file is reused when all
//! its rows are valid; the rows of other files are written again, together with those of new fragments.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use pilum_format::{DataFile, FieldId, Fragment, Operation, RowIdSequence, continues};
use pilum_store::Store;
use roaring::RoaringBitmap;

use crate::commit::read_set::{ReadSet, added_fragments};
use crate::commit::removed_rows::RemovedRows;
use crate::commit::{Committed, remove_unused};
use crate::dml::event;
use crate::dml::removal::{Prepared, commit_removal};
use crate::dml::statement::StatementOptions;
use crate::error::{Error, Result};
use crate::read::batches::integers;
use crate::read::options::ROW_ADDRESS;
use crate::read::snapshot::Snapshot;
use crate::versions::durable_put::remove_files;
use crate::write::StagedFragments;

/// Where rewritten rows were before, in the order in which they are written.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    runs: VecDeque<(u64, RoaringBitmap)>,
}

impl Origins {
    /// Adds the next rows, by address.
    pub(crate) fn extend(&mut self, addresses: &[u64]) {
        for run in addresses.chunk_by(|a, b| a >> 32 == b >> 32 && a < b) {
            let offsets = run.iter().map(|address| (address & 0xFFFF_FFFF) as u32);
            let (Some(first), Some(address)) = (offsets.clone().next(), run.first()) else {
                continue;
            };
            match self.runs.back_mut() {
                Some((id, rows)) if *id == address >> 32 && rows.max() < Some(first) => {
                    rows.extend(offsets);
                }
                _ => self.runs.push_back((address >> 32, offsets.collect())),
            }
        }
    }

    /// Removes and returns the first `most` rows, or all if there are fewer.
    fn take(&mut self, most: u64) -> RemovedRows {
        let mut taken = RemovedRows::default();
        // A run is taken only if a row of it is needed: an empty run would make the file depend on a fragment of which it
        // holds no row.
        while taken.len() < most
            && let Some((id, mut rows)) = self.runs.pop_front()
        {
            let room = most - taken.len();
            let next = u32::try_from(room).ok().and_then(|room| rows.select(room));
            if let Some(next) = next {
                let mut rest = rows.clone();
                rest.remove_range(..next);
                rows.remove_range(next..);
                self.runs.push_front((id, rest));
            }
            taken.add(id, &rows);
            if next.is_some() {
                break;
            }
        }
        taken
    }
}

/// The rows that one write was made of.
#[derive(Debug, Default)]
pub(crate) struct MadeOf {
    /// Rows of the table, which come first.
    pub(crate) origins: Origins,
    /// The ids that those keep; none in tables without stable ids.
    pub(crate) row_ids: RowIdSequence,
    /// Rows of the source alone, which follow, ascending by number; `None` if they are not known.
    pub(crate) inserted: Option<RoaringBitmap>,
}

/// A written file.
#[derive(Debug)]
struct RewrittenFile {
    fragment: Fragment,
    /// What its rows are made of.
    origins: RemovedRows,
    inserted: Option<RoaringBitmap>,
}

/// The files of a statement, over all its executions.
#[derive(Debug, Default)]
pub(crate) struct RewrittenFiles {
    /// The version in which the rows of the files are valid.
    base: Option<Snapshot>,
    files: Vec<RewrittenFile>,
    /// All rows that the last execution rewrote, whether or not their files are still here.
    rewritten: RemovedRows,
    /// Fragments of which no row is left to rewrite.
    settled: BTreeSet<u64>,
    dictionaries: BTreeMap<FieldId, ArrayRef>,
    /// Every file that was written.
    paths: Vec<String>,
}

impl RewrittenFiles {
    /// Begins an execution on `base`: keeps the files that are valid in it, and removes the others, because the execution that
    /// wrote them committed nothing. Returns the fragments that the last execution did not read.
    pub(crate) async fn carry_to(&mut self, base: &Snapshot) -> Result<Vec<u64>> {
        let came = self.keep_valid(base).await?;
        self.remove_unused(base.store()).await;
        Ok(came)
    }

    /// Removes files that were written and will not be committed.
    pub(crate) async fn remove_unused(&mut self, store: &Store) {
        let files = self.files.iter().flat_map(|file| &file.fragment.files);
        let used: BTreeSet<String> = files.map(DataFile::full_path).collect();
        let unused = self.paths.extract_if(.., |path| !used.contains(path));
        let unused: Vec<String> = unused.collect();
        remove_files(store, &unused).await;
    }

    async fn keep_valid(&mut self, base: &Snapshot) -> Result<Vec<u64>> {
        let before = self.base.replace(base.clone());
        let rewritten = std::mem::take(&mut self.rewritten);
        let files = std::mem::take(&mut self.files);
        self.settled.clear();
        let Some(before) = before.filter(|before| !files.is_empty() && self.fits(before, base))
        else {
            return Ok(Vec::new());
        };
        // By fragment: what is deleted now.
        let mut deleted = BTreeMap::new();
        for fragment in base.fragments() {
            let old = before.manifest().fragment(fragment.id);
            let Some(old) = old.filter(|old| old.files == fragment.files) else {
                continue;
            };
            if old.deletion == fragment.deletion {
                // The rows that were rewritten still exist.
                deleted.insert(fragment.id, RoaringBitmap::new());
                continue;
            }
            let now = base.read_context().deleted(fragment).await?;
            let now = now.as_deref().cloned().unwrap_or_default();
            let then = match &old.deletion {
                None => None,
                // A cleanup may have removed the deletion file: without it, revived rows cannot be told, so reuse nothing.
                Some(_) => match before.read_context().deleted(old).await {
                    Ok(then) => then,
                    Err(error) => {
                        event::not_reused(base.store(), base.version(), &error);
                        return Ok(Vec::new());
                    }
                },
            };
            if then.is_some_and(|then| !then.is_subset(&now)) {
                // A restore revived rows that the last execution never evaluated.
                return Ok(Vec::new());
            }
            deleted.insert(fragment.id, now);
        }
        let is_there = |(id, rows): (u64, &RoaringBitmap)| {
            deleted
                .get(&id)
                .is_some_and(|deleted| deleted.is_disjoint(rows))
        };
        self.files = files;
        // Without the list of its source rows it is unknown whether a file is still valid: drop it.
        self.files
            .retain(|file| file.inserted.is_some() && file.origins.iter().all(is_there));
        let reused = self.rows();
        self.settled = deleted
            .iter()
            .filter(|(id, deleted)| {
                let left = rewritten.of(**id).map(|rows| rows - *deleted);
                let done = reused.of(**id).cloned().unwrap_or_default();
                left.is_none_or(|left| left.is_subset(&done))
            })
            .map(|(id, _)| *id)
            .collect();
        Ok(added_fragments(Some(&before), base))
    }

    /// Whether rows that were written for one version have the same meaning in the other.
    fn fits(&self, before: &Snapshot, base: &Snapshot) -> bool {
        before.schema() == base.schema()
            && before.manifest().has_stable_row_ids() == base.manifest().has_stable_row_ids()
            && continues(base.dictionaries(), &self.dictionaries)
    }

    /// Drops files with one of these source rows, because the table has their keys now.
    pub(crate) fn forget_inserted(&mut self, matched: &RoaringBitmap) {
        self.files.retain(|file| {
            let inserted = file.inserted.as_ref();
            inserted.is_some_and(|inserted| inserted.is_disjoint(matched))
        });
        // A merge scans the keys of all fragments in any case.
        self.settled.clear();
    }

    /// The fragments that an execution must read; `None`: all of them.
    pub(crate) fn unsettled(&self) -> Option<Vec<u64>> {
        let base = self.base.as_ref().filter(|_| !self.settled.is_empty())?;
        let fragments = base.fragments().iter().map(|fragment| fragment.id);
        let unsettled = fragments.filter(|id| !self.settled.contains(id));
        Some(unsettled.collect())
    }

    /// The rows of the table that the files have rewritten.
    pub(crate) fn rows(&self) -> RemovedRows {
        let mut rows = RemovedRows::default();
        for (id, of_fragment) in self.files.iter().flat_map(|file| file.origins.iter()) {
            rows.add(id, of_fragment);
        }
        rows
    }

    /// The source rows that the files have inserted.
    pub(crate) fn inserted(&self) -> RoaringBitmap {
        let inserted = self.files.iter().filter_map(|file| file.inserted.as_ref());
        inserted.fold(RoaringBitmap::new(), |all, rows| all | rows)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(crate) fn num_bytes(&self) -> u64 {
        let files = self.files.iter().flat_map(|file| &file.fragment.files);
        files.map(|file| file.byte_len).sum()
    }

    /// Adds the files of an execution. A row that is made of a row of the table keeps its id, and the commit keeps its created
    /// version. The rows behind them get new ids.
    pub(crate) fn add(&mut self, written: StagedFragments, made_of: MadeOf) -> Result<()> {
        self.paths.extend(written.paths());
        self.dictionaries = written.dictionaries;
        let stable = self.base.as_ref();
        let stable = stable.is_some_and(|base| base.manifest().has_stable_row_ids());
        let (mut origins, mut inserted) = (made_of.origins, made_of.inserted);
        let (row_ids, mut given) = (made_of.row_ids, 0);
        for mut fragment in written.fragments {
            let rows = origins.take(fragment.physical_rows);
            if stable {
                let ids = row_ids.slice(given, rows.len());
                given += ids.len();
                fragment.row_ids = Some(ids.joined().encode());
            }
            let behind = fragment.physical_rows - rows.len();
            let new = match &mut inserted {
                _ if behind == 0 => Some(RoaringBitmap::new()),
                Some(left) => {
                    let mut first = left.clone();
                    if let Some(next) = u32::try_from(behind).ok().and_then(|it| left.select(it)) {
                        first.remove_range(next..);
                        left.remove_range(..next);
                    }
                    Some(first)
                }
                None => None,
            };
            self.files.push(RewrittenFile {
                fragment,
                origins: rows,
                inserted: new,
            });
        }
        let unwritten = origins.take(u64::MAX).len();
        if unwritten > 0 || given < row_ids.len() {
            let ids = row_ids.len() - given;
            return Err(Error::bug(format!(
                "a rewrite left out {unwritten} rows and {ids} row ids that it read"
            )));
        }
        self.rewritten = self.rows();
        Ok(())
    }

    /// Commits the rows as an update that takes `removed` out of the table, among them all that the files are made of.
    pub(crate) async fn commit(
        &self,
        base: &Snapshot,
        removed: &RemovedRows,
        read_set: Option<&ReadSet<'_>>,
        options: &StatementOptions,
    ) -> Result<Committed> {
        let added = self.files.iter().map(|file| file.fragment.clone());
        let operation = |updated, removed_ids| Operation::Update {
            removed_ids,
            updated,
            added: added.collect(),
            fields_modified: Vec::new(),
            fields_preserving_index: Vec::new(),
            rewrites_columns: false,
        };
        let prepared = Prepared {
            read_set,
            dictionaries: self.dictionaries.clone(),
        };
        commit_removal(removed, base, operation, prepared, options).await
    }

    /// The end of the statement: files that its version does not name are removed.
    pub(crate) async fn finish(self, store: &Store, result: Result<&Committed, &Error>) {
        remove_unused(store, self.paths, result).await;
    }
}

/// The rows of a batch whose addresses are not in `rows`.
pub(crate) fn others(rows: &RemovedRows, batch: RecordBatch) -> Result<RecordBatch> {
    if rows.is_empty() {
        return Ok(batch);
    }
    let addresses = integers(&batch, ROW_ADDRESS)?.iter();
    let mask: BooleanArray = addresses.map(|it| Some(!rows.contains(*it))).collect();
    filter_record_batch(&batch, &mask)
        .map_err(|error| Error::bug(format!("leaving out rewritten rows: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rewritten files must hold every row that the update read. Fewer rows are a fault of pilum, not of the user's files.
    #[test]
    fn a_rewrite_that_leaves_out_rows_is_a_fault_of_pilum() {
        let mut made_of = MadeOf::default();
        made_of.origins.extend(&[0, 1, 1 << 32]);
        let nothing = StagedFragments {
            fragments: Vec::new(),
            schema: std::sync::Arc::default(),
            dictionaries: BTreeMap::new(),
            read_version: 1,
            num_rows: 0,
            num_bytes: 0,
        };
        let error = RewrittenFiles::default().add(nothing, made_of).unwrap_err();
        assert_eq!(error.kind(), "bug");
        let told = error.to_string();
        assert!(
            told.contains("left out 3 rows") && told.contains("report"),
            "{told}"
        );
    }

    proptest! {
        #[test]
        fn rows_are_taken_in_the_order_in_which_they_were_added(
            addresses in proptest::collection::vec((0_u64..3, 0_u64..40), 0..120),
            cuts in proptest::collection::vec(1_u64..50, 1..4),
            batches in proptest::collection::vec(1_usize..30, 1..4),
        ) {
            let mut seen = BTreeSet::new();
            let all: Vec<u64> = addresses.into_iter().map(|(id, row)| id << 32 | row)
                .filter(|address| seen.insert(*address)).collect();
            let mut origins = Origins::default();
            let mut left = all.as_slice();
            for len in batches.iter().cycle() {
                if left.is_empty() { break; }
                let (batch, rest) = left.split_at((*len).min(left.len()));
                origins.extend(batch);
                left = rest;
            }
            let mut left = all.as_slice();
            for cut in cuts.iter().cycle() {
                let taken = origins.take(*cut);
                let len = usize::try_from(*cut).unwrap().min(left.len());
                let (expected, rest) = left.split_at(len);
                prop_assert_eq!(taken.len(), len as u64);
                prop_assert!(expected.iter().all(|address| taken.contains(*address)));
                prop_assert!(taken.iter().all(|(_, rows)| !rows.is_empty()));
                left = rest;
                if len == 0 { break; }
            }
        }
    }
}
