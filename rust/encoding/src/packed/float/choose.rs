//! Which encoding a page of floats gets.

use super::{Float, alp, alp_rd, binary_scale};
use crate::packed::encoding::Encoding;
use crate::packed::node::EncodedNode;

/// Runs of the sample, and values of a run.
const RUNS: usize = 16;
const RUN: usize = 64;

/// Chooses for floats of `width` bytes (4 or 8; the bits in the low bytes of words) and encodes them; `None`: plain.
///
/// The parameters of each encoding are found on 16 runs of 64 values at fixed places, then the whole page is encoded: an
/// encoding that turns out to have more than one exception in ten is given up. One that costs more to decode is taken only
/// if it saves more: `binary scale` 3 %, `alp` and `alp-rd` 5 %.
#[must_use]
pub fn choose(words: &[u64], width: u8) -> Option<EncodedNode> {
    match width {
        4 => choose_as::<f32>(words),
        8 => choose_as::<f64>(words),
        _ => None,
    }
}

/// The best so far, and its bytes.
struct Best {
    node: Option<EncodedNode>,
    bytes: usize,
}

impl Best {
    fn consider(&mut self, node: Option<EncodedNode>, percent: usize) {
        let bytes = node.as_ref().map_or(usize::MAX, EncodedNode::byte_len);
        if bytes <= self.bytes - self.bytes * percent / 100 {
            *self = Self { node, bytes };
        }
    }
}

fn choose_as<F: Float>(words: &[u64]) -> Option<EncodedNode> {
    let sample = sample(words);
    let plain = words.len() * F::BITS / 8;
    let mut best = Best {
        node: None,
        bytes: plain,
    };
    let exponent = binary_scale::exponent::<F>(&sample);
    let exponent = exponent.filter(|it| binary_scale::encode::<F>(&sample, *it).is_some());
    best.consider(
        exponent.and_then(|it| binary_scale::encode::<F>(words, it)),
        3,
    );
    let exponents = alp::exponents::<F>(&sample);
    best.consider(exponents.and_then(|it| alp::encode::<F>(words, it)), 5);
    // `alp-rd` compresses only the left bits, so try it only if no other encoding saved an eighth.
    if best.bytes > plain * 7 / 8 {
        let cut = alp_rd::cut::<F>(&sample);
        best.consider(cut.and_then(|it| alp_rd::encode::<F>(words, &it)), 5);
    }
    best.node
}

/// All values of a small page, or runs at fixed places.
fn sample(words: &[u64]) -> Vec<u64> {
    if words.len() <= RUNS * RUN {
        return words.to_vec();
    }
    let starts = (0..RUNS).map(|run| (words.len() - RUN) * run / (RUNS - 1));
    starts
        .flat_map(|start| &words[start..start + RUN])
        .copied()
        .collect()
}

/// Encodes floats in one of the encodings of floats, whether that is wise or not; `None` if more than one in ten would be an
/// exception.
#[must_use]
pub fn encode_as(words: &[u64], width: u8, encoding: Encoding) -> Option<EncodedNode> {
    match width {
        4 => encode_floats::<f32>(words, encoding),
        8 => encode_floats::<f64>(words, encoding),
        _ => None,
    }
}

fn encode_floats<F: Float>(words: &[u64], encoding: Encoding) -> Option<EncodedNode> {
    let sample = sample(words);
    match encoding {
        Encoding::BinaryScale => {
            binary_scale::encode::<F>(words, binary_scale::exponent::<F>(&sample)?)
        }
        Encoding::Alp => alp::encode::<F>(words, alp::exponents::<F>(&sample)?),
        Encoding::AlpRd => alp_rd::encode::<F>(words, &alp_rd::cut::<F>(&sample)?),
        _ => None,
    }
}
