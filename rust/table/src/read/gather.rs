//! Gathering scattered rows of one fragment, by two threads where there is much to gather.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::ArrayRef;
use pilum_file::{FileReader, Rows};
use pilum_format::{Dictionaries, Field};
use tokio::runtime::Handle;

use crate::error::{Error, Result};
use crate::read::fragment::FragmentReader;

/// From so many scattered values on a second thread pays: starting it costs about as much as gathering a few hundred.
const MANY_VALUES: u64 = 4096;
/// The same with checksums: the blocks of a scattered value cost about as much again as the value.
const MANY_VERIFIED_VALUES: u64 = MANY_VALUES / 2;

impl FragmentReader {
    /// As [`read`](Self::read), by a second thread too where there is much to gather: each thread takes a column whenever it
    /// is done with one. Of remote stores all columns are read at once: that takes fewer requests.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(super) async fn gather(&self, rows: &Rows) -> Result<Vec<ArrayRef>> {
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
            let stopped =
                |error| Error::bug(format!("a thread that gathers rows stopped: {error}"));
            let theirs = job.await.map_err(stopped)?;
            let mut read = mine?;
            read.extend(theirs?);
            read.sort_unstable_by_key(|(place, _)| *place);
            let read: Vec<ArrayRef> = read.into_iter().map(|(_, array)| array).collect();
            arrays.push(read.into_iter());
        }
        self.assembled(arrays, rows)
    }
}

/// Columns of some rows of a file, that several threads read.
struct Gathering {
    file: Arc<FileReader>,
    /// With their places in the result.
    fields: Vec<(usize, Field)>,
    /// The rows, as [`FileReader::split`] cuts them.
    parts: Vec<(usize, Rows)>,
    dictionaries: Arc<Dictionaries>,
    /// The first of `fields` that no thread has taken.
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

/// Values of varying length cost about three of a fixed one. They come first: the thread that took one last would be waited
/// for.
fn costliest_first(fields: &[Field]) -> Vec<(usize, Field)> {
    let mut fields: Vec<(usize, Field)> = fields.iter().cloned().enumerate().collect();
    fields.sort_by_key(|(_, field)| pilum_file::fixed_width(&field.data_type).is_some());
    fields
}
