//! Which source of values a wire node and an Arrow array make.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, ArrayRef, UnionArray};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::{DataType, Field};

use super::column::{Check, Column, Union};
use crate::arrow_name::arrow_name;
use crate::error::{Error, Result};
use crate::schema::{Integer, WireNode, WireType, is_json, is_uuid, is_yson};

/// A column for the values of an array.
pub(crate) fn bind(
    node: &WireNode,
    field: &Field,
    array: &ArrayRef,
    check: Check,
) -> Result<Column> {
    let has_bits = !matches!(field.data_type(), DataType::Null | DataType::Union(_, _));
    if let Some(value) = node.optional_value() {
        if has_bits {
            return bind_nullable(value, field, array, check);
        }
        if array.data_type() == &DataType::Null {
            return Ok(Column::Missing);
        }
    }
    let column = bind_required(node, field, array, check)?;
    Ok(
        match array.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) if has_bits => {
                let value = Box::new(column);
                match node.wire_type {
                    WireType::Yson32 => Column::Entity { nulls, value },
                    _ => Column::Required { nulls, value },
                }
            }
            _ => column,
        },
    )
}

/// A column whose nulls are written as such, with the value behind a tag.
pub(crate) fn bind_nullable(
    value: &WireNode,
    field: &Field,
    array: &ArrayRef,
    check: Check,
) -> Result<Column> {
    let nulls: Option<NullBuffer> = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let value = match array.as_struct_opt() {
        // A struct around a value that can be null itself; it has no bytes of its own.
        Some(structs) if value.optional_value().is_some() || value.wire_type != WireType::Tuple => {
            let ([inner], [column]) = (structs.fields().iter().as_slice(), structs.columns())
            else {
                return Err(no_mapping(value, field));
            };
            bind(value, inner, column, check)?
        }
        _ => bind_required(value, field, array, check)?,
    };
    Ok(Column::Optional {
        nulls,
        value: Box::new(value),
    })
}

fn bind_required(node: &WireNode, field: &Field, array: &ArrayRef, check: Check) -> Result<Column> {
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        // A key under a null may be anything; it is not looked at.
        let keys = if dictionary.values().is_empty() {
            vec![0; array.len()]
        } else {
            dictionary.normalized_keys()
        };
        let values = dictionary.values();
        let inner = field.clone().with_data_type(values.data_type().clone());
        return Ok(Column::Dictionary {
            keys,
            value: Box::new(bind_required(node, &inner, values, check)?),
        });
    }
    if let Some(wire) = Integer::of_wire(node.wire_type) {
        return bind_integer(node, wire, field, array);
    }
    let data_type = array.data_type();
    Ok(match (node.wire_type, data_type) {
        (WireType::Nothing, DataType::Null) => Column::Nothing,
        (WireType::Boolean, DataType::Boolean) => {
            Column::Boolean(array.as_boolean().values().clone())
        }
        (WireType::Double, DataType::Float64) => Column::Copy8(plain(array, 8)),
        (WireType::Double, DataType::Float32) => {
            Column::Float32(array.as_primitive::<Float32Type>().values().clone())
        }
        (WireType::Uint128 | WireType::Int128, DataType::FixedSizeBinary(16)) => {
            let values = plain(array, 16);
            if is_uuid(field) {
                Column::Uuid(values)
            } else {
                Column::Copy16(values)
            }
        }
        (WireType::Uint256 | WireType::Int256, DataType::FixedSizeBinary(32)) => {
            Column::Copy32(plain(array, 32))
        }
        (WireType::Int128, _) => bind_decimal(node, 16, field, array)?,
        (WireType::Int256, _) => bind_decimal(node, 32, field, array)?,
        (WireType::String32 | WireType::Yson32, _) => bind_string(node, field, array, check)?,
        (WireType::Tuple, DataType::Struct(_)) => {
            Column::Struct(bind_tuple(node, field, array, check)?)
        }
        (WireType::Variant8 | WireType::Variant16, DataType::Union(_, _)) => {
            Column::Union(bind_union(node, field, array.as_union(), check)?)
        }
        (WireType::RepeatedVariant8 | WireType::RepeatedVariant16, _) => {
            bind_list(node, field, array, check)?
        }
        _ => return Err(no_mapping(node, field)),
    })
}

/// The bytes of fixed-size values from the first row on.
fn plain(array: &ArrayRef, width: usize) -> Buffer {
    let data = array.to_data();
    let start = data.offset() * width;
    match data.buffers().first() {
        Some(buffer) => buffer.slice_with_length(start, data.len() * width),
        None => Buffer::default(),
    }
}

fn bind_integer(node: &WireNode, wire: Integer, field: &Field, array: &ArrayRef) -> Result<Column> {
    match Integer::of_arrow(array.data_type()) {
        Some(arrow) if arrow == wire => Ok(match wire.bytes {
            1 => Column::Copy1(plain(array, 1)),
            2 => Column::Copy2(plain(array, 2)),
            4 => Column::Copy4(plain(array, 4)),
            _ => Column::Copy8(plain(array, 8)),
        }),
        Some(arrow) => Ok(Column::Number {
            arrow,
            wire,
            values: plain(array, arrow.bytes),
        }),
        None if wire.is_signed && wire.bytes >= 4 => bind_decimal(node, wire.bytes, field, array),
        None => Err(no_mapping(node, field)),
    }
}

fn bind_decimal(
    node: &WireNode,
    wire_bytes: usize,
    field: &Field,
    array: &ArrayRef,
) -> Result<Column> {
    let (precision, arrow_bytes) = match array.data_type() {
        DataType::Decimal128(precision, _) => (*precision, 16),
        DataType::Decimal256(precision, _) => (*precision, 32),
        _ => return Err(no_mapping(node, field)),
    };
    // Every number of so many digits has a form in so many bytes.
    let most = match wire_bytes {
        4 => 9,
        8 => 18,
        16 => 38,
        _ => 76,
    };
    Ok(Column::Decimal {
        arrow_bytes,
        wire_bytes,
        precision: precision.min(most),
        values: plain(array, arrow_bytes),
    })
}

fn bind_string(node: &WireNode, field: &Field, array: &ArrayRef, check: Check) -> Result<Column> {
    let is_node = node.wire_type == WireType::Yson32;
    let check = if is_node || is_yson(field) {
        check
    } else {
        Check::Nothing
    };
    match array.data_type() {
        DataType::Utf8 if is_node && is_json(field) => Ok(Column::Json(Arc::clone(array))),
        DataType::Utf8 if !is_node => {
            let strings = array.as_string::<i32>();
            Ok(Column::Bytes {
                offsets: strings.offsets().inner().clone(),
                data: strings.values().clone(),
            })
        }
        DataType::Binary if check == Check::Nothing => {
            let strings = array.as_binary::<i32>();
            Ok(Column::Bytes {
                offsets: strings.offsets().inner().clone(),
                data: strings.values().clone(),
            })
        }
        DataType::LargeUtf8 | DataType::Utf8View | DataType::FixedSizeBinary(_) if is_node => {
            Err(no_mapping(node, field))
        }
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::FixedSizeBinary(_) => Ok(Column::AnyBytes {
            array: Arc::clone(array),
            check,
        }),
        _ => Err(no_mapping(node, field)),
    }
}

/// Children of a tuple: by name where all of them have one, else by their order.
fn bind_tuple(
    node: &WireNode,
    field: &Field,
    array: &ArrayRef,
    check: Check,
) -> Result<Vec<Column>> {
    let structs = array.as_struct();
    let fields = structs.fields();
    let names: HashSet<&str> = node.children.iter().map(|it| it.name.as_str()).collect();
    let has_names = !names.contains("");
    let has_every_field = fields
        .iter()
        .all(|field| names.contains(field.name().as_str()));
    let is_in_order = fields.len() == node.children.len()
        && (fields.iter().zip(&node.children)).all(|(field, child)| field.name() == &child.name);
    // Members of one name differ by their position alone: a look-up by name would write the first of them twice.
    let is_ambiguous = has_names && names.len() < node.children.len();
    let is_named = has_names && has_every_field && !is_in_order;
    if is_named && is_ambiguous || !is_named && fields.len() != node.children.len() {
        return Err(no_mapping(node, field));
    }
    let mut columns = Vec::with_capacity(node.children.len());
    for (number, child) in node.children.iter().enumerate() {
        let place = if is_named {
            fields.iter().position(|field| field.name() == &child.name)
        } else {
            Some(number)
        };
        let pair = place.and_then(|place| fields.get(place).zip(structs.columns().get(place)));
        columns.push(match pair {
            Some((field, column)) => bind(child, field, column, check)?,
            None if child.optional_value().is_some() => Column::Missing,
            None => return Err(no_mapping(node, field)),
        });
    }
    Ok(columns)
}

fn bind_union(node: &WireNode, field: &Field, array: &UnionArray, check: Check) -> Result<Union> {
    let DataType::Union(fields, _) = array.data_type() else {
        return Err(no_mapping(node, field));
    };
    let is_paged = node.children.len() > 128;
    let pages: Vec<Arc<WireNode>>;
    let nodes = if is_paged {
        let page =
            |page: &[Arc<WireNode>]| Arc::new(WireNode::complex(WireType::Variant8, page.to_vec()));
        pages = node.children.chunks(128).map(page).collect();
        &pages
    } else {
        &node.children
    };
    if nodes.len() != fields.len() {
        return Err(no_mapping(node, field));
    }
    let mut numbers = [0; 128];
    let mut children = Vec::with_capacity(nodes.len());
    for (number, (child, (id, field))) in nodes.iter().zip(fields.iter()).enumerate() {
        if let Some(slot) = usize::try_from(id).ok().and_then(|id| numbers.get_mut(id)) {
            *slot = u8::try_from(number).unwrap_or_default();
        }
        children.push(bind(child, field, array.child(id), check)?);
    }
    Ok(Union {
        ids: array.type_ids().clone(),
        offsets: array.offsets().cloned(),
        numbers,
        children,
        is_wide: node.wire_type.is_wide(),
        is_paged,
    })
}

fn bind_list(node: &WireNode, field: &Field, array: &ArrayRef, check: Check) -> Result<Column> {
    let narrow = |offsets: &[i32]| -> Vec<usize> {
        offsets
            .iter()
            .map(|offset| usize::try_from(*offset).unwrap_or_default())
            .collect()
    };
    let (offsets, item, items): (Vec<usize>, _, ArrayRef) = match array.data_type() {
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            (narrow(list.offsets()), item, Arc::clone(list.values()))
        }
        DataType::LargeList(item) => {
            let list = array.as_list::<i64>();
            let offsets = list.offsets().iter();
            let offsets = offsets.map(|offset| usize::try_from(*offset).unwrap_or_default());
            (offsets.collect(), item, Arc::clone(list.values()))
        }
        DataType::FixedSizeList(item, length) => {
            let list = array.as_fixed_size_list();
            let length = usize::try_from(*length).unwrap_or_default();
            let offsets = (0..=array.len()).map(|row| row * length).collect();
            (offsets, item, Arc::clone(list.values()))
        }
        DataType::Map(entries, _) => {
            let map = array.as_map();
            (
                narrow(map.offsets()),
                entries,
                Arc::new(map.entries().clone()),
            )
        }
        _ => return Err(no_mapping(node, field)),
    };
    let is_choice = node.children.len() > 1;
    let column = match node.children.as_slice() {
        [child] => bind(child, item, &items, check)?,
        _ => match items.as_union_opt() {
            Some(union) => Column::Union(bind_union(node, item, union, check)?),
            None => return Err(no_mapping(node, field)),
        },
    };
    Ok(Column::List {
        offsets,
        item: Box::new(column),
        is_wide: node.wire_type.is_wide(),
        is_choice,
    })
}

#[cold]
fn no_mapping(node: &WireNode, field: &Field) -> Error {
    Error::unsupported(
        format!("column `{}`", field.name()),
        format!(
            "{} is not encoded as {node}; cast the column",
            arrow_name(field.data_type())
        ),
    )
}
