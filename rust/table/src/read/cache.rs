//! The cache of open files, deletions and statistics, within budgets of bytes; the least recently used entry goes first.
//!
//! Data files never change, so an entry holds in every version that names its file: versions that are opened through one
//! handle share a cache. Its locks are taken with `try_lock` only, so that a forked process never waits for a thread that it
//! does not have: a contended cache is a miss. `docs/decisions` says why this is no crate from elsewhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pilum_file::FileReader;
use pilum_format::{DataFile, FieldId};
use roaring::RoaringBitmap;

use crate::read::zone_maps::FileStatistics;

/// Bytes of memory for open files: their directories, and the pages of columns that were read.
const FILE_BYTES: u64 = 64 << 20;
/// Most files kept open; each is a mapping of its own.
const MAX_OPEN_FILES: usize = 512;
/// Bytes for rows that are deleted.
const DELETION_BYTES: u64 = 32 << 20;
/// Bytes for statistics.
const STATISTICS_BYTES: u64 = 64 << 20;
/// What an entry costs beside its value.
const ENTRY_BYTES: u64 = 256;

/// Which bytes a data file has, and how they are read. Names are used once; the rest tells a file from that of a table
/// which was removed and written again, and from itself after its columns got other numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileIdentity {
    path: String,
    byte_len: u64,
    metadata_crc32c: Option<u32>,
    first_id: Option<FieldId>,
    is_verified: bool,
}

impl FileIdentity {
    pub(super) fn of(file: &DataFile, is_verified: bool) -> Self {
        Self {
            path: file.path.clone(),
            byte_len: file.byte_len,
            metadata_crc32c: file.metadata_crc32c,
            first_id: file.field_ids.first().copied(),
            is_verified,
        }
    }
}

/// Which rows a deletion file names, and whether its checksum was compared.
pub(super) type DeletionIdentity = (String, Option<u32>, bool);

/// See the module.
#[derive(Debug)]
pub(crate) struct MetadataCache {
    files: Mutex<Budgeted<FileIdentity, Arc<FileReader>>>,
    deletions: Mutex<Budgeted<DeletionIdentity, Arc<RoaringBitmap>>>,
    statistics: Mutex<Budgeted<FileIdentity, Arc<FileStatistics>>>,
}

impl Default for MetadataCache {
    fn default() -> Self {
        Self {
            files: Mutex::new(Budgeted::new(FILE_BYTES, MAX_OPEN_FILES)),
            deletions: Mutex::new(Budgeted::new(DELETION_BYTES, usize::MAX)),
            statistics: Mutex::new(Budgeted::new(STATISTICS_BYTES, usize::MAX)),
        }
    }
}

impl MetadataCache {
    pub(super) fn file(&self, identity: &FileIdentity) -> Option<Arc<FileReader>> {
        let mut files = self.files.try_lock().ok()?;
        let file = files.get(identity)?;
        // Columns of the file may have been read since it was added, and take memory.
        files.weigh(identity, file.num_bytes_held());
        Some(file)
    }

    pub(super) fn keep_file(&self, identity: FileIdentity, file: &Arc<FileReader>) {
        if let Ok(mut files) = self.files.try_lock() {
            files.insert(identity, Arc::clone(file), file.num_bytes_held());
        }
    }

    pub(super) fn deletions(&self, identity: &DeletionIdentity) -> Option<Arc<RoaringBitmap>> {
        self.deletions.try_lock().ok()?.get(identity)
    }

    pub(super) fn keep_deletions(&self, identity: DeletionIdentity, rows: &Arc<RoaringBitmap>) {
        if let Ok(mut deletions) = self.deletions.try_lock() {
            let num_bytes = rows.serialized_size() as u64;
            deletions.insert(identity, Arc::clone(rows), num_bytes);
        }
    }

    pub(super) fn statistics(&self, identity: &FileIdentity) -> Option<Arc<FileStatistics>> {
        self.statistics.try_lock().ok()?.get(identity)
    }

    pub(super) fn keep_statistics(&self, identity: FileIdentity, known: &Arc<FileStatistics>) {
        if let Ok(mut statistics) = self.statistics.try_lock() {
            statistics.insert(identity, Arc::clone(known), known.num_bytes());
        }
    }
}

/// Values by key within a number of bytes, and of values.
#[derive(Debug)]
struct Budgeted<K, V> {
    max_bytes: u64,
    max_values: usize,
    num_bytes: u64,
    /// Counts uses; the one with the lowest number goes first.
    clock: u64,
    slots: BTreeMap<Arc<K>, Slot<V>>,
    by_use: BTreeMap<u64, Arc<K>>,
}

#[derive(Debug)]
struct Slot<V> {
    value: V,
    num_bytes: u64,
    used: u64,
}

impl<K: Ord, V: Clone> Budgeted<K, V> {
    fn new(max_bytes: u64, max_values: usize) -> Self {
        Self {
            max_bytes,
            max_values,
            num_bytes: 0,
            clock: 0,
            slots: BTreeMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    fn get(&mut self, key: &K) -> Option<V> {
        let slot = self.slots.get_mut(key)?;
        if let Some(key) = self.by_use.remove(&slot.used) {
            self.clock += 1;
            slot.used = self.clock;
            self.by_use.insert(self.clock, key);
        }
        Some(slot.value.clone())
    }

    /// Keeps a value, unless it alone is more than all may be.
    fn insert(&mut self, key: K, value: V, num_bytes: u64) {
        let num_bytes = num_bytes.saturating_add(ENTRY_BYTES);
        let key = Arc::new(key);
        self.remove(&key);
        if num_bytes > self.max_bytes || self.max_values == 0 {
            return;
        }
        self.make_room(num_bytes, 1);
        self.clock += 1;
        self.num_bytes += num_bytes;
        self.by_use.insert(self.clock, Arc::clone(&key));
        let used = self.clock;
        self.slots.insert(
            key,
            Slot {
                value,
                num_bytes,
                used,
            },
        );
    }

    /// Notes that a value takes another number of bytes now. If it alone is more than all may be, it goes, too.
    fn weigh(&mut self, key: &K, num_bytes: u64) {
        let num_bytes = num_bytes.saturating_add(ENTRY_BYTES);
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        if num_bytes > self.max_bytes {
            self.remove(key);
            return;
        }
        self.num_bytes = (self.num_bytes - slot.num_bytes).saturating_add(num_bytes);
        slot.num_bytes = num_bytes;
        self.make_room(0, 0);
    }

    /// Drops what was not used for the longest time until so many more bytes and values fit.
    fn make_room(&mut self, num_bytes: u64, num_values: usize) {
        while self.num_bytes.saturating_add(num_bytes) > self.max_bytes
            || self.slots.len().saturating_add(num_values) > self.max_values
        {
            let Some((_, oldest)) = self.by_use.pop_first() else {
                break;
            };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &K) {
        if let Some(slot) = self.slots.remove(key) {
            self.num_bytes -= slot.num_bytes;
            self.by_use.remove(&slot.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(cache: &Budgeted<u32, u32>) -> Vec<u32> {
        cache.slots.values().map(|slot| slot.value).collect()
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_goes_first() {
        let mut cache = Budgeted::new(3 * (100 + ENTRY_BYTES), usize::MAX);
        for key in 0..3 {
            cache.insert(key, key, 100);
        }
        assert_eq!(cache.get(&0), Some(0));
        cache.insert(3, 3, 100);
        assert_eq!(kept(&cache), [0, 2, 3]);
        // A larger one takes the place of two.
        cache.insert(4, 4, 100 + ENTRY_BYTES);
        assert_eq!(kept(&cache), [3, 4]);
        assert_eq!(cache.num_bytes, 200 + 3 * ENTRY_BYTES);
        // One that does not fit at all drives nobody out, but its former value is gone.
        cache.insert(5, 5, 10_000);
        cache.insert(3, 33, 10_000);
        assert_eq!(kept(&cache), [4]);
        assert_eq!(cache.get(&3), None);
        cache.insert(4, 44, 0);
        assert_eq!(kept(&cache), [44]);
        assert_eq!(cache.num_bytes, ENTRY_BYTES);
        assert_eq!(cache.by_use.len(), 1);
    }

    #[test]
    fn what_grew_is_weighed_again() {
        let mut cache = Budgeted::new(3 * (100 + ENTRY_BYTES), usize::MAX);
        (0..3).for_each(|key| cache.insert(key, key, 100));
        cache.weigh(&1, 50);
        assert_eq!(kept(&cache), [0, 1, 2]);
        cache.weigh(&1, 100 + ENTRY_BYTES);
        assert_eq!(kept(&cache), [1, 2]);
        assert_eq!(cache.num_bytes, 200 + 3 * ENTRY_BYTES);
        cache.weigh(&7, 1);
        assert_eq!(kept(&cache), [1, 2]);
        cache.weigh(&2, u64::MAX);
        assert_eq!(kept(&cache), [1]);
        assert_eq!(cache.num_bytes, 100 + 2 * ENTRY_BYTES);
        assert_eq!(cache.by_use.len(), 1);
    }

    #[test]
    fn values_are_counted_too() {
        let mut cache = Budgeted::new(u64::MAX, 2);
        (0..5).for_each(|key| cache.insert(key, key, u64::from(key)));
        assert_eq!(kept(&cache), [3, 4]);
    }
}
