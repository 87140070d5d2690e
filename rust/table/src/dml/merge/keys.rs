//! Keys of rows as bytes, which are equal exactly when the keys are, so that one hash table serves all types of keys.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, LargeBinaryArray, RecordBatch, UInt16Array, UInt32Array,
    UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_cast::cast;
use arrow_cast::display::array_value_to_string;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};
use pilum_common::type_name;

use crate::error::{Error, Result};

/// The type of the values behind a dictionary.
fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Whether values of a type can be compared as keys.
pub(super) fn can_be_key(data_type: &DataType) -> bool {
    use DataType::{Binary, Boolean, FixedSizeBinary, LargeBinary, LargeUtf8, Null, Utf8};
    let plain = plain(data_type);
    plain.is_primitive()
        || matches!(
            plain,
            Boolean | Null | Utf8 | LargeUtf8 | Binary | LargeBinary | FixedSizeBinary(_)
        )
}

/// A batch of keys with plain values in place of dictionary arrays, whose dictionaries would be spilled with every part.
pub(super) fn unpacked(batch: &RecordBatch) -> Result<RecordBatch> {
    let is_dictionary = |field: &FieldRef| matches!(field.data_type(), DataType::Dictionary(..));
    if !batch.schema_ref().fields().iter().any(is_dictionary) {
        return Ok(batch.clone());
    }
    let failed = |error: ArrowError| Error::invalid("a key", error.to_string());
    let columns = batch.schema_ref().fields().iter().zip(batch.columns());
    let columns = columns.map(|(field, column)| -> Result<_> {
        let column = cast(column, plain(field.data_type())).map_err(failed)?;
        let field = Field::new(field.name(), column.data_type().clone(), true);
        Ok((field, column))
    });
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) =
        columns.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(failed)
}

/// The values of one key column, ready to be copied.
enum Column {
    Fixed(Buffer, usize, Option<NullBuffer>),
    Boolean(BooleanArray),
    Bytes(LargeBinaryArray),
    /// Every value is null.
    Null,
}

impl Column {
    fn new(array: &ArrayRef) -> Result<Self> {
        let failed = |error: ArrowError| Error::invalid("a key", error.to_string());
        let array = match array.data_type() {
            DataType::Dictionary(_, values) => &cast(array, values).map_err(failed)?,
            _ => array,
        };
        // As in expressions: all NaN are equal, and zero has no sign.
        let array = match array.data_type() {
            DataType::Float16 => &bits16(array),
            DataType::Float32 => &bits32(array),
            DataType::Float64 => &bits64(array),
            _ => array,
        };
        match array.data_type() {
            DataType::Null => Ok(Self::Null),
            DataType::Boolean => Ok(Self::Boolean(array.as_boolean().clone())),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
                let bytes = cast(array, &DataType::LargeBinary).map_err(failed)?;
                Ok(Self::Bytes(bytes.as_binary::<i64>().clone()))
            }
            other => {
                let width = match other {
                    DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
                    other => other.primitive_width(),
                };
                let data = array.to_data();
                let (Some(width), Some(buffer)) = (width, data.buffers().first()) else {
                    return Err(Error::invalid(
                        "a key",
                        format!("is {}, which cannot be compared", type_name(other)),
                    ));
                };
                let start = data.offset() * width;
                let buffer = buffer.slice_with_length(start, data.len() * width);
                Ok(Self::Fixed(buffer, width, data.nulls().cloned()))
            }
        }
    }

    /// Adds the value of a row; false if it is null.
    fn push(&self, row: usize, key: &mut Vec<u8>) -> bool {
        match self {
            Self::Fixed(values, width, nulls) => {
                key.extend_from_slice(&values[row * width..(row + 1) * width]);
                nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
            }
            Self::Boolean(values) => {
                key.push(u8::from(values.value(row)));
                values.is_valid(row)
            }
            Self::Bytes(values) => {
                let value = values.value(row);
                // The length comes first, so that ("ab", "c") and ("a", "bc") differ.
                key.extend_from_slice(&(value.len() as u64).to_le_bytes());
                key.extend_from_slice(value);
                values.is_valid(row)
            }
            Self::Null => false,
        }
    }
}

fn bits16(array: &ArrayRef) -> ArrayRef {
    let bits: UInt16Array = array
        .as_primitive::<Float16Type>()
        .unary(|value| match value {
            value if value.is_nan() => 0x7E00,
            value if value.to_bits() == 0x8000 => 0,
            value => value.to_bits(),
        });
    Arc::new(bits)
}

fn bits32(array: &ArrayRef) -> ArrayRef {
    let bits: UInt32Array = array
        .as_primitive::<Float32Type>()
        .unary(|value| match value {
            value if value.is_nan() => f32::NAN.to_bits(),
            value => (value + 0.0).to_bits(),
        });
    Arc::new(bits)
}

fn bits64(array: &ArrayRef) -> ArrayRef {
    let bits: UInt64Array = array
        .as_primitive::<Float64Type>()
        .unary(|value| match value {
            value if value.is_nan() => f64::NAN.to_bits(),
            value => (value + 0.0).to_bits(),
        });
    Arc::new(bits)
}

/// Hashes keys with a random seed, so that colliding keys cannot be chosen in advance; fast for short keys.
#[derive(Debug)]
pub(super) struct KeyHash {
    seeds: [u64; 3],
}

impl KeyHash {
    pub(super) fn new() -> Self {
        let random = RandomState::new();
        Self {
            seeds: [0, 1, 2].map(|number: u64| random.hash_one(number)),
        }
    }

    fn of(&self, key: &[u8]) -> u64 {
        let [first, each, last] = self.seeds;
        let mut hash = first ^ key.len() as u64;
        for block in key.chunks(16) {
            let (low, high) = block.split_at(block.len().min(8));
            hash = folded(word(low) ^ each, word(high) ^ hash);
        }
        folded(hash, last)
    }
}

/// Up to eight bytes as a number.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    match bytes.try_into() {
        Ok(whole) => word = whole,
        Err(_) => word[..bytes.len()].copy_from_slice(bytes),
    }
    u64::from_le_bytes(word)
}

/// Both halves of a product, combined by XOR, so that every bit depends on every other.
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    a.wrapping_mul(b) ^ (product >> 64) as u64
}

/// The keys of the rows of one batch.
#[derive(Debug, Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    /// End of each key in `bytes`, and its hash; no hash where a column of the key is null.
    rows: Vec<(usize, Option<u64>)>,
}

impl Keys {
    /// The keys of all rows. A key that holds a null equals no other, as in SQL.
    pub(super) fn new(columns: &[&ArrayRef], num_rows: usize, state: &KeyHash) -> Result<Self> {
        let columns = columns.iter().map(|column| Column::new(column));
        let columns: Vec<Column> = columns.collect::<Result<_>>()?;
        let mut keys = Self {
            bytes: Vec::with_capacity(num_rows * 8),
            rows: Vec::with_capacity(num_rows),
        };
        for row in 0..num_rows {
            let start = keys.bytes.len();
            let mut is_whole = true;
            for column in &columns {
                is_whole &= column.push(row, &mut keys.bytes);
            }
            if is_whole {
                let hash = state.of(&keys.bytes[start..]);
                keys.rows.push((keys.bytes.len(), Some(hash)));
            } else {
                keys.bytes.truncate(start);
                keys.rows.push((start, None));
            }
        }
        Ok(keys)
    }

    /// The key of a row and its hash; `None` if it equals no other.
    pub(super) fn get(&self, row: usize) -> Option<(&[u8], u64)> {
        let (end, hash) = *self.rows.get(row)?;
        let start = match row {
            0 => 0,
            _ => self.rows.get(row - 1)?.0,
        };
        Some((self.bytes.get(start..end)?, hash?))
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// Finds rows by their key.
#[derive(Debug, Default)]
pub(super) struct KeyTable {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The last row of each hash; the ones before are chained by `earlier`.
    last: HashMap<u64, u32, BuildHasherDefault<Hashed>>,
    earlier: Vec<u32>,
    /// A Bloom filter with one bit for each hash. It is small enough for the cache of a processor, and most rows without a
    /// match are recognised by it alone. Empty: every hash may be in the table.
    bits: Vec<u64>,
}

/// Bytes of a row in the table beside its key.
pub(super) const ROW_BYTES: u64 = 48;
/// Marks the end of a chain.
const NONE: u32 = u32::MAX;

impl KeyTable {
    /// For so many rows.
    pub(super) fn with_capacity(num_rows: usize) -> Self {
        let num_bits = num_rows.saturating_mul(8).next_power_of_two();
        Self {
            ends: Vec::with_capacity(num_rows),
            earlier: Vec::with_capacity(num_rows),
            last: HashMap::with_capacity_and_hasher(num_rows, BuildHasherDefault::default()),
            bits: vec![0; num_bits.div_ceil(64)],
            ..Self::default()
        }
    }

    /// The word of the Bloom filter that holds the bit of a hash, and that bit.
    fn bit(&self, hash: u64) -> (usize, u64) {
        // As many words as a power of two.
        let last = (self.bits.len() as u64).wrapping_sub(1);
        let word = usize::try_from((hash >> 6) & last).unwrap_or(usize::MAX);
        (word, 1 << (hash & 63))
    }

    fn may_have(&self, hash: u64) -> bool {
        let (word, bit) = self.bit(hash);
        self.bits.get(word).is_none_or(|bits| bits & bit != 0)
    }

    /// Adds the next rows.
    ///
    /// # Errors
    /// `Limit` for more than 2^32 - 1 rows.
    pub(super) fn add(&mut self, keys: &Keys) -> Result<()> {
        for row in 0..keys.len() {
            let number = u32::try_from(self.ends.len()).ok().filter(|it| *it != NONE);
            let number = number.ok_or_else(|| {
                Error::limit(
                    "a merge",
                    "more than 2^32 source rows in memory",
                    "2^32 - 1",
                )
            })?;
            let mut earlier = NONE;
            if let Some((key, hash)) = keys.get(row) {
                self.bytes.extend_from_slice(key);
                earlier = self.last.insert(hash, number).unwrap_or(NONE);
                let (word, bit) = self.bit(hash);
                if let Some(bits) = self.bits.get_mut(word) {
                    *bits |= bit;
                }
            }
            self.ends.push(self.bytes.len());
            self.earlier.push(earlier);
        }
        Ok(())
    }

    fn key(&self, row: u32) -> Option<&[u8]> {
        let row = usize::try_from(row).ok()?;
        let start = match row {
            0 => 0,
            _ => *self.ends.get(row - 1)?,
        };
        self.bytes.get(start..*self.ends.get(row)?)
    }

    /// The rows with a key, last first.
    pub(super) fn find<'a>(&'a self, key: &'a [u8], hash: u64) -> impl Iterator<Item = u32> + 'a {
        let last = || self.last.get(&hash).copied();
        let last = self.may_have(hash).then(last).flatten();
        let mut next = last.unwrap_or(NONE);
        std::iter::from_fn(move || {
            while next != NONE {
                let row = next;
                let earlier = usize::try_from(row)
                    .ok()
                    .and_then(|row| self.earlier.get(row));
                next = earlier.copied().unwrap_or(NONE);
                if self.key(row) == Some(key) {
                    return Some(row);
                }
            }
            None
        })
    }
}

/// Identity hasher: the keys of the map are hashes already.
#[derive(Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// The key of one row, as a message shows it.
pub(super) fn shown(on: &[String], batch: &RecordBatch, row: usize) -> String {
    let shown = on.iter().map(|name| {
        let column = batch.column_by_name(name);
        let value = column.map_or_else(String::new, |column| {
            array_value_to_string(column, row).unwrap_or_else(|_| "?".to_owned())
        });
        let shortened: String = value.chars().take(100).collect();
        format!("{name} = {shortened}")
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use arrow_array::{Float64Array, StringArray};

    use super::*;

    fn keys(columns: &[ArrayRef], state: &KeyHash) -> Keys {
        let columns: Vec<&ArrayRef> = columns.iter().collect();
        Keys::new(&columns, columns[0].len(), state).unwrap()
    }

    #[test]
    fn rows_are_found_by_equal_keys_and_by_no_others() {
        let state = KeyHash::new();
        let text = |values: &[Option<&str>]| Arc::new(StringArray::from(values.to_vec())) as _;
        let columns = [
            text(&[Some("ab"), Some("a"), None, Some("ab"), Some("")]),
            text(&[Some("c"), Some("bc"), Some("c"), Some("c"), Some("")]),
        ];
        let mut table = KeyTable::default();
        let all = keys(&columns, &state);
        table.add(&all).unwrap();
        let found = |row: usize| -> Option<Vec<u32>> {
            let (key, hash) = all.get(row)?;
            Some(table.find(key, hash).collect())
        };
        assert_eq!(found(0), Some(vec![3, 0]));
        assert_eq!(found(1), Some(vec![1]));
        assert_eq!(found(2), None, "a key with a null equals none");
        assert_eq!(found(4), Some(vec![4]));
        assert_eq!(found(5), None);
    }

    #[test]
    fn floats_are_equal_as_in_expressions() {
        let state = KeyHash::new();
        let other_nan = f64::from_bits(f64::NAN.to_bits() | 1 << 63 | 1);
        let floats = Float64Array::from(vec![0.0, -0.0, f64::NAN, other_nan, 1.0, -1.0]);
        let wide = keys(&[Arc::new(floats.clone())], &state);
        let narrow = cast(&floats, &DataType::Float16).unwrap();
        let narrow = keys(&[narrow], &state);
        let single = keys(&[cast(&floats, &DataType::Float32).unwrap()], &state);
        for keys in [wide, narrow, single] {
            assert_eq!(keys.get(0), keys.get(1));
            assert_eq!(keys.get(2), keys.get(3));
            assert_ne!(keys.get(0), keys.get(2));
            assert_ne!(keys.get(4), keys.get(5));
        }
    }

    #[test]
    fn a_slice_has_the_keys_of_its_rows() {
        let state = KeyHash::new();
        let all: ArrayRef = Arc::new(UInt32Array::from(vec![Some(7), None, Some(9)]));
        let whole = keys(std::slice::from_ref(&all), &state);
        let rest = keys(&[all.slice(1, 2)], &state);
        assert_eq!(rest.len(), 2);
        assert_eq!(rest.get(0), None);
        assert_eq!(rest.get(1), whole.get(2));
    }

    #[test]
    fn keys_of_any_length_have_hashes_that_differ_in_all_bits() {
        let state = KeyHash::new();
        let texts: Vec<Vec<u8>> = (0..40).map(|len| vec![7; len]).collect();
        let numbers = (0..100_000_u64).map(|it| it.to_le_bytes().to_vec());
        let all: Vec<u64> = numbers.chain(texts).map(|key| state.of(&key)).collect();
        let distinct: HashSet<u64> = all.iter().copied().collect();
        assert_eq!(distinct.len(), all.len());
        for bit in 0..64 {
            let set = all.iter().filter(|hash| *hash >> bit & 1 == 1).count();
            assert!((48_000..52_000).contains(&set), "bit {bit}: {set}");
        }
    }

    #[test]
    fn a_table_made_for_its_rows_finds_them_and_few_others_at_first_sight() {
        let state = KeyHash::new();
        for num_rows in [0, 1, 7, 8, 9, 1000] {
            let there: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..num_rows));
            let others: ArrayRef = Arc::new(UInt64Array::from_iter_values(1000..2000));
            let there = keys(&[there], &state);
            let mut table = KeyTable::with_capacity(there.len());
            table.add(&there).unwrap();
            for row in 0..there.len() {
                let (key, hash) = there.get(row).unwrap();
                let found: Vec<u32> = table.find(key, hash).collect();
                assert_eq!(found, [u32::try_from(row).unwrap()]);
            }
            let others = keys(&[others], &state);
            let mut seen = 0;
            for (key, hash) in (0..1000).filter_map(|row| others.get(row)) {
                seen += u64::from(table.may_have(hash));
                assert_eq!(table.find(key, hash).count(), 0);
            }
            assert!(seen < 300, "{seen} of 1000");
        }
    }

    #[test]
    fn equal_hashes_are_told_apart() {
        let mut table = KeyTable::default();
        let colliding = Keys {
            bytes: vec![1, 2, 1],
            rows: vec![(1, Some(5)), (2, Some(5)), (3, Some(5))],
        };
        table.add(&colliding).unwrap();
        assert_eq!(table.find(&[1], 5).collect::<Vec<_>>(), [2, 0]);
        assert_eq!(table.find(&[2], 5).collect::<Vec<_>>(), [1]);
        assert_eq!(table.find(&[3], 5).count(), 0);
    }
}
