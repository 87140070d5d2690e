//! One run of ids, in the cheapest of five forms.

use std::ops::Range;

use bytes::Bytes;

use super::array::IdArray;
use crate::error::{Error, Result};
use crate::proto::table as proto;
use crate::proto::table::u64_segment;

/// A run of ids. Every form knows its length without being walked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// All of the range.
    Range(Range<u64>),
    /// The range without the holes, which ascend and lie inside it.
    Holes {
        /// From the first id to behind the last one.
        range: Range<u64>,
        /// The ids of the range that are left out.
        holes: IdArray,
    },
    /// The ids of the range whose bit is set, least significant bit first; `len` bits are set.
    Bitmap {
        /// From the first id to behind the last one.
        range: Range<u64>,
        /// One bit per id of the range.
        bitmap: Bytes,
        /// Number of set bits.
        len: u64,
    },
    /// Ascending ids.
    Sorted(IdArray),
    /// Ids in any order.
    Array(IdArray),
}

impl Segment {
    /// The cheapest form of the values that `values` yields, each time it is called.
    pub(crate) fn choose<I: Iterator<Item = u64>>(values: impl Fn() -> I) -> Self {
        let mut all = values();
        let Some(first) = all.next() else {
            return Self::Range(0..0);
        };
        let (mut min, mut max, mut last) = (first, first, first);
        let (mut len, mut ascending) = (1u64, true);
        for value in all {
            ascending &= value > last;
            last = value;
            min = min.min(value);
            max = max.max(value);
            len += 1;
        }
        // The end of a range is exclusive, so the very last id of 64 bits needs an array.
        let Some(end) = max.checked_add(1).filter(|_| ascending) else {
            return Self::Array(IdArray::new(values(), min, max));
        };
        let slots = end - min;
        let holes = slots - len;
        if holes == 0 {
            return Self::Range(min..end);
        }
        // Estimated bytes of the three forms; on a tie the first wins.
        let with_holes = 24 + 4 * u128::from(holes);
        let with_bitmap = 24 + u128::from(slots.div_ceil(8));
        let sorted = 24 + 2 * u128::from(len);
        if with_holes <= with_bitmap && with_holes <= sorted {
            Self::with_holes(min..end, values)
        } else if with_bitmap <= sorted {
            Self::with_bitmap(min..end, len, values())
        } else {
            Self::Sorted(IdArray::new(values(), min, max))
        }
    }

    fn with_holes<I: Iterator<Item = u64>>(range: Range<u64>, values: impl Fn() -> I) -> Self {
        let missing = || {
            let mut next = range.start;
            values().flat_map(move |value| {
                let gap = next..value;
                next = value + 1;
                gap
            })
        };
        let min = missing().next().unwrap_or_default();
        let max = missing().last().unwrap_or_default();
        let holes = IdArray::new(missing(), min, max);
        Self::Holes { range, holes }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "cheaper than two bytes per value in memory"
    )]
    fn with_bitmap(range: Range<u64>, len: u64, values: impl Iterator<Item = u64>) -> Self {
        let mut bitmap = vec![0u8; (range.end - range.start).div_ceil(8) as usize];
        for value in values {
            let bit = value - range.start;
            bitmap[(bit / 8) as usize] |= 1 << (bit % 8);
        }
        Self::Bitmap {
            range,
            bitmap: bitmap.into(),
            len,
        }
    }

    /// Number of ids.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Range(range) => range.end - range.start,
            Self::Holes { range, holes } => range.end - range.start - holes.len() as u64,
            Self::Bitmap { len, .. } => *len,
            Self::Sorted(array) | Self::Array(array) => array.len() as u64,
        }
    }

    /// True without any id.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids in order.
    #[must_use]
    pub fn iter(&self) -> Box<dyn Iterator<Item = u64> + Send + '_> {
        match self {
            Self::Range(range) => Box::new(range.clone()),
            Self::Holes { range, holes } => {
                let mut next_hole = 0;
                Box::new(range.clone().filter(move |id| {
                    let is_hole = holes.get(next_hole) == Some(*id);
                    next_hole += usize::from(is_hole);
                    !is_hole
                }))
            }
            Self::Bitmap { range, bitmap, .. } => {
                let bits = bitmap.iter().zip((range.start..range.end).step_by(8));
                Box::new(bits.flat_map(|(byte, first)| {
                    (0..8u64.min(range.end - first))
                        .filter(move |bit| byte >> bit & 1 == 1)
                        .map(move |bit| first + bit)
                }))
            }
            Self::Sorted(array) | Self::Array(array) => Box::new(array.iter()),
        }
    }

    /// The ids in order, as runs of ids that follow each other: the first id and how many. No run is empty.
    ///
    /// A range is one run and a range with holes one more than its holes, however many ids they are.
    pub fn runs(&self) -> Box<dyn Iterator<Item = (u64, u64)> + Send + '_> {
        match self {
            Self::Range(range) => {
                let len = range.end - range.start;
                Box::new((len > 0).then_some((range.start, len)).into_iter())
            }
            Self::Holes { range, holes } => {
                let mut next = range.start;
                let ends = holes.iter().chain([range.end]);
                Box::new(ends.filter_map(move |end| {
                    let run = (next, end - next);
                    next = end.saturating_add(1);
                    (run.1 > 0).then_some(run)
                }))
            }
            Self::Bitmap { .. } | Self::Sorted(_) | Self::Array(_) => {
                let mut ids = self.iter().peekable();
                Box::new(std::iter::from_fn(move || {
                    let first = ids.next()?;
                    let mut len = 1;
                    while ids
                        .next_if(|id| first.checked_add(len) == Some(*id))
                        .is_some()
                    {
                        len += 1;
                    }
                    Some((first, len))
                }))
            }
        }
    }

    /// The id at `index`.
    pub(crate) fn get(&self, index: u64) -> Option<u64> {
        if index >= self.len() {
            return None;
        }
        match self {
            Self::Range(range) => Some(range.start + index),
            Self::Holes { range, holes } => {
                // A hole pushes the id on if no more than `index` ids lie before it.
                let (mut low, mut high) = (0, holes.len());
                while low < high {
                    let middle = low + (high - low) / 2;
                    let before = holes.get(middle)? - range.start - middle as u64;
                    if before <= index {
                        low = middle + 1;
                    } else {
                        high = middle;
                    }
                }
                Some(range.start + index + low as u64)
            }
            Self::Bitmap { .. } => self.iter().nth(usize::try_from(index).ok()?),
            Self::Sorted(array) | Self::Array(array) => array.get(usize::try_from(index).ok()?),
        }
    }

    /// The `len` ids from `offset` on, which must be there.
    pub(crate) fn slice(&self, offset: u64, len: u64) -> Self {
        if offset == 0 && len == self.len() {
            return self.clone();
        }
        match (self, usize::try_from(offset), usize::try_from(len)) {
            (Self::Range(range), ..) => {
                Self::Range(range.start + offset..range.start + offset + len)
            }
            (_, Ok(offset), Ok(len)) => Self::choose(|| self.iter().skip(offset).take(len)),
            _ => Self::Range(0..0),
        }
    }

    pub(crate) fn decode(segment: proto::U64Segment) -> Result<Self> {
        let range = |start: u64, end: u64| {
            if start > end {
                return Err(Error::corrupt(format!(
                    "row ids {start}..{end} run backwards"
                )));
            }
            Ok(start..end)
        };
        Ok(match segment.segment {
            None => Self::Range(0..0),
            Some(u64_segment::Segment::Range(it)) => Self::Range(range(it.start, it.end)?),
            Some(u64_segment::Segment::RangeWithHoles(it)) => {
                let range = range(it.start, it.end)?;
                let mut holes = IdArray::decode(it.holes.unwrap_or_default())?;
                if !holes.is_ascending() {
                    let mut sorted = Vec::with_capacity(holes.len());
                    sorted.extend(holes.iter());
                    sorted.sort_unstable();
                    sorted.dedup();
                    holes = IdArray::U64(sorted);
                }
                let inside = [
                    holes.get(0),
                    holes.len().checked_sub(1).and_then(|i| holes.get(i)),
                ];
                if inside
                    .into_iter()
                    .flatten()
                    .any(|hole| !range.contains(&hole))
                {
                    return Err(Error::corrupt(format!(
                        "a hole outside of the row ids {}..{}",
                        range.start, range.end
                    )));
                }
                Self::Holes { range, holes }
            }
            Some(u64_segment::Segment::RangeWithBitmap(it)) => {
                let range = range(it.start, it.end)?;
                let slots = range.end - range.start;
                let needed = slots.div_ceil(8);
                let have = it.bitmap.len() as u64;
                if have < needed {
                    return Err(Error::corrupt(format!(
                        "{slots} row ids need a bitmap of {needed} bytes, not {have}"
                    )));
                }
                let mut segment = Self::Bitmap {
                    range,
                    bitmap: it.bitmap,
                    len: 0,
                };
                let count = segment.iter().count() as u64;
                if let Self::Bitmap { len, .. } = &mut segment {
                    *len = count;
                }
                segment
            }
            Some(u64_segment::Segment::SortedArray(array)) => {
                let array = IdArray::decode(array)?;
                // Nothing depends on the promise of order; without it, it is just an array.
                if array.is_ascending() {
                    Self::Sorted(array)
                } else {
                    Self::Array(array)
                }
            }
            Some(u64_segment::Segment::Array(array)) => Self::Array(IdArray::decode(array)?),
        })
    }

    pub(crate) fn encode(&self) -> proto::U64Segment {
        let segment = match self {
            Self::Range(range) => u64_segment::Segment::Range(u64_segment::Range {
                start: range.start,
                end: range.end,
            }),
            Self::Holes { range, holes } => {
                u64_segment::Segment::RangeWithHoles(u64_segment::RangeWithHoles {
                    start: range.start,
                    end: range.end,
                    holes: Some(holes.encode()),
                })
            }
            Self::Bitmap { range, bitmap, .. } => {
                u64_segment::Segment::RangeWithBitmap(u64_segment::RangeWithBitmap {
                    start: range.start,
                    end: range.end,
                    bitmap: bitmap.clone(),
                })
            }
            Self::Sorted(array) => u64_segment::Segment::SortedArray(array.encode()),
            Self::Array(array) => u64_segment::Segment::Array(array.encode()),
        };
        proto::U64Segment {
            segment: Some(segment),
        }
    }
}
