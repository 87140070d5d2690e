//! Encoding 13, `chars`: text of at most 64 different bytes, each stored in 1 to 6 bits.
//!
//! ```text
//! head   u8 count of the alphabet, 2..=64 | u8 bits | u8 kind | u8 0
//!        u32 length of every value (kind 0), 0 (kind 1)
//!        the alphabet, ascending, filled with zeros up to 4
//!        kind 1: u32 start of each block in the body
//! body   numbers of the alphabet's bytes, least significant bit first; every block starts on a byte
//! below  lengths
//! ```

use std::ops::Range;

use super::starts::{Starts, StartsBuilder};
use super::{Kernel, TextNode, TextValues};
use crate::error::Error;
use crate::packed::decoder::Numbers;
use crate::packed::encoding::Encoding;
use crate::packed::head::Head;
use crate::packed::node::{BLOCK, EncodedNode, Node, NodeId, block_len, num_blocks, to_u32};

/// The largest alphabet.
pub(crate) const MOST_CHARS: usize = 64;

/// An alphabet of more runs is decoded faster by a table.
const MOST_RUNS: usize = 6;

/// Bytes that are mapped while they are in the first-level cache.
const CHUNK: usize = 4096;

/// A parsed head.
#[derive(Debug)]
pub(crate) struct Chars {
    id: NodeId,
    bits: usize,
    count: usize,
    alphabet: [u8; MOST_CHARS],
    runs: Vec<Run>,
    place: Place,
}

/// Where blocks begin.
#[derive(Debug)]
enum Place {
    /// All values have this length, in bytes of text.
    Equal {
        length: usize,
        values: usize,
    },
    Starts(Starts),
}

/// Neighbouring numbers that stand for neighbouring bytes: text that is at least `from`, after the steps of
/// the runs before, goes up by `step`.
#[derive(Debug, Clone, Copy)]
struct Run {
    from: u8,
    step: u8,
}

/// The different bytes of a text, ascending.
#[must_use]
pub(crate) fn alphabet(bytes: &[u8]) -> Vec<u8> {
    let mut seen = [false; 256];
    for byte in bytes {
        seen[usize::from(*byte)] = true;
    }
    (0..=u8::MAX).filter(|it| seen[usize::from(*it)]).collect()
}

fn bits_of(count: usize) -> usize {
    let highest = count.saturating_sub(1).max(1);
    (usize::BITS - highest.leading_zeros()) as usize
}

/// Bytes of head and body for text of this alphabet, at most.
#[must_use]
pub(crate) fn estimate(count: usize, text_length: usize, values: usize) -> usize {
    (text_length * bits_of(count)).div_ceil(8) + num_blocks(values) * 5 + 8 + count
}

/// Stores values by the numbers of their bytes in `alphabet`, all bytes of the text in ascending order;
/// `None` if they are more than 64.
///
/// # Errors
/// `Limit` if the body would exceed 4 GiB.
pub(crate) fn encode(
    texts: &TextValues<'_>,
    alphabet: &[u8],
) -> Result<Option<EncodedNode>, Error> {
    if alphabet.len() > MOST_CHARS {
        return Ok(None);
    }
    let mut alphabet = alphabet.to_vec();
    // The format requires an alphabet of at least two bytes.
    let others = (0..=u8::MAX).filter(|it| !alphabet.contains(it));
    let missing: Vec<u8> = others
        .take(2_usize.saturating_sub(alphabet.len()))
        .collect();
    alphabet.extend(missing);
    alphabet.sort_unstable();
    let mut numbers = [0_u8; 256];
    for (number, byte) in (0..).zip(&alphabet) {
        numbers[usize::from(*byte)] = number;
    }
    let bits = bits_of(alphabet.len());
    let mut node = EncodedNode::new(Encoding::Chars, 0, texts.len());
    let mut starts = StartsBuilder::default();
    let body = &mut node.body;
    body.reserve((texts.bytes().len() * bits).div_ceil(8) + num_blocks(texts.len()));
    for block in texts.blocks() {
        starts.push(block.start, to_u32(body.len(), "bytes of packed text")?);
        push_bits(texts.span(block), &numbers, bits, body);
    }
    to_u32(body.len(), "bytes of packed text")?;
    let first = texts.lengths().next();
    let equal = first.filter(|first| texts.lengths().all(|it| it == *first));
    let [count, width] = [alphabet.len(), bits].map(|it| it.to_le_bytes()[0]);
    let head = &mut node.head;
    head.extend([count, width, u8::from(equal.is_none()), 0]);
    head.extend(equal.unwrap_or(0).to_le_bytes());
    head.extend(alphabet);
    head.resize(head.len().next_multiple_of(4), 0);
    if equal.is_none() {
        starts.write_blocks(head);
    }
    node.children = vec![texts.length_node()];
    Ok(Some(node))
}

fn push_bits(text: &[u8], numbers: &[u8; 256], bits: usize, body: &mut Vec<u8>) {
    let mut chunks = text.chunks_exact(8);
    for chunk in &mut chunks {
        // Eight numbers of `bits` bits each take exactly `bits` bytes.
        let mut word = 0_u64;
        for (index, byte) in chunk.iter().enumerate() {
            word |= u64::from(numbers[usize::from(*byte)]) << (index * bits);
        }
        body.extend_from_slice(&word.to_le_bytes()[..bits]);
    }
    let rest = chunks.remainder();
    let mut word = 0_u64;
    for (index, byte) in rest.iter().enumerate() {
        word |= u64::from(numbers[usize::from(*byte)]) << (index * bits);
    }
    body.extend_from_slice(&word.to_le_bytes()[..(rest.len() * bits).div_ceil(8)]);
}

/// Checks a node of text over an alphabet.
///
/// # Errors
/// `Corrupt` if the head contradicts itself or the body.
pub(crate) fn parse(node: &Node<'_>, lengths: Box<dyn Numbers>) -> Result<TextNode<Chars>, Error> {
    let (id, values) = (node.id, node.values);
    let mut head = Head::of(node);
    let [count, bits, kind] = [head.u8()?, head.u8()?, head.u8()?];
    head.zeros(1)?;
    let length = head.u32()? as usize;
    let (count, bits) = (usize::from(count), usize::from(bits));
    let alphabet = head.bytes(count)?;
    let ascends = alphabet.windows(2).all(|pair| pair[0] < pair[1]);
    if !(2..=MOST_CHARS).contains(&count) || !ascends || bits != bits_of(count) {
        return Err(id.corrupt(format!("alphabet {alphabet:?} in {bits} bits")));
    }
    head.zeros(count.next_multiple_of(4) - count)?;
    let mut table = [0; MOST_CHARS];
    table[..count].copy_from_slice(alphabet);
    let place = match kind {
        0 => {
            node.expect_body(equal_end(length, values, bits).unwrap_or(u64::MAX))?;
            Place::Equal { length, values }
        }
        1 if length == 0 => Place::Starts(Starts::parse(node, &mut head, node.body.len, 0)?),
        other => return Err(id.corrupt(format!("kind {other} with length {length}"))),
    };
    head.end()?;
    let kernel = Chars {
        id,
        bits,
        count,
        alphabet: table,
        runs: runs(alphabet),
        place,
    };
    TextNode::of(node, lengths, kernel)
}

impl Kernel for Chars {
    const UNIT: usize = 1;

    fn block_range(&self, block: usize) -> Result<Range<usize>, Error> {
        match &self.place {
            Place::Starts(starts) => starts.block(block),
            Place::Equal { length, values } => {
                let count = block_len(*values, block);
                if count == 0 {
                    return Err(self.id.corrupt_block(block, "there is no such block"));
                }
                // `parse` has compared the end of the last block with the body, whose length has 32 bits.
                let start = BLOCK / 8 * length * self.bits * block;
                Ok(start..start + (count * length * self.bits).div_ceil(8))
            }
        }
    }

    fn most_text(&self, bytes: usize) -> usize {
        bytes.saturating_mul(8) / self.bits
    }

    fn decode_block(
        &self,
        block: usize,
        bytes: &[u8],
        lengths: &[u32],
        text: &mut [u8],
    ) -> Result<(), Error> {
        let lengths_fit = match &self.place {
            Place::Starts(_) => true,
            Place::Equal { length, .. } => lengths.iter().all(|it| *it as usize == *length),
        };
        if !lengths_fit || (text.len() * self.bits).div_ceil(8) != bytes.len() {
            let (has, bits, wants) = (bytes.len(), self.bits, text.len());
            let what = format!("{has} bytes in {bits} bits, the lengths say {wants} bytes of text");
            return Err(self.id.corrupt_block(block, what));
        }
        let mut bytes = bytes;
        for text in text.chunks_mut(CHUNK) {
            unpack(bytes, self.bits, text);
            self.to_text(text, block)?;
            bytes = &bytes[(text.len() * self.bits / 8).min(bytes.len())..];
        }
        Ok(())
    }

    fn decode_group(
        &self,
        block: usize,
        _: usize,
        bytes: &[u8],
        skipped: usize,
        text: &mut [u8],
    ) -> Result<(), Error> {
        unpack_from(bytes, skipped.saturating_mul(self.bits), self.bits, text);
        self.to_text(text, block)
    }
}

impl Chars {
    /// Turns numbers of the alphabet's bytes into the bytes.
    fn to_text(&self, text: &mut [u8], block: usize) -> Result<(), Error> {
        let highest = text.iter().fold(0, |highest, it| highest.max(*it));
        if usize::from(highest) >= self.count {
            let what = format!("number {highest} of an alphabet of {}", self.count);
            return Err(self.id.corrupt_block(block, what));
        }
        if self.runs.len() > MOST_RUNS {
            for byte in text.iter_mut() {
                // The number is below the count of the alphabet, which has no more bytes than the table.
                *byte = self.alphabet[usize::from(*byte & 63)];
            }
            return Ok(());
        }
        // A loop per run of neighbours, without a table: the compiler turns each into vector instructions.
        for &Run { from, step } in &self.runs {
            for byte in text.iter_mut() {
                let step = if *byte >= from { step } else { 0 };
                *byte = byte.wrapping_add(step);
            }
        }
        Ok(())
    }
}

/// Bytes of the body of values of one length; `None` above 64 bits.
fn equal_end(length: usize, values: usize, bits: usize) -> Option<u64> {
    let value = (length as u64).checked_mul(bits as u64)?;
    let full = value.checked_mul((values / BLOCK * (BLOCK / 8)) as u64)?;
    let rest = value.checked_mul((values % BLOCK) as u64)?;
    full.checked_add(rest.div_ceil(8))
}

/// The runs of an ascending alphabet. Runs of higher numbers come later, so each compares with the text as the runs
/// before have left it, and that ascends as the numbers do.
fn runs(alphabet: &[u8]) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut added = 0_u8;
    for (number, byte) in (0_u8..).zip(alphabet) {
        let wanted = byte - number;
        if wanted != added {
            runs.push(Run {
                from: number + added,
                step: wanted - added,
            });
            added = wanted;
        }
    }
    runs
}

/// Unpacks numbers from the first bit of `bytes` on; those whose bytes are missing are 0.
fn unpack(bytes: &[u8], bits: usize, text: &mut [u8]) {
    let done = match bits {
        1 => unpack_words::<1>(bytes, text),
        2 => unpack_words::<2>(bytes, text),
        3 => unpack_words::<3>(bytes, text),
        4 => unpack_halves(bytes, text),
        5 => unpack_words::<5>(bytes, text),
        _ => unpack_words::<6>(bytes, text),
    };
    unpack_from(bytes, done * bits, bits, &mut text[done..]);
}

/// Unpacks eight numbers at a time; returns how many numbers were unpacked.
fn unpack_words<const BITS: usize>(bytes: &[u8], text: &mut [u8]) -> usize {
    let mask = (1_u64 << BITS) - 1;
    let pairs = bytes.chunks_exact(BITS).zip(text.chunks_exact_mut(8));
    let mut done = 0;
    for (stored, text) in pairs {
        let mut word = [0; 8];
        word[..BITS].copy_from_slice(stored);
        let word = u64::from_le_bytes(word);
        for (index, number) in text.iter_mut().enumerate() {
            *number = ((word >> (index * BITS)) & mask).to_le_bytes()[0];
        }
        done += 8;
    }
    done
}

/// Two numbers a byte.
fn unpack_halves(bytes: &[u8], text: &mut [u8]) -> usize {
    let count = bytes.len().min(text.len() / 2);
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = byte & 15;
        pair[1] = byte >> 4;
    }
    2 * count
}

/// Unpacks numbers from any bit on.
fn unpack_from(bytes: &[u8], first: usize, bits: usize, text: &mut [u8]) {
    let mask = (1_u16 << bits) - 1;
    let mut bit = first;
    for number in text {
        let byte = |index: usize| bytes.get(index).copied().unwrap_or(0);
        let word = u16::from_le_bytes([byte(bit / 8), byte(bit / 8 + 1)]);
        *number = (word >> (bit % 8) & mask).to_le_bytes()[0];
        bit = bit.saturating_add(bits);
    }
}
