//! Writes sets to folders of Parquet files, with the columns and encodings that fsspec, kerchunk and fastparquet read.

use std::collections::BTreeMap;

use bytes::Bytes;
use pilum_store::Store;

use crate::document::malformed_value;
use crate::error::{Error, Result};
use crate::grid::Grid;
use crate::json::{Json, write_text};
use crate::parquet_set::{ZMETADATA, array_of, refused};
use crate::partition::Rows;
use crate::set::ReferenceSet;
use crate::value::{Reference, decoded, raw_of};

/// References per file, unless the caller says another number.
pub const RECORD_SIZE: u64 = 100_000;

/// Writes a set to the root of `store`, which may hold another set: its files are removed first, and `.zmetadata` is written
/// last, so that an unfinished set cannot be opened.
///
/// # Errors
/// `Unsupported` for keys that the layout cannot hold, such as those of zarr version 3, and for malformed values;
/// nothing is removed or written then.
pub async fn write_parquet(set: &ReferenceSet, store: &Store, record_size: u64) -> Result<()> {
    if !(1..=1 << 24).contains(&record_size) {
        return Err(Error::invalid("record_size", "1 to 16777216 is expected"));
    }
    let layout = Layout::of(set)?;
    let places = layout.places(set)?;
    for number in set.numbers() {
        check(set, number)?;
    }
    remove_old(store).await?;
    let mut rest = places.as_slice();
    while let Some((array, first, _)) = rest.first() {
        let partition = first / record_size;
        let count =
            rest.partition_point(|(at, index, _)| (at, index / record_size) <= (array, partition));
        let (part, after) = rest.split_at(count);
        rest = after;
        let name = layout.names.get(*array).map_or("", |it| it.as_str());
        let path = format!("{name}/refs.{partition}.parq");
        let file = encode(set, part, (&path, record_size))?;
        store.put(&path, file).await?;
    }
    store.put(ZMETADATA, layout.metadata(record_size)).await?;
    Ok(())
}

/// Removes the files of a set that lies there. Other files are refused: the folder may be the wrong one.
async fn remove_old(store: &Store) -> Result<()> {
    let listed = store.list_recursive("").await?;
    let is_ours = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name == ZMETADATA
            || name.starts_with("refs.") && name.ends_with(".parq")
            || name.starts_with(".tmp-")
    };
    if let Some(other) = listed.iter().find(|it| !is_ours(&it.path)) {
        return Err(Error::invalid(
            format!("{}/{}", store.uri(), other.path),
            "the folder holds files that are no Parquet references; choose another folder",
        ));
    }
    store.delete(ZMETADATA).await?;
    for old in listed {
        store.delete(&old.path).await?;
    }
    Ok(())
}

fn check(set: &ReferenceSet, number: usize) -> Result<()> {
    match set.entry(number) {
        Some((key, Reference::Malformed { json })) => Err(malformed_value(&json).at(key)),
        Some((key, Reference::File { url: None } | Reference::Range { url: None, .. })) => {
            Err(refused(
                key,
                "its URL is null, which the layout reads as a missing chunk",
            ))
        }
        _ => Ok(()),
    }
}

fn encode(set: &ReferenceSet, part: &[(usize, u64, usize)], to: (&str, u64)) -> Result<Bytes> {
    let (path, record_size) = to;
    let mut rows = Rows::missing(usize::try_from(record_size).unwrap_or(usize::MAX));
    for (_, index, number) in part {
        let row = usize::try_from(index % record_size).unwrap_or(usize::MAX);
        let Some((key, value)) = set.entry(*number) else {
            continue;
        };
        match value {
            Reference::Inline(bytes) => {
                let raw = raw_of(&bytes).map_err(|fault| fault.at(key, "value"))?;
                rows.set_raw(row, &raw);
            }
            Reference::File { url: Some(url) } => rows.set_range(row, &url, None),
            // The layout would read this range as the whole file.
            Reference::Range {
                offset: 0, size: 0, ..
            } => rows.set_raw(row, b""),
            Reference::Range {
                url: Some(url),
                offset,
                size,
            } => rows.set_range(row, &url, Some((offset, size))),
            _ => {}
        }
    }
    rows.encode(path)
}

/// Which keys are metadata, and which array every other key belongs to.
struct Layout {
    metadata: BTreeMap<String, Json>,
    arrays: BTreeMap<String, Grid>,
    names: Vec<String>,
}

fn is_metadata(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or_default();
    matches!(name, ".zgroup" | ".zarray" | ".zattrs") || !key.contains('/')
}

impl Layout {
    fn of(set: &ReferenceSet) -> Result<Self> {
        let mut layout = Self {
            metadata: BTreeMap::new(),
            arrays: BTreeMap::new(),
            names: Vec::new(),
        };
        for (key, value) in set.iter() {
            if key == ZMETADATA {
                continue;
            }
            if key == ".zarray" {
                return Err(refused(key, "an array at the root has no folder"));
            }
            if key == "zarr.json" || key.ends_with("/zarr.json") {
                return Err(refused(key, "the layout holds zarr version 2 only"));
            }
            if !is_metadata(key) {
                continue;
            }
            let Reference::Inline(stored) = value else {
                return Err(refused(key, "metadata must be held inline"));
            };
            let bytes = decoded(&stored).map_err(|fault| fault.at(key, "value"))?;
            let json = Json::parse(key, &bytes)
                .ok()
                .filter(|it| matches!(it, Json::Object(_)));
            let mut json =
                json.ok_or_else(|| refused(key, "a key without a folder must be a JSON object"))?;
            if let Some(array) = key.strip_suffix("/.zarray") {
                layout
                    .arrays
                    .insert(array.to_owned(), Grid::of(&json, key)?);
                // Chunk keys get dots, so the metadata says so.
                if let Json::Object(members) = &mut json {
                    for (_, value) in members
                        .iter_mut()
                        .filter(|(name, _)| name == "dimension_separator")
                    {
                        *value = Json::Text(".".to_owned());
                    }
                }
            }
            layout.metadata.insert(key.to_owned(), json);
        }
        layout.names = layout.arrays.keys().cloned().collect();
        Ok(layout)
    }

    /// The number of the array, the index and the entry of every chunk, sorted.
    fn places(&self, set: &ReferenceSet) -> Result<Vec<(usize, u64, usize)>> {
        let numbers: BTreeMap<&str, usize> = self
            .names
            .iter()
            .enumerate()
            .map(|(at, it)| (it.as_str(), at))
            .collect();
        let mut places = Vec::with_capacity(set.len());
        for number in set.numbers() {
            let Some((key, _)) = set.entry(number) else {
                continue;
            };
            if is_metadata(key) || key == ZMETADATA {
                continue;
            }
            let (array, grid, indices) = array_of(&self.arrays, key).ok_or_else(|| {
                refused(key, "it belongs to no array: there is no .zarray above it")
            })?;
            let index = grid.index(indices);
            let index =
                index.ok_or_else(|| refused(key, "it lies outside of the grid of its array"))?;
            let at = numbers.get(array).copied().unwrap_or_default();
            places.push((at, index, number));
        }
        places.sort_unstable();
        Ok(places)
    }

    fn metadata(&self, record_size: u64) -> Bytes {
        let mut text = "{\"metadata\":{".to_owned();
        for (at, (key, value)) in self.metadata.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            write_text(&mut text, key);
            text.push(':');
            value.write(&mut text);
        }
        text.push_str(&format!(
            "}},\"record_size\":{record_size},\"zarr_consolidated_format\":1}}"
        ));
        text.into()
    }
}
