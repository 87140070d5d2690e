//! Encoding 1, `constant`: all values are equal. The head holds the value; the parameter is its number of bytes.

use super::decoder::{Bodies, BodyRange, Numbers, TextOut, Texts};
use super::encoding::Encoding;
use super::head::{Head, push_word, word};
use super::node::{EncodedNode, Node, block_len};
use crate::error::Error;

/// A number, a value of fixed size, or a text of at most 255 bytes.
#[derive(Debug)]
pub(crate) struct Constant {
    value: Vec<u8>,
    values: usize,
}

/// # Errors
/// `Corrupt` for a head that is not one value, or a body.
pub(crate) fn parse(node: &Node<'_>) -> Result<Constant, Error> {
    node.refuse_flags(0)?;
    node.expect_body(0)?;
    let mut head = Head::of(node);
    let value = head.bytes(usize::from(node.parameter))?.to_vec();
    head.end()?;
    Ok(Constant {
        value,
        values: node.values,
    })
}

/// Parses a node of numbers that fit a word of 64 bits.
///
/// # Errors
/// As [`parse`]; `Corrupt` for a number that 8 bytes, sign-extended, do not hold.
pub(crate) fn parse_number(node: &Node<'_>) -> Result<Constant, Error> {
    let constant = parse(node)?;
    let sign = if constant.word().cast_signed() < 0 {
        0xff
    } else {
        0
    };
    match constant.value.get(8..) {
        Some(above) if above.iter().any(|&byte| byte != sign) => {
            Err(node.id.corrupt("a number of more than 64 bits"))
        }
        _ => Ok(constant),
    }
}

impl Constant {
    /// The bytes of the value.
    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }

    /// Returns the value as an integer of 8 bytes. If the value has 16 bytes, returns its low 8 bytes.
    fn word(&self) -> u64 {
        word(&self.value)
    }

    fn push(&self, count: usize, out: &mut TextOut) -> Result<(), Error> {
        let len = self.value.len();
        let bytes = out.grow(len.saturating_mul(count))?;
        if len > 0 {
            for text in bytes.chunks_exact_mut(len) {
                text.copy_from_slice(&self.value);
            }
        }
        let length = super::node::to_u32(len, "bytes of one text")?;
        out.lengths.resize(out.lengths.len() + count, length);
        Ok(())
    }
}

impl Numbers for Constant {
    fn num_values(&self) -> usize {
        self.values
    }

    fn plan(&self, _block: usize, _ranges: &mut Vec<BodyRange>) {}

    fn decode_block(
        &self,
        _block: usize,
        _bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        out.fill(self.word());
        Ok(())
    }

    fn take(
        &self,
        _block: usize,
        _places: &[u16],
        _bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        out.fill(self.word());
        Ok(())
    }
}

impl Texts for Constant {
    fn num_values(&self) -> usize {
        self.values
    }

    fn plan(&self, _block: usize, _ranges: &mut Vec<BodyRange>) {}

    fn decode_block(
        &self,
        block: usize,
        _bodies: &mut Bodies<'_>,
        out: &mut TextOut,
    ) -> Result<(), Error> {
        self.push(block_len(self.values, block), out)
    }

    fn take(
        &self,
        _block: usize,
        places: &[u16],
        _bodies: &mut Bodies<'_>,
        out: &mut TextOut,
    ) -> Result<(), Error> {
        self.push(places.len(), out)
    }
}

/// One number of `width` bytes for all values; numbers of 16 bytes are sign-extended.
#[must_use]
pub fn encode(value: u64, width: u8, values: usize) -> EncodedNode {
    let mut node = EncodedNode::new(Encoding::Constant, width, values);
    push_word(&mut node.head, value, width);
    let sign = if value.cast_signed() < 0 { 0xff } else { 0 };
    node.head.resize(usize::from(width), sign);
    node
}

/// One value or text of at most 255 bytes for all values; `None` for a longer one.
#[must_use]
pub fn encode_bytes(value: &[u8], values: usize) -> Option<EncodedNode> {
    let width = u8::try_from(value.len()).ok()?;
    let mut node = EncodedNode::new(Encoding::Constant, width, values);
    node.head.extend_from_slice(value);
    Some(node)
}
