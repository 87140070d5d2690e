//! Encoding 12, `pair`: frequent byte sequences of 1 to 16 bytes stored as codes of 8 to 12 bits.
//!
//! The tokens are found by joining pairs of neighbouring tokens that are frequent (Gargiulo, Vigna, Venturini: OnPair, 2025);
//! trainer and decoder are our own.
//!
//! ```text
//! head   u16 tokens, 1..=4096 | u8 bytes of a group's start, 2 or 4 | u8 0 | u32 codes
//!        u8 length of each token | their bytes, filled with zeros up to 4
//!        u32 number of the first code of each block | of each group of 32 values, counted from its block
//! body   codes in the bits of the highest one, at least 8, packed by 1,024 ("Packed order")
//! below  lengths of the decoded values
//! ```

use std::ops::Range;

use super::pair_match::{MOST_BYTES, MOST_TOKENS, Tokens};
use super::pair_train::train;
use super::starts::{GROUP, Starts, StartsBuilder};
use super::{Kernel, TextNode, TextValues};
use crate::error::Error;
use crate::packed::decoder::Numbers;
use crate::packed::encoding::Encoding;
use crate::packed::head::Head;
use crate::packed::node::{BLOCK, EncodedNode, Node, NodeId, num_blocks, to_u32};
use crate::packed::pack::{bits_of, pack, packed_bytes, unpack};

/// Bits of a code: at least 8, so that codes of a short table are bytes.
fn width_of(tokens: usize) -> u8 {
    bits_of(tokens.saturating_sub(1) as u64).max(8)
}

/// Tokens for a page, and the means to code text with them.
#[derive(Debug)]
pub(crate) struct Table {
    tokens: Tokens,
}

impl Table {
    /// Learns tokens from the text, of which every byte becomes a token.
    #[must_use]
    pub(crate) fn train(texts: &TextValues<'_>) -> Self {
        Self {
            tokens: train(texts),
        }
    }

    /// Bytes of the head for so many values.
    #[must_use]
    pub(crate) fn head_length(&self, values: usize) -> usize {
        let tokens: usize = (0..self.tokens.len())
            .map(|it| 1 + self.tokens.get(it).len())
            .sum();
        12 + tokens + num_blocks(values) * 4 + values.div_ceil(GROUP) * 2
    }

    /// Bits of a code.
    #[must_use]
    pub(crate) fn width(&self) -> u8 {
        width_of(self.tokens.len())
    }

    /// Appends the codes of some values that lie behind each other.
    pub(crate) fn encode_values(
        &self,
        texts: &TextValues<'_>,
        values: Range<usize>,
        codes: &mut Vec<u16>,
    ) {
        for value in values {
            let mut rest = texts.get(value);
            while let Some((code, length)) = self.tokens.longest(rest) {
                codes.push(code);
                rest = &rest[length..];
            }
        }
    }

    /// Stores all values, with the tokens that are used.
    ///
    /// # Errors
    /// `Limit` for more than 2^32 codes.
    pub(crate) fn encode(&self, texts: &TextValues<'_>) -> Result<EncodedNode, Error> {
        let mut starts = StartsBuilder::default();
        let mut codes = Vec::with_capacity(texts.bytes().len() / 4);
        for first in (0..texts.len()).step_by(GROUP) {
            starts.push(first, to_u32(codes.len(), "codes of text in a page")?);
            self.encode_values(texts, first..texts.len().min(first + GROUP), &mut codes);
        }
        let count = to_u32(codes.len(), "codes of text in a page")?;
        let mut used = vec![false; self.tokens.len()];
        codes
            .iter()
            .for_each(|code| used[usize::from(*code)] = true);
        let mut kept: Vec<usize> = (0..used.len()).filter(|token| used[*token]).collect();
        if kept.is_empty() {
            kept.push(0);
        }
        let mut numbers = vec![0_u64; used.len()];
        for (number, token) in (0..).zip(&kept) {
            numbers[*token] = number;
        }
        let mut node = EncodedNode::new(Encoding::Pair, 0, texts.len());
        let head = &mut node.head;
        head.extend_from_slice(&kept.len().to_le_bytes()[..2]);
        head.extend([starts.group_bytes(), 0]);
        head.extend(count.to_le_bytes());
        head.extend(
            kept.iter()
                .map(|it| self.tokens.get(*it).len().to_le_bytes()[0]),
        );
        for token in &kept {
            head.extend_from_slice(self.tokens.get(*token));
        }
        head.resize(head.len().next_multiple_of(4), 0);
        starts.write(head);
        let mut block = [0; BLOCK];
        for codes in codes.chunks(BLOCK) {
            let block = &mut block[..codes.len()];
            for (to, code) in block.iter_mut().zip(codes) {
                *to = numbers[usize::from(*code)];
            }
            pack(block, width_of(kept.len()), &mut node.body);
        }
        node.children = vec![texts.length_node()];
        Ok(node)
    }
}

/// A parsed head, its tokens widened to 16 bytes.
#[derive(Debug)]
pub(crate) struct Pair {
    id: NodeId,
    /// As many as codes of this width can name; length 0: no such token.
    tokens: Vec<([u8; MOST_BYTES], u8)>,
    width: u8,
    codes: usize,
    starts: Starts,
}

/// Checks a node of text in tokens.
///
/// # Errors
/// `Corrupt` if the head contradicts itself or the body.
pub(crate) fn parse(node: &Node<'_>, lengths: Box<dyn Numbers>) -> Result<TextNode<Pair>, Error> {
    let id = node.id;
    let mut head = Head::of(node);
    let count = usize::from(head.u16()?);
    let group_bytes = head.u8()?;
    head.zeros(1)?;
    let codes = head.u32()?;
    if !(1..=MOST_TOKENS).contains(&count) || !matches!(group_bytes, 2 | 4) {
        return Err(id.corrupt(format!("{count} tokens, starts of {group_bytes} bytes")));
    }
    let width = width_of(count);
    let mut tokens = vec![([0; MOST_BYTES], 0); 1 << width];
    let mut read = count;
    for (token, length) in tokens.iter_mut().zip(head.bytes(count)?) {
        if !(1..=MOST_BYTES).contains(&usize::from(*length)) {
            return Err(id.corrupt(format!("a token of {length} bytes")));
        }
        let bytes = head.bytes(usize::from(*length))?;
        token.0[..bytes.len()].copy_from_slice(bytes);
        token.1 = *length;
        read += bytes.len();
    }
    head.zeros(read.next_multiple_of(4) - read)?;
    node.expect_body((u64::from(codes) * u64::from(width)).div_ceil(8))?;
    let starts = Starts::parse(node, &mut head, codes, group_bytes)?;
    head.end()?;
    let kernel = Pair {
        id,
        tokens,
        width,
        codes: codes as usize,
        starts,
    };
    TextNode::of(node, lengths, kernel)
}

impl Kernel for Pair {
    const UNIT: usize = GROUP;

    /// The bytes of all blocks of codes that the codes of the values touch.
    fn block_range(&self, block: usize) -> Result<Range<usize>, Error> {
        let Range { start, end } = self.starts.block(block)?;
        if start == end {
            return Ok(0..0);
        }
        let end = end.next_multiple_of(BLOCK).min(self.codes);
        Ok(packed_bytes(start / BLOCK * BLOCK, self.width)..packed_bytes(end, self.width))
    }

    fn most_text(&self, bytes: usize) -> usize {
        (bytes.saturating_mul(8) / usize::from(self.width)).saturating_mul(MOST_BYTES)
    }

    fn decode_block(
        &self,
        block: usize,
        bytes: &[u8],
        _: &[u32],
        text: &mut [u8],
    ) -> Result<(), Error> {
        let codes = self.starts.block(block)?;
        self.decode(block, codes, bytes, text)
    }

    fn decode_group(
        &self,
        block: usize,
        group: usize,
        bytes: &[u8],
        _: usize,
        text: &mut [u8],
    ) -> Result<(), Error> {
        let start = self.starts.block(block)?.start;
        let codes = self.starts.group(block, group)?;
        self.decode(block, start + codes.start..start + codes.end, bytes, text)
    }
}

impl Pair {
    /// Fills `text` from the codes of a block of values; `bytes` are those of [`Kernel::block_range`].
    fn decode(
        &self,
        block: usize,
        codes: Range<usize>,
        bytes: &[u8],
        text: &mut [u8],
    ) -> Result<(), Error> {
        let wrong = || {
            let what = "codes do not stand for texts of these lengths";
            self.id.corrupt_block(block, what)
        };
        let first = self.starts.block(block)?.start / BLOCK * BLOCK;
        let mut unpacked = [0; BLOCK];
        let (mut at, mut next) = (0, codes.start);
        while next < codes.end {
            let from = next / BLOCK * BLOCK;
            let to = self.codes.min(from + BLOCK);
            let place = |code: usize| packed_bytes(code - first, self.width);
            let packed = bytes.get(place(from)..place(to)).ok_or_else(wrong)?;
            let unpacked = &mut unpacked[..to - from];
            unpack(packed, self.width, unpacked).ok_or_else(wrong)?;
            let end = codes.end.min(to);
            at = self
                .write(&unpacked[next - from..end - from], at, text)
                .ok_or_else(wrong)?;
            next = end;
        }
        if at == text.len() {
            Ok(())
        } else {
            Err(wrong())
        }
    }

    /// Writes tokens from byte `at` on; returns where they end, `None` if a code has no token or the text no room.
    fn write(&self, codes: &[u64], mut at: usize, text: &mut [u8]) -> Option<usize> {
        let mut sound = true;
        for code in codes {
            // Unpacked codes have no more bits than the table has places for.
            let (token, length) = self.tokens.get(usize::try_from(*code).ok()?)?;
            let length = usize::from(*length);
            sound &= length > 0;
            // Every token is written with 16 bytes while they fit: the next one covers those behind its length.
            match text.get_mut(at..at + MOST_BYTES) {
                Some(slot) => slot.copy_from_slice(token),
                None => text
                    .get_mut(at..at + length)?
                    .copy_from_slice(&token[..length]),
            }
            at += length;
        }
        sound.then_some(at)
    }
}
