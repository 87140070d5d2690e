//! Dictionaries of a table while rows are written: values are appended in the order in which they first
//! appear, so keys written earlier stay right.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, DictionaryArray, LargeBinaryArray,
    LargeStringArray, PrimitiveArray, StringArray, StringViewArray, make_array,
};
use arrow_schema::DataType;

use crate::error::{Error, Result};

/// The dictionaries of all columns, by field id.
#[derive(Debug, Default)]
pub(crate) struct GrowingDictionaries {
    columns: BTreeMap<i32, GrowingDictionary>,
    /// The values belong to a table that exists: other ones are refused.
    is_fixed: bool,
}

#[derive(Debug)]
struct GrowingDictionary {
    /// Raw bytes of each value; `None` = null, which only foreign tables have.
    values: Vec<Option<Vec<u8>>>,
    positions: HashMap<Vec<u8>, usize>,
    value_type: DataType,
    /// The values as an array, until the next one comes.
    array: Option<ArrayRef>,
}

impl GrowingDictionaries {
    /// The dictionaries of an existing table, to which nothing may be added.
    pub(crate) fn fixed(dictionaries: &BTreeMap<i32, ArrayRef>) -> Result<Self> {
        let mut columns = BTreeMap::new();
        for (id, array) in dictionaries {
            let mut column = GrowingDictionary::new(array.data_type().clone());
            for value in raw_values(array)? {
                if let Some(value) = &value {
                    // Of equal values the first one is used.
                    column
                        .positions
                        .entry(value.clone())
                        .or_insert(column.values.len());
                }
                column.values.push(value);
            }
            column.array = Some(Arc::clone(array));
            columns.insert(*id, column);
        }
        Ok(Self {
            columns,
            is_fixed: true,
        })
    }

    /// Keys of `array` into the dictionary of field `id`, as plain integers.
    pub(crate) fn keys(&mut self, id: i32, path: &str, array: &ArrayRef) -> Result<ArrayRef> {
        let dictionary = array.as_any_dictionary();
        let value_type = dictionary.values().data_type().clone();
        if self.is_fixed && !self.columns.contains_key(&id) {
            // A table may have been created without a row, and then without values.
            self.columns
                .insert(id, GrowingDictionary::new(value_type.clone()));
        }
        let is_fixed = self.is_fixed;
        let column = self
            .columns
            .entry(id)
            .or_insert_with(|| GrowingDictionary::new(value_type));
        let values = raw_values(dictionary.values())?;
        if !is_fixed && column.values.is_empty() {
            // The first dictionary becomes the table's as it is, order and unused values included: a peer appends only
            // to a dictionary equal to its own.
            for value in values.iter().flatten() {
                column.position(value, false, path)?;
            }
        }
        let mut mapped: Vec<Option<usize>> = vec![None; values.len()];
        let mut keys: Vec<Option<usize>> = Vec::with_capacity(array.len());
        let old_keys = if values.is_empty() {
            Vec::new()
        } else {
            dictionary.normalized_keys()
        };
        for row in 0..array.len() {
            let value = old_keys.get(row).filter(|_| array.is_valid(row));
            // A null value is a null like a null key, and only the key can hold it.
            let Some((old, value)) =
                value.and_then(|old| Some((*old, values.get(*old)?.as_ref()?)))
            else {
                keys.push(None);
                continue;
            };
            let new = match mapped[old] {
                Some(new) => new,
                None => column.position(value, is_fixed, path)?,
            };
            mapped[old] = Some(new);
            keys.push(Some(new));
        }
        let key_type = dictionary.keys().data_type();
        let overflow = || {
            Error::invalid(
                format!("column `{path}`"),
                format!(
                    "has more distinct values than {key_type} keys can count; use a wider key type"
                ),
            )
        };
        Ok(match key_type {
            DataType::Int8 => plain::<Int8Type>(&keys).ok_or_else(overflow)?,
            DataType::Int16 => plain::<Int16Type>(&keys).ok_or_else(overflow)?,
            DataType::Int32 => plain::<Int32Type>(&keys).ok_or_else(overflow)?,
            DataType::Int64 => plain::<Int64Type>(&keys).ok_or_else(overflow)?,
            DataType::UInt8 => plain::<UInt8Type>(&keys).ok_or_else(overflow)?,
            DataType::UInt16 => plain::<UInt16Type>(&keys).ok_or_else(overflow)?,
            DataType::UInt32 => plain::<UInt32Type>(&keys).ok_or_else(overflow)?,
            _ => plain::<UInt64Type>(&keys).ok_or_else(overflow)?,
        })
    }

    /// Plain keys together with the values that there are by now.
    pub(crate) fn wrap(&mut self, id: i32, keys: &ArrayRef) -> Result<ArrayRef> {
        let values = match self.columns.get_mut(&id) {
            Some(column) => column.array()?,
            None => {
                return Err(Error::corrupt(format!(
                    "field {id} has keys and no dictionary"
                )));
            }
        };
        match keys.data_type() {
            DataType::Int8 => dictionary::<Int8Type>(keys, values),
            DataType::Int16 => dictionary::<Int16Type>(keys, values),
            DataType::Int32 => dictionary::<Int32Type>(keys, values),
            DataType::Int64 => dictionary::<Int64Type>(keys, values),
            DataType::UInt8 => dictionary::<UInt8Type>(keys, values),
            DataType::UInt16 => dictionary::<UInt16Type>(keys, values),
            DataType::UInt32 => dictionary::<UInt32Type>(keys, values),
            _ => dictionary::<UInt64Type>(keys, values),
        }
    }

    /// The values by field id.
    pub(crate) fn arrays(&mut self) -> Result<BTreeMap<i32, ArrayRef>> {
        self.columns
            .iter_mut()
            .map(|(id, column)| Ok((*id, column.array()?)))
            .collect()
    }

    /// Makes sure that field `id` has a dictionary, if only an empty one.
    pub(crate) fn ensure(&mut self, id: i32, value_type: &DataType) {
        self.columns
            .entry(id)
            .or_insert_with(|| GrowingDictionary::new(value_type.clone()));
    }
}

impl GrowingDictionary {
    fn new(value_type: DataType) -> Self {
        Self {
            values: Vec::new(),
            positions: HashMap::new(),
            value_type,
            array: None,
        }
    }

    fn position(&mut self, value: &[u8], is_fixed: bool, path: &str) -> Result<usize> {
        if let Some(position) = self.positions.get(value) {
            return Ok(*position);
        }
        if is_fixed {
            let shown = match std::str::from_utf8(value) {
                Ok(text) if matches!(self.value_type, DataType::Utf8 | DataType::LargeUtf8) => {
                    format!("{:?}", text.chars().take(50).collect::<String>())
                }
                _ => format!("{:02x?}", &value[..value.len().min(16)]),
            };
            return Err(Error::invalid(
                format!("column `{path}`"),
                format!(
                    "holds the value {shown}, which is not in the table's dictionary; a table has one \
                     dictionary per column: overwrite the table with all values, or store the column plain"
                ),
            ));
        }
        let position = self.values.len();
        self.positions.insert(value.to_vec(), position);
        self.values.push(Some(value.to_vec()));
        self.array = None;
        Ok(position)
    }

    fn array(&mut self) -> Result<ArrayRef> {
        if let Some(array) = &self.array {
            return Ok(Arc::clone(array));
        }
        let array = array_of(&self.value_type, &self.values)?;
        self.array = Some(Arc::clone(&array));
        Ok(array)
    }
}

fn plain<K: ArrowPrimitiveType>(keys: &[Option<usize>]) -> Option<ArrayRef>
where
    K::Native: TryFrom<usize>,
{
    let mut fits = true;
    let keys = keys.iter().map(|key| {
        key.and_then(|key| {
            let key = K::Native::try_from(key).ok();
            fits &= key.is_some();
            key
        })
    });
    let array: PrimitiveArray<K> = keys.collect();
    fits.then(|| Arc::new(array) as ArrayRef)
}

fn dictionary<K: ArrowDictionaryKeyType>(keys: &ArrayRef, values: ArrayRef) -> Result<ArrayRef> {
    let keys = keys.as_primitive::<K>().clone();
    let array = DictionaryArray::<K>::try_new(keys, values)
        .map_err(|error| Error::invalid("dictionary keys", error.to_string()))?;
    Ok(Arc::new(array))
}

/// The bytes of each value; `None` = null.
fn raw_values(values: &ArrayRef) -> Result<Vec<Option<Vec<u8>>>> {
    fn bytes<'a, V: AsRef<[u8]> + ?Sized + 'a>(
        values: impl Iterator<Item = Option<&'a V>>,
    ) -> Vec<Option<Vec<u8>>> {
        values
            .map(|value| value.map(|value| value.as_ref().to_vec()))
            .collect()
    }
    Ok(match values.data_type() {
        DataType::Utf8 => bytes(values.as_string::<i32>().iter()),
        DataType::LargeUtf8 => bytes(values.as_string::<i64>().iter()),
        DataType::Utf8View => bytes(values.as_string_view().iter()),
        DataType::Binary => bytes(values.as_binary::<i32>().iter()),
        DataType::LargeBinary => bytes(values.as_binary::<i64>().iter()),
        DataType::BinaryView => bytes(values.as_binary_view().iter()),
        DataType::Boolean => values
            .as_boolean()
            .iter()
            .map(|value| value.map(|value| vec![u8::from(value)]))
            .collect(),
        other => {
            let width = fixed_width(other)?;
            let data = values.to_data();
            let buffer = data.buffers().first().map(arrow_buffer::Buffer::as_slice);
            let start = data.offset() * width;
            let buffer = buffer
                .and_then(|buffer| buffer.get(start..))
                .unwrap_or_default();
            let chunks = buffer.chunks_exact(width).take(values.len()).enumerate();
            chunks
                .map(|(row, chunk)| values.is_valid(row).then(|| chunk.to_vec()))
                .collect()
        }
    })
}

/// Bytes of a value of a type whose values are all of one size.
fn fixed_width(value_type: &DataType) -> Result<usize> {
    let width = match value_type {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        other => other.primitive_width(),
    };
    width
        .filter(|width| *width > 0)
        .ok_or_else(|| no_dictionary(value_type))
}

fn no_dictionary(value_type: &DataType) -> Error {
    Error::unsupported(
        format!("a dictionary of {value_type}"),
        "store the column plain: dictionary values are strings, binaries or of one size",
    )
}

/// The inverse of [`raw_values`].
fn array_of(value_type: &DataType, values: &[Option<Vec<u8>>]) -> Result<ArrayRef> {
    let slices = || values.iter().map(Option::as_deref);
    let texts = || {
        let texts = slices().map(|value| value.map(std::str::from_utf8).transpose());
        let texts = texts.collect::<std::result::Result<Vec<_>, _>>();
        texts.map_err(|_| Error::corrupt("a dictionary value is no UTF-8"))
    };
    Ok(match value_type {
        DataType::Utf8 => Arc::new(StringArray::from(texts()?)),
        DataType::LargeUtf8 => Arc::new(LargeStringArray::from(texts()?)),
        DataType::Utf8View => Arc::new(StringViewArray::from_iter(texts()?)),
        DataType::Binary => Arc::new(slices().collect::<BinaryArray>()),
        DataType::LargeBinary => Arc::new(slices().collect::<LargeBinaryArray>()),
        DataType::BinaryView => Arc::new(BinaryViewArray::from_iter(slices())),
        DataType::Boolean => {
            let bits = slices().map(|value| value.map(|value| value.first() == Some(&1)));
            Arc::new(bits.collect::<BooleanArray>())
        }
        other => {
            let width = fixed_width(other)?;
            let zero = vec![0; width];
            let mut bytes = arrow_buffer::MutableBuffer::with_capacity(values.len() * width);
            for value in slices() {
                bytes.extend_from_slice(value.unwrap_or(&zero));
            }
            let nulls: arrow_buffer::NullBuffer = values.iter().map(Option::is_some).collect();
            let built = arrow_data::ArrayData::builder(other.clone())
                .len(values.len())
                .add_buffer(bytes.into())
                .nulls(Some(nulls).filter(|nulls| nulls.null_count() > 0))
                .build();
            make_array(built.map_err(|error| Error::corrupt(format!("dictionary: {error}")))?)
        }
    })
}
