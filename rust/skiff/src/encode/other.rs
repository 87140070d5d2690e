//! `$other_columns`: the maps of a batch, and Arrow values as YSON for columns that have no other place.

use std::collections::{HashMap, HashSet};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};

use super::value::{Refusal, refuse};
use crate::arrow_name::arrow_name;
use crate::bytes::BytesArray;
use crate::error::{Error, Result, ValueFault};
use crate::schema::is_yson;
use crate::yson::{self, Limits, Node, OuterMap, Style, Value, Visitor as _, parse};

/// `$other_columns`: the maps of a column of this name, and columns that have no other place.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) maps: Option<ArrayRef>,
    pub(super) columns: Vec<(FieldRef, ArrayRef)>,
    /// The number of each of these columns.
    pub(super) keys: HashMap<Vec<u8>, usize>,
    /// Names of columns, which must not be keys of the maps.
    pub(super) declared: Option<HashSet<Vec<u8>>>,
    pub(super) limits: Limits,
}

impl Other {
    /// Appends the map of a row.
    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Box<Refusal>> {
        let map = match &self.maps {
            // The layout was looked at when the batch was matched.
            Some(maps) => BytesArray::try_new(maps.as_ref())
                .ok()
                .and_then(|maps| maps.value(row)),
            None => None,
        };
        let map = map.unwrap_or(b"{}");
        match yson::declared_key(map, self.limits, self.declared.as_ref()) {
            Err(error) => return Err(Refusal::from(error).into()),
            Ok(Some(key)) => return duplicate(&key),
            Ok(None) => {}
        }
        if !yson::is_plain_map(map) {
            let reason = "the value is no map, or a map with attributes";
            return refuse(ValueFault::OtherColumnsNotMap, reason);
        }
        let merged;
        let map = if self.columns.is_empty() {
            map
        } else {
            merged = self.merge(map, row)?;
            merged.as_slice()
        };
        let Ok(length) = u32::try_from(map.len()) else {
            return refuse(ValueFault::OutOfRange, "a map of 4 GiB or more");
        };
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(map);
        Ok(())
    }

    /// The map with the values of the columns; nulls are left out. The bytes of its own keys stay as they are.
    fn merge(&self, map: &[u8], row: usize) -> Result<Vec<u8>, Box<Refusal>> {
        let mut map = OuterMap::try_new(map, self.limits, &self.keys).map_err(Refusal::from)?;
        let mut more = Vec::new();
        for (number, (field, array)) in self.columns.iter().enumerate() {
            let node = node(field, array, row, self.limits);
            let Some(node) = node.map_err(Refusal::from)? else {
                map.put_back(number);
                continue;
            };
            if map.value(number).is_some() {
                return duplicate(field.name().as_bytes());
            }
            let mut writer = yson::Writer::new(&mut more, Style::Binary);
            writer.key(field.name().as_bytes());
            yson::write_node(&node, Style::Binary, false, &mut more);
            more.push(b';');
        }
        let mut out = Vec::new();
        map.write(&more, &mut out);
        Ok(out)
    }
}

fn duplicate<T>(key: &[u8]) -> Result<T, Box<Refusal>> {
    let key = key.escape_ascii();
    let reason = format!("the map has the key `{key}`, which is a column too; remove one of them");
    refuse(ValueFault::DuplicateColumn, reason)
}

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
        | DataType::FixedSizeBinary(_)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View => Ok(()),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            check(item)
        }
        DataType::Struct(fields) => {
            let mut names = HashSet::new();
            if let Some(twice) = fields.iter().find(|it| !names.insert(it.name())) {
                return Err(Error::unsupported(
                    format!("column `{}`", field.name()),
                    format!(
                        "the struct has two members `{}`, and a map of `$other_columns` keeps one; rename or drop one of them",
                        twice.name()
                    ),
                ));
            }
            fields.iter().try_for_each(|field| check(field))
        }
        other => Err(Error::unsupported(
            format!("column `{}`", field.name()),
            format!(
                "{} has no form in `$other_columns`, whose values are YSON; {}",
                arrow_name(other),
                remedy(other)
            ),
        )),
    }
}

/// What to do about a type that YSON does not have.
fn remedy(data_type: &DataType) -> String {
    match data_type {
        DataType::Dictionary(_, value) => format!("cast it to {}", arrow_name(value)),
        DataType::Map(_, _) => {
            "make a struct of it, or a column of YSON (`json_to_yson`) with the extension name \
             `ytsaurus.yson`"
                .to_owned()
        }
        DataType::Date32 | DataType::Time32(_) => "cast it to int32 or string".to_owned(),
        DataType::Date64 => "cast it to date32, and then to int32 or string".to_owned(),
        DataType::Time64(_) | DataType::Timestamp(_, _) | DataType::Duration(_) => {
            "cast it to int64 or string".to_owned()
        }
        DataType::Float16 => "cast it to float".to_owned(),
        other if other.is_decimal() => "cast it to string or double".to_owned(),
        _ => "cast it, leave it out, or add the column to the format".to_owned(),
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
        DataType::FixedSizeList(item, _) => {
            items(item, &array.as_fixed_size_list().value(row), limits)?
        }
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
