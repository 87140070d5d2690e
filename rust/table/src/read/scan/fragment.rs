//! Reading the columns of one fragment, wherever its files hold them (spec section 9).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{Array, ArrayRef, StructArray, new_null_array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use pilum_file::{FileReader, Rows};
use pilum_format::{DataFile, Dictionaries, Field, Fragment, Schema};
use roaring::RoaringBitmap;
use tokio::runtime::Handle;

use crate::error::{Error, Result};
use crate::read::context::ReadContext;

/// Some columns of one fragment, ready to be read.
#[derive(Debug)]
pub(crate) struct FragmentReader {
    context: Arc<ReadContext>,
    pub(crate) id: u64,
    pub(crate) physical_rows: u64,
    pub(crate) deleted: Option<Arc<RoaringBitmap>>,
    files: Vec<Arc<FileReader>>,
    columns: Vec<Source>,
    /// Fields to read of each file, in the order in which `columns` consume them.
    wanted: Vec<Vec<Field>>,
}

/// Where a column comes from.
#[derive(Debug)]
enum Source {
    /// The next array read from this file.
    File(usize),
    /// No file has it: every value is null.
    Missing(Field),
    /// A struct whose members lie in several files; its own nulls come from a struct array of the first.
    Split {
        field: Field,
        nulls: Option<usize>,
        members: Vec<Source>,
    },
}

impl FragmentReader {
    /// Opens the files that hold columns of `schema`.
    pub(crate) async fn open(
        context: Arc<ReadContext>,
        fragment: &Fragment,
        schema: &Schema,
    ) -> Result<Self> {
        let mut opened = Opened {
            wanted: Vec::new(),
            files: Vec::new(),
            data_files: &fragment.files,
        };
        let mut columns = Vec::with_capacity(schema.fields.len());
        for field in &schema.fields {
            columns.push(opened.resolve(field));
        }
        let mut files = Vec::with_capacity(opened.files.len());
        for &index in &opened.files {
            files.push(context.open(&fragment.files[index]).await?);
        }
        let physical_rows = match files.first() {
            // Manifests of very old writers leave out the count.
            Some(file) => file.num_rows(),
            None => context.physical_rows(fragment).await?,
        };
        if let Some(other) = files.iter().find(|file| file.num_rows() != physical_rows) {
            return Err(Error::corrupt(format!(
                "fragment {} has files of {physical_rows} and of {} rows",
                fragment.id,
                other.num_rows()
            ))
            .at(other.path()));
        }
        if fragment.physical_rows != 0 && fragment.physical_rows != physical_rows {
            let claimed = fragment.physical_rows;
            let path = files.first().map_or("the table", |file| file.path());
            return Err(Error::corrupt(format!(
                "it has {physical_rows} rows, the manifest says that fragment {} has {claimed}",
                fragment.id
            ))
            .at(path));
        }
        let deleted = context.deleted(fragment).await?;
        let wanted = opened.wanted;
        for (file, fields) in files.iter().zip(&wanted) {
            file.prepare(fields).await?;
        }
        Ok(Self {
            context,
            id: fragment.id,
            physical_rows,
            deleted,
            files,
            columns,
            wanted,
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

    /// Row ranges that are read in one piece, of about `target_bytes` of Arrow memory: whole batches of the first file where
    /// they fit, because a piece inside a page is read without a copy.
    pub(crate) fn pieces(&self, target_bytes: u64) -> Vec<Range<u64>> {
        let rows_per_piece = (target_bytes / self.row_bytes().max(1)).clamp(1, MAX_PIECE_ROWS);
        let Some(file) = self.files.first() else {
            return cut(0..self.physical_rows, rows_per_piece).collect();
        };
        let mut pieces: Vec<Range<u64>> = Vec::new();
        for batch in 0..file.num_batches() {
            let rows = file.batch_rows(batch);
            let num_rows = rows.end - rows.start;
            match pieces.last_mut() {
                Some(last) if last.end - last.start + num_rows <= rows_per_piece => {
                    last.end = rows.end
                }
                _ if num_rows > 2 * rows_per_piece => pieces.extend(cut(rows, rows_per_piece)),
                _ => pieces.push(rows),
            }
        }
        pieces
    }

    /// About how much Arrow memory a row takes: exact for fixed widths, by the size of the files for the rest.
    pub(super) fn row_bytes(&self) -> u64 {
        let mut bytes = 0;
        for (file, fields) in self.files.iter().zip(&self.wanted) {
            let stored = file.num_bytes() / file.num_rows().max(1);
            let (fixed, varies) = fixed_row_bytes(fields);
            bytes += if varies { stored.max(fixed) } else { fixed };
        }
        bytes
    }

    /// About how many bytes of its files a row takes, those of columns that are not read included.
    pub(super) fn stored_row_bytes(&self) -> u64 {
        let stored = self
            .files
            .iter()
            .map(|file| file.num_bytes() / file.num_rows().max(1));
        stored.fold(0, u64::saturating_add)
    }

    /// Gives back what reading left mapped of large files.
    pub(super) fn release(&self) {
        self.files.iter().for_each(|file| file.release());
    }

    /// Rows of a range that are not deleted.
    pub(crate) fn live(&self, range: Range<u64>) -> Rows {
        let Some(deleted) = &self.deleted else {
            return Rows::range(range);
        };
        let clamp = |row: u64| u32::try_from(row).unwrap_or(u32::MAX);
        let mut ranges = Vec::new();
        let mut start = range.start;
        if range.end > range.start {
            for gone in deleted.range(clamp(range.start)..=clamp(range.end - 1)) {
                let gone = u64::from(gone);
                if gone > start {
                    ranges.push(start..gone);
                }
                start = gone + 1;
            }
        }
        if start < range.end {
            ranges.push(start..range.end);
        }
        Rows::from_ranges(ranges).unwrap_or_else(|_| Rows::empty())
    }

    /// The columns of some physical rows, in the order of the schema.
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

    /// As [`read`](Self::read), by a second thread too where there is much to gather: each takes a column whenever it is
    /// done with one. Remote stores are asked for all columns at once: that takes fewer requests.
    pub(crate) async fn gather(&self, rows: &Rows) -> Result<Vec<ArrayRef>> {
        let Ok(runtime) = Handle::try_current() else {
            return self.read(rows).await;
        };
        let mut arrays = Vec::with_capacity(self.files.len());
        for (file, fields) in self.files.iter().zip(&self.wanted) {
            let values = rows.len().saturating_mul(fields.len() as u64);
            let many = if self.context.verify {
                MANY_VERIFIED_VALUES
            } else {
                MANY_VALUES
            };
            if fields.len() < 2 || values < many || !self.context.store.is_local() {
                let read = file.read_rows(fields, rows, &self.context.dictionaries);
                arrays.push(read.await?.into_iter());
                continue;
            }
            let shared = Arc::new(Gathering {
                file: Arc::clone(file),
                fields: costliest_first(fields),
                parts: file.split(rows)?,
                dictionaries: Arc::clone(&self.context.dictionaries),
                next: AtomicUsize::new(0),
            });
            let (worker, second) = (runtime.clone(), Arc::clone(&shared));
            let job = runtime.spawn_blocking(move || worker.block_on(second.read_columns()));
            let mine = shared.read_columns().await;
            let stopped = |error| Error::corrupt(format!("a reader stopped: {error}"));
            let theirs = job.await.map_err(stopped)?;
            let mut read = mine?;
            read.extend(theirs?);
            read.sort_unstable_by_key(|(place, _)| *place);
            let read: Vec<ArrayRef> = read.into_iter().map(|(_, array)| array).collect();
            arrays.push(read.into_iter());
        }
        self.assembled(arrays, rows)
    }

    fn assembled(
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
                    Error::corrupt(format!("fragment {}: a file gave too few columns", self.id))
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
                    return Err(Error::corrupt(format!(
                        "column `{}` is no struct",
                        field.name
                    )));
                };
                let array =
                    StructArray::try_new_with_length(fields.clone(), members, nulls, num_rows);
                Ok(Arc::new(array.map_err(|error| {
                    Error::corrupt(format!(
                        "fragment {}, column `{}`: {error}",
                        self.id, field.name
                    ))
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

/// Rows of a piece at most, however narrow: what a worker takes at once.
const MAX_PIECE_ROWS: u64 = 1 << 16;

/// Scattered values from which on a second thread is worth its call, which costs about as much as gathering a few hundred.
const MANY_VALUES: u64 = 4096;
/// The same with checksums: the blocks of a scattered value cost about as much again as the value.
const MANY_VERIFIED_VALUES: u64 = MANY_VALUES / 2;

/// Columns of some rows of a file, that several threads read.
struct Gathering {
    file: Arc<FileReader>,
    /// With their places in the result.
    fields: Vec<(usize, Field)>,
    /// The rows, as [`FileReader::split`] cuts them.
    parts: Vec<(usize, Rows)>,
    dictionaries: Arc<Dictionaries>,
    /// The first of `fields` that nobody has taken.
    next: AtomicUsize,
}

impl Gathering {
    /// Reads columns, one by one, until all are taken.
    async fn read_columns(&self) -> Result<Vec<(usize, ArrayRef)>> {
        let mut read = Vec::new();
        while let Some((place, field)) = self.fields.get(self.next.fetch_add(1, Ordering::Relaxed))
        {
            let field = std::slice::from_ref(field);
            let arrays = self.file.read_parts(field, &self.parts, &self.dictionaries);
            read.extend(arrays.await?.into_iter().map(|array| (*place, array)));
        }
        Ok(read)
    }
}

/// Values of varying length cost about three of a fixed one; who takes them last would be waited for.
fn costliest_first(fields: &[Field]) -> Vec<(usize, Field)> {
    let mut fields: Vec<(usize, Field)> = fields.iter().cloned().enumerate().collect();
    fields.sort_by_key(|(_, field)| pilum_file::fixed_width(&field.data_type).is_some());
    fields
}

/// A range in pieces of `step` rows.
fn cut(range: Range<u64>, step: u64) -> impl Iterator<Item = Range<u64>> {
    let pieces = (range.end - range.start).div_ceil(step);
    (0..pieces).map(move |piece| {
        let start = range.start + piece * step;
        start..(start + step).min(range.end)
    })
}

/// Files chosen so far and what is wanted of each.
struct Opened<'a> {
    data_files: &'a [DataFile],
    /// Indices into `data_files`.
    files: Vec<usize>,
    wanted: Vec<Vec<Field>>,
}

impl Opened<'_> {
    /// The first file whose ids name the field.
    fn file_of(&self, id: i32) -> Option<usize> {
        self.data_files
            .iter()
            .position(|file| file.field_ids.contains(&id))
    }

    /// The one file that holds a node and everything below it.
    fn single_file(&self, field: &Field) -> Option<usize> {
        let file = self.file_of(field.id)?;
        match &field.data_type {
            DataType::Struct(_) => field
                .children
                .iter()
                .all(|child| self.single_file(child) == Some(file))
                .then_some(file),
            _ => Some(file),
        }
    }

    /// A struct down to one column below it that `file` holds: reading that tells which structs are null.
    fn witness(&self, field: &Field, file: usize) -> Option<Field> {
        if !self.data_files[file].field_ids.contains(&field.id) {
            return None;
        }
        if !matches!(field.data_type, DataType::Struct(_)) {
            return (self.file_of(field.id) == Some(file)).then(|| field.clone());
        }
        let mut members = field.children.iter();
        let member = members.find_map(|child| self.witness(child, file))?;
        Some(field.with_children(vec![member]))
    }

    fn want(&mut self, file: usize, field: Field) -> usize {
        let place = self
            .files
            .iter()
            .position(|&known| known == file)
            .unwrap_or_else(|| {
                self.files.push(file);
                self.wanted.push(Vec::new());
                self.files.len() - 1
            });
        self.wanted[place].push(field);
        place
    }

    fn resolve(&mut self, field: &Field) -> Source {
        if let Some(file) = self.single_file(field) {
            return Source::File(self.want(file, field.clone()));
        }
        if !matches!(field.data_type, DataType::Struct(_))
            || field.walk().all(|node| self.file_of(node.id).is_none())
        {
            return Source::Missing(field.clone());
        }
        let nulls = (0..self.data_files.len())
            .find_map(|file| Some((file, self.witness(field, file)?)))
            .map(|(file, witness)| self.want(file, witness));
        let members = field
            .children
            .iter()
            .map(|child| self.resolve(child))
            .collect();
        Source::Split {
            field: field.clone(),
            nulls,
            members,
        }
    }
}
