//! Arrow values as YSON, for columns that only `$other_columns` has a place for.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field};

use crate::arrow_name::arrow_name;
use crate::bytes::BytesArray;
use crate::error::{Error, Result};
use crate::schema::is_yson;
use crate::yson::{Limits, Node, Value, parse};

/// Checks that values of this field have a YSON form.
pub(crate) fn check(field: &Field) -> Result<()> {
    match field.data_type() {
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float32
        | DataType::Float64
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View => Ok(()),
        DataType::List(item) | DataType::LargeList(item) => check(item),
        DataType::Struct(fields) => fields.iter().try_for_each(|field| check(field)),
        other => Err(Error::unsupported(
            format!("column `{}`", field.name()),
            format!(
                "{} has no form in `$other_columns`; cast the column",
                arrow_name(other)
            ),
        )),
    }
}

/// The YSON node of a row; none for a null.
pub(crate) fn node(
    field: &Field,
    array: &ArrayRef,
    row: usize,
    limits: Limits,
) -> Result<Option<Node>> {
    if array.is_null(row) {
        return Ok(None);
    }
    let value = match array.data_type() {
        DataType::Boolean => Value::Boolean(array.as_boolean().value(row)),
        DataType::Int8 => Value::Int64(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => Value::Int64(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Value::Int64(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Value::Int64(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => Value::Uint64(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Value::Uint64(array.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => Value::Uint64(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => Value::Uint64(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float32 => Value::Double(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Value::Double(array.as_primitive::<Float64Type>().value(row)),
        DataType::List(item) => items(item, &array.as_list::<i32>().value(row), limits)?,
        DataType::LargeList(item) => items(item, &array.as_list::<i64>().value(row), limits)?,
        DataType::Struct(fields) => {
            let mut pairs = Vec::with_capacity(fields.len());
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                if let Some(node) = node(field, column, row, limits)? {
                    pairs.push((field.name().clone().into_bytes(), node));
                }
            }
            Value::Map(pairs)
        }
        DataType::Null => return Ok(None),
        _ => {
            let bytes = BytesArray::try_new(array.as_ref())?.bytes(row);
            if is_yson(field) {
                return parse(bytes, limits).map(Some);
            }
            Value::String(bytes.to_vec())
        }
    };
    Ok(Some(value.into()))
}

fn items(item: &Field, values: &ArrayRef, limits: Limits) -> Result<Value> {
    let mut items = Vec::with_capacity(values.len());
    for row in 0..values.len() {
        let node = node(item, values, row, limits)?;
        items.push(node.unwrap_or_else(|| Value::Entity.into()));
    }
    Ok(Value::List(items))
}
