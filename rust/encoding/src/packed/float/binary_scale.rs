//! Encoding 7, `binary scale`: floats that are integers times a power of two, as random numbers of most generators are.
//!
//! ```text
//! head   i16 exponent | u8 1 = numbers of exceptions follow | u8 0 | u16 exceptions of each block
//! body   exceptions: u16 place in the block, ascending, and the value
//! below  integers v with float = v * 2^-exponent
//! ```

use super::exceptions::Exceptions;
use super::scaled::{self, Scaled};
use super::{Float, encode_integers};
use crate::error::Error;
use crate::packed::decoder::Numbers;
use crate::packed::encoding::Encoding;
use crate::packed::head::Head;
use crate::packed::node::{EncodedNode, Node};

/// One value in this many of a sample may be an exception.
const SAMPLE_EXCEPTIONS: usize = 10;

/// The exponent that makes integers of all but a few values of a sample; `None` if there is none.
pub(super) fn exponent<F: Float>(sample: &[u64]) -> Option<i16> {
    let lowest = sample
        .iter()
        .filter_map(|it| F::of_word(*it).lowest_exponent());
    let mut wanted: Vec<i16> = lowest.map(|exponent| -exponent).collect();
    wanted.sort_unstable();
    let most = wanted.len() - wanted.len().min(sample.len() / SAMPLE_EXCEPTIONS);
    let last = wanted.last().copied();
    // The highest exponent holds every value. A lower one, which leaves a few out, only if it is much lower.
    let last = last.unwrap_or(0);
    let usual = wanted.get(most.saturating_sub(1)).copied().unwrap_or(last);
    let exponent = if last - usual > 8 { usual } else { last };
    (exponent.abs() <= F::MOST_SCALE).then_some(exponent)
}

/// Stores floats (bits in the low bytes) as integers times 2 to the power of `-exponent`; `None` beyond one exception in ten.
pub(super) fn encode<F: Float>(words: &[u64], exponent: i16) -> Option<EncodedNode> {
    let up = F::power_of_two(exponent);
    let factors = (F::power_of_two(-exponent), F::power_of_two(0));
    let (integers, exceptions) = scaled::integers(words, factors, |float: F| {
        let integer = float.times(up).to_integer();
        // Beyond, not every integer is a float: the bits would have to be looked at.
        if integer.unsigned_abs() <= F::MOST_INTEGER.unsigned_abs() {
            integer
        } else {
            0
        }
    })?;
    let mut node = EncodedNode::new(
        Encoding::BinaryScale,
        (F::BITS / 8).to_le_bytes()[0],
        words.len(),
    );
    node.head.extend(exponent.to_le_bytes());
    node.head.extend([exceptions.flag(), 0]);
    exceptions.write(&mut node);
    node.children = vec![encode_integers(&integers)];
    Some(node)
}

/// Checks a node of scaled floats.
///
/// # Errors
/// `Corrupt` if the head contradicts itself or the body.
pub(crate) fn parse(
    node: &Node<'_>,
    integers: Box<dyn Numbers>,
) -> Result<Box<dyn Numbers>, Error> {
    match node.parameter {
        4 => Ok(Box::new(parse_as::<f32>(node, integers)?)),
        8 => Ok(Box::new(parse_as::<f64>(node, integers)?)),
        other => Err(node.id.corrupt(format!("floats of {other} bytes"))),
    }
}

fn parse_as<F: Float>(node: &Node<'_>, integers: Box<dyn Numbers>) -> Result<Scaled<F>, Error> {
    let mut head = Head::of(node);
    let exponent = head.u16()?.cast_signed();
    let flag = head.u8()?;
    head.zeros(1)?;
    if exponent.unsigned_abs() > F::MOST_SCALE.unsigned_abs() {
        return Err(node.id.corrupt(format!("exponent {exponent}")));
    }
    let exceptions = Exceptions::parse(node, &mut head, flag, node.parameter)?;
    head.end()?;
    let factors = (F::power_of_two(-exponent), F::power_of_two(0));
    Scaled::of(node, integers, exceptions, factors)
}
