//! Where page bytes come from: fetched earlier, addressed by file position.

use std::ops::Range;

use arrow_buffer::Buffer;

use crate::error::{Error, to_usize};

/// The bytes of a file that a plan asked for and the caller fetched.
pub trait PageSource {
    /// The bytes of a range of file positions; [`Error::Missing`] if not all of them are at hand.
    fn slice(&self, range: Range<u64>) -> Result<&[u8], Error>;

    /// The same as shared memory, without a copy where the bytes allow it.
    fn buffer(&self, range: Range<u64>) -> Result<Buffer, Error>;

    /// Scattered ranges should be asked for one by one, because a wide range costs more than its look-up
    /// (a source that verifies checksums reads all that it hands out).
    fn prefers_pieces(&self) -> bool {
        false
    }
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
        // At one position the longest comes last, where the search looks first.
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
}

/// Shared bytes; an empty range is in every source.
pub(crate) fn shared(source: &dyn PageSource, range: Range<u64>) -> Result<Buffer, Error> {
    if range.is_empty() {
        Ok(Buffer::default())
    } else {
        source.buffer(range)
    }
}

/// The bytes of many ranges, ascending: one look-up when the source holds the whole span (a mapped
/// file), one per range otherwise. Either way they exist before anything is allocated for them.
pub(crate) enum Pieces<'a> {
    Span { base: u64, bytes: &'a [u8] },
    Each(Vec<&'a [u8]>),
}

impl<'a> Pieces<'a> {
    pub(crate) fn fetch(
        source: &'a dyn PageSource,
        span: Range<u64>,
        ranges: impl Iterator<Item = Range<u64>>,
    ) -> Result<Self, Error> {
        if span.is_empty() {
            return Ok(Self::Span {
                base: span.start,
                bytes: &[],
            });
        }
        if !source.prefers_pieces()
            && let Ok(bytes) = source.slice(span.clone())
        {
            return Ok(Self::Span {
                base: span.start,
                bytes,
            });
        }
        let slice = |range: Range<u64>| {
            if range.is_empty() {
                Ok(&[][..])
            } else {
                source.slice(range)
            }
        };
        let each = ranges.map(slice).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::Each(each))
    }

    /// The bytes of range number `index`, which lies at `range`.
    #[inline]
    pub(crate) fn get(&self, index: usize, range: Range<u64>) -> Result<&'a [u8], Error> {
        match self {
            Self::Span { base, bytes } => {
                let start = usize::try_from(range.start.wrapping_sub(*base));
                let end = usize::try_from(range.end.wrapping_sub(*base));
                match (start, end) {
                    (Ok(start), Ok(end)) => bytes.get(start..end),
                    _ => None,
                }
            }
            Self::Each(each) => each.get(index).copied(),
        }
        .ok_or(Error::Missing(range))
    }
}
