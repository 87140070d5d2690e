//! Packed blocks with one width per block and exceptions: the encodings `for` and `delta` both store these.
//!
//! A block holds its packed values, then its exceptions. Each exception is a u16 place in the block and, in 1, 2, 4 or
//! 8 bytes, the bits of the value above the width.

use std::ops::Range;

use super::decoder::{Bodies, BodyRange};
use super::head::{Head, word};
use super::node::{Body, Node, NodeId, block_len};
use super::pack::{MAX_WIDTH, bits_of, pack, packed_bytes, unpack, unpack_one};
use crate::error::Error;

/// This value in the width field of the head says that a list follows, with one width per block.
pub(crate) const WIDTHS_FOLLOW: u8 = 255;

/// Bytes of the place of an exception.
const PLACE_BYTES: usize = 2;

/// The widths of all blocks.
#[derive(Debug)]
pub(crate) enum Widths {
    One(u8),
    Each(Vec<u8>),
}

impl Widths {
    /// Returns the widths that the head states: `width` for all blocks, or the list that follows in the head.
    ///
    /// # Errors
    /// `Corrupt` for a width above `most`.
    pub(crate) fn parse(
        node: &Node<'_>,
        head: &mut Head<'_>,
        width: u8,
        most: u8,
    ) -> Result<Self, Error> {
        let widths = match width {
            WIDTHS_FOLLOW => Self::Each(head.bytes(node.num_blocks())?.to_vec()),
            width => Self::One(width),
        };
        let widest = match &widths {
            Self::One(width) => *width,
            Self::Each(widths) => widths.iter().copied().max().unwrap_or(0),
        };
        if widest > most.min(MAX_WIDTH) {
            let id = node.id;
            return Err(id.corrupt(format!("packed values of {widest} bits, {most} at most")));
        }
        Ok(widths)
    }

    fn of_block(&self, block: usize) -> u8 {
        match self {
            Self::One(width) => *width,
            Self::Each(widths) => widths.get(block).copied().unwrap_or(0),
        }
    }
}

/// Packed values of all blocks of a node.
#[derive(Debug)]
pub(crate) struct Blocks {
    id: NodeId,
    body: Body,
    values: usize,
    widths: Widths,
    /// Bytes of the high bits of an exception; 0 = there are none.
    exception_bytes: u8,
    /// Exceptions of each block; empty if there are none.
    counts: Vec<u16>,
    /// Byte of the body at which each block begins; empty if all full blocks take the same number of bytes.
    starts: Vec<u32>,
}

impl Blocks {
    /// Reads the counts of exceptions, which come next in the head, and returns the checked blocks.
    ///
    /// # Errors
    /// `Corrupt` if the blocks do not fill the body, or a block has more exceptions than values.
    pub(crate) fn parse(
        node: &Node<'_>,
        head: &mut Head<'_>,
        widths: Widths,
        exception_bytes: u8,
    ) -> Result<Self, Error> {
        let counts = match exception_bytes {
            0 => Vec::new(),
            1 | 2 | 4 | 8 => head.u16s(node.num_blocks())?,
            other => return Err(node.id.corrupt(format!("exceptions of {other} bytes"))),
        };
        let mut blocks = Self {
            id: node.id,
            body: node.body,
            values: node.values,
            widths,
            exception_bytes,
            counts,
            starts: Vec::new(),
        };
        let total = match &blocks.widths {
            Widths::One(width) if blocks.counts.is_empty() => {
                // All blocks but the last are full, and a full block is whole bytes.
                packed_bytes(node.values, *width) as u64
            }
            _ => blocks.sum()?,
        };
        node.expect_body(total)?;
        Ok(blocks)
    }

    /// Fills `starts` and returns the bytes of all blocks.
    fn sum(&mut self) -> Result<u64, Error> {
        let num_blocks = super::node::num_blocks(self.values);
        let mut starts = Vec::with_capacity(num_blocks);
        let mut end = 0_u64;
        for block in 0..num_blocks {
            let (len, count) = (block_len(self.values, block), self.count(block));
            if count > len {
                let what = format!("{count} exceptions among {len} values");
                return Err(self.id.corrupt_block(block, what));
            }
            let start = u32::try_from(end);
            starts.push(start.map_err(|_| self.id.corrupt_block(block, "beyond 4 GiB"))?);
            let packed = packed_bytes(len, self.widths.of_block(block));
            end += (packed + count * self.exception_len()) as u64;
        }
        self.starts = starts;
        Ok(end)
    }

    pub(crate) fn num_values(&self) -> usize {
        self.values
    }

    /// Bytes of one exception.
    fn exception_len(&self) -> usize {
        PLACE_BYTES + usize::from(self.exception_bytes)
    }

    fn count(&self, block: usize) -> usize {
        self.counts.get(block).copied().map_or(0, usize::from)
    }

    /// Whether no bytes of the body are needed.
    pub(crate) fn is_empty(&self) -> bool {
        self.body.len == 0
    }

    /// The bytes of a block in the body.
    fn range(&self, block: usize) -> Range<u32> {
        let width = self.widths.of_block(block);
        let packed = packed_bytes(block_len(self.values, block), width);
        let len = packed + self.count(block) * self.exception_len();
        let start = match self.starts.get(block) {
            Some(&start) => start,
            None => clamped(block.saturating_mul(packed_bytes(super::node::BLOCK, width))),
        };
        start..start.saturating_add(clamped(len))
    }

    pub(crate) fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        let range = self.range(block);
        if !range.is_empty() {
            let start = self.body.start;
            let in_space = start.saturating_add(range.start)..start.saturating_add(range.end);
            ranges.push((self.body.space, in_space));
        }
    }

    /// Unpacks all values of a block and inserts the high bits of its exceptions.
    ///
    /// # Errors
    /// `Corrupt` for exceptions out of order or place.
    pub(crate) fn decode(
        &self,
        block: usize,
        bodies: &Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        let width = self.widths.of_block(block);
        let bytes = bodies.read(self.id, &self.body, self.range(block))?;
        let size = || self.id.corrupt_block(block, "not the size of its values");
        let (packed, exceptions) = bytes
            .split_at_checked(packed_bytes(out.len(), width))
            .ok_or_else(size)?;
        unpack(packed, width, out).ok_or_else(size)?;
        let mut least = 0;
        for exception in exceptions.chunks_exact(self.exception_len()) {
            let (place, high) = exception.split_at(PLACE_BYTES);
            let place = usize::from(u16::from_le_bytes([place[0], place[1]]));
            let (Some(value), true) = (out.get_mut(place), place >= least) else {
                let what = format!("an exception at place {place}, {least} is the least");
                return Err(self.id.corrupt_block(block, what));
            };
            *value |= shifted(word(high), width);
            least = place + 1;
        }
        Ok(())
    }

    /// Unpacks the values at some ascending places of a block and inserts the high bits of its exceptions.
    ///
    /// # Errors
    /// As [`decode`](Self::decode); `Corrupt` for a place outside of the block.
    pub(crate) fn take(
        &self,
        block: usize,
        places: &[u16],
        bodies: &Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        let width = self.widths.of_block(block);
        let len = block_len(self.values, block);
        let bytes = bodies.read(self.id, &self.body, self.range(block))?;
        let size = || self.id.corrupt_block(block, "not the size of its values");
        let (packed, exceptions) = bytes
            .split_at_checked(packed_bytes(len, width))
            .ok_or_else(size)?;
        for (value, &place) in out.iter_mut().zip(places) {
            *value = unpack_one(packed, width, len, usize::from(place)).ok_or_else(size)?;
        }
        let mut wanted = 0;
        let mut least = 0;
        for exception in exceptions.chunks_exact(self.exception_len()) {
            let (place, high) = exception.split_at(PLACE_BYTES);
            let place = u16::from_le_bytes([place[0], place[1]]);
            if usize::from(place) < least || usize::from(place) >= len {
                let what = format!("an exception at place {place}, {least} is the least");
                return Err(self.id.corrupt_block(block, what));
            }
            least = usize::from(place) + 1;
            while places.get(wanted).is_some_and(|&it| it < place) {
                wanted += 1;
            }
            // The caller may list the same place more than once.
            while places.get(wanted) == Some(&place) {
                if let Some(value) = out.get_mut(wanted) {
                    *value |= shifted(word(high), width);
                }
                wanted += 1;
            }
        }
        Ok(())
    }
}

fn clamped(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Shifts the high bits of an exception above the `width` packed bits; bits above the 64th are dropped.
fn shifted(high: u64, width: u8) -> u64 {
    high.checked_shl(u32::from(width)).unwrap_or(0)
}

/// Entry `n` counts the values of a block that need `n` bits.
pub(crate) type BitCounts = [u16; 65];

/// Counts values by their number of bits.
pub(crate) fn count_bits(values: impl IntoIterator<Item = u64>) -> BitCounts {
    let mut counts = [0; 65];
    for value in values {
        counts[usize::from(bits_of(value))] += 1;
    }
    counts
}

/// How the blocks of a node are packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packing {
    /// The width of each block.
    pub(crate) widths: Vec<u8>,
    pub(crate) exception_bytes: u8,
    /// Bytes of head (widths, counts) and body.
    pub(crate) byte_len: usize,
}

/// Returns the packing with the fewest bytes, given the bit counts of each block; no width exceeds `most` bits.
pub(crate) fn choose_packing(blocks: &[BitCounts], most: u8) -> Packing {
    let packings = [0_u8, 1, 2, 4, 8].map(|bytes| packing(blocks, bytes, most));
    let [first, rest @ ..] = packings;
    let mut best = first;
    for other in rest {
        if other.byte_len < best.byte_len {
            best = other;
        }
    }
    best
}

fn packing(blocks: &[BitCounts], exception_bytes: u8, most: u8) -> Packing {
    let mut widths = Vec::with_capacity(blocks.len());
    let mut byte_len = 0;
    for counts in blocks {
        let len: usize = counts.iter().map(|&it| usize::from(it)).sum();
        let widest = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
        let mut best = (usize::MAX, 0);
        let mut above = 0;
        // Try widths from the widest down: each smaller width turns more values into exceptions.
        for width in (0..=widest).rev() {
            let high_bits = if above > 0 { widest - width } else { 0 };
            if high_bits > 8 * usize::from(exception_bytes) {
                break;
            }
            let narrow = u8::try_from(width).unwrap_or(MAX_WIDTH);
            let exceptions = above * (PLACE_BYTES + usize::from(exception_bytes));
            let bytes = packed_bytes(len, narrow) + exceptions;
            if narrow <= most && bytes < best.0 {
                best = (bytes, narrow);
            }
            above += usize::from(counts[width]);
        }
        byte_len = usize::saturating_add(byte_len, best.0);
        widths.push(best.1);
    }
    if exception_bytes > 0 {
        byte_len = byte_len.saturating_add(2 * blocks.len());
    }
    if !is_uniform(&widths) {
        byte_len = byte_len.saturating_add(blocks.len());
    }
    Packing {
        widths,
        exception_bytes,
        byte_len,
    }
}

fn is_uniform(widths: &[u8]) -> bool {
    widths.windows(2).all(|pair| pair[0] == pair[1])
}

impl Packing {
    /// Returns the width field of the head: the width of all blocks, or [`WIDTHS_FOLLOW`].
    pub(crate) fn width_field(&self) -> u8 {
        match self.widths.first() {
            Some(&width) if is_uniform(&self.widths) => width,
            Some(_) => WIDTHS_FOLLOW,
            None => 0,
        }
    }

    /// Returns the list of widths that the head holds; empty if all blocks have the same width.
    pub(crate) fn width_list(&self) -> &[u8] {
        match self.width_field() {
            WIDTHS_FOLLOW => &self.widths,
            _ => &[],
        }
    }

    /// Appends a block to the body, and its count of exceptions to `counts`.
    pub(crate) fn push_block(
        &self,
        block: usize,
        values: &[u64],
        counts: &mut Vec<u8>,
        body: &mut Vec<u8>,
    ) {
        let width = self.widths.get(block).copied().unwrap_or(MAX_WIDTH);
        pack(values, width, body);
        if self.exception_bytes == 0 {
            return;
        }
        let mut count = 0_u16;
        for (place, &value) in (0_u16..).zip(values) {
            if bits_of(value) > width {
                body.extend(place.to_le_bytes());
                super::head::push_word(body, value >> width, self.exception_bytes);
                count += 1;
            }
        }
        counts.extend(count.to_le_bytes());
    }
}
