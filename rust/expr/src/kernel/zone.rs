//! Time zones: which need the time zone data base, and local times in them.

use std::{str::FromStr, sync::Arc};

use arrow_array::{
    Array, ArrayRef, PrimitiveArray,
    cast::AsArray,
    types::{
        ArrowTimestampType, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    },
};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::Tz;

use crate::calendar::unit_nanos;

/// The name of UTC that kernels without a time zone data base accept.
pub(crate) const NEUTRAL_ZONE: &str = "+00:00";

pub(crate) fn is_utc(zone: &str) -> bool {
    ["UTC", "Z", "ETC/UTC", "GMT", "+00:00"]
        .iter()
        .any(|utc| utc.eq_ignore_ascii_case(zone))
}

/// The zone of a timestamp type, if its rules come from the time zone data base; `None` for UTC and fixed offsets.
pub(crate) fn foreign_zone(data_type: &DataType) -> Option<&str> {
    match data_type {
        DataType::Timestamp(_, Some(zone)) if !is_utc(zone) && !zone.starts_with(['+', '-']) => {
            Some(zone)
        }
        _ => None,
    }
}

/// What the clocks of a fixed offset such as `+05:30` show beyond UTC, in nanoseconds; 0 of every other type.
pub(crate) fn fixed_offset(data_type: &DataType) -> i128 {
    let DataType::Timestamp(_, Some(zone)) = data_type else {
        return 0;
    };
    if !zone.starts_with(['+', '-']) {
        return 0;
    }
    zone.parse::<arrow_array::timezone::Tz>().map_or(0, |zone| {
        let offset = zone.offset_from_utc_datetime(&DateTime::UNIX_EPOCH.naive_utc());
        i128::from(offset.fix().local_minus_utc()) * i128::from(unit_nanos(TimeUnit::Second))
    })
}

/// The same instants with UTC named as every kernel accepts it.
pub(crate) fn neutral(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
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
pub(crate) fn relabel(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
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

/// Whether the time zone data base has this name.
pub(crate) fn is_known_zone(zone: &str) -> bool {
    Tz::from_str(zone).is_ok()
}

/// Local times, without zone, of timestamps in a named zone; other arrays unchanged.
///
/// Null where the calendar ends, some 262,000 years away, and where the local time leaves the range of the type.
pub(crate) fn local(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let Some(zone) = foreign_zone(array.data_type()) else {
        return Ok(Arc::clone(array));
    };
    let zone = Tz::from_str(zone)
        .map_err(|_| ArrowError::InvalidArgumentError(format!("unknown time zone {zone}")))?;
    Ok(match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => shifted::<TimestampSecondType>(array, zone),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            shifted::<TimestampMillisecondType>(array, zone)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            shifted::<TimestampMicrosecondType>(array, zone)
        }
        _ => shifted::<TimestampNanosecondType>(array, zone),
    })
}

fn shifted<T: ArrowTimestampType>(array: &ArrayRef, zone: Tz) -> ArrayRef {
    let per_second = unit_nanos(TimeUnit::Second) / unit_nanos(T::UNIT);
    let wall_clock = |value: i64| {
        let instant = DateTime::from_timestamp(value.div_euclid(per_second), 0)?;
        let offset = zone.offset_from_utc_datetime(&instant.naive_utc()).fix();
        value.checked_add(i64::from(offset.local_minus_utc()).checked_mul(per_second)?)
    };
    let shifted: PrimitiveArray<T> = array.as_primitive::<T>().unary_opt(wall_clock);
    Arc::new(shifted)
}
