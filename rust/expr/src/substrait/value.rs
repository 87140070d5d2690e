//! Literals and types of Substrait.

use std::collections::BTreeMap;

use arrow_schema::{DataType, TimeUnit};
use prost::Message;

use super::refuse::{PLACE, unsupported};
use crate::{
    calendar::{NANOS_PER_DAY, unit_nanos},
    error::{Error, Result},
    proto::substrait::{
        expression::{
            Literal,
            literal::{Decimal, LiteralType, UserDefined},
        },
        r#type::Kind,
    },
    scalar::Scalar,
    types::{UTC, unit_of_digits},
};

/// A wrapper of one value, as `google.protobuf` has them: the value is field 1.
#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(uint64, tag = "1")]
    value: u64,
}

/// As [`Number`].
#[derive(Clone, PartialEq, Message)]
struct Text {
    #[prost(string, tag = "1")]
    value: String,
}

/// As [`Number`].
#[derive(Clone, PartialEq, Message)]
struct Blob {
    #[prost(bytes = "vec", tag = "1")]
    value: Vec<u8>,
}

/// A literal of the message; `types` are the names declared.
pub(super) fn literal(literal: Literal, types: &BTreeMap<u32, String>) -> Result<Scalar> {
    let Some(value) = literal.literal_type else {
        return Err(unsupported("a literal of a type without counterpart"));
    };
    Ok(match value {
        LiteralType::Boolean(value) => Scalar::Boolean(value),
        LiteralType::I8(value) | LiteralType::I16(value) | LiteralType::I32(value) => {
            Scalar::Integer(value.into())
        }
        LiteralType::I64(value) => Scalar::Integer(value.into()),
        LiteralType::Fp32(value) => Scalar::Float(value.into()),
        LiteralType::Fp64(value) => Scalar::Float(value),
        LiteralType::String(text) => Scalar::String(text),
        LiteralType::Binary(bytes) | LiteralType::FixedBinary(bytes) => {
            Scalar::Binary(bytes.into())
        }
        LiteralType::Date(days) => Scalar::Date(days),
        LiteralType::Time(micros) => time(micros, 6)?,
        LiteralType::PrecisionTime(time_of_day) => time(time_of_day.value, time_of_day.precision)?,
        LiteralType::Timestamp(micros) => timestamp(micros, 6, false)?,
        LiteralType::TimestampTz(micros) => timestamp(micros, 6, true)?,
        LiteralType::PrecisionTimestamp(at) => timestamp(at.value, at.precision, false)?,
        LiteralType::PrecisionTimestampTz(at) => timestamp(at.value, at.precision, true)?,
        LiteralType::Decimal(value) => decimal(&value)?,
        LiteralType::Null(_) => Scalar::Null,
        LiteralType::UserDefined(value) => user_defined(value, types)?,
    })
}

/// Literals of Arrow types that Substrait lacks; Arrow wraps each in a message of its own.
fn user_defined(literal: UserDefined, types: &BTreeMap<u32, String>) -> Result<Scalar> {
    let name = types.get(&literal.type_reference).map(String::as_str);
    let bytes = literal.value.unwrap_or_default().value;
    let broken = |error| Error::invalid(PLACE, format!("a literal's bytes are none: {error}"));
    Ok(match name {
        Some("u8" | "u16" | "u32" | "u64") => {
            Scalar::Integer(Number::decode(bytes).map_err(broken)?.value.into())
        }
        Some("large_string") => Scalar::String(Text::decode(bytes).map_err(broken)?.value),
        Some("large_binary") => Scalar::Binary(Blob::decode(bytes).map_err(broken)?.value),
        other => {
            let name = other.unwrap_or("without name");
            return Err(unsupported(format_args!("a literal of type {name}")));
        }
    })
}

/// The Arrow type of a Substrait type without members; `types` are the names that the message declares.
pub(super) fn data_type(kind: &Kind, types: &BTreeMap<u32, String>) -> Option<DataType> {
    Some(match kind {
        Kind::Bool(_) => DataType::Boolean,
        Kind::I8(_) => DataType::Int8,
        Kind::I16(_) => DataType::Int16,
        Kind::I32(_) => DataType::Int32,
        Kind::I64(_) => DataType::Int64,
        Kind::Fp32(_) => DataType::Float32,
        Kind::Fp64(_) => DataType::Float64,
        Kind::String(_) => DataType::Utf8,
        Kind::Binary(_) => DataType::Binary,
        Kind::Date(_) => DataType::Date32,
        Kind::Time(_) => DataType::Time64(TimeUnit::Microsecond),
        Kind::Timestamp(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
        Kind::TimestampTz(_) => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        Kind::PrecisionTimestamp(of) => DataType::Timestamp(unit(of.precision)?, None),
        Kind::PrecisionTimestampTz(of) => {
            DataType::Timestamp(unit(of.precision)?, Some(UTC.into()))
        }
        Kind::Decimal(of) => {
            let (precision, scale) = (
                u8::try_from(of.precision).ok()?,
                i8::try_from(of.scale).ok()?,
            );
            let fits = (1..=38).contains(&precision)
                && u8::try_from(scale).is_ok_and(|scale| scale <= precision);
            fits.then_some(DataType::Decimal128(precision, scale))?
        }
        Kind::UserDefined(of) => match types.get(&of.type_reference)?.as_str() {
            "u8" => DataType::UInt8,
            "u16" => DataType::UInt16,
            "u32" => DataType::UInt32,
            "u64" => DataType::UInt64,
            "large_string" => DataType::LargeUtf8,
            "large_binary" => DataType::LargeBinary,
            "fp16" => DataType::Float16,
            _ => return None,
        },
        Kind::Struct(_) | Kind::List(_) | Kind::Map(_) => return None,
    })
}
fn unit(digits: i32) -> Option<TimeUnit> {
    u8::try_from(digits).ok().and_then(unit_of_digits)
}

/// Nanoseconds of a value whose unit has this many decimal digits after the second.
fn nanos(value: i64, digits: i32) -> Result<i128> {
    let unit = unit(digits).ok_or_else(|| unsupported("a time of an unusual precision"))?;
    Ok(i128::from(value) * i128::from(unit_nanos(unit)))
}

fn time(value: i64, digits: i32) -> Result<Scalar> {
    let nanos = nanos(value, digits)?;
    match i64::try_from(nanos) {
        Ok(of_day) if (0..NANOS_PER_DAY).contains(&nanos) => Ok(Scalar::Time(of_day)),
        _ => Err(Error::invalid(PLACE, "a time of day beyond the day")),
    }
}

fn timestamp(value: i64, digits: i32, zoned: bool) -> Result<Scalar> {
    nanos(value, digits).map(|nanos| Scalar::Timestamp { nanos, zoned })
}

fn decimal(decimal: &Decimal) -> Result<Scalar> {
    let unscaled = <[u8; 16]>::try_from(decimal.value.as_ref())
        .map(i128::from_le_bytes)
        .map_err(|_| unsupported("a decimal of another width than 16 bytes"))?;
    // Sixteen bytes hold more than the 38 digits of the type.
    if unscaled.unsigned_abs() >= 10_u128.pow(38) {
        return Err(unsupported("a decimal of more than 38 digits"));
    }
    match u8::try_from(decimal.scale) {
        Ok(scale @ ..=38) => Ok(Scalar::Decimal { unscaled, scale }),
        _ => Err(unsupported("a decimal with a negative or a large scale")),
    }
}
