//! Tokens of the encoding `pair`, and finding the longest token that a text begins with.

/// Bytes of the longest token.
pub(super) const MOST_BYTES: usize = 16;

/// Tokens of a table: codes have at most 12 bits.
pub(super) const MOST_TOKENS: usize = 4096;

/// Places of the table by hash, at most a quarter of them taken.
const PLACES: usize = 4 * MOST_TOKENS;

/// Places of the table of lengths, by hash of the first 4 bytes.
const LENGTHS: usize = 1 << 14;

/// No token.
const NONE: u16 = u16::MAX;

/// A set of tokens that grows.
#[derive(Debug)]
pub(super) struct Tokens {
    /// Bytes as a number, the first one lowest, and their count.
    tokens: Vec<(u128, u8)>,
    bytes: Vec<[u8; MOST_BYTES]>,
    /// Tokens of at least 3 bytes by the hash of bytes and length; a taken place is passed by.
    places: Vec<u16>,
    /// For the hash of the first 3 bytes: bit `n` says that a token of `n` bytes begins so.
    lengths: Vec<u32>,
    /// Tokens of 2 bytes.
    doubles: Vec<u16>,
    /// Tokens of 1 byte.
    singles: [u16; 256],
}

fn low_bytes(word: u128, length: usize) -> u128 {
    word & (u128::MAX >> (128 - 8 * length))
}

/// The upper bits of a product, which depend on all bits of the factors.
fn fold(word: u64, bits: u32) -> usize {
    let high = word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits);
    usize::try_from(high).unwrap_or(0)
}

#[expect(clippy::cast_possible_truncation, reason = "halves are wanted")]
fn place_of(word: u128, length: usize) -> usize {
    let (low, high) = (word as u64, (word >> 64) as u64);
    let mixed =
        low ^ high.rotate_left(23).wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ (length as u64) << 56;
    fold(mixed, PLACES.trailing_zeros())
}

fn first_three(word: u128) -> usize {
    fold((word & 0xff_ffff) as u64, LENGTHS.trailing_zeros())
}

impl Tokens {
    pub(super) fn new() -> Self {
        Self {
            tokens: Vec::with_capacity(MOST_TOKENS),
            bytes: Vec::with_capacity(MOST_TOKENS),
            places: vec![NONE; PLACES],
            lengths: vec![0; LENGTHS],
            doubles: vec![NONE; 1 << 16],
            singles: [NONE; 256],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The bytes of a token.
    pub(super) fn get(&self, token: usize) -> &[u8] {
        &self.bytes[token][..usize::from(self.tokens[token].1)]
    }

    /// Two tokens joined, if they are no longer than a token may be.
    pub(super) fn join(&self, first: u16, second: u16) -> Option<(u128, usize)> {
        let (word, length) = self.tokens[usize::from(first)];
        let (other, more) = self.tokens[usize::from(second)];
        let joined = usize::from(length + more);
        (joined <= MOST_BYTES).then(|| (word | other << (8 * u32::from(length)), joined))
    }

    /// Adds a token, unless it is known or the set is full; returns its number.
    pub(super) fn insert(&mut self, word: u128, length: usize) -> Option<u16> {
        let number = u16::try_from(self.tokens.len()).ok()?;
        if usize::from(number) >= MOST_TOKENS || self.find(word, length).is_some() {
            return None;
        }
        match length {
            1 => self.singles[(word & 0xff) as usize] = number,
            2 => self.doubles[(word & 0xffff) as usize] = number,
            _ => {
                let mut place = place_of(word, length);
                while self.places[place] != NONE {
                    place = (place + 1) % PLACES;
                }
                self.places[place] = number;
                self.lengths[first_three(word)] |= 1 << length;
            }
        }
        self.tokens.push((word, length.to_le_bytes()[0]));
        self.bytes.push(word.to_le_bytes());
        Some(number)
    }

    fn find(&self, word: u128, length: usize) -> Option<u16> {
        let known = match length {
            1 => self.singles[(word & 0xff) as usize],
            2 => self.doubles[(word & 0xffff) as usize],
            _ => {
                let mut place = place_of(word, length);
                loop {
                    let token = self.places[place];
                    let is_it =
                        |(other, its): &(u128, u8)| *other == word && usize::from(*its) == length;
                    if token == NONE || self.tokens.get(usize::from(token)).is_some_and(is_it) {
                        break token;
                    }
                    place = (place + 1) % PLACES;
                }
            }
        };
        (known != NONE).then_some(known)
    }

    /// Number and length of the longest token that `text` begins with; `None` at the end, or if no token begins so.
    pub(super) fn longest(&self, text: &[u8]) -> Option<(u16, usize)> {
        let first = *text.first()?;
        let word = match text.first_chunk::<MOST_BYTES>() {
            Some(word) => u128::from_le_bytes(*word),
            None => {
                let mut word = [0; MOST_BYTES];
                word[..text.len()].copy_from_slice(text);
                u128::from_le_bytes(word)
            }
        };
        let most = text.len().min(MOST_BYTES);
        let mut lengths = self.lengths[first_three(word)] & ((2 << most) - 1);
        while lengths != 0 {
            let length = lengths.ilog2() as usize;
            let found = self.find(low_bytes(word, length), length);
            if let Some(token) = found {
                return Some((token, length));
            }
            lengths ^= 1 << length;
        }
        let double = self.doubles[(word & 0xffff) as usize];
        if most > 1 && double != NONE {
            return Some((double, 2));
        }
        let single = self.singles[usize::from(first)];
        (single != NONE).then_some((single, 1))
    }
}
