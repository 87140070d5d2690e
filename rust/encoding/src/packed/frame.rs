//! Encoding 2, `for` (frame of reference): a base, a divisor, and packed offsets.
//!
//! ```text
//!  0  8  u64 base
//!  8  8  u64 divisor, at least 1
//! 16  1  width, 255 = a width per block follows
//! 17  1  bytes of the base of a block: 0, 1, 2, 4, 8
//! 18  1  bytes of the high bits of an exception: 0, 1, 2, 4, 8
//! 19  5  0
//!        widths, u8 a block | bases of blocks | exceptions of blocks, u16
//! ```
//!
//! value = base + (base of the block + offset) * divisor, modulo 2^64.

use super::blocks::{BitCounts, Blocks, Packing, Widths, choose_packing, count_bits};
use super::decoder::{Bodies, BodyRange, Numbers};
use super::encoding::Encoding;
use super::head::{Head, push_word};
use super::node::{BLOCK, EncodedNode, Node};
use super::pack::bits_of;
use crate::error::Error;

#[derive(Debug)]
pub(crate) struct Frame {
    base: u64,
    divisor: u64,
    /// Empty: all 0.
    block_bases: Vec<u64>,
    blocks: Blocks,
}

/// # Errors
/// `Corrupt` for a head that contradicts itself or the body.
pub(crate) fn parse(node: &Node<'_>) -> Result<Frame, Error> {
    node.refuse_flags(0)?;
    let mut head = Head::of(node);
    let (base, divisor) = (head.u64()?, head.u64()?);
    if divisor == 0 {
        return Err(node.id.corrupt("divisor 0"));
    }
    let (width, base_bytes, exception_bytes) = (head.u8()?, head.u8()?, head.u8()?);
    head.zeros(5)?;
    let most = most_bits(node.parameter);
    let widths = Widths::parse(node, &mut head, width, most)?;
    if !matches!(base_bytes, 0 | 1 | 2 | 4 | 8) {
        return Err(node.id.corrupt(format!("bases of {base_bytes} bytes")));
    }
    let block_bases = head.words(node.num_blocks(), base_bytes)?;
    let blocks = Blocks::parse(node, &mut head, widths, exception_bytes)?;
    head.end()?;
    Ok(Frame {
        base,
        divisor,
        block_bases,
        blocks,
    })
}

/// Most bits of a packed value of a type of so many bytes.
pub(crate) fn most_bits(bytes: u8) -> u8 {
    bytes.saturating_mul(8).min(64)
}

impl Frame {
    /// Turns offsets of a block into values.
    fn rebase(&self, block: usize, offsets: &mut [u64]) {
        let block_base = self.block_bases.get(block).copied().unwrap_or(0);
        let base = self
            .base
            .wrapping_add(block_base.wrapping_mul(self.divisor));
        if self.divisor == 1 {
            for offset in offsets {
                *offset = offset.wrapping_add(base);
            }
        } else {
            for offset in offsets {
                *offset = offset.wrapping_mul(self.divisor).wrapping_add(base);
            }
        }
    }
}

impl Numbers for Frame {
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
        self.rebase(block, out);
        Ok(())
    }

    fn take(
        &self,
        block: usize,
        places: &[u16],
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        self.blocks.take(block, places, bodies, out)?;
        self.rebase(block, out);
        Ok(())
    }
}

/// The parameters that store some integers in a frame of reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    base: u64,
    divisor: u64,
    /// In divisors above the base; empty if the blocks have none.
    block_bases: Vec<u64>,
    packing: Packing,
    width: u8,
    values: usize,
}

/// The least value of a block of signed integers.
fn least(block: &[u64]) -> i64 {
    let values = block.iter().map(|&it| it.cast_signed());
    values.min().unwrap_or(0)
}

/// The greatest common divisor of all differences to the first value; 1 if all values are equal.
fn common_divisor(values: &[u64]) -> u64 {
    let Some(&first) = values.first() else {
        return 1;
    };
    let mut divisor = 0;
    for value in values {
        let (mut a, mut b) = (value.cast_signed().abs_diff(first.cast_signed()), divisor);
        // In most pages the divisor found so far divides the next difference too.
        if b != 0 && a % b == 0 {
            continue;
        }
        while b != 0 {
            (a, b) = (b, a % b);
        }
        divisor = a;
        if divisor == 1 {
            break;
        }
    }
    divisor.max(1)
}

/// The bits of `(value - base) / divisor` of each block.
fn bit_counts(values: &[u64], divisor: u64, base_of: impl Fn(usize) -> u64) -> Vec<BitCounts> {
    let blocks = values.chunks(BLOCK).enumerate();
    let counted = blocks.map(|(block, values)| {
        let base = base_of(block);
        let distances = values.iter().map(|value| value.wrapping_sub(base));
        match divisor {
            1 => count_bits(distances),
            divisor => count_bits(distances.map(|it| it / divisor)),
        }
    });
    counted.collect()
}

/// Returns the smallest of 1, 2, 4 and 8 bytes that holds `most`; 0 bytes if `most` is 0.
pub(crate) fn field_bytes(most: u64) -> u8 {
    match bits_of(most) {
        0 => 0,
        1..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        _ => 8,
    }
}

/// The smallest frame of reference of some integers, `width` bytes each, sign- or zero-extended.
pub(crate) fn plan(values: &[u64], width: u8) -> Plan {
    let base = least(values).cast_unsigned();
    let divisor = common_divisor(values);
    let most = most_bits(width);
    let least_of: Vec<u64> = values
        .chunks(BLOCK)
        .map(|it| least(it).cast_unsigned())
        .collect();
    let block_bases: Vec<u64> = least_of
        .iter()
        .map(|it| it.wrapping_sub(base) / divisor)
        .collect();
    let one = choose_packing(&bit_counts(values, divisor, |_| base), most);
    let base_bytes = field_bytes(block_bases.iter().copied().max().unwrap_or(0));
    let each = (base_bytes > 0).then(|| {
        let counts = bit_counts(values, divisor, |block| {
            least_of.get(block).copied().unwrap_or(base)
        });
        choose_packing(&counts, most)
    });
    let bases_len = usize::from(base_bytes) * block_bases.len();
    let (packing, block_bases) = match each {
        Some(each) if each.byte_len + bases_len < one.byte_len => (each, block_bases),
        _ => (one, Vec::new()),
    };
    Plan {
        base,
        divisor,
        block_bases,
        packing,
        width,
        values: values.len(),
    }
}

impl Plan {
    fn base_bytes(&self) -> u8 {
        field_bytes(self.block_bases.iter().copied().max().unwrap_or(0))
    }

    /// Bytes that the node will take in a page.
    pub(crate) fn byte_len(&self) -> usize {
        let bases = usize::from(self.base_bytes()) * self.block_bases.len();
        // Table entry and fields; the padding of the head is left out.
        24 + 24 + self.packing.byte_len + bases
    }

    /// Makes the node; `values` must be those from which this plan was made.
    pub(crate) fn encode(&self, values: &[u64]) -> EncodedNode {
        let mut node = EncodedNode::new(Encoding::For, self.width, self.values);
        let base_bytes = self.base_bytes();
        let head = &mut node.head;
        head.extend(self.base.to_le_bytes());
        head.extend(self.divisor.to_le_bytes());
        head.push(self.packing.width_field());
        head.extend([base_bytes, self.packing.exception_bytes]);
        head.extend([0; 5]);
        head.extend(self.packing.width_list());
        for &base in &self.block_bases {
            push_word(head, base, base_bytes);
        }
        let mut offsets = [0; BLOCK];
        for (block, values) in values.chunks(BLOCK).enumerate() {
            let above = self.block_bases.get(block).copied().unwrap_or(0);
            let base = self.base.wrapping_add(above.wrapping_mul(self.divisor));
            let offsets = &mut offsets[..values.len()];
            for (offset, value) in offsets.iter_mut().zip(values) {
                *offset = value.wrapping_sub(base) / self.divisor;
            }
            self.packing
                .push_block(block, offsets, head, &mut node.body);
        }
        node
    }
}

/// Integers of `width` bytes, sign- or zero-extended to words.
#[must_use]
pub fn encode(values: &[u64], width: u8) -> EncodedNode {
    plan(values, width).encode(values)
}
