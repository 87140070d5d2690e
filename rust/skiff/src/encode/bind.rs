//! Which source of values a wire node and an Arrow array make.
//!
//! An array is matched with the wire node and with the Arrow type that the node is decoded to: what is written can be read back
//! in the same format, as the same value.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, UnionArray};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::{DataType, Field, FieldRef};

use super::column::{Check, Column, Union};
use super::{members, units};
use crate::arrow_name::arrow_name;
use crate::error::{Error, Result};
use crate::schema::{Integer, WireNode, WireType, is_json, is_uuid, is_yson};

/// Binds the parts of one column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binder<'a> {
    /// The name of the top-level column.
    pub(crate) column: &'a str,
    /// The check of YSON nodes.
    pub(crate) yson: Check,
}

/// A null array and a union have no validity bits.
fn has_bits(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Null | DataType::Union(_, _))
}

impl Binder<'_> {
    /// A column for the values of an array. `expected` is the field that the node is decoded to, `field` that of the array.
    pub(crate) fn bind(
        self,
        node: &WireNode,
        expected: &Field,
        field: &Field,
        array: &ArrayRef,
    ) -> Result<Column> {
        if let Some(value) = node.optional_value() {
            if array.data_type() == &DataType::Null {
                return Ok(Column::Missing);
            }
            if has_bits(expected.data_type()) {
                return match has_bits(field.data_type()) {
                    true => self.bind_nullable(value, expected, field, array),
                    false => Err(self.no_mapping(node, field)),
                };
            }
        }
        let column = self.bind_required(node, expected, field, array)?;
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        Ok(match nulls {
            Some(nulls) if has_bits(field.data_type()) => {
                let value = Box::new(column);
                match node.wire_type {
                    WireType::Yson32 => Column::Entity { nulls, value },
                    _ => Column::Required { nulls, value },
                }
            }
            _ => column,
        })
    }

    /// A column whose nulls are written as such, with the value behind a tag.
    pub(crate) fn bind_nullable(
        self,
        value: &WireNode,
        expected: &Field,
        field: &Field,
        array: &ArrayRef,
    ) -> Result<Column> {
        let nulls: Option<NullBuffer> =
            array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let is_wrapped = value.optional_value().is_some() || value.wire_type != WireType::Tuple;
        let value = match expected.data_type() {
            // A struct around a value that can be null itself; it has no bytes of its own.
            DataType::Struct(fields) if is_wrapped => {
                let structs = array.as_struct_opt();
                let inner = structs.map(|it| (it.fields().iter().as_slice(), it.columns()));
                let ([expected], Some(([inner], [column]))) = (fields.iter().as_slice(), inner)
                else {
                    return Err(self.no_mapping(value, field));
                };
                self.bind(value, expected, inner, column)?
            }
            _ => self.bind_required(value, expected, field, array)?,
        };
        Ok(Column::Optional {
            nulls,
            value: Box::new(value),
        })
    }

    fn bind_required(
        self,
        node: &WireNode,
        expected: &Field,
        field: &Field,
        array: &ArrayRef,
    ) -> Result<Column> {
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
                value: Box::new(self.bind_required(node, expected, &inner, values)?),
            });
        }
        match node.wire_type {
            WireType::Tuple => {
                let (DataType::Struct(_), Some(structs)) =
                    (expected.data_type(), array.as_struct_opt())
                else {
                    return Err(self.no_mapping(node, field));
                };
                let is_pair = false;
                let columns = (structs.fields(), structs.columns());
                Ok(Column::Struct(
                    self.bind_tuple(node, expected, columns, is_pair)?,
                ))
            }
            WireType::Variant8 | WireType::Variant16 => match array.as_union_opt() {
                Some(union) => Ok(Column::Union(self.bind_union(node, expected, union)?)),
                None => Err(self.no_mapping(node, field)),
            },
            WireType::RepeatedVariant8 | WireType::RepeatedVariant16 => {
                self.bind_list(node, expected, field, array)
            }
            _ => self.bind_simple(node, expected, field, array),
        }
    }

    fn bind_simple(
        self,
        node: &WireNode,
        expected: &Field,
        field: &Field,
        array: &ArrayRef,
    ) -> Result<Column> {
        let data_type = array.data_type();
        if units::differ(node.wire_type, expected, field, data_type) {
            return Err(self.other_value(expected, field));
        }
        if let Some(wire) = Integer::of_wire(node.wire_type) {
            return self.bind_integer(node, wire, expected, (field, array));
        }
        Ok(match (node.wire_type, data_type) {
            (WireType::Nothing, DataType::Null) => Column::Nothing,
            (WireType::Boolean, DataType::Boolean) => {
                Column::Boolean(array.as_boolean().values().clone())
            }
            (WireType::Double, DataType::Float64) if expected.data_type() == &DataType::Float32 => {
                Column::Narrow(array.as_primitive::<Float64Type>().values().clone())
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
            (WireType::Int128, _) => self.bind_decimal(node, 16, expected, (field, array))?,
            (WireType::Int256, _) => self.bind_decimal(node, 32, expected, (field, array))?,
            (WireType::String32 | WireType::Yson32, _) => {
                self.bind_string(node, expected, field, array)?
            }
            _ => return Err(self.no_mapping(node, field)),
        })
    }

    fn bind_integer(
        self,
        node: &WireNode,
        wire: Integer,
        expected: &Field,
        (field, array): (&Field, &ArrayRef),
    ) -> Result<Column> {
        // A value must fit the wire and the type that it is decoded to.
        let held = Integer::of_arrow(expected.data_type());
        match (Integer::of_arrow(array.data_type()), held) {
            (Some(arrow), Some(held)) if arrow == wire && held.holds_all(wire) => {
                Ok(match wire.bytes {
                    1 => Column::Copy1(plain(array, 1)),
                    2 => Column::Copy2(plain(array, 2)),
                    4 => Column::Copy4(plain(array, 4)),
                    _ => Column::Copy8(plain(array, 8)),
                })
            }
            (Some(arrow), Some(held)) => Ok(Column::Number {
                arrow,
                wire,
                held,
                values: plain(array, arrow.bytes),
            }),
            _ if wire.is_signed && wire.bytes >= 4 => {
                self.bind_decimal(node, wire.bytes, expected, (field, array))
            }
            _ => Err(self.no_mapping(node, field)),
        }
    }

    fn bind_decimal(
        self,
        node: &WireNode,
        wire_bytes: usize,
        expected: &Field,
        (field, array): (&Field, &ArrayRef),
    ) -> Result<Column> {
        let (DataType::Decimal128(precision, _) | DataType::Decimal256(precision, _)) =
            expected.data_type()
        else {
            return Err(self.no_mapping(node, field));
        };
        let arrow_bytes = match array.data_type() {
            DataType::Decimal128(_, _) => 16,
            DataType::Decimal256(_, _) => 32,
            _ => return Err(self.no_mapping(node, field)),
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
            precision: *precision.min(&most),
            values: plain(array, arrow_bytes),
        })
    }

    fn bind_string(
        self,
        node: &WireNode,
        expected: &Field,
        field: &Field,
        array: &ArrayRef,
    ) -> Result<Column> {
        let is_node = node.wire_type == WireType::Yson32;
        let is_text = matches!(
            array.data_type(),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        );
        let check = match expected.data_type() {
            _ if is_node || is_yson(expected) => self.yson,
            DataType::Utf8 | DataType::LargeUtf8 if !is_text => Check::Utf8,
            DataType::FixedSizeBinary(width) if array.data_type() != expected.data_type() => {
                Check::Length(usize::try_from(*width).unwrap_or_default())
            }
            _ => Check::Nothing,
        };
        match array.data_type() {
            DataType::Utf8 if is_node && is_json(field) => Ok(Column::Json {
                texts: Arc::clone(array),
                check: self.yson,
            }),
            _ if is_node && is_text => Err(self.no_mapping(node, field)),
            DataType::FixedSizeBinary(_) if is_node => Err(self.no_mapping(node, field)),
            DataType::Utf8 if check == Check::Nothing => {
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
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::FixedSizeBinary(_) => Ok(Column::AnyBytes {
                array: Arc::clone(array),
                check,
            }),
            _ => Err(self.no_mapping(node, field)),
        }
    }

    /// Members by their names. The key and the value of a map entry, `is_pair`, are told apart by their order.
    fn bind_tuple(
        self,
        node: &WireNode,
        expected: &Field,
        (fields, columns): (&arrow_schema::Fields, &[ArrayRef]),
        is_pair: bool,
    ) -> Result<Vec<Column>> {
        let DataType::Struct(wanted) = expected.data_type() else {
            return Err(self.unsupported(expected, "the format does not decode it to a struct"));
        };
        let names = |fields: &arrow_schema::Fields| -> Vec<String> {
            fields.iter().map(|field| field.name().clone()).collect()
        };
        let places = match is_pair && fields.len() == wanted.len() {
            true => (0..fields.len()).map(Some).collect(),
            false => members::places(&names(wanted), &names(fields))
                .map_err(|reason| self.unsupported(expected, &reason))?,
        };
        let mut bound = Vec::with_capacity(node.children.len());
        for ((child, wanted), place) in node.children.iter().zip(wanted).zip(places) {
            let pair = place.and_then(|place| fields.get(place).zip(columns.get(place)));
            bound.push(match pair {
                Some((field, column)) => self.bind(child, wanted, field, column)?,
                None if child.optional_value().is_some() => Column::Missing,
                None => {
                    let reason = format!(
                        "it has no member `{}`, which the format requires",
                        wanted.name()
                    );
                    return Err(self.unsupported(expected, &reason));
                }
            });
        }
        Ok(bound)
    }

    /// Alternatives by their names.
    fn bind_union(self, node: &WireNode, expected: &Field, array: &UnionArray) -> Result<Union> {
        let (DataType::Union(wanted, _), DataType::Union(fields, _)) =
            (expected.data_type(), array.data_type())
        else {
            return Err(self.unsupported(expected, "the format does not decode it to a union"));
        };
        let is_paged = node.children.len() > 128;
        let pages: Vec<Arc<WireNode>>;
        let nodes = if is_paged {
            let page = |page: &[Arc<WireNode>]| {
                Arc::new(WireNode::complex(WireType::Variant8, page.to_vec()))
            };
            pages = node.children.chunks(128).map(page).collect();
            &pages
        } else {
            &node.children
        };
        let names = |fields: &arrow_schema::UnionFields| -> Vec<String> {
            fields.iter().map(|(_, it)| it.name().clone()).collect()
        };
        let places = members::places(&names(wanted), &names(fields))
            .map_err(|reason| self.unsupported(expected, &reason))?;
        let given: Vec<(i8, &FieldRef)> = fields.iter().collect();
        let mut numbers = [0; 128];
        let mut children = Vec::with_capacity(nodes.len());
        let alternatives = nodes.iter().zip(wanted.iter()).zip(places);
        for (number, ((child, (_, wanted)), place)) in alternatives.enumerate() {
            let Some((id, field)) = place.and_then(|place| given.get(place)) else {
                // No row has this alternative.
                children.push(Column::Nothing);
                continue;
            };
            let slot = usize::try_from(*id).ok().and_then(|id| numbers.get_mut(id));
            if let Some(slot) = slot {
                *slot = u8::try_from(number).unwrap_or_default();
            }
            children.push(self.bind(child, wanted, field, array.child(*id))?);
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

    fn bind_list(
        self,
        node: &WireNode,
        expected: &Field,
        field: &Field,
        array: &ArrayRef,
    ) -> Result<Column> {
        let (DataType::List(wanted) | DataType::LargeList(wanted) | DataType::Map(wanted, _)) =
            expected.data_type()
        else {
            return Err(self.no_mapping(node, field));
        };
        let Some((offsets, item, items)) = items_of(array) else {
            return Err(self.no_mapping(node, field));
        };
        let is_map = matches!(array.data_type(), DataType::Map(_, _));
        let is_choice = node.children.len() > 1;
        let column = match (node.children.as_slice(), items.as_struct_opt()) {
            ([child], Some(pairs)) if is_map && child.wire_type == WireType::Tuple => {
                let columns = (pairs.fields(), pairs.columns());
                Column::Struct(self.bind_tuple(child, wanted, columns, true)?)
            }
            ([child], _) => self.bind(child, wanted, &item, &items)?,
            _ => match items.as_union_opt() {
                Some(union) => Column::Union(self.bind_union(node, wanted, union)?),
                None => return Err(self.no_mapping(node, field)),
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
    fn no_mapping(self, node: &WireNode, field: &Field) -> Error {
        let name = arrow_name(field.data_type());
        let reason = format!("{name} is not encoded as {node}; cast the column");
        self.unsupported(field, &reason)
    }

    #[cold]
    fn other_value(self, expected: &Field, field: &Field) -> Error {
        let wanted = match is_uuid(expected) {
            true => "arrow.uuid".to_owned(),
            false => arrow_name(expected.data_type()),
        };
        let given = match is_uuid(field) {
            true => "arrow.uuid".to_owned(),
            false => arrow_name(field.data_type()),
        };
        let reason = format!(
            "it is {given}, and the format has {wanted}, in which the same bytes are another value; cast the column, or change \
             the type of the format"
        );
        self.unsupported(field, &reason)
    }

    #[cold]
    fn unsupported(self, field: &Field, reason: &str) -> Error {
        let place = match field.name() == self.column {
            true => format!("column `{}`", self.column),
            false => format!("column `{}`, `{}` in it", self.column, field.name()),
        };
        Error::unsupported(place, reason)
    }
}

/// The offsets, the field and the values of the items of a list or map.
fn items_of(array: &ArrayRef) -> Option<(Vec<usize>, FieldRef, ArrayRef)> {
    let narrow = |offsets: &[i32]| -> Vec<usize> {
        offsets
            .iter()
            .map(|offset| usize::try_from(*offset).unwrap_or_default())
            .collect()
    };
    Some(match array.data_type() {
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            (
                narrow(list.offsets()),
                Arc::clone(item),
                Arc::clone(list.values()),
            )
        }
        DataType::LargeList(item) => {
            let list = array.as_list::<i64>();
            let offsets = list.offsets().iter();
            let offsets = offsets.map(|offset| usize::try_from(*offset).unwrap_or_default());
            (
                offsets.collect(),
                Arc::clone(item),
                Arc::clone(list.values()),
            )
        }
        DataType::FixedSizeList(item, length) => {
            let list = array.as_fixed_size_list();
            let length = usize::try_from(*length).unwrap_or_default();
            let offsets = (0..=array.len()).map(|row| row * length).collect();
            (offsets, Arc::clone(item), Arc::clone(list.values()))
        }
        DataType::Map(entries, _) => {
            let map = array.as_map();
            let values: ArrayRef = Arc::new(map.entries().clone());
            (narrow(map.offsets()), Arc::clone(entries), values)
        }
        _ => return None,
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
