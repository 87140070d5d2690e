//! Random record batches of every storable type, and the ways to write and read them in tests.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray,
    FixedSizeListArray, Float32Array, Float64Array, GenericByteViewArray, GenericListViewArray,
    Int8Array, Int32Array, Int64Array, LargeListArray, LargeStringArray, ListArray, MapArray,
    NullArray, OffsetSizeTrait, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
    UInt16Array, UInt64Array,
    builder::make_view,
    make_array,
    types::{BinaryViewType, ByteViewType, StringViewType},
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, IntervalUnit, Schema as ArrowSchema, TimeUnit};
use futures::executor::block_on;
use pilum_file::{FileReader, FileWriter, OpenOptions, Rows, WriteOptions, WrittenFile};
use pilum_format::{Dictionaries, Schema};
use pilum_store::{Durability, StorageOptions, Store};
use proptest::prelude::*;

/// Which rows are null.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Nulls {
    None,
    All,
    Alternating,
    Runs,
    Borders,
}

pub(crate) fn nulls() -> impl Strategy<Value = Nulls> {
    prop_oneof![
        Just(Nulls::None),
        Just(Nulls::All),
        Just(Nulls::Alternating),
        Just(Nulls::Runs),
        Just(Nulls::Borders)
    ]
}

impl Nulls {
    fn buffer(self, len: usize) -> Option<NullBuffer> {
        let valid = |row: usize| match self {
            Self::None => true,
            Self::All => false,
            Self::Alternating => row.is_multiple_of(2),
            Self::Runs => (row / 7).is_multiple_of(2),
            Self::Borders => row != 0 && row + 1 != len,
        };
        (!matches!(self, Self::None)).then(|| (0..len).map(valid).collect())
    }
}

fn item(data_type: &DataType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type.clone(), true))
}

/// Leaf types that Lance v1 has a form for.
pub(crate) fn leaves_of_v1() -> Vec<DataType> {
    vec![
        DataType::Null,
        DataType::Boolean,
        DataType::Int8,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt16,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Binary,
        DataType::Decimal128(20, 3),
        DataType::Decimal256(50, -2),
        DataType::Date64,
        DataType::Duration(TimeUnit::Nanosecond),
        DataType::FixedSizeBinary(3),
        DataType::Timestamp(TimeUnit::Microsecond, Some("+02:00".into())),
        DataType::FixedSizeList(item(&DataType::Float32), 4),
        DataType::FixedSizeList(item(&DataType::Boolean), 3),
        dictionary(DataType::Utf8),
        dictionary(DataType::Int64),
    ]
}

/// Leaf types that it has none for.
pub(crate) fn leaves_beyond_v1() -> Vec<DataType> {
    let mut leaves = vec![
        DataType::Utf8View,
        DataType::BinaryView,
        DataType::Decimal32(9, 2),
        DataType::Decimal64(18, -3),
        DataType::Interval(IntervalUnit::YearMonth),
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::FixedSizeList(item(&DataType::Decimal32(5, 1)), 3),
        DataType::Struct(Vec::<Field>::new().into()),
    ];
    leaves.extend(
        [
            DataType::Boolean,
            DataType::Float16,
            DataType::Float64,
            DataType::Date32,
            DataType::Timestamp(TimeUnit::Second, Some("+02:00".into())),
            DataType::Decimal64(18, 2),
            DataType::Decimal256(50, -2),
            DataType::Interval(IntervalUnit::MonthDayNano),
            DataType::FixedSizeBinary(3),
            DataType::Utf8View,
            DataType::BinaryView,
        ]
        .map(dictionary),
    );
    leaves
}

fn dictionary(value: DataType) -> DataType {
    DataType::Dictionary(Box::new(DataType::Int8), Box::new(value))
}

pub(crate) fn map_of(key: DataType, value: DataType, sorted: bool) -> DataType {
    let pair = [
        Field::new("key", key, false),
        Field::new("value", value, true),
    ];
    let entries = Field::new("entries", DataType::Struct(pair.to_vec().into()), false);
    DataType::Map(Arc::new(entries), sorted)
}

pub(crate) fn types() -> impl Strategy<Value = DataType> {
    let leaf = prop_oneof![
        prop::sample::select(leaves_of_v1()),
        prop::sample::select(leaves_beyond_v1()),
    ];
    leaf.prop_recursive(5, 10, 3, move |inner| {
        prop_oneof![
            inner.clone().prop_map(move |t| DataType::List(item(&t))),
            inner
                .clone()
                .prop_map(move |t| DataType::LargeList(item(&t))),
            inner
                .clone()
                .prop_map(move |t| DataType::ListView(item(&t))),
            inner
                .clone()
                .prop_map(move |t| DataType::LargeListView(item(&t))),
            (inner.clone(), 0..4_i32).prop_map(move |(t, n)| DataType::FixedSizeList(item(&t), n)),
            (inner.clone(), inner.clone(), any::<bool>()).prop_map(|(key, value, sorted)| {
                // A key is never null, and all of a null column is.
                let key = if key == DataType::Null {
                    DataType::Int8
                } else {
                    key
                };
                map_of(key, value, sorted)
            }),
            prop::collection::vec(inner, 1..3).prop_map(|members| {
                let field = |(i, t): (usize, DataType)| Field::new(format!("m{i}"), t, true);
                DataType::Struct(members.into_iter().enumerate().map(field).collect())
            }),
        ]
    })
}

/// The values of every dictionary of a type: one array for all batches, as a table keeps them.
fn dictionary_values(value: &DataType) -> ArrayRef {
    static VALUES: LazyLock<Mutex<HashMap<DataType, ArrayRef>>> = LazyLock::new(Mutex::default);
    let mut values = VALUES.lock().unwrap();
    let made = values
        .entry(value.clone())
        .or_insert_with(|| array(value, 7, Nulls::None, 11));
    Arc::clone(made)
}

/// The dictionaries of all fields of a schema.
pub(crate) fn dictionaries(schema: &Schema) -> Dictionaries {
    let of_field = |field: &pilum_format::Field| match &field.data_type {
        DataType::Dictionary(_, value) => Some((field.id, dictionary_values(value))),
        _ => None,
    };
    schema.walk().filter_map(of_field).collect()
}

/// Views into two buffers, or inline; null ones of anything.
fn views<T: ByteViewType>(
    len: usize,
    valid: Option<NullBuffer>,
    word: &dyn Fn(usize) -> u64,
) -> ArrayRef {
    let texts = [
        "long enough to lie out of line, ",
        "äöü in another buffer of views",
    ];
    let buffers = texts.map(|text| Buffer::from(text.repeat(20).as_bytes()));
    let view = |row| match word(row) % 4 {
        0 => 0,
        1 => make_view("inline é".as_bytes(), 0, 0),
        block => {
            let block = block as usize % 2;
            let (size, times) = (texts[block].len(), 1 + word(row) as usize / 4 % 5);
            let offset = word(row) as usize / 32 % 15 * size;
            make_view(
                &buffers[block][offset..offset + times * size],
                block as u32,
                offset as u32,
            )
        }
    };
    let views: Vec<u128> = (0..len).map(view).collect();
    Arc::new(
        GenericByteViewArray::<T>::try_new(views.into(), Vec::from(buffers.clone()), valid)
            .unwrap(),
    )
}

/// Lists anywhere in their items, over each other, in any order; null ones too.
fn list_views<O: OffsetSizeTrait>(
    item: &Arc<Field>,
    items: &ArrayRef,
    len: usize,
    valid: Option<NullBuffer>,
    word: &dyn Fn(usize) -> u64,
) -> ArrayRef {
    let start = |row: usize| word(row) as usize % items.len();
    let size = |row: usize| (word(row) as usize / 64 % 4).min(items.len() - start(row));
    let starts = (0..len).map(|row| O::usize_as(start(row))).collect();
    let sizes = (0..len).map(|row| O::usize_as(size(row))).collect();
    let item = Arc::clone(item);
    Arc::new(
        GenericListViewArray::<O>::try_new(item, starts, sizes, Arc::clone(items), valid).unwrap(),
    )
}

/// An array of `len` rows; `seed` varies the values.
pub(crate) fn array(data_type: &DataType, len: usize, nulls: Nulls, seed: u64) -> ArrayRef {
    let valid = nulls.buffer(len);
    let word = |row: usize| {
        (row as u64)
            .wrapping_add(seed)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
    };
    let text = |row: usize| match word(row) % 5 {
        0 => String::new(),
        1 => "é\u{10FFFF}".to_owned(),
        2 => "x".repeat((word(row) % 150) as usize),
        _ => format!("v{}", word(row) % 97),
    };
    macro_rules! primitive {
        ($array:ty, $value:expr) => {
            Arc::new(<$array>::new((0..len).map($value).collect(), valid)) as ArrayRef
        };
    }
    match data_type {
        DataType::Null => Arc::new(NullArray::new(len)),
        DataType::Boolean => Arc::new(BooleanArray::new(
            (0..len).map(|r| word(r) % 3 == 0).collect(),
            valid,
        )),
        DataType::Int8 => primitive!(Int8Array, |r| word(r) as i8),
        DataType::Int32 => primitive!(Int32Array, |r| word(r) as i32),
        DataType::Int64 => primitive!(Int64Array, |r| if r == 0 {
            i64::MIN
        } else {
            word(r) as i64
        }),
        DataType::UInt16 => primitive!(UInt16Array, |r| word(r) as u16),
        DataType::UInt64 => primitive!(UInt64Array, word),
        DataType::Float32 => primitive!(Float32Array, |r| if r % 5 == 0 {
            f32::NAN
        } else {
            word(r) as f32
        }),
        DataType::Float64 => primitive!(Float64Array, |r| if r % 3 == 0 {
            -0.0
        } else {
            word(r) as f64
        }),
        DataType::Utf8 => {
            let values: Vec<_> = (0..len)
                .map(|r| {
                    valid
                        .as_ref()
                        .is_none_or(|v| v.is_valid(r))
                        .then(|| text(r))
                })
                .collect();
            Arc::new(StringArray::from(values))
        }
        DataType::LargeUtf8 => {
            let values: Vec<_> = (0..len)
                .map(|r| {
                    valid
                        .as_ref()
                        .is_none_or(|v| v.is_valid(r))
                        .then(|| text(r))
                })
                .collect();
            Arc::new(LargeStringArray::from(values))
        }
        DataType::Binary => {
            let values: Vec<_> = (0..len)
                .map(|r| {
                    valid
                        .as_ref()
                        .is_none_or(|v| v.is_valid(r))
                        .then(|| text(r).into_bytes())
                })
                .collect();
            Arc::new(values.iter().map(Option::as_deref).collect::<BinaryArray>())
        }
        DataType::Decimal128(p, s) => Arc::new(
            Decimal128Array::new(
                (0..len).map(|r| i128::from(word(r) as i32)).collect(),
                valid,
            )
            .with_precision_and_scale(*p, *s)
            .unwrap(),
        ),
        DataType::FixedSizeBinary(size) => {
            let bytes: Vec<u8> = (0..len * *size as usize).map(|i| word(i) as u8).collect();
            Arc::new(FixedSizeBinaryArray::new(*size, bytes.into(), valid))
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => Arc::new(
            TimestampMicrosecondArray::new((0..len).map(|r| word(r) as i64).collect(), valid)
                .with_timezone_opt(zone.clone()),
        ),
        DataType::FixedSizeList(item, size) => {
            let items = array(item.data_type(), len * *size as usize, nulls, seed ^ 1);
            let item = Arc::clone(item);
            let lists = FixedSizeListArray::try_new_with_length(item, *size, items, valid, len);
            Arc::new(lists.unwrap())
        }
        DataType::List(item) => {
            let lengths: Vec<usize> = (0..len).map(|r| (word(r) % 4) as usize).collect();
            let items = array(item.data_type(), lengths.iter().sum(), nulls, seed ^ 2);
            Arc::new(ListArray::new(
                Arc::clone(item),
                OffsetBuffer::from_lengths(lengths),
                items,
                valid,
            ))
        }
        DataType::LargeList(item) => {
            let lengths: Vec<usize> = (0..len).map(|r| (word(r) % 3) as usize).collect();
            let items = array(item.data_type(), lengths.iter().sum(), nulls, seed ^ 3);
            Arc::new(LargeListArray::new(
                Arc::clone(item),
                OffsetBuffer::from_lengths(lengths),
                items,
                valid,
            ))
        }
        DataType::Struct(fields) => {
            let members = fields
                .iter()
                .map(|f| array(f.data_type(), len, nulls, seed ^ 4))
                .collect();
            Arc::new(StructArray::try_new_with_length(fields.clone(), members, valid, len).unwrap())
        }
        DataType::Utf8View => views::<StringViewType>(len, valid, &word),
        DataType::BinaryView => views::<BinaryViewType>(len, valid, &word),
        DataType::ListView(item) => {
            let items = array(item.data_type(), len + 2, nulls, seed ^ 5);
            list_views::<i32>(item, &items, len, valid, &word)
        }
        DataType::LargeListView(item) => {
            let items = array(item.data_type(), len + 2, nulls, seed ^ 6);
            list_views::<i64>(item, &items, len, valid, &word)
        }
        DataType::Map(entries, sorted) => {
            let DataType::Struct(pair) = entries.data_type() else {
                panic!("{entries}")
            };
            let lengths: Vec<usize> = (0..len).map(|r| (word(r) % 4) as usize).collect();
            let count = lengths.iter().sum();
            // Keys without nulls at any depth that would show through.
            let key = array(pair[0].data_type(), count, Nulls::None, seed ^ 7);
            let value = array(pair[1].data_type(), count, nulls, seed ^ 8);
            let pairs = StructArray::new(pair.clone(), vec![key, value], None);
            let offsets = OffsetBuffer::from_lengths(lengths);
            let entries = Arc::clone(entries);
            Arc::new(MapArray::try_new(entries, offsets, pairs, valid, *sorted).unwrap())
        }
        DataType::Dictionary(_, value) => {
            let values = dictionary_values(value);
            let keys: Int8Array =
                Int8Array::new((0..len).map(|r| (word(r) % 7) as i8).collect(), valid);
            Arc::new(arrow_array::DictionaryArray::try_new(keys, values).unwrap())
        }
        fixed => {
            let width = fixed.primitive_width().unwrap();
            let bytes: Vec<u8> = (0..len * width).map(|i| word(i) as u8).collect();
            let data = ArrayData::builder(fixed.clone())
                .len(len)
                .nulls(valid)
                .add_buffer(Buffer::from_vec(bytes))
                .align_buffers(true);
            make_array(data.build().unwrap())
        }
    }
}

pub(crate) fn batch(columns: &[(DataType, Nulls)], len: usize, seed: u64) -> RecordBatch {
    let field =
        |(i, (t, _)): (usize, &(DataType, Nulls))| Field::new(format!("c{i}"), t.clone(), true);
    let schema = ArrowSchema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>());
    let arrays = columns
        .iter()
        .map(|(t, nulls)| array(t, len, *nulls, seed))
        .collect();
    RecordBatch::try_new(Arc::new(schema), arrays).unwrap()
}

/// A scratch folder and a store in it.
pub(crate) fn scratch() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap(), &StorageOptions::new()).unwrap();
    (folder, store.with_durability(Durability::None))
}

pub(crate) fn write(
    store: &Store,
    path: &str,
    batches: &[RecordBatch],
    options: WriteOptions,
) -> pilum_file::Result<(Arc<Schema>, WrittenFile)> {
    let schema = Arc::new(Schema::from_arrow(&batches[0].schema(), 0)?);
    block_on(async {
        let sink = store.writer(path).await?;
        let mut writer = FileWriter::new(Arc::clone(&schema), path, sink, options, 0)?;
        for batch in batches {
            writer.write(batch).await?;
        }
        Ok((
            Arc::clone(&schema),
            writer.finish(&dictionaries(&schema)).await?,
        ))
    })
}

pub(crate) fn open(store: &Store, written: &WrittenFile) -> pilum_file::Result<FileReader> {
    block_on(async {
        let file = store.open_file(&written.path, None).await?;
        let options = OpenOptions {
            field_ids: Some(&written.field_ids),
            metadata_crc32c: Some(written.metadata_crc32c),
            skip_verification: false,
            ..OpenOptions::default()
        };
        FileReader::open(file, options).await
    })
}

pub(crate) fn read(
    reader: &FileReader,
    schema: &Schema,
    rows: &Rows,
) -> pilum_file::Result<RecordBatch> {
    let arrays = block_on(reader.read_rows(&schema.fields, rows, &dictionaries(schema)))?;
    let arrow = schema.to_arrow();
    Ok(RecordBatch::try_new(arrow, arrays).unwrap())
}

/// Equality of types, validity and the bits of values, not of what a null hides.
pub(crate) fn assert_same(got: &RecordBatch, want: &RecordBatch) {
    assert_eq!(got.schema().fields(), want.schema().fields());
    assert_eq!(got.num_rows(), want.num_rows());
    for (got, want) in got.columns().iter().zip(want.columns()) {
        let data = got.to_data();
        data.validate_full().unwrap();
        assert!(data == want.to_data(), "{got:?} is not {want:?}");
    }
}
