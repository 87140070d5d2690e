//! `DATE_TRUNC` and `DATE_PART`, by the calendar of this crate, which reaches every value of every type.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, PrimitiveArray,
    cast::AsArray,
    types::{Decimal128Type, Int64Type},
};
use arrow_schema::DataType;
use pilum_common::type_name;

use super::{
    call::Call,
    cast,
    value::internal,
    zone::{fixed_offset, local, relabel},
};
use crate::{
    calendar::{NANOS_PER_DAY, NANOS_PER_SECOND, civil_from_days, days_from_civil, unit_nanos},
    error::{Error, Result},
};

/// Units that `DATE_TRUNC` knows; shown when another one is named.
pub(crate) const UNITS: &str =
    "microsecond, millisecond, second, minute, hour, day, week, month, quarter, year";

/// Parts that `DATE_PART` knows; shown when another one is named.
pub(crate) const PARTS: &str = "year, quarter, month, week, day, dow, isodow, doy, hour, minute, second, millisecond, \
    microsecond, epoch";

/// The singular name of a unit or part, if it is known.
pub(crate) fn canonical(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "microsecond" | "microseconds" | "us" => "microsecond",
        "millisecond" | "milliseconds" | "ms" => "millisecond",
        "second" | "seconds" | "s" | "sec" => "second",
        "minute" | "minutes" | "m" | "min" => "minute",
        "hour" | "hours" | "h" | "hr" => "hour",
        "day" | "days" | "d" | "dayofmonth" => "day",
        "week" | "weeks" | "w" | "weekofyear" => "week",
        "month" | "months" | "mon" => "month",
        "quarter" | "quarters" => "quarter",
        "year" | "years" | "y" | "yr" => "year",
        "dow" | "dayofweek" | "weekday" => "dow",
        "isodow" => "isodow",
        "doy" | "dayofyear" => "doy",
        "epoch" => "epoch",
        _ => return None,
    })
}

/// The name in the first argument, which is a literal.
fn name_of(array: &ArrayRef, text: &str) -> Result<&'static str> {
    let name = array
        .as_string_opt::<i64>()
        .filter(|names| !names.is_empty() && names.is_valid(0));
    name.and_then(|names| canonical(names.value(0)))
        .ok_or_else(|| Error::invalid(text, "the unit is not known"))
}

/// Dates and timestamps as nanoseconds of the local clock.
fn nanos(array: &ArrayRef) -> Result<Decimal128Array> {
    let offset = fixed_offset(array.data_type());
    let nanos = cast::nanos(&local(array).map_err(internal)?)?;
    let nanos = nanos.as_primitive::<Decimal128Type>();
    Ok(nanos.unary(|nanos| nanos + offset))
}

/// The start of a unit, in nanoseconds.
fn start_of(unit: &str, nanos: i128) -> i128 {
    let days = nanos.div_euclid(NANOS_PER_DAY);
    let (year, month, _) = civil_from_days(days);
    let step = match unit {
        "microsecond" => 1000,
        "millisecond" => 1_000_000,
        "second" => NANOS_PER_SECOND,
        "minute" => 60 * NANOS_PER_SECOND,
        "hour" => 3600 * NANOS_PER_SECOND,
        "day" => NANOS_PER_DAY,
        // 1970-01-01 was a Thursday; weeks begin on Monday.
        "week" => return (days - (days + 3).rem_euclid(7)) * NANOS_PER_DAY,
        "month" => return days_from_civil(year, month, 1) * NANOS_PER_DAY,
        "quarter" => return days_from_civil(year, (month - 1) / 3 * 3 + 1, 1) * NANOS_PER_DAY,
        _ => return days_from_civil(year, 1, 1) * NANOS_PER_DAY,
    };
    nanos.div_euclid(step) * step
}

/// `DATE_TRUNC(unit, array)`; binding refuses zones whose rules would be needed.
///
/// # Errors
/// [`Error::Overflow`] if the start lies outside of the range of the type.
pub(super) fn truncate(call: &Call<'_>, unit: &ArrayRef, array: &ArrayRef) -> Result<ArrayRef> {
    let unit = name_of(unit, call.text)?;
    let DataType::Timestamp(of, _) = call.data_type else {
        return Err(Error::mismatch(
            array.data_type(),
            call.data_type,
            call.text,
        ));
    };
    let (step, offset) = (i128::from(unit_nanos(*of)), fixed_offset(call.data_type));
    let steps: PrimitiveArray<Int64Type> = nanos(array)?.try_unary(|nanos| {
        let start = (start_of(unit, nanos) - offset).div_euclid(step);
        i64::try_from(start).map_err(|_| Error::Overflow {
            expression: call.text.to_owned(),
            data_type: type_name(call.data_type),
        })
    })?;
    let steps: ArrayRef = Arc::new(steps);
    relabel(&steps, call.data_type).map_err(internal)
}

/// `DATE_PART(part, array)`
///
/// # Errors
/// For a part that is not known.
pub(super) fn part(call: &Call<'_>, part: &ArrayRef, array: &ArrayRef) -> Result<ArrayRef> {
    let part = name_of(part, call.text)?;
    if part == "epoch" {
        // An epoch is counted in UTC, whatever the clocks of the zone show.
        let nanos = cast::nanos(array)?;
        let nanos = nanos.as_primitive::<Decimal128Type>();
        let seconds: Float64Array = nanos.unary(|nanos| {
            (nanos / NANOS_PER_SECOND) as f64 + (nanos % NANOS_PER_SECOND) as f64 / 1e9
        });
        return Ok(Arc::new(seconds));
    }
    let parts: PrimitiveArray<Int64Type> = nanos(array)?.unary(|nanos| {
        // Every part is small but the year, which 64 bits hold.
        i64::try_from(part_of(part, nanos)).unwrap_or(i64::MAX)
    });
    Ok(Arc::new(parts))
}

fn part_of(part: &str, nanos: i128) -> i128 {
    let (days, in_day) = (
        nanos.div_euclid(NANOS_PER_DAY),
        nanos.rem_euclid(NANOS_PER_DAY),
    );
    let (year, month, day) = civil_from_days(days);
    let in_minute = in_day % (60 * NANOS_PER_SECOND);
    match part {
        "quarter" => (month - 1) / 3 + 1,
        "month" => month,
        "week" => {
            // The week of ISO 8601 belongs to the year of its Thursday.
            let thursday = days - (days + 3).rem_euclid(7) + 3;
            let (year, ..) = civil_from_days(thursday);
            (thursday - days_from_civil(year, 1, 1)) / 7 + 1
        }
        "day" => day,
        "dow" => (days + 4).rem_euclid(7),
        "isodow" => (days + 3).rem_euclid(7) + 1,
        "doy" => days - days_from_civil(year, 1, 1) + 1,
        "hour" => in_day / (3600 * NANOS_PER_SECOND),
        "minute" => in_day / (60 * NANOS_PER_SECOND) % 60,
        "second" => in_minute / NANOS_PER_SECOND,
        "millisecond" => in_minute / 1_000_000,
        "microsecond" => in_minute / 1000,
        _ => year,
    }
}
