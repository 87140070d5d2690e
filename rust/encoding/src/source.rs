//! Where decoders get page bytes from: fetched earlier, addressed by file position.

use std::ops::Range;

use arrow_buffer::Buffer;

use crate::error::{Error, to_usize};

/// The bytes of a file that a plan asked for and the caller fetched.
pub trait PageSource {
    /// The bytes of a range of file positions.
    ///
    /// # Errors
    /// `Missing` if not all of them were fetched, `Corrupt` if they fail a checksum.
    fn slice(&self, range: Range<u64>) -> Result<&[u8], Error>;

    /// The bytes of a range of file positions as shared memory, without a copy.
    ///
    /// # Errors
    /// As [`slice`](Self::slice).
    fn buffer(&self, range: Range<u64>) -> Result<Buffer, Error>;

    /// The bytes of many ranges, ascending and within `span`. The bytes between the ranges may be missing.
    ///
    /// # Errors
    /// As [`slice`](Self::slice), for any of the ranges.
    fn slices(&self, span: Range<u64>, ranges: &[Range<u64>]) -> Result<RangeSlices<'_>, Error>;
}

/// A [`PageSource`] over fetched segments: whole file, mapped file or scattered ranges.
#[derive(Debug, Clone, Default)]
pub struct Segments {
    /// By ascending position.
    segments: Vec<(u64, Buffer)>,
}

impl Segments {
    /// A source over pairs of file position and bytes, in any order; a range must lie within one of them.
    pub fn new(segments: impl IntoIterator<Item = (u64, Buffer)>) -> Self {
        let mut segments: Vec<_> = segments.into_iter().collect();
        // Of segments with the same position the longest comes last, where `find` looks first.
        segments.sort_by_key(|(position, bytes)| (*position, bytes.len()));
        Self { segments }
    }

    fn find(&self, range: &Range<u64>) -> Result<(&Buffer, usize, usize), Error> {
        let missing = || Error::Missing(range.clone());
        let len = range.end.checked_sub(range.start).ok_or_else(missing)?;
        let after = self
            .segments
            .partition_point(|(position, _)| *position <= range.start);
        let (position, bytes) = after
            .checked_sub(1)
            .and_then(|i| self.segments.get(i))
            .ok_or_else(missing)?;
        let start = to_usize(range.start - position, "offset in a segment")?;
        let len = to_usize(len, "bytes of a segment")?;
        match start.checked_add(len) {
            Some(end) if end <= bytes.len() => Ok((bytes, start, len)),
            _ => Err(missing()),
        }
    }
}

impl PageSource for Segments {
    fn slice(&self, range: Range<u64>) -> Result<&[u8], Error> {
        if range.start == range.end {
            return Ok(&[]);
        }
        let (bytes, start, len) = self.find(&range)?;
        Ok(&bytes[start..start + len])
    }

    fn buffer(&self, range: Range<u64>) -> Result<Buffer, Error> {
        if range.start == range.end {
            return Ok(Buffer::default());
        }
        let (bytes, start, len) = self.find(&range)?;
        Ok(bytes.slice_with_length(start, len))
    }

    /// One look-up if one segment holds the whole span, as in a mapped file; one per range otherwise.
    fn slices(&self, span: Range<u64>, ranges: &[Range<u64>]) -> Result<RangeSlices<'_>, Error> {
        if let Ok(bytes) = self.slice(span.clone()) {
            let base = span.start;
            return Ok(RangeSlices(Held::Span { base, bytes }));
        }
        let each = ranges.iter().map(|range| self.slice(range.clone()));
        Ok(RangeSlices(Held::Each(each.collect::<Result<_, _>>()?)))
    }
}

/// Shared bytes; an empty range is in every source.
pub(crate) fn shared(source: &dyn PageSource, range: Range<u64>) -> Result<Buffer, Error> {
    if range.is_empty() {
        Ok(Buffer::default())
    } else {
        source.buffer(range)
    }
}

/// The bytes of many ranges. All of them were found in the source, so memory for a copy of them is bounded.
#[derive(Debug)]
pub struct RangeSlices<'a>(Held<'a>);

#[derive(Debug)]
enum Held<'a> {
    Span { base: u64, bytes: &'a [u8] },
    Each(Vec<&'a [u8]>),
}

impl<'a> RangeSlices<'a> {
    /// The bytes of range number `index`, which lies at `range`.
    #[inline]
    pub(crate) fn get(&self, index: usize, range: Range<u64>) -> Result<&'a [u8], Error> {
        match &self.0 {
            Held::Span { base, bytes } => {
                let start = usize::try_from(range.start.wrapping_sub(*base));
                let end = usize::try_from(range.end.wrapping_sub(*base));
                match (start, end) {
                    (Ok(start), Ok(end)) => bytes.get(start..end),
                    _ => None,
                }
            }
            Held::Each(each) => each.get(index).copied(),
        }
        .ok_or(Error::Missing(range))
    }
}
