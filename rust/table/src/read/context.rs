//! What reading shares over the fragments of one version: open files, deletion vectors, statistics, the row index.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::future::FutureExt;
use futures::stream::{StreamExt, TryStreamExt};
use pilum_file::{FileReader, OpenOptions};
use pilum_format::{DataFile, Dictionaries, FieldId, Fragment, crc32c, decode_deletions};
use pilum_store::Store;
use roaring::RoaringBitmap;

use crate::error::{Error, Result};
use crate::read::cache::{FileIdentity, MetadataCache};
use crate::read::row_index::RowIndex;
use crate::read::statistics::{Bounds, FileStatistics, PageStatistics};

/// Deletion files read at once.
const CONCURRENT_READS: usize = 16;
/// Fragments of a remote table opened at one time.
pub(crate) const REMOTE_FRAGMENTS: usize = 16;
/// Columns of which the bounds over the whole table are remembered; those of others are folded again.
const MOST_COLUMNS: usize = 1024;

/// What reading shares over the fragments of one version: the store, dictionary values, files opened so far.
#[derive(Debug)]
pub(crate) struct ReadContext {
    pub(crate) store: Store,
    pub(crate) dictionaries: Arc<Dictionaries>,
    pub(crate) verify: bool,
    /// The whole table is small: what was read of it stays mapped.
    stays_mapped: bool,
    /// Made when a row is first asked for by its id.
    row_index: Mutex<Option<Arc<RowIndex>>>,
    /// What was learnt of files; shared with the other versions that one handle looks at.
    pub(crate) cache: Arc<MetadataCache>,
    /// What is known of columns over all fragments of this version.
    pub(crate) whole_table: Mutex<BTreeMap<FieldId, Arc<Bounds>>>,
}

/// A deletion file names at most 2^32 rows, one bit each, with their containers' headers.
const MAX_DELETION_BYTES: u64 = 1 << 30;
/// A table of so many bytes or less stays mapped once read; of larger ones only what is in use.
const MAX_MAPPED_BYTES: u64 = 256 << 20;

impl ReadContext {
    pub(crate) fn new(
        store: Store,
        dictionaries: Arc<Dictionaries>,
        verify: bool,
        fragments: &[Fragment],
    ) -> Self {
        let mut sizes = fragments
            .iter()
            .flat_map(|fragment| &fragment.files)
            .map(|file| file.byte_len);
        // A size of 0 is an unknown one.
        let num_bytes = sizes.try_fold(0_u64, |sum, size| {
            (size > 0).then(|| sum.saturating_add(size))
        });
        Self {
            store,
            dictionaries,
            verify,
            stays_mapped: num_bytes.is_some_and(|num_bytes| num_bytes <= MAX_MAPPED_BYTES),
            row_index: Mutex::default(),
            cache: Arc::default(),
            whole_table: Mutex::default(),
        }
    }

    /// The same, with what another version of the table learnt.
    pub(crate) fn sharing(mut self, other: &Self) -> Self {
        self.cache = Arc::clone(&other.cache);
        self
    }

    pub(crate) async fn open(&self, file: &DataFile) -> Result<Arc<FileReader>> {
        let identity = FileIdentity::of(file, self.verify);
        if let Some(reader) = self.cache.file(&identity) {
            return Ok(reader);
        }
        let bytes = self
            .store
            .open_file(&file.full_path(), None)
            .await
            .map_err(Error::from)?;
        let options = OpenOptions {
            field_ids: Some(&file.field_ids),
            metadata_crc32c: file.metadata_crc32c,
            skip_verification: !self.verify,
            stays_mapped: self.stays_mapped,
        };
        let reader = Arc::new(FileReader::open(bytes, options).await?);
        self.cache.keep_file(identity, &reader);
        Ok(reader)
    }

    /// Offsets of the deleted rows of a fragment.
    pub(crate) async fn deleted(&self, fragment: &Fragment) -> Result<Option<Arc<RoaringBitmap>>> {
        let Some(file) = &fragment.deletion else {
            return Ok(None);
        };
        let path = file.path(fragment.id);
        let identity = (path.clone(), file.crc32c, self.verify);
        if let Some(rows) = self.cache.deletions(&identity) {
            return Ok(Some(rows));
        }
        let bytes = self
            .store
            .read(&path, MAX_DELETION_BYTES)
            .await
            .map_err(Error::from)?;
        if self.verify
            && file
                .crc32c
                .is_some_and(|expected| expected != crc32c(&bytes))
        {
            return Err(Error::corrupt("the deletion file fails its checksum").at(path));
        }
        let rows = decode_deletions(&bytes, file.kind, fragment.physical_rows)
            .map_err(|error| error.at(&path))?;
        let rows = Arc::new(rows);
        self.cache.keep_deletions(identity, &rows);
        Ok(Some(rows))
    }

    /// Where the rows of the version are, by their stable ids. `fragments` are those of the version.
    pub(crate) async fn row_index(&self, fragments: &[Fragment]) -> Result<Arc<RowIndex>> {
        let known = self.row_index.try_lock().ok();
        if let Some(index) = known.and_then(|it| it.clone()) {
            return Ok(index);
        }
        let mut deleted = Vec::with_capacity(fragments.len());
        for fragment in fragments {
            deleted.push(self.deleted(fragment).boxed());
        }
        let deleted = futures::stream::iter(deleted).buffered(CONCURRENT_READS);
        let deleted: Vec<Option<Arc<RoaringBitmap>>> = deleted.try_collect().await?;
        let index = RowIndex::of(fragments, &deleted).map_err(|error| error.at(self.store.uri()));
        let index = Arc::new(index?);
        if let Ok(mut cache) = self.row_index.try_lock() {
            *cache = Some(Arc::clone(&index));
        }
        Ok(index)
    }

    /// Physical rows of a fragment: by the manifest, or by a data file where the manifest does not know.
    pub(crate) async fn physical_rows(&self, fragment: &Fragment) -> Result<u64> {
        match fragment.files.first() {
            Some(file) if fragment.physical_rows == 0 => Ok(self.open(file).await?.num_rows()),
            _ => Ok(fragment.physical_rows),
        }
    }

    /// Rows of a fragment that are not deleted.
    pub(crate) async fn live_rows(&self, fragment: &Fragment) -> Result<u64> {
        if let Some(rows) = fragment.num_rows() {
            return Ok(rows);
        }
        let physical = self.physical_rows(fragment).await?;
        let deleted = self.deleted(fragment).await?.map_or(0, |rows| rows.len());
        Ok(physical.saturating_sub(deleted))
    }
}

impl ReadContext {
    /// The statistics of some columns of a file that is open.
    pub(crate) async fn statistics(
        &self,
        file: &DataFile,
        reader: &FileReader,
        ids: &[FieldId],
    ) -> Arc<FileStatistics> {
        let identity = FileIdentity::of(file, self.verify);
        let known = self.cache.statistics(&identity).unwrap_or_default();
        if known.has_all(ids) {
            return known;
        }
        let missing: Vec<FieldId> = ids
            .iter()
            .copied()
            .filter(|id| !known.columns.contains_key(id))
            .collect();
        // A store that does not answer now may answer the next scan: this is not remembered.
        let Ok(mut read) = reader.statistics(&missing).await else {
            return known;
        };
        let mut all = FileStatistics::clone(&known);
        for id in missing {
            let column = read.remove(&id);
            let column = column.and_then(|pages| PageStatistics::new(&pages, reader));
            all.columns.insert(id, column.map(Arc::new));
        }
        let all = Arc::new(all);
        self.cache.keep_statistics(identity, &all);
        all
    }

    /// What is known of a column of a fragment, without a request; none while its statistics were not read.
    pub(crate) fn bounds_of_fragment(
        &self,
        fragment: &Fragment,
        id: FieldId,
        is_nullable: bool,
    ) -> Option<Arc<Bounds>> {
        let holds = |file: &&DataFile| file.field_ids.contains(&id);
        let Some(file) = fragment.files.iter().find(holds) else {
            return is_nullable.then(|| Arc::new(Bounds::nulls(fragment.physical_rows)));
        };
        let known = self
            .cache
            .statistics(&FileIdentity::of(file, self.verify))?;
        match known.columns.get(&id)? {
            Some(column) => Some(Arc::clone(&column.whole)),
            None => Some(Arc::default()),
        }
    }

    /// What is known of a column of all fragments, without a request; none while one of them was never looked at.
    pub(crate) fn bounds_of_table(
        &self,
        fragments: &[Fragment],
        id: FieldId,
        is_nullable: bool,
    ) -> Option<Arc<Bounds>> {
        if let Ok(known) = self.whole_table.try_lock()
            && let Some(bounds) = known.get(&id)
        {
            return Some(Arc::clone(bounds));
        }
        let parts: Option<Vec<Arc<Bounds>>> = fragments
            .iter()
            .map(|fragment| self.bounds_of_fragment(fragment, id, is_nullable))
            .collect();
        let bounds = Arc::new(Bounds::joined(&parts?));
        if let Ok(mut known) = self.whole_table.try_lock()
            && known.len() < MOST_COLUMNS
        {
            known.insert(id, Arc::clone(&bounds));
        }
        Some(bounds)
    }
}
