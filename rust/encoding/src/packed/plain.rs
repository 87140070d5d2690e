//! Encoding 0, `plain`: the values as in a plain page; the parameter is the bytes of a value.

use super::decoder::{Bodies, BodyRange, Numbers};
use super::encoding::Encoding;
use super::head::{Head, push_word, word};
use super::node::{BLOCK, Body, EncodedNode, Node, NodeId, block_len};
use crate::error::Error;

/// Values of any size from 1 to 255 bytes.
#[derive(Debug)]
pub(crate) struct Plain {
    id: NodeId,
    body: Body,
    values: usize,
    width: u8,
}

/// # Errors
/// `Corrupt` for a body of another size, or values without bytes.
pub(crate) fn parse(node: &Node<'_>) -> Result<Plain, Error> {
    node.refuse_flags(0)?;
    Head::of(node).end()?;
    if node.parameter == 0 {
        return Err(node.id.corrupt("values of 0 bytes"));
    }
    node.expect_body(node.values as u64 * u64::from(node.parameter))?;
    Ok(Plain {
        id: node.id,
        body: node.body,
        values: node.values,
        width: node.parameter,
    })
}

/// Values that are words.
///
/// # Errors
/// As [`parse`]; `Corrupt` for values of more than 8 bytes.
pub(crate) fn parse_numbers(node: &Node<'_>) -> Result<Plain, Error> {
    match node.parameter {
        0..=8 => parse(node),
        width => Err(node.id.corrupt(format!("numbers of {width} bytes"))),
    }
}

impl Plain {
    fn range(&self, block: usize) -> std::ops::Range<u32> {
        let width = usize::from(self.width);
        let start = block.saturating_mul(BLOCK * width);
        let end = start.saturating_add(block_len(self.values, block) * width);
        // The body holds all values, so what does not fit 4 bytes is behind its end.
        let clamped = |byte| u32::try_from(byte).unwrap_or(u32::MAX);
        clamped(start)..clamped(end)
    }

    /// The bytes of a block.
    ///
    /// # Errors
    /// `Missing` if they were not fetched.
    pub(crate) fn block<'b>(
        &self,
        block: usize,
        bodies: &'b Bodies<'_>,
    ) -> Result<&'b [u8], Error> {
        bodies.read(self.id, &self.body, self.range(block))
    }
}

impl Numbers for Plain {
    fn num_values(&self) -> usize {
        self.values
    }

    fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        let range = self.range(block);
        if !range.is_empty() {
            let start = self.body.start;
            let in_space = start.saturating_add(range.start)..start.saturating_add(range.end);
            ranges.push((self.body.space, in_space));
        }
    }

    fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        let bytes = self.block(block, bodies)?;
        let values = bytes.chunks_exact(usize::from(self.width));
        for (out, value) in out.iter_mut().zip(values) {
            *out = word(value);
        }
        Ok(())
    }
}

/// The low `width` bytes of words, 1 to 8.
#[must_use]
pub fn encode(values: &[u64], width: u8) -> EncodedNode {
    let mut node = EncodedNode::new(Encoding::Plain, width, values.len());
    for &value in values {
        push_word(&mut node.body, value, width);
    }
    node
}

/// Values of `width` bytes each, one after the other.
#[must_use]
pub fn encode_bytes(bytes: &[u8], width: u8) -> EncodedNode {
    let mut node = EncodedNode::new(Encoding::Plain, width, 0);
    node.values = bytes.len() / usize::from(width.max(1));
    node.body.extend_from_slice(bytes);
    node
}
