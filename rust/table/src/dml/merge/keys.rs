//! Keys of rows as bytes, which are equal exactly when the keys are, so that one hash table serves all types of keys.
//!
//! `arrow-row` encodes the columns of a key, `ahash` hashes the bytes, and a `HashTable` of `hashbrown` holds numbers of rows:
//! see `docs/decisions/0009-keys-of-merges.md`.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, UInt16Array, UInt32Array, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_cast::display::array_value_to_string;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

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

/// The values of a key column as `arrow-row` encodes them: plain, and with one form of each equal value.
fn comparable(array: &ArrayRef) -> Result<ArrayRef> {
    let failed = |error: ArrowError| Error::invalid("a key", error.to_string());
    let array = match array.data_type() {
        DataType::Dictionary(_, values) => &cast(array, values).map_err(failed)?,
        _ => array,
    };
    // As in expressions: all NaN are equal, and zero has no sign.
    Ok(match array.data_type() {
        DataType::Float16 => bits16(array),
        DataType::Float32 => bits32(array),
        DataType::Float64 => bits64(array),
        _ => Arc::clone(array),
    })
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

/// Hashes keys with random seeds, so that colliding keys cannot be chosen in advance.
#[derive(Debug, Clone)]
pub(super) struct KeyHash(ahash::RandomState);

impl KeyHash {
    pub(super) fn new() -> Self {
        // The seeds of the standard library are random in every process.
        let random = RandomState::new();
        let seed = |number: u64| random.hash_one(number);
        Self(ahash::RandomState::with_seeds(
            seed(0),
            seed(1),
            seed(2),
            seed(3),
        ))
    }

    fn of(&self, key: &[u8]) -> u64 {
        self.0.hash_one(key)
    }
}

/// The keys of the rows of one batch.
#[derive(Debug)]
pub(super) struct Keys {
    rows: Rows,
    /// The hash of each key; none where a column of the key is null.
    hashes: Vec<Option<u64>>,
}

impl Keys {
    /// The keys of all rows. A key that holds a null equals no other, as in SQL.
    pub(super) fn new(columns: &[&ArrayRef], num_rows: usize, state: &KeyHash) -> Result<Self> {
        let failed = |error: ArrowError| Error::invalid("a key", error.to_string());
        let columns = columns.iter().map(|column| comparable(column));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let field = |column: &ArrayRef| SortField::new(column.data_type().clone());
        let converter = RowConverter::new(columns.iter().map(field).collect()).map_err(failed)?;
        let rows = converter.convert_columns(&columns).map_err(failed)?;
        let nulls = columns.iter().fold(None, |nulls, column| {
            NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref())
        });
        let is_whole = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
        let hash = |row: usize| {
            let key = (row < rows.num_rows()).then(|| rows.row(row));
            key.filter(|_| is_whole(&row))
                .map(|key| state.of(key.data()))
        };
        let hashes = (0..num_rows).map(hash).collect();
        Ok(Self { rows, hashes })
    }

    /// The key of a row and its hash; `None` if it equals no other.
    pub(super) fn get(&self, row: usize) -> Option<(&[u8], u64)> {
        let hash = (*self.hashes.get(row)?)?;
        Some((self.rows.row(row).data(), hash))
    }

    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }
}

/// Finds rows by their key.
#[derive(Debug)]
pub(super) struct KeyTable {
    keys: KeyBytes,
    state: KeyHash,
    /// The last row of each key; the ones before are chained by `earlier`.
    last: HashTable<u32>,
    earlier: Vec<u32>,
    /// A Bloom filter with one bit for each hash. It is small enough for the cache of a processor, and most rows without a
    /// match are recognised by it alone. Empty: every hash may be in the table.
    bits: Vec<u64>,
}

/// The keys of the rows of a table, one after the other.
#[derive(Debug, Default)]
struct KeyBytes {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyBytes {
    fn get(&self, row: u32) -> Option<&[u8]> {
        let row = usize::try_from(row).ok()?;
        let start = match row {
            0 => 0,
            _ => *self.ends.get(row - 1)?,
        };
        self.bytes.get(start..*self.ends.get(row)?)
    }
}

/// Bytes of a row in the table, with a short key.
pub(super) const ROW_BYTES: u64 = 48;
/// Marks the end of a chain.
const NONE: u32 = u32::MAX;

impl KeyTable {
    /// For so many rows, whose keys `state` hashed.
    pub(super) fn with_capacity(num_rows: usize, state: KeyHash) -> Self {
        let num_bits = num_rows.saturating_mul(8).next_power_of_two();
        Self {
            keys: KeyBytes {
                bytes: Vec::new(),
                ends: Vec::with_capacity(num_rows),
            },
            state,
            earlier: Vec::with_capacity(num_rows),
            last: HashTable::with_capacity(num_rows),
            bits: vec![0; num_bits.div_ceil(64)],
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
            let number = u32::try_from(self.keys.ends.len())
                .ok()
                .filter(|it| *it != NONE);
            let number = number.ok_or_else(|| {
                Error::limit(
                    "a merge",
                    "more than 2^32 source rows in memory",
                    "2^32 - 1",
                )
            })?;
            let mut earlier = NONE;
            if let Some((key, hash)) = keys.get(row) {
                self.keys.bytes.extend_from_slice(key);
                let (known, state) = (&self.keys, &self.state);
                let is_same = |row: &u32| known.get(*row) == Some(key);
                let rehash = |row: &u32| known.get(*row).map_or(0, |key| state.of(key));
                match self.last.entry(hash, is_same, rehash) {
                    Entry::Occupied(mut last) => {
                        earlier = std::mem::replace(last.get_mut(), number);
                    }
                    Entry::Vacant(place) => {
                        place.insert(number);
                    }
                }
                let (word, bit) = self.bit(hash);
                if let Some(bits) = self.bits.get_mut(word) {
                    *bits |= bit;
                }
            }
            self.keys.ends.push(self.keys.bytes.len());
            self.earlier.push(earlier);
        }
        Ok(())
    }

    /// The rows with a key, last first.
    pub(super) fn find<'a>(&'a self, key: &[u8], hash: u64) -> impl Iterator<Item = u32> + 'a {
        let is_same = |row: &u32| self.keys.get(*row) == Some(key);
        let last = || self.last.find(hash, is_same).copied();
        let last = self.may_have(hash).then(last).flatten();
        let mut next = last.unwrap_or(NONE);
        std::iter::from_fn(move || {
            let row = (next != NONE).then_some(next)?;
            let earlier = usize::try_from(row).ok();
            let earlier = earlier.and_then(|row| self.earlier.get(row));
            next = earlier.copied().unwrap_or(NONE);
            Some(row)
        })
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
        let mut table = KeyTable::with_capacity(0, state.clone());
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
            let mut table = KeyTable::with_capacity(there.len(), state.clone());
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
        let state = KeyHash::new();
        let numbers: ArrayRef = Arc::new(UInt64Array::from(vec![1, 2, 1, 3]));
        let mut all = keys(&[numbers], &state);
        all.hashes = vec![Some(5); 4];
        let key = |row: usize| all.get(row).unwrap().0;
        let mut table = KeyTable::with_capacity(4, state.clone());
        let three = Keys {
            rows: all.rows.clone(),
            hashes: all.hashes[..3].to_vec(),
        };
        table.add(&three).unwrap();
        assert_eq!(table.find(key(0), 5).collect::<Vec<_>>(), [2, 0]);
        assert_eq!(table.find(key(1), 5).collect::<Vec<_>>(), [1]);
        assert_eq!(table.find(key(3), 5).count(), 0);
    }

    #[test]
    fn a_table_that_grows_finds_every_row() {
        let state = KeyHash::new();
        let mut table = KeyTable::with_capacity(0, state.clone());
        let batches: Vec<Keys> = (0..20)
            .map(|first| {
                let numbers = UInt64Array::from_iter_values(first * 50..first * 50 + 100);
                keys(&[Arc::new(numbers)], &state)
            })
            .collect();
        for batch in &batches {
            table.add(batch).unwrap();
        }
        // Half of each batch is in the next one too.
        let (key, hash) = batches[7].get(60).unwrap();
        assert_eq!(table.find(key, hash).collect::<Vec<_>>(), [810, 760]);
        let (key, hash) = batches[0].get(3).unwrap();
        assert_eq!(table.find(key, hash).collect::<Vec<_>>(), [3]);
    }
}
