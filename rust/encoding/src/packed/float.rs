//! Encodings of floats: what they have in common.
//!
//! Floats are equal only by bits: an encoding stores -0.0, the payloads of NaN and whatever its arithmetic would change as exceptions.
//! Encoders and decoders get floats as the bits in the low bytes of a word.

use std::fmt::Debug;

use super::encoding::Encoding;
use super::leaf;
use super::node::EncodedNode;

pub(crate) mod alp;
pub(crate) mod alp_rd;
pub(crate) mod binary_scale;
pub(crate) mod choose;
mod exceptions;
mod scaled;

/// Exceptions that an encoding accepts: one value in so many.
const MOST_EXCEPTIONS: usize = 10;

/// The two types of floats.
pub(crate) trait Float: Copy + Debug + Send + Sync + 'static {
    /// Bits of a value.
    const BITS: usize;
    /// Integers up to this size are floats without rounding.
    const MOST_INTEGER: i64;
    /// Highest power of two with its inverse among the normal numbers.
    const MOST_SCALE: i16;
    /// 10 to the power of the place.
    const TENS: &'static [Self];
    /// 10 to the power of minus the place.
    const TENTHS: &'static [Self];

    fn of_word(word: u64) -> Self;
    fn to_word(self) -> u64;
    fn of_integer(integer: i64) -> Self;
    /// The integer without what is behind the point; saturates.
    fn to_integer(self) -> i64;
    /// The nearest integer, of numbers below half of the largest integer; of others, any.
    fn nearest(self) -> i64;
    fn times(self, factor: Self) -> Self;
    /// 2 to the power of `exponent`, which is at most [`Self::MOST_SCALE`] in size.
    fn power_of_two(exponent: i16) -> Self;
    /// The exponent of the lowest bit that is set in a finite number other than 0.
    fn lowest_exponent(self) -> Option<i16>;
}

macro_rules! float {
    ($float:ty, $word:ty, $mantissa:expr, $bias:expr, $magic:expr, $low:path, $tens:expr, $tenths:expr) => {
        impl Float for $float {
            const BITS: usize = <$word>::BITS as usize;
            const MOST_INTEGER: i64 = 1 << ($mantissa + 1);
            const MOST_SCALE: i16 = $bias - 1;
            const TENS: &'static [Self] = &$tens;
            const TENTHS: &'static [Self] = &$tenths;

            fn of_word(word: u64) -> Self {
                Self::from_bits($low(word))
            }

            fn to_word(self) -> u64 {
                u64::from(self.to_bits())
            }

            fn of_integer(integer: i64) -> Self {
                integer as Self
            }

            #[expect(clippy::cast_possible_truncation, reason = "saturation is wanted")]
            fn to_integer(self) -> i64 {
                self as i64
            }

            #[expect(clippy::cast_possible_truncation, reason = "saturation is wanted")]
            fn nearest(self) -> i64 {
                // Adding moves the bits behind the point out, rounding to even.
                const MAGIC: $float = $magic;
                ((self + MAGIC) - MAGIC) as i64
            }

            fn times(self, factor: Self) -> Self {
                self * factor
            }

            fn power_of_two(exponent: i16) -> Self {
                let biased = exponent.clamp(-Self::MOST_SCALE, Self::MOST_SCALE) + $bias;
                Self::from_bits(<$word>::from(biased.unsigned_abs()) << $mantissa)
            }

            fn lowest_exponent(self) -> Option<i16> {
                let bits = self.to_bits();
                let mantissa = bits & ((1 << $mantissa) - 1);
                // Sign and exponent, of which the sign is cut off.
                let exponent = i16::try_from(bits << 1 >> ($mantissa + 1)).ok()?;
                if exponent == 2 * $bias + 1 || bits << 1 == 0 {
                    return None;
                }
                let (mantissa, exponent) = match exponent {
                    0 => (mantissa, 1),
                    exponent => (mantissa | 1 << $mantissa, exponent),
                };
                let zeros = i16::try_from(mantissa.trailing_zeros()).ok()?;
                Some(exponent - $bias - $mantissa + zeros)
            }
        }
    };
}

float!(
    f64,
    u64,
    52,
    1023,
    6_755_399_441_055_744.0,
    std::convert::identity,
    [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18
    ],
    [
        1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13,
        1e-14, 1e-15, 1e-16, 1e-17, 1e-18
    ]
);
float!(
    f32,
    u32,
    23,
    127,
    12_582_912.0,
    low_half,
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10],
    [
        1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10
    ]
);

/// The low 4 bytes of a word.
fn low_half(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// The node of integers.
fn encode_integers(integers: &[u64]) -> EncodedNode {
    leaf::encode(integers, 8, &[Encoding::Constant, Encoding::Delta])
}

/// An integer as the word that its node holds.
fn word_of(integer: i64) -> u64 {
    integer.cast_unsigned()
}
