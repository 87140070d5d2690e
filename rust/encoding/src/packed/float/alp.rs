//! Encoding 8, `alp`: floats that are decimals of few digits.
//!
//! Afroozeh, Kuffo, Boncz: ALP, Adaptive Lossless floating-Point Compression, SIGMOD 2024; the code is our own.
//!
//! ```text
//! head   u8 e | u8 f | u8 1 = numbers of exceptions follow | u8 0 | u16 exceptions of each block
//! body   exceptions: u16 place in the block, ascending, and the value
//! below  integers v with float = v * 10^f * 10^-e, both products rounded
//! ```

use super::exceptions::Exceptions;
use super::scaled::{self, Scaled};
use super::{Float, encode_integers};
use crate::error::Error;
use crate::packed::decoder::Numbers;
use crate::packed::encoding::Encoding;
use crate::packed::head::Head;
use crate::packed::node::{EncodedNode, Node};

/// Values of the sample that are tried with every pair of exponents.
const TRIED: usize = 128;

/// Bits that an exception costs beside its integer: place and value.
fn exception_bits<F: Float>() -> usize {
    F::BITS + 16
}

fn factors<F: Float>(exponents: (u8, u8)) -> Option<(F, F, F, F)> {
    let (e, f) = (usize::from(exponents.0), usize::from(exponents.1));
    let [down, up] = [F::TENTHS, F::TENS].map(|it| (it.get(f), it.get(e)));
    // Decoding: times 10^f, times 10^-e. Encoding: times 10^e, times 10^-f.
    Some((*up.0?, *down.1?, *up.1?, *down.0?))
}

/// Integer of a float, whether it decodes to it or not.
fn integer<F: Float>(float: F, (_, _, up, down): (F, F, F, F)) -> i64 {
    float.times(up).times(down).nearest()
}

/// The exponents e and f that store a sample in the fewest bits; `None` if more than one value in ten is an exception.
pub(super) fn exponents<F: Float>(sample: &[u64]) -> Option<(u8, u8)> {
    let step = sample.len().div_ceil(TRIED).max(1);
    let sample: Vec<F> = sample
        .iter()
        .step_by(step)
        .map(|it| F::of_word(*it))
        .collect();
    let mut best: Option<(usize, u8, u8)> = None;
    let most = u8::try_from(F::TENS.len()).unwrap_or(u8::MAX);
    for e in 0..most {
        for f in 0..=e {
            let Some(factors) = factors::<F>((e, f)) else {
                continue;
            };
            let (mut least, mut greatest, mut exceptions) = (i64::MAX, i64::MIN, 0);
            for float in &sample {
                let integer = integer(*float, factors);
                let decoded = F::of_integer(integer).times(factors.0).times(factors.1);
                if decoded.to_word() == float.to_word() {
                    (least, greatest) = (least.min(integer), greatest.max(integer));
                } else {
                    exceptions += 1;
                }
            }
            if exceptions * super::MOST_EXCEPTIONS > sample.len() || least > greatest {
                continue;
            }
            let range = greatest.wrapping_sub(least).cast_unsigned();
            let bits = (u64::BITS - range.leading_zeros()) as usize * sample.len()
                + exceptions * exception_bits::<F>();
            // Of equally good pairs the first: the smallest exponents.
            if best.is_none_or(|best| bits < best.0) {
                best = Some((bits, e, f));
            }
        }
    }
    best.map(|(_, e, f)| (e, f))
}

/// Stores floats (bits in the low bytes) as decimals; `None` beyond one exception in ten.
pub(super) fn encode<F: Float>(words: &[u64], exponents: (u8, u8)) -> Option<EncodedNode> {
    let factors = factors::<F>(exponents)?;
    let decoding = (factors.0, factors.1);
    let (integers, exceptions) =
        scaled::integers(words, decoding, |float: F| integer(float, factors))?;
    let width = (F::BITS / 8).to_le_bytes()[0];
    let mut node = EncodedNode::new(Encoding::Alp, width, words.len());
    node.head
        .extend([exponents.0, exponents.1, exceptions.flag(), 0]);
    exceptions.write(&mut node);
    node.children = vec![encode_integers(&integers)];
    Some(node)
}

/// Checks a node of decimals.
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
    let [e, f, flag] = [head.u8()?, head.u8()?, head.u8()?];
    head.zeros(1)?;
    let Some((first, second, ..)) = factors::<F>((e, f)).filter(|_| f <= e) else {
        return Err(node.id.corrupt(format!("exponents {e} and {f}")));
    };
    let exceptions = Exceptions::parse(node, &mut head, flag, node.parameter)?;
    head.end()?;
    Scaled::of(node, integers, exceptions, (first, second))
}
