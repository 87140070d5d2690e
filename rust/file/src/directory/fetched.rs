//! Bytes that were prefetched for one read.

use std::ops::Range;

use bytes::Bytes;

/// Bytes of the file that one read asked for ahead of use, by position. The read owns them: they are dropped with it,
/// whether it succeeds, fails or is cancelled, and no other read sees them.
#[derive(Debug, Default)]
pub(crate) struct Fetched(Vec<(u64, Bytes)>);

impl Fetched {
    /// Nothing was prefetched.
    pub(crate) const NONE: Self = Self(Vec::new());

    pub(super) fn extend(&mut self, bytes: impl IntoIterator<Item = (u64, Bytes)>) {
        self.0.extend(bytes);
    }

    /// The bytes of a range, if it lies within one of the prefetched ranges.
    pub(super) fn get(&self, range: &Range<u64>) -> Option<Bytes> {
        self.0
            .iter()
            .find_map(|(start, bytes)| cut(*start, bytes, range))
    }
}

/// The bytes of `range` out of `bytes`, which lie at `start`; `None` if they are not all there.
pub(super) fn cut(start: u64, bytes: &Bytes, range: &Range<u64>) -> Option<Bytes> {
    let from = usize::try_from(range.start.checked_sub(start)?).ok()?;
    let to = usize::try_from(range.end.checked_sub(start)?).ok()?;
    (from <= to && to <= bytes.len()).then(|| bytes.slice(from..to))
}
