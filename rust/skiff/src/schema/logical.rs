//! Columns of YTsaurus tables: `type` with `required`, and `type_v3`, to wire nodes and Arrow fields.

use std::sync::Arc;

use arrow_schema::{DataType, Field, TimeUnit, UnionFields, UnionMode};

use super::arrow;
use super::names::OTHER;
use super::node::{WireNode, WireType};
use crate::error::{Error, Result};
use crate::yson::{Node, Value};

/// Types inside each other; reading them recurses.
const MAX_LEVELS: usize = 64;

/// The row tuple of a list of columns, and their Arrow fields; the attribute `strict=%false` adds `$other_columns`.
///
/// # Errors
///
/// [`Error::Schema`] for what is no list of columns, [`Error::Unsupported`] with the column that does not map.
pub(crate) fn columns_of_table(schema: &Node) -> Result<(WireNode, Vec<Field>)> {
    // A schema in JSON may be a map `{"$attributes", "$value"}`, which is read as a node with attributes already.
    let Some(columns) = schema.as_list() else {
        return Err(Error::schema(
            "the table schema",
            "it must be a list of columns",
        ));
    };
    let mut children = Vec::with_capacity(columns.len() + 1);
    let mut fields = Vec::with_capacity(columns.len());
    for (number, column) in columns.iter().enumerate() {
        let Some(name) = column.get("name").and_then(Node::as_str) else {
            return Err(Error::schema(
                format!("column {number}"),
                "it needs a `name`",
            ));
        };
        let (node, field) = column_type(name, column)?;
        children.push(Arc::new(node.named(name)));
        fields.push(field.with_name(name));
    }
    if let Some(strict) = schema.attribute("strict")
        && strict.value == Value::Boolean(false)
    {
        let other = WireNode::simple(WireType::Yson32).named(OTHER);
        children.push(Arc::new(other));
    }
    Ok((WireNode::complex(WireType::Tuple, children), fields))
}

fn column_type(name: &str, column: &Node) -> Result<(WireNode, Field)> {
    if let Some(type_v3) = column.get("type_v3") {
        return of_type(name, type_v3, 0);
    }
    let Some(legacy) = column.get("type").and_then(Node::as_str) else {
        return Err(Error::schema(
            format!("column `{name}`"),
            "it needs `type_v3` or `type`",
        ));
    };
    let is_required = column.get("required").map(|it| &it.value) == Some(&Value::Boolean(true));
    let legacy = match legacy {
        "any" => "yson",
        "boolean" => "bool",
        other => other,
    };
    let mapped = simple(name, legacy)?;
    // Null is the only value of these types.
    if is_required || matches!(legacy, "null" | "void") {
        return Ok(mapped);
    }
    Ok(optional(mapped))
}

fn optional((node, field): (WireNode, Field)) -> (WireNode, Field) {
    (WireNode::optional(node), arrow::nullable(field))
}

fn refused(name: &str, reason: impl Into<String>) -> Error {
    Error::unsupported(format!("column `{name}`"), reason)
}

fn simple(name: &str, type_name: &str) -> Result<(WireNode, Field)> {
    let utc = || Some("UTC".into());
    let (wire, data_type) = match type_name {
        "int8" => (WireType::Int64, DataType::Int8),
        "int16" => (WireType::Int64, DataType::Int16),
        "int32" => (WireType::Int64, DataType::Int32),
        "int64" => (WireType::Int64, DataType::Int64),
        "uint8" => (WireType::Uint64, DataType::UInt8),
        "uint16" => (WireType::Uint64, DataType::UInt16),
        "uint32" => (WireType::Uint64, DataType::UInt32),
        "uint64" => (WireType::Uint64, DataType::UInt64),
        "float" => (WireType::Double, DataType::Float32),
        "double" => (WireType::Double, DataType::Float64),
        "bool" | "boolean" => (WireType::Boolean, DataType::Boolean),
        "string" => (WireType::String32, DataType::Binary),
        "utf8" => (WireType::String32, DataType::Utf8),
        "date" => (WireType::Uint16, DataType::Date32),
        "datetime" => (
            WireType::Uint32,
            DataType::Timestamp(TimeUnit::Second, utc()),
        ),
        "timestamp" => (
            WireType::Uint64,
            DataType::Timestamp(TimeUnit::Microsecond, utc()),
        ),
        "interval" | "interval64" => (WireType::Int64, DataType::Duration(TimeUnit::Microsecond)),
        "date32" => (WireType::Int32, DataType::Date32),
        "datetime64" => (
            WireType::Int64,
            DataType::Timestamp(TimeUnit::Second, utc()),
        ),
        "timestamp64" => (
            WireType::Int64,
            DataType::Timestamp(TimeUnit::Microsecond, utc()),
        ),
        "json" => {
            return Ok((
                WireNode::simple(WireType::String32),
                arrow::json_field(name),
            ));
        }
        "yson" | "any" => {
            return Ok((
                WireNode::simple(WireType::Yson32),
                arrow::yson_field(name, false),
            ));
        }
        "uuid" => return Ok((WireNode::simple(WireType::Uint128), arrow::uuid_field(name))),
        "null" | "void" => {
            let field = Field::new(name, DataType::Null, true);
            return Ok((WireNode::simple(WireType::Nothing), field));
        }
        _ => match type_name.strip_prefix("tz_") {
            Some(instant) => return with_zone(name, instant),
            None => return Err(refused(name, format!("unknown type `{type_name}`"))),
        },
    };
    Ok((WireNode::simple(wire), Field::new(name, data_type, false)))
}

/// A time with the number of its zone.
fn with_zone(name: &str, instant: &str) -> Result<(WireNode, Field)> {
    if !matches!(
        instant,
        "date" | "datetime" | "timestamp" | "date32" | "datetime64" | "timestamp64"
    ) {
        return Err(refused(name, format!("unknown type `tz_{instant}`")));
    }
    let (node, field) = simple("value", instant)?;
    let zone = WireNode::simple(WireType::Uint16).named("tz_id");
    let children = vec![Arc::new(node.named("value")), Arc::new(zone)];
    let fields = vec![field, Field::new("tz_id", DataType::UInt16, false)];
    Ok((
        WireNode::complex(WireType::Tuple, children),
        Field::new(name, DataType::Struct(fields.into()), false),
    ))
}

fn of_type(name: &str, type_v3: &Node, level: usize) -> Result<(WireNode, Field)> {
    if level > MAX_LEVELS {
        return Err(refused(
            name,
            format!("a type of more than {MAX_LEVELS} levels"),
        ));
    }
    if let Some(type_name) = type_v3.as_str() {
        return simple(name, type_name);
    }
    let Some(type_name) = type_v3.get("type_name").and_then(Node::as_str) else {
        return Err(refused(name, "a type is a name, or a map with `type_name`"));
    };
    let inner = |key: &str, name: &str| match type_v3.get(key) {
        Some(inner) => of_type(name, inner, level + 1),
        None => Err(refused(
            name,
            format!("the type `{type_name}` needs `{key}`"),
        )),
    };
    match type_name {
        "optional" => Ok(optional(inner("item", name)?)),
        "list" => {
            let (node, field) = inner("item", "item")?;
            let node = WireNode::complex(WireType::RepeatedVariant8, vec![Arc::new(node)]);
            Ok((
                node,
                Field::new(name, DataType::List(Arc::new(field)), false),
            ))
        }
        "dict" => {
            let (key_node, key) = inner("key", "key")?;
            let (value_node, value) = inner("value", "value")?;
            dict(name, (key_node, key), (value_node, value))
        }
        "tagged" => {
            let (node, field) = inner("item", name)?;
            let mut metadata = field.metadata().clone();
            if let Some(tag) = type_v3.get("tag").and_then(Node::as_str) {
                metadata.insert("ytsaurus.tag".to_owned(), tag.to_owned());
            }
            Ok((node, field.with_metadata(metadata)))
        }
        "decimal" => {
            let number = |key: &str| type_v3.get(key).and_then(Node::as_i64);
            let (precision, scale) = (number("precision"), number("scale"));
            decimal(name, precision.unwrap_or(-1), scale.unwrap_or(-1))
        }
        "struct" | "tuple" => {
            let (children, fields) = members(name, type_v3, level)?;
            let node = WireNode::complex(WireType::Tuple, children);
            Ok((
                node,
                Field::new(name, DataType::Struct(fields.into()), false),
            ))
        }
        "variant" => {
            let (children, fields) = members(name, type_v3, level)?;
            let ids: Vec<i8> = (0..=i8::MAX).take(fields.len()).collect();
            let fields = UnionFields::try_new(ids, fields)
                .map_err(|_| refused(name, "a variant of more than 128 alternatives"))?;
            let node = WireNode::complex(WireType::Variant8, children);
            let union = DataType::Union(fields, UnionMode::Dense);
            Ok((node, Field::new(name, union, true)))
        }
        other => simple(name, other),
    }
}

fn dict(name: &str, key: (WireNode, Field), value: (WireNode, Field)) -> Result<(WireNode, Field)> {
    let children = vec![
        Arc::new(key.0.named("key")),
        Arc::new(value.0.named("value")),
    ];
    let pair = WireNode::complex(WireType::Tuple, children);
    let node = WireNode::complex(WireType::RepeatedVariant8, vec![Arc::new(pair)]);
    // Keys of an Arrow map cannot be null: a dict with optional keys is a list of pairs.
    let is_map = !key.1.is_nullable();
    let pair = DataType::Struct(vec![key.1, value.1].into());
    let data_type = if is_map {
        DataType::Map(Arc::new(Field::new("entries", pair, false)), false)
    } else {
        DataType::List(Arc::new(Field::new("item", pair, false)))
    };
    Ok((node, Field::new(name, data_type, false)))
}

fn decimal(name: &str, precision: i64, scale: i64) -> Result<(WireNode, Field)> {
    let numbers = u8::try_from(precision).ok().zip(i8::try_from(scale).ok());
    let Some((digits, places)) =
        numbers.filter(|_| (1..=76).contains(&precision) && (0..=precision).contains(&scale))
    else {
        return Err(refused(
            name,
            "a decimal needs `precision` from 1 to 76 and `scale` from 0 to the precision",
        ));
    };
    let data_type = if digits <= 38 {
        DataType::Decimal128(digits, places)
    } else {
        DataType::Decimal256(digits, places)
    };
    let node = WireNode::simple(arrow::decimal_wire(digits));
    Ok((node, Field::new(name, data_type, false)))
}

/// Members of a struct, which have names, or elements of a tuple, which are numbered.
fn members(name: &str, type_v3: &Node, level: usize) -> Result<(Vec<Arc<WireNode>>, Vec<Field>)> {
    let (list, has_names) = match (type_v3.get("members"), type_v3.get("elements")) {
        (Some(members), None) => (members.as_list(), true),
        (None, Some(elements)) => (elements.as_list(), false),
        _ => return Err(refused(name, "the type needs `members` or `elements`")),
    };
    let mut children = Vec::new();
    let mut fields = Vec::new();
    for (number, member) in list.unwrap_or_default().iter().enumerate() {
        let label = match member.get("name").and_then(Node::as_str) {
            Some(label) if has_names => label.to_owned(),
            _ => number.to_string(),
        };
        let Some(inner) = member.get("type") else {
            return Err(refused(name, format!("member `{label}` needs a `type`")));
        };
        let (node, field) = of_type(&label, inner, level + 1)?;
        children.push(Arc::new(if has_names {
            node.named(label.as_str())
        } else {
            node
        }));
        fields.push(field.with_name(label));
    }
    Ok((children, fields))
}
