//! The row ids of some rows of a fragment, found without expanding the whole sequence.

use std::ops::Range;

use super::{RowIdSequence, Segment};

/// Bytes of a bitmap between two entries of its rank directory.
const RANK_BYTES: usize = 512;

/// A sequence with what random access needs: the first row of each segment, and a rank directory for each bitmap.
///
/// Memory: that of the sequence, and one 64th of its bitmaps.
#[derive(Debug)]
pub struct RowIdLookup {
    parts: Vec<Part>,
    len: u64,
}

#[derive(Debug)]
struct Part {
    first_row: u64,
    segment: Segment,
    /// Of a bitmap: how many bits are set before each block of [`RANK_BYTES`].
    ranks: Vec<u64>,
}

impl From<RowIdSequence> for RowIdLookup {
    fn from(sequence: RowIdSequence) -> Self {
        let len = sequence.len;
        let mut first_row = 0;
        let parts = sequence.segments.into_iter().map(|segment| {
            let part = Part {
                first_row,
                ranks: ranks(&segment),
                segment,
            };
            first_row += part.segment.len();
            part
        });
        Self {
            parts: parts.collect(),
            len,
        }
    }
}

impl RowIdLookup {
    /// How many ids there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True without any id.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends the ids of a range of rows; of rows behind the last one nothing is appended.
    pub fn extend_ids(&self, rows: &Range<u64>, ids: &mut Vec<u64>) {
        let mut next = rows.start;
        let from = self
            .parts
            .partition_point(|part| part.first_row <= rows.start);
        for part in self.parts.iter().skip(from.saturating_sub(1)) {
            if next >= rows.end {
                return;
            }
            let offset = next - part.first_row;
            let len = part.segment.len();
            if offset < len {
                let end = len.min(rows.end - part.first_row);
                part.extend_ids(offset..end, ids);
                next = part.first_row + end;
            }
        }
    }
}

impl Part {
    /// Appends the ids at some offsets of the segment, which must be there.
    fn extend_ids(&self, offsets: Range<u64>, ids: &mut Vec<u64>) {
        match &self.segment {
            Segment::Range(range) => {
                ids.extend(range.start + offsets.start..range.start + offsets.end);
            }
            Segment::Bitmap { range, bitmap, .. } => {
                let block = self.ranks.partition_point(|rank| *rank <= offsets.start);
                let block = block.saturating_sub(1);
                let before = self.ranks.get(block).copied().unwrap_or_default();
                let first_byte = block * RANK_BYTES;
                let first_id = range.start.saturating_add(8 * first_byte as u64);
                let found = set_bits(bitmap.get(first_byte..).unwrap_or_default())
                    .map(|bit| first_id.saturating_add(bit))
                    .take_while(|id| *id < range.end);
                let skipped = usize::try_from(offsets.start - before).unwrap_or(usize::MAX);
                let wanted = usize::try_from(offsets.end - offsets.start).unwrap_or(usize::MAX);
                ids.extend(found.skip(skipped).take(wanted));
            }
            Segment::Holes { range, holes } => {
                let Some(first) = self.segment.get(offsets.start) else {
                    return;
                };
                let mut left = offsets.end - offsets.start;
                let mut next = first;
                let mut hole = holes.partition_point(first);
                while left > 0 && next < range.end {
                    let end = holes.get(hole).unwrap_or(range.end).min(next + left);
                    ids.extend(next..end);
                    left -= end - next;
                    // `end` is a hole or the end of what is wanted.
                    next = end.saturating_add(1);
                    hole += 1;
                }
            }
            Segment::Sorted(array) | Segment::Array(array) => {
                let offsets = usize::try_from(offsets.start).unwrap_or(usize::MAX)
                    ..usize::try_from(offsets.end).unwrap_or(usize::MAX);
                ids.extend(offsets.filter_map(|offset| array.get(offset)));
            }
        }
    }
}

fn ranks(segment: &Segment) -> Vec<u64> {
    let Segment::Bitmap { bitmap, .. } = segment else {
        return Vec::new();
    };
    let mut before = 0;
    let blocks = bitmap.chunks(RANK_BYTES).map(|block| {
        let rank = before;
        before += block
            .iter()
            .map(|byte| u64::from(byte.count_ones()))
            .sum::<u64>();
        rank
    });
    blocks.collect()
}

/// The places of the bits that are set, ascending.
fn set_bits(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    (0_u64..).zip(bytes).flat_map(|(place, byte)| {
        (0..8)
            .filter(move |bit| byte >> bit & 1 == 1)
            .map(move |bit| 8 * place + bit)
    })
}
