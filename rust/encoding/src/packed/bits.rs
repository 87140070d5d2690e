//! Encoding 15, `bits`: booleans and validity.
//!
//! | parameter | head | body |
//! |---|---|---|
//! | 0 bitmap | | bits, LSB first |
//! | 1 places | u16 per block: how many | u16 places of the ones, ascending |
//! | 2 changes | u16 per block: how many | u16 places where the bit changes, ascending; before the first it is 0 |
//!
//! Flag 1: all bits are inverted. Bits behind the last value are 0 in a bitmap.

use super::decoder::{Bodies, BodyRange};
use super::encoding::Encoding;
use super::head::Head;
use super::node::{BLOCK, Body, EncodedNode, Node, NodeId, block_len};
use crate::error::Error;

const INVERTED: u8 = 1;
/// Bytes of a full block of bits.
pub(crate) const BLOCK_BYTES: usize = BLOCK / 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Bitmap,
    Places,
    Changes,
}

#[derive(Debug)]
pub(crate) struct Bits {
    id: NodeId,
    body: Body,
    values: usize,
    form: Form,
    is_inverted: bool,
    /// The first place of each block, and the number of all places; empty for a bitmap.
    starts: Vec<u32>,
}

/// # Errors
/// `Corrupt` for counts that fit neither the blocks nor the body; `Unsupported` for an unknown form.
pub(crate) fn parse(node: &Node<'_>) -> Result<Bits, Error> {
    node.refuse_flags(INVERTED)?;
    let form = match node.parameter {
        0 => Form::Bitmap,
        1 => Form::Places,
        2 => Form::Changes,
        other => {
            return Err(Error::unsupported(format!(
                "form {other} of encoding bits of a packed page"
            )));
        }
    };
    let mut head = Head::of(node);
    let mut starts = Vec::new();
    if form == Form::Bitmap {
        node.expect_body(node.values.div_ceil(8) as u64)?;
    } else {
        let counts = head.u16s(node.num_blocks())?;
        let mut total = 0_u32;
        starts.reserve(counts.len() + 1);
        for (block, &count) in counts.iter().enumerate() {
            let len = block_len(node.values, block);
            if usize::from(count) > len {
                let what = format!("{count} places among {len} values");
                return Err(node.id.corrupt_block(block, what));
            }
            starts.push(total);
            total = total.saturating_add(u32::from(count));
        }
        starts.push(total);
        node.expect_body(2 * u64::from(total))?;
    }
    head.end()?;
    Ok(Bits {
        id: node.id,
        body: node.body,
        values: node.values,
        form,
        is_inverted: node.flags & INVERTED != 0,
        starts,
    })
}

impl Bits {
    fn range(&self, block: usize) -> std::ops::Range<u32> {
        let clamped = |bytes| u32::try_from(bytes).unwrap_or(u32::MAX);
        match (self.form, self.starts.get(block..)) {
            (Form::Bitmap, _) => {
                let start = block.saturating_mul(BLOCK_BYTES);
                let len = block_len(self.values, block).div_ceil(8);
                clamped(start)..clamped(start.saturating_add(len))
            }
            (_, Some([start, end, ..])) => start.saturating_mul(2)..end.saturating_mul(2),
            _ => 0..0,
        }
    }

    pub(crate) fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        let range = self.range(block);
        if !range.is_empty() {
            let start = self.body.start;
            let in_space = start.saturating_add(range.start)..start.saturating_add(range.end);
            ranges.push((self.body.space, in_space));
        }
    }

    /// The bits of a block, LSB first; bits behind the last value are 0.
    ///
    /// # Errors
    /// `Corrupt` for places that do not ascend or lie outside of the block.
    pub(crate) fn decode_block(
        &self,
        block: usize,
        bodies: &Bodies<'_>,
    ) -> Result<[u8; BLOCK_BYTES], Error> {
        let len = block_len(self.values, block);
        let bytes = bodies.read(self.id, &self.body, self.range(block))?;
        let mut bits = [0; BLOCK_BYTES];
        if self.form == Form::Bitmap {
            for (to, byte) in bits.iter_mut().zip(bytes) {
                *to = *byte;
            }
        } else {
            let (pairs, _) = bytes.as_chunks();
            let places = pairs.iter().map(|it| usize::from(u16::from_le_bytes(*it)));
            let mut least = 0;
            let mut from = None;
            for place in places {
                if place < least || place >= len {
                    let what = format!("place {place} of {len} values, {least} is the least");
                    return Err(self.id.corrupt_block(block, what));
                }
                least = place + 1;
                match (self.form, from) {
                    (Form::Places, _) => set(&mut bits, place..place + 1),
                    (_, None) => from = Some(place),
                    (_, Some(start)) => {
                        set(&mut bits, start..place);
                        from = None;
                    }
                }
            }
            if let Some(start) = from {
                set(&mut bits, start..len);
            }
        }
        if self.is_inverted {
            for byte in &mut bits {
                *byte = !*byte;
            }
        }
        clear_behind(&mut bits, len);
        Ok(bits)
    }
}

fn set(bits: &mut [u8; BLOCK_BYTES], range: std::ops::Range<usize>) {
    for bit in range {
        if let Some(byte) = bits.get_mut(bit / 8) {
            *byte |= 1 << (bit % 8);
        }
    }
}

fn clear_behind(bits: &mut [u8; BLOCK_BYTES], len: usize) {
    let whole = len / 8;
    if let Some(behind) = bits.get_mut(whole..) {
        if let Some(byte) = behind.first_mut() {
            *byte &= (1_u8 << (len % 8)) - 1;
        }
        if let Some(rest) = behind.get_mut(1..) {
            rest.fill(0);
        }
    }
}

/// The smallest form of `values` bits, LSB first.
///
/// # Errors
/// `InvalidInput` for fewer bits than values.
pub fn encode(bitmap: &[u8], values: usize) -> Result<EncodedNode, Error> {
    let num_bytes = values.div_ceil(8);
    let Some(bitmap) = bitmap.get(..num_bytes) else {
        let has = bitmap.len();
        return Err(Error::invalid(format!("{has} bytes for {values} bits")));
    };
    let mut whole = bitmap.to_vec();
    if !values.is_multiple_of(8)
        && let Some(last) = whole.last_mut()
    {
        *last &= (1_u8 << (values % 8)) - 1;
    }
    let ones: usize = whole.iter().map(|it| it.count_ones() as usize).sum();
    let is_inverted = ones > values / 2;
    let bit = |at: usize| (whole[at / 8] >> (at % 8)) & 1 != u8::from(is_inverted);
    let mut lists = [PlaceList::default(), PlaceList::default()];
    let blocks = (0..values).step_by(BLOCK);
    for start in blocks {
        let mut before = false;
        lists.iter_mut().for_each(PlaceList::begin);
        for (place, at) in (0..).zip(start..values.min(start + BLOCK)) {
            let is_set = bit(at);
            if is_set {
                lists[0].push(place);
            }
            if is_set != before {
                lists[1].push(place);
            }
            before = is_set;
        }
        lists.iter_mut().for_each(PlaceList::end);
    }
    let mut node = EncodedNode::new(Encoding::Bits, 0, values);
    let mut least = num_bytes;
    for (form, list) in (1..).zip(lists) {
        let bytes = list.counts.len() + list.places.len();
        if bytes < least {
            least = bytes;
            node.parameter = form;
            (node.head, node.body) = (list.counts, list.places);
        }
    }
    if node.parameter == 0 {
        node.body = whole;
    } else {
        node.flags = if is_inverted { INVERTED } else { 0 };
    }
    Ok(node)
}

/// Places of all blocks as they are stored.
#[derive(Default)]
struct PlaceList {
    counts: Vec<u8>,
    places: Vec<u8>,
    count: u16,
}

impl PlaceList {
    fn begin(&mut self) {
        self.count = 0;
    }

    fn push(&mut self, place: u16) {
        self.places.extend(place.to_le_bytes());
        self.count += 1;
    }

    fn end(&mut self) {
        self.counts.extend(self.count.to_le_bytes());
    }
}
