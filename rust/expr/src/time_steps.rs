//! Counts of time: the stored integers of dates, times, timestamps and durations, and their conversion by `CAST`.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, cast::AsArray, types::*};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};
use pilum_common::unit_name;

use crate::calendar::{NANOS_PER_DAY, unit_nanos};

const NANOS_PER_MILLI: i128 = 1_000_000;

/// Nanoseconds of one step of a type that counts time; `None` for other types.
pub(crate) fn step(data_type: &DataType) -> Option<i128> {
    Some(match data_type {
        DataType::Date32 => NANOS_PER_DAY,
        DataType::Date64 => NANOS_PER_MILLI,
        DataType::Time32(unit)
        | DataType::Time64(unit)
        | DataType::Timestamp(unit, _)
        | DataType::Duration(unit) => i128::from(unit_nanos(*unit)),
        _ => return None,
    })
}

/// Reads the stored integers of a type that counts time.
pub(crate) fn reader(array: &dyn Array) -> Option<Box<dyn Fn(usize) -> i64 + '_>> {
    macro_rules! read {
        ($type:ty) => {{
            let values = array.as_primitive_opt::<$type>()?.values();
            Box::new(move |row: usize| i64::from(values[row]))
        }};
    }
    Some(match array.data_type() {
        DataType::Date32 => read!(Date32Type),
        DataType::Date64 => read!(Date64Type),
        DataType::Time32(TimeUnit::Second) => read!(Time32SecondType),
        DataType::Time32(_) => read!(Time32MillisecondType),
        DataType::Time64(TimeUnit::Microsecond) => read!(Time64MicrosecondType),
        DataType::Time64(_) => read!(Time64NanosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => read!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => read!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => read!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => read!(TimestampNanosecondType),
        DataType::Duration(TimeUnit::Second) => read!(DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => read!(DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => read!(DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => read!(DurationNanosecondType),
        _ => return None,
    })
}

/// Builds an array of the type from the values of its valid rows.
///
/// # Errors
/// The first valid row without a value.
pub(crate) fn build<T: ArrowPrimitiveType>(
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

/// As [`build`], for a type that counts time.
///
/// # Errors
/// The first valid row without a value, or with one that the type does not hold; row 0 for other types.
pub(crate) fn build_steps(
    num_rows: usize,
    valid: Option<&NullBuffer>,
    to: &DataType,
    value: impl Fn(usize) -> Option<i64>,
) -> Result<ArrayRef, usize> {
    let short = |row: usize| value(row).and_then(|value| i32::try_from(value).ok());
    macro_rules! built {
        ($type:ty, $value:expr) => {
            build::<$type>(num_rows, valid, to, $value)
        };
    }
    match to {
        DataType::Date32 => built!(Date32Type, short),
        DataType::Date64 => built!(Date64Type, value),
        DataType::Time32(TimeUnit::Second) => built!(Time32SecondType, short),
        DataType::Time32(_) => built!(Time32MillisecondType, short),
        DataType::Time64(TimeUnit::Microsecond) => built!(Time64MicrosecondType, value),
        DataType::Time64(_) => built!(Time64NanosecondType, value),
        DataType::Timestamp(TimeUnit::Second, _) => built!(TimestampSecondType, value),
        DataType::Timestamp(TimeUnit::Millisecond, _) => built!(TimestampMillisecondType, value),
        DataType::Timestamp(TimeUnit::Microsecond, _) => built!(TimestampMicrosecondType, value),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => built!(TimestampNanosecondType, value),
        DataType::Duration(TimeUnit::Second) => built!(DurationSecondType, value),
        DataType::Duration(TimeUnit::Millisecond) => built!(DurationMillisecondType, value),
        DataType::Duration(TimeUnit::Microsecond) => built!(DurationMicrosecondType, value),
        DataType::Duration(TimeUnit::Nanosecond) => built!(DurationNanosecondType, value),
        _ => Err(0),
    }
}

/// The stored number of a value that counts time, with its unit; `None` for other types.
pub(crate) fn stored_number(array: &dyn Array, row: usize) -> Option<String> {
    let unit = match array.data_type() {
        DataType::Date32 => "days since 1970-01-01".to_owned(),
        DataType::Date64 => "ms since 1970-01-01".to_owned(),
        DataType::Timestamp(unit, _) => format!("{} since 1970-01-01", unit_name(*unit)),
        DataType::Time32(unit) | DataType::Time64(unit) => {
            format!("{} since midnight", unit_name(*unit))
        }
        DataType::Duration(unit) => unit_name(*unit).to_owned(),
        _ => return None,
    };
    (row < array.len()).then(|| Some(format!("{} {unit}", reader(array)?(row))))?
}

/// Whether `CAST` between two types cuts counts of time: to a coarser unit, to the day, to the time within a day.
pub(crate) fn cuts(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Duration, Time32, Time64, Timestamp};
    matches!(
        (from, to),
        (Date32 | Date64, Date32 | Date64 | Timestamp(..))
            | (
                Timestamp(..),
                Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..)
            )
            | (Time32(_) | Time64(_), Time32(_) | Time64(_))
            | (Duration(_), Duration(_))
    )
}

/// As `CAST`: the value at or before the given one, before 1970 too, as `DATE_TRUNC`; durations are cut towards zero.
/// `shift` nanoseconds are added before.
///
/// # Errors
/// The first row that is out of range; with `safe` it becomes null instead. Row 0 for types that do not count time.
pub(crate) fn cut(
    array: &dyn Array,
    to: &DataType,
    shift: i128,
    safe: bool,
) -> Result<ArrayRef, usize> {
    let (read, from_step, to_step) = match (reader(array), step(array.data_type()), step(to)) {
        (Some(read), Some(from), Some(to)) => (read, from, to),
        _ => return Err(0),
    };
    let is_short = matches!(to, DataType::Date32 | DataType::Time32(_));
    let value = |row: usize| -> Option<i64> {
        let nanos = i128::from(read(row)) * from_step + shift;
        let steps = match to {
            DataType::Duration(_) => nanos / to_step,
            DataType::Time32(_) | DataType::Time64(_) => {
                nanos.rem_euclid(NANOS_PER_DAY).div_euclid(to_step)
            }
            DataType::Date64 => nanos.div_euclid(NANOS_PER_DAY) * (NANOS_PER_DAY / to_step),
            _ => nanos.div_euclid(to_step),
        };
        let steps = i64::try_from(steps).ok()?;
        (!is_short || i32::try_from(steps).is_ok()).then_some(steps)
    };
    let nulls = array.logical_nulls();
    if !safe {
        return build_steps(array.len(), nulls.as_ref(), to, value);
    }
    let fits = (0..array.len()).map(|row| value(row).is_some());
    let fits = NullBuffer::from_iter(fits);
    let valid = NullBuffer::union(nulls.as_ref(), Some(&fits));
    build_steps(array.len(), valid.as_ref(), to, value)
}
