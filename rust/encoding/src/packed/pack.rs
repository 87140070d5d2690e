//! Packed order: values of `width` bits, in lanes for a full block, as a stream for a shorter one (`docs/format.md`, section 15.5).
//!
//! A full block has lanes of the least of 8, 16, 32 and 64 bits that hold the width. In each lane, row `row` has the bits from
//! `row * width` on, and holds the value at place `ORDER[row / 8] * 16 + (row % 8) * 128 + lane`. The words of all lanes are
//! interleaved: one row is a run of neighbours, which the compiler turns into vector instructions, whatever the width.

use self::kernels::ORDER;
use super::node::BLOCK;

/// Most bits of a packed value.
pub(crate) const MAX_WIDTH: u8 = 64;

/// Bytes that `count` values of `width` bits take, full block or not.
pub(crate) fn packed_bytes(count: usize, width: u8) -> usize {
    (count * usize::from(width)).div_ceil(8)
}

/// Bits that a value takes.
pub(crate) fn bits_of(value: u64) -> u8 {
    match u8::try_from(64 - value.leading_zeros()) {
        Ok(bits) => bits,
        Err(_) => MAX_WIDTH,
    }
}

/// Returns a word whose low `width` bits are 1 and whose other bits are 0.
fn mask(width: u8) -> u64 {
    match width {
        0 => 0,
        width => u64::MAX >> (64 - u32::from(width.min(MAX_WIDTH))),
    }
}

macro_rules! lanes {
    ($unpack:ident, $pack:ident, $word:ty) => {
        /// `bytes` are 128 times `width`, and `width` fits the word: [`unpack`] checks both.
        fn $unpack(bytes: &[u8], width: usize, out: &mut [u64; BLOCK]) {
            const BITS: usize = <$word>::BITS as usize;
            const LANES: usize = BLOCK / BITS;
            let mask = <$word>::MAX >> (BITS - width);
            let (words, _) = bytes.as_chunks::<{ BITS / 8 }>();
            for row in 0..BITS {
                let (word, shift) = (row * width / BITS, row * width % BITS);
                let values = &mut out[first_of_row(row)..][..LANES];
                let low = &words[word * LANES..][..LANES];
                if shift + width <= BITS {
                    for (value, low) in values.iter_mut().zip(low) {
                        *value = u64::from((<$word>::from_le_bytes(*low) >> shift) & mask);
                    }
                    continue;
                }
                let high = &words[(word + 1) * LANES..][..LANES];
                for ((value, low), high) in values.iter_mut().zip(low).zip(high) {
                    let low = <$word>::from_le_bytes(*low) >> shift;
                    let high = <$word>::from_le_bytes(*high) << (BITS - shift);
                    *value = u64::from((low | high) & mask);
                }
            }
        }

        /// Writes into `bytes`, which are 128 times `width` zeros; no value has more bits.
        fn $pack(values: &[u64; BLOCK], width: usize, bytes: &mut [u8]) {
            const BITS: usize = <$word>::BITS as usize;
            const LANES: usize = BLOCK / BITS;
            let (words, _) = bytes.as_chunks_mut::<{ BITS / 8 }>();
            for row in 0..BITS {
                let (word, shift) = (row * width / BITS, row * width % BITS);
                let values = &values[first_of_row(row)..][..LANES];
                for (target, value) in words[word * LANES..][..LANES].iter_mut().zip(values) {
                    let word = <$word>::from_le_bytes(*target) | ((*value as $word) << shift);
                    *target = word.to_le_bytes();
                }
                if shift + width > BITS {
                    let next = words[(word + 1) * LANES..][..LANES].iter_mut();
                    for (target, value) in next.zip(values) {
                        *target = ((*value as $word) >> (BITS - shift)).to_le_bytes();
                    }
                }
            }
        }
    };
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a value has no more bits than its lane"
)]
mod kernels {
    use crate::packed::node::BLOCK;

    /// Where each eighth of the rows begins, in steps of 16 values. The order is its own inverse.
    pub(super) const ORDER: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];

    /// The first value of a row.
    fn first_of_row(row: usize) -> usize {
        ORDER[row / 8] * 16 + (row % 8) * 128
    }

    lanes!(unpack_8, pack_8, u8);
    lanes!(unpack_16, pack_16, u16);
    lanes!(unpack_32, pack_32, u32);
    lanes!(unpack_64, pack_64, u64);

    pub(super) fn unpack(bytes: &[u8], width: usize, out: &mut [u64; BLOCK]) {
        match width {
            0 => out.fill(0),
            1..=8 => unpack_8(bytes, width, out),
            9..=16 => unpack_16(bytes, width, out),
            17..=32 => unpack_32(bytes, width, out),
            _ => unpack_64(bytes, width, out),
        }
    }

    pub(super) fn pack(values: &[u64; BLOCK], width: usize, bytes: &mut [u8]) {
        match width {
            0 => {}
            1..=8 => pack_8(values, width, bytes),
            9..=16 => pack_16(values, width, bytes),
            17..=32 => pack_32(values, width, bytes),
            _ => pack_64(values, width, bytes),
        }
    }
}

/// Unpacks a block into `out`. `None` if `bytes` are not exactly those of so many values, or the width is above 64.
pub(crate) fn unpack(bytes: &[u8], width: u8, out: &mut [u64]) -> Option<()> {
    if width > MAX_WIDTH || bytes.len() != packed_bytes(out.len(), width) {
        return None;
    }
    match out.as_mut_array() {
        Some(block) => kernels::unpack(bytes, usize::from(width), block),
        None => unpack_stream(bytes, width, out),
    }
    Some(())
}

fn unpack_stream(bytes: &[u8], width: u8, out: &mut [u64]) {
    let mask = mask(width);
    let (mut held, mut bits) = (0_u128, 0);
    let mut bytes = bytes.iter();
    for value in out {
        while bits < u32::from(width) {
            held |= u128::from(bytes.next().copied().unwrap_or(0)) << bits;
            bits += 8;
        }
        *value = low_word(held) & mask;
        held >>= width;
        bits -= u32::from(width);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
fn low_word(wide: u128) -> u64 {
    wide as u64
}

/// One value of a packed block of `count` values. `None` as of [`unpack`], or for a place outside.
pub(crate) fn unpack_one(bytes: &[u8], width: u8, count: usize, place: usize) -> Option<u64> {
    if width > MAX_WIDTH || bytes.len() != packed_bytes(count, width) || place >= count {
        return None;
    }
    if width == 0 {
        return Some(0);
    }
    let width = usize::from(width);
    // Up to 16 bytes from the byte in which the value begins, or the two words of its lane.
    let (low, high, shift, bits) = if count == BLOCK {
        let bits = width.next_power_of_two().max(8);
        let lanes = BLOCK / bits;
        let (group, lane) = (place % 128 / lanes, place % lanes);
        let row = ORDER[group * (lanes / 16)] * 8 + place / 128;
        let (word, shift) = (row * width / bits, row * width % bits);
        let at = |word: usize| {
            let start = (word * lanes + lane) * (bits / 8);
            bytes.get(start..start + bits / 8)
        };
        let high = if shift + width > bits {
            at(word + 1)?
        } else {
            &[]
        };
        (at(word)?, high, shift, bits)
    } else {
        let (start, shift) = (place * width / 8, place * width % 8);
        let low = &bytes[start..bytes.len().min(start + 8)];
        let high = bytes.get(start + 8..start + 9).unwrap_or(&[]);
        (low, high, shift, 64)
    };
    let wide = u128::from(super::head::word(low)) | (u128::from(super::head::word(high)) << bits);
    Some(low_word(wide >> shift) & mask(u8::try_from(width).unwrap_or(MAX_WIDTH)))
}

/// Appends a block of values of `width` bits; the bits above are left out.
pub(crate) fn pack(values: &[u64], width: u8, bytes: &mut Vec<u8>) {
    let mask = mask(width);
    let start = bytes.len();
    bytes.resize(start + packed_bytes(values.len(), width), 0);
    let target = &mut bytes[start..];
    if values.len() == BLOCK {
        let mut masked = [0; BLOCK];
        for (to, value) in masked.iter_mut().zip(values) {
            *to = value & mask;
        }
        kernels::pack(&masked, usize::from(width), target);
        return;
    }
    let (mut held, mut bits) = (0_u128, 0);
    let mut target = target.iter_mut();
    for value in values {
        held |= u128::from(value & mask) << bits;
        bits += u32::from(width);
        while bits >= 8 {
            if let Some(byte) = target.next() {
                *byte = held.to_le_bytes()[0];
            }
            held >>= 8;
            bits -= 8;
        }
    }
    if let Some(byte) = target.next() {
        *byte = held.to_le_bytes()[0];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilum_testing::Random;

    #[test]
    fn every_width_and_length_comes_back_whole_and_one_by_one() {
        let mut random = Random(1);
        for width in 0..=64 {
            for count in [0, 1, 7, 8, 9, 100, 1023, 1024] {
                let values: Vec<u64> = (0..count).map(|_| random.any() & mask(width)).collect();
                let mut bytes = Vec::new();
                pack(&values, width, &mut bytes);
                assert_eq!(bytes.len(), packed_bytes(count, width));
                let mut out = vec![1; count];
                unpack(&bytes, width, &mut out).unwrap();
                assert_eq!(out, values, "{count} values of {width} bits");
                for (place, value) in values.iter().enumerate() {
                    let one = unpack_one(&bytes, width, count, place);
                    assert_eq!(one, Some(*value), "{place} of {count}, {width} bits");
                }
                assert_eq!(unpack_one(&bytes, width, count, count), None);
                bytes.push(0);
                assert_eq!(unpack(&bytes, width, &mut out), None);
            }
        }
        assert_eq!(unpack(&[], 65, &mut []), None);
    }

    #[test]
    fn a_full_block_has_the_stated_order() {
        for width in [1_usize, 5, 8, 12, 20, 53, 64] {
            let bits = width.next_power_of_two().max(8);
            let lanes = BLOCK / bits;
            for (row, lane) in [(0, 0), (1, 3), (bits - 1, lanes - 1), (bits / 2, 1)] {
                let mut values = [0; BLOCK];
                values[ORDER[row / 8] * 16 + (row % 8) * 128 + lane] = 1;
                let mut bytes = Vec::new();
                pack(&values, u8::try_from(width).unwrap(), &mut bytes);
                let (word, bit) = (row * width / bits, row * width % bits);
                let set = (word * lanes + lane) * bits + bit;
                let found = bytes.iter().position(|&byte| byte != 0).unwrap();
                assert_eq!(found * 8 + bytes[found].trailing_zeros() as usize, set);
                assert_eq!(bytes.iter().map(|it| it.count_ones()).sum::<u32>(), 1);
            }
        }
    }
}
