//! Conversions between types that a `CAST` or a comparison asks for, checked.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, Decimal128Array,
    cast::AsArray,
    types::{
        Date32Type, Date64Type, Decimal128Type, Float16Type, Float32Type, Float64Type, Int64Type,
    },
};
use arrow_buffer::BooleanBuffer;
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use arrow_select::nullif::nullif;
use half::f16;
use pilum_common::type_name;

use super::{
    value::internal,
    zone::{self, NEUTRAL_ZONE, fixed_offset, foreign_zone, is_utc, neutral, relabel},
};
use crate::{
    calendar::{NANOS_PER_DAY, unit_nanos},
    error::{Error, Result},
    time_steps::{cut, cuts, stored_number},
    types::unpacked_type,
};

/// Why there is no conversion between two types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CastObstacle {
    /// The types have nothing in common.
    Types,
    /// It would need the rules of a named zone in the direction in which local times are not unique.
    LocalTimes(String),
    /// It needs the rules of a zone that is not known.
    UnknownZone(String),
}

/// What stands against a conversion by `CAST` between two types, if anything.
pub(crate) fn cast_obstacle(from: &DataType, to: &DataType) -> Option<CastObstacle> {
    let is_temporal = |t: &DataType| t.is_temporal();
    let is_number = |t: &DataType| t.is_numeric() || *t == DataType::Boolean;
    // Arrow would take the stored number of a date or timestamp, which has no meaning to users.
    let sensible = !(is_temporal(from) && is_number(to) || is_number(from) && is_temporal(to))
        && (from == to || can_cast_types(from, to));
    if !sensible && *from != DataType::Null {
        return Some(CastObstacle::Types);
    }
    let refused = match (from, to) {
        // The instants stay the same; only the name of the zone changes.
        (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, Some(_))) => None,
        // A local time can occur twice or never on days when clocks change, so it has no single instant.
        (_, DataType::Timestamp(_, Some(_))) => foreign_zone(to),
        (_, to) if to.is_temporal() => None,
        (from, _) => foreign_zone(from),
    };
    if let Some(zone) = refused {
        return Some(CastObstacle::LocalTimes(zone.to_owned()));
    }
    if matches!(to, DataType::Timestamp(_, Some(_))) {
        return None;
    }
    foreign_zone(from)
        .filter(|zone| !zone::is_known_zone(zone))
        .map(|zone| CastObstacle::UnknownZone(zone.to_owned()))
}

/// Converts an array; a value that the type does not hold is an error.
///
/// # Errors
/// The first value that does not fit.
pub(crate) fn convert(array: &ArrayRef, data_type: &DataType, text: &str) -> Result<ArrayRef> {
    converted(array, data_type, text, false)
}

/// Converts an array; a value that the type does not hold becomes null.
///
/// # Errors
/// If the types do not convert whatever the values.
pub(crate) fn try_convert(array: &ArrayRef, data_type: &DataType, text: &str) -> Result<ArrayRef> {
    converted(array, data_type, text, true)
}

fn converted(array: &ArrayRef, data_type: &DataType, text: &str, safe: bool) -> Result<ArrayRef> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    let from = array.data_type().clone();
    let overflow = || Error::Overflow {
        expression: text.to_owned(),
        data_type: type_name(data_type),
    };
    let failed = |error: ArrowError| {
        if from.is_numeric() && data_type.is_numeric() {
            overflow()
        } else {
            // Arrow names the type as Rust prints it.
            let (rust_name, name) = (data_type.to_string(), type_name(data_type));
            let reason = error.to_string().replace(&rust_name, &name);
            Error::invalid(text, format!("{reason}; it cannot become {name}"))
        }
    };
    let options = CastOptions {
        safe,
        ..CastOptions::default()
    };
    let neutral = neutral(array).map_err(internal)?;
    // Dates, times and timestamps without zone are taken from the local clocks of the zone.
    let neutral = match data_type {
        DataType::Timestamp(_, Some(_)) => neutral,
        _ => zone::local(&neutral).map_err(failed)?,
    };
    if cuts(neutral.data_type(), data_type) {
        let shift = clock_shift(&from, data_type);
        return cut(&neutral, data_type, shift, safe).map_err(|row| {
            let value = stored_number(array, row).unwrap_or_default();
            let name = type_name(data_type);
            Error::invalid(text, format!("{value} is out of the range of {name}"))
        });
    }
    let neutral = if data_type.is_integer() {
        rounded(&neutral, safe).map_err(failed)?
    } else {
        neutral
    };
    let converted = match data_type {
        DataType::Timestamp(unit, Some(zone)) if is_utc(zone) => {
            let utc = DataType::Timestamp(*unit, Some(NEUTRAL_ZONE.into()));
            let converted = cast_with_options(&neutral, &utc, &options).map_err(failed)?;
            relabel(&converted, data_type).map_err(internal)?
        }
        _ => cast_with_options(&neutral, data_type, &options).map_err(failed)?,
    };
    if !data_type.is_floating() {
        return Ok(converted);
    }
    // Kernels make infinity of a number that is too large for the float.
    let beyond = became_infinite(array, &converted).map_err(internal)?;
    match beyond {
        None => Ok(converted),
        Some(beyond) if safe => nullif(&converted, &beyond).map_err(internal),
        Some(_) => Err(overflow()),
    }
}

/// What is added to clocks of one type to give those of the other, in nanoseconds: fixed offsets of zones.
fn clock_shift(from: &DataType, to: &DataType) -> i128 {
    let is_zoned = |data_type: &DataType| matches!(data_type, DataType::Timestamp(_, Some(_)));
    match (is_zoned(from), is_zoned(to)) {
        (true, false) => fixed_offset(from),
        (false, true) => -fixed_offset(to),
        _ => 0,
    }
}

/// The rows that are infinite in a float array and were not in the array that it was made of; `None` if there is none.
fn became_infinite(
    array: &ArrayRef,
    converted: &ArrayRef,
) -> Result<Option<BooleanArray>, ArrowError> {
    let infinite = match converted.data_type() {
        DataType::Float16 => infinities::<Float16Type>(converted, f16::is_infinite),
        DataType::Float32 => infinities::<Float32Type>(converted, f32::is_infinite),
        _ => infinities::<Float64Type>(converted, f64::is_infinite),
    };
    if infinite.true_count() == 0 {
        return Ok(None);
    }
    let was = match unpacked_type(array.data_type()) {
        float if float.is_floating() => {
            let wide = cast_with_options(array, &DataType::Float64, &CastOptions::default())?;
            infinities::<Float64Type>(&wide, f64::is_infinite)
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            // Spelled with letters: "inf", "-Infinity". Digits with an exponent that is too large are a number.
            let texts = cast_with_options(array, &DataType::LargeUtf8, &CastOptions::default())?;
            let is_word = |text: &str| {
                text.trim_start_matches(['+', '-', ' '])
                    .starts_with(['i', 'I'])
            };
            texts
                .as_string::<i64>()
                .iter()
                .map(|text| Some(text.is_some_and(is_word)))
                .collect()
        }
        _ => BooleanArray::from(vec![false; array.len()]),
    };
    let beyond = arrow_arith::boolean::and_not(&infinite, &was)?;
    Ok((beyond.true_count() > 0).then_some(beyond))
}

/// Whether each value is infinite; false for nulls.
fn infinities<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    is_infinite: impl Fn(T::Native) -> bool,
) -> BooleanArray {
    let values = array.as_primitive::<T>();
    let infinite = values.values().iter().map(|value| is_infinite(*value));
    let infinite = BooleanBuffer::from_iter(infinite);
    match values.nulls() {
        Some(nulls) => BooleanArray::new(&infinite & nulls.inner(), None),
        None => BooleanArray::new(infinite, None),
    }
}

/// Rounds before a conversion to an integer, as DuckDB: floats half to even, decimals half away from zero.
///
/// The kernels alone would truncate.
fn rounded(array: &ArrayRef, safe: bool) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions {
        safe,
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
        DataType::Decimal32(_, 1..)
        | DataType::Decimal64(_, 1..)
        | DataType::Decimal128(_, 1..) => {
            cast_with_options(array, &DataType::Decimal128(38, 0), &options)
        }
        DataType::Decimal256(_, 1..) => {
            cast_with_options(array, &DataType::Decimal256(76, 0), &options)
        }
        _ => Ok(Arc::clone(array)),
    }
}

/// Dates, timestamps and durations as nanoseconds in a decimal128, which holds the values of every unit.
pub(crate) fn nanos(array: &ArrayRef) -> Result<ArrayRef> {
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
