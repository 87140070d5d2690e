//! Keys of `$other_columns` as typed columns.
//!
//! | YSON value | columns that take it |
//! |---|---|
//! | entity, or no such key | all; null |
//! | int64, uint64 | integers that hold the number; double and float, when it is exact |
//! | double | double; float, when it is exact |
//! | boolean | bool |
//! | string | binary, large_binary; string and large_string, when it is UTF-8 |
//! | any, with attributes too | binary or large_binary with the extension name `ytsaurus.yson` |
//!
//! Any other pair is a conflict.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, GenericByteBuilder, LargeBinaryBuilder, PrimitiveBuilder,
};
use arrow_array::types::{
    ArrowPrimitiveType, ByteArrayType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, LargeUtf8Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type, Utf8Type,
};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, FieldRef, Schema};

use crate::arrow_name::arrow_name;
use crate::bytes::BytesArray;
use crate::decode::exact_float;
use crate::error::{Error, Result, ValueFault};
use crate::schema::{OTHER, is_yson};
use crate::yson::{Limits, Node, OuterMap, Value, parse};

/// Most bytes of the maps of one batch: the offsets of the columns that are made have 32 bits.
const MAX_BYTES: usize = 1 << 30;

/// What happens to a value that the type of its column does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Conflicts {
    /// It is an error.
    #[default]
    Error,
    /// The column is null, and the value stays in `$other_columns`.
    Keep,
}

/// Takes keys out of the maps of `$other_columns` and makes columns of them, which stand before `$other_columns`.
///
/// The bytes of all other keys stay as they are. An encoder puts the columns into the maps again.
///
/// # Errors
///
/// [`Error::Value`] with `TypeConflict` and the row of the batch, [`Error::Unsupported`] for a batch without `$other_columns`, a
/// column that the batch has already, and types that the table above does not have.
pub fn promote_other_columns(
    batch: &RecordBatch,
    wanted: &Schema,
    conflicts: Conflicts,
    limits: Limits,
) -> Result<RecordBatch> {
    let schema = batch.schema_ref();
    let Some((place, _)) = schema.column_with_name(OTHER) else {
        let reason = "the batch does not have this column, whose keys become columns";
        return Err(Error::unsupported(format!("column `{OTHER}`"), reason));
    };
    let mut keys: HashMap<Vec<u8>, usize> = HashMap::with_capacity(wanted.fields().len());
    let mut columns = Vec::with_capacity(wanted.fields().len());
    for (number, field) in wanted.fields().iter().enumerate() {
        let is_second = keys
            .insert(field.name().clone().into_bytes(), number)
            .is_some();
        if is_second || schema.column_with_name(field.name()).is_some() {
            return Err(Error::unsupported(
                format!("column `{}`", field.name()),
                "the batch has a column of this name already; rename or drop it",
            ));
        }
        columns.push(Promoted::try_new(field)?);
    }
    let maps = BytesArray::try_new(batch.column(place).as_ref())?;
    let num_bytes: usize = (0..batch.num_rows()).map(|row| maps.bytes(row).len()).sum();
    if num_bytes > MAX_BYTES {
        return Err(Error::Limit {
            what: format!("the maps of the batch have {num_bytes} bytes, more than {MAX_BYTES}"),
            remedy: "pass the batch in slices",
        });
    }
    let mut rest = BinaryBuilder::with_capacity(batch.num_rows(), 0);
    let mut bytes = Vec::new();
    for row in 0..batch.num_rows() {
        let refused = |source: Error| Error::Row {
            row,
            source: Box::new(source),
        };
        let map = maps.value(row).unwrap_or(b"{}");
        let mut map = OuterMap::try_new(map, limits, &keys).map_err(refused)?;
        for (number, column) in columns.iter_mut().enumerate() {
            let Some(value) = map.value(number) else {
                column.append_null();
                continue;
            };
            let node = parse(value, limits).map_err(refused)?;
            if column.append(&node, value) {
                continue;
            }
            match conflicts {
                Conflicts::Error => return Err(conflict(row, wanted.field(number), &node)),
                Conflicts::Keep => {
                    column.append_null();
                    map.put_back(number);
                }
            }
        }
        bytes.clear();
        map.write(&[], &mut bytes);
        rest.append_value(&bytes);
    }
    let columns = columns.iter_mut().map(Promoted::finish).collect();
    assemble(batch, place, wanted, columns, Arc::new(rest.finish()))
}

/// The batch with the columns before the rest of the maps, which are at `place`.
fn assemble(
    batch: &RecordBatch,
    place: usize,
    wanted: &Schema,
    columns: Vec<ArrayRef>,
    rest: ArrayRef,
) -> Result<RecordBatch> {
    let schema = batch.schema_ref();
    let mut fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
    let mut arrays: Vec<ArrayRef> = batch.columns().to_vec();
    let other = schema.field(place).clone();
    let other = Arc::new(other.with_data_type(DataType::Binary));
    let wanted = wanted.fields().iter();
    let wanted = wanted.map(|field| Arc::new(field.as_ref().clone().with_nullable(true)));
    fields.splice(place..=place, wanted.chain([other]));
    arrays.splice(place..=place, columns.into_iter().chain([rest]));
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::new(schema),
        arrays,
        &options,
    )?)
}

#[cold]
fn conflict(row: usize, field: &Field, node: &Node) -> Error {
    let found = match &node.value {
        _ if !node.attributes.is_empty() => "a value with attributes".to_owned(),
        Value::Int64(value) => format!("the int64 {value}"),
        Value::Uint64(value) => format!("the uint64 {value}"),
        Value::Double(value) => format!("the double {value:?}"),
        Value::Boolean(value) => format!("the boolean {value}"),
        Value::String(_) => "a string".to_owned(),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a map".to_owned(),
        Value::Entity => "an entity".to_owned(),
    };
    Error::Value {
        fault: ValueFault::TypeConflict,
        table: 0,
        row: row as u64,
        column: Some(field.name().clone()),
        reason: format!(
            "the value is {found}, which {} does not hold; choose another type, or keep such values in their map",
            arrow_name(field.data_type())
        ),
    }
}

/// A column that is being made.
enum Promoted {
    Boolean(BooleanBuilder),
    Int8(PrimitiveBuilder<Int8Type>),
    Int16(PrimitiveBuilder<Int16Type>),
    Int32(PrimitiveBuilder<Int32Type>),
    Int64(PrimitiveBuilder<Int64Type>),
    Uint8(PrimitiveBuilder<UInt8Type>),
    Uint16(PrimitiveBuilder<UInt16Type>),
    Uint32(PrimitiveBuilder<UInt32Type>),
    Uint64(PrimitiveBuilder<UInt64Type>),
    Float32(PrimitiveBuilder<Float32Type>),
    Float64(PrimitiveBuilder<Float64Type>),
    Text(GenericByteBuilder<Utf8Type>),
    LargeText(GenericByteBuilder<LargeUtf8Type>),
    Bytes(BinaryBuilder),
    LargeBytes(LargeBinaryBuilder),
    Yson(BinaryBuilder),
    LargeYson(LargeBinaryBuilder),
}

impl Promoted {
    fn try_new(field: &Field) -> Result<Self> {
        Ok(match field.data_type() {
            DataType::Boolean => Self::Boolean(BooleanBuilder::new()),
            DataType::Int8 => Self::Int8(PrimitiveBuilder::new()),
            DataType::Int16 => Self::Int16(PrimitiveBuilder::new()),
            DataType::Int32 => Self::Int32(PrimitiveBuilder::new()),
            DataType::Int64 => Self::Int64(PrimitiveBuilder::new()),
            DataType::UInt8 => Self::Uint8(PrimitiveBuilder::new()),
            DataType::UInt16 => Self::Uint16(PrimitiveBuilder::new()),
            DataType::UInt32 => Self::Uint32(PrimitiveBuilder::new()),
            DataType::UInt64 => Self::Uint64(PrimitiveBuilder::new()),
            DataType::Float32 => Self::Float32(PrimitiveBuilder::new()),
            DataType::Float64 => Self::Float64(PrimitiveBuilder::new()),
            DataType::Utf8 => Self::Text(GenericByteBuilder::new()),
            DataType::LargeUtf8 => Self::LargeText(GenericByteBuilder::new()),
            DataType::Binary if is_yson(field) => Self::Yson(BinaryBuilder::new()),
            DataType::LargeBinary if is_yson(field) => Self::LargeYson(LargeBinaryBuilder::new()),
            DataType::Binary => Self::Bytes(BinaryBuilder::new()),
            DataType::LargeBinary => Self::LargeBytes(LargeBinaryBuilder::new()),
            other => {
                return Err(Error::unsupported(
                    format!("column `{}`", field.name()),
                    format!(
                        "no value of `{OTHER}` becomes {}; take bool, an integer, float, double, string or binary",
                        arrow_name(other)
                    ),
                ));
            }
        })
    }

    /// Appends a value, which has these bytes, or returns false for one of another type.
    fn append(&mut self, node: &Node, bytes: &[u8]) -> bool {
        match self {
            Self::Yson(out) => {
                out.append_value(bytes);
                return true;
            }
            Self::LargeYson(out) => {
                out.append_value(bytes);
                return true;
            }
            _ => {}
        }
        if !node.attributes.is_empty() {
            return false;
        }
        if node.value == Value::Entity {
            self.append_null();
            return true;
        }
        match (self, &node.value) {
            (Self::Boolean(out), Value::Boolean(value)) => out.append_value(*value),
            (Self::Int8(out), value) => return integer(out, value),
            (Self::Int16(out), value) => return integer(out, value),
            (Self::Int32(out), value) => return integer(out, value),
            (Self::Int64(out), value) => return integer(out, value),
            (Self::Uint8(out), value) => return integer(out, value),
            (Self::Uint16(out), value) => return integer(out, value),
            (Self::Uint32(out), value) => return integer(out, value),
            (Self::Uint64(out), value) => return integer(out, value),
            (Self::Float64(out), value) => match double(value) {
                Some(value) => out.append_value(value),
                None => return false,
            },
            (Self::Float32(out), value) => match double(value).and_then(exact_float) {
                Some(value) => out.append_value(value),
                None => return false,
            },
            (Self::Text(out), Value::String(value)) => return text(out, value),
            (Self::LargeText(out), Value::String(value)) => return text(out, value),
            (Self::Bytes(out), Value::String(value)) => out.append_value(value),
            (Self::LargeBytes(out), Value::String(value)) => out.append_value(value),
            _ => return false,
        }
        true
    }

    fn append_null(&mut self) {
        match self {
            Self::Boolean(out) => out.append_null(),
            Self::Int8(out) => out.append_null(),
            Self::Int16(out) => out.append_null(),
            Self::Int32(out) => out.append_null(),
            Self::Int64(out) => out.append_null(),
            Self::Uint8(out) => out.append_null(),
            Self::Uint16(out) => out.append_null(),
            Self::Uint32(out) => out.append_null(),
            Self::Uint64(out) => out.append_null(),
            Self::Float32(out) => out.append_null(),
            Self::Float64(out) => out.append_null(),
            Self::Text(out) => out.append_null(),
            Self::LargeText(out) => out.append_null(),
            Self::Bytes(out) | Self::Yson(out) => out.append_null(),
            Self::LargeBytes(out) | Self::LargeYson(out) => out.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Boolean(out) => Arc::new(out.finish()),
            Self::Int8(out) => Arc::new(out.finish()),
            Self::Int16(out) => Arc::new(out.finish()),
            Self::Int32(out) => Arc::new(out.finish()),
            Self::Int64(out) => Arc::new(out.finish()),
            Self::Uint8(out) => Arc::new(out.finish()),
            Self::Uint16(out) => Arc::new(out.finish()),
            Self::Uint32(out) => Arc::new(out.finish()),
            Self::Uint64(out) => Arc::new(out.finish()),
            Self::Float32(out) => Arc::new(out.finish()),
            Self::Float64(out) => Arc::new(out.finish()),
            Self::Text(out) => Arc::new(out.finish()),
            Self::LargeText(out) => Arc::new(out.finish()),
            Self::Bytes(out) | Self::Yson(out) => Arc::new(out.finish()),
            Self::LargeBytes(out) | Self::LargeYson(out) => Arc::new(out.finish()),
        }
    }
}

fn integer<T: ArrowPrimitiveType>(out: &mut PrimitiveBuilder<T>, value: &Value) -> bool
where
    T::Native: TryFrom<i128>,
{
    let value = match value {
        Value::Int64(value) => i128::from(*value),
        Value::Uint64(value) => i128::from(*value),
        _ => return false,
    };
    let native = T::Native::try_from(value);
    native.map(|value| out.append_value(value)).is_ok()
}

fn text<T: ByteArrayType<Native = str>>(out: &mut GenericByteBuilder<T>, value: &[u8]) -> bool {
    let text = std::str::from_utf8(value);
    text.map(|text| out.append_value(text)).is_ok()
}

/// The number as a double, when no digit is lost.
fn double(value: &Value) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "integers up to 2^53 are exact")]
    match value {
        Value::Double(value) => Some(*value),
        Value::Int64(value) if value.unsigned_abs() <= 1 << 53 => Some(*value as f64),
        Value::Uint64(value) if *value <= 1 << 53 => Some(*value as f64),
        _ => None,
    }
}
