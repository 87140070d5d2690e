//! Arithmetic on two arrays, checked.

use std::sync::Arc;

use arrow_arith::numeric;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, Datum, Decimal128Array, PrimitiveArray,
    cast::AsArray,
    types::{Decimal128Type, Decimal256Type, Int64Type},
};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::{ArrowError, DataType};
use arrow_select::nullif::nullif;

use super::{
    value::Value,
    zone::{neutral, relabel},
};
use crate::expr::ArithmeticOp;

/// The kernel of an operation on two arrays of equal length.
pub(crate) fn arithmetic_kernel(
    op: ArithmeticOp,
    left: &ArrayRef,
    right: &ArrayRef,
) -> Result<ArrayRef, ArrowError> {
    arithmetic(
        op,
        &Value::array(Arc::clone(left)),
        &Value::array(Arc::clone(right)),
    )
}

pub(crate) fn arithmetic(
    op: ArithmeticOp,
    left: &Value,
    right: &Value,
) -> Result<ArrayRef, ArrowError> {
    let zone = match left.array.data_type() {
        DataType::Timestamp(_, Some(zone)) => Some(Arc::clone(zone)),
        _ => None,
    };
    let (left, right) = (
        left.with(neutral(&left.array)?),
        right.with(neutral(&right.array)?),
    );
    let result = match op {
        ArithmeticOp::Add => numeric::add(&left, &right),
        ArithmeticOp::Subtract => numeric::sub(&left, &right),
        ArithmeticOp::Multiply => numeric::mul(&left, &right),
        ArithmeticOp::Divide => numeric::div(&left, &right),
        ArithmeticOp::IntegerDivide => quotient(&left, &without_zeros(&right)?),
        ArithmeticOp::Modulo => numeric::rem(&left, &without_zeros(&right)?),
    }?;
    match (result.data_type(), zone) {
        (DataType::Timestamp(unit, Some(_)), Some(zone)) => {
            relabel(&result, &DataType::Timestamp(*unit, Some(zone)))
        }
        _ => Ok(result),
    }
}

/// Counts the rows whose left or right value is null.
pub(crate) fn num_null_pairs(left: &Value, right: &Value) -> usize {
    let (l, r) = (&left.array, &right.array);
    match (left.is_scalar, right.is_scalar) {
        (false, true) if r.null_count() > 0 => l.len(),
        (true, false) if l.null_count() > 0 => r.len(),
        (_, true) if r.null_count() == 0 => l.null_count(),
        (true, false) => r.null_count(),
        _ => NullBuffer::union(l.nulls(), r.nulls()).map_or(0, |nulls| nulls.null_count()),
    }
}

/// Integer division, truncated towards zero.
fn quotient(left: &Value, right: &Value) -> Result<ArrayRef, ArrowError> {
    let (dividend, _) = left.get();
    if !matches!(dividend.data_type(), DataType::Decimal128(..)) {
        return numeric::div(left, right);
    }
    // The decimal kernel would add digits after the point.
    let whole = |l: i128, r: i128| {
        l.checked_div(r)
            .ok_or_else(|| ArrowError::ArithmeticOverflow("a quotient".into()))
    };
    let (l, r) = (&left.array, &right.array);
    let (l, r) = (
        l.as_primitive::<Decimal128Type>(),
        r.as_primitive::<Decimal128Type>(),
    );
    let only = |array: &Decimal128Array| array.is_valid(0).then(|| array.value(0));
    let quotients: Decimal128Array = match (left.is_scalar, right.is_scalar) {
        (_, true) => match only(r) {
            Some(divisor) => l.try_unary(|value| whole(value, divisor))?,
            None => Decimal128Array::new_null(l.len()),
        },
        (true, false) => match only(l) {
            Some(dividend) => r.try_unary(|value| whole(dividend, value))?,
            None => Decimal128Array::new_null(r.len()),
        },
        (false, false) => arrow_arith::arity::try_binary(l, r, whole)?,
    };
    Ok(Arc::new(
        quotients.with_data_type(dividend.data_type().clone()),
    ))
}

/// Replaces zero by null, so that the quotient is null. Floats keep their zeros: their quotient is infinite or NaN.
fn without_zeros(divisor: &Value) -> Result<Value, ArrowError> {
    let (array, _) = divisor.get();
    let zeros = match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().unary_opt_is(|v| v == 0),
        DataType::Decimal128(..) => array
            .as_primitive::<Decimal128Type>()
            .unary_opt_is(|v| v == 0),
        DataType::Decimal256(..) => array
            .as_primitive::<Decimal256Type>()
            .unary_opt_is(|v| v == i256::ZERO),
        _ => return Ok(divisor.clone()),
    };
    Ok(divisor.with(nullif(array, &zeros)?))
}

/// A test of each value.
trait TestValues<N> {
    fn unary_opt_is(&self, test: impl Fn(N) -> bool) -> BooleanArray;
}

impl<T: ArrowPrimitiveType> TestValues<T::Native> for PrimitiveArray<T> {
    fn unary_opt_is(&self, test: impl Fn(T::Native) -> bool) -> BooleanArray {
        BooleanArray::from_unary(self, test)
    }
}
