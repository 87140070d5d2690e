//! Rounding of floats and decimals.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Decimal128Array, Float32Array, Float64Array,
    cast::AsArray,
    types::{Decimal128Type, Float32Type, Float64Type},
};
use arrow_schema::DataType;
use pilum_common::type_name;

use super::call::{Call, Integers};
use crate::{
    error::{Error, Result},
    function::Function,
};

/// `ROUND`, `FLOOR`, `CEIL`, `TRUNC`; binding made the argument a float or a decimal128.
///
/// # Errors
/// [`Error::Overflow`] for a decimal that the result type does not hold.
pub(super) fn evaluate(
    call: &Call<'_>,
    array: &ArrayRef,
    digits: Option<&Integers<'_>>,
) -> Result<ArrayRef> {
    let float = |value: f64, row: usize| match digits {
        None => Some(whole(call.function, value)),
        Some(digits) => Some(to_digits(call.function, value, digits.at(row)?)),
    };
    if let Some(values) = array.as_primitive_opt::<Float64Type>() {
        let rows = values.iter().enumerate();
        let rounded: Float64Array = rows.map(|(row, value)| float(value?, row)).collect();
        return Ok(Arc::new(rounded));
    }
    if let Some(values) = array.as_primitive_opt::<Float32Type>() {
        let rows = values.iter().enumerate();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the nearest float32, as in DuckDB"
        )]
        let rounded: Float32Array = rows
            .map(|(row, value)| Some(float(f64::from(value?), row)? as f32))
            .collect();
        return Ok(Arc::new(rounded));
    }
    decimals(call, array, digits)
}

fn decimals(call: &Call<'_>, array: &ArrayRef, digits: Option<&Integers<'_>>) -> Result<ArrayRef> {
    let (DataType::Decimal128(_, from), DataType::Decimal128(precision, scale)) =
        (array.data_type(), call.data_type)
    else {
        let found = array.data_type();
        return Err(Error::mismatch(found, &DataType::Float64, call.text));
    };
    let (from, scale) = (*from, *scale);
    let limit = 10_i128.pow(u32::from(*precision));
    let step = |digits: i64| -> Option<i128> {
        let dropped = i64::from(from).saturating_sub(digits).max(0);
        10_i128.checked_pow(u32::try_from(dropped).ok()?)
    };
    let back = 10_i128.pow(u32::try_from(i32::from(from) - i32::from(scale)).unwrap_or(0));
    let round = |value: i128, digits: i64| -> Result<i128> {
        let rounded = match step(digits) {
            Some(step) => quotient(call.function, value, step).checked_mul(step),
            // A step that 128 bits do not hold is more than twice as large as every value.
            None => Some(0),
        };
        let rounded = rounded.map(|rounded| rounded / back);
        rounded
            .filter(|rounded| rounded.abs() < limit)
            .ok_or_else(|| Error::Overflow {
                expression: call.text.to_owned(),
                data_type: type_name(call.data_type),
            })
    };
    let values = array.as_primitive::<Decimal128Type>();
    let rounded: Decimal128Array = match digits {
        None => values.try_unary(|value| round(value, 0))?,
        Some(digits) => values
            .iter()
            .enumerate()
            .map(|(row, value)| match (value, digits.at(row)) {
                (Some(value), Some(digits)) => round(value, digits).map(Some),
                _ => Ok(None),
            })
            .collect::<Result<_>>()?,
    };
    Ok(Arc::new(rounded.with_data_type(call.data_type.clone())))
}

fn whole(function: Function, value: f64) -> f64 {
    match function {
        Function::Floor => value.floor(),
        Function::Ceil => value.ceil(),
        Function::Trunc => value.trunc(),
        _ => value.round(),
    }
}

/// As DuckDB: scaled by a power of ten, rounded, and scaled back.
fn to_digits(function: Function, value: f64, digits: i64) -> f64 {
    let power = |digits: i64| 10_f64.powi(i32::try_from(digits).unwrap_or(i32::MAX));
    if digits < 0 {
        let modifier = power(digits.saturating_neg());
        let rounded = whole(function, value / modifier) * modifier;
        return if rounded.is_finite() { rounded } else { 0.0 };
    }
    let modifier = power(digits);
    let rounded = whole(function, value * modifier) / modifier;
    if rounded.is_finite() { rounded } else { value }
}

/// How many steps the value has, rounded as the function says.
fn quotient(function: Function, value: i128, step: i128) -> i128 {
    let (whole, rest) = (value / step, value % step);
    match function {
        Function::Floor if rest < 0 => whole - 1,
        Function::Ceil if rest > 0 => whole + 1,
        Function::Round if rest != 0 && rest.abs() >= step - rest.abs() => whole + value.signum(),
        _ => whole,
    }
}
