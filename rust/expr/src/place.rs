//! Finds where a literal lies among the values of a type, exactly, and converts between literals and arrays of one row.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Float32Array, Float64Array,
    LargeBinaryArray, LargeStringArray, PrimitiveArray, StringArray, StringViewArray,
    cast::AsArray, new_null_array, types::*,
};
use arrow_buffer::{IntervalMonthDayNano, i256};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use half::f16;

use crate::{
    calendar::{NANOS_PER_DAY, parse_date, parse_time, parse_timestamp, unit_nanos},
    scalar::Scalar,
    types::{UTC, digits_of},
};

/// Where a literal lies among the values of a type.
#[derive(Debug)]
pub(crate) enum Place {
    /// It is this value.
    At(ArrayRef),
    /// It is greater than this value and less than the next.
    After(ArrayRef),
    /// It is less than every value.
    Below,
    /// It is greater than every value.
    Above,
}

/// Finds the place of a literal that is not null; `None` if the two do not compare.
pub(crate) fn place(data_type: &DataType, scalar: &Scalar) -> Option<Place> {
    match (data_type, scalar) {
        (DataType::Boolean, Scalar::Boolean(_))
        | (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, Scalar::String(_))
        | (DataType::Binary | DataType::LargeBinary | DataType::BinaryView, Scalar::Binary(_)) => {
            array_of(scalar, data_type).map(Place::At)
        }
        (DataType::Float16, _) => place_f16(scalar),
        (DataType::Float32, _) => place_f32(scalar),
        (DataType::Float64, _) => place_f64(scalar),
        // Texts become dates and times where one is needed; the form must be exact.
        (_, Scalar::String(text)) if data_type.is_temporal() => {
            place(data_type, &temporal_text(data_type, text)?)
        }
        _ => match ratio(data_type, scalar)? {
            Ratio::Below => Some(Place::Below),
            Ratio::Above => Some(Place::Above),
            Ratio::Of(numerator, denominator) => place_ratio(data_type, numerator, denominator),
        },
    }
}

fn temporal_text(data_type: &DataType, text: &str) -> Option<Scalar> {
    match data_type {
        DataType::Time32(_) | DataType::Time64(_) => parse_time(text).map(Scalar::Time),
        DataType::Date32 | DataType::Date64 => parse_date(text).map(Scalar::Date).or_else(|| {
            parse_timestamp(text).map(|(nanos, zoned)| Scalar::Timestamp { nanos, zoned })
        }),
        DataType::Timestamp(..) => {
            parse_timestamp(text).map(|(nanos, zoned)| Scalar::Timestamp { nanos, zoned })
        }
        _ => None,
    }
}

/// A literal in the units of a type: a fraction, or beyond every value.
enum Ratio {
    Of(i256, i256),
    Below,
    Above,
}

fn power_of_ten(exponent: u32) -> Option<i256> {
    i256::from(10).checked_pow(exponent)
}

/// The literal in steps of the type: nanoseconds per unit for temporal types, powers of ten for decimals.
fn ratio(data_type: &DataType, scalar: &Scalar) -> Option<Ratio> {
    let nanos =
        |nanos: i128, step: i128| Some(Ratio::Of(i256::from_i128(nanos), i256::from_i128(step)));
    match (data_type, scalar) {
        (
            _,
            Scalar::Integer(_)
            | Scalar::Decimal { .. }
            | Scalar::WideDecimal { .. }
            | Scalar::Float(_),
        ) => {
            let scale = match (data_type, digits_of(data_type)) {
                (_, Some((_, scale))) => scale,
                (other, None) if other.is_integer() => 0,
                _ => return None,
            };
            match scalar {
                Scalar::Float(value) if data_type.is_decimal() => written_ratio(*value, scale),
                _ => number_ratio(scalar, scale),
            }
        }
        (DataType::Date32, Scalar::Date(days)) => nanos(i128::from(*days), 1),
        (DataType::Date64, Scalar::Date(days)) => nanos(i128::from(*days) * 86_400_000, 1),
        (
            DataType::Date32,
            Scalar::Timestamp {
                nanos: n,
                zoned: false,
            },
        ) => nanos(*n, NANOS_PER_DAY),
        (
            DataType::Date64,
            Scalar::Timestamp {
                nanos: n,
                zoned: false,
            },
        ) => nanos(*n, 1_000_000),
        (DataType::Timestamp(unit, zone), Scalar::Timestamp { nanos: n, zoned }) => {
            // Values without zone are no instants, so a literal with zone does not compare with them.
            (zone.is_some() || !zoned).then_some(())?;
            nanos(*n, i128::from(unit_nanos(*unit)))
        }
        (DataType::Timestamp(unit, _), Scalar::Date(days)) => nanos(
            i128::from(*days) * NANOS_PER_DAY,
            i128::from(unit_nanos(*unit)),
        ),
        (DataType::Time32(unit) | DataType::Time64(unit), Scalar::Time(n)) => {
            nanos(i128::from(*n), i128::from(unit_nanos(*unit)))
        }
        (
            DataType::Duration(unit),
            Scalar::Interval {
                months: 0,
                days,
                nanos: n,
            },
        ) => nanos(
            i128::from(*days) * NANOS_PER_DAY + i128::from(*n),
            i128::from(unit_nanos(*unit)),
        ),
        _ => None,
    }
}

/// A float literal beside a decimal column means its shortest decimal digits: `0.1` equals 0.10, although the float64 is
/// slightly larger. A decimal literal beside a float column is, the other way round, the nearest float.
fn written_ratio(value: f64, scale: i8) -> Option<Ratio> {
    let beyond = |negative: bool| if negative { Ratio::Below } else { Ratio::Above };
    if !value.is_finite() {
        return Some(beyond(value == f64::NEG_INFINITY));
    }
    let written = format!("{value:e}");
    let (digits, exponent) = written.split_once('e')?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let unscaled = i256::from_string(&format!("{whole}{fraction}"))?;
    let shift = exponent.parse::<i32>().ok()? - i32::try_from(fraction.len()).ok()?;
    let shift = shift + i32::from(scale);
    let factor = power_of_ten(shift.unsigned_abs());
    Some(match factor {
        Some(factor) if shift < 0 => Ratio::Of(unscaled, factor),
        // Less than one step of the type, but not zero: only its sign matters.
        None if shift < 0 => Ratio::Of(
            i256::from_i128(unscaled.to_i128()?.signum()),
            i256::from(10),
        ),
        Some(factor) => unscaled.checked_mul(factor).map_or_else(
            || beyond(value < 0.0),
            |steps| Ratio::Of(steps, i256::from_i128(1)),
        ),
        None if value == 0.0 => Ratio::Of(i256::ZERO, i256::from_i128(1)),
        None => beyond(value < 0.0),
    })
}

/// The ratio of a number of many digits: `unscaled * 10^exponent` steps.
fn wide_ratio(unscaled: i256, exponent: i32) -> Option<Ratio> {
    let factor = power_of_ten(exponent.unsigned_abs());
    if exponent < 0 {
        return Some(Ratio::Of(unscaled, factor?));
    }
    let steps = factor.and_then(|factor| unscaled.checked_mul(factor));
    Some(match steps {
        Some(steps) => Ratio::Of(steps, i256::from_i128(1)),
        None if unscaled.is_negative() => Ratio::Below,
        None => Ratio::Above,
    })
}

/// How a float compares with a whole number, exactly.
fn compare_exactly(float: f64, whole: i256) -> Option<std::cmp::Ordering> {
    match float_ratio(float) {
        Some((numerator, one)) => Some(numerator.cmp(&whole.checked_mul(one)?)),
        None => float.partial_cmp(&0.0),
    }
}

fn number_ratio(scalar: &Scalar, scale: i8) -> Option<Ratio> {
    let one = i256::from_i128(1);
    let (mut numerator, mut denominator) = match scalar {
        Scalar::Integer(value) => (i256::from_i128(*value), one),
        Scalar::Decimal { unscaled, scale } => {
            (i256::from_i128(*unscaled), power_of_ten(u32::from(*scale))?)
        }
        Scalar::WideDecimal {
            unscaled,
            scale: own,
        } => return wide_ratio(*unscaled, i32::from(scale) - i32::from(*own)),
        // NaN is greater than every number.
        Scalar::Float(value) if value.is_nan() => return Some(Ratio::Above),
        Scalar::Float(value) => match float_ratio(*value) {
            Some(ratio) => ratio,
            None if *value > 0.0 => return Some(Ratio::Above),
            None => return Some(Ratio::Below),
        },
        _ => return None,
    };
    let factor = power_of_ten(u32::from(scale.unsigned_abs()))?;
    if scale < 0 {
        denominator = denominator.checked_mul(factor)?;
    } else {
        numerator = match numerator.checked_mul(factor) {
            Some(product) => product,
            // More than 2^255 steps: beyond every value of the type.
            None if denominator == one && numerator.is_negative() => return Some(Ratio::Below),
            None if denominator == one => return Some(Ratio::Above),
            None => return None,
        };
    }
    Some(Ratio::Of(numerator, denominator))
}

/// A float as a fraction, exactly; `None` if it is infinite or of 254 bits and more.
///
/// Values closer to zero than 2^-147 are given as ±2^-200: no type has a value in between.
fn float_ratio(value: f64) -> Option<(i256, i256)> {
    if value.is_infinite() {
        return None;
    }
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let exponent_bits = i32::try_from((bits >> 52) & 0x7ff).ok()?;
    let (mantissa, exponent) = match exponent_bits {
        0 => (fraction, -1074),
        _ => (fraction | 1 << 52, exponent_bits - 1075),
    };
    let mantissa = i256::from_i128(i128::from(mantissa));
    let mantissa = if value.is_sign_negative() {
        mantissa.wrapping_neg()
    } else {
        mantissa
    };
    let two = i256::from_i128(2);
    match exponent {
        202.. => None,
        0.. => Some((
            mantissa.checked_mul(two.checked_pow(u32::try_from(exponent).ok()?)?)?,
            i256::from_i128(1),
        )),
        -200..0 => Some((mantissa, two.checked_pow(exponent.unsigned_abs())?)),
        _ => Some((
            i256::from_i128(if value > 0.0 {
                1
            } else if value < 0.0 {
                -1
            } else {
                0
            }),
            two.checked_pow(200)?,
        )),
    }
}

fn place_ratio(data_type: &DataType, numerator: i256, denominator: i256) -> Option<Place> {
    let quotient = numerator.checked_div(denominator)?;
    let remainder = numerator.checked_rem(denominator)?;
    let exact = remainder == i256::ZERO;
    let floor = if remainder.is_negative() {
        quotient.checked_sub(i256::from_i128(1))?
    } else {
        quotient
    };
    Some(match whole(data_type, floor) {
        Some(array) if exact => Place::At(array),
        Some(array) => Place::After(array),
        // The whole number below the literal is out of range.
        None if floor.is_negative() => Place::Below,
        None => Place::Above,
    })
}

fn place_f64(scalar: &Scalar) -> Option<Place> {
    let at = |value: f64| Place::At(Arc::new(Float64Array::from_value(value, 1)));
    match scalar {
        Scalar::Float(value) => Some(at(*value)),
        Scalar::Decimal { .. } | Scalar::WideDecimal { scale: 1.., .. } => {
            scalar.to_string().parse().ok().map(at)
        }
        Scalar::Integer(_) | Scalar::WideDecimal { .. } => {
            let nearest = scalar.to_string().parse::<f64>().ok()?;
            Some(match compare_exactly(nearest, scalar.whole()?)? {
                std::cmp::Ordering::Equal => at(nearest),
                std::cmp::Ordering::Less => after(Float64Array::from_value(nearest, 1)),
                std::cmp::Ordering::Greater => {
                    after(Float64Array::from_value(nearest.next_down(), 1))
                }
            })
        }
        _ => None,
    }
}

fn after(array: impl Array + 'static) -> Place {
    Place::After(Arc::new(array))
}

fn place_f32(scalar: &Scalar) -> Option<Place> {
    let at = |value: f32| Place::At(Arc::new(Float32Array::from_value(value, 1)));
    match scalar {
        Scalar::Float(value) if value.is_nan() => Some(at(f32::NAN)),
        Scalar::Float(value) => {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "rounds to the nearest value"
            )]
            let nearest = *value as f32;
            let back = f64::from(nearest);
            Some(if back == *value {
                at(nearest)
            } else if back < *value {
                after(Float32Array::from_value(nearest, 1))
            } else {
                after(Float32Array::from_value(nearest.next_down(), 1))
            })
        }
        Scalar::Decimal { .. } | Scalar::WideDecimal { scale: 1.., .. } => {
            scalar.to_string().parse().ok().map(at)
        }
        Scalar::Integer(_) | Scalar::WideDecimal { .. } => {
            let nearest = scalar.to_string().parse::<f32>().ok()?;
            Some(
                match compare_exactly(f64::from(nearest), scalar.whole()?)? {
                    std::cmp::Ordering::Equal => at(nearest),
                    std::cmp::Ordering::Less => after(Float32Array::from_value(nearest, 1)),
                    std::cmp::Ordering::Greater => {
                        after(Float32Array::from_value(nearest.next_down(), 1))
                    }
                },
            )
        }
        _ => None,
    }
}

/// Of a number with a decimal point the nearest half, unless that is infinite: numbers out of range are no halves.
fn place_f16(scalar: &Scalar) -> Option<Place> {
    let array =
        |value: f16| -> ArrayRef { Arc::new(PrimitiveArray::<Float16Type>::from_value(value, 1)) };
    let exact = match scalar {
        Scalar::Float(value) => *value,
        Scalar::Decimal { .. } | Scalar::WideDecimal { scale: 1.., .. } => {
            let double: f64 = scalar.to_string().parse().ok()?;
            let nearest = f16::from_f64(double);
            if nearest.is_finite() {
                return Some(Place::At(array(nearest)));
            }
            double
        }
        // A whole number below 2^53 is a float64; of a larger one only its side matters.
        Scalar::Integer(_) | Scalar::WideDecimal { .. } => scalar.to_string().parse().ok()?,
        _ => return None,
    };
    let nearest = f16::from_f64(exact);
    let back = nearest.to_f64();
    Some(if back == exact || exact.is_nan() {
        Place::At(array(nearest))
    } else if back < exact {
        Place::After(array(nearest))
    } else {
        Place::After(array(below(nearest)))
    })
}

/// The next half towards minus infinity, of a number above minus infinity.
fn below(value: f16) -> f16 {
    match value.to_bits() {
        0x0000 | 0x8000 => f16::from_bits(0x8001),
        negative if negative & 0x8000 != 0 => f16::from_bits(negative + 1),
        positive => f16::from_bits(positive - 1),
    }
}

fn primitive<T: ArrowPrimitiveType>(value: T::Native, data_type: &DataType) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_value(value, 1).with_data_type(data_type.clone()))
}

/// One value of a type that is stored as whole numbers; `None` if it is out of range.
fn whole(data_type: &DataType, value: i256) -> Option<ArrayRef> {
    macro_rules! narrow {
        ($type:ty) => {
            Some(primitive::<$type>(
                value.to_i128()?.try_into().ok()?,
                data_type,
            ))
        };
    }
    match data_type {
        DataType::Int8 => narrow!(Int8Type),
        DataType::Int16 => narrow!(Int16Type),
        DataType::Int32 => narrow!(Int32Type),
        DataType::Int64 => narrow!(Int64Type),
        DataType::UInt8 => narrow!(UInt8Type),
        DataType::UInt16 => narrow!(UInt16Type),
        DataType::UInt32 => narrow!(UInt32Type),
        DataType::UInt64 => narrow!(UInt64Type),
        DataType::Decimal32(..) => narrow!(Decimal32Type),
        DataType::Decimal64(..) => narrow!(Decimal64Type),
        DataType::Decimal128(..) => Some(primitive::<Decimal128Type>(value.to_i128()?, data_type)),
        DataType::Decimal256(..) => Some(primitive::<Decimal256Type>(value, data_type)),
        DataType::Date32 => narrow!(Date32Type),
        DataType::Date64 => narrow!(Date64Type),
        DataType::Time32(TimeUnit::Second) => narrow!(Time32SecondType),
        DataType::Time32(_) => narrow!(Time32MillisecondType),
        DataType::Time64(TimeUnit::Microsecond) => narrow!(Time64MicrosecondType),
        DataType::Time64(_) => narrow!(Time64NanosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => narrow!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => narrow!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => narrow!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => narrow!(TimestampNanosecondType),
        DataType::Duration(TimeUnit::Second) => narrow!(DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => narrow!(DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => narrow!(DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => narrow!(DurationNanosecondType),
        _ => None,
    }
}

/// The type of a literal that meets no column.
pub(crate) fn default_type(scalar: &Scalar) -> Option<DataType> {
    Some(match scalar {
        Scalar::Null => DataType::Null,
        Scalar::Boolean(_) => DataType::Boolean,
        Scalar::Integer(value) if i64::try_from(*value).is_ok() => DataType::Int64,
        Scalar::Integer(value) if u64::try_from(*value).is_ok() => DataType::UInt64,
        Scalar::Integer(_) => DataType::Decimal128(38, 0),
        Scalar::Decimal { unscaled, scale } => {
            let digits = u8::try_from(unscaled.unsigned_abs().to_string().len()).ok()?;
            let scale_signed = i8::try_from(*scale).ok()?;
            let precision = digits.max(*scale).max(1);
            (precision <= 38).then_some(DataType::Decimal128(precision, scale_signed))?
        }
        Scalar::WideDecimal { unscaled, scale } => {
            let digits = u8::try_from(unscaled.wrapping_abs().to_string().len()).ok()?;
            DataType::Decimal256(digits.max(*scale), i8::try_from(*scale).ok()?)
        }
        Scalar::Float(_) => DataType::Float64,
        Scalar::String(_) => DataType::Utf8,
        Scalar::Binary(_) => DataType::Binary,
        Scalar::Date(_) => DataType::Date32,
        Scalar::Time(_) => DataType::Time64(TimeUnit::Nanosecond),
        Scalar::Timestamp { nanos, zoned } => {
            // Microseconds as in Python and Spark, unless that would lose or overflow.
            let fits = |unit: TimeUnit| {
                let step = i128::from(unit_nanos(unit));
                nanos % step == 0 && i64::try_from(nanos / step).is_ok()
            };
            let unit = [
                TimeUnit::Microsecond,
                TimeUnit::Nanosecond,
                TimeUnit::Millisecond,
                TimeUnit::Second,
            ]
            .into_iter()
            .find(|unit| fits(*unit))?;
            DataType::Timestamp(unit, zoned.then(|| UTC.into()))
        }
        Scalar::Interval { .. } => DataType::Interval(IntervalUnit::MonthDayNano),
    })
}

/// The literal as one value of the type; `None` unless it is exactly one.
pub(crate) fn array_of(scalar: &Scalar, data_type: &DataType) -> Option<ArrayRef> {
    Some(match (scalar, data_type) {
        (Scalar::Null, _) => new_null_array(data_type, 1),
        (Scalar::Boolean(value), DataType::Boolean) => Arc::new(BooleanArray::from(vec![*value])),
        (Scalar::String(text), DataType::Utf8) => Arc::new(StringArray::from(vec![text.as_str()])),
        (Scalar::String(text), DataType::LargeUtf8) => {
            Arc::new(LargeStringArray::from(vec![text.as_str()]))
        }
        (Scalar::String(text), DataType::Utf8View) => {
            Arc::new(StringViewArray::from(vec![text.as_str()]))
        }
        (Scalar::Binary(bytes), DataType::Binary) => {
            Arc::new(BinaryArray::from(vec![bytes.as_slice()]))
        }
        (Scalar::Binary(bytes), DataType::LargeBinary) => {
            Arc::new(LargeBinaryArray::from(vec![bytes.as_slice()]))
        }
        (Scalar::Binary(bytes), DataType::BinaryView) => {
            Arc::new(BinaryViewArray::from(vec![bytes.as_slice()]))
        }
        (
            Scalar::Interval {
                months,
                days,
                nanos,
            },
            DataType::Interval(IntervalUnit::MonthDayNano),
        ) => primitive::<IntervalMonthDayNanoType>(
            IntervalMonthDayNano::new(*months, *days, *nanos),
            data_type,
        ),
        _ => match place(data_type, scalar)? {
            Place::At(array) => array,
            _ => return None,
        },
    })
}

/// The first value of an array as a literal; `None` for types that have none.
pub(crate) fn scalar_at(array: &ArrayRef) -> Option<Scalar> {
    if array.is_empty() {
        return None;
    }
    if array.is_null(0) || *array.data_type() == DataType::Null {
        return Some(Scalar::Null);
    }
    macro_rules! value {
        ($type:ty) => {
            array.as_primitive::<$type>().value(0)
        };
    }
    let integer = |value: i128| Some(Scalar::Integer(value));
    match array.data_type() {
        DataType::Boolean => Some(Scalar::Boolean(array.as_boolean().value(0))),
        DataType::Int8 => integer(value!(Int8Type).into()),
        DataType::Int16 => integer(value!(Int16Type).into()),
        DataType::Int32 => integer(value!(Int32Type).into()),
        DataType::Int64 => integer(value!(Int64Type).into()),
        DataType::UInt8 => integer(value!(UInt8Type).into()),
        DataType::UInt16 => integer(value!(UInt16Type).into()),
        DataType::UInt32 => integer(value!(UInt32Type).into()),
        DataType::UInt64 => integer(value!(UInt64Type).into()),
        DataType::Float16 => Some(Scalar::Float(value!(Float16Type).to_f64())),
        DataType::Float32 => Some(Scalar::Float(value!(Float32Type).into())),
        DataType::Float64 => Some(Scalar::Float(value!(Float64Type))),
        DataType::Decimal32(_, scale) => Some(Scalar::Decimal {
            unscaled: value!(Decimal32Type).into(),
            scale: u8::try_from(*scale).ok()?,
        }),
        DataType::Decimal64(_, scale) => Some(Scalar::Decimal {
            unscaled: value!(Decimal64Type).into(),
            scale: u8::try_from(*scale).ok()?,
        }),
        DataType::Decimal128(_, scale) => Some(Scalar::Decimal {
            unscaled: value!(Decimal128Type),
            scale: u8::try_from(*scale).ok()?,
        }),
        DataType::Utf8 => Some(Scalar::String(array.as_string::<i32>().value(0).to_owned())),
        DataType::LargeUtf8 => Some(Scalar::String(array.as_string::<i64>().value(0).to_owned())),
        DataType::Binary => Some(Scalar::Binary(array.as_binary::<i32>().value(0).to_owned())),
        DataType::LargeBinary => Some(Scalar::Binary(array.as_binary::<i64>().value(0).to_owned())),
        DataType::Date32 => Some(Scalar::Date(value!(Date32Type))),
        DataType::Timestamp(unit, zone) => {
            let step = i128::from(unit_nanos(*unit));
            let raw = match unit {
                TimeUnit::Second => value!(TimestampSecondType),
                TimeUnit::Millisecond => value!(TimestampMillisecondType),
                TimeUnit::Microsecond => value!(TimestampMicrosecondType),
                TimeUnit::Nanosecond => value!(TimestampNanosecondType),
            };
            Some(Scalar::Timestamp {
                nanos: i128::from(raw) * step,
                zoned: zone.is_some(),
            })
        }
        DataType::Time64(TimeUnit::Nanosecond) => Some(Scalar::Time(value!(Time64NanosecondType))),
        DataType::Time64(_) => value!(Time64MicrosecondType)
            .checked_mul(1000)
            .map(Scalar::Time),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let IntervalMonthDayNano {
                months,
                days,
                nanoseconds,
            } = value!(IntervalMonthDayNanoType);
            Some(Scalar::Interval {
                months,
                days,
                nanos: nanoseconds,
            })
        }
        _ => None,
    }
}
