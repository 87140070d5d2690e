//! Chooses the encoding of a page of text.

use super::{TextValues, chars, front, fsst, fsst_train, pair, raw};
use crate::error::Error;
use crate::packed::encoding::Encoding;
use crate::packed::node::EncodedNode;
use crate::packed::{constant, dictionary};

/// Text that is stored as it is, below so many bytes: no table pays.
const LEAST_TEXT: usize = 4 << 10;

/// Text for which tokens may be learnt, at least: their table costs 15 to 60 KiB.
const LEAST_PAIR: usize = 256 << 10;

/// One value in so many is coded to compare symbols and tokens.
const PART: usize = 10;

/// A way to store text, its bytes without lengths, and the percentage that it must save over the one that is cheaper to decode.
struct Candidate {
    way: Way,
    bytes: usize,
    percent: usize,
}

impl Candidate {
    /// Gives way to a candidate that saves enough.
    fn consider(&mut self, other: Self) {
        if other.bytes * 100 <= self.bytes * (100 - other.percent) {
            *self = other;
        }
    }
}

enum Way {
    Raw,
    Chars(Vec<u8>),
    Fsst(Box<fsst::Table>),
    Pair(Box<pair::Table>),
}

impl Way {
    fn encode(&self, texts: &TextValues<'_>) -> Result<EncodedNode, Error> {
        match self {
            Self::Raw => raw::encode(texts),
            Self::Chars(alphabet) => match chars::encode(texts, alphabet)? {
                Some(node) => Ok(node),
                None => raw::encode(texts),
            },
            Self::Fsst(table) => table.encode(texts),
            Self::Pair(table) => table.encode(texts),
        }
    }
}

/// The best of the encodings that hold bytes themselves; with `pair` only if `may_pair`.
fn best(texts: &TextValues<'_>, may_pair: bool) -> Candidate {
    let total = texts.bytes().len();
    let mut best = Candidate {
        way: Way::Raw,
        bytes: total,
        percent: 0,
    };
    if total < LEAST_TEXT {
        return best;
    }
    let alphabet = chars::alphabet(texts.bytes());
    if alphabet.len() <= chars::MOST_CHARS {
        best.consider(Candidate {
            bytes: chars::estimate(alphabet.len(), total, texts.len()),
            way: Way::Chars(alphabet),
            percent: 5,
        });
    }
    let symbols = fsst::Table::train(texts);
    let mut codes = Vec::new();
    let part = part(texts, |value| {
        symbols.encode_value(texts.get(value), &mut codes)
    });
    let by_symbols = Candidate {
        bytes: symbols.head_length(texts.len()) + scale(codes.len(), part, total),
        way: Way::Fsst(Box::new(symbols)),
        percent: 10,
    };
    // Learning tokens is the slowest step, and tokens save little where symbols save nothing: skip it there.
    let symbols_save = by_symbols.bytes < best.bytes;
    let by_tokens = (may_pair && symbols_save && total >= LEAST_PAIR).then(|| {
        let tokens = pair::Table::train(texts);
        let mut codes = Vec::new();
        let part = self::part(texts, |value| {
            tokens.encode_values(texts, value..value + 1, &mut codes);
        });
        let bytes = (codes.len() * usize::from(tokens.width())).div_ceil(8);
        Candidate {
            bytes: tokens.head_length(texts.len()) + scale(bytes, part, total),
            way: Way::Pair(Box::new(tokens)),
            percent: 10,
        }
    });
    // Both take about the same time to decode, so take the smaller.
    match by_tokens {
        Some(by_tokens) if by_tokens.bytes < by_symbols.bytes => best.consider(by_tokens),
        _ => best.consider(by_symbols),
    }
    best
}

/// Calls `code` with the values of the part that is tried; returns the bytes of their text.
fn part(texts: &TextValues<'_>, mut code: impl FnMut(usize)) -> usize {
    let mut bytes = 0;
    for value in (0..texts.len()).step_by(PART) {
        code(value);
        bytes += texts.get(value).len();
    }
    bytes
}

fn scale(bytes: usize, part: usize, total: usize) -> usize {
    let scaled = bytes as u128 * total as u128 / (part as u128).max(1);
    usize::try_from(scaled).unwrap_or(usize::MAX).max(bytes)
}

/// Chooses for text in the order of a table, and encodes it.
///
/// # Errors
/// `Limit` for text of 4 GiB or more.
pub fn choose(texts: &TextValues<'_>) -> Result<EncodedNode, Error> {
    let is_equal =
        !texts.is_empty() && (1..texts.len()).all(|value| texts.get(value) == texts.get(0));
    if is_equal && let Some(node) = constant::encode_bytes(texts.get(0), texts.len()) {
        return Ok(node);
    }
    let distinct = distinct_of_sample(texts);
    let dictionary = match distinct {
        (distinct, of) if distinct * 10 < of * 7 => encode_dictionary(texts)?,
        _ => None,
    };
    // With so few values no other encoding comes near in size.
    let (few, of) = (distinct.0, distinct.1);
    if let Some(dictionary) = &dictionary
        && few * 10 <= of
    {
        return Ok(dictionary.clone());
    }
    let best = best(texts, true);
    let lengths = texts.length_node();
    match dictionary {
        Some(dictionary) => {
            let others = best.bytes + lengths.byte_len();
            // A dictionary is cheaper to decode than all but raw text.
            let wins = match best.way {
                Way::Raw => dictionary.byte_len() * 100 <= others * 97,
                _ => dictionary.byte_len() * (100 - best.percent) <= others * 100,
            };
            if wins {
                Ok(dictionary)
            } else {
                best.way.encode(texts)
            }
        }
        None => best.way.encode(texts),
    }
}

/// Different values among 16 runs of 64 at fixed places, and the number of values looked at.
fn distinct_of_sample(texts: &TextValues<'_>) -> (usize, usize) {
    let mut values: Vec<&[u8]> = fsst_train::sample(texts.len())
        .flatten()
        .map(|value| texts.get(value))
        .collect();
    let of = values.len();
    values.sort_unstable();
    values.dedup();
    (values.len(), of)
}

fn encode_dictionary(texts: &TextValues<'_>) -> Result<Option<EncodedNode>, Error> {
    let values: Vec<&[u8]> = (0..texts.len()).map(|value| texts.get(value)).collect();
    let mut failed = None;
    let node = dictionary::encode_texts(&values, |entries| {
        let mut offsets = vec![0_u32];
        let mut bytes = Vec::new();
        for entry in entries {
            bytes.extend_from_slice(entry);
            // Entries have 16 MiB at most.
            offsets.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
        let node = TextValues::new(&bytes, &offsets).and_then(|it| choose_sorted(&it));
        node.unwrap_or_else(|error| {
            failed = Some(error);
            EncodedNode::new(Encoding::Raw, 0, 0)
        })
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(node),
    }
}

/// Chooses for sorted text, such as the entries of a dictionary, and encodes it.
///
/// # Errors
/// `Limit` for text of 4 GiB or more.
pub fn choose_sorted(texts: &TextValues<'_>) -> Result<EncodedNode, Error> {
    let best = best(texts, true);
    let parts = front::split(texts);
    // What is not shared is stored with the shared lengths, and takes a tenth off.
    if parts.rests.len() * 2 > texts.bytes().len() || texts.bytes().len() < 512 {
        return best.way.encode(texts);
    }
    let node = best.way.encode(texts)?;
    let rests = TextValues::new(&parts.rests, &parts.offsets)?;
    let rests = self::best(&rests, false).way.encode(&rests)?;
    let front = front::encode(&parts.shared, rests);
    let saves = front.byte_len() * 10 <= node.byte_len() * 9;
    Ok(if saves { front } else { node })
}

/// Encodes text in one of the encodings of text, whether that is wise or not; `None` if the encoding can't hold it.
///
/// # Errors
/// `Limit` for text of 4 GiB or more.
pub fn encode_as(texts: &TextValues<'_>, encoding: Encoding) -> Result<Option<EncodedNode>, Error> {
    Ok(Some(match encoding {
        Encoding::Raw => raw::encode(texts)?,
        Encoding::Fsst => fsst::Table::train(texts).encode(texts)?,
        Encoding::Pair => pair::Table::train(texts).encode(texts)?,
        Encoding::Chars => return chars::encode(texts, &chars::alphabet(texts.bytes())),
        Encoding::Front => {
            let parts = front::split(texts);
            let rests = TextValues::new(&parts.rests, &parts.offsets)?;
            front::encode(&parts.shared, best(&rests, false).way.encode(&rests)?)
        }
        _ => return Ok(None),
    }))
}
