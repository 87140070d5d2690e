//! Bytes that were fetched, handed to the decoders only after their blocks passed their checksums.

use std::cell::RefCell;
use std::ops::Range;

use arrow_buffer::Buffer;
use pilum_encoding::{Error as PageError, PageSource, Segments, crc32c};

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
    Inline(Vec<u32>),
    /// In the file: a range of little-endian words and the CRC-32C of that range.
    Stored { range: Range<u64>, crc32c: u32 },
}

impl Coverage {
    /// Widens a range of covered bytes to whole blocks.
    pub(crate) fn blocks_around(&self, range: &Range<u64>) -> Range<u64> {
        let blocks = self.blocks(range);
        let start = self.range.start + blocks.start * self.block_size;
        let end = (self.range.start + blocks.end * self.block_size).min(self.range.end);
        start..end
    }

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
    /// The stored checksum array itself passed.
    array: bool,
}

impl<'a> CheckedSource<'a> {
    /// Verifies against `covered`; with none, everything passes (the file has no checksums, or the caller wants none).
    pub(crate) fn new(segments: &'a Segments, covered: impl Iterator<Item = &'a Coverage>) -> Self {
        Self {
            segments,
            covered: covered.map(|c| (c, RefCell::default())).collect(),
        }
    }

    fn verify(&self, range: &Range<u64>) -> Result<(), PageError> {
        if self.covered.is_empty() || range.is_empty() {
            return Ok(());
        }
        let Some((coverage, verified)) = self.covered.iter().find(|(c, _)| c.covers(range)) else {
            let what = format!("bytes {range:?} lie outside the pages of the column");
            return Err(PageError::Corrupt {
                what,
                position: Some(range.start),
            });
        };
        let mut verified = verified.borrow_mut();
        if verified.all {
            return Ok(());
        }
        let blocks = coverage.blocks(range);
        let whole = blocks.start == 0 && blocks.end == coverage.num_blocks();
        if !whole && verified.bits.is_empty() {
            let words = usize::try_from(coverage.num_blocks().div_ceil(64)).unwrap_or(usize::MAX);
            verified.bits = vec![0; words];
        }
        let stored = match &coverage.checksums {
            Checksums::Inline(_) => None,
            Checksums::Stored {
                range,
                crc32c: expected,
            } => {
                let words = self.segments.slice(range.clone())?;
                if !verified.array {
                    if crc32c(words) != *expected {
                        let what = "the checksum array fails its own checksum".to_owned();
                        return Err(PageError::Corrupt {
                            what,
                            position: Some(range.start),
                        });
                    }
                    verified.array = true;
                }
                Some(words)
            }
        };
        if !verified.has_all(&blocks) {
            self.verify_blocks(coverage, stored, &blocks)?;
            verified.set_all(&blocks);
        }
        verified.all |= whole;
        Ok(())
    }

    /// Verifies neighbouring blocks in one pass over their bytes.
    fn verify_blocks(
        &self,
        coverage: &Coverage,
        stored: Option<&[u8]>,
        blocks: &Range<u64>,
    ) -> Result<(), PageError> {
        let start = coverage.range.start + blocks.start * coverage.block_size;
        let end = (coverage.range.start + blocks.end * coverage.block_size).min(coverage.range.end);
        let bytes = self.segments.slice(start..end)?;
        let first = usize::try_from(blocks.start).unwrap_or(usize::MAX);
        let block_size = usize::try_from(coverage.block_size).unwrap_or(usize::MAX);
        let chunks = bytes.chunks(block_size);
        let num_blocks = chunks.len();
        let bad = match (&coverage.checksums, stored) {
            (Checksums::Inline(words), _) => {
                let words = words.get(first..).unwrap_or_default();
                (words.len() < num_blocks).then_some(0).or_else(|| {
                    chunks
                        .zip(words)
                        .position(|(chunk, word)| crc32c(chunk) != *word)
                })
            }
            (Checksums::Stored { .. }, words) => {
                let (words, _) = words.unwrap_or_default().as_chunks::<4>();
                let words = words.get(first..).unwrap_or_default();
                let differs =
                    |(chunk, word): (&[u8], &[u8; 4])| crc32c(chunk) != u32::from_le_bytes(*word);
                (words.len() < num_blocks)
                    .then_some(0)
                    .or_else(|| chunks.zip(words).position(differs))
            }
        };
        let Some(bad) = bad else { return Ok(()) };
        let start = start + bad as u64 * coverage.block_size;
        let end = (start + coverage.block_size).min(end);
        let what = format!("bytes {start}..{end} fail their checksum");
        Err(PageError::Corrupt {
            what,
            position: Some(start),
        })
    }
}

impl Verified {
    fn place(block: u64) -> (usize, u64) {
        (
            usize::try_from(block / 64).unwrap_or(usize::MAX),
            1 << (block % 64),
        )
    }

    fn has_all(&self, blocks: &Range<u64>) -> bool {
        blocks.clone().all(|block| {
            let (word, bit) = Self::place(block);
            self.bits.get(word).is_some_and(|bits| bits & bit != 0)
        })
    }

    fn set_all(&mut self, blocks: &Range<u64>) {
        if self.bits.is_empty() {
            return;
        }
        for block in blocks.clone() {
            let (word, bit) = Self::place(block);
            if let Some(bits) = self.bits.get_mut(word) {
                *bits |= bit;
            }
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

    /// Scattered rows are verified block by block: asking for the span would verify everything between them.
    fn prefers_pieces(&self) -> bool {
        !self.covered.is_empty()
    }
}
