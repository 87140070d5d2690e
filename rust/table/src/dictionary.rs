//! Dictionary values at the start of a manifest file: one dictionary per field for the whole table.
//!
//! Integers lie plain. Strings and binaries lie as bytes followed by absolute 64 bit offsets, to which the
//! field's position points. A zero length value of a nullable field reads as null; where it is the empty
//! string instead, a validity bitmap in the manifest's extension says so.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::{GenericBinaryBuilder, GenericStringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, ScalarBuffer, ToByteSlice};
use arrow_schema::DataType;
use pilum_file::proto::{Dictionary, Field};

use crate::error::{Error, Result};
use crate::wire;

/// The type of a dictionary field's values, from `dict:<value>:<index>:<ordered>`.
pub(crate) fn value_type(field: &Field) -> Option<Result<DataType>> {
    let rest = field.logical_type.strip_prefix("dict:")?;
    let value = rest.rsplitn(3, ':').nth(2).unwrap_or_default();
    Some(Ok(match value {
        "string" => DataType::Utf8,
        "large_string" => DataType::LargeUtf8,
        "binary" => DataType::Binary,
        "large_binary" => DataType::LargeBinary,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        other => {
            return Some(Err(Error::unsupported(
                format!("column `{}`: a dictionary of {other:?}", field.name),
                "only strings, binaries and integers can be dictionary values",
            )));
        }
    }))
}

/// Reads the values that `field` points to.
pub(crate) fn decode(file: &[u8], field: &Field, validity: Option<&[u8]>) -> Result<ArrayRef> {
    let value_type = match value_type(field) {
        Some(Ok(value_type)) => value_type,
        Some(Err(_)) => return decode_beyond(file, field),
        None => {
            return Err(Error::corrupt(format!(
                "column `{}` is no dictionary",
                field.name
            )));
        }
    };
    let position = field.dictionary.unwrap_or_default();
    let damaged =
        |what: &str| Error::corrupt(format!("dictionary of column `{}`: {what}", field.name));
    let (Ok(offset), Ok(len)) = (
        u64::try_from(position.offset),
        u64::try_from(position.length),
    ) else {
        return Err(damaged("a negative position"));
    };
    // No value takes less than a bit, so this bounds everything that is allocated below.
    let count = usize::try_from(len)
        .ok()
        .filter(|count| *count <= file.len().saturating_mul(8));
    let count = count.ok_or_else(|| damaged("more values than the file can hold"))?;
    let validity = match validity {
        Some(bits) if bits.len() < count.div_ceil(8) => {
            return Err(damaged("its validity bitmap is too short"));
        }
        Some(bits) => Some(NullBuffer::new(BooleanBuffer::new(
            Buffer::from(bits.to_vec()),
            0,
            count,
        ))),
        None => None,
    };
    let at = Place {
        file,
        offset,
        count,
        name: &field.name,
    };
    Ok(match value_type {
        DataType::Int8 => at.plain::<Int8Type>(validity)?,
        DataType::Int16 => at.plain::<Int16Type>(validity)?,
        DataType::Int32 => at.plain::<Int32Type>(validity)?,
        DataType::Int64 => at.plain::<Int64Type>(validity)?,
        DataType::UInt8 => at.plain::<UInt8Type>(validity)?,
        DataType::UInt16 => at.plain::<UInt16Type>(validity)?,
        DataType::UInt32 => at.plain::<UInt32Type>(validity)?,
        DataType::UInt64 => at.plain::<UInt64Type>(validity)?,
        DataType::Utf8 => at.strings::<i32>(field.nullable, validity.as_ref())?,
        DataType::LargeUtf8 => at.strings::<i64>(field.nullable, validity.as_ref())?,
        DataType::Binary => at.binaries::<i32>(field.nullable, validity.as_ref())?,
        _ => at.binaries::<i64>(field.nullable, validity.as_ref())?,
    })
}

/// Values of types that only our own files have: they hold no null, and an empty one is a value.
fn decode_beyond(file: &[u8], field: &Field) -> Result<ArrayRef> {
    let top = Field {
        parent_id: -1,
        ..field.clone()
    };
    let schema = pilum_file::Schema::from_protos("the manifest", &[top], &BTreeMap::new())?;
    let bytes = bytes::Bytes::copy_from_slice(file);
    let mut values = pilum_file::decode_dictionaries("the manifest", &schema, &bytes, false)?;
    let missing = || Error::corrupt(format!("dictionary of column `{}`: no values", field.name));
    values.remove(&field.id).ok_or_else(missing)
}

struct Place<'a> {
    file: &'a [u8],
    offset: u64,
    count: usize,
    name: &'a str,
}

impl Place<'_> {
    fn what(&self) -> String {
        format!("dictionary of column `{}`", self.name)
    }

    fn plain<T: ArrowPrimitiveType>(&self, validity: Option<NullBuffer>) -> Result<ArrayRef> {
        let width = size_of::<T::Native>();
        let len = self.count.saturating_mul(width) as u64;
        let bytes = wire::slice(self.file, self.offset, len, &self.what())?;
        // A copy, because nothing in a manifest is aligned.
        let values = ScalarBuffer::<T::Native>::new(Buffer::from(bytes), 0, self.count);
        Ok(Arc::new(PrimitiveArray::<T>::new(values, validity)))
    }

    /// The bytes of each value; `None` = null.
    fn values(&self, nullable: bool, validity: Option<&NullBuffer>) -> Result<Vec<Option<&[u8]>>> {
        let len = (self.count as u64 + 1) * 8;
        let offsets = wire::slice(self.file, self.offset, len, &self.what())?;
        let (offsets, _) = offsets.as_chunks::<8>();
        let mut values = Vec::with_capacity(self.count);
        for (index, pair) in offsets.windows(2).enumerate() {
            let (start, end) = (i64::from_le_bytes(pair[0]), i64::from_le_bytes(pair[1]));
            let start = u64::try_from(start).unwrap_or(u64::MAX);
            let len = u64::try_from(end)
                .ok()
                .and_then(|end| end.checked_sub(start));
            let len = len.ok_or_else(|| Error::corrupt(format!("{}: bad offsets", self.what())))?;
            let value = wire::slice(self.file, start, len, &self.what())?;
            let is_null = match validity {
                Some(validity) => validity.is_null(index),
                None => nullable && value.is_empty(),
            };
            values.push((!is_null).then_some(value));
        }
        // Values may overlap, so the sum is not bounded by the file.
        let total: usize = values.iter().flatten().map(|value| value.len()).sum();
        if total > self.file.len() {
            return Err(Error::corrupt(format!("{}: values overlap", self.what())));
        }
        Ok(values)
    }

    fn strings<O: OffsetSizeTrait>(
        &self,
        nullable: bool,
        validity: Option<&NullBuffer>,
    ) -> Result<ArrayRef> {
        let mut builder = GenericStringBuilder::<O>::new();
        for value in self.values(nullable, validity)? {
            let text = value.map(std::str::from_utf8).transpose();
            let text = text.map_err(|_| Error::corrupt(format!("{}: not UTF-8", self.what())))?;
            builder.append_option(text);
        }
        Ok(Arc::new(builder.finish()))
    }

    fn binaries<O: OffsetSizeTrait>(
        &self,
        nullable: bool,
        validity: Option<&NullBuffer>,
    ) -> Result<ArrayRef> {
        let mut builder = GenericBinaryBuilder::<O>::new();
        for value in self.values(nullable, validity)? {
            builder.append_option(value);
        }
        Ok(Arc::new(builder.finish()))
    }
}

/// Appends the values to a manifest file that is being written; returns where they lie.
pub(crate) fn encode(out: &mut Vec<u8>, values: &dyn Array, name: &str) -> Result<Dictionary> {
    let offset = match values.data_type() {
        DataType::Int8 => put_plain::<Int8Type>(out, values),
        DataType::Int16 => put_plain::<Int16Type>(out, values),
        DataType::Int32 => put_plain::<Int32Type>(out, values),
        DataType::Int64 => put_plain::<Int64Type>(out, values),
        DataType::UInt8 => put_plain::<UInt8Type>(out, values),
        DataType::UInt16 => put_plain::<UInt16Type>(out, values),
        DataType::UInt32 => put_plain::<UInt32Type>(out, values),
        DataType::UInt64 => put_plain::<UInt64Type>(out, values),
        _ => {
            let Some(values) = byte_values(values) else {
                let values = arrow_array::make_array(values.to_data());
                let encoded = pilum_file::encode_dictionary(&values, out.len() as u64)?;
                out.extend_from_slice(&encoded.bytes);
                let place = |number| i64::try_from(number).unwrap_or(i64::MAX);
                let pilum_file::DictionaryPosition { offset, length } = encoded.position;
                return Ok(Dictionary {
                    offset: place(offset),
                    length: place(length),
                });
            };
            let mut offsets = vec![out.len() as u64];
            for value in values {
                out.extend_from_slice(value.unwrap_or_default());
                offsets.push(out.len() as u64);
            }
            let position = out.len();
            offsets
                .iter()
                .for_each(|offset| out.extend_from_slice(&offset.to_le_bytes()));
            position
        }
    };
    let too_large = |_| Error::Limit {
        what: format!("the dictionary of column `{name}`"),
        needed: "more than 2^63 bytes".to_owned(),
        limit: "2^63 bytes".to_owned(),
    };
    Ok(Dictionary {
        offset: i64::try_from(offset).map_err(too_large)?,
        length: i64::try_from(values.len()).map_err(too_large)?,
    })
}

fn put_plain<T: ArrowPrimitiveType>(out: &mut Vec<u8>, values: &dyn Array) -> usize {
    let position = out.len();
    let values = values.as_primitive::<T>();
    for index in 0..values.len() {
        // Nothing of what may lie under a null is stored.
        let value = if values.is_valid(index) {
            values.value(index)
        } else {
            T::Native::usize_as(0)
        };
        out.extend_from_slice(std::slice::from_ref(&value).to_byte_slice());
    }
    position
}

/// The values of a string or binary array; `None` for another type.
fn byte_values(values: &dyn Array) -> Option<Vec<Option<&[u8]>>> {
    Some(match values.data_type() {
        DataType::Utf8 => values
            .as_string::<i32>()
            .iter()
            .map(|v| v.map(str::as_bytes))
            .collect(),
        DataType::LargeUtf8 => values
            .as_string::<i64>()
            .iter()
            .map(|v| v.map(str::as_bytes))
            .collect(),
        DataType::Binary => values.as_binary::<i32>().iter().collect(),
        DataType::LargeBinary => values.as_binary::<i64>().iter().collect(),
        _ => return None,
    })
}

/// The validity bitmap that the values need, if a version 1 reader would see others: a null that is no zero
/// length value of a nullable field, or a zero length value that is no null.
pub(crate) fn needed_validity(values: &dyn Array, nullable: bool) -> Option<Vec<u8>> {
    let seen_as_null: Vec<bool> = match byte_values(values) {
        Some(bytes) => bytes
            .iter()
            .map(|value| nullable && value.unwrap_or_default().is_empty())
            .collect(),
        None => vec![false; values.len()],
    };
    if (0..values.len()).all(|index| values.is_null(index) == seen_as_null[index]) {
        return None;
    }
    let bits = BooleanBuffer::collect_bool(values.len(), |index| values.is_valid(index));
    Some(
        bits.inner()
            .as_slice()
            .get(..values.len().div_ceil(8))?
            .to_vec(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{BinaryArray, Int16Array, LargeStringArray, StringArray};

    fn field(logical_type: &str, nullable: bool) -> Field {
        Field {
            name: "d".into(),
            logical_type: logical_type.into(),
            nullable,
            ..Default::default()
        }
    }

    fn round_trip(logical_type: &str, nullable: bool, values: &ArrayRef) -> Vec<u8> {
        let mut file = b"junk before".to_vec();
        let mut field = field(logical_type, nullable);
        field.dictionary = Some(encode(&mut file, values, "d").unwrap());
        let validity = needed_validity(values, nullable);
        let read = decode(&file, &field, validity.as_deref()).unwrap();
        assert_eq!(&read, values);
        // Every truncation is an error, never a panic.
        for len in 0..file.len() {
            assert_eq!(
                decode(&file[..len], &field, None).unwrap_err().kind(),
                "corrupt"
            );
        }
        file
    }

    #[test]
    fn values_come_back_and_lie_as_the_format_says() {
        let values = StringArray::from(vec!["a", "b"]);
        let mut file = Vec::new();
        let place = encode(&mut file, &values, "d").unwrap();
        assert_eq!((place.offset, place.length), (2, 2));
        assert_eq!(file[..2], *b"ab");
        assert_eq!(file[2..], [0u64, 1, 2].map(u64::to_le_bytes).concat());
        round_trip(
            "dict:string:int8:false",
            true,
            &(Arc::new(values) as ArrayRef),
        );
        let large = LargeStringArray::from(vec![Some("grün"), None, Some("")]);
        round_trip(
            "dict:large_string:uint16:false",
            true,
            &(Arc::new(large) as ArrayRef),
        );
        let binary = BinaryArray::from(vec![&b"\xff"[..], b"", b"x"]);
        round_trip(
            "dict:binary:int32:false",
            false,
            &(Arc::new(binary) as ArrayRef),
        );
        let ints = Int16Array::from(vec![Some(i16::MIN), None, Some(3)]);
        round_trip("dict:int16:int8:false", true, &(Arc::new(ints) as ArrayRef));
    }

    #[test]
    fn validity_is_kept_only_where_version_one_would_be_wrong() {
        let null = StringArray::from(vec![Some("a"), None]);
        assert_eq!(needed_validity(&null, true), None);
        let empty = StringArray::from(vec![Some("a"), Some("")]);
        assert_eq!(needed_validity(&empty, true), Some(vec![0b11]));
        assert_eq!(needed_validity(&empty, false), None);
        let both = StringArray::from(vec![Some(""), None]);
        assert_eq!(needed_validity(&both, true), Some(vec![0b01]));
        let ints = Int16Array::from(vec![Some(1), None]);
        assert_eq!(needed_validity(&ints, true), Some(vec![0b01]));
    }

    #[test]
    fn hostile_positions_are_damage() {
        for (offset, length) in [(-1, 1), (0, -1), (i64::MAX, 1), (0, i64::MAX), (0, 30)] {
            let mut field = field("dict:string:int8:false", true);
            field.dictionary = Some(Dictionary { offset, length });
            assert_eq!(
                decode(&[7; 64], &field, None).unwrap_err().kind(),
                "corrupt"
            );
        }
        let nested = decode(&[], &field("dict:struct:int8:false", true), None).unwrap_err();
        assert_eq!(nested.kind(), "unsupported");
    }
}
