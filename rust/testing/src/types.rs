//! Lists of Arrow types, over which the tests of several crates loop.

use arrow_schema::{DataType, TimeUnit};

/// All units of times, durations and timestamps.
pub const TIME_UNITS: [TimeUnit; 4] = [
    TimeUnit::Second,
    TimeUnit::Millisecond,
    TimeUnit::Microsecond,
    TimeUnit::Nanosecond,
];

/// Returns `Null` and every Arrow type without parameters whose values all have one size.
#[must_use]
pub fn plain_types() -> Vec<DataType> {
    use DataType::*;
    vec![
        Null, Boolean, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32,
        Float64, Date32, Date64,
    ]
}
