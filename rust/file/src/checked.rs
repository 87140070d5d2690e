//! Bytes that were fetched, handed to the decoders only after their blocks passed their checksums.

use std::cell::RefCell;
use std::ops::Range;

use arrow_buffer::Buffer;
use pilum_encoding::{Error as PageError, PageSource, Pieces, Segments, crc32c, find_damaged};

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

/// Where the checksums of a coverage are.
#[derive(Clone, Debug)]
pub(crate) enum Checksums {
    /// At hand.
    Inline(Vec<[u8; 4]>),
    /// In the file: where, and the CRC-32C of them all. A reader has no use for the latter: a damaged checksum fails its block.
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

    /// Where the file has the checksums that verify a range, if not in a message.
    pub(crate) fn checksums_of(&self, range: &Range<u64>) -> Option<Range<u64>> {
        match &self.checksums {
            Checksums::Inline(_) => None,
            Checksums::Stored { range: stored, .. } => {
                let blocks = self.blocks(range);
                Some(stored.start + 4 * blocks.start..stored.start + 4 * blocks.end)
            }
        }
    }

    /// The bytes of a block. An extent may claim to end near 2^64, and its last block lies beyond.
    fn block(&self, block: u64) -> Range<u64> {
        let skip = block.saturating_mul(self.block_size);
        let start = self.range.start.saturating_add(skip).min(self.range.end);
        start..start.saturating_add(self.block_size).min(self.range.end)
    }

    /// The blocks that have a part in a range.
    fn blocks(&self, range: &Range<u64>) -> Range<u64> {
        let first = (range.start - self.range.start) / self.block_size;
        let last = (range.end - self.range.start).div_ceil(self.block_size);
        first..last
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

/// Which blocks of one coverage passed.
#[derive(Debug, Default)]
struct Verified {
    /// One bit per block, made at the first partial check.
    bits: Vec<u64>,
    all: bool,
}

impl<'a> CheckedSource<'a> {
    /// Verifies against `covered`; with none, everything passes (the file has no checksums, or the caller wants none).
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
                blocks.for_each(|block| verified.set(block));
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
        // In order, the processor sees what comes next without being told.
        let mut pairs = bytes.chunks(block_size).zip(words);
        match pairs.position(|(block, word)| crc32c(block) != u32::from_le_bytes(*word)) {
            None => Ok(()),
            Some(bad) => Err(damaged(coverage, blocks.start + bad as u64)),
        }
    }

    /// Verifies blocks wherever they lie.
    fn verify_scattered(&self, coverage: &Coverage, blocks: &[u64]) -> Result<(), PageError> {
        let pairs = blocks.iter().map(|&block| {
            let bytes = self.segments.slice(coverage.block(block))?;
            let word = match &coverage.checksums {
                Checksums::Inline(words) => usize::try_from(block)
                    .ok()
                    .and_then(|block| words.get(block)),
                Checksums::Stored { range, .. } => {
                    let start = range.start + 4 * block;
                    self.segments.slice(start..start + 4)?.first_chunk()
                }
            };
            Ok((bytes, word.ok_or_else(|| too_few(coverage))?))
        });
        match find_damaged(pairs)? {
            None => Ok(()),
            Some(bad) => Err(damaged(coverage, blocks[bad])),
        }
    }

    /// Verifies ascending ranges all at once, for the sake of the memory that is waited for.
    fn verify_each(&self, ranges: &[Range<u64>]) -> Result<(), PageError> {
        let mut ranges = ranges.iter().filter(|range| !range.is_empty()).peekable();
        while let Some(first) = ranges.peek() {
            let (coverage, verified) = self.covering(first)?;
            let mut verified = verified.borrow_mut();
            verified.prepare(coverage);
            let mut blocks = Vec::new();
            let mut from = 0;
            while let Some(range) = ranges.next_if(|range| coverage.covers(range)) {
                let touched = coverage.blocks(range);
                let missing = touched.start.max(from)..touched.end;
                from = from.max(touched.end);
                if !verified.all {
                    blocks.extend(missing.filter(|&block| !verified.has(block)));
                }
            }
            self.verify_scattered(coverage, &blocks)?;
            blocks.into_iter().for_each(|block| verified.set(block));
        }
        Ok(())
    }
}

fn to_range(blocks: &Range<u64>) -> Range<usize> {
    let place = |block| usize::try_from(block).unwrap_or(usize::MAX);
    place(blocks.start)..place(blocks.end)
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

    fn set(&mut self, block: u64) {
        let (word, bit) = Self::place(block);
        if let Some(bits) = self.bits.get_mut(word) {
            *bits |= bit;
        }
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

    fn pieces(&self, span: Range<u64>, ranges: &[Range<u64>]) -> Result<Pieces<'_>, PageError> {
        if !self.covered.is_empty() {
            self.verify_each(ranges)?;
        }
        self.segments.pieces(span, ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_an_extent_that_claims_to_reach_the_end_of_all_numbers() {
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
}
