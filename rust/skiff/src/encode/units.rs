//! Refuses a column whose values would be other values in the type that the format has for it.
//!
//! A stream has the plain number of an integer, a decimal or a time. Written from a column of another kind, scale or unit, the
//! same number would be read as another value. Nothing is converted here: a cast is for the caller to choose.

use arrow_schema::{DataType, Field, TimeUnit};

use crate::schema::{WireType, is_uuid};

/// What the numbers of an Arrow type mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Integer,
    Float,
    /// With its scale.
    Decimal(i8),
    Date32,
    Date64,
    TimeOfDay(TimeUnit),
    /// The zone is for display: the number is the same instant.
    Timestamp(TimeUnit),
    Duration(TimeUnit),
    Uuid,
    Bytes(i32),
    Other,
}

impl Meaning {
    fn of(field: &Field, data_type: &DataType) -> Self {
        match data_type {
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Self::Float,
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale) => Self::Decimal(*scale),
            DataType::Date32 => Self::Date32,
            DataType::Date64 => Self::Date64,
            DataType::Time32(unit) | DataType::Time64(unit) => Self::TimeOfDay(*unit),
            DataType::Timestamp(unit, _) => Self::Timestamp(*unit),
            DataType::Duration(unit) => Self::Duration(*unit),
            DataType::FixedSizeBinary(16) if is_uuid(field) => Self::Uuid,
            DataType::FixedSizeBinary(width) => Self::Bytes(*width),
            other if other.is_integer() => Self::Integer,
            _ => Self::Other,
        }
    }
}

/// True when the number of a value of `given`, whose type is `given_type`, would be read as another value of `expected`.
pub(crate) fn differ(
    wire: WireType,
    expected: &Field,
    given: &Field,
    given_type: &DataType,
) -> bool {
    // The bytes of a string are the same in every layout.
    if matches!(wire, WireType::String32 | WireType::Yson32) {
        return false;
    }
    let expected = Meaning::of(expected, expected.data_type());
    let given = Meaning::of(given, given_type);
    expected != given && expected != Meaning::Other && given != Meaning::Other
}
