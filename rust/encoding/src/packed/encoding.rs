//! The numbers of the encodings of packed pages.

use crate::error::Error;

/// How one node of a packed page holds its values. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Encoding {
    /// The values as in a plain page.
    Plain = 0,
    /// One value for all.
    Constant = 1,
    /// Frame of reference: a base, a divisor, and packed offsets.
    For = 2,
    /// Packed differences of neighbours.
    Delta = 3,
    /// Runs of equal values.
    Run = 4,
    /// Distinct values and a code per value.
    Dictionary = 5,
    /// 128-bit values as two 64-bit halves.
    Wide = 6,
    /// Floats as integers times a power of two.
    BinaryScale = 7,
    /// Floats as decimals.
    Alp = 8,
    /// Floats cut into left and right bits.
    AlpRd = 9,
    /// The bytes of all texts.
    Raw = 10,
    /// Symbols of up to 8 bytes.
    Fsst = 11,
    /// Tokens of up to 16 bytes.
    Pair = 12,
    /// Text over an alphabet of at most 64 bytes.
    Chars = 13,
    /// Sorted texts, each without the prefix that it shares with the text before.
    Front = 14,
    /// Bits.
    Bits = 15,
    /// Byte planes behind zstd.
    Planes = 16,
    /// The body of another node behind zstd.
    Coded = 17,
}

const ALL: [Encoding; 18] = [
    Encoding::Plain,
    Encoding::Constant,
    Encoding::For,
    Encoding::Delta,
    Encoding::Run,
    Encoding::Dictionary,
    Encoding::Wide,
    Encoding::BinaryScale,
    Encoding::Alp,
    Encoding::AlpRd,
    Encoding::Raw,
    Encoding::Fsst,
    Encoding::Pair,
    Encoding::Chars,
    Encoding::Front,
    Encoding::Bits,
    Encoding::Planes,
    Encoding::Coded,
];

impl Encoding {
    /// The encoding of a number.
    ///
    /// # Errors
    /// `Unsupported` names a number that this release does not know.
    pub(crate) fn of_number(number: u8) -> Result<Self, Error> {
        let known = ALL.get(usize::from(number)).copied();
        known.ok_or_else(|| Error::unsupported(format!("encoding {number} of a packed page")))
    }

    /// Number of this encoding in the node table.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Name of this encoding, as `inspect` and errors show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Constant => "constant",
            Self::For => "for",
            Self::Delta => "delta",
            Self::Run => "run",
            Self::Dictionary => "dictionary",
            Self::Wide => "wide",
            Self::BinaryScale => "binary scale",
            Self::Alp => "alp",
            Self::AlpRd => "alp-rd",
            Self::Raw => "raw",
            Self::Fsst => "fsst",
            Self::Pair => "pair",
            Self::Chars => "chars",
            Self::Front => "front",
            Self::Bits => "bits",
            Self::Planes => "planes",
            Self::Coded => "coded",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_encodings_are_one_to_one() {
        for (number, encoding) in (0..).zip(ALL) {
            assert_eq!(encoding.number(), number);
            assert_eq!(Encoding::of_number(number), Ok(encoding));
        }
        let unknown = Encoding::of_number(18).unwrap_err();
        assert!(unknown.to_string().contains("encoding 18"), "{unknown}");
    }
}
