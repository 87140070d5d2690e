//! Combines sets into one: concatenated along a dimension, or merged. Chunk keys are renumbered; no data is read.

use std::collections::BTreeMap;

use crate::error::{Error, Fault, Result};
use crate::grid::{Grid, splits};
use crate::json::Json;
use crate::set::ReferenceSet;
use crate::value::{Reference, decoded};

/// How sets are concatenated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concatenation {
    /// The dimension.
    pub dimension: String,
    /// Whether every array gets it as a new first axis, of one set each; otherwise arrays that have it grow along it.
    pub is_new: bool,
    /// Arrays that are left out: their values are set by the caller.
    pub skipped: Vec<String>,
}

/// Takes sets one after the other, so that only one input and the result are in memory.
#[derive(Debug)]
pub struct Combiner {
    how: Concatenation,
    result: ReferenceSet,
    arrays: BTreeMap<String, Combined>,
    num_sets: u64,
}

#[derive(Debug)]
struct Combined {
    metadata: Json,
    grid: Grid,
    axis: Option<usize>,
    /// The length along the axis so far, and its chunks.
    length: u64,
    chunks_before: u64,
}

impl Combiner {
    /// A combiner without sets.
    #[must_use]
    pub fn new(how: Concatenation) -> Self {
        Self {
            how,
            result: ReferenceSet::new(),
            arrays: BTreeMap::new(),
            num_sets: 0,
        }
    }

    /// Adds a set behind those before it.
    ///
    /// # Errors
    /// [`Error::Invalid`] when its arrays do not fit: other types or chunks, or a length that is no whole number of chunks
    /// although another set follows.
    pub fn add(&mut self, set: &ReferenceSet) -> Result<()> {
        let arrays = arrays_of(set)?;
        let mut places: BTreeMap<&str, (&Grid, Option<usize>, u64)> = BTreeMap::new();
        for (name, (metadata, dimensions)) in &arrays {
            if self.how.skipped.contains(name) {
                continue;
            }
            let grid = Grid::of(metadata, &format!("{name}/.zarray"))?;
            let axis = self.axis(name, dimensions);
            let combined = match self.arrays.get_mut(name) {
                Some(combined) => combined,
                None if self.num_sets > 0 => {
                    let reason = "the array is missing in a set before this one";
                    return Err(Fault::value(reason).at(name, format!("set {}", self.num_sets)));
                }
                None => self.arrays.entry(name.clone()).or_insert(Combined {
                    metadata: metadata.clone(),
                    grid,
                    axis,
                    length: 0,
                    chunks_before: 0,
                }),
            };
            combined.fits(metadata, name, (self.num_sets, self.how.is_new))?;
        }
        for (name, combined) in &self.arrays {
            if !arrays.contains_key(name) {
                let fault = Fault::value("the set has no such array, but those before it have");
                return Err(fault.at(name, format!("set {}", self.num_sets)));
            }
            places.insert(
                name,
                (&combined.grid, combined.axis, combined.chunks_before),
            );
        }
        let mut renumbered = String::new();
        for (key, value) in set.iter() {
            let found = splits(key)
                .find_map(|(array, rest)| places.get(array).map(|it| (array, rest, *it)));
            let is_skipped =
                splits(key).any(|(array, _)| self.how.skipped.iter().any(|it| it == array));
            if is_skipped || key == ".zmetadata" {
                continue;
            }
            let Some((array, rest, (grid, axis, before))) = found else {
                keep_first(&mut self.result, key, &value)?;
                continue;
            };
            if rest.starts_with(".z") {
                keep_first(&mut self.result, key, &value)?;
                continue;
            }
            let Some(axis) = axis else {
                keep_first(&mut self.result, key, &value)?;
                continue;
            };
            renumbered.clear();
            let well = renumber(
                array,
                rest,
                (grid, axis, before),
                self.how.is_new,
                &mut renumbered,
            );
            if !well {
                return Err(Fault::value("the key is no chunk of its array").at(key, "key"));
            }
            self.result.insert(&renumbered, &value)?;
        }
        for (name, combined) in &mut self.arrays {
            if let (Some(axis), Some((metadata, _))) = (combined.axis, arrays.get(name)) {
                combined.grow(metadata, axis, self.how.is_new);
            }
        }
        self.num_sets += 1;
        Ok(())
    }

    fn axis(&self, name: &str, dimensions: &[String]) -> Option<usize> {
        if !self.how.is_new {
            return dimensions.iter().position(|it| *it == self.how.dimension);
        }
        // The coordinates of other dimensions are the same in every set.
        let own = name.rsplit('/').next().unwrap_or_default();
        let is_coordinate = dimensions.len() == 1 && dimensions.first().is_some_and(|it| it == own);
        (!is_coordinate).then_some(0)
    }

    /// The combined set.
    ///
    /// # Errors
    /// `InvalidInput` when no set was added, or none of their arrays has the dimension.
    pub fn finish(mut self) -> Result<ReferenceSet> {
        if self.num_sets == 0 {
            return Err(Error::invalid("combine", "there is no set"));
        }
        let has_dimension = self.arrays.values().any(|it| it.axis.is_some());
        if !has_dimension && self.how.skipped.is_empty() {
            let reason = format!("no array has the dimension {:?}", self.how.dimension);
            return Err(Error::invalid("combine", reason));
        }
        for (name, combined) in &std::mem::take(&mut self.arrays) {
            let Some(axis) = combined.axis else {
                continue;
            };
            let mut metadata = combined.metadata.clone();
            set_axis(
                &mut metadata,
                "shape",
                axis,
                combined.length,
                self.how.is_new,
            );
            if self.how.is_new {
                set_axis(&mut metadata, "chunks", 0, 1, true);
                self.add_dimension(name)?;
            }
            self.put_json(&format!("{name}/.zarray"), &metadata)?;
        }
        self.result.shrink();
        Ok(self.result)
    }

    fn add_dimension(&mut self, name: &str) -> Result<()> {
        let key = format!("{name}/.zattrs");
        let mut attributes = match self.result.get(&key) {
            Some(value) => json_of(&key, &value)?,
            None => Json::Object(Vec::new()),
        };
        if let Json::Object(members) = &mut attributes {
            let dimensions = members
                .iter_mut()
                .find(|(name, _)| name == "_ARRAY_DIMENSIONS");
            if let Some((_, Json::Array(items))) = dimensions {
                items.insert(0, Json::Text(self.how.dimension.clone()));
            }
        }
        self.put_json(&key, &attributes)
    }

    fn put_json(&mut self, key: &str, json: &Json) -> Result<()> {
        let mut text = String::new();
        json.write(&mut text);
        self.result
            .insert(key, &Reference::Inline(text.into_bytes().into()))
    }
}

impl Combined {
    /// Refuses an array that cannot stand behind the others.
    fn fits(&self, metadata: &Json, name: &str, (set, is_new): (u64, bool)) -> Result<()> {
        let at = |reason: String, member: &str| {
            Fault::value(reason).at(&format!("{name}/.zarray"), format!("{member} in set {set}"))
        };
        for member in [
            "chunks",
            "dtype",
            "compressor",
            "filters",
            "order",
            "dimension_separator",
        ] {
            if metadata.get(member) != self.metadata.get(member) {
                return Err(at(
                    "it differs from that of the sets before".to_owned(),
                    member,
                ));
            }
        }
        let (shape, first) = (numbers(metadata, "shape"), numbers(&self.metadata, "shape"));
        let differs = shape.len() != first.len()
            || shape
                .iter()
                .zip(&first)
                .enumerate()
                .any(|(at, (a, b))| a != b && (is_new || Some(at) != self.axis));
        if differs {
            return Err(at(
                "it differs from that of the sets before".to_owned(),
                "shape",
            ));
        }
        let chunk = self
            .axis
            .and_then(|axis| numbers(&self.metadata, "chunks").get(axis).copied());
        if let (Some(chunk), false) = (chunk, is_new)
            && !self.length.is_multiple_of(chunk.max(1))
        {
            let reason = format!(
                "the sets before end within a chunk: length {} is no multiple of {chunk}; pass the values with coords= if this is a coordinate",
                self.length
            );
            return Err(at(reason, "shape"));
        }
        Ok(())
    }

    fn grow(&mut self, metadata: &Json, axis: usize, is_new: bool) {
        if is_new {
            self.length += 1;
            self.chunks_before += 1;
            return;
        }
        let length = numbers(metadata, "shape")
            .get(axis)
            .copied()
            .unwrap_or_default();
        let chunk = numbers(metadata, "chunks")
            .get(axis)
            .copied()
            .unwrap_or(1)
            .max(1);
        self.length = self.length.saturating_add(length);
        self.chunks_before = self.length.div_ceil(chunk);
    }
}

fn keep_first(result: &mut ReferenceSet, key: &str, value: &Reference<'_>) -> Result<()> {
    if result.find(key).is_none() {
        result.insert(key, value)?;
    }
    Ok(())
}

/// Appends the key of a chunk at its new place; false for a key that is no chunk.
fn renumber(
    array: &str,
    rest: &str,
    place: (&Grid, usize, u64),
    is_new: bool,
    out: &mut String,
) -> bool {
    use std::fmt::Write;
    let (grid, axis, before) = place;
    out.push_str(array);
    out.push('/');
    let separator = grid.separator;
    if is_new {
        // A scalar's only chunk has the key 0, and no axis.
        let _ = write!(out, "{before}");
        if !grid.is_scalar {
            out.push(separator);
            out.push_str(rest);
        }
        return true;
    }
    let mut is_well = false;
    for (at, part) in rest.split(separator).enumerate() {
        if at > 0 {
            out.push(separator);
        }
        if at == axis {
            let Ok(number) = part.parse::<u64>() else {
                return false;
            };
            let _ = write!(out, "{}", number.saturating_add(before));
            is_well = true;
        } else {
            out.push_str(part);
        }
    }
    is_well
}

fn numbers(metadata: &Json, member: &str) -> Vec<u64> {
    match metadata.get(member) {
        Some(Json::Array(items)) => items.iter().filter_map(Json::as_u64).collect(),
        _ => Vec::new(),
    }
}

fn set_axis(metadata: &mut Json, member: &str, axis: usize, length: u64, inserts: bool) {
    let Json::Object(members) = metadata else {
        return;
    };
    for (_, value) in members.iter_mut().filter(|(name, _)| name == member) {
        if let Json::Array(items) = value {
            let length = Json::Number(length.to_string());
            if inserts {
                items.insert(axis.min(items.len()), length);
            } else if let Some(slot) = items.get_mut(axis) {
                *slot = length;
            }
        }
    }
}

fn json_of(key: &str, value: &Reference<'_>) -> Result<Json> {
    let Reference::Inline(stored) = value else {
        return Err(Fault::value("metadata must be held inline").at(key, "value"));
    };
    let bytes = decoded(stored).map_err(|fault| fault.at(key, "value"))?;
    Json::parse(key, &bytes)
}

type Arrays = BTreeMap<String, (Json, Vec<String>)>;

/// The metadata and the names of the dimensions of every array.
fn arrays_of(set: &ReferenceSet) -> Result<Arrays> {
    let mut arrays = Arrays::new();
    for (key, value) in set.iter() {
        let Some(name) = key.strip_suffix("/.zarray") else {
            continue;
        };
        let metadata = json_of(key, &value)?;
        let attributes = format!("{name}/.zattrs");
        let dimensions = match set.get(&attributes) {
            Some(value) => match json_of(&attributes, &value)?.get("_ARRAY_DIMENSIONS") {
                Some(Json::Array(items)) => items
                    .iter()
                    .filter_map(Json::as_text)
                    .map(str::to_owned)
                    .collect(),
                _ => Vec::new(),
            },
            None => Vec::new(),
        };
        arrays.insert(name.to_owned(), (metadata, dimensions));
    }
    Ok(arrays)
}

/// Which value a key gets that two merged sets have with different values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnConflict {
    /// None: merging fails. Metadata of groups and attributes of the root are taken from the first set.
    Error,
    /// That of the first set.
    First,
    /// That of the last set.
    Last,
}

/// Adds the keys of `from` to `to`.
///
/// # Errors
/// [`Error::Invalid`] for a key with two values, by [`OnConflict::Error`].
pub fn merge(to: &mut ReferenceSet, from: &ReferenceSet, on_conflict: OnConflict) -> Result<()> {
    for (key, value) in from.iter() {
        if key == ".zmetadata" {
            to.remove(key);
            continue;
        }
        let is_different = to.get(key).is_some_and(|it| !it.means_same(&value));
        let is_group = key == ".zattrs" || key == ".zgroup" || key.ends_with("/.zgroup");
        match on_conflict {
            OnConflict::Error if is_different && !is_group => {
                let reason =
                    "two sets have different values; pass on_conflict=\"first\" or \"last\"";
                return Err(Fault::value(reason).at(key, "value"));
            }
            OnConflict::Last => to.insert(key, &value)?,
            _ if to.find(key).is_none() => to.insert(key, &value)?,
            _ => {}
        }
    }
    Ok(())
}

impl ReferenceSet {
    /// Replaces the beginnings of URLs: of the pairs whose first text a URL begins with, the longest counts. Returns the
    /// number of distinct URLs that changed.
    ///
    /// # Errors
    /// `Limit` when the URLs grow beyond what a set holds.
    pub fn rewrite(&mut self, prefixes: &[(String, String)]) -> Result<usize> {
        let mut count = 0;
        self.map_urls(|url| {
            let fitting = prefixes
                .iter()
                .filter(|(from, _)| url.starts_with(from.as_str()));
            Ok(fitting
                .max_by_key(|(from, _)| from.len())
                .map(|(from, to)| {
                    count += 1;
                    format!("{to}{}", url.get(from.len()..).unwrap_or_default())
                }))
        })?;
        Ok(count)
    }
}
