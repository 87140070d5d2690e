//! One node of a packed page: as it lies in the bytes, and as an encoder makes it.
//!
//! An encoding is one file with two halves of the same shape:
//!
//! - `encode(values, ..) -> EncodedNode`: the head, the body and the nodes below. `tree` lays them out as a page.
//! - `parse(node: &Node<'_>, children) -> Result<Decoder, Error>`: checks the head, without any byte of the body, and keeps
//!   what blocks need (sums, widths, symbols). The decoder implements `Numbers` or `Texts` of the
//!   module `decoder` and reads bodies block by block.

use std::fmt::Display;

use super::encoding::Encoding;
use crate::error::Error;

/// Values of a block; the last block of a node may be shorter.
pub const BLOCK: usize = 1024;

/// Most values of one node: some nodes take no bytes per value, so nothing else bounds their number.
pub const MAX_VALUES: usize = 1 << 26;

/// Returns the number of blocks that hold `values` values.
pub(crate) fn num_blocks(values: usize) -> usize {
    values.div_ceil(BLOCK)
}

/// Returns the number of values of block `block`; 0 if there is no such block.
pub(crate) fn block_len(values: usize, block: usize) -> usize {
    values
        .saturating_sub(block.saturating_mul(BLOCK))
        .min(BLOCK)
}

/// Converts a length to the `u32` that a field of a page holds; `what` names the length in the error.
///
/// # Errors
/// `Limit` for more than 2^32 - 1.
pub(crate) fn to_u32(length: usize, what: &str) -> Result<u32, Error> {
    u32::try_from(length).map_err(|_| Error::Limit {
        what: what.to_owned(),
        actual: length as u64,
        limit: u64::from(u32::MAX),
    })
}

/// Names a node in errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeId {
    /// Its place in the node table.
    pub(crate) index: u8,
    pub(crate) encoding: Encoding,
}

impl NodeId {
    /// The head or the table entry of this node is wrong.
    pub(crate) fn corrupt(self, what: impl Display) -> Error {
        let (index, name) = (self.index, self.encoding.name());
        Error::corrupt(format!("packed page, node {index} ({name}): {what}"))
    }

    /// A block of this node is wrong.
    pub(crate) fn corrupt_block(self, block: usize, what: impl Display) -> Error {
        let (index, name) = (self.index, self.encoding.name());
        Error::corrupt(format!(
            "packed page, node {index} ({name}), block {block}: {what}"
        ))
    }
}

/// Where the body of a node lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Body {
    /// The node `coded` whose decompressed bytes hold this body; `None` = the page itself.
    pub(crate) space: Option<u8>,
    /// First byte, from the first body byte of the page or of the decompressed bytes.
    pub(crate) start: u32,
    /// Number of bytes. Bodies in the page were checked to exist; for a body in decompressed bytes, `coded` checks the
    /// range.
    pub(crate) len: u32,
}

/// A node of the table whose place was checked: what `parse` of an encoding gets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'a> {
    pub(crate) id: NodeId,
    /// Each encoding defines the meaning; for numbers, the bytes of a value.
    pub(crate) parameter: u8,
    /// Bits that the encoding does not know have to be refused: [`refuse_flags`](Self::refuse_flags).
    pub(crate) flags: u8,
    /// Values, at most [`MAX_VALUES`].
    pub(crate) values: usize,
    pub(crate) head: &'a [u8],
    pub(crate) body: Body,
}

impl Node<'_> {
    pub(crate) fn num_blocks(&self) -> usize {
        num_blocks(self.values)
    }

    /// Refuses flags other than `known`.
    ///
    /// # Errors
    /// `Unsupported` names the flags.
    pub(crate) fn refuse_flags(&self, known: u8) -> Result<(), Error> {
        let unknown = self.flags & !known;
        if unknown == 0 {
            return Ok(());
        }
        let name = self.id.encoding.name();
        Err(Error::unsupported(format!(
            "flags {unknown:#04x} of encoding {name} of a packed page"
        )))
    }

    /// Refuses a body of another size.
    ///
    /// # Errors
    /// `Corrupt` names both sizes.
    pub(crate) fn expect_body(&self, bytes: u64) -> Result<(), Error> {
        if u64::from(self.body.len) == bytes {
            return Ok(());
        }
        let has = self.body.len;
        Err(self
            .id
            .corrupt(format!("a body of {has} bytes, the head says {bytes}")))
    }

    /// Refuses a child with another number of values.
    ///
    /// # Errors
    /// `Corrupt` names both numbers.
    pub(crate) fn expect_values(
        &self,
        what: &str,
        has: usize,
        expected: usize,
    ) -> Result<(), Error> {
        if has == expected {
            return Ok(());
        }
        Err(self
            .id
            .corrupt(format!("{has} {what} where {expected} belong")))
    }
}

/// A node and those below it, as an encoder makes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedNode {
    /// The encoding that stores the values.
    pub encoding: Encoding,
    /// Its meaning is the encoding's.
    pub parameter: u8,
    /// Its meaning is the encoding's.
    pub flags: u8,
    /// Number of values.
    pub values: usize,
    /// What every block needs; without the zeros that pad it.
    pub head: Vec<u8>,
    /// The blocks.
    pub body: Vec<u8>,
    /// In the order that the encoding prescribes.
    pub children: Vec<EncodedNode>,
}

impl EncodedNode {
    /// A node without head, body and children.
    pub(crate) fn new(encoding: Encoding, parameter: u8, values: usize) -> Self {
        Self {
            encoding,
            parameter,
            flags: 0,
            values,
            head: Vec::new(),
            body: Vec::new(),
            children: Vec::new(),
        }
    }

    /// Bytes of a page that this node and those below take: table entries, padded heads, bodies. Choices compare these.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        // The body of the child of `coded` lies inside the body of its parent.
        let in_parent = match (self.encoding, self.children.first()) {
            (Encoding::Coded, Some(child)) => child.body.len(),
            _ => 0,
        };
        let below: usize = self.children.iter().map(Self::byte_len).sum();
        24 + self.head.len().next_multiple_of(8) + self.body.len() + below - in_parent
    }
}
