//! Which source of values a wire node and an Arrow array make.
//!
//! An array is matched with the wire node and with the Arrow type that the node is decoded to: what is written can be read back
//! in the same format, as the same value.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::{DataType, Field};

use super::column::Column;
use super::units;
use super::value::Check;
use crate::arrow_name::arrow_name;
use crate::error::{Error, Result};
use crate::schema::{Integer, WireNode, WireType, is_json, is_uuid, is_yson};

/// A wire node with the array that is written as it.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) node: &'a WireNode,
    /// The field that the node is decoded to.
    pub(crate) expected: &'a Field,
    /// The field of the array.
    pub(crate) field: &'a Field,
    pub(crate) array: &'a ArrayRef,
}

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
    /// A column for the values of an array.
    pub(crate) fn bind(self, part: Part<'_>) -> Result<Column> {
        let is_null = part.array.data_type() == &DataType::Null;
        if let Some(value) = part.node.optional_value() {
            if is_null {
                return Ok(Column::Missing);
            }
            if has_bits(part.expected.data_type()) {
                return match has_bits(part.field.data_type()) {
                    true => self.bind_nullable(Part {
                        node: value,
                        ..part
                    }),
                    false => Err(self.no_mapping(part)),
                };
            }
        }
        if is_null && has_bits(part.expected.data_type()) {
            // A column of nulls alone is a column of any type with nulls alone.
            let nulls = NullBuffer::new_null(part.array.len());
            return Ok(with_nulls(part.node, nulls, Column::Nothing));
        }
        let column = self.bind_required(part)?;
        Ok(match nulls_of(part.array) {
            Some(nulls) if has_bits(part.field.data_type()) => with_nulls(part.node, nulls, column),
            _ => column,
        })
    }

    /// A column whose nulls are written as such, with the value behind a tag; the node is that of the value.
    pub(crate) fn bind_nullable(self, part: Part<'_>) -> Result<Column> {
        let nulls = nulls_of(part.array);
        let value = part.node;
        let is_wrapped = value.optional_value().is_some() || value.wire_type != WireType::Tuple;
        let value = match part.expected.data_type() {
            // A struct around a value that can be null itself; it has no bytes of its own.
            DataType::Struct(fields) if is_wrapped => {
                let structs = part.array.as_struct_opt();
                let inner = structs.map(|it| (it.fields().iter().as_slice(), it.columns()));
                let ([expected], Some(([field], [array]))) = (fields.iter().as_slice(), inner)
                else {
                    return Err(self.no_mapping(part));
                };
                self.bind(Part {
                    node: value,
                    expected,
                    field,
                    array,
                })?
            }
            _ => self.bind_required(part)?,
        };
        Ok(Column::Optional {
            nulls,
            value: Box::new(value),
        })
    }

    fn bind_required(self, part: Part<'_>) -> Result<Column> {
        if let Some(dictionary) = part.array.as_any_dictionary_opt() {
            // A key under a null may be anything; it is not looked at.
            let keys = if dictionary.values().is_empty() {
                vec![0; part.array.len()]
            } else {
                dictionary.normalized_keys()
            };
            let array = dictionary.values();
            let field = &part.field.clone().with_data_type(array.data_type().clone());
            return Ok(Column::Dictionary {
                keys,
                value: Box::new(self.bind_required(Part {
                    field,
                    array,
                    ..part
                })?),
            });
        }
        let Part {
            node,
            expected,
            array,
            ..
        } = part;
        match node.wire_type {
            WireType::Tuple => {
                let (DataType::Struct(_), Some(structs)) =
                    (expected.data_type(), array.as_struct_opt())
                else {
                    return Err(self.no_mapping(part));
                };
                let is_pair = false;
                let columns = (structs.fields(), structs.columns());
                Ok(Column::Struct(
                    self.bind_tuple(node, expected, columns, is_pair)?,
                ))
            }
            WireType::Variant8 | WireType::Variant16 => match array.as_union_opt() {
                Some(union) => Ok(Column::Union(self.bind_union(node, expected, union)?)),
                None => Err(self.no_mapping(part)),
            },
            WireType::RepeatedVariant8 | WireType::RepeatedVariant16 => self.bind_list(part),
            _ => self.bind_simple(part),
        }
    }

    fn bind_simple(self, part: Part<'_>) -> Result<Column> {
        let Part {
            node,
            expected,
            field,
            array,
        } = part;
        let data_type = array.data_type();
        if units::differ(node.wire_type, expected, field, data_type) {
            return Err(self.other_value(expected, field));
        }
        if let Some(wire) = Integer::of_wire(node.wire_type) {
            return self.bind_integer(wire, part);
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
            (WireType::Int128, _) => self.bind_decimal(16, part)?,
            (WireType::Int256, _) => self.bind_decimal(32, part)?,
            (WireType::String32 | WireType::Yson32, _) => self.bind_string(part)?,
            _ => return Err(self.no_mapping(part)),
        })
    }

    fn bind_integer(self, wire: Integer, part: Part<'_>) -> Result<Column> {
        let array = part.array;
        // A value must fit the wire and the type that it is decoded to.
        let held = Integer::of_arrow(part.expected.data_type());
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
            _ if wire.is_signed && wire.bytes >= 4 => self.bind_decimal(wire.bytes, part),
            _ => Err(self.no_mapping(part)),
        }
    }

    fn bind_decimal(self, wire_bytes: usize, part: Part<'_>) -> Result<Column> {
        let (DataType::Decimal128(precision, _) | DataType::Decimal256(precision, _)) =
            part.expected.data_type()
        else {
            return Err(self.no_mapping(part));
        };
        let arrow_bytes = match part.array.data_type() {
            DataType::Decimal128(_, _) => 16,
            DataType::Decimal256(_, _) => 32,
            _ => return Err(self.no_mapping(part)),
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
            values: plain(part.array, arrow_bytes),
        })
    }

    fn bind_string(self, part: Part<'_>) -> Result<Column> {
        let (expected, array) = (part.expected, part.array);
        let is_node = part.node.wire_type == WireType::Yson32;
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
            DataType::Utf8 if is_node && is_json(part.field) => Ok(Column::Json {
                texts: Arc::clone(array),
                check: self.yson,
            }),
            _ if is_node && is_text => Err(self.no_mapping(part)),
            DataType::FixedSizeBinary(_) if is_node => Err(self.no_mapping(part)),
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
            _ => Err(self.no_mapping(part)),
        }
    }

    #[cold]
    pub(super) fn no_mapping(self, part: Part<'_>) -> Error {
        let name = arrow_name(part.field.data_type());
        let reason = format!("{name} is not encoded as {}; cast the column", part.node);
        self.unsupported(part.field, &reason)
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
    pub(super) fn unsupported(self, field: &Field, reason: &str) -> Error {
        let place = match field.name() == self.column {
            true => format!("column `{}`", self.column),
            false => format!("column `{}`, `{}` in it", self.column, field.name()),
        };
        Error::unsupported(place, reason)
    }
}

/// The nulls of an array that has some.
fn nulls_of(array: &ArrayRef) -> Option<NullBuffer> {
    array.logical_nulls().filter(|nulls| nulls.null_count() > 0)
}

/// A column of a required node whose array has nulls.
fn with_nulls(node: &WireNode, nulls: NullBuffer, value: Column) -> Column {
    let value = Box::new(value);
    match node.wire_type {
        WireType::Yson32 => Column::Entity { nulls, value },
        _ => Column::Required { nulls, value },
    }
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
