//! Conversions between units of time, by nanoseconds in 128 bits.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, cast::AsArray, types::*};
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano, NullBuffer};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::calendar::{NANOS_PER_DAY, unit_nanos};

const NANOS_PER_MILLI: i128 = 1_000_000;

/// Nanoseconds of one step of a type that counts time; `None` for other types.
fn step(data_type: &DataType) -> Option<i128> {
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

/// Why a value was refused, for messages.
pub(crate) fn reason(to: &DataType) -> &'static str {
    match to {
        DataType::Date32 | DataType::Date64 => "it is not midnight of a day in range",
        DataType::Time32(_) | DataType::Time64(_) => {
            "it is finer than the unit, or not within one day"
        }
        DataType::Interval(_) => "the type has no place for its other parts",
        _ => "it is finer than the unit, or out of its range",
    }
}

/// Reads the stored integers of a type that counts time.
fn reader(array: &dyn Array) -> Option<Box<dyn Fn(usize) -> i64 + '_>> {
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

/// Converts dates, times, timestamps and durations; the caller has checked that the kinds go together.
///
/// # Errors
/// The first row whose value the type does not hold; row 0 for a type that does not count time.
pub(crate) fn instants(
    array: &dyn Array,
    to: &DataType,
    valid: Option<&NullBuffer>,
) -> Result<ArrayRef, usize> {
    let (read, from_step, to_step) = match (reader(array), step(array.data_type()), step(to)) {
        (Some(read), Some(from), Some(to)) => (read, from, to),
        _ => return Err(0),
    };
    // Both hold whole days only.
    let whole_days = matches!(to, DataType::Date32 | DataType::Date64);
    let time_of_day = matches!(to, DataType::Time32(_) | DataType::Time64(_));
    let value = |row: usize| -> Option<i64> {
        let nanos = i128::from(read(row)) * from_step;
        let exact = nanos % to_step == 0
            && (!whole_days || nanos % NANOS_PER_DAY == 0)
            && (!time_of_day || (0..NANOS_PER_DAY).contains(&nanos));
        exact.then(|| i64::try_from(nanos / to_step).ok())?
    };
    let short = |row: usize| value(row).and_then(|value| i32::try_from(value).ok());
    let rows = array.len();
    match to {
        DataType::Date32 => build::<Date32Type>(rows, valid, to, short),
        DataType::Date64 => build::<Date64Type>(rows, valid, to, value),
        DataType::Time32(TimeUnit::Second) => build::<Time32SecondType>(rows, valid, to, short),
        DataType::Time32(_) => build::<Time32MillisecondType>(rows, valid, to, short),
        DataType::Time64(TimeUnit::Microsecond) => {
            build::<Time64MicrosecondType>(rows, valid, to, value)
        }
        DataType::Time64(_) => build::<Time64NanosecondType>(rows, valid, to, value),
        DataType::Timestamp(TimeUnit::Second, _) => {
            build::<TimestampSecondType>(rows, valid, to, value)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            build::<TimestampMillisecondType>(rows, valid, to, value)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            build::<TimestampMicrosecondType>(rows, valid, to, value)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            build::<TimestampNanosecondType>(rows, valid, to, value)
        }
        DataType::Duration(TimeUnit::Second) => build::<DurationSecondType>(rows, valid, to, value),
        DataType::Duration(TimeUnit::Millisecond) => {
            build::<DurationMillisecondType>(rows, valid, to, value)
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            build::<DurationMicrosecondType>(rows, valid, to, value)
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            build::<DurationNanosecondType>(rows, valid, to, value)
        }
        _ => Err(0),
    }
}

/// Converts between the kinds of intervals; one of both is `month_day_nano`.
///
/// # Errors
/// The first row whose value the type does not hold; row 0 for other types.
pub(crate) fn intervals(
    array: &dyn Array,
    to: &DataType,
    valid: Option<&NullBuffer>,
) -> Result<ArrayRef, usize> {
    use IntervalUnit::{DayTime, MonthDayNano, YearMonth};
    let rows = array.len();
    match (array.data_type(), to) {
        (DataType::Interval(YearMonth), DataType::Interval(MonthDayNano)) => {
            let values = array
                .as_primitive_opt::<IntervalYearMonthType>()
                .ok_or(0_usize)?;
            build::<IntervalMonthDayNanoType>(rows, valid, to, |row| {
                Some(IntervalMonthDayNano::new(values.value(row), 0, 0))
            })
        }
        (DataType::Interval(DayTime), DataType::Interval(MonthDayNano)) => {
            let values = array
                .as_primitive_opt::<IntervalDayTimeType>()
                .ok_or(0_usize)?;
            build::<IntervalMonthDayNanoType>(rows, valid, to, |row| {
                let value = values.value(row);
                let nanos = i64::from(value.milliseconds).checked_mul(1_000_000)?;
                Some(IntervalMonthDayNano::new(0, value.days, nanos))
            })
        }
        (DataType::Interval(MonthDayNano), DataType::Interval(unit)) => {
            let values = array
                .as_primitive_opt::<IntervalMonthDayNanoType>()
                .ok_or(0_usize)?;
            match unit {
                YearMonth => build::<IntervalYearMonthType>(rows, valid, to, |row| {
                    let value = values.value(row);
                    (value.days == 0 && value.nanoseconds == 0).then_some(value.months)
                }),
                _ => build::<IntervalDayTimeType>(rows, valid, to, |row| {
                    let value = values.value(row);
                    let exact = value.months == 0 && value.nanoseconds % 1_000_000 == 0;
                    let millis = i32::try_from(value.nanoseconds / 1_000_000).ok()?;
                    exact.then(|| IntervalDayTime::new(value.days, millis))
                }),
            }
        }
        _ => Err(0),
    }
}
