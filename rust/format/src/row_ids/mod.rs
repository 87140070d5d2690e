//! Stable row ids: which id each physical row of a fragment has, in row order.
//!
//! A sequence is a list of segments, so the ids of a million appended rows are two numbers. Nothing here
//! expands a sequence on its own: a hostile range of 2^63 ids is as small as any other until somebody
//! walks it, and readers compare [`RowIdSequence::len`] with the rows of the fragment first.

mod array;
mod lookup;
mod segment;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::ops::Range;

use bytes::Bytes;
pub use lookup::RowIdLookup;
use prost::Message;
use roaring::RoaringBitmap;
pub use segment::Segment;

use crate::decode_budget::DecodeBudget;
use crate::error::{Error, Result};
use crate::message_size::count_fields;
use crate::proto::table as proto;
use crate::raw_fields::contents;

/// Number of `RowIdSequence.segments`.
const SEGMENTS: u64 = 1;
/// What the segments of one fragment may take in memory beside three times their bytes.
const FREE_BYTES: u64 = 8 << 20;

/// The row ids of one fragment, deleted rows included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowIdSequence {
    segments: Vec<Segment>,
    len: u64,
}

impl RowIdSequence {
    /// The ids of freshly appended rows.
    #[must_use]
    pub fn from_range(ids: Range<u64>) -> Self {
        let mut sequence = Self::default();
        sequence.push(Segment::Range(ids.start..ids.end.max(ids.start)));
        sequence
    }

    /// The smallest form of any ids.
    #[must_use]
    pub fn from_values(ids: &[u64]) -> Self {
        let mut sequence = Self::default();
        sequence.push(Segment::choose(|| ids.iter().copied()));
        sequence
    }

    /// The same ids in the smallest form of one segment.
    pub fn joined(&self) -> Self {
        let mut sequence = Self::default();
        sequence.push(Segment::choose(|| self.iter()));
        sequence
    }

    /// Reads what a fragment holds inline.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are no row ids, `Limit` when decoding would take too much memory.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = |error: &dyn Display| Error::corrupt(format!("row ids: {error}"));
        let num_segments = count_fields(bytes, SEGMENTS);
        DecodeBudget::with_free("row ids", bytes.len(), FREE_BYTES)
            .take_list(num_segments, size_of::<Segment>())?;
        let mut sequence = Self::default();
        sequence.segments.reserve_exact(num_segments);
        for range in contents(bytes, SEGMENTS) {
            let content = &bytes[range.map_err(|error| damaged(&error))?];
            let segment = proto::U64Segment::decode(content).map_err(|error| damaged(&error))?;
            let segment = Segment::decode(segment)?;
            let len = sequence.len.checked_add(segment.len());
            sequence.len = len.ok_or_else(|| Error::corrupt("more than 2^64 row ids"))?;
            sequence.segments.push(segment);
        }
        Ok(sequence)
    }

    /// What a fragment holds inline.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let segments = self.segments.iter().map(Segment::encode).collect();
        proto::RowIdSequence { segments }.encode_to_vec().into()
    }

    /// The runs of ids, in order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

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

    /// The ids in row order. Compare [`RowIdSequence::len`] with the rows of the fragment before walking.
    pub fn iter(&self) -> impl Iterator<Item = u64> + Send + '_ {
        self.segments.iter().flat_map(Segment::iter)
    }

    /// The id of the row at `index`.
    #[must_use]
    pub fn get(&self, mut index: u64) -> Option<u64> {
        for segment in &self.segments {
            if index < segment.len() {
                return segment.get(index);
            }
            index -= segment.len();
        }
        None
    }

    /// The ids as one range, if that is what they are: the usual case, and the fast one.
    #[must_use]
    pub fn as_range(&self) -> Option<Range<u64>> {
        match self.segments.as_slice() {
            [] => Some(0..0),
            [Segment::Range(range)] => Some(range.clone()),
            _ => None,
        }
    }

    /// The ids of `len` rows from `offset` on, fewer where the sequence ends before.
    #[must_use]
    pub fn slice(&self, mut offset: u64, mut len: u64) -> Self {
        let mut sliced = Self::default();
        for segment in &self.segments {
            let skipped = offset.min(segment.len());
            let taken = len.min(segment.len() - skipped);
            offset -= skipped;
            len -= taken;
            if taken > 0 {
                sliced.push(segment.slice(skipped, taken));
            }
        }
        sliced
    }

    /// The ids of the rows whose offsets are not among `deleted`. Each segment takes its own cheapest form.
    #[must_use]
    pub fn without(&self, deleted: &RoaringBitmap) -> Self {
        let mut kept = Self::default();
        let mut first = 0u64;
        for segment in &self.segments {
            let is_deleted = |index: u64| {
                let offset = u32::try_from(first.saturating_add(index));
                offset.is_ok_and(|offset| deleted.contains(offset))
            };
            let last = u32::try_from(first.saturating_add(segment.len())).unwrap_or(u32::MAX);
            let touched = u32::try_from(first).is_ok_and(|first| {
                deleted.range_cardinality(first..=last.saturating_sub(u32::from(last != u32::MAX)))
                    > 0
            });
            if touched {
                kept.push(Segment::choose(|| {
                    let numbered = (0u64..).zip(segment.iter());
                    numbered
                        .filter(|(index, _)| !is_deleted(*index))
                        .map(|(_, id)| id)
                }));
            } else {
                kept.push(segment.clone());
            }
            first = first.saturating_add(segment.len());
        }
        kept
    }

    /// Appends the ids of further rows.
    pub fn extend(&mut self, other: &Self) {
        for segment in &other.segments {
            self.push(segment.clone());
        }
    }

    /// The ids in sequences of `lens` rows: what compaction does after concatenating.
    #[must_use]
    pub fn cut(&self, lens: &[u64]) -> Vec<Self> {
        let mut offset = 0u64;
        lens.iter()
            .map(|len| {
                let piece = self.slice(offset, *len);
                offset = offset.saturating_add(*len);
                piece
            })
            .collect()
    }

    /// Adds a segment; two ranges that touch become one, and an empty segment vanishes.
    fn push(&mut self, segment: Segment) {
        let len = segment.len();
        if len == 0 {
            return;
        }
        self.len = self.len.saturating_add(len);
        if let (Some(Segment::Range(last)), Segment::Range(next)) =
            (self.segments.last_mut(), &segment)
            && last.end == next.start
        {
            last.end = next.end;
            return;
        }
        self.segments.push(segment);
    }
}
