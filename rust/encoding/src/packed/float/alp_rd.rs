//! Encoding 9, `alp-rd`: floats cut in two; the left bits of most values are among at most eight.
//!
//! ```text
//! head   u8 right bits | u8 left values, 1..=8 | u8 1 = numbers of exceptions follow | u8 0
//!        u16 each left value | u16 exceptions of each block
//! body   exceptions: u16 place in the block, ascending, and u16 left bits
//! below  numbers of left values; right bits
//! ```

use super::exceptions::{Exceptions, ExceptionsBuilder};
use super::{Float, MOST_EXCEPTIONS};
use crate::error::Error;
use crate::packed::decoder::{Bodies, BodyRange, Numbers};
use crate::packed::encoding::Encoding;
use crate::packed::head::Head;
use crate::packed::leaf;
use crate::packed::node::{BLOCK, EncodedNode, Node, NodeId};
use crate::packed::pack::bits_of;

/// Left values of a table.
const MOST_LEFT: usize = 8;

/// Left bits at most.
const LEFT_BITS: usize = 16;

/// Bits of an exception.
const EXCEPTION_BITS: usize = 32;

/// Where to cut, and the left values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut {
    right_bits: usize,
    left: Vec<u16>,
}

/// The left bits of a value, at most 16.
fn left_of(word: u64, right_bits: usize) -> u16 {
    u16::try_from(word >> right_bits).unwrap_or(u16::MAX)
}

/// The cut that stores a sample in the fewest bits.
pub(super) fn cut<F: Float>(sample: &[u64]) -> Option<Cut> {
    let mut best: Option<(usize, Cut)> = None;
    for right_bits in F::BITS - LEFT_BITS..F::BITS {
        let mut lefts: Vec<u16> = sample.iter().map(|it| left_of(*it, right_bits)).collect();
        lefts.sort_unstable();
        let runs = lefts.chunk_by(|one, other| one == other);
        let mut counts: Vec<(usize, u16)> = runs.map(|run| (run.len(), run[0])).collect();
        // The most frequent first, of equally frequent ones the lowest.
        counts.sort_unstable_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(&other.1)));
        counts.truncate(MOST_LEFT);
        let covered: usize = counts.iter().map(|it| it.0).sum();
        let code_bits = usize::from(bits_of(counts.len().saturating_sub(1) as u64));
        let bits =
            sample.len() * (code_bits + right_bits) + (sample.len() - covered) * EXCEPTION_BITS;
        if best.as_ref().is_none_or(|best| bits < best.0) {
            let left = counts.iter().map(|it| it.1).collect();
            best = Some((bits, Cut { right_bits, left }));
        }
    }
    best.map(|(_, cut)| cut).filter(|cut| !cut.left.is_empty())
}

/// Stores floats (bits in the low bytes) in two parts; `None` beyond one exception in ten.
pub(super) fn encode<F: Float>(words: &[u64], cut: &Cut) -> Option<EncodedNode> {
    let mask = (1 << cut.right_bits) - 1;
    let mut exceptions = ExceptionsBuilder::new(words.len(), 2);
    let (mut codes, mut rights) = (
        Vec::with_capacity(words.len()),
        Vec::with_capacity(words.len()),
    );
    for (value, word) in words.iter().enumerate() {
        let word = F::of_word(*word).to_word();
        let left = left_of(word, cut.right_bits);
        let code = cut.left.iter().position(|it| *it == left);
        if code.is_none() {
            exceptions.push(value, u64::from(left));
            if exceptions.len() * MOST_EXCEPTIONS > words.len() {
                return None;
            }
        }
        codes.push(code.unwrap_or(0) as u64);
        rights.push(word & mask);
    }
    let width = (F::BITS / 8).to_le_bytes()[0];
    let mut node = EncodedNode::new(Encoding::AlpRd, width, words.len());
    let [right_bits, count] = [cut.right_bits, cut.left.len()].map(|it| it.to_le_bytes()[0]);
    node.head.extend([right_bits, count, exceptions.flag(), 0]);
    node.head
        .extend(cut.left.iter().flat_map(|it| it.to_le_bytes()));
    exceptions.write(&mut node);
    node.children = [codes, rights]
        .map(|it| leaf::encode(&it, 8, &[Encoding::Constant]))
        .to_vec();
    Some(node)
}

/// A parsed head.
#[derive(Debug)]
pub(crate) struct AlpRd {
    id: NodeId,
    right_bits: u32,
    count: usize,
    /// Left values, moved to their place.
    left: [u64; MOST_LEFT],
    exceptions: Exceptions,
    codes: Box<dyn Numbers>,
    rights: Box<dyn Numbers>,
}

/// Checks a node of floats in two parts.
///
/// # Errors
/// `Corrupt` if the head contradicts itself or the body.
pub(crate) fn parse(
    node: &Node<'_>,
    codes: Box<dyn Numbers>,
    rights: Box<dyn Numbers>,
) -> Result<AlpRd, Error> {
    let id = node.id;
    node.refuse_flags(0)?;
    let mut head = Head::of(node);
    let [right_bits, count, flag] = [head.u8()?, head.u8()?, head.u8()?];
    head.zeros(1)?;
    let bits = match node.parameter {
        4 | 8 => usize::from(node.parameter) * 8,
        other => return Err(id.corrupt(format!("floats of {other} bytes"))),
    };
    let (right, count) = (usize::from(right_bits), usize::from(count));
    if !(bits - LEFT_BITS..bits).contains(&right) || !(1..=MOST_LEFT).contains(&count) {
        return Err(id.corrupt(format!("{count} left values beside {right} bits of {bits}")));
    }
    let mut left = [0; MOST_LEFT];
    for (place, value) in left.iter_mut().zip(head.u16s(count)?) {
        if usize::from(bits_of(u64::from(value))) > bits - right {
            return Err(id.corrupt(format!("left value {value} beside {right} bits of {bits}")));
        }
        *place = u64::from(value) << right_bits;
    }
    let exceptions = Exceptions::parse(node, &mut head, flag, 2)?;
    head.end()?;
    node.expect_values("left values", codes.num_values(), node.values)?;
    node.expect_values("right values", rights.num_values(), node.values)?;
    Ok(AlpRd {
        id,
        right_bits: u32::from(right_bits),
        count,
        left,
        exceptions,
        codes,
        rights,
    })
}

impl Numbers for AlpRd {
    fn num_values(&self) -> usize {
        self.codes.num_values()
    }

    fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        self.codes.plan(block, ranges);
        self.rights.plan(block, ranges);
        self.exceptions.plan(block, ranges);
    }

    fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        let mut codes = [0; BLOCK];
        let codes = &mut codes[..out.len().min(BLOCK)];
        self.codes.decode_block(block, bodies, codes)?;
        self.rights.decode_block(block, bodies, out)?;
        self.check(block, codes, out)?;
        for (word, code) in out.iter_mut().zip(codes) {
            *word |= self.left_at(*code);
        }
        let mask = (1 << self.right_bits) - 1;
        self.exceptions.for_each(block, bodies, |place, left| {
            out[place] = left << self.right_bits | out[place] & mask;
        })
    }

    fn take(
        &self,
        block: usize,
        places: &[u16],
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        let mut codes = vec![0; places.len()];
        self.codes.take(block, places, bodies, &mut codes)?;
        self.rights.take(block, places, bodies, out)?;
        self.check(block, &codes, out)?;
        for (word, code) in out.iter_mut().zip(&codes) {
            *word |= self.left_at(*code);
        }
        let mask = (1 << self.right_bits) - 1;
        self.exceptions.for_each(block, bodies, |exception, left| {
            for (word, place) in out.iter_mut().zip(places) {
                if usize::from(*place) == exception {
                    *word = left << self.right_bits | *word & mask;
                }
            }
        })
    }
}

impl AlpRd {
    fn left_at(&self, code: u64) -> u64 {
        // `check` refuses codes above the table, which has 8 places.
        self.left[(code & 7) as usize]
    }

    fn check(&self, block: usize, codes: &[u64], rights: &[u64]) -> Result<(), Error> {
        let code = codes.iter().fold(0, |highest, it| highest.max(*it));
        let right = rights.iter().fold(0, |bits, it| bits | it);
        if code < self.count as u64 && right >> self.right_bits == 0 {
            return Ok(());
        }
        let (count, bits) = (self.count, self.right_bits);
        let what = format!("left value {code} of {count}, right values {right:#x} of {bits} bits");
        Err(self.id.corrupt_block(block, what))
    }
}
