//! Random record batches of every storable type, and the ways to write and read them in tests.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray,
    FixedSizeListArray, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array,
    LargeListArray, LargeStringArray, ListArray, NullArray, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray, UInt16Array, UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Schema as ArrowSchema, TimeUnit};
use futures::executor::block_on;
use pilum_file::{
    Dictionaries, FileReader, FileWriter, OpenOptions, Rows, Schema, WriteOptions, WrittenFile,
};
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
            Self::Alternating => row % 2 == 0,
            Self::Runs => row / 7 % 2 == 0,
            Self::Borders => row != 0 && row + 1 != len,
        };
        (!matches!(self, Self::None)).then(|| (0..len).map(valid).collect())
    }
}

pub(crate) fn types() -> impl Strategy<Value = DataType> {
    let item = |data_type: &DataType| Arc::new(Field::new("item", data_type.clone(), true));
    let leaf = prop_oneof![
        Just(DataType::Null),
        Just(DataType::Boolean),
        Just(DataType::Int8),
        Just(DataType::Int32),
        Just(DataType::Int64),
        Just(DataType::UInt16),
        Just(DataType::UInt64),
        Just(DataType::Float32),
        Just(DataType::Float64),
        Just(DataType::Utf8),
        Just(DataType::LargeUtf8),
        Just(DataType::Binary),
        Just(DataType::Decimal128(20, 3)),
        Just(DataType::FixedSizeBinary(3)),
        Just(DataType::Timestamp(
            TimeUnit::Microsecond,
            Some("+02:00".into())
        )),
        Just(DataType::FixedSizeList(item(&DataType::Float32), 4)),
        Just(DataType::FixedSizeList(item(&DataType::Boolean), 3)),
    ];
    leaf.prop_recursive(3, 8, 3, move |inner| {
        prop_oneof![
            inner.clone().prop_map(move |t| DataType::List(item(&t))),
            inner
                .clone()
                .prop_map(move |t| DataType::LargeList(item(&t))),
            prop::collection::vec(inner, 1..3).prop_map(|members| {
                let field = |(i, t): (usize, DataType)| Field::new(format!("m{i}"), t, true);
                DataType::Struct(members.into_iter().enumerate().map(field).collect())
            }),
        ]
    })
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
            Arc::new(FixedSizeListArray::new(
                Arc::clone(item),
                *size,
                items,
                valid,
            ))
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
        other => panic!("no values of {other}"),
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
            writer.finish(&Dictionaries::new()).await?,
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
        };
        FileReader::open(file, options).await
    })
}

pub(crate) fn read(
    reader: &FileReader,
    schema: &Schema,
    rows: &Rows,
) -> pilum_file::Result<RecordBatch> {
    let arrays = block_on(reader.read_rows(&schema.fields, rows, &Dictionaries::new()))?;
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
