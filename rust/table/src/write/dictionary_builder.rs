//! Dictionary builders: the dictionaries of a table while rows are written. Values are appended in the order in which they
//! first appear, so keys written earlier, in files of other versions too, keep their meaning.
//!
//! A table has one dictionary per column, in its manifest, and every reader of the format takes the values of all
//! fragments from there. An append that brings new values makes that dictionary longer, and changes nothing else.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::builder::{GenericBinaryBuilder, GenericByteBuilder, GenericStringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, ByteArrayType, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, DictionaryArray, LargeBinaryArray,
    LargeStringArray, OffsetSizeTrait, PrimitiveArray, StringArray, StringViewArray, make_array,
};
use arrow_schema::DataType;
use pilum_common::type_name;
use pilum_format::Field;

use crate::error::{Error, Result};

/// The dictionaries of all columns, by field id.
#[derive(Debug, Default)]
pub(crate) struct DictionaryBuilders {
    columns: BTreeMap<i32, DictionaryBuilder>,
    /// A null was written as a null value of a dictionary.
    uses_null_value: bool,
    /// An empty value is among the values.
    has_empty: bool,
}

#[derive(Debug)]
struct DictionaryBuilder {
    /// The bytes of each value. `None` is a null value: only dictionaries that another writer stored contain one.
    values: Vec<Option<Vec<u8>>>,
    positions: HashMap<Vec<u8>, usize>,
    value_type: DataType,
    /// Position of the first null value.
    null: Option<usize>,
    /// The array that the last call returned. It has the values of that time.
    array: Option<ArrayRef>,
    /// The dictionary of the last batch.
    seen: Option<Seen>,
}

/// The dictionary of a batch. The batches of one source often share it: then its values are copied and looked up once.
#[derive(Debug)]
struct Seen {
    values: ArrayRef,
    raw: Vec<Option<Vec<u8>>>,
    /// Positions of these values in the dictionary of the table, as far as rows used them.
    positions: Vec<Option<usize>>,
}

impl Seen {
    fn new(values: &ArrayRef) -> Result<Self> {
        let raw = raw_values(values)?;
        Ok(Self {
            values: Arc::clone(values),
            positions: vec![None; raw.len()],
            raw,
        })
    }

    /// True for the same values in the same memory, which this struct keeps from being used again.
    fn is_of(&self, values: &ArrayRef) -> bool {
        self.values.to_data().ptr_eq(&values.to_data())
    }
}

impl DictionaryBuilders {
    /// The dictionaries of an existing table.
    pub(crate) fn of_table(dictionaries: &BTreeMap<i32, ArrayRef>) -> Result<Self> {
        let mut all = Self::default();
        for (id, array) in dictionaries {
            let mut column = DictionaryBuilder::new(array.data_type().clone());
            for value in raw_values(array)? {
                if let Some(value) = &value {
                    all.has_empty |= column.is_empty_text(value);
                    // Of equal values the first one is used.
                    column
                        .positions
                        .entry(value.clone())
                        .or_insert(column.values.len());
                }
                column.push(value);
            }
            column.array = Some(Arc::clone(array));
            all.columns.insert(*id, column);
        }
        Ok(all)
    }

    /// Keys of `array`, a column of `field` with keys of any type, into the dictionary of the table, as plain integers of the
    /// field's key type.
    pub(crate) fn keys(&mut self, field: &Field, path: &str, array: &ArrayRef) -> Result<ArrayRef> {
        let dictionary = array.as_any_dictionary();
        let value_type = dictionary.values().data_type().clone();
        let column = self
            .columns
            .entry(field.id)
            .or_insert_with(|| DictionaryBuilder::new(value_type));
        let mut seen = match column.seen.take() {
            Some(seen) if seen.is_of(dictionary.values()) => seen,
            _ => Seen::new(dictionary.values())?,
        };
        let values = &seen.raw;
        if column.values.is_empty() {
            // The first dictionary becomes the table's as it is, order and unused values included: another writer of the
            // format appends only to a dictionary equal to its own.
            for value in values.iter().flatten() {
                self.has_empty |= column.is_empty_text(value);
                column.position(value);
            }
        }
        // Another writer of the format stores a null as a null value. Where it left one we use it, so that its readers see
        // the nulls. Not beside an empty value: in the format the two look the same.
        let null = column.null.filter(|_| field.nullable && !self.has_empty);
        let mut keys: Vec<Option<usize>> = Vec::with_capacity(array.len());
        let old_keys = if values.is_empty() {
            Vec::new()
        } else {
            dictionary.normalized_keys()
        };
        for row in 0..array.len() {
            let value = old_keys.get(row).filter(|_| array.is_valid(row));
            // A null value is a null like a null key.
            let Some((old, value)) =
                value.and_then(|old| Some((*old, values.get(*old)?.as_ref()?)))
            else {
                self.uses_null_value |= null.is_some();
                keys.push(null);
                continue;
            };
            let new = match seen.positions[old] {
                Some(new) => new,
                None => column.position(value),
            };
            if column.is_empty_text(value) && !self.has_empty {
                if self.uses_null_value {
                    return Err(Error::invalid(
                        format!("column `{path}`"),
                        "has an empty value after nulls that were stored as dictionary values; write the rows with \
                         the empty value in a write of their own",
                    ));
                }
                self.has_empty = true;
            }
            seen.positions[old] = Some(new);
            keys.push(Some(new));
        }
        column.seen = Some(seen);
        let key_type = match &field.data_type {
            DataType::Dictionary(keys, _) => keys.as_ref(),
            _ => dictionary.keys().data_type(),
        };
        let overflow = || {
            Error::invalid(
                format!("column `{path}`"),
                format!(
                    "has more distinct values than {} keys can count; use a wider key type",
                    type_name(key_type)
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

    /// The position of each of `values` in the dictionary of a field, to which new ones are appended; `None` for nulls.
    pub(crate) fn positions(&mut self, id: i32, values: &ArrayRef) -> Result<Vec<Option<usize>>> {
        let new = || DictionaryBuilder::new(values.data_type().clone());
        let column = self.columns.entry(id).or_insert_with(new);
        let positions = raw_values(values)?.into_iter().map(|value| {
            let value = value?;
            self.has_empty |= column.is_empty_text(&value);
            Some(column.position(&value))
        });
        Ok(positions.collect())
    }

    /// Refuses a dictionary of a field, joined from those of `num_staged` writes, that has more values than its keys can
    /// count.
    pub(crate) fn check_width(&self, field: &Field, path: &str, num_staged: usize) -> Result<()> {
        let DataType::Dictionary(keys, _) = &field.data_type else {
            return Ok(());
        };
        let values = self.columns.get(&field.id).map_or(0, |it| it.values.len());
        let most = most_values(keys);
        if values as u64 <= most {
            return Ok(());
        }
        Err(Error::invalid(
            format!("column `{path}`"),
            format!(
                "has {values} distinct values in the dictionaries of {num_staged} written parts and of the table together, \
                 {} keys count {most}; write it with a wider key type",
                type_name(keys)
            ),
        ))
    }

    /// Plain keys together with the values that there are by now, for a file writer that stores the keys alone.
    pub(crate) fn wrap(&mut self, id: i32, keys: &ArrayRef) -> Result<ArrayRef> {
        let values = match self.columns.get_mut(&id) {
            Some(column) => column.array()?,
            None => {
                return Err(Error::bug(format!(
                    "field {id} has dictionary keys and no dictionary builder"
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

    /// Whether an empty string or binary is among the values.
    pub(crate) fn has_empty(&self) -> bool {
        self.has_empty
    }

    /// Makes sure that field `id` has a dictionary, if only an empty one.
    pub(crate) fn ensure(&mut self, id: i32, value_type: &DataType) {
        self.columns
            .entry(id)
            .or_insert_with(|| DictionaryBuilder::new(value_type.clone()));
    }
}

impl DictionaryBuilder {
    fn new(value_type: DataType) -> Self {
        Self {
            values: Vec::new(),
            positions: HashMap::new(),
            value_type,
            null: None,
            array: None,
            seen: None,
        }
    }

    /// Appends a value.
    fn push(&mut self, value: Option<Vec<u8>>) {
        if value.is_none() {
            self.null.get_or_insert(self.values.len());
        }
        self.values.push(value);
    }

    /// The position of a value, which is appended if it is new.
    fn position(&mut self, value: &[u8]) -> usize {
        if let Some(position) = self.positions.get(value) {
            return *position;
        }
        let position = self.values.len();
        self.positions.insert(value.to_vec(), position);
        self.push(Some(value.to_vec()));
        position
    }

    /// An empty string or binary, which readers of v1 take for null.
    fn is_empty_text(&self, value: &[u8]) -> bool {
        value.is_empty() && self.value_type.primitive_width().is_none()
    }

    /// All values as an array.
    ///
    /// New texts and binaries are appended to the memory of the last array when nobody else holds it any more, which is so
    /// when the pages that it was made for are encoded. Its memory grows by doubling, so all values together are copied a
    /// constant number of times. Values of other types are copied for each page with a new value.
    fn array(&mut self) -> Result<ArrayRef> {
        let array = match self.array.take() {
            Some(array) if array.len() == self.values.len() => array,
            Some(array) if array.len() < self.values.len() => {
                appended(array, &self.value_type, &self.values)?
            }
            _ => array_of(&self.value_type, &self.values)?,
        };
        self.array = Some(Arc::clone(&array));
        Ok(array)
    }
}

/// `array`, which has the first of `values`, with the others appended.
fn appended(
    array: ArrayRef,
    value_type: &DataType,
    values: &[Option<Vec<u8>>],
) -> Result<ArrayRef> {
    fn more<T: ByteArrayType<Offset: TryFrom<usize>>>(
        array: ArrayRef,
        values: &[Option<Vec<u8>>],
        append: impl Fn(&mut GenericByteBuilder<T>, &[u8]) -> Result<()>,
    ) -> Result<ArrayRef> {
        let old = array.as_bytes::<T>().clone();
        drop(array);
        let new = values.get(old.len()..).unwrap_or_default();
        let bytes = new.iter().flatten().map(Vec::len).sum::<usize>();
        let bytes = bytes.saturating_add(old.value_data().len());
        if T::Offset::try_from(bytes).is_err() {
            return Err(Error::limit(
                "a dictionary",
                format!("{bytes} bytes of values"),
                "2 GiB; write the column with large_string or large_binary values",
            ));
        }
        let mut builder = match old.into_builder() {
            Ok(builder) => builder,
            Err(shared) => {
                let mut copy = GenericByteBuilder::with_capacity(2 * values.len(), 2 * bytes);
                let copied = copy.append_array(&shared);
                copied.map_err(|error| Error::bug(format!("a dictionary: {error}")))?;
                copy
            }
        };
        for value in new {
            match value {
                Some(value) => append(&mut builder, value)?,
                None => builder.append_null(),
            }
        }
        Ok(Arc::new(builder.finish()))
    }
    fn text<O: OffsetSizeTrait>(builder: &mut GenericStringBuilder<O>, value: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(value)
            .map_err(|_| Error::bug("a text of a dictionary is not UTF-8"))?;
        builder.append_value(text);
        Ok(())
    }
    fn binary<O: OffsetSizeTrait>(
        builder: &mut GenericBinaryBuilder<O>,
        value: &[u8],
    ) -> Result<()> {
        builder.append_value(value);
        Ok(())
    }
    match value_type {
        DataType::Utf8 => more(array, values, text::<i32>),
        DataType::LargeUtf8 => more(array, values, text::<i64>),
        DataType::Binary => more(array, values, binary::<i32>),
        DataType::LargeBinary => more(array, values, binary::<i64>),
        other => array_of(other, values),
    }
}

/// The number of values that keys of a type can count.
fn most_values(keys: &DataType) -> u64 {
    match keys {
        DataType::Int8 => 1 << 7,
        DataType::UInt8 => 1 << 8,
        DataType::Int16 => 1 << 15,
        DataType::UInt16 => 1 << 16,
        DataType::Int32 => 1 << 31,
        DataType::UInt32 => 1 << 32,
        _ => u64::MAX,
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
        format!("a dictionary of {}", type_name(value_type)),
        "store the column plain: dictionary values are strings, binaries or of one size",
    )
}

/// The inverse of [`raw_values`].
fn array_of(value_type: &DataType, values: &[Option<Vec<u8>>]) -> Result<ArrayRef> {
    let slices = || values.iter().map(Option::as_deref);
    let texts = || {
        let texts = slices().map(|value| value.map(std::str::from_utf8).transpose());
        let texts = texts.collect::<std::result::Result<Vec<_>, _>>();
        texts.map_err(|_| Error::bug("a text of a dictionary is not UTF-8"))
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
            make_array(built.map_err(|error| Error::bug(format!("a dictionary: {error}")))?)
        }
    })
}

#[cfg(test)]
mod tests {
    use pilum_format::Schema;

    use super::*;

    const BATCHES: usize = 2_000;

    fn batch(values: &[String]) -> ArrayRef {
        let values: DictionaryArray<Int32Type> = values.iter().map(String::as_str).collect();
        Arc::new(values)
    }

    fn field() -> Field {
        let keys = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let schema = arrow_schema::Schema::new(vec![arrow_schema::Field::new("d", keys, true)]);
        Schema::from_arrow(&schema, 0).unwrap().fields[0].clone()
    }

    /// Every batch brings two new values, and each batch must refer to its own.
    #[test]
    fn keys_of_each_batch_refer_to_its_own_values_however_many_batches_bring_new_ones() {
        let (field, mut builders) = (field(), DictionaryBuilders::default());
        for number in 0..BATCHES {
            let new = [0, 1].map(|it| format!("value {}", 2 * number + it));
            let keys = builders.keys(&field, "d", &batch(&new)).unwrap();
            let wrapped = builders.wrap(field.id, &keys).unwrap();
            let wrapped = wrapped.as_dictionary::<Int32Type>();
            let values = wrapped.values().as_string::<i32>();
            for (row, expected) in new.iter().enumerate() {
                let key = usize::try_from(wrapped.keys().value(row)).unwrap();
                assert_eq!(values.value(key), expected);
            }
        }
        let all = builders.arrays().unwrap();
        let all = all[&field.id].as_string::<i32>();
        assert_eq!((all.len(), all.null_count()), (2 * BATCHES, 0));
        assert_eq!(all.value(2 * BATCHES - 1), "value 3999");
    }

    /// Where the values of the field's dictionary lie in memory.
    fn place(wrapped: &ArrayRef) -> *const u8 {
        let values = wrapped.as_any_dictionary().values();
        values.as_string::<i32>().value_data().as_ptr()
    }

    #[test]
    fn values_move_in_memory_a_few_times_however_many_pages_bring_new_ones() {
        let (field, mut builders) = (field(), DictionaryBuilders::default());
        let (mut moves, mut last) = (0, std::ptr::null());
        for number in 0..BATCHES {
            let keys = batch(&[format!("value {number}")]);
            let keys = builders.keys(&field, "d", &keys).unwrap();
            let place = place(&builders.wrap(field.id, &keys).unwrap());
            moves += usize::from(place != last);
            last = place;
        }
        assert!(moves < 30, "{moves} moves of {BATCHES} pages");
    }

    #[test]
    fn values_that_a_page_still_holds_stay_as_they_are() {
        let (field, mut builders) = (field(), DictionaryBuilders::default());
        let mut held = Vec::new();
        for number in 0..10 {
            let keys = batch(&[format!("value {number}")]);
            let keys = builders.keys(&field, "d", &keys).unwrap();
            held.push(builders.wrap(field.id, &keys).unwrap());
        }
        for (number, page) in held.iter().enumerate() {
            let values = page.as_any_dictionary().values();
            assert_eq!(values.len(), number + 1);
            assert_eq!(
                values.as_string::<i32>().value(number),
                format!("value {number}")
            );
        }
    }

    #[test]
    fn a_dictionary_that_batches_share_is_copied_once() {
        let (field, mut builders) = (field(), DictionaryBuilders::default());
        let whole = batch(&["a", "b", "c"].map(str::to_owned));
        let first = builders.keys(&field, "d", &whole.slice(0, 2)).unwrap();
        let copied = |builders: &DictionaryBuilders| {
            let seen = builders.columns[&field.id].seen.as_ref().unwrap();
            seen.raw.as_ptr()
        };
        let place = copied(&builders);
        let second = builders.keys(&field, "d", &whole.slice(1, 2)).unwrap();
        assert_eq!(copied(&builders), place);
        builders
            .keys(&field, "d", &batch(&["c".to_owned()]))
            .unwrap();
        assert_ne!(copied(&builders), place);
        assert_eq!(first.as_primitive::<Int32Type>().values(), &[0, 1]);
        assert_eq!(second.as_primitive::<Int32Type>().values(), &[1, 2]);
    }

    #[test]
    fn a_dictionary_without_values_stays_empty() {
        let (field, mut builders) = (field(), DictionaryBuilders::default());
        let nulls: DictionaryArray<Int32Type> = [None::<&str>, None].into_iter().collect();
        let nulls: ArrayRef = Arc::new(nulls);
        let keys = builders.keys(&field, "d", &nulls).unwrap();
        let wrapped = builders.wrap(field.id, &keys).unwrap();
        assert_eq!(wrapped.as_any_dictionary().values().len(), 0);
        assert_eq!(builders.arrays().unwrap()[&field.id].len(), 0);
    }
}
