//! A source of page bytes for the decoders that verifies checksums before it returns bytes.

use std::cell::RefCell;
use std::ops::Range;

use arrow_buffer::Buffer;
use pilum_encoding::{Error as PageError, PageSource, RangeSlices, Segments, crc32c, find_damaged};

/// Bytes of the file that are covered by one CRC-32C per block.
#[derive(Clone, Debug)]
pub(crate) struct Coverage {
    /// The bytes covered.
    pub(crate) range: Range<u64>,
    /// Bytes per block; the last may be shorter.
    pub(crate) block_size: u64,
    /// One little-endian u32 per block.
    pub(crate) checksums: Checksums,
}

/// Where the checksums of covered bytes are.
#[derive(Clone, Debug)]
pub(crate) enum Checksums {
    /// In memory.
    Inline(Vec<[u8; 4]>),
    /// In the file: where, and the CRC-32C of the whole array. Reading does not use the latter: a damaged checksum makes its
    /// block fail.
    Stored { range: Range<u64>, crc32c: u32 },
}

impl Checksums {
    /// Checksums from a message.
    pub(crate) fn inline(words: &[u32]) -> Self {
        Self::Inline(words.iter().map(|word| word.to_le_bytes()).collect())
    }
}

impl Coverage {
    /// Widens a range of covered bytes to whole blocks.
    pub(crate) fn blocks_around(&self, range: &Range<u64>) -> Range<u64> {
        let blocks = self.blocks(range);
        let start = self.range.start + blocks.start * self.block_size;
        let end = (self.range.start + blocks.end * self.block_size).min(self.range.end);
        start..end
    }

    /// Where the file has the checksums that verify a range; `None` if they are in memory.
    pub(crate) fn checksums_of(&self, range: &Range<u64>) -> Option<Range<u64>> {
        match &self.checksums {
            Checksums::Inline(_) => None,
            Checksums::Stored { range: stored, .. } => {
                let blocks = self.blocks(range);
                Some(stored.start + 4 * blocks.start..stored.start + 4 * blocks.end)
            }
        }
    }

    /// The bytes of a block. The sums saturate, because a hostile extent may end near 2^64.
    fn block(&self, block: u64) -> Range<u64> {
        let skip = block.saturating_mul(self.block_size);
        let start = self.range.start.saturating_add(skip).min(self.range.end);
        start..start.saturating_add(self.block_size).min(self.range.end)
    }

    /// The blocks that have a part in a range.
    fn blocks(&self, range: &Range<u64>) -> Range<u64> {
        let first = range.start - self.range.start;
        let last = range.end - self.range.start;
        // For the usual sizes without a division: reading scattered rows would do two for each row.
        if self.block_size.is_power_of_two() {
            let shift = self.block_size.trailing_zeros();
            let begun = u64::from(last & (self.block_size - 1) > 0);
            return first >> shift..(last >> shift) + begun;
        }
        first / self.block_size..last.div_ceil(self.block_size)
    }

    pub(crate) fn num_blocks(&self) -> u64 {
        (self.range.end - self.range.start).div_ceil(self.block_size)
    }

    pub(crate) fn covers(&self, range: &Range<u64>) -> bool {
        self.range.start <= range.start && range.end <= self.range.end
    }
}

/// A [`PageSource`] over fetched segments that verifies the blocks it is asked for, each once.
#[derive(Debug)]
pub(crate) struct CheckedSource<'a> {
    segments: &'a Segments,
    covered: Vec<(&'a Coverage, RefCell<Verified>)>,
}

/// Which blocks of one coverage passed their checksum.
#[derive(Debug, Default)]
struct Verified {
    /// One bit per block, made at the first partial check.
    bits: Vec<u64>,
    all: bool,
}

impl<'a> CheckedSource<'a> {
    /// Verifies against `covered`. Without any, no byte is verified: the file has no checksums, or the caller wants none
    /// compared.
    pub(crate) fn new(segments: &'a Segments, covered: impl Iterator<Item = &'a Coverage>) -> Self {
        Self {
            segments,
            covered: covered.map(|c| (c, RefCell::default())).collect(),
        }
    }

    fn covering(
        &self,
        range: &Range<u64>,
    ) -> Result<&(&'a Coverage, RefCell<Verified>), PageError> {
        let mut covered = self.covered.iter();
        covered.find(|(c, _)| c.covers(range)).ok_or_else(|| {
            let what = format!("bytes {range:?} lie outside the pages of the column");
            PageError::Corrupt {
                what,
                position: Some(range.start),
            }
        })
    }

    fn verify(&self, range: &Range<u64>) -> Result<(), PageError> {
        if self.covered.is_empty() || range.is_empty() {
            return Ok(());
        }
        let (coverage, verified) = self.covering(range)?;
        let mut verified = verified.borrow_mut();
        if verified.all {
            return Ok(());
        }
        let blocks = coverage.blocks(range);
        let whole = blocks.start == 0 && blocks.end == coverage.num_blocks();
        if !whole {
            verified.prepare(coverage);
        }
        if !blocks.clone().all(|block| verified.has(block)) {
            self.verify_neighbours(coverage, &blocks)?;
            if !whole || !verified.bits.is_empty() {
                blocks.for_each(|block| {
                    verified.mark(block);
                });
            }
        }
        verified.all |= whole;
        Ok(())
    }

    /// Verifies neighbouring blocks in one pass over their bytes.
    fn verify_neighbours(&self, coverage: &Coverage, blocks: &Range<u64>) -> Result<(), PageError> {
        let bytes = coverage.block(blocks.start).start..coverage.block(blocks.end - 1).end;
        let bytes = self.segments.slice(bytes)?;
        let words = match &coverage.checksums {
            Checksums::Inline(words) => words.get(to_range(blocks)),
            Checksums::Stored { range, .. } => {
                let words = range.start + 4 * blocks.start..range.start + 4 * blocks.end;
                Some(self.segments.slice(words)?.as_chunks().0)
            }
        };
        let words = words.ok_or_else(|| too_few(coverage))?;
        let block_size = usize::try_from(coverage.block_size).unwrap_or(usize::MAX);
        // Blocks in order need no prefetch: the processor recognises the sequence.
        let mut pairs = bytes.chunks(block_size).zip(words);
        match pairs.position(|(block, word)| crc32c(block) != u32::from_le_bytes(*word)) {
            None => Ok(()),
            Some(bad) => Err(damaged(coverage, blocks.start + bad as u64)),
        }
    }

    /// Verifies ascending ranges together, so that the memory of later blocks is prefetched while earlier ones are checked.
    fn verify_each(&self, ranges: &[Range<u64>]) -> Result<(), PageError> {
        let mut ranges = ranges.iter().filter(|range| !range.is_empty()).peekable();
        while let Some(first) = ranges.peek() {
            let (coverage, verified) = self.covering(first)?;
            let mut verified = verified.borrow_mut();
            verified.prepare(coverage);
            let blocks = Blocks::new(coverage, self.segments);
            let mut touched = 0..0;
            let missing = std::iter::from_fn(|| {
                loop {
                    if let Some(block) = touched.by_ref().find(|&block| verified.mark(block)) {
                        return Some(block);
                    }
                    touched = coverage.blocks(ranges.next_if(|range| coverage.covers(range))?);
                }
            });
            let damage = match find_damaged(missing.map(|block| blocks.get(block))) {
                Ok(None) => continue,
                Ok(Some(block)) => damaged(coverage, block),
                Err(error) => error,
            };
            // Blocks were marked before they were checked, and the check ended early.
            *verified = Verified::default();
            return Err(damage);
        }
        Ok(())
    }
}

/// Blocks of one coverage with their checksums, one by one.
struct Blocks<'a> {
    coverage: &'a Coverage,
    segments: &'a Segments,
    /// All covered bytes, if they lie in one segment.
    bytes: Option<&'a [u8]>,
    /// All checksums, if they lie in one segment.
    words: Option<&'a [[u8; 4]]>,
}

impl<'a> Blocks<'a> {
    fn new(coverage: &'a Coverage, segments: &'a Segments) -> Self {
        let slice = |range: &Range<u64>| segments.slice(range.clone()).ok();
        Self {
            coverage,
            segments,
            bytes: slice(&coverage.range),
            words: match &coverage.checksums {
                Checksums::Inline(words) => Some(words),
                Checksums::Stored { range, .. } => slice(range).map(|words| words.as_chunks().0),
            },
        }
    }

    /// A block with its bytes and its checksum.
    fn get(&self, block: u64) -> Result<(u64, &'a [u8], &'a [u8; 4]), PageError> {
        let (place, coverage) = (self.coverage.block(block), self.coverage);
        let bytes = match self.bytes {
            Some(bytes) => bytes.get(to_range(
                &(place.start - coverage.range.start..place.end - coverage.range.start),
            )),
            None => Some(self.segments.slice(place)?),
        };
        let word = match (self.words, &coverage.checksums) {
            (None, Checksums::Stored { range, .. }) => {
                let start = range.start + 4 * block;
                self.segments.slice(start..start + 4)?.first_chunk()
            }
            (words, _) => words.and_then(|words| words.get(usize::try_from(block).ok()?)),
        };
        match (bytes, word) {
            (Some(bytes), Some(word)) => Ok((block, bytes, word)),
            _ => Err(too_few(coverage)),
        }
    }
}

fn to_range(places: &Range<u64>) -> Range<usize> {
    let place = |block| usize::try_from(block).unwrap_or(usize::MAX);
    place(places.start)..place(places.end)
}

fn too_few(coverage: &Coverage) -> PageError {
    PageError::Corrupt {
        what: format!("too few checksums for bytes {:?}", coverage.range),
        position: Some(coverage.range.start),
    }
}

fn damaged(coverage: &Coverage, block: u64) -> PageError {
    let block = coverage.block(block);
    PageError::Corrupt {
        what: format!("bytes {}..{} fail their checksum", block.start, block.end),
        position: Some(block.start),
    }
}

impl Verified {
    /// Room for one bit per block.
    fn prepare(&mut self, coverage: &Coverage) {
        if self.bits.is_empty() && !self.all {
            let words = coverage.num_blocks().div_ceil(64);
            self.bits = vec![0; usize::try_from(words).unwrap_or(usize::MAX)];
        }
    }

    fn place(block: u64) -> (usize, u64) {
        (
            usize::try_from(block / 64).unwrap_or(usize::MAX),
            1 << (block % 64),
        )
    }

    fn has(&self, block: u64) -> bool {
        let (word, bit) = Self::place(block);
        self.bits.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Marks a block as verified; returns whether it was not marked before.
    fn mark(&mut self, block: u64) -> bool {
        let (word, bit) = Self::place(block);
        let Some(bits) = self.bits.get_mut(word) else {
            return !self.all;
        };
        let is_new = !self.all && *bits & bit == 0;
        *bits |= bit;
        is_new
    }
}

impl PageSource for CheckedSource<'_> {
    fn slice(&self, range: Range<u64>) -> Result<&[u8], PageError> {
        let bytes = self.segments.slice(range.clone())?;
        self.verify(&range)?;
        Ok(bytes)
    }

    fn buffer(&self, range: Range<u64>) -> Result<Buffer, PageError> {
        let buffer = self.segments.buffer(range.clone())?;
        self.verify(&range)?;
        Ok(buffer)
    }

    fn slices(
        &self,
        span: Range<u64>,
        ranges: &[Range<u64>],
    ) -> Result<RangeSlices<'_>, PageError> {
        if !self.covered.is_empty() {
            self.verify_each(ranges)?;
        }
        self.segments.slices(span, ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_an_extent_that_ends_near_the_largest_number_do_not_overflow() {
        let coverage = Coverage {
            range: u64::MAX - 700..u64::MAX,
            block_size: 512,
            checksums: Checksums::inline(&[]),
        };
        assert_eq!(coverage.num_blocks(), 2);
        assert_eq!(coverage.block(0), u64::MAX - 700..u64::MAX - 188);
        assert_eq!(coverage.block(1), u64::MAX - 188..u64::MAX);
        assert_eq!(coverage.block(u64::MAX), u64::MAX..u64::MAX);
        let segments = Segments::default();
        let source = CheckedSource::new(&segments, std::iter::once(&coverage));
        assert!(source.verify(&(u64::MAX - 600..u64::MAX - 1)).is_err());
    }

    /// Three blocks of 64 bytes with right checksums, and segments with all bytes or, as from a remote store, with two blocks.
    fn three_blocks(damaged: Option<usize>, is_whole: bool) -> (Coverage, Segments) {
        let mut bytes: Vec<u8> = (0..192).collect();
        let words: Vec<u32> = bytes.chunks(64).map(crc32c).collect();
        if let Some(place) = damaged {
            bytes[place] ^= 1;
        }
        let coverage = Coverage {
            range: 1000..1192,
            block_size: 64,
            checksums: Checksums::inline(&words),
        };
        let part = |place: usize| (1000 + place as u64, Buffer::from(&bytes[place..place + 64]));
        let segments = if is_whole {
            Segments::new([(1000, Buffer::from(&bytes[..]))])
        } else {
            Segments::new([part(0), part(128)])
        };
        (coverage, segments)
    }

    #[test]
    fn damage_is_found_again_when_it_is_read_again() {
        for is_whole in [true, false] {
            let (coverage, segments) = three_blocks(Some(150), is_whole);
            let source = CheckedSource::new(&segments, std::iter::once(&coverage));
            let ranges = [1001..1002, 1010..1020, 1130..1131, 1190..1192];
            for _ in 0..2 {
                let error = source.slices(1000..1192, &ranges).unwrap_err();
                let error = error.to_string();
                assert!(error.contains("1128..1192 fail their checksum"), "{error}");
            }
            assert!(source.slice(1001..1002).is_ok());
            assert!(source.slice(1130..1131).is_err());
            assert!(source.slices(1000..1064, &ranges[..2]).is_ok());
        }
    }

    #[test]
    fn blocks_that_are_not_read_are_not_verified() {
        for is_whole in [true, false] {
            let (coverage, segments) = three_blocks(is_whole.then_some(70), is_whole);
            let source = CheckedSource::new(&segments, std::iter::once(&coverage));
            let ranges = [1001..1002, 1063..1064, 1128..1129];
            assert!(source.slices(1000..1192, &ranges).is_ok());
            // The block in the middle is damaged, or was never fetched.
            let ranges = [1063..1065, 1128..1129];
            assert!(source.slices(1000..1192, &ranges).is_err());
        }
    }

    #[test]
    fn the_first_and_last_block_of_a_range_are_right_for_any_block_size() {
        for block_size in [64, 100, 512, 1000] {
            let coverage = Coverage {
                range: 7..5000,
                block_size,
                checksums: Checksums::inline(&[]),
            };
            for start in 7..1200 {
                for end in [start + 1, start + 63, start + 64, start + 65, start + 1000] {
                    let first = (start - 7) / block_size;
                    let last = (end - 7 - 1) / block_size;
                    assert_eq!(coverage.blocks(&(start..end)), first..last + 1);
                }
            }
        }
    }
}
