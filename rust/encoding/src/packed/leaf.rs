//! Integers in one node without nodes below: the smallest of `constant`, `for`, `delta` and `plain`.
//!
//! The other encodings make their child nodes with this module, so this module uses none of those encodings.

use super::encoding::Encoding;
use super::node::EncodedNode;
use super::{constant, delta, frame, plain};

/// Bytes of codes and lengths, as the parameter of their nodes.
const INDEX_WIDTH: u8 = 4;

/// The smallest node of integers of `width` bytes among the `allowed` encodings of those that this module knows. `for` is always
/// allowed.
pub(crate) fn encode(values: &[u64], width: u8, allowed: &[Encoding]) -> EncodedNode {
    let is_allowed = |encoding| allowed.contains(&encoding);
    if let Some(&first) = values.first()
        && is_allowed(Encoding::Constant)
        && values.iter().all(|&value| value == first)
    {
        return constant::encode(first, width, values.len());
    }
    let frame = frame::plan(values, width);
    let delta = is_allowed(Encoding::Delta).then(|| delta::plan(values, width));
    // `delta` takes longer to decode, because it sums steps, so it must save more than 10 %.
    let delta = delta.filter(|it| it.byte_len().saturating_mul(10) < frame.byte_len() * 9);
    if let Some(delta) = delta {
        return delta.encode(values);
    }
    let plain_len = 24 + values.len() * usize::from(width);
    if is_allowed(Encoding::Plain) && width <= 8 && plain_len <= frame.byte_len() {
        return plain::encode(values, width);
    }
    frame.encode(values)
}

/// Stores the lengths of texts or of runs.
#[must_use]
pub fn encode_lengths(lengths: &[u64]) -> EncodedNode {
    encode(lengths, INDEX_WIDTH, &[Encoding::Constant])
}

/// Codes of a dictionary.
pub(crate) fn encode_codes(codes: &[u64]) -> EncodedNode {
    encode(codes, INDEX_WIDTH, &[Encoding::Constant, Encoding::Delta])
}

/// Values of runs and dictionaries of numbers.
pub(crate) fn encode_values(values: &[u64], width: u8) -> EncodedNode {
    let allowed = [Encoding::Constant, Encoding::Delta, Encoding::Plain];
    encode(values, width, &allowed)
}

/// Values of dictionaries of numbers. They ascend as words, so narrow ones are not `plain`, which drops their sign.
pub(crate) fn encode_entries(values: &[u64], width: u8) -> EncodedNode {
    match width {
        8.. => encode_values(values, width),
        _ => encode(values, width, &[Encoding::Constant, Encoding::Delta]),
    }
}
