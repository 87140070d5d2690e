//! Learning tokens: one pass over the page joins neighbouring tokens whose pair has been seen often enough.

use super::TextValues;
use super::pair_match::{MOST_TOKENS, Tokens};

/// Bytes of text that training looks at.
const MOST_TEXT: usize = 4 << 20;

/// Values that are visited behind each other, before the next ones are taken from elsewhere.
const RUN: usize = 16;

/// Places of the table that counts pairs.
const PLACES: usize = 1 << 16;

/// The threshold is set anew after so many bytes.
const STEP: usize = 4096;

/// Learns tokens from a page of text.
pub(super) fn train(texts: &TextValues<'_>) -> Tokens {
    let mut tokens = Tokens::new();
    let mut seen = [false; 256];
    for byte in texts.bytes() {
        seen[usize::from(*byte)] = true;
    }
    for byte in (0..=u8::MAX).filter(|it| seen[usize::from(*it)]) {
        tokens.insert(u128::from(byte), 1);
    }
    if tokens.len() == 0 {
        // The format requires at least one token.
        tokens.insert(0, 1);
    }
    let singles = tokens.len();
    let total = texts.bytes().len().min(MOST_TEXT);
    let mut pairs = Pairs::new();
    let (mut read, mut next_step, mut threshold) = (0, STEP, 2);
    let runs = texts.len().div_ceil(RUN);
    let stride = stride(runs);
    for index in 0..runs {
        // Neighbours can be alike: runs are visited all over the page.
        let first = index * stride % runs * RUN;
        for value in first..texts.len().min(first + RUN) {
            let text = texts.get(value);
            read += text.len();
            learn(text, threshold, &mut tokens, &mut pairs);
            if tokens.len() >= MOST_TOKENS || read >= total {
                return tokens;
            }
            if read >= next_step {
                next_step = read + STEP;
                // The table shall be full when all text is read: the more tokens there are, the more frequent a pair must be.
                let due = (MOST_TOKENS - singles) * read / total;
                let has = tokens.len() - singles;
                threshold = if has > due {
                    threshold + 1 + threshold / 8
                } else {
                    2_u32.max(threshold - 1 - threshold / 8)
                };
            }
        }
    }
    tokens
}

/// Returns a step that visits every run exactly once, modulo the number of runs.
fn stride(runs: usize) -> usize {
    let mut stride = (runs * 5 / 8) | 1;
    while gcd(stride, runs) != 1 {
        stride += 2;
    }
    stride
}

fn gcd(mut one: usize, mut other: usize) -> usize {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

fn learn(text: &[u8], threshold: u32, tokens: &mut Tokens, pairs: &mut Pairs) {
    let mut rest = text;
    let mut before: Option<u16> = None;
    while let Some((token, length)) = tokens.longest(rest) {
        rest = &rest[length..];
        let joined = before.and_then(|before| {
            let (word, length) = tokens.join(before, token)?;
            (pairs.count(before, token) >= threshold).then_some((word, length))
        });
        before = joined
            .and_then(|(word, length)| tokens.insert(word, length))
            .or(Some(token));
    }
}

/// Counts pairs of tokens in little memory: a pair that meets another one in its place takes one off its count, and takes
/// the place when nothing is left. Frequent pairs stay.
struct Pairs {
    places: Vec<(u32, u32)>,
}

impl Pairs {
    fn new() -> Self {
        Self {
            places: vec![(0, 0); PLACES],
        }
    }

    fn count(&mut self, first: u16, second: u16) -> u32 {
        let key = u32::from(first) << 16 | u32::from(second);
        let hash = key.wrapping_mul(0x9E37_79B1) >> (32 - PLACES.trailing_zeros());
        let (owner, count) = &mut self.places[hash as usize];
        if *owner == key && *count > 0 {
            *count += 1;
        } else if *count > 1 {
            *count -= 1;
            return 1;
        } else {
            (*owner, *count) = (key, 1);
        }
        *count
    }
}
