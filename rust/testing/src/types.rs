//! Arrow types that tests of several crates go through.

use arrow_schema::{DataType, TimeUnit};

/// All units of times, durations and timestamps.
pub const TIME_UNITS: [TimeUnit; 4] = [
    TimeUnit::Second,
    TimeUnit::Millisecond,
    TimeUnit::Microsecond,
    TimeUnit::Nanosecond,
];

/// The types of one fixed size that have no parameters, with null.
#[must_use]
pub fn plain_types() -> Vec<DataType> {
    use DataType::*;
    vec![
        Null, Boolean, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32,
        Float64, Date32, Date64,
    ]
}
