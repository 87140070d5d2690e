//! Damage that a reader of untrusted bytes has to expect.

use crate::random::Random;

/// How much of the end of a file is hit more often than the rest: what steers a reader lies there.
const TAIL: usize = 1500;

/// Damages bytes in one to four places.
pub fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = if random.one_in(2) {
            random.below(bytes.len())
        } else {
            bytes.len() - 1 - random.below(bytes.len().min(TAIL))
        };
        match random.below(7) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.any() as u8,
            2 => {
                let word = random.edge().to_le_bytes();
                let end = (at + [1, 4, 8][random.below(3)]).min(bytes.len());
                bytes[at..end].copy_from_slice(&word[..end - at]);
            }
            3 => {
                let end = (at + random.below(40)).min(bytes.len());
                let from = random.below(bytes.len() - (end - at));
                bytes.copy_within(from..from + end - at, at);
            }
            4 => {
                let end = (at + 1 + random.below(9)).min(bytes.len());
                bytes[at..end].fill(0xff);
            }
            5 if random.one_in(20) => bytes.truncate(at.max(1)),
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
}
