//! The columns of one fragment, read from whichever of its files hold them (docs/format.md, "Fragments").

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StructArray, new_null_array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use pilum_file::{FileReader, Rows};
use pilum_format::{Field, Fragment, Schema};
use roaring::RoaringBitmap;

use crate::error::{Error, Result};
use crate::read::column_sources::{Source, sources};
use crate::read::context::ReadContext;
use crate::read::row_ids::live_ranges;

/// Some columns of one fragment, ready to be read.
#[derive(Debug)]
pub(crate) struct FragmentReader {
    pub(super) context: Arc<ReadContext>,
    pub(crate) id: u64,
    pub(crate) physical_rows: u64,
    pub(crate) deleted: Option<Arc<RoaringBitmap>>,
    pub(super) files: Vec<Arc<FileReader>>,
    columns: Vec<Source>,
    /// Fields to read of each file, in the order in which `columns` consume them.
    pub(super) wanted: Vec<Vec<Field>>,
}

impl FragmentReader {
    /// Opens the files that hold columns of `schema`.
    ///
    /// # Errors
    /// When a file cannot be opened; `Corrupt` when the files and the manifest disagree about the number of rows.
    pub(crate) async fn open(
        context: Arc<ReadContext>,
        fragment: &Fragment,
        schema: &Schema,
    ) -> Result<Self> {
        let sources = sources(&fragment.files, schema);
        let mut files = Vec::with_capacity(sources.files.len());
        for &index in &sources.files {
            files.push(context.open(&fragment.files[index]).await?);
        }
        let physical_rows = match files.first() {
            // Manifests of very old writers leave out the count.
            Some(file) => file.num_rows(),
            None => context.physical_rows(fragment).await?,
        };
        check_rows(fragment, &files, physical_rows)?;
        let deleted = context.deleted(fragment).await?;
        for (file, fields) in files.iter().zip(&sources.wanted) {
            file.prepare(fields).await?;
        }
        Ok(Self {
            context,
            id: fragment.id,
            physical_rows,
            deleted,
            files,
            columns: sources.columns,
            wanted: sources.wanted,
        })
    }

    /// The file that holds all columns, if it is one.
    pub(crate) fn only_file(&self) -> Option<&FileReader> {
        let in_file = |source: &Source| matches!(source, Source::File(_));
        match self.files.as_slice() {
            [file] if self.columns.iter().all(in_file) => Some(file),
            _ => None,
        }
    }

    /// Ranges of rows for one task each, of about `target_bytes` of Arrow memory: whole batches of the first file where they
    /// fit, because rows within one page are read without a copy.
    pub(crate) fn task_ranges(&self, target_bytes: u64) -> Vec<Range<u64>> {
        let rows_per_task = (target_bytes / self.row_bytes().max(1)).clamp(1, MAX_TASK_ROWS);
        let Some(file) = self.files.first() else {
            return cut(0..self.physical_rows, rows_per_task).collect();
        };
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for batch in 0..file.num_batches() {
            let rows = file.batch_rows(batch);
            let num_rows = rows.end - rows.start;
            match ranges.last_mut() {
                Some(last) if last.end - last.start + num_rows <= rows_per_task => {
                    last.end = rows.end
                }
                _ if num_rows > 2 * rows_per_task => ranges.extend(cut(rows, rows_per_task)),
                _ => ranges.push(rows),
            }
        }
        ranges
    }

    /// About how much Arrow memory a row takes: exact for fixed widths, by the size of the files for the rest.
    pub(crate) fn row_bytes(&self) -> u64 {
        let mut bytes = 0;
        for (file, fields) in self.files.iter().zip(&self.wanted) {
            let stored = file.num_bytes() / file.num_rows().max(1);
            let (fixed, varies) = fixed_row_bytes(fields);
            bytes += if varies { stored.max(fixed) } else { fixed };
        }
        bytes
    }

    /// About how many bytes of its files a row takes, those of columns that are not read included.
    pub(crate) fn stored_row_bytes(&self) -> u64 {
        let stored = self
            .files
            .iter()
            .map(|file| file.num_bytes() / file.num_rows().max(1));
        stored.fold(0, u64::saturating_add)
    }

    /// Unmaps what reading left mapped of large files.
    pub(crate) fn release(&self) {
        self.files.iter().for_each(|file| file.release());
    }

    /// Rows of a range that are not deleted.
    ///
    /// # Errors
    /// `Bug` alone.
    pub(crate) fn live(&self, range: Range<u64>) -> Result<Rows> {
        match self.deleted.as_deref() {
            None => Ok(Rows::range(range)),
            deleted => Rows::from_ranges(live_ranges(deleted, range))
                .map_err(|error| Error::bug(format!("fragment {}: live rows: {error}", self.id))),
        }
    }

    /// The columns of some physical rows, in the order of the schema.
    ///
    /// # Errors
    /// When a file cannot be read or is damaged; `Corrupt` when no file holds a column that may not be null.
    pub(crate) async fn read(&self, rows: &Rows) -> Result<Vec<ArrayRef>> {
        let mut arrays = Vec::with_capacity(self.files.len());
        for (file, fields) in self.files.iter().zip(&self.wanted) {
            let read = file
                .read_rows(fields, rows, &self.context.dictionaries)
                .await?;
            arrays.push(read.into_iter());
        }
        self.assembled(arrays, rows)
    }

    /// One array per column, from the arrays that were read of each file.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(super) fn assembled(
        &self,
        mut arrays: Vec<std::vec::IntoIter<ArrayRef>>,
        rows: &Rows,
    ) -> Result<Vec<ArrayRef>> {
        let num_rows = usize::try_from(rows.len()).unwrap_or(usize::MAX);
        self.columns
            .iter()
            .map(|source| self.assemble(source, &mut arrays, num_rows))
            .collect()
    }

    fn assemble(
        &self,
        source: &Source,
        arrays: &mut [std::vec::IntoIter<ArrayRef>],
        num_rows: usize,
    ) -> Result<ArrayRef> {
        let mut next = |file: usize| {
            arrays
                .get_mut(file)
                .and_then(Iterator::next)
                .ok_or_else(|| {
                    let id = self.id;
                    Error::bug(format!(
                        "fragment {id}: fewer columns were read than planned"
                    ))
                })
        };
        match source {
            Source::File(file) => next(*file),
            Source::Missing(field) if field.nullable => {
                Ok(new_null_array(&field.data_type, num_rows))
            }
            Source::Missing(field) => Err(Error::corrupt(format!(
                "fragment {}: no file holds column `{}`, which may not be null",
                self.id, field.name
            ))
            .at(self.context.store.uri())),
            Source::Split {
                field,
                nulls,
                members,
            } => {
                let nulls: Option<NullBuffer> = match nulls {
                    Some(file) => next(*file)?.nulls().cloned(),
                    None => None,
                };
                let members = members
                    .iter()
                    .map(|member| self.assemble(member, arrays, num_rows))
                    .collect::<Result<Vec<_>>>()?;
                let DataType::Struct(fields) = &field.data_type else {
                    let (id, name) = (self.id, &field.name);
                    let what = format!("fragment {id}: column `{name}` was planned as a struct");
                    return Err(Error::bug(what));
                };
                let array =
                    StructArray::try_new_with_length(fields.clone(), members, nulls, num_rows);
                Ok(Arc::new(array.map_err(|error| {
                    Error::corrupt(format!(
                        "fragment {}, column `{}`: {error}",
                        self.id, field.name
                    ))
                    .at(self.context.store.uri())
                })?))
            }
        }
    }
}

/// Arrow memory of a row's values of fixed width, and whether there are others.
pub(super) fn fixed_row_bytes(fields: &[Field]) -> (u64, bool) {
    let mut fixed = 0_u64;
    let mut varies = false;
    for field in fields.iter().flat_map(Field::walk) {
        match pilum_file::fixed_width(&field.data_type) {
            Some(width) => fixed = fixed.saturating_add(width),
            None => varies |= !matches!(field.data_type, DataType::Boolean | DataType::Struct(_)),
        }
    }
    (fixed, varies)
}

/// Rows of a task at most, however narrow they are.
const MAX_TASK_ROWS: u64 = 1 << 16;

/// A range in parts of `step` rows.
fn cut(range: Range<u64>, step: u64) -> impl Iterator<Item = Range<u64>> {
    let parts = (range.end - range.start).div_ceil(step);
    (0..parts).map(move |part| {
        let start = range.start + part * step;
        start..(start + step).min(range.end)
    })
}

/// The files of a fragment and its manifest entry must agree about the number of rows.
fn check_rows(fragment: &Fragment, files: &[Arc<FileReader>], physical_rows: u64) -> Result<()> {
    let (id, claimed) = (fragment.id, fragment.physical_rows);
    if let Some(other) = files.iter().find(|file| file.num_rows() != physical_rows) {
        let other_rows = other.num_rows();
        let reason = format!("fragment {id} has files of {physical_rows} and of {other_rows} rows");
        return Err(Error::corrupt(reason).at(other.path()));
    }
    if claimed != 0 && claimed != physical_rows {
        let path = files.first().map_or("the table", |file| file.path());
        let reason = format!(
            "it has {physical_rows} rows, the manifest says that fragment {id} has {claimed}"
        );
        return Err(Error::corrupt(reason).at(path));
    }
    Ok(())
}
