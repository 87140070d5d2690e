//! Conversions between numbers, by their exact values.
//!
//! Every source value is read as an integer, a float64 or a decimal; every target type accepts a value or refuses it. Float
//! and decimal are the one pair whose values rarely agree exactly: there a value is accepted if converting back gives the
//! same value. The decimal of a float is its exact value if the type holds it, else its shortest decimal digits.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, cast::AsArray, types::*,
};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, i256};
use arrow_schema::DataType;
use half::f16;

use super::digits::{Width, float_to_steps, power_of_ten, steps_to_float, to_half, to_single};
use crate::types::digits_of;

/// One number, exactly.
#[derive(Debug, Clone, Copy)]
enum Number {
    Integer(i128),
    /// Of the width of the column.
    Float(f64),
    /// `unscaled / 10^scale` with the scale of the column.
    Decimal(i256),
}

fn width_of(data_type: &DataType) -> Option<Width> {
    Some(match data_type {
        DataType::Float16 => Width::Half,
        DataType::Float32 => Width::Single,
        DataType::Float64 => Width::Double,
        _ => return None,
    })
}

/// Booleans, integers, floats and decimals.
pub(crate) fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric() || *data_type == DataType::Boolean
}

/// Why a number was refused, for messages.
pub(crate) fn reason(from: &DataType, to: &DataType) -> String {
    match (from, to) {
        (_, DataType::Boolean) => "only 0 and 1 are booleans".to_owned(),
        (from, to) if from.is_integer() && to.is_integer() => "it is out of range".to_owned(),
        (_, to) if to.is_integer() => "it is not a whole number in range".to_owned(),
        (from, to) if from.is_floating() && to.is_floating() => {
            "the narrower float does not hold this value".to_owned()
        }
        (_, to) if to.is_floating() => {
            "the float nearest to it does not convert back to it".to_owned()
        }
        (_, to) => match digits_of(to) {
            Some((precision, scale)) => {
                format!("it has more than {scale} decimals or more than {precision} digits")
            }
            None => "the type does not hold it".to_owned(),
        },
    }
}

fn fits(unscaled: i256, precision: u8) -> bool {
    power_of_ten(u32::from(precision)).is_some_and(|limit| {
        unscaled < limit && limit.checked_neg().is_some_and(|lowest| unscaled > lowest)
    })
}

/// The decimal with another scale, if it has no more digits behind the point.
fn rescale(unscaled: i256, from: i8, to: i8) -> Option<i256> {
    let shift = i32::from(to) - i32::from(from);
    if unscaled == i256::ZERO || shift == 0 {
        return Some(unscaled);
    }
    let Some(factor) = power_of_ten(shift.unsigned_abs()) else {
        return None; // every value but zero leaves the range, or has more digits
    };
    if shift > 0 {
        return unscaled.checked_mul(factor);
    }
    (unscaled.checked_rem(factor)? == i256::ZERO).then(|| unscaled.checked_div(factor))?
}

/// The value of a float as an integer, if it is whole and 128 bits hold it.
fn whole(value: f64) -> Option<i128> {
    #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
    (value.fract() == 0.0 && value.abs() < 1e38).then_some(value as i128)
}

/// An integer as a float of this width, if the float holds it.
fn integer_to_float(value: i128, width: Width) -> Option<f64> {
    let float = value as f64;
    narrow(float, width).filter(|float| whole(*float) == Some(value))
}

/// A float64 as a float of this width, if that holds the same value; NaN and the infinities pass.
fn narrow(value: f64, width: Width) -> Option<f64> {
    let narrowed = match width {
        Width::Double => value,
        Width::Single => to_single(value),
        Width::Half => to_half(value),
    };
    (narrowed == value || value.is_nan()).then_some(narrowed)
}

type Reader<'a> = Box<dyn Fn(usize) -> Number + 'a>;

fn reader(array: &dyn Array) -> Option<Reader<'_>> {
    macro_rules! read {
        ($type:ty, $number:expr) => {{
            let values = array.as_primitive_opt::<$type>()?.values();
            Box::new(move |row: usize| $number(values[row]))
        }};
    }
    let integer = Number::Integer;
    Some(match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean_opt()?.values();
            Box::new(move |row| integer(i128::from(values.value(row))))
        }
        DataType::Int8 => read!(Int8Type, |v| integer(i128::from(v))),
        DataType::Int16 => read!(Int16Type, |v| integer(i128::from(v))),
        DataType::Int32 => read!(Int32Type, |v| integer(i128::from(v))),
        DataType::Int64 => read!(Int64Type, |v| integer(i128::from(v))),
        DataType::UInt8 => read!(UInt8Type, |v| integer(i128::from(v))),
        DataType::UInt16 => read!(UInt16Type, |v| integer(i128::from(v))),
        DataType::UInt32 => read!(UInt32Type, |v| integer(i128::from(v))),
        DataType::UInt64 => read!(UInt64Type, |v| integer(i128::from(v))),
        DataType::Float16 => read!(Float16Type, |v: f16| Number::Float(v.to_f64())),
        DataType::Float32 => read!(Float32Type, |v| Number::Float(f64::from(v))),
        DataType::Float64 => read!(Float64Type, Number::Float),
        DataType::Decimal32(..) => {
            read!(Decimal32Type, |v| Number::Decimal(i256::from_i128(
                i128::from(v)
            )))
        }
        DataType::Decimal64(..) => {
            read!(Decimal64Type, |v| Number::Decimal(i256::from_i128(
                i128::from(v)
            )))
        }
        DataType::Decimal128(..) => {
            read!(Decimal128Type, |v| Number::Decimal(i256::from_i128(v)))
        }
        DataType::Decimal256(..) => read!(Decimal256Type, Number::Decimal),
        _ => return None,
    })
}

/// Accepts numbers of one source type as values of one target type.
struct Target<'a> {
    from: &'a DataType,
    to: &'a DataType,
}

impl Target<'_> {
    fn integer(&self, number: Number) -> Option<i128> {
        match number {
            Number::Integer(value) => Some(value),
            Number::Float(value) => whole(value),
            Number::Decimal(unscaled) => {
                let (_, scale) = digits_of(self.from)?;
                rescale(unscaled, scale, 0)?.to_i128()
            }
        }
    }

    fn float(&self, number: Number) -> Option<f64> {
        let width = width_of(self.to)?;
        match number {
            Number::Integer(value) => integer_to_float(value, width),
            Number::Float(value) => narrow(value, width),
            Number::Decimal(unscaled) => {
                let (_, scale) = digits_of(self.from)?;
                steps_to_float(unscaled, scale, width)
            }
        }
    }

    fn decimal(&self, number: Number) -> Option<i256> {
        let (precision, scale) = digits_of(self.to)?;
        let steps = match number {
            Number::Integer(value) => rescale(i256::from_i128(value), 0, scale)?,
            Number::Float(value) => float_to_steps(value, width_of(self.from)?, scale)?,
            Number::Decimal(unscaled) => {
                let (_, from) = digits_of(self.from)?;
                rescale(unscaled, from, scale)?
            }
        };
        fits(steps, precision).then_some(steps)
    }
}

fn build<T: ArrowPrimitiveType>(
    num_rows: usize,
    valid: Option<&NullBuffer>,
    data_type: &DataType,
    value: impl Fn(usize) -> Option<T::Native>,
) -> Result<ArrayRef, usize> {
    let mut values = vec![T::Native::default(); num_rows];
    for (row, slot) in values.iter_mut().enumerate() {
        if valid.is_none_or(|valid| valid.is_valid(row)) {
            *slot = value(row).ok_or(row)?;
        }
    }
    let array = PrimitiveArray::<T>::new(values.into(), valid.cloned());
    Ok(Arc::new(array.with_data_type(data_type.clone())))
}

/// Converts numbers; `valid` tells the rows that have a value that matters.
///
/// # Errors
/// The first row whose value the type does not hold; row 0 for a type that is no number.
pub(crate) fn numbers(
    array: &dyn Array,
    to: &DataType,
    valid: Option<&NullBuffer>,
) -> Result<ArrayRef, usize> {
    let read = reader(array).ok_or(0_usize)?;
    let target = Target {
        from: array.data_type(),
        to,
    };
    let rows = array.len();
    macro_rules! integers {
        ($type:ty) => {
            build::<$type>(rows, valid, to, |row| {
                target.integer(read(row))?.try_into().ok()
            })
        };
    }
    macro_rules! decimals {
        ($type:ty, $native:ty) => {
            build::<$type>(rows, valid, to, |row| {
                <$native>::try_from(target.decimal(read(row))?.to_i128()?).ok()
            })
        };
    }
    match to {
        DataType::Boolean => {
            let mut bits = BooleanBufferBuilder::new(rows);
            for row in 0..rows {
                let is_valid = valid.is_none_or(|valid| valid.is_valid(row));
                bits.append(match is_valid.then(|| target.integer(read(row))) {
                    None | Some(Some(0)) => false,
                    Some(Some(1)) => true,
                    Some(_) => return Err(row),
                });
            }
            Ok(Arc::new(BooleanArray::new(bits.finish(), valid.cloned())))
        }
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt8 => integers!(UInt8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::UInt64 => integers!(UInt64Type),
        DataType::Float16 => build::<Float16Type>(rows, valid, to, |row| {
            target.float(read(row)).map(f16::from_f64)
        }),
        #[expect(clippy::cast_possible_truncation, reason = "the value is a float32")]
        DataType::Float32 => build::<Float32Type>(rows, valid, to, |row| {
            target.float(read(row)).map(|value| value as f32)
        }),
        DataType::Float64 => build::<Float64Type>(rows, valid, to, |row| target.float(read(row))),
        DataType::Decimal32(..) => decimals!(Decimal32Type, i32),
        DataType::Decimal64(..) => decimals!(Decimal64Type, i64),
        DataType::Decimal128(..) => decimals!(Decimal128Type, i128),
        DataType::Decimal256(..) => {
            build::<Decimal256Type>(rows, valid, to, |row| target.decimal(read(row)))
        }
        _ => Err(0),
    }
}
