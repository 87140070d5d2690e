//! Literals with their types, and conversions between the types of bound expressions.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Schema};

use crate::{
    bound::{Bound, Typed},
    error::{Error, Result, shorten},
    eval,
    expr::Expr,
    kernel::{
        cast::{CastObstacle, cast_obstacle},
        zone::{foreign_zone, is_known_zone},
    },
    place::{array_of, default_type, scalar_at},
    scalar::Scalar,
    types::unpacked_type,
};

pub(super) fn negated(inner: Typed) -> Typed {
    let nullable = inner.nullable;
    Typed::boolean(Bound::Not(Box::new(inner)), nullable)
}

pub(super) fn typed_literal(scalar: Scalar, array: arrow_array::ArrayRef) -> Typed {
    Typed {
        data_type: array.data_type().clone(),
        nullable: scalar == Scalar::Null,
        node: Bound::Literal(scalar, array),
    }
}

pub(super) fn literal(scalar: Scalar, expr: &Expr) -> Result<Typed> {
    let too_large = || {
        Error::invalid(
            expr,
            format!("{} out of the range of every type", scalar.kind()),
        )
    };
    let data_type = default_type(&scalar).ok_or_else(too_large)?;
    let array = array_of(&scalar, &data_type).ok_or_else(too_large)?;
    Ok(typed_literal(scalar, array))
}

/// Null of any type.
pub(super) fn null_of(data_type: &DataType) -> Typed {
    typed_literal(Scalar::Null, arrow_array::new_null_array(data_type, 1))
}

pub(super) fn null_boolean() -> Typed {
    null_of(&DataType::Boolean)
}

/// A conversion that the language inserts without being asked, because it loses nothing.
pub(super) fn convert(inner: Typed, data_type: &DataType, expr: &Expr) -> Result<Typed> {
    if inner.data_type == *data_type {
        return Ok(inner);
    }
    let (nullable, data_type) = (inner.nullable, data_type.clone());
    if inner.literal() == Some(&Scalar::Null) {
        return Ok(null_of(&data_type));
    }
    let node = Bound::Cast(Box::new(inner), shorten(expr));
    fold(Typed {
        node,
        data_type,
        nullable,
    })
}

/// A conversion that the expression asks for by `CAST`, or that an assignment needs.
pub(super) fn cast(inner: Typed, data_type: &DataType, expr: &Expr) -> Result<Typed> {
    castable(&inner, data_type, expr)?;
    convert(inner, data_type, expr)
}

/// As [`cast`], with null for a value that does not convert.
pub(super) fn try_cast(inner: Typed, data_type: &DataType, expr: &Expr) -> Result<Typed> {
    castable(&inner, data_type, expr)?;
    if inner.data_type == *data_type || inner.literal() == Some(&Scalar::Null) {
        return convert(inner, data_type, expr);
    }
    fold(Typed {
        node: Bound::TryCast(Box::new(inner), shorten(expr)),
        data_type: data_type.clone(),
        nullable: true,
    })
}

fn castable(inner: &Typed, data_type: &DataType, expr: &Expr) -> Result<()> {
    let from = unpacked_type(&inner.data_type);
    match cast_obstacle(from, data_type) {
        None => Ok(()),
        Some(CastObstacle::Types) => Err(Error::mismatch(from, data_type, expr)),
        Some(CastObstacle::LocalTimes(zone)) => Err(Error::unsupported(format!(
            "a conversion by the rules of zone {zone} in {}; use UTC or a fixed offset",
            shorten(expr)
        ))),
        Some(CastObstacle::UnknownZone(zone)) => Err(unknown_zone(&zone, expr)),
    }
}

/// Refuses a zone that the time zone data base does not have.
pub(super) fn known_zone(data_type: &DataType, expr: &Expr) -> Result<()> {
    match foreign_zone(data_type) {
        Some(zone) if !is_known_zone(zone) => Err(unknown_zone(zone, expr)),
        _ => Ok(()),
    }
}

fn unknown_zone(zone: &str, expr: &Expr) -> Error {
    Error::invalid(
        expr,
        format!(
            "the time zone {zone} is not known; CAST to TIMESTAMP WITH TIME ZONE reads it as UTC"
        ),
    )
}

/// Replaces an operation on literals by its result.
pub(super) fn fold(typed: Typed) -> Result<Typed> {
    let constant = match &typed.node {
        Bound::Arithmetic(_, left, right, _) | Bound::Quotient(left, right, _) => {
            left.literal().is_some() && right.literal().is_some()
        }
        Bound::Negate(inner, _)
        | Bound::Cast(inner, _)
        | Bound::TryCast(inner, _)
        | Bound::Call(_, inner, _) => inner.literal().is_some(),
        Bound::Function(_, arguments, _) => arguments.iter().all(|one| one.literal().is_some()),
        _ => false,
    };
    if !constant {
        return Ok(typed);
    }
    let one_row = RecordBatch::try_new_with_options(
        Arc::new(Schema::empty()),
        Vec::new(),
        &RecordBatchOptions::new().with_row_count(Some(1)),
    )
    .map_err(|error| Error::invalid("a constant", error.to_string()))?;
    let array = eval::eval(&typed, &one_row)?.into_array(1)?;
    Ok(match scalar_at(&array) {
        Some(scalar) => typed_literal(scalar, array),
        None => typed,
    })
}

/// The operand with dictionaries replaced by their values.
pub(super) fn unpack(operand: Typed, expr: &Expr) -> Result<Typed> {
    let data_type = unpacked_type(&operand.data_type).clone();
    convert(operand, &data_type, expr)
}

/// The operand with decimals of 32 and 64 bits as decimals of 128 bits, in which kernels compute and compare.
pub(super) fn widened_decimal(operand: Typed, expr: &Expr) -> Result<Typed> {
    match unpacked_type(&operand.data_type) {
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            let wide = DataType::Decimal128(*precision, *scale);
            convert(operand, &wide, expr)
        }
        _ => Ok(operand),
    }
}

/// The operand in the type in which a negation or an absolute value is computed.
pub(super) fn signed(operand: Typed, expr: &Expr) -> Result<Typed> {
    let data_type = match &operand.data_type {
        DataType::UInt64 => DataType::Decimal128(20, 0),
        other if other.is_integer() => DataType::Int64,
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        other => other.clone(),
    };
    convert(operand, &data_type, expr)
}
