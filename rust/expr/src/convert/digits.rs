//! Decimals of floats, and floats of decimals: exact values, else the shortest digits that read back as the same float.

use arrow_buffer::i256;
use half::f16;

/// Widths of floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Half,
    Single,
    Double,
}

/// 10 to a power, if 256 bits hold it.
pub(super) fn power_of_ten(exponent: u32) -> Option<i256> {
    i256::from_i128(10).checked_pow(exponent)
}

/// A finite float as `mantissa * 2^exponent` with an odd mantissa, or zero.
fn parts(value: f64) -> (i64, i32) {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let raw_exponent = i32::try_from(bits >> 52 & 0x7ff).unwrap_or(0);
    let (mantissa, exponent) = match raw_exponent {
        0 => (fraction, -1074),
        _ => (fraction | 1 << 52, raw_exponent - 1075),
    };
    if mantissa == 0 {
        return (0, 0);
    }
    let zeros = mantissa.trailing_zeros();
    let odd = i64::try_from(mantissa >> zeros).unwrap_or(0);
    let odd = if value < 0.0 { -odd } else { odd };
    (odd, exponent + i32::try_from(zeros).unwrap_or(0))
}

/// The exact value of a float in steps of `10^-scale`; `None` if it is no whole number of them or leaves 256 bits.
fn exact_steps(value: f64, scale: i8) -> Option<i256> {
    let (mantissa, exponent) = parts(value);
    let mantissa = i256::from_i128(i128::from(mantissa));
    let scale = i32::from(scale);
    // The value in steps is mantissa * 5^scale * 2^(exponent + scale).
    let twos = exponent + scale;
    let (two, five) = (i256::from_i128(2), i256::from_i128(5));
    if mantissa == i256::ZERO {
        return Some(i256::ZERO);
    }
    if twos < 0 {
        return None; // the mantissa is odd, so a power of two remains in the denominator
    }
    let twos = two.checked_pow(u32::try_from(twos).ok().filter(|twos| *twos < 255)?)?;
    let fives = five.checked_pow(scale.unsigned_abs())?;
    if scale >= 0 {
        mantissa.checked_mul(fives)?.checked_mul(twos)
    } else {
        let steps = mantissa.checked_mul(twos)?;
        (steps.checked_rem(fives)? == i256::ZERO).then(|| steps.checked_div(fives))?
    }
}

/// The nearest half to a float64.
pub(super) fn to_half(value: f64) -> f64 {
    f16::from_f64(value).to_f64()
}

/// The nearest float32 to a float64.
pub(super) fn to_single(value: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounds to the nearest float32"
    )]
    let single = value as f32;
    f64::from(single)
}

/// The shortest digits that read back as the same float of this width, as `digits * 10^exponent`.
fn shortest(value: f64, width: Width) -> Option<(i128, i32)> {
    let text = match width {
        Width::Double => format!("{value:e}"),
        Width::Single => {
            #[expect(clippy::cast_possible_truncation, reason = "the value is a float32")]
            let single = value as f32;
            format!("{single:e}")
        }
        Width::Half => (0..6)
            .map(|digits| format!("{value:.digits$e}"))
            .find(|text| text.parse().is_ok_and(|back| to_half(back) == value))?,
    };
    let (digits, exponent) = text.split_once('e')?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut unscaled: i128 = format!("{whole}{fraction}").parse().ok()?;
    let mut exponent = exponent.parse::<i32>().ok()? - i32::try_from(fraction.len()).ok()?;
    while unscaled != 0 && unscaled % 10 == 0 {
        unscaled /= 10;
        exponent += 1;
    }
    Some((even_of_two(value, width, unscaled, exponent), exponent))
}

/// The even one of two decimals that are equally near to a float: 433309.62, not 433309.63, for the float32 433309.625.
///
/// Rust prints the greater one; IEEE 754, Python and Arrow take the even one.
fn even_of_two(value: f64, width: Width, digits: i128, exponent: i32) -> i128 {
    // A tie has twice the value at an odd number of steps.
    let twice = i8::try_from(-exponent)
        .ok()
        .and_then(|scale| exact_steps(value * 2.0, scale)?.to_i128());
    let Some(twice) = twice.filter(|twice| twice % 2 != 0) else {
        return digits;
    };
    let lower = (twice - 1) / 2;
    let even = if lower % 2 == 0 { lower } else { lower + 1 };
    // Below a power of two floats lie closer: the even one may be another float there.
    if even != digits && nearest(&format!("{even}e{exponent}"), width) == Some(value) {
        even
    } else {
        digits
    }
}

/// The float of this width nearest to a number in digits.
fn nearest(text: &str, width: Width) -> Option<f64> {
    Some(match width {
        Width::Double => text.parse::<f64>().ok()?,
        Width::Single => f64::from(text.parse::<f32>().ok()?),
        Width::Half => to_half(text.parse::<f64>().ok()?),
    })
}

/// Powers of ten that float64 holds exactly.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Every decimal of so many digits is told apart by float64: up to 10^15.
const FEW_DIGITS: f64 = 1e15;

/// The decimal of a float in steps of `10^-scale`, if it reads back as the same float.
pub(super) fn float_to_steps(value: f64, width: Width, scale: i8) -> Option<i256> {
    if !value.is_finite() {
        return None;
    }
    // Few digits: a quotient of two exact floats is the float nearest to the decimal, and no other decimal of at most 15
    // digits has the same nearest float, so this is what the general way below would find.
    if width == Width::Double
        && let Some(power) = usize::try_from(scale)
            .ok()
            .and_then(|s| EXACT_POWERS.get(s))
    {
        let steps = (value * power).round();
        if steps.abs() < FEW_DIGITS && steps / power == value {
            #[expect(clippy::cast_possible_truncation, reason = "whole and below 10^15")]
            return Some(i256::from_i128(steps as i128));
        }
    }
    if let Some(steps) = exact_steps(value, scale) {
        return Some(steps);
    }
    let (digits, exponent) = shortest(value, width)?;
    let shift = exponent.checked_add(i32::from(scale))?;
    if shift < 0 {
        return None;
    }
    i256::from_i128(digits).checked_mul(power_of_ten(shift.unsigned_abs())?)
}

/// The float of this width nearest to a decimal, if it converts back to the same decimal.
pub(super) fn steps_to_float(unscaled: i256, scale: i8, width: Width) -> Option<f64> {
    if width == Width::Double
        && let (Some(steps), Some(power)) = (
            unscaled
                .to_i128()
                .filter(|steps| steps.unsigned_abs() < 1_000_000_000_000_000),
            usize::try_from(scale)
                .ok()
                .and_then(|s| EXACT_POWERS.get(s)),
        )
    {
        return Some(steps as f64 / power);
    }
    let value = nearest(&format!("{unscaled}e{}", -i32::from(scale)), width)?;
    (float_to_steps(value, width, scale)? == unscaled).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_between_two_decimals_is_the_even_one() {
        // (float, width, decimal in hundredths, the other one)
        for (value, width, even, odd) in [
            (-433_309.625, Width::Single, -43_330_962, -43_330_963),
            (433_309.625, Width::Single, 43_330_962, 43_330_963),
            (433_309.875, Width::Single, 43_330_988, 43_330_987),
            (
                140_737_488_355_328.0 + 0.625,
                Width::Double,
                14_073_748_835_532_862,
                14_073_748_835_532_863,
            ),
            (
                140_737_488_355_328.0 + 0.375,
                Width::Double,
                14_073_748_835_532_838,
                14_073_748_835_532_837,
            ),
        ] {
            let (even, odd) = (i256::from_i128(even), i256::from_i128(odd));
            assert_eq!(float_to_steps(value, width, 2), Some(even), "{value}");
            assert_eq!(steps_to_float(even, 2, width), Some(value), "{even}");
            assert_eq!(steps_to_float(odd, 2, width), None, "{odd}");
        }
    }

    #[test]
    fn every_half_reads_back_from_its_shortest_digits() {
        for bits in 0..=u16::MAX {
            let value = f16::from_bits(bits).to_f64();
            if !value.is_finite() {
                continue;
            }
            let (digits, exponent) = shortest(value, Width::Half).expect("digits");
            let text = format!("{digits}e{exponent}");
            assert_eq!(nearest(&text, Width::Half), Some(value), "{text}");
            // No other decimal of as many digits is nearer.
            let steps = |digits: i128| {
                format!("{digits}e{exponent}")
                    .parse::<f64>()
                    .unwrap_or(f64::NAN)
            };
            let distance = (steps(digits) - value).abs();
            for other in [digits - 1, digits + 1] {
                assert!(
                    (steps(other) - value).abs() >= distance,
                    "{value}: {digits}e{exponent}"
                );
            }
        }
    }
}
