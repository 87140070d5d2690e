//! Instants in the local time of a named zone.

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

use super::arithmetic::foreign_zone;
use crate::bind::unit_nanos;

/// Whether the data base of zones has this name.
pub(crate) fn is_known_zone(zone: &str) -> bool {
    Tz::from_str(zone).is_ok()
}

/// Timestamps of a named zone as what its clocks showed, without zone; other arrays as they are.
///
/// Null where the calendar ends, some 262,000 years away, and where the local time leaves the range of the type.
pub(super) fn local(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
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
