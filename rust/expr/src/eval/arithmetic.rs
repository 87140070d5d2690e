//! Arithmetic and conversions, checked.

use std::sync::Arc;

use arrow_arith::numeric;
use arrow_array::{
    Array, ArrayRef, Datum, Decimal128Array,
    cast::AsArray,
    types::{
        Date32Type, Date64Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int64Type,
    },
};
use arrow_buffer::{NullBuffer, i256};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use arrow_select::nullif::nullif;

use super::{Value, internal, zone};
use crate::{ArithmeticOp, Error, Result, bind::unit_nanos, calendar::NANOS_PER_DAY};

/// What kernels without a time zone data base understand.
const NEUTRAL_ZONE: &str = "+00:00";

fn is_utc(zone: &str) -> bool {
    ["UTC", "Z", "ETC/UTC", "GMT", "+00:00"]
        .iter()
        .any(|utc| utc.eq_ignore_ascii_case(zone))
}

/// The zone of a timestamp whose rules need a data base of zones.
pub(crate) fn foreign_zone(data_type: &DataType) -> Option<&str> {
    match data_type {
        DataType::Timestamp(_, Some(zone)) if !is_utc(zone) && !zone.starts_with(['+', '-']) => {
            Some(zone)
        }
        _ => None,
    }
}

/// The same instants under a name of UTC that every kernel knows.
pub(super) fn neutral(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Timestamp(unit, Some(zone)) if is_utc(zone) && **zone != *NEUTRAL_ZONE => {
            relabel(
                array,
                &DataType::Timestamp(*unit, Some(NEUTRAL_ZONE.into())),
            )
        }
        _ => Ok(Arc::clone(array)),
    }
}

/// The same buffers under another type of the same layout.
fn relabel(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    let relabelled = array
        .to_data()
        .into_builder()
        .data_type(data_type.clone())
        .build()?;
    Ok(arrow_array::make_array(relabelled))
}

/// The kernel of an operation on two arrays of equal length.
pub(crate) fn arithmetic_kernel(
    op: ArithmeticOp,
    left: &ArrayRef,
    right: &ArrayRef,
) -> Result<ArrayRef, ArrowError> {
    arithmetic(
        op,
        &Value::array(Arc::clone(left)),
        &Value::array(Arc::clone(right)),
    )
}

pub(super) fn arithmetic(
    op: ArithmeticOp,
    left: &Value,
    right: &Value,
) -> Result<ArrayRef, ArrowError> {
    let zone = match left.array.data_type() {
        DataType::Timestamp(_, Some(zone)) => Some(Arc::clone(zone)),
        _ => None,
    };
    let (left, right) = (
        left.with(neutral(&left.array)?),
        right.with(neutral(&right.array)?),
    );
    let result = match op {
        ArithmeticOp::Add => numeric::add(&left, &right),
        ArithmeticOp::Subtract => numeric::sub(&left, &right),
        ArithmeticOp::Multiply => numeric::mul(&left, &right),
        ArithmeticOp::Divide => numeric::div(&left, &right),
        ArithmeticOp::IntegerDivide => quotient(&left, &without_zeros(&right)?),
        ArithmeticOp::Modulo => numeric::rem(&left, &without_zeros(&right)?),
    }?;
    match (result.data_type(), zone) {
        (DataType::Timestamp(unit, Some(_)), Some(zone)) => {
            relabel(&result, &DataType::Timestamp(*unit, Some(zone)))
        }
        _ => Ok(result),
    }
}

/// How many rows have null on one side at least.
pub(super) fn num_null_pairs(left: &Value, right: &Value) -> usize {
    let (l, r) = (&left.array, &right.array);
    match (left.is_scalar, right.is_scalar) {
        (false, true) if r.null_count() > 0 => l.len(),
        (true, false) if l.null_count() > 0 => r.len(),
        (_, true) if r.null_count() == 0 => l.null_count(),
        (true, false) => r.null_count(),
        _ => NullBuffer::union(l.nulls(), r.nulls()).map_or(0, |nulls| nulls.null_count()),
    }
}

/// The whole number of times that one integer goes into another, cut off towards zero.
fn quotient(left: &Value, right: &Value) -> Result<ArrayRef, ArrowError> {
    let (dividend, _) = left.get();
    if !matches!(dividend.data_type(), DataType::Decimal128(..)) {
        return numeric::div(left, right);
    }
    // The kernel for decimals would go on behind the point.
    let whole = |l: i128, r: i128| {
        l.checked_div(r)
            .ok_or_else(|| ArrowError::ArithmeticOverflow("a quotient".into()))
    };
    let (l, r) = (&left.array, &right.array);
    let (l, r) = (
        l.as_primitive::<Decimal128Type>(),
        r.as_primitive::<Decimal128Type>(),
    );
    let only = |array: &Decimal128Array| array.is_valid(0).then(|| array.value(0));
    let quotients: Decimal128Array = match (left.is_scalar, right.is_scalar) {
        (_, true) => match only(r) {
            Some(divisor) => l.try_unary(|value| whole(value, divisor))?,
            None => Decimal128Array::new_null(l.len()),
        },
        (true, false) => match only(l) {
            Some(dividend) => r.try_unary(|value| whole(dividend, value))?,
            None => Decimal128Array::new_null(r.len()),
        },
        (false, false) => arrow_arith::arity::try_binary(l, r, whole)?,
    };
    Ok(Arc::new(
        quotients.with_data_type(dividend.data_type().clone()),
    ))
}

/// Divisors with null for zero, so that the division is null; those of floats as they are, they make NaN.
fn without_zeros(divisor: &Value) -> Result<Value, ArrowError> {
    let (array, _) = divisor.get();
    let zeros = match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().unary_opt_is(|v| v == 0),
        DataType::Decimal128(..) => array
            .as_primitive::<Decimal128Type>()
            .unary_opt_is(|v| v == 0),
        DataType::Decimal256(..) => array
            .as_primitive::<Decimal256Type>()
            .unary_opt_is(|v| v == i256::ZERO),
        _ => return Ok(divisor.clone()),
    };
    Ok(divisor.with(nullif(array, &zeros)?))
}

/// Tests of each value, nulls being no hit.
trait TestValues<N> {
    fn unary_opt_is(&self, test: impl Fn(N) -> bool) -> arrow_array::BooleanArray;
}

impl<T: arrow_array::ArrowPrimitiveType> TestValues<T::Native> for arrow_array::PrimitiveArray<T> {
    fn unary_opt_is(&self, test: impl Fn(T::Native) -> bool) -> arrow_array::BooleanArray {
        arrow_array::BooleanArray::from_unary(self, test)
    }
}

/// A conversion that refuses what does not fit.
pub(super) fn convert(array: &ArrayRef, data_type: &DataType, text: &str) -> Result<ArrayRef> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    let from = array.data_type().clone();
    let failed = |error: ArrowError| {
        if from.is_numeric() && data_type.is_numeric() {
            Error::Overflow {
                expression: text.to_owned(),
                data_type: data_type.to_string(),
            }
        } else {
            Error::invalid(text, format!("{error}; it cannot become {data_type}"))
        }
    };
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let neutral = neutral(array).map_err(internal)?;
    // Whatever is not an instant has to do with what clocks showed.
    let neutral = match data_type {
        DataType::Timestamp(_, Some(_)) => neutral,
        _ => zone::local(&neutral).map_err(failed)?,
    };
    let neutral = if data_type.is_integer() {
        rounded(&neutral).map_err(failed)?
    } else {
        neutral
    };
    match data_type {
        DataType::Timestamp(unit, Some(zone)) if is_utc(zone) => {
            let utc = DataType::Timestamp(*unit, Some(NEUTRAL_ZONE.into()));
            let converted = cast_with_options(&neutral, &utc, &options).map_err(failed)?;
            relabel(&converted, data_type).map_err(internal)
        }
        _ => cast_with_options(&neutral, data_type, &options).map_err(failed),
    }
}

/// Numbers on their way to an integer: floats to the nearest even, decimals half away from zero, as in DuckDB.
///
/// The kernels alone would cut the fraction off.
fn rounded(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    match array.data_type() {
        DataType::Float32 => Ok(Arc::new(
            array
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(f32::round_ties_even),
        )),
        DataType::Float64 => Ok(Arc::new(
            array
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(f64::round_ties_even),
        )),
        DataType::Decimal128(_, 1..) => {
            cast_with_options(array, &DataType::Decimal128(38, 0), &options)
        }
        DataType::Decimal256(_, 1..) => {
            cast_with_options(array, &DataType::Decimal256(76, 0), &options)
        }
        _ => Ok(Arc::clone(array)),
    }
}

/// Dates, timestamps and durations as nanoseconds; a decimal holds those of every unit.
pub(super) fn nanos(array: &ArrayRef) -> Result<ArrayRef> {
    let array = match array.data_type() {
        DataType::Dictionary(_, values) => {
            convert(array, &values.as_ref().clone(), "a comparison")?
        }
        _ => Arc::clone(array),
    };
    let (ints, step): (ArrayRef, i128) = match array.data_type() {
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>();
            (
                Arc::new(days.unary::<_, Int64Type>(i64::from)),
                NANOS_PER_DAY,
            )
        }
        DataType::Date64 => {
            let millis = array.as_primitive::<Date64Type>();
            (Arc::new(millis.unary::<_, Int64Type>(|v| v)), 1_000_000)
        }
        DataType::Timestamp(unit, _) | DataType::Duration(unit) => {
            let unit: TimeUnit = *unit;
            let raw = relabel(&array, &DataType::Int64).map_err(internal)?;
            (raw, i128::from(unit_nanos(unit)))
        }
        other => {
            return Err(Error::mismatch(
                other,
                &DataType::Date32,
                "a comparison in time",
            ));
        }
    };
    let nanos: Decimal128Array = ints
        .as_primitive::<Int64Type>()
        .unary::<_, Decimal128Type>(|value| i128::from(value) * step);
    Ok(Arc::new(nanos.with_data_type(DataType::Decimal128(38, 0))))
}
