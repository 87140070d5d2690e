//! Encoding 6, `wide`: 128-bit values that do not fit 64 bits, stored as high and low halves in two child nodes. The
//! node itself has no head and no body.

use super::decoder::{Bodies, BodyRange, Numbers};
use super::encoding::Encoding;
use super::head::Head;
use super::leaf;
use super::node::{EncodedNode, Node};
use crate::error::Error;

#[derive(Debug)]
pub(crate) struct Wide {
    high: Box<dyn Numbers>,
    low: Box<dyn Numbers>,
}

/// # Errors
/// `Corrupt` for halves of another number.
pub(crate) fn parse(
    node: &Node<'_>,
    high: Box<dyn Numbers>,
    low: Box<dyn Numbers>,
) -> Result<Wide, Error> {
    node.refuse_flags(0)?;
    node.expect_body(0)?;
    Head::of(node).end()?;
    node.expect_values("high halves", high.num_values(), node.values)?;
    node.expect_values("low halves", low.num_values(), node.values)?;
    Ok(Wide { high, low })
}

impl Wide {
    pub(crate) fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        self.high.plan(block, ranges);
        self.low.plan(block, ranges);
    }

    /// Decodes a block into `high` and `low`, which have exactly its length.
    ///
    /// # Errors
    /// As [`Numbers::decode_block`].
    pub(crate) fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        high: &mut [u64],
        low: &mut [u64],
    ) -> Result<(), Error> {
        self.high.decode_block(block, bodies, high)?;
        self.low.decode_block(block, bodies, low)
    }

    /// As [`Numbers::take`].
    ///
    /// # Errors
    /// As [`Numbers::take`].
    pub(crate) fn take(
        &self,
        block: usize,
        places: &[u16],
        bodies: &mut Bodies<'_>,
        high: &mut [u64],
        low: &mut [u64],
    ) -> Result<(), Error> {
        self.high.take(block, places, bodies, high)?;
        self.low.take(block, places, bodies, low)
    }
}

/// A half of a 128-bit value.
#[expect(clippy::cast_possible_truncation, reason = "the half is wanted")]
fn half(value: i128, shift: u32) -> u64 {
    (value >> shift).cast_unsigned() as u64
}

/// 128-bit values.
#[must_use]
pub fn encode(values: &[i128]) -> EncodedNode {
    let halves = |shift: u32| {
        let halves: Vec<u64> = values.iter().map(|&value| half(value, shift)).collect();
        leaf::encode(&halves, 8, &[Encoding::Constant])
    };
    let mut node = EncodedNode::new(Encoding::Wide, 16, values.len());
    node.children = vec![halves(64), halves(0)];
    node
}
