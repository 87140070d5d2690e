//! SQL names of types, for `CAST`.

use arrow_schema::{DataType, TimeUnit};

/// The zone of `TIMESTAMP WITH TIME ZONE`.
pub(crate) const UTC: &str = "UTC";

/// Types that `CAST(.. AS ..)` accepts, for messages.
pub(crate) const ALLOWED: &str = "BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT, UTINYINT, USMALLINT, UINTEGER, UBIGINT, \
    HALF, FLOAT, DOUBLE, DECIMAL(p, s), VARCHAR, LARGE_VARCHAR, BINARY, LARGE_BINARY, DATE, DATE64, TIME, \
    TIMESTAMP[(0 | 3 | 6 | 9)] [WITH TIME ZONE]";

const PLAIN: [(&str, DataType); 42] = [
    ("BOOLEAN", DataType::Boolean),
    ("BOOL", DataType::Boolean),
    ("TINYINT", DataType::Int8),
    ("SMALLINT", DataType::Int16),
    ("INTEGER", DataType::Int32),
    ("INT", DataType::Int32),
    ("BIGINT", DataType::Int64),
    ("LONG", DataType::Int64),
    ("UTINYINT", DataType::UInt8),
    ("USMALLINT", DataType::UInt16),
    ("UINTEGER", DataType::UInt32),
    ("UINT", DataType::UInt32),
    ("UBIGINT", DataType::UInt64),
    ("HALF", DataType::Float16),
    ("FLOAT", DataType::Float32),
    ("REAL", DataType::Float32),
    ("DOUBLE", DataType::Float64),
    ("VARCHAR", DataType::Utf8),
    ("STRING", DataType::Utf8),
    ("TEXT", DataType::Utf8),
    ("LARGE_VARCHAR", DataType::LargeUtf8),
    ("LARGE_STRING", DataType::LargeUtf8),
    ("BINARY", DataType::Binary),
    ("VARBINARY", DataType::Binary),
    ("BLOB", DataType::Binary),
    ("BYTEA", DataType::Binary),
    ("LARGE_BINARY", DataType::LargeBinary),
    ("DATE", DataType::Date32),
    ("DATE32", DataType::Date32),
    ("DATE64", DataType::Date64),
    ("TIME", DataType::Time64(TimeUnit::Microsecond)),
    ("TIME_S", DataType::Time32(TimeUnit::Second)),
    ("TIME_MS", DataType::Time32(TimeUnit::Millisecond)),
    ("TIME_NS", DataType::Time64(TimeUnit::Nanosecond)),
    (
        "TIMESTAMP",
        DataType::Timestamp(TimeUnit::Microsecond, None),
    ),
    ("DATETIME", DataType::Timestamp(TimeUnit::Microsecond, None)),
    ("TIMESTAMP_S", DataType::Timestamp(TimeUnit::Second, None)),
    (
        "TIMESTAMP_MS",
        DataType::Timestamp(TimeUnit::Millisecond, None),
    ),
    (
        "TIMESTAMP_US",
        DataType::Timestamp(TimeUnit::Microsecond, None),
    ),
    (
        "TIMESTAMP_NS",
        DataType::Timestamp(TimeUnit::Nanosecond, None),
    ),
    ("FLOAT16", DataType::Float16),
    ("FLOAT32", DataType::Float32),
];

/// The type of a name without arguments.
pub(crate) fn named(name: &str) -> Option<DataType> {
    PLAIN
        .iter()
        .find(|(plain, _)| plain.eq_ignore_ascii_case(name))
        .map(|(_, data_type)| data_type.clone())
}

/// The SQL name of a type, if it has one; [`named`] and the parser read it back.
pub(crate) fn name_of(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Decimal128(precision, scale) if *scale >= 0 => {
            Some(format!("DECIMAL({precision}, {scale})"))
        }
        DataType::Decimal256(precision, scale) if *precision > 38 && *scale >= 0 => {
            Some(format!("DECIMAL({precision}, {scale})"))
        }
        DataType::Timestamp(unit, Some(zone)) if &**zone == UTC => {
            let digits = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond => 6,
                TimeUnit::Nanosecond => 9,
            };
            Some(format!("TIMESTAMP({digits}) WITH TIME ZONE"))
        }
        other => PLAIN
            .iter()
            .find(|(_, plain)| plain == other)
            .map(|(name, _)| (*name).to_owned()),
    }
}

/// The unit of `TIMESTAMP(digits)`.
pub(crate) fn unit_of_digits(digits: u8) -> Option<TimeUnit> {
    Some(match digits {
        0 => TimeUnit::Second,
        3 => TimeUnit::Millisecond,
        6 => TimeUnit::Microsecond,
        9 => TimeUnit::Nanosecond,
        _ => return None,
    })
}

/// The type of the values of a dictionary, or the type itself.
pub(crate) fn unpacked_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Precision and scale of a decimal type.
pub(crate) fn digits_of(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => Some((*p, *s)),
        _ => None,
    }
}
