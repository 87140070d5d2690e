//! The code that all encodings of text and binary values share.
//!
//! Each stores the bytes of the values; the lengths of the values are a node of numbers beside them. An encoding is one file:
//! `encode` makes the node, `parse` checks its head and keeps the tables that blocks need, and [`Kernel`] turns the bytes of a
//! block into text. [`TextNode`] joins a kernel with the lengths.
//!
//! Decoders don't know whether the values are UTF-8: the caller checks that after decoding.

use std::fmt::Debug;
use std::ops::Range;

use super::decoder::{Bodies, BodyRange, Numbers, TextOut, Texts};
use super::leaf;
use super::node::{BLOCK, Body, EncodedNode, Node, NodeId, block_len};
use crate::error::Error;

pub(crate) mod chars;
pub(crate) mod choose;
pub(crate) mod front;
pub(crate) mod fsst;
mod fsst_train;
pub(crate) mod pair;
mod pair_match;
mod pair_train;
pub(crate) mod raw;
mod starts;

/// Values of text or binary, one behind the other, as encoders get them.
#[derive(Debug, Clone, Copy)]
pub struct TextValues<'a> {
    bytes: &'a [u8],
    offsets: &'a [u32],
}

impl<'a> TextValues<'a> {
    /// Returns the values of `bytes` that lie between neighbouring offsets.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] if the offsets are none, don't ascend, or don't cover exactly `bytes`.
    pub fn new(bytes: &'a [u8], offsets: &'a [u32]) -> Result<Self, Error> {
        let last = offsets.last().map(|it| *it as usize);
        if offsets.first() != Some(&0) || last != Some(bytes.len()) || !offsets.is_sorted() {
            return Err(Error::invalid(format!(
                "offsets of text do not ascend from 0 to {}",
                bytes.len()
            )));
        }
        Ok(Self { bytes, offsets })
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// No values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// One value.
    #[must_use]
    pub fn get(&self, value: usize) -> &'a [u8] {
        self.span(value..value + 1)
    }

    /// The bytes of some values that lie behind each other.
    #[must_use]
    pub fn span(&self, values: Range<usize>) -> &'a [u8] {
        &self.bytes[self.offsets[values.start] as usize..self.offsets[values.end] as usize]
    }

    /// Length of each value in bytes.
    pub fn lengths(&self) -> impl Iterator<Item = u32> + 'a {
        self.offsets.windows(2).map(|pair| pair[1] - pair[0])
    }

    /// The node of the lengths.
    fn length_node(&self) -> EncodedNode {
        let lengths: Vec<u64> = self.lengths().map(u64::from).collect();
        leaf::encode_lengths(&lengths)
    }

    /// The values of each block.
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> + 'static {
        let len = self.len();
        let blocks = (0..len).step_by(BLOCK);
        blocks.map(move |start| start..len.min(start + BLOCK))
    }
}

/// Decodes the body bytes of one encoding of text. [`TextNode`] checks the lengths of the values before it calls a
/// kernel.
pub(crate) trait Kernel: Debug + Send + Sync {
    /// Number of values that the kernel decodes together to return one value.
    const UNIT: usize;

    /// Returns the range of body bytes that hold a block.
    ///
    /// # Errors
    /// `Corrupt` if there is no such block.
    fn block_range(&self, block: usize) -> Result<Range<usize>, Error>;

    /// Returns the most bytes of text to which `bytes` bytes of the body can decode.
    fn most_text(&self, bytes: usize) -> usize;

    /// Fills `text`, which is as long as the lengths of the block say, from the bytes of [`Self::block_range`].
    ///
    /// # Errors
    /// `Corrupt` if the bytes stand for a text of another length, or for none.
    fn decode_block(
        &self,
        block: usize,
        bytes: &[u8],
        lengths: &[u32],
        text: &mut [u8],
    ) -> Result<(), Error>;

    /// Fills `text` with the [`Self::UNIT`] values of a group, before which the block has `skipped` bytes of text.
    ///
    /// # Errors
    /// As [`Self::decode_block`].
    fn decode_group(
        &self,
        block: usize,
        group: usize,
        bytes: &[u8],
        skipped: usize,
        text: &mut [u8],
    ) -> Result<(), Error>;
}

/// A node of text: a kernel, its body, and the lengths of the values.
#[derive(Debug)]
pub(crate) struct TextNode<K> {
    id: NodeId,
    body: Body,
    lengths: Box<dyn Numbers>,
    kernel: K,
}

/// The length of each value of a block, and their sum.
struct Lengths {
    lengths: Vec<u32>,
    total: u64,
}

impl<K: Kernel> TextNode<K> {
    /// Joins a kernel with lengths, of which there must be one per value.
    fn of(node: &Node<'_>, lengths: Box<dyn Numbers>, kernel: K) -> Result<Self, Error> {
        node.refuse_flags(0)?;
        node.expect_values("lengths", lengths.num_values(), node.values)?;
        Ok(Self {
            id: node.id,
            body: node.body,
            lengths,
            kernel,
        })
    }

    /// Lengths of a block, whose sum no body of `bytes` bytes contradicts.
    fn lengths(&self, block: usize, bodies: &mut Bodies<'_>) -> Result<Lengths, Error> {
        let lengths = block_lengths(&*self.lengths, block, bodies, self.id)?;
        let total = lengths.iter().map(|it| u64::from(*it)).sum();
        let most = self.kernel.most_text(self.kernel.block_range(block)?.len());
        if total > most as u64 {
            return Err(self.id.corrupt_block(
                block,
                format!("{total} bytes of text, where at most {most} can be stored"),
            ));
        }
        Ok(Lengths { lengths, total })
    }

    fn body_range(&self, block: usize) -> Result<Range<u32>, Error> {
        let range = self.kernel.block_range(block)?;
        let [start, end] = [range.start, range.end].map(|it| u32::try_from(it).unwrap_or(u32::MAX));
        Ok(start..end)
    }
}

/// The numbers of a block as lengths of values.
fn block_lengths(
    numbers: &dyn Numbers,
    block: usize,
    bodies: &mut Bodies<'_>,
    id: NodeId,
) -> Result<Vec<u32>, Error> {
    let mut words = [0; BLOCK];
    let words = &mut words[..block_len(numbers.num_values(), block)];
    numbers.decode_block(block, bodies, words)?;
    let length = |word: &u64| {
        u32::try_from(*word)
            .map_err(|_| id.corrupt_block(block, format!("a value of {word} bytes")))
    };
    words.iter().map(length).collect()
}

impl<K: Kernel> Texts for TextNode<K> {
    fn num_values(&self) -> usize {
        self.lengths.num_values()
    }

    fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        self.lengths.plan(block, ranges);
        // A block that does not exist is refused when it is decoded.
        if let Ok(range) = self.body_range(block) {
            let at = |byte: u32| self.body.start.saturating_add(byte);
            ranges.push((self.body.space, at(range.start)..at(range.end)));
        }
    }

    fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut TextOut,
    ) -> Result<(), Error> {
        let Lengths { lengths, total } = self.lengths(block, bodies)?;
        let bytes = bodies.read(self.id, &self.body, self.body_range(block)?)?;
        // The sum is below what the bytes in memory can expand to.
        let text = out.grow(usize::try_from(total).unwrap_or(usize::MAX))?;
        self.kernel.decode_block(block, bytes, &lengths, text)?;
        out.lengths.extend_from_slice(&lengths);
        Ok(())
    }

    fn take(
        &self,
        block: usize,
        places: &[u16],
        bodies: &mut Bodies<'_>,
        out: &mut TextOut,
    ) -> Result<(), Error> {
        let Lengths { lengths, .. } = self.lengths(block, bodies)?;
        let bytes = bodies.read(self.id, &self.body, self.body_range(block)?)?;
        let (mut decoded, mut current) = (Vec::new(), None);
        let (mut skipped, mut passed) = (0, 0);
        for place in places {
            let place = usize::from(*place);
            let group = place / K::UNIT;
            let first = group * K::UNIT;
            let of_group = lengths.get(first..lengths.len().min(first + K::UNIT));
            let of_group = of_group.filter(|it| place - first < it.len());
            let of_group = of_group
                .ok_or_else(|| self.id.corrupt_block(block, format!("no value {place}")))?;
            if first < passed {
                (skipped, passed) = (0, 0);
            }
            skipped += sum(&lengths[passed..first]);
            passed = first;
            if current != Some(group) {
                decoded.clear();
                decoded.resize(sum(of_group), 0);
                self.kernel
                    .decode_group(block, group, bytes, skipped, &mut decoded)?;
                current = Some(group);
            }
            let start = sum(&of_group[..place - first]);
            let length = of_group[place - first] as usize;
            out.push(&decoded[start..start + length])?;
        }
        Ok(())
    }
}

/// A sum of lengths that [`TextNode::lengths`] compared with bytes in memory.
fn sum(lengths: &[u32]) -> usize {
    lengths.iter().map(|it| *it as usize).sum()
}
