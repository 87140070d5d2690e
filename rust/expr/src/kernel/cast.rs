//! Conversions between types that a `CAST` or a comparison asks for, checked.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Decimal128Array,
    cast::AsArray,
    types::{Date32Type, Date64Type, Decimal128Type, Float32Type, Float64Type, Int64Type},
};
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{ArrowError, DataType, TimeUnit};

use super::{
    value::internal,
    zone::{self, NEUTRAL_ZONE, foreign_zone, is_utc, neutral, relabel},
};
use crate::{
    calendar::{NANOS_PER_DAY, unit_nanos},
    error::{Error, Result},
    type_name::type_name,
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
    let failed = |error: ArrowError| {
        if from.is_numeric() && data_type.is_numeric() {
            Error::Overflow {
                expression: text.to_owned(),
                data_type: type_name(data_type),
            }
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
    let neutral = if data_type.is_integer() {
        rounded(&neutral, safe).map_err(failed)?
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
