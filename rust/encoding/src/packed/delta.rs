//! Encoding 3, `delta`: for each block the first value, the smallest step, and each step minus the smallest, packed.
//!
//! ```text
//!  0  8  u64 first value of the page
//!  8  8  u64 smallest step of the page
//! 16  1  width, 255 = a width per block follows
//! 17  1  bytes of the first value of a block: 0, 1, 2, 4, 8
//! 18  1  bytes of the smallest step of a block: 0, 1, 2, 4, 8
//! 19  1  bytes of the high bits of an exception: 0, 1, 2, 4, 8
//! 20  4  0
//!        widths, u8 a block | first values | smallest steps | exceptions of blocks, u16
//! ```
//!
//! The first value of block k is given above `first + 1024 * k * smallest step` of the page: a sequence takes no byte per block.
//! Place 0 of a block packs 0. All arithmetic is modulo 2^64.

use super::blocks::{Blocks, Packing, Widths, choose_packing, count_bits};
use super::decoder::{Bodies, BodyRange, Numbers};
use super::encoding::Encoding;
use super::frame::{field_bytes, most_bits};
use super::head::{Head, push_word};
use super::node::{BLOCK, EncodedNode, Node};
use crate::error::Error;

#[derive(Debug)]
pub(crate) struct Delta {
    first: u64,
    step: u64,
    /// Empty: all 0.
    block_firsts: Vec<u64>,
    /// Empty: all 0.
    block_steps: Vec<u64>,
    blocks: Blocks,
}

/// # Errors
/// `Corrupt` for a head that contradicts itself or the body.
pub(crate) fn parse(node: &Node<'_>) -> Result<Delta, Error> {
    node.refuse_flags(0)?;
    let mut head = Head::of(node);
    let (first, step) = (head.u64()?, head.u64()?);
    let (width, first_bytes) = (head.u8()?, head.u8()?);
    let (step_bytes, exception_bytes) = (head.u8()?, head.u8()?);
    head.zeros(4)?;
    let widths = Widths::parse(node, &mut head, width, most_bits(node.parameter))?;
    for bytes in [first_bytes, step_bytes] {
        if !matches!(bytes, 0 | 1 | 2 | 4 | 8) {
            return Err(node
                .id
                .corrupt(format!("first values or steps of {bytes} bytes")));
        }
    }
    let block_firsts = head.words(node.num_blocks(), first_bytes)?;
    let block_steps = head.words(node.num_blocks(), step_bytes)?;
    let blocks = Blocks::parse(node, &mut head, widths, exception_bytes)?;
    head.end()?;
    Ok(Delta {
        first,
        step,
        block_firsts,
        block_steps,
        blocks,
    })
}

/// Returns the first value of block `block` for a page in which every step is `step`.
fn expected_first(first: u64, step: u64, block: usize) -> u64 {
    let values = (block as u64).wrapping_mul(BLOCK as u64);
    first.wrapping_add(values.wrapping_mul(step))
}

impl Delta {
    /// First value and smallest step of a block.
    fn start(&self, block: usize) -> (u64, u64) {
        let at = |list: &[u64]| list.get(block).copied().unwrap_or(0);
        let first = expected_first(self.first, self.step, block);
        (
            first.wrapping_add(at(&self.block_firsts)),
            self.step.wrapping_add(at(&self.block_steps)),
        )
    }
}

impl Numbers for Delta {
    fn num_values(&self) -> usize {
        self.blocks.num_values()
    }

    fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        self.blocks.plan(block, ranges);
    }

    fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        self.blocks.decode(block, bodies, out)?;
        let (first, step) = self.start(block);
        let mut value = first.wrapping_sub(step);
        for out in out {
            value = value.wrapping_add(step).wrapping_add(*out);
            *out = value;
        }
        Ok(())
    }

    fn take(
        &self,
        block: usize,
        places: &[u16],
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        let (first, step) = self.start(block);
        if self.blocks.is_empty() {
            // All steps are equal, so each value follows from its place and no sum of steps is needed.
            for (out, &place) in out.iter_mut().zip(places) {
                *out = first.wrapping_add(step.wrapping_mul(u64::from(place)));
            }
            return Ok(());
        }
        let mut values = [0; BLOCK];
        let len = super::node::block_len(self.num_values(), block);
        let values = &mut values[..len];
        self.decode_block(block, bodies, values)?;
        for (out, &place) in out.iter_mut().zip(places) {
            *out = values.get(usize::from(place)).copied().unwrap_or(0);
        }
        Ok(())
    }
}

/// The parameters that store some integers as differences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    first: u64,
    step: u64,
    firsts: Vec<u64>,
    steps: Vec<u64>,
    packing: Packing,
    width: u8,
    values: usize,
}

/// Returns each step of a block minus `smallest`. Place 0 has no step and comes first, as 0.
fn above(block: &[u64], smallest: u64) -> impl Iterator<Item = u64> + '_ {
    let steps = block.windows(2).map(move |pair| {
        let step = pair[1].wrapping_sub(pair[0]);
        step.wrapping_sub(smallest)
    });
    std::iter::once(0).take(block.len()).chain(steps)
}

/// The smallest deltas of some integers, `width` bytes each, sign- or zero-extended.
pub(crate) fn plan(values: &[u64], width: u8) -> Plan {
    let smallest = |block: &[u64]| {
        let steps = block.windows(2).map(|pair| {
            let step = pair[1].wrapping_sub(pair[0]);
            step.cast_signed()
        });
        steps.min()
    };
    let step = smallest(values).unwrap_or(0).cast_unsigned();
    let first = values.first().copied().unwrap_or(0);
    let blocks = || values.chunks(BLOCK);
    // A block of one value has no step of its own.
    let steps: Vec<u64> = blocks()
        .map(|block| smallest(block).map_or(0, |it| it.cast_unsigned().wrapping_sub(step)))
        .collect();
    let firsts = blocks().enumerate().map(|(block, values)| {
        let expected = expected_first(first, step, block);
        values.first().map_or(0, |it| it.wrapping_sub(expected))
    });
    let counts: Vec<_> = blocks()
        .zip(&steps)
        .map(|(block, above_step)| count_bits(above(block, step.wrapping_add(*above_step))))
        .collect();
    Plan {
        first,
        step,
        firsts: firsts.collect(),
        steps,
        packing: choose_packing(&counts, most_bits(width)),
        width,
        values: values.len(),
    }
}

fn bytes_of(list: &[u64]) -> u8 {
    field_bytes(list.iter().copied().max().unwrap_or(0))
}

impl Plan {
    /// Bytes that the node will take in a page.
    pub(crate) fn byte_len(&self) -> usize {
        let lists = usize::from(bytes_of(&self.firsts)) + usize::from(bytes_of(&self.steps));
        let lists = lists * self.firsts.len();
        // Table entry and fields; the padding of the head is left out.
        self.packing.byte_len.saturating_add(24 + 24 + lists)
    }

    /// Makes the node; `values` must be those from which this plan was made.
    pub(crate) fn encode(&self, values: &[u64]) -> EncodedNode {
        let mut node = EncodedNode::new(Encoding::Delta, self.width, self.values);
        let (first_bytes, step_bytes) = (bytes_of(&self.firsts), bytes_of(&self.steps));
        let head = &mut node.head;
        head.extend(self.first.to_le_bytes());
        head.extend(self.step.to_le_bytes());
        head.extend([self.packing.width_field(), first_bytes, step_bytes]);
        head.push(self.packing.exception_bytes);
        head.extend([0; 4]);
        head.extend(self.packing.width_list());
        for (list, bytes) in [(&self.firsts, first_bytes), (&self.steps, step_bytes)] {
            for &word in list {
                push_word(head, word, bytes);
            }
        }
        let mut packed = [0; BLOCK];
        let blocks = values.chunks(BLOCK).zip(&self.steps).enumerate();
        for (block, (values, above_step)) in blocks {
            let smallest = self.step.wrapping_add(*above_step);
            let packed = &mut packed[..values.len()];
            for (to, step) in packed.iter_mut().zip(above(values, smallest)) {
                *to = step;
            }
            self.packing.push_block(block, packed, head, &mut node.body);
        }
        node
    }
}

/// Integers of `width` bytes, sign- or zero-extended to words.
///
/// Returns `None` where steps need more bits than the type has: they can only be packed modulo its size.
#[must_use]
pub fn encode(values: &[u64], width: u8) -> Option<EncodedNode> {
    let plan = plan(values, width);
    plan.is_possible().then(|| plan.encode(values))
}

impl Plan {
    /// False where a step has more bits than the type and no exception can hold them.
    pub(crate) fn is_possible(&self) -> bool {
        self.packing.byte_len != usize::MAX
    }
}
