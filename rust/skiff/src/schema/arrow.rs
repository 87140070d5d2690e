//! The mapping between wire nodes and Arrow fields, both ways.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, TimeUnit, UnionFields, UnionMode};

use super::names::{KEY_SWITCH, OTHER, RANGE_INDEX, REMAINING, ROW_INDEX};
use super::node::{WireNode, WireType};
use crate::arrow_name::arrow_name;
use crate::error::{Error, Result};

/// Extension name of binary values that are YSON nodes.
pub const YSON_EXTENSION: &str = "ytsaurus.yson";
const JSON_EXTENSION: &str = "arrow.json";
const UUID_EXTENSION: &str = "arrow.uuid";
const EXTENSION_KEY: &str = "ARROW:extension:name";

/// Alternatives of one Arrow union, whose type ids are 8-bit numbers from 0.
const UNION_MAX: usize = 128;

/// What `string32` is decoded to where nothing else is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strings {
    /// `binary`: strings of Skiff are bytes.
    #[default]
    Binary,
    /// `string`; bytes that are not UTF-8 are an error.
    Text,
}

pub(crate) fn extension(field: &Field) -> Option<&str> {
    field.metadata().get(EXTENSION_KEY).map(String::as_str)
}

pub(crate) fn is_yson(field: &Field) -> bool {
    extension(field) == Some(YSON_EXTENSION)
}

pub(crate) fn is_json(field: &Field) -> bool {
    extension(field) == Some(JSON_EXTENSION)
}

pub(crate) fn is_uuid(field: &Field) -> bool {
    extension(field) == Some(UUID_EXTENSION)
}

fn with_extension(field: Field, name: &str) -> Field {
    let metadata = HashMap::from([(EXTENSION_KEY.to_owned(), name.to_owned())]);
    field.with_metadata(metadata)
}

/// A binary field whose values are YSON nodes.
pub(crate) fn yson_field(name: &str, is_nullable: bool) -> Field {
    with_extension(
        Field::new(name, DataType::Binary, is_nullable),
        YSON_EXTENSION,
    )
}

pub(crate) fn json_field(name: &str) -> Field {
    with_extension(Field::new(name, DataType::Utf8, false), JSON_EXTENSION)
}

pub(crate) fn uuid_field(name: &str) -> Field {
    with_extension(
        Field::new(name, DataType::FixedSizeBinary(16), false),
        UUID_EXTENSION,
    )
}

/// True when a null of this field is told apart from every value of it. A null array and a union have no bits for that, and in a
/// nullable field null has a meaning already.
pub(crate) fn has_room_for_null(field: &Field) -> bool {
    !field.is_nullable() && !matches!(field.data_type(), DataType::Null | DataType::Union(_, _))
}

/// The field with nulls. Where it has no room for one more null, it becomes the only field of a nullable struct.
pub(crate) fn nullable(field: Field) -> Field {
    if has_room_for_null(&field) {
        return field.with_nullable(true);
    }
    let name = field.name().clone();
    Field::new(
        name,
        DataType::Struct(vec![field.with_name("value")].into()),
        true,
    )
}

/// The Arrow field that a wire node is decoded to where nothing else is asked for.
///
/// # Errors
///
/// [`Error::Unsupported`] for variants with more alternatives than Arrow has.
pub(crate) fn field_of_wire(name: &str, node: &WireNode, strings: Strings) -> Result<Field> {
    if let Some(value) = node.optional_value() {
        return Ok(nullable(field_of_wire(name, value, strings)?));
    }
    let data_type = match node.wire_type {
        WireType::Nothing => return Ok(Field::new(name, DataType::Null, true)),
        WireType::Yson32 => return Ok(yson_field(name, false)),
        WireType::Boolean => DataType::Boolean,
        WireType::Int8 => DataType::Int8,
        WireType::Int16 => DataType::Int16,
        WireType::Int32 => DataType::Int32,
        WireType::Int64 => DataType::Int64,
        WireType::Uint8 => DataType::UInt8,
        WireType::Uint16 => DataType::UInt16,
        WireType::Uint32 => DataType::UInt32,
        WireType::Uint64 => DataType::UInt64,
        WireType::Int128 | WireType::Uint128 => DataType::FixedSizeBinary(16),
        WireType::Int256 | WireType::Uint256 => DataType::FixedSizeBinary(32),
        WireType::Double => DataType::Float64,
        WireType::String32 => match strings {
            Strings::Binary => DataType::Binary,
            Strings::Text => DataType::Utf8,
        },
        WireType::Tuple => {
            let mut fields = Vec::with_capacity(node.children.len());
            for (number, child) in node.children.iter().enumerate() {
                fields.push(field_of_wire(&label(number, child), child, strings)?);
            }
            DataType::Struct(fields.into())
        }
        WireType::Variant8 | WireType::Variant16 => {
            // A union has no nulls of its own, but those of its alternatives count as nulls of the field.
            return Ok(Field::new(
                name,
                union_of(name, &node.children, strings)?,
                true,
            ));
        }
        WireType::RepeatedVariant8 | WireType::RepeatedVariant16 => {
            let item = match node.children.as_slice() {
                [item] => field_of_wire("item", item, strings)?,
                children => Field::new("item", union_of(name, children, strings)?, true),
            };
            DataType::List(Arc::new(item))
        }
    };
    Ok(Field::new(name, data_type, false))
}

/// The name of a child, or its number.
fn label(number: usize, child: &WireNode) -> String {
    if child.name.is_empty() {
        number.to_string()
    } else {
        child.name.clone()
    }
}

/// A dense union of the children. More than 128 of them become a union of unions of 128 each.
fn union_of(name: &str, children: &[Arc<WireNode>], strings: Strings) -> Result<DataType> {
    let mut fields = Vec::with_capacity(children.len());
    for (number, child) in children.iter().enumerate() {
        fields.push(Arc::new(field_of_wire(
            &label(number, child),
            child,
            strings,
        )?));
    }
    if fields.len() <= UNION_MAX {
        return union(fields);
    }
    if fields.len() > UNION_MAX * UNION_MAX {
        return Err(Error::unsupported(
            format!("column `{name}`"),
            format!(
                "a variant with {} alternatives; Arrow holds up to {}",
                fields.len(),
                UNION_MAX * UNION_MAX
            ),
        ));
    }
    let mut pages = Vec::new();
    for (number, page) in fields.chunks(UNION_MAX).enumerate() {
        let page = union(page.to_vec())?;
        pages.push(Arc::new(Field::new(number.to_string(), page, true)));
    }
    union(pages)
}

fn union(fields: Vec<FieldRef>) -> Result<DataType> {
    let ids: Vec<i8> = (0..=i8::MAX).take(fields.len()).collect();
    let fields = UnionFields::try_new(ids, fields)?;
    Ok(DataType::Union(fields, UnionMode::Dense))
}

/// The row tuple whose rows are those of an Arrow schema.
///
/// # Errors
///
/// [`Error::Unsupported`] with the column that Skiff cannot carry.
pub(crate) fn root_of_arrow(schema: &Schema) -> Result<WireNode> {
    let mut children = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        children.push(Arc::new(node_of_column(field)?));
    }
    Ok(WireNode::complex(WireType::Tuple, children))
}

/// The wire node of a top-level column; decoded control columns become control columns again.
fn node_of_column(field: &Field) -> Result<WireNode> {
    let nothing = || Arc::new(WireNode::simple(WireType::Nothing));
    let node = match (field.name().as_str(), field.data_type()) {
        (KEY_SWITCH, DataType::Boolean) => WireNode::simple(WireType::Boolean),
        (REMAINING, DataType::Int32) => WireNode::simple(WireType::Int32),
        (ROW_INDEX | RANGE_INDEX, DataType::Int64) => {
            let mut node = WireNode::optional(WireNode::simple(WireType::Int64));
            if field.is_nullable() {
                node.children.push(nothing());
            }
            node
        }
        (OTHER, DataType::Binary | DataType::LargeBinary) => WireNode::simple(WireType::Yson32),
        _ => return Ok(node_of_field(field)?.named(field.name())),
    };
    Ok(node.named(field.name()))
}

/// The wire node that carries the values of a field.
pub(crate) fn node_of_field(field: &Field) -> Result<WireNode> {
    let has_bits = !matches!(field.data_type(), DataType::Null | DataType::Union(_, _));
    let node = node_of_type(field)?;
    Ok(if field.is_nullable() && has_bits {
        WireNode::optional(node)
    } else {
        node
    })
}

fn node_of_type(field: &Field) -> Result<WireNode> {
    let refused = |reason: &str| {
        let name = arrow_name(field.data_type());
        Error::unsupported(
            format!("column `{}`", field.name()),
            format!("{name} {reason}"),
        )
    };
    let simple = match field.data_type() {
        DataType::Null => WireType::Nothing,
        DataType::Boolean => WireType::Boolean,
        // What clients declare for integers of every width; the range is checked on the way back.
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => WireType::Int64,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
            WireType::Uint64
        }
        DataType::Float32 | DataType::Float64 => WireType::Double,
        DataType::Date32 => WireType::Int32,
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Microsecond, _)
        | DataType::Duration(TimeUnit::Microsecond) => WireType::Int64,
        DataType::Timestamp(_, _) => {
            return Err(refused(
                "has no counterpart; cast it to timestamp[us] or timestamp[s]",
            ));
        }
        DataType::Duration(_) => {
            return Err(refused("has no counterpart; cast it to duration[us]"));
        }
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            if u8::try_from(*scale).is_ok_and(|scale| scale <= *precision) {
                decimal_wire(*precision)
            } else {
                return Err(refused("has a scale that YTsaurus does not have; cast it"));
            }
        }
        DataType::FixedSizeBinary(16) if is_uuid(field) => WireType::Uint128,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView if is_yson(field) => {
            WireType::Yson32
        }
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View => WireType::String32,
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(_, _)
        | DataType::Map(_, _)
        | DataType::Struct(_)
        | DataType::Union(_, _)
        | DataType::Dictionary(_, _) => return node_of_nested(field),
        _ => {
            return Err(refused(
                "has no counterpart in Skiff; cast the column or leave it out",
            ));
        }
    };
    Ok(WireNode::simple(simple))
}

/// The wire node of a type with members, items or a dictionary.
fn node_of_nested(field: &Field) -> Result<WireNode> {
    let other = || {
        let name = arrow_name(field.data_type());
        let place = format!("column `{}`", field.name());
        Error::unsupported(place, format!("{name} is no type that Arrow allows"))
    };
    match field.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            let item = node_of_field(item)?;
            Ok(WireNode::complex(
                WireType::RepeatedVariant8,
                vec![Arc::new(item)],
            ))
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(other());
            };
            let pair = WireNode::complex(WireType::Tuple, children_of(fields)?);
            Ok(WireNode::complex(
                WireType::RepeatedVariant8,
                vec![Arc::new(pair)],
            ))
        }
        DataType::Struct(fields) => Ok(WireNode::complex(WireType::Tuple, children_of(fields)?)),
        DataType::Union(fields, _) => {
            let fields: Fields = fields.iter().map(|(_, field)| Arc::clone(field)).collect();
            Ok(WireNode::complex(WireType::Variant8, children_of(&fields)?))
        }
        DataType::Dictionary(_, value) => {
            let field = Field::new(field.name(), value.as_ref().clone(), false)
                .with_metadata(field.metadata().clone());
            node_of_type(&field)
        }
        _ => Err(other()),
    }
}

/// The wire type that the unscaled values of a decimal have.
pub(crate) fn decimal_wire(precision: u8) -> WireType {
    match precision {
        0..=9 => WireType::Int32,
        10..=18 => WireType::Int64,
        19..=38 => WireType::Int128,
        _ => WireType::Int256,
    }
}

fn children_of(fields: &Fields) -> Result<Vec<Arc<WireNode>>> {
    let child = |field: &FieldRef| Ok(Arc::new(node_of_field(field)?.named(field.name())));
    fields.iter().map(child).collect()
}
