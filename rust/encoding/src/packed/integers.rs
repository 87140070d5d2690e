//! The choice among the encodings of integers, by exact sizes where one pass gives them (`docs/format.md`, section 15.7).

use std::collections::HashSet;

use super::node::{BLOCK, EncodedNode};
use super::{constant, delta, dictionary, frame, run, wide};

/// Pages of fewer values stay plain: the head of a packed page would be most of it.
const MIN_VALUES: usize = 256;

/// Bytes of a page besides its nodes.
const PAGE_BYTES: usize = super::header::HEADER_BYTES;

/// A sample for the number of distinct values: so many runs of so many values, at fixed places.
const SAMPLE_RUNS: usize = 16;
const SAMPLE_LEN: usize = 64;

/// Percent of bytes that an encoding must save over the encoding that is cheaper to decode.
const DICTIONARY_SAVES: usize = 3;
const RUN_SAVES: usize = 5;
const DELTA_SAVES: usize = 10;

/// The node for integers of `width` bytes (1, 2, 4, 8, or decimals of 16 that 8 hold), sign- or zero-extended to words. `None`: a
/// plain page is no larger, or the page has fewer than 256 values.
///
/// Equal values give equal nodes: nothing depends on time, chance or the order of a hash table.
#[must_use]
pub fn choose(values: &[u64], width: u8) -> Option<EncodedNode> {
    if values.len() < MIN_VALUES {
        return None;
    }
    let plain = values.len().saturating_mul(usize::from(width));
    let node = smallest(values, width);
    (PAGE_BYTES + node.byte_len() < plain).then_some(node)
}

/// As [`choose`], for 128-bit values: in one node where 64 bits hold all of them, in two halves otherwise.
#[must_use]
pub fn choose_wide(values: &[i128]) -> Option<EncodedNode> {
    let narrow = values.iter().map(|&value| i64::try_from(value).ok());
    let narrow: Option<Vec<u64>> = narrow.map(|it| it.map(i64::cast_unsigned)).collect();
    if let Some(narrow) = narrow {
        return choose(&narrow, 16);
    }
    if values.len() < MIN_VALUES {
        return None;
    }
    let node = wide::encode(values);
    (PAGE_BYTES + node.byte_len() < values.len().saturating_mul(16)).then_some(node)
}

/// What one pass over the values counts.
#[derive(Debug, Default)]
struct Counts {
    /// Runs of equal values, which begin anew in every block.
    runs: usize,
    is_constant: bool,
}

fn count(values: &[u64]) -> Counts {
    let runs = values.chunks(BLOCK).map(|block| {
        let changes = block.windows(2).filter(|pair| pair[0] != pair[1]).count();
        changes + usize::from(!block.is_empty())
    });
    let is_constant = values.first().is_some_and(|first| {
        // In most pages this comparison ends at the second value.
        values.iter().all(|value| value == first)
    });
    Counts {
        runs: runs.sum(),
        is_constant,
    }
}

fn smallest(values: &[u64], width: u8) -> EncodedNode {
    let counts = count(values);
    if let Some(&value) = values.first()
        && counts.is_constant
    {
        return constant::encode(value, width, values.len());
    }
    let frame = frame::plan(values, width);
    let mut best = (frame.byte_len(), None);
    let saves = |bytes: usize, best: usize, percent: usize| {
        bytes.saturating_mul(100) < best.saturating_mul(100 - percent)
    };
    if has_few_distinct(values)
        && let Some(node) = dictionary::encode(values, width)
        && saves(node.byte_len(), best.0, DICTIONARY_SAVES)
    {
        best = (node.byte_len(), Some(node));
    }
    // With more runs than this, the values of the runs alone take nine tenths of all values.
    if counts.runs * 10 < values.len() * 9 {
        let node = run::encode(values, width);
        if saves(node.byte_len(), best.0, RUN_SAVES) {
            best = (node.byte_len(), Some(node));
        }
    }
    let delta = delta::plan(values, width);
    if delta.is_possible() && saves(delta.byte_len(), best.0, DELTA_SAVES) {
        return delta.encode(values);
    }
    best.1.unwrap_or_else(|| frame.encode(values))
}

/// Whether less than 70 percent of a sample are distinct.
fn has_few_distinct(values: &[u64]) -> bool {
    let step = (values.len() / SAMPLE_RUNS).max(SAMPLE_LEN);
    let mut distinct: HashSet<u64> = HashSet::new();
    let mut sampled = 0;
    for run in values.chunks(step) {
        let run = &run[..run.len().min(SAMPLE_LEN)];
        distinct.extend(run);
        sampled += run.len();
    }
    distinct.len() * 10 < sampled * 7
}
