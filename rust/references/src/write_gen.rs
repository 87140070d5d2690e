//! Regular arrays as entries of `gen`: the references of an array whose chunks lie in a file at equal distances are one line of
//! arithmetic instead of one line per chunk.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::expand::MAX_REFERENCES;
use crate::grid::{Grid, splits};
use crate::json::{Json, write_text};
use crate::set::ReferenceSet;
use crate::value::{Reference, decoded};

/// The fewest references that an entry stands for: fewer are shorter as they are.
const FEWEST: u64 = 16;
const ABSENT: u32 = u32::MAX;

/// Entries of `gen`, and the references that they stand for.
#[derive(Debug, Default)]
pub(crate) struct Generated {
    /// The entries, with commas between them.
    pub(crate) text: String,
    /// By number of a key, whether an entry makes it; empty without entries.
    pub(crate) is_made: Vec<bool>,
}

impl Generated {
    /// Finds the regular arrays of a set. `urls` are the texts of its URLs, ready for the document.
    ///
    /// The chunks of an array may lie in one file, or its first axes may choose the file. Of the other axes each must move the
    /// offset by a distance of its own, and all chunks must have one size.
    pub(crate) fn of(set: &ReferenceSet, urls: &[String]) -> Self {
        let mut made = Self::default();
        let mut arrays = arrays(set);
        for number in set.numbers() {
            let Some((key, Reference::Range { .. })) = set.entry(number) else {
                continue;
            };
            let found = splits(key).find_map(|(name, rest)| {
                let place = arrays.get(name)?.grid.index(rest)?;
                Some((name, place))
            });
            let slot = found.and_then(|(name, place)| {
                let cells = &mut arrays.get_mut(name)?.cells;
                cells.get_mut(usize::try_from(place).ok()?)
            });
            if let (Some(slot), Ok(number)) = (slot, u32::try_from(number)) {
                *slot = number;
            }
        }
        let mut left = MAX_REFERENCES;
        for (name, array) in &arrays {
            made.add(set, urls, (name, array), &mut left);
        }
        made
    }

    fn add(
        &mut self,
        set: &ReferenceSet,
        urls: &[String],
        (name, array): (&str, &Array),
        left: &mut u64,
    ) {
        let counts = array.grid.counts.as_slice();
        // The first axes choose the file: as few of them as leave one file in the first block.
        let size = |fixed: usize| -> usize {
            let free = counts.get(fixed..).unwrap_or_default();
            usize::try_from(free.iter().product::<u64>()).unwrap_or(usize::MAX)
        };
        let is_one_file = |fixed: &usize| {
            let first = array.cells.get(..size(*fixed)).unwrap_or_default();
            let url = |cell: &u32| set.url_number(*cell as usize);
            let of_first = first.first().and_then(url);
            of_first.is_some() && first.iter().all(|cell| url(cell) == of_first)
        };
        let Some(fixed) = (0..counts.len()).find(is_one_file) else {
            return;
        };
        let size = size(fixed);
        if (size as u64) < FEWEST {
            return;
        }
        let free = counts.get(fixed..).unwrap_or_default();
        for (block, cells) in array.cells.chunks(size).enumerate() {
            let Some(line) = Line::of(set, cells, free) else {
                continue;
            };
            let (Some(rest), Some(url)) = (left.checked_sub(size as u64), urls.get(line.url))
            else {
                continue;
            };
            *left = rest;
            self.is_made.resize(set.numbers().end, false);
            for cell in cells {
                if let Some(is_made) = self.is_made.get_mut(*cell as usize) {
                    *is_made = true;
                }
            }
            let mut key = format!("{name}/");
            push_key(&array.grid, fixed, block * size, &mut key);
            self.push(&key, url, &line, (fixed, free));
        }
    }

    fn push(&mut self, key: &str, url: &str, line: &Line, (fixed, free): (usize, &[u64])) {
        if !self.text.is_empty() {
            self.text.push(',');
        }
        let text = &mut self.text;
        text.push_str("{\"key\":");
        write_text(text, key);
        // Writing to a text does not fail.
        let _ = write!(text, ",\"url\":{url},\"offset\":\"{{{{{}", line.base);
        for (at, step) in line.steps.iter().enumerate().filter(|(_, step)| **step > 0) {
            let _ = write!(text, "+i{}*{step}", fixed + at);
        }
        let _ = write!(
            text,
            "}}}}\",\"length\":\"{}\",\"dimensions\":{{",
            line.size
        );
        for (at, count) in free.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = write!(text, "{comma}\"i{}\":{{\"stop\":{count}}}", fixed + at);
        }
        text.push_str("}}");
    }
}

/// An array, and by chunk in C order the number of its key.
struct Array {
    grid: Grid,
    cells: Vec<u32>,
}

/// The arrays whose grids have no more chunks than there are keys, and enough of them.
fn arrays(set: &ReferenceSet) -> BTreeMap<String, Array> {
    let mut found = BTreeMap::new();
    let mut left = set.len() as u64;
    for (key, bytes) in set.inline() {
        let Some(name) = key.strip_suffix("/.zarray") else {
            continue;
        };
        // A brace in a name would be read as a part of an expression.
        if name.contains(['{', '}', '\n', '\r']) {
            continue;
        }
        let metadata = decoded(bytes)
            .ok()
            .and_then(|bytes| Json::parse(key, &bytes).ok());
        let grid = metadata.and_then(|metadata| Grid::of(&metadata, key).ok());
        let Some((grid, len)) = grid.and_then(|grid| grid.len().map(|len| (grid, len))) else {
            continue;
        };
        let (Some(rest), Ok(count)) = (left.checked_sub(len), usize::try_from(len)) else {
            continue;
        };
        if grid.is_scalar || len < FEWEST {
            continue;
        }
        left = rest;
        let cells = vec![ABSENT; count];
        found.insert(name.to_owned(), Array { grid, cells });
    }
    found
}

/// Appends the indices of a chunk: those of the first axes as numbers, the others as variables.
fn push_key(grid: &Grid, fixed: usize, index: usize, out: &mut String) {
    let mut indices = String::new();
    grid.push_indices(index as u64, &mut indices);
    for (axis, number) in indices.split(grid.separator).enumerate() {
        if axis > 0 {
            out.push(grid.separator);
        }
        if axis < fixed {
            out.push_str(number);
        } else {
            let _ = write!(out, "{{{{i{axis}}}}}");
        }
    }
}

/// Chunks of one file at equal distances.
#[derive(Debug)]
struct Line {
    url: usize,
    base: i64,
    /// By axis, how far its next index is.
    steps: Vec<i64>,
    size: i64,
}

impl Line {
    /// The rule of all `cells`, which are in C order; none when one of them breaks it.
    fn of(set: &ReferenceSet, cells: &[u32], counts: &[u64]) -> Option<Self> {
        let range = |cell: &u32| match set.entry(*cell as usize)? {
            (_, Reference::Range { offset, size, .. }) if offset >= 0 && size >= 0 => {
                Some((set.url_number(*cell as usize)?, offset, size))
            }
            _ => None,
        };
        let (url, base, size) = range(cells.first()?)?;
        let mut steps = vec![0_i64; counts.len()];
        let mut distance = 1_usize;
        for (step, count) in steps.iter_mut().zip(counts).rev() {
            if *count > 1 {
                let (_, offset, _) = range(cells.get(distance)?)?;
                *step = offset.checked_sub(base).filter(|step| *step >= 0)?;
            }
            distance = distance.checked_mul(usize::try_from(*count).ok()?)?;
        }
        let line = Self {
            url,
            base,
            steps,
            size,
        };
        let mut places = vec![0_u64; counts.len()];
        for cell in cells {
            let wanted = line.offset(&places)?;
            if range(cell)? != (url, wanted, size) {
                return None;
            }
            for (place, count) in places.iter_mut().zip(counts).rev() {
                *place += 1;
                if *place < *count {
                    break;
                }
                *place = 0;
            }
        }
        Some(line)
    }

    fn offset(&self, places: &[u64]) -> Option<i64> {
        let mut offset = self.base;
        for (step, place) in self.steps.iter().zip(places) {
            let moved = step.checked_mul(i64::try_from(*place).ok()?)?;
            offset = offset.checked_add(moved)?;
        }
        Some(offset)
    }
}
