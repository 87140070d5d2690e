//! Which column of buffers decodes a wire node to an Arrow field; a pair that does not map is refused.

use arrow_buffer::MutableBuffer;
use arrow_schema::{DataType, Field, Fields};

use super::check::{Check, ReadRules};
use super::column::{Column, List, Struct, Union};
use super::nested::PAGE;
use super::number::{Decimal, Number};
use crate::arrow_name::arrow_name;
use crate::error::{Error, Result};
use crate::schema::{Integer, WireNode, WireType, can_be_null, is_json, is_uuid, is_yson};

impl Column {
    /// The builder for a wire node and the Arrow field that it is decoded to.
    pub(crate) fn try_new(node: &WireNode, field: &Field, rules: ReadRules) -> Result<Self> {
        let has_bits = !matches!(field.data_type(), DataType::Null | DataType::Union(_, _));
        if let Some(value) = node.optional_value()
            && has_bits
        {
            if !field.is_nullable() {
                return Err(no_mapping(node, field));
            }
            return Self::nullable(value, field, rules);
        }
        Self::required(node, field, rules)
    }

    /// The values of a nullable field; the validity is read before each of them.
    pub(crate) fn nullable(value: &WireNode, field: &Field, rules: ReadRules) -> Result<Self> {
        // A null that the value itself can have is told apart by a struct around the value.
        let value = match field.data_type() {
            DataType::Struct(fields)
                if value.optional_value().is_some() || value.wire_type != WireType::Tuple =>
            {
                let [inner] = fields.iter().as_slice() else {
                    return Err(no_mapping(value, field));
                };
                Self::Struct(Struct::new(vec![Self::try_new(value, inner, rules)?]))
            }
            _ => Self::required(value, field, rules)?,
        };
        Ok(Self::Optional {
            flags: Vec::new(),
            value: Box::new(value),
        })
    }

    fn required(node: &WireNode, field: &Field, rules: ReadRules) -> Result<Self> {
        let data_type = field.data_type();
        if let Some(wire) = Integer::of_wire(node.wire_type) {
            return Self::integer(node, wire, field, rules);
        }
        let buffer = MutableBuffer::default;
        Ok(match (node.wire_type, data_type) {
            (WireType::Nothing, DataType::Null) => Self::Null { len: 0 },
            (WireType::Boolean, DataType::Boolean) => Self::Boolean(Vec::new()),
            (WireType::Double, DataType::Float64) => Self::Copy8(buffer()),
            (WireType::Double, DataType::Float32) => Self::Float32(Vec::new()),
            (WireType::Uint128 | WireType::Int128, DataType::FixedSizeBinary(16)) => {
                if is_uuid(field) {
                    Self::Uuid(buffer())
                } else {
                    Self::Copy16(buffer())
                }
            }
            (WireType::Uint256 | WireType::Int256, DataType::FixedSizeBinary(32)) => {
                Self::Copy32(buffer())
            }
            (WireType::Int128, _) => Self::decimal(node, 16, field, rules)?,
            (WireType::Int256, _) => Self::decimal(node, 32, field, rules)?,
            (WireType::String32 | WireType::Yson32, _) => Self::string(node, field, rules)?,
            (WireType::Tuple, DataType::Struct(fields)) => {
                Self::Struct(Struct::new(children(node, fields, field, rules)?))
            }
            (WireType::Variant8 | WireType::Variant16, DataType::Union(_, _)) => {
                Self::Union(Union::try_new(node, field, rules)?)
            }
            (WireType::RepeatedVariant8 | WireType::RepeatedVariant16, _) => {
                Self::List(List::try_new(node, field, rules)?)
            }
            _ => return Err(no_mapping(node, field)),
        })
    }

    fn integer(node: &WireNode, wire: Integer, field: &Field, rules: ReadRules) -> Result<Self> {
        let buffer = MutableBuffer::default;
        match Integer::of_arrow(field.data_type()) {
            Some(arrow) if arrow == wire => Ok(match wire.bytes {
                1 => Self::Copy1(buffer()),
                2 => Self::Copy2(buffer()),
                4 => Self::Copy4(buffer()),
                _ => Self::Copy8(buffer()),
            }),
            Some(arrow) => Ok(Self::Number(Number {
                wire,
                arrow,
                out: buffer(),
            })),
            None if wire.is_signed && wire.bytes >= 4 => {
                Self::decimal(node, wire.bytes, field, rules)
            }
            None => Err(no_mapping(node, field)),
        }
    }

    fn decimal(
        node: &WireNode,
        wire_bytes: usize,
        field: &Field,
        rules: ReadRules,
    ) -> Result<Self> {
        let (precision, arrow_bytes) = match field.data_type() {
            DataType::Decimal128(precision, _) => (*precision, 16),
            DataType::Decimal256(precision, _) => (*precision, 32),
            _ => return Err(no_mapping(node, field)),
        };
        Ok(Self::Decimal(Decimal {
            wire_bytes,
            arrow_bytes,
            precision,
            out: MutableBuffer::default(),
            flags: (rules.special_as_null && field.is_nullable()).then(Vec::new),
            num_special: 0,
        }))
    }

    fn string(node: &WireNode, field: &Field, rules: ReadRules) -> Result<Self> {
        let is_node = node.wire_type == WireType::Yson32;
        let data = MutableBuffer::default();
        let check = match field.data_type() {
            DataType::Utf8 if is_node && is_json(field) => {
                return Ok(Self::Json {
                    offsets: vec![0],
                    data,
                });
            }
            DataType::Utf8 | DataType::LargeUtf8 if !is_node => Check::Utf8,
            DataType::Binary | DataType::LargeBinary if is_node || is_yson(field) => {
                if rules.validates_yson {
                    Check::Yson
                } else {
                    Check::Nothing
                }
            }
            DataType::Binary | DataType::LargeBinary => Check::Nothing,
            DataType::FixedSizeBinary(width) if !is_node => {
                return Ok(Self::Fixed {
                    width: usize::try_from(*width).unwrap_or_default(),
                    len: 0,
                    data,
                });
            }
            _ => return Err(no_mapping(node, field)),
        };
        Ok(match field.data_type() {
            DataType::Binary | DataType::Utf8 => Self::Bytes {
                offsets: vec![0],
                data,
                check,
            },
            _ => Self::LargeBytes {
                offsets: vec![0],
                data,
                check,
            },
        })
    }
}

impl List {
    fn try_new(node: &WireNode, field: &Field, rules: ReadRules) -> Result<Self> {
        let (DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _)) =
            field.data_type()
        else {
            return Err(no_mapping(node, field));
        };
        let is_choice = node.children.len() > 1;
        let is_map = matches!(field.data_type(), DataType::Map(_, _));
        let item = match (node.children.as_slice(), item.data_type()) {
            ([child], DataType::Struct(fields)) if is_map && child.wire_type == WireType::Tuple => {
                Column::Struct(Struct::new(pair(child, fields, item, rules)?))
            }
            ([child], _) => Column::try_new(child, item, rules)?,
            _ => Column::Union(Union::try_new(node, item, rules)?),
        };
        Ok(Self {
            offsets: vec![0],
            is_wide: node.wire_type.is_wide(),
            is_choice,
            // Where an item has no bytes at all, its tag still has one.
            item_width: item.width().max(1),
            item: Box::new(item),
        })
    }
}

impl Union {
    fn try_new(node: &WireNode, field: &Field, rules: ReadRules) -> Result<Self> {
        let DataType::Union(alternatives, _) = field.data_type() else {
            return Err(no_mapping(node, field));
        };
        if !field.is_nullable() && can_be_null(field) {
            return Err(Error::unsupported(
                format!("column `{}`", field.name()),
                "an alternative of the union can be null, which Arrow counts as a null of the union; make its field nullable",
            ));
        }
        let is_paged = node.children.len() > usize::from(PAGE);
        let mut children = Vec::with_capacity(alternatives.len());
        if is_paged {
            for (page, (_, field)) in node.children.chunks(PAGE.into()).zip(alternatives.iter()) {
                let page = WireNode::complex(WireType::Variant8, page.to_vec());
                children.push(Column::Union(Self::try_new(&page, field, rules)?));
            }
        } else {
            if alternatives.len() != node.children.len()
                || alternatives
                    .iter()
                    .enumerate()
                    .any(|(number, (id, _))| usize::try_from(id) != Ok(number))
            {
                return Err(no_mapping(node, field));
            }
            check_names(node, field, alternatives.iter().map(|(_, it)| it.as_ref()))?;
            for (child, (_, field)) in node.children.iter().zip(alternatives.iter()) {
                children.push(Column::try_new(child, field, rules)?);
            }
        }
        if children.len() != alternatives.len() {
            return Err(no_mapping(node, field));
        }
        Ok(Self {
            ids: Vec::new(),
            offsets: Vec::new(),
            children,
            is_wide: node.wire_type.is_wide(),
            num_alternatives: node.children.len(),
            is_paged,
        })
    }
}

/// Members of a tuple, by their names.
fn children(
    node: &WireNode,
    fields: &Fields,
    field: &Field,
    rules: ReadRules,
) -> Result<Vec<Column>> {
    check_names(node, field, fields.iter().map(AsRef::as_ref))?;
    pair(node, fields, field, rules)
}

/// Members of a tuple, by their order.
fn pair(node: &WireNode, fields: &Fields, field: &Field, rules: ReadRules) -> Result<Vec<Column>> {
    if node.children.len() != fields.len() {
        return Err(no_mapping(node, field));
    }
    let pairs = node.children.iter().zip(fields);
    pairs
        .map(|(child, field)| Column::try_new(child, field, rules))
        .collect()
}

/// Refuses members in another order or under other names than those of the wire: their values would change places. Children
/// without a name take any, and so do the key and the value of a map.
fn check_names<'a>(
    node: &WireNode,
    field: &Field,
    members: impl Iterator<Item = &'a Field>,
) -> Result<()> {
    for (number, (child, member)) in node.children.iter().zip(members).enumerate() {
        if !child.name.is_empty() && child.name != *member.name() {
            let reason = format!(
                "member {number} is `{}` on the wire and `{}` in the schema; members keep their names and their order",
                child.name,
                member.name()
            );
            return Err(Error::unsupported(
                format!("column `{}`", field.name()),
                reason,
            ));
        }
    }
    Ok(())
}

#[cold]
fn no_mapping(node: &WireNode, field: &Field) -> Error {
    let null = match (field.is_nullable(), node.optional_value()) {
        (true, _) => "",
        (false, None) => " not null",
        (false, Some(_)) => {
            " not null: the column is optional on the wire, so its field must be nullable"
        }
    };
    Error::unsupported(
        format!("column `{}`", field.name()),
        format!(
            "{node} is not decoded to {}{null}; docs/skiff.md lists the types that it is decoded to",
            arrow_name(field.data_type())
        ),
    )
}
