//! Floats stored as integers times two factors: the arithmetic that `binary scale` and `alp` share.

use super::exceptions::{Exceptions, ExceptionsBuilder};
use super::{Float, MOST_EXCEPTIONS, word_of};
use crate::error::Error;
use crate::packed::decoder::{Bodies, BodyRange, Numbers};
use crate::packed::node::Node;

/// A decoder: a float is an integer times `first`, and that times `second`.
#[derive(Debug)]
pub(super) struct Scaled<F> {
    integers: Box<dyn Numbers>,
    exceptions: Exceptions,
    first: F,
    second: F,
}

impl<F: Float> Scaled<F> {
    pub(super) fn of(
        node: &Node<'_>,
        integers: Box<dyn Numbers>,
        exceptions: Exceptions,
        factors: (F, F),
    ) -> Result<Self, Error> {
        node.refuse_flags(0)?;
        node.expect_values("integers", integers.num_values(), node.values)?;
        let (first, second) = factors;
        Ok(Self {
            integers,
            exceptions,
            first,
            second,
        })
    }
}

impl<F: Float> Numbers for Scaled<F> {
    fn num_values(&self) -> usize {
        self.integers.num_values()
    }

    fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        self.integers.plan(block, ranges);
        self.exceptions.plan(block, ranges);
    }

    fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        self.integers.decode_block(block, bodies, out)?;
        for word in out.iter_mut() {
            let float = F::of_integer(word.cast_signed());
            *word = float.times(self.first).times(self.second).to_word();
        }
        self.exceptions
            .for_each(block, bodies, |place, word| out[place] = word)
    }

    fn take(
        &self,
        block: usize,
        places: &[u16],
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        self.integers.take(block, places, bodies, out)?;
        for word in out.iter_mut() {
            let float = F::of_integer(word.cast_signed());
            *word = float.times(self.first).times(self.second).to_word();
        }
        self.exceptions.for_each(block, bodies, |exception, word| {
            for (value, place) in out.iter_mut().zip(places) {
                if usize::from(*place) == exception {
                    *value = word;
                }
            }
        })
    }
}

/// Integers and exceptions of all values, given the integer that stands for a value; `None` beyond one exception in ten.
///
/// Each is checked by decoding it: an integer that does not give the value's bits is an exception. In the place of an exception
/// stands the integer before it, which costs no bits.
pub(super) fn integers<F: Float>(
    words: &[u64],
    factors: (F, F),
    integer_of: impl Fn(F) -> i64,
) -> Option<(Vec<u64>, ExceptionsBuilder)> {
    let (first, second) = factors;
    let value_bytes = (F::BITS / 8).to_le_bytes()[0];
    let mut exceptions = ExceptionsBuilder::new(words.len(), value_bytes);
    let mut integers = Vec::with_capacity(words.len());
    let mut before = None;
    for (value, word) in words.iter().enumerate() {
        let float = F::of_word(*word);
        let integer = integer_of(float);
        let decoded = F::of_integer(integer).times(first).times(second);
        if decoded.to_word() == float.to_word() {
            if before.is_none() {
                // Exceptions at the very beginning repeat the first integer.
                integers.fill(word_of(integer));
            }
            before = Some(integer);
        } else {
            exceptions.push(value, float.to_word());
            if exceptions.len() * MOST_EXCEPTIONS > words.len() {
                return None;
            }
        }
        integers.push(word_of(before.unwrap_or(0)));
    }
    Some((integers, exceptions))
}
