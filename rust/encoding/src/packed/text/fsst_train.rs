//! Learning the symbols of FSST, and finding the longest symbol that a text begins with.

use std::cmp::Reverse;
use std::ops::Range;

use super::TextValues;

/// Bytes of the longest symbol.
pub(super) const MOST_BYTES: usize = 8;

/// Symbols of a table: code 255 is the escape.
const MOST_SYMBOLS: usize = 255;

/// Bytes that training looks at.
const SAMPLE: usize = 32 << 10;

/// The sample: so many runs of so many values at fixed places.
const RUNS: usize = 16;
const RUN: usize = 64;

/// A byte sequence of 1 to 8 bytes; the bytes behind it are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Symbol {
    bytes: [u8; MOST_BYTES],
    length: usize,
}

impl Symbol {
    fn of_byte(byte: u8) -> Self {
        let mut bytes = [0; MOST_BYTES];
        bytes[0] = byte;
        Self { bytes, length: 1 }
    }

    /// One behind the other, cut to 8 bytes.
    fn join(self, other: Self) -> Self {
        let mut bytes = self.bytes;
        let length = MOST_BYTES.min(self.length + other.length);
        bytes[self.length..length].copy_from_slice(&other.bytes[..length - self.length]);
        Self { bytes, length }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn word(&self) -> u64 {
        u64::from_le_bytes(self.bytes)
    }
}

/// Values of the sample: all of a small page, or runs at fixed places, so that equal pages have equal symbols.
pub(super) fn sample(values: usize) -> impl Iterator<Item = Range<usize>> {
    let (runs, run) = if values <= RUNS * RUN {
        (1, values)
    } else {
        (RUNS, RUN)
    };
    (0..runs).map(move |index| {
        let start = (values - run) * index / (runs - 1).max(1);
        start..start + run
    })
}

/// Finds symbols by the first two bytes of a text.
#[derive(Debug)]
pub(super) struct Matcher {
    /// Symbols of at least 2 bytes by bucket, within it the longest first.
    symbols: Vec<(u64, u64, u8, u8)>,
    /// Where each bucket begins.
    buckets: Vec<u16>,
    /// Symbols of one byte; `u16::MAX`: none.
    singles: [u16; 256],
}

const BUCKET_BITS: u32 = 11;

fn bucket(word: u64) -> usize {
    let first_two = word & 0xffff;
    ((first_two.wrapping_mul(0x9E37_79B9) >> 16) & ((1 << BUCKET_BITS) - 1)) as usize
}

impl Matcher {
    /// For at most 255 symbols.
    pub(super) fn new(symbols: &[Symbol]) -> Self {
        let mut singles = [u16::MAX; 256];
        let mut long: Vec<_> = Vec::with_capacity(symbols.len());
        for (code, symbol) in (0..=u8::MAX).zip(symbols) {
            if symbol.length == 1 {
                singles[usize::from(symbol.bytes[0])] = u16::from(code);
            } else {
                long.push((bucket(symbol.word()), Reverse(symbol.length), *symbol, code));
            }
        }
        long.sort_unstable();
        let mut buckets = vec![0; (1 << BUCKET_BITS) + 1];
        for (bucket, ..) in &long {
            buckets[bucket + 1] += 1;
        }
        for index in 1..buckets.len() {
            buckets[index] += buckets[index - 1];
        }
        let entry = |(_, _, symbol, code): (usize, Reverse<usize>, Symbol, u8)| {
            let mask = u64::MAX >> (64 - 8 * symbol.length);
            (symbol.word(), mask, symbol.length.to_le_bytes()[0], code)
        };
        Self {
            symbols: long.into_iter().map(entry).collect(),
            buckets,
            singles,
        }
    }

    /// Code and length of the longest symbol that `text`, which is not empty, begins with.
    pub(super) fn longest(&self, text: &[u8]) -> Option<(u8, usize)> {
        let word = match text.first_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None => {
                let mut word = [0; 8];
                word[..text.len()].copy_from_slice(text);
                u64::from_le_bytes(word)
            }
        };
        let bucket = bucket(word);
        let range = usize::from(self.buckets[bucket])..usize::from(self.buckets[bucket + 1]);
        for (symbol, mask, length, code) in &self.symbols[range] {
            let length = usize::from(*length);
            if (word ^ symbol) & mask == 0 && length <= text.len() {
                return Some((*code, length));
            }
        }
        let single = self.singles[(word & 0xff) as usize];
        u8::try_from(single).ok().map(|code| (code, 1))
    }
}

/// A byte that no symbol covers, as a code of training: 256 + byte.
const BYTES: u16 = 256;

/// Learns symbols in five rounds. Each codes the sample with the symbols of the round before, and keeps those that
/// cover most bytes, of these symbols and of neighbouring ones joined.
pub(super) fn train(texts: &TextValues<'_>) -> Vec<Symbol> {
    let mut pieces = Vec::new();
    let runs: Vec<_> = sample(texts.len()).collect();
    for run in &runs {
        let mut room = SAMPLE / runs.len();
        for value in run.clone() {
            let text = texts.get(value);
            let text = &text[..text.len().min(room)];
            room -= text.len();
            if !text.is_empty() {
                pieces.push(text);
            }
        }
    }
    let mut symbols = Vec::new();
    for round in 1..=5 {
        // The first rounds see less: their symbols grow in the later ones.
        let used = if round == 5 {
            pieces.len()
        } else {
            (pieces.len() * round).div_ceil(5)
        };
        let spread = pieces.iter().enumerate();
        let chosen = spread.filter(|(index, _)| {
            index * used / pieces.len().max(1) != (index + 1) * used / pieces.len().max(1)
        });
        symbols = improve(&symbols, chosen.map(|(_, text)| *text), round == 5);
    }
    symbols
}

fn improve<'a>(
    symbols: &[Symbol],
    pieces: impl Iterator<Item = &'a [u8]>,
    is_last: bool,
) -> Vec<Symbol> {
    let matcher = Matcher::new(symbols);
    let of_code = |code: u16| match symbols.get(usize::from(code)) {
        Some(symbol) if code < BYTES => *symbol,
        _ => Symbol::of_byte(code.to_le_bytes()[0]),
    };
    let mut singles = [0_u32; 512];
    let mut pairs: Vec<u32> = Vec::new();
    for text in pieces {
        let mut rest = text;
        let mut before: Option<u16> = None;
        while let Some(first) = rest.first() {
            let (code, length) = match matcher.longest(rest) {
                Some((code, length)) => (u16::from(code), length),
                None => (BYTES + u16::from(*first), 1),
            };
            singles[usize::from(code)] += 1;
            if let Some(before) = before.filter(|_| !is_last) {
                pairs.push(u32::from(before) << 16 | u32::from(code));
                if length > 1 {
                    pairs.push(u32::from(before) << 16 | u32::from(BYTES + u16::from(*first)));
                }
            }
            before = Some(code);
            rest = &rest[length..];
        }
    }
    let mut candidates: Vec<(Symbol, u64)> = Vec::new();
    for (code, count) in (0_u16..).zip(singles).filter(|(_, count)| *count > 0) {
        let symbol = of_code(code);
        // A single byte saves its escape, and is a beginning for longer symbols.
        let weight = if symbol.length == 1 {
            8
        } else {
            symbol.length as u64
        };
        candidates.push((symbol, u64::from(count) * weight));
    }
    pairs.sort_unstable();
    for pair in pairs.chunk_by(|one, other| one == other) {
        let [first, second] = [pair[0] >> 16, pair[0] & 0xffff].map(|it| it.to_le_bytes());
        let [first, second] = [first, second].map(|it| of_code(u16::from_le_bytes([it[0], it[1]])));
        if first.length < MOST_BYTES && pair.len() > 1 {
            let symbol = first.join(second);
            candidates.push((symbol, (pair.len() * symbol.length) as u64));
        }
    }
    candidates.sort_unstable();
    // Different pairs can join to the same bytes.
    let mut best: Vec<(Reverse<u64>, Symbol)> = candidates
        .chunk_by(|one, other| one.0 == other.0)
        .map(|same| (Reverse(same.iter().map(|it| it.1).sum()), same[0].0))
        .collect();
    best.sort_unstable();
    best.truncate(MOST_SYMBOLS);
    best.into_iter().map(|(_, symbol)| symbol).collect()
}
