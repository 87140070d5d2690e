//! Conversions between units of time, by nanoseconds in 128 bits.

use arrow_array::{Array, ArrayRef, cast::AsArray, types::*};
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano, NullBuffer};
use arrow_schema::{DataType, IntervalUnit};

use crate::{
    calendar::NANOS_PER_DAY,
    time_steps::{build, build_steps, reader, step},
};

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
    build_steps(array.len(), valid, to, value)
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
