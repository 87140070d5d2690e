//! Functions of one argument on arrays.

use std::sync::Arc;

use arrow_arith::temporal::{DatePart, date_part};
use arrow_array::{
    Array, ArrayRef, Int64Array, OffsetSizeTrait, PrimitiveArray,
    builder::GenericStringBuilder,
    cast::AsArray,
    types::{
        ArrowPrimitiveType, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int32Type,
        Int64Type,
    },
};
use arrow_buffer::i256;
use arrow_schema::DataType;
use pilum_common::type_name;

use super::{
    value::internal,
    zone::{local, neutral},
};
use crate::{
    error::{Error, Result},
    function::Function,
};

pub(crate) fn call(function: Function, array: &ArrayRef, text: &str) -> Result<ArrayRef> {
    let part = match function {
        Function::Length => return length(array, text),
        Function::Lower => return change(array, text, str::to_lowercase),
        Function::Upper => return change(array, text, str::to_uppercase),
        Function::Abs => return abs(array, text),
        Function::Year => DatePart::Year,
        Function::Month => DatePart::Month,
        Function::Day => DatePart::Day,
        Function::Hour => DatePart::Hour,
        Function::Minute => DatePart::Minute,
        Function::Second => DatePart::Second,
        _ => return Err(Error::invalid(text, "it takes another number of arguments")),
    };
    let array = local(&neutral(array).map_err(internal)?).map_err(internal)?;
    let parts = date_part(array.as_ref(), part).map_err(internal)?;
    let parts = parts
        .as_primitive_opt::<Int32Type>()
        .ok_or_else(|| Error::mismatch(parts.data_type(), &DataType::Int32, text))?;
    Ok(Arc::new(parts.unary::<_, Int64Type>(i64::from)))
}

/// Characters of strings, bytes of binary values.
fn length(array: &ArrayRef, text: &str) -> Result<ArrayRef> {
    fn chars(value: Option<&str>) -> Option<i64> {
        value.and_then(|text| i64::try_from(text.chars().count()).ok())
    }
    fn bytes(value: Option<&[u8]>) -> Option<i64> {
        value.and_then(|bytes| i64::try_from(bytes.len()).ok())
    }
    let lengths: Int64Array = match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().map(chars).collect(),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().map(chars).collect(),
        DataType::Binary => array.as_binary::<i32>().iter().map(bytes).collect(),
        DataType::LargeBinary => array.as_binary::<i64>().iter().map(bytes).collect(),
        other => return Err(Error::mismatch(other, &DataType::Utf8, text)),
    };
    Ok(Arc::new(lengths))
}

fn change(array: &ArrayRef, text: &str, change: impl Fn(&str) -> String) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Utf8 => change_each::<i32>(array, text, change),
        DataType::LargeUtf8 => change_each::<i64>(array, text, change),
        other => Err(Error::mismatch(other, &DataType::Utf8, text)),
    }
}

/// Letters may grow when their case changes, so the result may leave the range of the offsets.
fn change_each<O: OffsetSizeTrait>(
    array: &ArrayRef,
    text: &str,
    change: impl Fn(&str) -> String,
) -> Result<ArrayRef> {
    let mut builder = GenericStringBuilder::<O>::with_capacity(array.len(), 0);
    let mut written = 0_usize;
    for value in array.as_string::<O>() {
        let changed = value.map(&change);
        written += changed.as_ref().map_or(0, String::len);
        if O::from_usize(written).is_none() {
            return Err(Error::Limit {
                what: format!("bytes of text in the results of {text} in one batch"),
                limit: O::MAX_OFFSET,
            });
        }
        builder.append_option(changed);
    }
    Ok(Arc::new(builder.finish()))
}

fn abs(array: &ArrayRef, text: &str) -> Result<ArrayRef> {
    fn checked<T: ArrowPrimitiveType>(
        array: &ArrayRef,
        text: &str,
        abs: impl Fn(T::Native) -> Option<T::Native>,
    ) -> Result<ArrayRef> {
        let overflow = || Error::Overflow {
            expression: text.to_owned(),
            data_type: type_name(array.data_type()),
        };
        let result: PrimitiveArray<T> = array
            .as_primitive::<T>()
            .try_unary(|value| abs(value).ok_or_else(overflow))?;
        Ok(Arc::new(result.with_data_type(array.data_type().clone())))
    }
    match array.data_type() {
        DataType::Int64 => checked::<Int64Type>(array, text, i64::checked_abs),
        DataType::Float32 => checked::<Float32Type>(array, text, |v| Some(v.abs())),
        DataType::Float64 => checked::<Float64Type>(array, text, |v| Some(v.abs())),
        DataType::Decimal128(..) => checked::<Decimal128Type>(array, text, i128::checked_abs),
        DataType::Decimal256(..) => checked::<Decimal256Type>(array, text, |v: i256| {
            if v.is_negative() {
                v.checked_neg()
            } else {
                Some(v)
            }
        }),
        other => Err(Error::mismatch(other, &DataType::Int64, text)),
    }
}
