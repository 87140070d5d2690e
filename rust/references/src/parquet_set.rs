//! Sets in folders of Parquet files, read lazily: a lookup reads the file that holds its chunk, and no listing.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use pilum_common::Error as CommonError;
use pilum_store::Store;

use crate::error::{Error, Fault, Result, shown};
use crate::grid::{Grid, splits};
use crate::json::Json;
use crate::partition::Partition;
use crate::set::ReferenceSet;
use crate::value::Reference;

/// The file of the metadata.
pub(crate) const ZMETADATA: &str = ".zmetadata";
const MOST_METADATA: u64 = 1 << 30;
const MOST_FILE: u64 = 1 << 30;
/// Partitions that stay in memory, as in fsspec.
const CACHED: usize = 128;
/// Beyond so many partitions of an array, files are listed instead of asked for one by one.
const LISTED: u64 = 4096;

/// A folder of Parquet references.
#[derive(Debug)]
pub struct ParquetSet {
    store: Store,
    metadata: ReferenceSet,
    arrays: BTreeMap<String, Grid>,
    record_size: u64,
    cache: Mutex<Cache>,
    most_cached: usize,
}

type Shared = Option<Arc<Partition>>;

#[derive(Debug, Default)]
struct Cache {
    /// By array and number: when it was used last, and the rows; none for a file that does not exist.
    partitions: HashMap<(String, u64), (u64, Shared)>,
    clock: u64,
}

/// The array, the partition and the row of a chunk.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'a> {
    array: &'a str,
    partition: u64,
    row: usize,
}

impl ParquetSet {
    /// Opens the set in the root of `store`: one read, of `.zmetadata`.
    ///
    /// # Errors
    /// [`Error::Store`] when there is none, [`Error::Invalid`] for a malformed member, `Corrupt` for a damaged file.
    pub async fn open(store: Store, cache_size: Option<usize>) -> Result<Self> {
        let path = format!("{}/{ZMETADATA}", store.uri());
        let bytes = store.read(ZMETADATA, MOST_METADATA).await?;
        let document = Json::parse(&path, &bytes)?;
        let at = |fault: Fault, member: &str| fault.at(ZMETADATA, member);
        let record_size = document.get("record_size").and_then(Json::as_u64);
        let record_size = record_size
            .filter(|it| (1..=1 << 24).contains(it))
            .ok_or_else(|| {
                at(
                    Fault::value("an integer of 1 to 16777216 is expected"),
                    "record_size",
                )
            })?;
        let Some(Json::Object(members)) = document.get("metadata") else {
            return Err(at(Fault::value("an object is expected"), "metadata"));
        };
        let mut metadata = ReferenceSet::new();
        let mut arrays = BTreeMap::new();
        for (key, value) in members {
            if !matches!(value, Json::Object(_)) {
                return Err(at(Fault::value("an object is expected, not its text"), key));
            }
            let mut text = String::new();
            value.write(&mut text);
            metadata.insert(key, &Reference::Inline(text.into_bytes().into()))?;
            if let Some(array) = key.strip_suffix("/.zarray") {
                arrays.insert(array.to_owned(), Grid::of(value, key)?);
            }
        }
        metadata.insert(ZMETADATA, &Reference::Inline(bytes.to_vec().into()))?;
        Ok(Self {
            store,
            metadata,
            arrays,
            record_size,
            cache: Mutex::default(),
            most_cached: cache_size.unwrap_or(CACHED).max(1),
        })
    }

    /// The address of the folder.
    #[must_use]
    pub fn uri(&self) -> &str {
        self.store.uri()
    }

    /// References per file.
    #[must_use]
    pub fn record_size(&self) -> u64 {
        self.record_size
    }

    /// The number of metadata keys and of grid cells, whether the chunks exist or not.
    #[must_use]
    pub fn len(&self) -> u64 {
        let cells = self.arrays.values().fold(0_u64, |sum, grid| {
            sum.saturating_add(grid.len().unwrap_or(u64::MAX))
        });
        cells.saturating_add(self.metadata.len() as u64)
    }

    /// Whether there is neither metadata nor an array.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn place(&self, key: &str) -> Option<Place<'_>> {
        let (array, indices) = key.rsplit_once('/')?;
        let (array, grid) = self.arrays.get_key_value(array)?;
        let index = grid.index(indices)?;
        Some(Place {
            array,
            partition: index / self.record_size,
            row: usize::try_from(index % self.record_size).ok()?,
        })
    }

    /// The values of some keys; each partition is read once.
    ///
    /// # Errors
    /// When a partition cannot be read. A partition that does not exist has no chunks.
    pub async fn locate(&self, keys: &[String]) -> Result<Vec<Option<Reference<'static>>>> {
        let mut found: Vec<Option<Reference<'static>>> = Vec::new();
        found.resize(keys.len(), None);
        let mut places = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            if let (Some(value), Some(slot)) = (self.metadata.get(key), found.get_mut(at)) {
                *slot = Some(value.into_owned());
            } else if let Some(place) = self.place(key) {
                places.push((place, at));
            }
        }
        places.sort_unstable();
        let mut last: Option<(&str, u64, Shared)> = None;
        for (place, at) in &places {
            let name = (place.array, place.partition);
            let partition = match &last {
                Some((array, number, partition)) if (*array, *number) == name => partition.clone(),
                _ => self.partition(place.array, place.partition).await?,
            };
            if let (Some(partition), Some(slot)) = (&partition, found.get_mut(*at)) {
                *slot = partition.get(place.row).map(Reference::into_owned);
            }
            last = Some((name.0, name.1, partition));
        }
        Ok(found)
    }

    async fn partition(&self, array: &str, number: u64) -> Result<Shared> {
        let name = (array.to_owned(), number);
        // A lock that another thread held at a fork is never released in the child: then nothing is cached.
        if let Ok(mut cache) = self.cache.try_lock() {
            cache.clock += 1;
            let now = cache.clock;
            if let Some((used, partition)) = cache.partitions.get_mut(&name) {
                *used = now;
                return Ok(partition.clone());
            }
        }
        let partition = self.read_partition(array, number).await?;
        if let Ok(mut cache) = self.cache.try_lock() {
            let now = cache.clock;
            if cache.partitions.len() >= self.most_cached {
                let oldest = cache.partitions.iter().min_by_key(|(_, (used, _))| *used);
                if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                    cache.partitions.remove(&oldest);
                }
            }
            cache.partitions.insert(name, (now, partition.clone()));
        }
        Ok(partition)
    }

    async fn read_partition(&self, array: &str, number: u64) -> Result<Shared> {
        let path = format!("{array}/refs.{number}.parq");
        let file = match self.store.read(&path, MOST_FILE).await {
            Ok(file) => file,
            Err(pilum_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let path = format!("{}/{path}", self.store.uri());
        Ok(Some(Arc::new(Partition::decode(&path, file)?)))
    }

    /// The metadata keys, and of the arrays that the prefix can match all chunks that exist.
    ///
    /// # Errors
    /// When a partition cannot be read.
    pub async fn load(&self, prefix: &str) -> Result<ReferenceSet> {
        let mut set = self.metadata.clone();
        for (array, grid) in &self.arrays {
            let folder = format!("{array}/");
            if folder.starts_with(prefix) || prefix.starts_with(&folder) {
                self.load_array(array, grid, &mut set).await?;
            }
        }
        set.shrink();
        Ok(set)
    }

    /// The URL of the first reference that has one; partitions are read until one is found.
    ///
    /// # Errors
    /// When a partition cannot be read.
    pub async fn first_url(&self) -> Result<Option<String>> {
        for (array, grid) in &self.arrays {
            let count = grid.len().unwrap_or_default().div_ceil(self.record_size);
            for number in 0..count.min(LISTED) {
                let Some(partition) = self.partition(array, number).await? else {
                    continue;
                };
                let urls = (0..partition.len()).filter_map(|row| match partition.get(row) {
                    Some(Reference::File { url } | Reference::Range { url, .. }) => url,
                    _ => None,
                });
                if let Some(url) = urls.map(|it| it.into_owned()).next() {
                    return Ok(Some(url));
                }
            }
        }
        Ok(None)
    }

    async fn load_array(&self, array: &str, grid: &Grid, set: &mut ReferenceSet) -> Result<()> {
        let cells = grid.len().ok_or_else(|| {
            Fault::limit("the array has more chunks than 64 bits count").at(array, ".zarray")
        })?;
        let count = cells.div_ceil(self.record_size);
        // Metadata may claim any number of chunks: then files are listed instead of asked for one by one.
        let numbers: Vec<u64> = if count > LISTED {
            let mut numbers = Vec::new();
            for listed in self.store.list(array).await? {
                let name = listed.path.rsplit('/').next().unwrap_or_default();
                let number = name
                    .strip_prefix("refs.")
                    .and_then(|it| it.strip_suffix(".parq"));
                numbers.extend(
                    number
                        .and_then(|it| it.parse::<u64>().ok())
                        .filter(|it| *it < count),
                );
            }
            numbers.sort_unstable();
            numbers
        } else {
            (0..count).collect()
        };
        let mut key = String::new();
        for number in numbers {
            // Not through the cache: a whole scan would empty it.
            let Some(partition) = self.read_partition(array, number).await? else {
                continue;
            };
            let first = number * self.record_size;
            for row in 0..partition.len() {
                let index = first + row as u64;
                if index >= cells || row as u64 >= self.record_size {
                    break;
                }
                if let Some(value) = partition.get(row) {
                    key.clear();
                    key.push_str(array);
                    key.push('/');
                    grid.push_indices(index, &mut key);
                    set.insert(&key, &value)?;
                }
            }
        }
        Ok(())
    }
}

/// The arrays of a set with their grids, and the other metadata.
pub(crate) fn array_of<'a>(
    arrays: &'a BTreeMap<String, Grid>,
    key: &'a str,
) -> Option<(&'a str, &'a Grid, &'a str)> {
    splits(key).find_map(|(array, rest)| arrays.get(array).map(|grid| (array, grid, rest)))
}

/// An error for a set that this layout cannot hold.
pub(crate) fn refused(key: &str, reason: &str) -> Error {
    let feature = format!("key {} in Parquet references", shown(key));
    let unsupported = CommonError::unsupported(feature, format!("{reason}; write JSON instead"));
    unsupported.at("the set").into()
}
