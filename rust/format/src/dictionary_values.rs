//! Dictionary values, which are stored in every data file and at the start of every manifest (`docs/format.md`, section 7).
//!
//! A reader of v1 takes every value of length 0 for a null, whatever the field declares. Where that is wrong, our extension
//! says so: a data file with one bit for all its dictionaries, a manifest with a validity bitmap for each dictionary.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_schema::DataType;
use bytes::Bytes;
use pilum_encoding::{
    Page, Segments, Validity, decode_dictionary_values, encode_dictionary_values,
};

use crate::error::{Error, Result, of_column};
use crate::proto::file as proto;
use crate::schema::{DictionaryPosition, Field, FieldId, Schema};

/// Dictionary values by field id.
pub type Dictionaries = BTreeMap<FieldId, ArrayRef>;

/// Encoded dictionary values.
#[derive(Clone, Debug)]
pub struct EncodedDictionary {
    /// The bytes to write at the position that was given.
    pub bytes: Vec<u8>,
    /// What `Field.dictionary` says of them.
    pub position: DictionaryPosition,
    /// As [`dictionary_validity`].
    pub validity: Option<Vec<u8>>,
    /// True if a value is empty: a reader of v1 takes it for a null, so the file must say that it is a value.
    pub has_empty: bool,
}

/// Encodes dictionary values that will start at `position`.
///
/// # Errors
/// `Unsupported` for types that there is no form for.
pub fn encode_dictionary(values: &dyn Array, position: u64) -> Result<EncodedDictionary> {
    let page = encode_dictionary_values(values, position)
        .map_err(|error| of_column("dictionary values", error).at("the data to write"))?;
    let mut zero_lengths = zero_lengths(values).into_iter().enumerate();
    Ok(EncodedDictionary {
        has_empty: zero_lengths.any(|(row, is_zero)| is_zero && values.is_valid(row)),
        bytes: page
            .buffers
            .iter()
            .flat_map(|buffer| buffer.as_slice())
            .copied()
            .collect(),
        position: DictionaryPosition {
            offset: position + page.pointer,
            length: page.length,
        },
        validity: dictionary_validity(values),
    })
}

/// The validity bitmap of the values: one bit each, least significant bit first, 1 = not null; `None` if a reader of v1 sees
/// the same nulls without it.
#[must_use]
pub fn dictionary_validity(values: &dyn Array) -> Option<Vec<u8>> {
    let read_as_null = zero_lengths(values);
    if (0..values.len()).all(|row| values.is_null(row) == read_as_null[row]) {
        return None;
    }
    let bits = BooleanBuffer::collect_bool(values.len(), |row| values.is_valid(row));
    Some(bits.inner().as_slice()[..values.len().div_ceil(8)].to_vec())
}

/// Which values take no byte when they are stored: nulls, and empty strings and binaries.
fn zero_lengths(values: &dyn Array) -> Vec<bool> {
    fn empty<'a, V: AsRef<[u8]> + ?Sized + 'a>(
        values: impl Iterator<Item = Option<&'a V>>,
    ) -> Vec<bool> {
        values
            .map(|value| value.is_none_or(|value| value.as_ref().is_empty()))
            .collect()
    }
    match values.data_type() {
        DataType::Utf8 => empty(values.as_string::<i32>().iter()),
        DataType::LargeUtf8 => empty(values.as_string::<i64>().iter()),
        DataType::Utf8View => empty(values.as_string_view().iter()),
        DataType::Binary => empty(values.as_binary::<i32>().iter()),
        DataType::LargeBinary => empty(values.as_binary::<i64>().iter()),
        DataType::BinaryView => empty(values.as_binary_view().iter()),
        _ => vec![false; values.len()],
    }
}

/// Writes the position into the field of that id.
pub fn set_dictionary(fields: &mut [Field], id: FieldId, position: DictionaryPosition) {
    for field in fields {
        if field.id == id {
            field.dictionary = Some(position);
        }
        set_dictionary(&mut field.children, id, position);
    }
}

/// The dictionary fields of a schema with the type and place of their values.
pub fn dictionary_fields(schema: &Schema) -> impl Iterator<Item = (&Field, &DataType, Page)> {
    schema
        .walk()
        .filter_map(|field| match (&field.data_type, field.dictionary) {
            (DataType::Dictionary(_, value), Some(place)) => Some((
                field,
                value.as_ref(),
                Page {
                    position: place.offset,
                    length: place.length,
                },
            )),
            _ => None,
        })
}

/// Decodes the values of one dictionary field from `bytes`, a whole file.
///
/// `validity`: which values are there, if the file says it of this field; otherwise a value of length 0 is null, unless
/// the field has no nulls.
///
/// # Errors
/// `Corrupt` with the field, `Unsupported` for types that are not known.
pub fn decode_dictionary(
    file: &str,
    field: &proto::Field,
    bytes: &Bytes,
    validity: Option<&[u8]>,
) -> Result<ArrayRef> {
    let name = &field.name;
    let damaged =
        |what: &str| Error::corrupt(format!("dictionary of column `{name}`: {what}")).at(file);
    let top = proto::Field {
        parent_id: -1,
        ..field.clone()
    };
    let schema = Schema::from_protos(file, &[top], &BTreeMap::new())?;
    let (field, value, page) = dictionary_fields(&schema)
        .next()
        .ok_or_else(|| damaged("no values"))?;
    // No value takes less than a bit, so this bounds everything that is allocated below.
    let len = usize::try_from(page.length).unwrap_or(usize::MAX);
    if len > bytes.len().saturating_mul(8) {
        return Err(damaged("more values than the file can hold"));
    }
    let segments = Segments::new([(0, bytes.clone().into())]);
    let empty_is_null = validity.is_none() && field.nullable;
    let values = decode_dictionary_values(value, &page, &[Validity::V1], empty_is_null, &segments)
        .map_err(|error| of_column(name, error).at(file))?;
    let Some(bits) = validity else {
        return Ok(values);
    };
    if bits.len() < len.div_ceil(8) {
        return Err(damaged("its validity bitmap is too short"));
    }
    let bits = BooleanBuffer::new(Buffer::from(bits.to_vec()), 0, len);
    let nulls = Some(NullBuffer::new(bits)).filter(|nulls| nulls.null_count() > 0);
    let built = values.to_data().into_builder().nulls(nulls).build();
    Ok(make_array(
        built.map_err(|error| damaged(&error.to_string()))?,
    ))
}

/// The longer of two dictionaries when one is a prefix of the other, else `None`.
#[must_use]
pub fn longer(a: &ArrayRef, b: &ArrayRef) -> Option<ArrayRef> {
    let shared = a.len().min(b.len());
    let is_same = a.data_type() == b.data_type() && a.slice(0, shared) == b.slice(0, shared);
    let longer = if a.len() >= b.len() { a } else { b };
    is_same.then(|| Arc::clone(longer))
}

/// True if every dictionary of `ours` is a prefix of that in `theirs`, so that keys into ours mean the same values there.
#[must_use]
pub fn continues(theirs: &BTreeMap<i32, ArrayRef>, ours: &BTreeMap<i32, ArrayRef>) -> bool {
    ours.iter().all(|(id, ours)| {
        let theirs = theirs.get(id);
        theirs.is_some_and(|theirs| theirs.len() >= ours.len() && longer(theirs, ours).is_some())
    })
}

#[cfg(test)]
mod tests {

    use arrow_array::{
        BinaryArray, BinaryViewArray, BooleanArray, Int16Array, LargeStringArray, StringArray,
    };

    use super::*;

    fn field(logical_type: &str, nullable: bool) -> proto::Field {
        proto::Field {
            name: "d".into(),
            logical_type: logical_type.into(),
            nullable,
            ..Default::default()
        }
    }

    fn kind(error: &Error) -> &'static str {
        match error {
            Error::Corrupt { .. } => "corrupt",
            Error::Unsupported { .. } => "unsupported",
            _ => "other",
        }
    }

    fn round_trip(logical_type: &str, nullable: bool, values: impl Array + 'static) -> Vec<u8> {
        let values: ArrayRef = Arc::new(values);
        let mut file = b"junk before".to_vec();
        let encoded = encode_dictionary(&values, file.len() as u64).unwrap();
        file.extend_from_slice(&encoded.bytes);
        let mut field = field(logical_type, nullable);
        field.dictionary = Some(encoded.position.into());
        let decode = |bytes: &[u8], validity: Option<&[u8]>| {
            decode_dictionary("f", &field, &Bytes::copy_from_slice(bytes), validity)
        };
        let read = decode(&file, encoded.validity.as_deref()).unwrap();
        assert_eq!(&read, &values);
        let short = decode(&file, Some(&[])).unwrap_err();
        assert_eq!(kind(&short), "corrupt");
        // Every truncation is an error, never a panic.
        for len in 0..file.len() {
            assert_eq!(kind(&decode(&file[..len], None).unwrap_err()), "corrupt");
        }
        file
    }

    #[test]
    fn values_come_back_and_lie_as_the_format_says() {
        let values = StringArray::from(vec!["a", "b"]);
        let encoded = encode_dictionary(&values, 0).unwrap();
        assert_eq!((encoded.position.offset, encoded.position.length), (2, 2));
        assert_eq!(encoded.bytes[..2], *b"ab");
        assert_eq!(
            encoded.bytes[2..],
            [0u64, 1, 2].map(u64::to_le_bytes).concat()
        );
        round_trip("dict:string:int8:false", true, values);
        let large = LargeStringArray::from(vec![Some("grün"), None, Some("")]);
        round_trip("dict:large_string:uint16:false", true, large);
        let binary = BinaryArray::from(vec![&b"\xff"[..], b"", b"x"]);
        round_trip("dict:binary:int32:false", false, binary);
        let views = BinaryViewArray::from_iter_values([&b""[..], b"longer than twelve bytes"]);
        round_trip("dict:binary_view:int32:false", true, views);
        let ints = Int16Array::from(vec![Some(i16::MIN), None, Some(3)]);
        round_trip("dict:int16:int8:false", true, ints);
        let bits = BooleanArray::from(vec![true, false]);
        round_trip("dict:bool:uint8:false", true, bits);
    }

    #[test]
    fn validity_is_told_only_where_version_one_would_be_wrong() {
        let null = StringArray::from(vec![Some("a"), None]);
        assert_eq!(dictionary_validity(&null), None);
        let empty = StringArray::from(vec![Some("a"), Some("")]);
        assert_eq!(dictionary_validity(&empty), Some(vec![0b11]));
        let both = StringArray::from(vec![Some(""), None]);
        assert_eq!(dictionary_validity(&both), Some(vec![0b01]));
        let ints = Int16Array::from(vec![Some(1), None]);
        assert_eq!(dictionary_validity(&ints), Some(vec![0b01]));
        let has_empty = |values: &dyn Array| encode_dictionary(values, 0).unwrap().has_empty;
        assert!(!has_empty(&null) && has_empty(&empty) && has_empty(&both) && !has_empty(&ints));
    }

    #[test]
    fn hostile_positions_are_damage() {
        let bytes = Bytes::from_static(&[7; 64]);
        let decode =
            |field: &proto::Field| decode_dictionary("f", field, &bytes, None).unwrap_err();
        for value in ["string", "int64", "bool", "fixed_size_binary:9"] {
            for (offset, length) in [(-1, 1), (0, -1), (i64::MAX, 1), (0, i64::MAX), (60, 600)] {
                let mut field = field(&format!("dict:{value}:int8:false"), true);
                field.dictionary = Some(proto::Dictionary { offset, length });
                assert_eq!(
                    kind(&decode(&field)),
                    "corrupt",
                    "{value} {offset} {length}"
                );
            }
        }
        let mut nested = field("dict:struct:int8:false", true);
        nested.dictionary = Some(proto::Dictionary::default());
        assert_eq!(kind(&decode(&nested)), "unsupported");
        assert_eq!(
            kind(&decode(&field("dict:string:int8:false", true))),
            "corrupt"
        );
        assert_eq!(kind(&decode(&field("int8", true))), "corrupt");
    }
}
