//! The chunk grid of a zarr version 2 array: chunk keys and their numbers in C order.

use crate::error::{Fault, Result};
use crate::json::Json;
use crate::lang::append_int;

/// The grid of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Chunks along each axis; `[1]` for a scalar.
    pub(crate) counts: Vec<u64>,
    /// Whether the array has no axes.
    pub(crate) is_scalar: bool,
    /// What stands between the indices of a key.
    pub(crate) separator: char,
}

/// More axes than any array has.
const MOST_AXES: usize = 64;

impl Grid {
    /// The grid that the metadata of an array describes.
    pub(crate) fn of(metadata: &Json, key: &str) -> Result<Self> {
        let numbers = |member: &str| -> Result<Vec<u64>> {
            let wrong = || Fault::value("an array of integers is expected").at(key, member);
            let Some(Json::Array(items)) = metadata.get(member) else {
                return Err(wrong());
            };
            if items.len() > MOST_AXES {
                return Err(
                    Fault::limit(format!("an array has at most {MOST_AXES} axes")).at(key, member),
                );
            }
            items
                .iter()
                .map(|it| it.as_u64().ok_or_else(wrong))
                .collect()
        };
        let (shape, chunks) = (numbers("shape")?, numbers("chunks")?);
        if shape.len() != chunks.len() {
            return Err(Fault::value("shape and chunks have different lengths").at(key, "chunks"));
        }
        if chunks.contains(&0) {
            return Err(Fault::value("a chunk has length 0").at(key, "chunks"));
        }
        let counts = shape
            .iter()
            .zip(&chunks)
            .map(|(length, chunk)| length.div_ceil(*chunk));
        let mut counts: Vec<u64> = counts.collect();
        let is_scalar = counts.is_empty();
        if is_scalar {
            counts.push(1);
        }
        let separator = match metadata.get("dimension_separator").and_then(Json::as_text) {
            Some("/") => '/',
            _ => '.',
        };
        Ok(Self {
            counts,
            is_scalar,
            separator,
        })
    }

    /// The number of chunks; `None` beyond 64 bits.
    pub(crate) fn len(&self) -> Option<u64> {
        self.counts
            .iter()
            .try_fold(1_u64, |total, count| total.checked_mul(*count))
    }

    /// The number of the chunk with these indices; `None` outside of the grid.
    pub(crate) fn index(&self, indices: &str) -> Option<u64> {
        let mut parts = indices.split(self.separator);
        let mut index = 0_u64;
        for count in &self.counts {
            let part = parts.next()?;
            let is_plain =
                part == "0" || !part.starts_with('0') && part.bytes().all(|it| it.is_ascii_digit());
            let at: u64 = part.parse().ok().filter(|_| is_plain)?;
            if at >= *count {
                return None;
            }
            index = index.checked_mul(*count)?.checked_add(at)?;
        }
        parts.next().is_none().then_some(index)
    }

    /// Appends the indices of a chunk.
    pub(crate) fn push_indices(&self, index: u64, out: &mut String) {
        let mut rest = index;
        let mut indices = [0_u64; MOST_AXES];
        for (slot, count) in indices.iter_mut().rev().zip(self.counts.iter().rev()) {
            *slot = rest % (*count).max(1);
            rest /= (*count).max(1);
        }
        let used = indices.get(MOST_AXES - self.counts.len().min(MOST_AXES)..);
        for (at, it) in used.unwrap_or_default().iter().enumerate() {
            if at > 0 {
                out.push(self.separator);
            }
            append_int(out, i64::try_from(*it).unwrap_or(i64::MAX));
        }
    }
}

/// Splits a key into the array and the rest, at every slash from the last to the first.
pub(crate) fn splits(key: &str) -> impl Iterator<Item = (&str, &str)> {
    let slashes = key.char_indices().rev().filter(|(_, it)| *it == '/');
    slashes.filter_map(|(at, _)| Some((key.get(..at)?, key.get(at + 1..)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(text: &str) -> Grid {
        Grid::of(&Json::parse("test", text.as_bytes()).unwrap(), "x/.zarray").unwrap()
    }

    #[test]
    fn numbers_are_in_c_order() {
        let grid = grid(r#"{"shape": [5, 11], "chunks": [2, 3]}"#);
        assert_eq!(
            (grid.counts.as_slice(), grid.len()),
            ([3, 4].as_slice(), Some(12))
        );
        assert_eq!(grid.index("2.1"), Some(9));
        let mut text = String::new();
        grid.push_indices(9, &mut text);
        assert_eq!(text, "2.1");
        for outside in [
            "3.0", "0.4", "1", "1.1.1", "01.1", "a.b", "", "-1.0", "+1.0",
        ] {
            assert_eq!(grid.index(outside), None, "{outside}");
        }
    }

    #[test]
    fn a_scalar_has_one_chunk() {
        let grid = grid(r#"{"shape": [], "chunks": []}"#);
        assert_eq!(
            (grid.len(), grid.index("0"), grid.index("1")),
            (Some(1), Some(0), None)
        );
    }
}
