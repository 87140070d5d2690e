//! The type that holds all values of two types.

use arrow_schema::{DataType, TimeUnit};

use super::convert::{convert, null_of, typed_literal};
use crate::{
    bound::Typed,
    calendar::unit_nanos,
    error::{Error, Result},
    expr::Expr,
    place::{Place, array_of, place},
    scalar::Scalar,
    types::unpacked_type,
};

/// Digits of the widest value of an integer type.
pub(super) fn integer_digits(data_type: &DataType) -> Option<u8> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        DataType::Int64 => 19,
        DataType::UInt64 => 20,
        _ => return None,
    })
}

fn is_string(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

fn is_binary(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    matches!(
        data_type,
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_)
    )
}

/// Precision and scale of a decimal or of an integer as one.
fn digits(data_type: &DataType) -> Option<(i16, i16)> {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            Some((i16::from(*precision), i16::from(*scale)))
        }
        other => integer_digits(other).map(|digits| (i16::from(digits), 0)),
    }
}

fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    if unit_nanos(a) < unit_nanos(b) { a } else { b }
}

/// The type that holds the values of both (dictionaries count as their values); `None` if they are of different kinds.
pub(super) fn common_type(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{
        Date32, Date64, Decimal128, Decimal256, Duration, Float16, Float32, Float64, Int64,
        LargeBinary, LargeUtf8, Time32, Time64, Timestamp, UInt64,
    };
    let (left, right) = (unpacked_type(left), unpacked_type(right));
    if left == right {
        return Some(left.clone());
    }
    match (left, right) {
        (a, b) if a.is_integer() && b.is_integer() => Some(match (a, b) {
            (UInt64, other) | (other, UInt64) if other.is_signed_integer() => Decimal128(20, 0),
            (UInt64, _) | (_, UInt64) => UInt64,
            _ => Int64,
        }),
        (Float16, Float32) | (Float32, Float16) => Some(Float32),
        // As DuckDB: both are compared as float32, so a decimal equals the float32 nearest to it.
        (Float16 | Float32, decimal) | (decimal, Float16 | Float32) if decimal.is_decimal() => {
            Some(Float32)
        }
        (a, b) if a.is_floating() && b.is_numeric() || a.is_numeric() && b.is_floating() => {
            Some(Float64)
        }
        (a, b) if a.is_numeric() && b.is_numeric() => {
            let ((p, s), (q, t)) = (digits(a)?, digits(b)?);
            let scale = s.max(t);
            let precision = (p - s).max(q - t) + scale;
            let scale = i8::try_from(scale).ok()?;
            match u8::try_from(precision.max(1)).ok()? {
                narrow @ ..=38 => Some(Decimal128(narrow, scale)),
                wide @ ..=76 => Some(Decimal256(wide, scale)),
                _ => None,
            }
        }
        (a, b) if is_string(a) && is_string(b) => Some(LargeUtf8),
        (a, b) if is_binary(a) && is_binary(b) => Some(LargeBinary),
        (Date32, Date64) | (Date64, Date32) => Some(Date64),
        (Date32 | Date64, Timestamp(unit, None)) | (Timestamp(unit, None), Date32 | Date64) => {
            Some(Timestamp(finer(*unit, TimeUnit::Millisecond), None))
        }
        (Timestamp(a, zone), Timestamp(b, other)) if zone.is_some() == other.is_some() => {
            Some(Timestamp(finer(*a, *b), zone.clone()))
        }
        (Time32(a) | Time64(a), Time32(b) | Time64(b)) => Some(match finer(*a, *b) {
            unit @ (TimeUnit::Second | TimeUnit::Millisecond) => Time32(unit),
            unit => Time64(unit),
        }),
        (Duration(a), Duration(b)) => Some(Duration(finer(*a, *b))),
        _ => None,
    }
}

/// Gives the arms of a `CASE` one type. Literals take the type of the columns where that is exact.
pub(super) fn unify(values: Vec<Typed>, expr: &Expr) -> Result<(DataType, Vec<Typed>)> {
    let mut chosen: Option<DataType> = None;
    let add = |chosen: &mut Option<DataType>, next: &DataType| -> Result<()> {
        let next = unpacked_type(next);
        *chosen = Some(match chosen.as_ref() {
            None => next.clone(),
            Some(so_far) => {
                common_type(so_far, next).ok_or_else(|| Error::mismatch(so_far, next, expr))?
            }
        });
        Ok(())
    };
    for value in values.iter().filter(|value| value.literal().is_none()) {
        if value.data_type != DataType::Null {
            add(&mut chosen, &value.data_type)?;
        }
    }
    let has_columns = chosen.is_some();
    for value in &values {
        if let Some(scalar) = value.literal().filter(|scalar| **scalar != Scalar::Null) {
            let is_negative_zero = scalar.is_negative_zero();
            // A float64 literal keeps its type although a float32 could hold its value. Negative zero fits every float, and
            // takes the type of a column of integers or decimals; beside literals alone it needs a float.
            let widens = |so_far: &DataType| match so_far {
                DataType::Float16 | DataType::Float32 => {
                    matches!(scalar, Scalar::Float(_))
                        && value.data_type == DataType::Float64
                        && !is_negative_zero
                }
                other => is_negative_zero && !has_columns && !other.is_floating(),
            };
            let fits = chosen
                .as_ref()
                .is_some_and(|so_far| !widens(so_far) && array_of(scalar, so_far).is_some());
            if !fits {
                add(&mut chosen, &value.data_type)?;
            }
        }
    }
    let data_type = chosen.unwrap_or(DataType::Null);
    let values = values
        .into_iter()
        .map(|value| match value.literal() {
            Some(Scalar::Null) => Ok(null_of(&data_type)),
            Some(scalar) => match place(&data_type, scalar) {
                Some(Place::At(array)) => Ok(typed_literal(scalar.clone(), array)),
                _ => convert(value, &data_type, expr),
            },
            None => convert(value, &data_type, expr),
        })
        .collect::<Result<_>>()?;
    Ok((data_type, values))
}
