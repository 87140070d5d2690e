//! Backfill: writes new files beside the old ones, for statements that add or convert columns, and reuses them in a retry.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use futures::stream::BoxStream;
use pilum_format::{DataFile, FieldId, Fragment, Operation, REPLACED_FIELD, Schema};
use pilum_store::Store;

use super::ColumnsOutcome;
use super::fill::{Slots, spread};
use super::plain_files::plain_files;
use crate::commit::{Work, commit_work, remove_unused};
use crate::dml::outcome::StatementOutcome;
use crate::dml::statement::StatementOptions;
use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;
use crate::write::{StagedFragments, WriteOptions, write_files_of};

/// The values of new columns for all live rows of some fragments, in the order of a scan.
pub(super) struct Values<'a> {
    pub(super) schema: SchemaRef,
    pub(super) batches: BoxStream<'a, Result<RecordBatch>>,
}

/// Columns to be stored beside those of a version.
pub(super) struct NewColumns {
    /// With the structs above them and the ids that they get.
    pub(super) stored: Arc<Schema>,
    /// The schema of the table with them.
    pub(super) schema: Schema,
    /// No column became non-nullable.
    pub(super) preserves_nullability: bool,
}

/// Files that an execution wrote, for the next one: rows of a fragment do not change, so its file fits as long as the columns
/// get the same ids.
#[derive(Default)]
pub(super) struct WrittenFiles {
    stored: Option<(Arc<Schema>, Arc<Schema>)>,
    /// By the id of its fragment: the files that were there, and the new one.
    files: BTreeMap<u64, (Fragment, DataFile)>,
    dictionaries: BTreeMap<FieldId, ArrayRef>,
    num_bytes: u64,
    paths: Vec<String>,
}

impl WrittenFiles {
    /// Forgets what was written for another schema.
    pub(super) fn prepare(&mut self, base: &Snapshot, columns: &NewColumns) {
        let wanted = (Arc::clone(base.schema()), Arc::clone(&columns.stored));
        if self.stored.as_ref() != Some(&wanted) {
            *self = Self {
                stored: Some(wanted),
                paths: std::mem::take(&mut self.paths),
                ..Self::default()
            };
        }
    }

    fn of(&self, fragment: &Fragment) -> Option<&DataFile> {
        let (before, file) = self.files.get(&fragment.id)?;
        // The file holds a filler for deleted rows: it is wrong once a restore revives them.
        let same = before.files == fragment.files && before.deletion == fragment.deletion;
        same.then_some(file)
    }

    /// As [`of`](Self::of), after the missing files were written.
    fn written(&self, fragment: &Fragment, uri: &str) -> Result<&DataFile> {
        let id = fragment.id;
        self.of(fragment).ok_or_else(|| {
            Error::bug(format!(
                "the backfill of {uri} wrote no file for fragment {id}"
            ))
        })
    }

    /// The fragments of a version for which there is no file yet.
    pub(super) fn missing(&self, base: &Snapshot) -> Vec<Fragment> {
        let fragments = base.fragments().iter();
        let missing = fragments.filter(|fragment| self.of(fragment).is_none());
        missing.cloned().collect()
    }

    /// The files of these fragments, for another process to commit.
    pub(super) fn into_staged(
        self,
        fragments: &[Fragment],
        columns: &NewColumns,
        base: &Snapshot,
    ) -> Result<StagedFragments> {
        let mut staged = Vec::with_capacity(fragments.len());
        for fragment in fragments {
            staged.push(Fragment {
                files: vec![self.written(fragment, base.uri())?.clone()],
                physical_rows: fragment.physical_rows,
                ..Fragment::default()
            });
        }
        Ok(StagedFragments {
            num_rows: staged.iter().map(|fragment| fragment.physical_rows).sum(),
            num_bytes: self.num_bytes,
            fragments: staged,
            schema: Arc::clone(&columns.stored),
            dictionaries: self.dictionaries,
            read_version: base.version(),
        })
    }

    /// Takes over files that another process wrote for these fragments.
    ///
    /// # Errors
    /// `InvalidInput` for files of other columns or rows, and for dictionaries, which several processes cannot share.
    pub(super) fn take(
        &mut self,
        staged: &StagedFragments,
        fragments: &[Fragment],
        columns: &NewColumns,
    ) -> Result<()> {
        let refused = |reason: &str| Err(Error::invalid("the files of the new columns", reason));
        if staged.schema != columns.stored {
            return refused(
                "were written for other columns than this version gets; write them again",
            );
        }
        if !staged.dictionaries.is_empty() {
            return refused("have dictionaries; add the column without one");
        }
        let lens = staged.fragments.iter().map(|it| it.physical_rows);
        if !lens.eq(fragments.iter().map(|it| it.physical_rows)) {
            return refused("have other rows than their fragments; write them again");
        }
        self.num_bytes += staged.num_bytes;
        for (fragment, new) in fragments.iter().zip(&staged.fragments) {
            if let [file] = new.files.as_slice() {
                self.files
                    .insert(fragment.id, (fragment.clone(), file.clone()));
            }
        }
        Ok(())
    }

    /// The end of the statement: files that its version does not name are removed.
    pub(super) async fn remove_unused(self, store: &Store, result: &Result<ColumnsOutcome>) {
        let committed = result.as_ref().map(|outcome| &outcome.committed);
        remove_unused(store, self.paths, committed).await;
    }
}

/// One execution: writes the files that are missing, and commits. `values` returns the rows of the fragments with the given
/// ids.
pub(super) async fn backfill<'a>(
    base: &'a Snapshot,
    columns: NewColumns,
    values: impl FnOnce(Vec<u64>) -> Result<Values<'a>>,
    written: &mut WrittenFiles,
    options: &StatementOptions,
) -> Result<ColumnsOutcome> {
    crate::commit::apply::check_writable(base.manifest()).map_err(|error| error.at(base.uri()))?;
    written.prepare(base, &columns);
    let missing = written.missing(base);
    let values = values(missing.iter().map(|fragment| fragment.id).collect())?;
    let files = WriteOptions {
        compat: Some(options.compat.unwrap_or_else(|| base.manifest().compat())),
        ..WriteOptions::default()
    };
    write(base, &columns, &missing, values, written, &files).await?;
    let live: Vec<FieldId> = columns.schema.ids();
    let mut fragments = base.fragments().to_vec();
    for fragment in &mut fragments {
        let file = written.written(fragment, base.uri())?.clone();
        take_over_structs(&mut fragment.files, &file);
        fragment.files.push(file);
        fragment
            .files
            .retain(|file| file.has_any(|id| live.contains(&id)));
    }
    let operation = Operation::Merge {
        fragments,
        fields: columns.schema.to_protos()?,
        schema_metadata: base.manifest().schema_metadata.clone(),
        preserves_nullability: columns.preserves_nullability,
    };
    let work = Work {
        dictionaries: written.dictionaries.clone(),
        plain_files: plain_files(base, &columns.schema).await?,
        ..Work::of(options.transaction(base.version(), operation))
    };
    let committed = commit_work(base.store(), Some(base), work, &options.commit()).await?;
    if committed.was_committed_before {
        return Ok(ColumnsOutcome::without_rows(committed));
    }
    Ok(ColumnsOutcome {
        committed,
        num_rows: base.num_rows(),
        num_bytes: written.num_bytes,
    })
}

/// Writes the columns of some fragments, whose live rows `values` yields.
pub(super) async fn write(
    base: &Snapshot,
    columns: &NewColumns,
    fragments: &[Fragment],
    values: Values<'_>,
    written: &mut WrittenFiles,
    files: &WriteOptions,
) -> Result<()> {
    let slots = Slots::of(base, fragments).await?;
    let lens: VecDeque<u64> = fragments.iter().map(|it| it.physical_rows).collect();
    let new = write_files_of(
        base.store(),
        (&columns.stored, &written.dictionaries),
        &values.schema,
        spread(values.batches, slots),
        lens,
        files,
    )
    .await?;
    written.paths.extend(new.paths());
    written.dictionaries = new.dictionaries;
    written.num_bytes += new.num_bytes;
    for (fragment, new) in fragments.iter().zip(new.fragments) {
        let file = new.files.into_iter().next();
        let file = file.filter(|_| new.physical_rows == fragment.physical_rows);
        let file = file.ok_or_else(|| {
            Error::bug(format!(
                "the backfill of {} wrote {} rows for the {} of fragment {}",
                base.uri(),
                new.physical_rows,
                fragment.physical_rows,
                fragment.id
            ))
        })?;
        written.files.insert(fragment.id, (fragment.clone(), file));
    }
    Ok(())
}

/// Replaces, in the old files, the ids of structs that have members in the new file: they are read there. The first id of a
/// file stays, because the positions of all others in its page table are counted from it.
fn take_over_structs(files: &mut [DataFile], new: &DataFile) {
    for file in files {
        for id in file.field_ids.iter_mut().skip(1) {
            if *id >= 0 && new.field_ids.contains(id) {
                *id = REPLACED_FIELD;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_without_its_file_is_a_fault_of_pilum_and_no_damage_of_the_table() {
        let fragment = Fragment {
            id: 7,
            ..Fragment::default()
        };
        let files = WrittenFiles::default();
        let error = files.written(&fragment, "memory://t").unwrap_err();
        assert_eq!(error.kind(), "bug");
        let told = error.to_string();
        assert!(
            told.contains("memory://t wrote no file for fragment 7") && told.contains("report"),
            "{told}"
        );
    }
}
