//! What all reads of one version share: the store, dictionary values, open files, deletions, statistics and the row index.

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
use crate::read::event;
use crate::read::row_index::RowIndex;
use crate::read::zone_maps::{FileStatistics, ZoneMap};

/// A deletion file names at most 2^32 rows, one bit each, with their containers' headers.
const MAX_DELETION_BYTES: u64 = 1 << 30;
/// A table of at most so many bytes stays mapped once read; of larger tables only the pages in use.
const MAX_MAPPED_BYTES: u64 = 256 << 20;
/// Columns whose zone map over the whole table is kept; those of others are computed again.
const MAX_COLUMNS: usize = 1024;
/// Deletion files read at one time.
const CONCURRENT_READS: usize = 16;

/// See the module. Its locks are taken with `try_lock` only, as those of the cache: a contended lock is a miss.
#[derive(Debug)]
pub(crate) struct ReadContext {
    pub(crate) store: Store,
    pub(crate) dictionaries: Arc<Dictionaries>,
    /// Whether checksums are compared.
    pub(crate) verify: bool,
    /// The whole table is small: the parts of it that were read stay mapped.
    stays_mapped: bool,
    /// Built when a row is first looked up by its id.
    row_index: Mutex<Option<Arc<RowIndex>>>,
    /// Shared by the versions that one handle opens.
    cache: Arc<MetadataCache>,
    /// Zone maps of columns over all fragments of this version.
    of_table: Mutex<BTreeMap<FieldId, Arc<ZoneMap>>>,
}

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
            of_table: Mutex::default(),
        }
    }

    /// The same with the cache of another version of the table.
    pub(crate) fn sharing(mut self, other: &Self) -> Self {
        self.cache = Arc::clone(&other.cache);
        self
    }

    /// Opens a data file, or finds it in the cache.
    ///
    /// # Errors
    /// When the file cannot be read, or its metadata is damaged.
    pub(crate) async fn open(&self, file: &DataFile) -> Result<Arc<FileReader>> {
        let identity = FileIdentity::of(file, self.verify);
        if let Some(reader) = self.cache.file(&identity) {
            return Ok(reader);
        }
        let bytes = self.store.open_file(&file.full_path(), None).await?;
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
    ///
    /// # Errors
    /// When the deletion file cannot be read, is damaged, or names another number of rows than the manifest.
    pub(crate) async fn deleted(&self, fragment: &Fragment) -> Result<Option<Arc<RoaringBitmap>>> {
        let (Some(file), Some(rows)) = (&fragment.deletion, self.named_as_deleted(fragment).await?)
        else {
            return Ok(None);
        };
        match file.num_deleted_rows {
            // Some writers do not say how many rows are deleted.
            0 => Ok(Some(rows)),
            said if said == rows.len() => Ok(Some(rows)),
            said => {
                let found = rows.len();
                let reason = format!(
                    "the manifest says that {said} rows are deleted, the file names {found}"
                );
                Err(Error::corrupt(reason).at(file.path(fragment.id)))
            }
        }
    }

    /// As [`deleted`](Self::deleted), whatever number of rows the manifest says.
    ///
    /// # Errors
    /// When the deletion file cannot be read, or is damaged.
    pub(crate) async fn named_as_deleted(
        &self,
        fragment: &Fragment,
    ) -> Result<Option<Arc<RoaringBitmap>>> {
        let Some(file) = &fragment.deletion else {
            return Ok(None);
        };
        let path = file.path(fragment.id);
        let identity = (path.clone(), file.crc32c, self.verify);
        if let Some(rows) = self.cache.deletions(&identity) {
            return Ok(Some(rows));
        }
        let bytes = self.store.read(&path, MAX_DELETION_BYTES).await?;
        let is_damaged = |expected| expected != crc32c(&bytes);
        if self.verify && file.crc32c.is_some_and(is_damaged) {
            return Err(Error::corrupt("the deletion file fails its checksum").at(path));
        }
        let rows = decode_deletions(&bytes, file.kind, fragment.physical_rows)
            .map_err(|error| error.at(&path))?;
        let rows = Arc::new(rows);
        self.cache.keep_deletions(identity, &rows);
        Ok(Some(rows))
    }

    /// Where the rows of the version are, by their stable ids. `fragments` are those of the version.
    ///
    /// # Errors
    /// When a deletion file cannot be read, or row ids are damaged.
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
        let deleted: Vec<_> = deleted.try_collect().await?;
        let index = RowIndex::of(fragments, &deleted);
        let index = Arc::new(index.map_err(|error| error.at(self.store.uri()))?);
        tracing::debug!(
            target: event::READ,
            uri = self.store.uri(),
            fragments = fragments.len(),
            "built an index of row ids"
        );
        if let Ok(mut cache) = self.row_index.try_lock() {
            *cache = Some(Arc::clone(&index));
        }
        Ok(index)
    }

    /// Physical rows of a fragment: from the manifest, or from a data file where the manifest says 0, which old writers wrote
    /// for "unknown". A fragment without files has the rows that the manifest says.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(crate) async fn physical_rows(&self, fragment: &Fragment) -> Result<u64> {
        match fragment.files.first() {
            Some(file) if fragment.physical_rows == 0 => Ok(self.open(file).await?.num_rows()),
            _ => Ok(fragment.physical_rows),
        }
    }

    /// The page statistics of some columns of an open file. Where they cannot be read, a scan reads more pages; that is the
    /// only consequence, so it is an event and no error.
    pub(super) async fn statistics(
        &self,
        file: &DataFile,
        reader: &FileReader,
        ids: &[FieldId],
    ) -> Arc<FileStatistics> {
        let identity = FileIdentity::of(file, self.verify);
        let known = self.cache.statistics(&identity).unwrap_or_default();
        let missing = known.missing(ids);
        if missing.is_empty() {
            return known;
        }
        match reader.statistics(&missing).await {
            Ok(read) => {
                let all = Arc::new(known.with(&missing, read, reader));
                self.cache.keep_statistics(identity, &all);
                all
            }
            // Not cached: a store that fails now may answer the next scan.
            Err(error) => {
                tracing::warn!(
                    target: event::READ,
                    path = reader.path(),
                    %error,
                    "statistics were not read: no page of the file is pruned"
                );
                known
            }
        }
    }

    /// The zone map of a column of a fragment, without a request; none while its statistics have not been read.
    pub(super) fn zone_map_of_fragment(
        &self,
        fragment: &Fragment,
        id: FieldId,
        is_nullable: bool,
    ) -> Option<Arc<ZoneMap>> {
        let holds = |file: &&DataFile| file.field_ids.contains(&id);
        let Some(file) = fragment.files.iter().find(holds) else {
            return is_nullable.then(|| Arc::new(ZoneMap::of_nulls(fragment.physical_rows)));
        };
        let identity = FileIdentity::of(file, self.verify);
        self.cache.statistics(&identity)?.zone_map(id)
    }

    /// The zone map of a column over all fragments, without a request; none while the statistics of one of them have not
    /// been read.
    pub(super) fn zone_map_of_table(
        &self,
        fragments: &[Fragment],
        id: FieldId,
        is_nullable: bool,
    ) -> Option<Arc<ZoneMap>> {
        if let Ok(known) = self.of_table.try_lock()
            && let Some(zone_map) = known.get(&id)
        {
            return Some(Arc::clone(zone_map));
        }
        let parts: Option<Vec<Arc<ZoneMap>>> = fragments
            .iter()
            .map(|fragment| self.zone_map_of_fragment(fragment, id, is_nullable))
            .collect();
        let zone_map = Arc::new(ZoneMap::joined(&parts?));
        if let Ok(mut known) = self.of_table.try_lock()
            && known.len() < MAX_COLUMNS
        {
            known.insert(id, Arc::clone(&zone_map));
        }
        Some(zone_map)
    }
}
