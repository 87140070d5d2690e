//! An independent model of conversions: values as exact fractions, nanoseconds, characters and bytes, and for each target
//! type the set of values that it holds. Nothing here uses a cast of the crate or of Arrow.

use std::{collections::HashSet, str::FromStr};

use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use num_bigint::BigInt;

/// One value, exactly.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Number(Fraction),
    NaN,
    Infinite(bool),
    /// Nanoseconds since the epoch, since midnight, or of a duration.
    Nanos(i128),
    Interval(i32, i32, i64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Self>),
    Struct(Vec<(String, Self)>),
    Map(Vec<(Self, Self)>),
}

/// `numerator / denominator`, not reduced; the denominator is positive.
#[derive(Debug, Clone)]
pub(crate) struct Fraction(pub(crate) BigInt, pub(crate) BigInt);

impl PartialEq for Fraction {
    fn eq(&self, other: &Self) -> bool {
        &self.0 * &other.1 == &other.0 * &self.1
    }
}

fn big(value: i64) -> BigInt {
    BigInt::from(value)
}

fn is_zero(value: &BigInt) -> bool {
    *value == big(0)
}

pub(crate) fn ten(exponent: u32) -> BigInt {
    big(10).pow(exponent)
}

impl Fraction {
    pub(crate) fn whole(value: impl Into<BigInt>) -> Self {
        Self(value.into(), big(1))
    }

    /// `unscaled / 10^scale`
    pub(crate) fn decimal(unscaled: BigInt, scale: i8) -> Self {
        let factor = ten(u32::from(scale.unsigned_abs()));
        if scale < 0 {
            Self(unscaled * factor, big(1))
        } else {
            Self(unscaled, factor)
        }
    }

    /// The exact value of a finite float, by its bits.
    pub(crate) fn float(value: f64) -> Self {
        let bits = value.to_bits();
        let exponent = i32::try_from(bits >> 52 & 0x7ff).unwrap();
        let fraction = bits & ((1 << 52) - 1);
        let (mantissa, exponent) = if exponent == 0 {
            (fraction, -1074)
        } else {
            (fraction | 1 << 52, exponent - 1075)
        };
        let mantissa = BigInt::from(mantissa) * big(if value < 0.0 { -1 } else { 1 });
        let power = big(2).pow(exponent.unsigned_abs());
        if exponent < 0 {
            Self(mantissa, power)
        } else {
            Self(mantissa * power, big(1))
        }
    }

    fn integer(&self) -> Option<BigInt> {
        is_zero(&(&self.0 % &self.1)).then(|| &self.0 / &self.1)
    }

    /// In steps of `10^-scale`, if it is a whole number of them.
    fn steps(&self, scale: i8) -> Option<BigInt> {
        let factor = ten(u32::from(scale.unsigned_abs()));
        if scale < 0 {
            Self(self.0.clone(), &self.1 * factor).integer()
        } else {
            Self(&self.0 * factor, self.1.clone()).integer()
        }
    }

    /// Whether a binary float with this many bits of mantissa and these exponents holds it.
    fn is_binary(&self, mantissa_bits: u64, lowest: i64, highest: u64) -> bool {
        if is_zero(&self.0) {
            return true;
        }
        // Reduce by two only: a denominator with another factor never becomes 1.
        let (mut numerator, mut denominator) = (self.0.clone(), self.1.clone());
        let mut exponent = 0_i64;
        // Other factors first.
        let quotient = &numerator / &denominator;
        if &quotient * &denominator == numerator {
            numerator = quotient;
            denominator = big(1);
        }
        while denominator != big(1) {
            if is_zero(&(&denominator % big(2))) {
                denominator /= big(2);
                exponent -= 1;
            } else if is_zero(&(&numerator % &denominator)) {
                numerator /= &denominator;
                denominator = big(1);
            } else {
                return false;
            }
        }
        while is_zero(&(&numerator % big(2))) {
            numerator /= big(2);
            exponent += 1;
        }
        let bits = numerator.bits();
        bits <= mantissa_bits
            && exponent >= lowest
            && i64::try_from(bits).unwrap() + exponent <= i64::try_from(highest).unwrap()
    }
}

/// Decimal precision and scale.
pub(crate) fn digits(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => Some((*p, *s)),
        _ => None,
    }
}

pub(crate) fn integer_range(data_type: &DataType) -> Option<(BigInt, BigInt)> {
    let two = |bits: u32| big(2).pow(bits);
    let signed = |bits: u32| Some((-two(bits - 1), two(bits - 1) - 1));
    let unsigned = |bits: u32| Some((big(0), two(bits) - 1));
    match data_type {
        DataType::Boolean => Some((big(0), big(1))),
        DataType::Int8 => signed(8),
        DataType::Int16 => signed(16),
        DataType::Int32 => signed(32),
        DataType::Int64 => signed(64),
        DataType::UInt8 => unsigned(8),
        DataType::UInt16 => unsigned(16),
        DataType::UInt32 => unsigned(32),
        DataType::UInt64 => unsigned(64),
        _ => None,
    }
}

fn is_number(data_type: &DataType) -> bool {
    integer_range(data_type).is_some() || data_type.is_floating() || digits(data_type).is_some()
}

pub(crate) fn unit(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    }
}

pub(crate) const DAY: i128 = 86_400_000_000_000;

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    )
}

fn item(data_type: &DataType) -> Option<&Field> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => Some(item),
        _ => None,
    }
}

/// Types whose values mean the same kind of thing; others never convert.
pub(crate) fn related(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Date32, Date64, Dictionary, Duration, Interval, Map, Null, Struct, Time32, Time64,
        Timestamp,
    };
    match (from, to) {
        (Null, _) | (_, Null) => true,
        (Dictionary(_, values), to) => related(values, to),
        (from, Dictionary(_, values)) => related(from, values),
        (a, b) if is_number(a) && is_number(b) => true,
        (a, b) if is_text(a) || is_binary(a) => is_text(b) || is_binary(b),
        (Date32 | Date64, Date32 | Date64 | Timestamp(_, None))
        | (Timestamp(_, None), Date32 | Date64)
        | (Time32(_) | Time64(_), Time32(_) | Time64(_))
        | (Duration(_), Duration(_)) => true,
        (Timestamp(_, a), Timestamp(_, b)) => a.is_some() == b.is_some(),
        (Interval(a), Interval(b)) => {
            a == b || *a == IntervalUnit::MonthDayNano || *b == IntervalUnit::MonthDayNano
        }
        (Struct(from), Struct(to)) => {
            from.iter().all(|field| to.find(field.name()).is_some())
                && to.iter().all(|field| match from.find(field.name()) {
                    Some((_, source)) => related(source.data_type(), field.data_type()),
                    None => field.is_nullable(),
                })
        }
        (Map(a, _), Map(b, _)) => {
            let (Struct(a), Struct(b)) = (a.data_type(), b.data_type()) else {
                return false;
            };
            a.iter()
                .zip(b)
                .all(|(a, b)| related(a.data_type(), b.data_type()))
        }
        (a, b) => match (item(a), item(b)) {
            (Some(a), Some(b)) => related(a.data_type(), b.data_type()),
            _ => false,
        },
    }
}

/// The nearest float of a type to a decimal, as a float64.
fn nearest(unscaled: &BigInt, scale: i8, to: &DataType) -> f64 {
    let text = format!("{unscaled}e{}", -i32::from(scale));
    match to {
        DataType::Float16 => half::f16::from_f64(f64::from_str(&text).unwrap()).to_f64(),
        DataType::Float32 => f64::from(f32::from_str(&text).unwrap()),
        _ => f64::from_str(&text).unwrap(),
    }
}

/// The decimal that a float becomes: its exact value if the scale allows, else its shortest digits.
fn decimal_of(value: f64, from: &DataType, scale: i8) -> Option<BigInt> {
    if let Some(exact) = Fraction::float(value).steps(scale) {
        return Some(exact);
    }
    let text = match from {
        DataType::Float16 => (1..=6)
            .map(|digits| format!("{value:.digits$e}", digits = digits - 1))
            .find(|text| half::f16::from_f64(text.parse().unwrap()).to_f64() == value)?,
        DataType::Float32 => format!("{:e}", value as f32),
        _ => format!("{value:e}"),
    };
    let (mantissa, exponent) = text.split_once('e')?;
    let fraction_digits = mantissa
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len());
    let unscaled = BigInt::from_str(&mantissa.replace('.', "")).ok()?;
    let exponent = exponent.parse::<i32>().ok()? - i32::try_from(fraction_digits).ok()?;
    let unscaled = even_of_two(value, unscaled, exponent);
    let power = ten(exponent.unsigned_abs());
    let written = if exponent < 0 {
        Fraction(unscaled, power)
    } else {
        Fraction(unscaled * power, big(1))
    };
    written.steps(scale)
}

/// The even one of the two decimals of this exponent that are equally near to `value`, if `unscaled` is one of them; else
/// `unscaled`. Rust prints the larger one.
fn even_of_two(value: f64, unscaled: BigInt, exponent: i32) -> BigInt {
    let Fraction(numerator, denominator) = Fraction::float(value);
    let twice = Fraction(numerator * big(2), denominator);
    let Some(sum) = i8::try_from(-exponent)
        .ok()
        .and_then(|scale| twice.steps(scale))
    else {
        return unscaled;
    };
    let other = sum - &unscaled;
    let distance = &other - &unscaled;
    if (distance == big(1) || distance == big(-1)) && is_zero(&(&other % big(2))) {
        other
    } else {
        unscaled
    }
}

fn fits(steps: &BigInt, precision: u8) -> bool {
    let limit = ten(u32::from(precision));
    *steps < limit && *steps > -limit
}

/// Whether a value of one type may become a value of the other; the types are [`related`].
pub(crate) fn allowed(value: &Value, from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Dictionary(_, values), to) => return allowed(value, values, to),
        (from, DataType::Dictionary(_, values)) => return allowed(value, from, values),
        _ => {}
    }
    match value {
        Value::Null => true,
        _ if *to == DataType::Null => false,
        Value::Number(number) => number_allowed(number, from, to),
        Value::NaN | Value::Infinite(_) => to.is_floating(),
        Value::Nanos(nanos) => instant_allowed(*nanos, to),
        Value::Interval(months, days, nanos) => match to {
            DataType::Interval(IntervalUnit::YearMonth) => *days == 0 && *nanos == 0,
            DataType::Interval(IntervalUnit::DayTime) => {
                *months == 0 && nanos % 1_000_000 == 0 && i32::try_from(nanos / 1_000_000).is_ok()
            }
            _ => true,
        },
        Value::Text(text) => match to {
            DataType::FixedSizeBinary(size) => text.len() == usize::try_from(*size).unwrap(),
            _ => true,
        },
        Value::Bytes(bytes) => match to {
            DataType::FixedSizeBinary(size) => bytes.len() == usize::try_from(*size).unwrap(),
            to if is_text(to) => std::str::from_utf8(bytes).is_ok(),
            _ => true,
        },
        Value::List(values) => {
            let (Some(a), Some(b)) = (item(from), item(to)) else {
                return false;
            };
            let size = match to {
                DataType::FixedSizeList(_, size) => values.len() == usize::try_from(*size).unwrap(),
                _ => true,
            };
            size && values.iter().all(|value| field_allowed(value, a, b))
        }
        Value::Struct(members) => {
            let (DataType::Struct(a), DataType::Struct(b)) = (from, to) else {
                return false;
            };
            members.iter().all(|(name, value)| {
                let (source, target) = (a.find(name).unwrap().1, b.find(name).unwrap().1);
                field_allowed(value, source, target)
            })
        }
        Value::Map(entries) => {
            let (DataType::Map(a, _), DataType::Map(b, _)) = (from, to) else {
                return false;
            };
            let (DataType::Struct(a), DataType::Struct(b)) = (a.data_type(), b.data_type()) else {
                return false;
            };
            entries.iter().all(|(key, value)| {
                field_allowed(key, &a[0], &b[0]) && field_allowed(value, &a[1], &b[1])
            })
        }
    }
}

/// As [`allowed`], with the nullability of the target.
pub(crate) fn field_allowed(value: &Value, from: &Field, to: &Field) -> bool {
    if *value == Value::Null {
        return to.is_nullable();
    }
    allowed(value, from.data_type(), to.data_type())
}

fn number_allowed(number: &Fraction, from: &DataType, to: &DataType) -> bool {
    if let Some((low, high)) = integer_range(to) {
        return number
            .integer()
            .is_some_and(|value| value >= low && value <= high);
    }
    if let Some((precision, scale)) = digits(to) {
        let steps = if from.is_floating() {
            let float = to_f64(number);
            decimal_of(float, from, scale)
        } else {
            number.steps(scale)
        };
        return steps.is_some_and(|steps| fits(&steps, precision));
    }
    if let Some((_, scale)) = digits(from) {
        let steps = number.steps(scale).unwrap();
        let float = nearest(&steps, scale, to);
        return float.is_finite() && decimal_of(float, to, scale) == Some(steps);
    }
    match to {
        DataType::Float16 => number.is_binary(11, -24, 16),
        DataType::Float32 => number.is_binary(24, -149, 128),
        _ => number.is_binary(53, -1074, 1024),
    }
}

/// The float64 of a fraction that is one: the denominator is a power of two.
fn to_f64(number: &Fraction) -> f64 {
    let shift = number.1.bits() - 1;
    let mut numerator = number.0.clone();
    let mut exponent = -i32::try_from(shift).unwrap();
    while numerator.bits() > 53 {
        numerator /= big(2);
        exponent += 1;
    }
    let mantissa: i64 = numerator.to_string().parse().unwrap();
    // Two steps, for a power of two alone may underflow.
    let half = exponent / 2;
    mantissa as f64 * 2_f64.powi(half) * 2_f64.powi(exponent - half)
}

fn instant_allowed(nanos: i128, to: &DataType) -> bool {
    let (step, bits) = match to {
        DataType::Date32 => (DAY, 32),
        DataType::Date64 => (DAY, 0),
        DataType::Time32(of) => (unit(*of), 32),
        DataType::Time64(of) | DataType::Timestamp(of, _) | DataType::Duration(of) => {
            (unit(*of), 64)
        }
        _ => return false,
    };
    if nanos % step != 0 {
        return false;
    }
    if matches!(to, DataType::Time32(_) | DataType::Time64(_)) && !(0..DAY).contains(&nanos) {
        return false;
    }
    match bits {
        32 => i32::try_from(nanos / step).is_ok(),
        0 => i64::try_from(nanos / 1_000_000).is_ok(),
        _ => i64::try_from(nanos / step).is_ok(),
    }
}

/// Whether two values are the same by meaning, where float and decimal agree if one converts to the other.
pub(crate) fn same(before: &Value, from: &DataType, after: &Value, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Dictionary(_, values), to) => return same(before, values, after, to),
        (from, DataType::Dictionary(_, values)) => return same(before, from, after, values),
        _ => {}
    }
    match (before, after) {
        (Value::Number(a), Value::Number(b)) => match (digits(from), digits(to)) {
            (None, Some((_, scale))) if from.is_floating() => {
                nearest(&b.steps(scale).unwrap(), scale, from) == to_f64(a)
            }
            (Some((_, scale)), None) if to.is_floating() => {
                nearest(&a.steps(scale).unwrap(), scale, to) == to_f64(b)
            }
            _ => a == b,
        },
        (Value::Text(text), Value::Bytes(bytes)) | (Value::Bytes(bytes), Value::Text(text)) => {
            text.as_bytes() == bytes
        }
        (Value::List(a), Value::List(b)) => {
            let (from, to) = (item(from).unwrap(), item(to).unwrap());
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(a, b)| same(a, from.data_type(), b, to.data_type()))
        }
        (Value::Struct(a), Value::Struct(b)) => {
            let (DataType::Struct(from), DataType::Struct(to)) = (from, to) else {
                return false;
            };
            let sources: HashSet<&String> = a.iter().map(|(name, _)| name).collect();
            b.iter().all(|(name, value)| {
                let target = to.find(name).unwrap().1.data_type();
                match a.iter().find(|(of, _)| of == name) {
                    Some((_, before)) => same(
                        before,
                        from.find(name).unwrap().1.data_type(),
                        value,
                        target,
                    ),
                    None => *value == Value::Null,
                }
            }) && sources
                .iter()
                .all(|name| b.iter().any(|(of, _)| of == *name))
        }
        (Value::Map(a), Value::Map(b)) => {
            let (DataType::Map(from, _), DataType::Map(to, _)) = (from, to) else {
                return false;
            };
            let (DataType::Struct(from), DataType::Struct(to)) = (from.data_type(), to.data_type())
            else {
                return false;
            };
            a.len() == b.len()
                && a.iter().zip(b).all(|((k, v), (l, w))| {
                    same(k, from[0].data_type(), l, to[0].data_type())
                        && same(v, from[1].data_type(), w, to[1].data_type())
                })
        }
        (a, b) => a == b,
    }
}
