//! Types of the operands and results of arithmetic.

use arrow_array::new_empty_array;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use super::{
    common::{common_type, integer_digits},
    convert::{convert, fold, literal, null_of, signed, unpack, widened_decimal},
};
use crate::{
    bound::{Bound, Typed},
    calendar::unit_nanos,
    error::{Error, Result, shorten},
    expr::{ArithmeticOp, Expr},
    kernel::{arithmetic::arithmetic_kernel, zone::foreign_zone},
    scalar::Scalar,
};

/// Integers compute in 64 bits; with unsigned 64 bits in decimals, which hold every difference.
fn integer_type(left: &DataType, right: &DataType) -> DataType {
    if *left == DataType::UInt64 || *right == DataType::UInt64 {
        DataType::Decimal128(20, 0)
    } else {
        DataType::Int64
    }
}

/// Float32 stays what it is beside anything but float64, as in DuckDB; without any float the result of a division is float64.
fn float_type(left: &DataType, right: &DataType) -> DataType {
    let single = |t: &DataType| matches!(t, DataType::Float16 | DataType::Float32);
    if (single(left) && *right != DataType::Float64)
        || (single(right) && *left != DataType::Float64)
    {
        DataType::Float32
    } else {
        DataType::Float64
    }
}

/// True for integers, and for decimals that are results of integer arithmetic with uint64.
fn is_whole(operand: &Typed) -> bool {
    operand.data_type.is_integer()
        || matches!(operand.data_type, DataType::Decimal128(_, 0))
            && match &operand.node {
                // A converted literal does not show whether it was an integer; its scale of 0 has to do.
                Bound::Literal(..) => true,
                Bound::Arithmetic(_, left, right, _) | Bound::Quotient(left, right, _) => {
                    is_whole(left) && is_whole(right)
                }
                Bound::Cast(inner, _) | Bound::Negate(inner, _) | Bound::Call(_, inner, _) => {
                    is_whole(inner)
                }
                _ => false,
            }
}

/// Converts two operands that [are whole](is_whole) to one type.
fn wholes(left: Typed, right: Typed, expr: &Expr) -> Result<(Typed, Typed)> {
    let (l, r) = (&left.data_type, &right.data_type);
    let data_type = if l.is_integer() && r.is_integer() {
        integer_type(l, r)
    } else {
        DataType::Decimal128(38, 0)
    };
    Ok((
        convert(left, &data_type, expr)?,
        convert(right, &data_type, expr)?,
    ))
}

/// A literal -0.0 in the type of the other operand: as a float of its width, and as the decimal 0.0 beside integers and
/// decimals, except in a division, which computes in floats. Every other operand as it is.
fn beside(operand: Typed, other: &Typed, op: ArithmeticOp, expr: &Expr) -> Result<Typed> {
    if !operand.literal().is_some_and(Scalar::is_negative_zero) {
        return Ok(operand);
    }
    match &other.data_type {
        DataType::Float16 | DataType::Float32 => convert(operand, &DataType::Float32, expr),
        other if other.is_floating() || op == ArithmeticOp::Divide => Ok(operand),
        _ => {
            let zero = Scalar::Decimal {
                unscaled: 0,
                scale: 1,
            };
            literal(zero, expr)
        }
    }
}

/// An operand of decimal arithmetic: integers become decimals of as many digits as they need.
fn as_decimal(operand: Typed, expr: &Expr) -> Result<Typed> {
    let digits = match operand.literal() {
        Some(Scalar::Integer(value)) => u8::try_from(value.unsigned_abs().to_string().len()).ok(),
        _ => integer_digits(&operand.data_type),
    };
    match digits {
        Some(digits) if operand.data_type.is_integer() => {
            convert(operand, &DataType::Decimal128(digits, 0), expr)
        }
        _ => Ok(operand),
    }
}

pub(super) fn arithmetic(
    op: ArithmeticOp,
    left: Typed,
    right: Typed,
    expr: &Expr,
) -> Result<Typed> {
    let (left, right) = (
        widened_decimal(unpack(left, expr)?, expr)?,
        widened_decimal(unpack(right, expr)?, expr)?,
    );
    let (left, right) = match (&left.data_type, &right.data_type) {
        (DataType::Null, DataType::Null) => return Ok(null_of(&DataType::Int64)),
        (DataType::Null, other) => (null_of(&null_partner(other)), right),
        (other, DataType::Null) => {
            let null = null_of(&null_partner(other));
            (left, null)
        }
        _ => (left, right),
    };
    let left = beside(left, &right, op, expr)?;
    let right = beside(right, &left, op, expr)?;
    let (l, r) = (&left.data_type, &right.data_type);
    let both_numeric = l.is_numeric() && r.is_numeric();
    if op == ArithmeticOp::IntegerDivide && !(is_whole(&left) && is_whole(&right)) {
        return Err(Error::mismatch(l, r, expr));
    }
    let (left, right) = if both_numeric {
        if op == ArithmeticOp::IntegerDivide {
            wholes(left, right, expr)?
        } else if op == ArithmeticOp::Divide || l.is_floating() || r.is_floating() {
            let data_type = float_type(l, r);
            (
                convert(left, &data_type, expr)?,
                convert(right, &data_type, expr)?,
            )
        } else if l.is_integer() && r.is_integer() {
            let data_type = integer_type(l, r);
            (
                convert(left, &data_type, expr)?,
                convert(right, &data_type, expr)?,
            )
        } else {
            let (left, right) = (as_decimal(left, expr)?, as_decimal(right, expr)?);
            same_decimal_width(left, right, expr)?
        }
    } else {
        temporal(op, left, right, expr)?
    };
    let subtracts_days = op == ArithmeticOp::Subtract && left.data_type == DataType::Date32;
    let (left, right) = if subtracts_days {
        let days = |date| {
            convert(
                convert(date, &DataType::Int32, expr)?,
                &DataType::Int64,
                expr,
            )
        };
        (days(left)?, days(right)?)
    } else {
        (left, right)
    };
    // The kernel on empty arrays gives the result type, so it cannot differ from evaluation.
    let data_type = arithmetic_kernel(
        op,
        &new_empty_array(&left.data_type),
        &new_empty_array(&right.data_type),
    )
    .map_err(|_| Error::mismatch(&left.data_type, &right.data_type, expr))?
    .data_type()
    .clone();
    let divides = matches!(op, ArithmeticOp::IntegerDivide | ArithmeticOp::Modulo);
    let nullable = left.nullable || right.nullable || divides;
    let text = shorten(expr);
    let node = Bound::Arithmetic(op, Box::new(left), Box::new(right), text);
    fold(Typed {
        node,
        data_type,
        nullable,
    })
}

/// `DIVIDE`: integer division if both operands are integers, else division of floats.
pub(super) fn divide(dividend: Typed, divisor: Typed, expr: &Expr) -> Result<Typed> {
    let (dividend, divisor) = (unpack(dividend, expr)?, unpack(divisor, expr)?);
    if !(is_whole(&dividend) && is_whole(&divisor)) {
        return arithmetic(ArithmeticOp::Divide, dividend, divisor, expr);
    }
    let (dividend, divisor) = wholes(dividend, divisor, expr)?;
    let data_type = dividend.data_type.clone();
    let nullable = dividend.nullable || divisor.nullable;
    let node = Bound::Quotient(Box::new(dividend), Box::new(divisor), shorten(expr));
    fold(Typed {
        node,
        data_type,
        nullable,
    })
}

/// The type that a null literal takes beside a value of this type.
fn null_partner(other: &DataType) -> DataType {
    match other {
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => {
            DataType::Interval(IntervalUnit::MonthDayNano)
        }
        other => other.clone(),
    }
}

fn same_decimal_width(left: Typed, right: Typed, expr: &Expr) -> Result<(Typed, Typed)> {
    let widen = |operand: Typed| match operand.data_type {
        DataType::Decimal128(precision, scale) => {
            convert(operand, &DataType::Decimal256(precision, scale), expr)
        }
        _ => Ok(operand),
    };
    let wide = |operand: &Typed| matches!(operand.data_type, DataType::Decimal256(..));
    if wide(&left) || wide(&right) {
        return Ok((widen(left)?, widen(right)?));
    }
    Ok((left, right))
}

/// Sums of dates or timestamps with intervals or durations, and differences of two dates or timestamps.
fn temporal(op: ArithmeticOp, left: Typed, right: Typed, expr: &Expr) -> Result<(Typed, Typed)> {
    use DataType::{Date32, Date64, Duration, Interval, Timestamp};
    let mismatch = || Error::mismatch(&left.data_type, &right.data_type, expr);
    let zone_rules = |zoned: &DataType| match foreign_zone(zoned) {
        Some(zone) => Err(Error::unsupported(format!(
            "arithmetic by the rules of zone {zone} in {}; use UTC or a fixed offset",
            shorten(expr)
        ))),
        None => Ok(()),
    };
    match (&left.data_type, &right.data_type) {
        (Interval(_) | Duration(_), Timestamp(..) | Date32 | Date64) if op == ArithmeticOp::Add => {
            temporal(op, right, left, expr)
        }
        (Timestamp(..) | Date32 | Date64, Interval(_))
            if matches!(op, ArithmeticOp::Add | ArithmeticOp::Subtract) =>
        {
            zone_rules(&left.data_type)?;
            let (mut unit, zone) = match &left.data_type {
                Timestamp(unit, zone) => (*unit, zone.clone()),
                _ => (TimeUnit::Microsecond, None),
            };
            let fraction = match right.literal() {
                Some(Scalar::Interval { nanos, .. }) => *nanos,
                _ => 0,
            };
            // An interval finer than the unit of the timestamp would be truncated: take a finer unit.
            for finer in [
                TimeUnit::Millisecond,
                TimeUnit::Microsecond,
                TimeUnit::Nanosecond,
            ] {
                if fraction % unit_nanos(unit) != 0 && unit_nanos(finer) < unit_nanos(unit) {
                    unit = finer;
                }
            }
            Ok((convert(left, &Timestamp(unit, zone), expr)?, right))
        }
        (Date32 | Date64, Date32 | Date64) if op == ArithmeticOp::Subtract => Ok((
            convert(left, &Date32, expr)?,
            convert(right, &Date32, expr)?,
        )),
        (Timestamp(..) | Date32 | Date64, Timestamp(..) | Date32 | Date64)
            if op == ArithmeticOp::Subtract =>
        {
            let data_type = common_type(&left.data_type, &right.data_type).ok_or_else(mismatch)?;
            Ok((
                convert(left, &data_type, expr)?,
                convert(right, &data_type, expr)?,
            ))
        }
        (Timestamp(unit, zone), Duration(other))
            if matches!(op, ArithmeticOp::Add | ArithmeticOp::Subtract) =>
        {
            let unit = if unit_nanos(*other) < unit_nanos(*unit) {
                *other
            } else {
                *unit
            };
            let timestamp = Timestamp(unit, zone.clone());
            Ok((
                convert(left, &timestamp, expr)?,
                convert(right, &Duration(unit), expr)?,
            ))
        }
        (Duration(_), Duration(_)) | (Interval(_), Interval(_))
            if matches!(op, ArithmeticOp::Add | ArithmeticOp::Subtract) =>
        {
            let data_type = common_type(&left.data_type, &right.data_type).ok_or_else(mismatch)?;
            Ok((
                convert(left, &data_type, expr)?,
                convert(right, &data_type, expr)?,
            ))
        }
        _ => Err(mismatch()),
    }
}

pub(super) fn negate(operand: Typed, expr: &Expr) -> Result<Typed> {
    let operand = signed(unpack(operand, expr)?, expr)?;
    let data_type = operand.data_type.clone();
    let negatable = data_type.is_numeric()
        || matches!(
            data_type,
            DataType::Interval(_) | DataType::Duration(_) | DataType::Null
        );
    if !negatable {
        return Err(Error::mismatch(&data_type, &DataType::Int64, expr));
    }
    if data_type == DataType::Null {
        return Ok(null_of(&DataType::Int64));
    }
    let nullable = operand.nullable;
    let node = Bound::Negate(Box::new(operand), shorten(expr));
    fold(Typed {
        node,
        data_type,
        nullable,
    })
}
