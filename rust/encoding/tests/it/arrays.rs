//! Arrays of every type with every pattern of nulls, garbage under the nulls included.

use std::sync::Arc;

use arrow_array::builder::make_view;
use arrow_array::types::{BinaryViewType, ByteViewType, StringViewType};
use arrow_array::{ArrayRef, GenericByteViewArray, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use pilum_testing::{Random, TIME_UNITS, plain_types};

use crate::tree::shared;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Nulls {
    None,
    All,
    Alternating,
    Runs,
    Borders,
    Random,
}

pub(crate) const PATTERNS: [Nulls; 6] = [
    Nulls::None,
    Nulls::All,
    Nulls::Alternating,
    Nulls::Runs,
    Nulls::Borders,
    Nulls::Random,
];

fn validity(pattern: Nulls, len: usize, random: &mut Random) -> Option<NullBuffer> {
    let is_valid = |row: usize, random: &mut Random| match pattern {
        Nulls::None => true,
        Nulls::All => false,
        Nulls::Alternating => row.is_multiple_of(2),
        Nulls::Runs => row / 37 % 2 == 1,
        Nulls::Borders => row != 0 && row + 1 != len && row % 64 != 63,
        Nulls::Random => random.below(4) > 0,
    };
    let bits: Vec<bool> = (0..len).map(|row| is_valid(row, random)).collect();
    (!matches!(pattern, Nulls::None)).then(|| NullBuffer::new(BooleanBuffer::from(bits)))
}

fn random_bytes(len: usize, random: &mut Random) -> Buffer {
    Buffer::from_vec((0..len).map(|_| random.any() as u8).collect::<Vec<_>>())
}

const WORDS: [&str; 8] = [
    "",
    "a",
    "ä",
    "漢字",
    "🙂",
    "plain ascii",
    "",
    "mixed ß tail",
];

fn offsets<O: ArrowNativeType>(lengths: &[usize]) -> Buffer {
    let mut sum = 0;
    let mut offsets = vec![O::usize_as(0)];
    for length in lengths {
        sum += length;
        offsets.push(O::usize_as(sum));
    }
    Buffer::from_vec(offsets)
}

fn native<O: ArrowNativeType>(numbers: &[usize]) -> Buffer {
    Buffer::from_vec(numbers.iter().map(|n| O::usize_as(*n)).collect::<Vec<_>>())
}

/// Views into several buffers, short ones inline, null ones of anything.
fn views<T: ByteViewType>(len: usize, nulls: Option<NullBuffer>, random: &mut Random) -> ArrayRef {
    let texts = [
        "long enough to lie out of line, ",
        "äöü in another buffer of views",
    ];
    let buffers = texts.map(|text| Buffer::from(text.repeat(20).as_bytes()));
    let view = |_| {
        let word = WORDS[random.below(WORDS.len())].as_bytes();
        if random.below(2) == 0 {
            return if word.len() > 12 {
                0
            } else {
                make_view(word, 0, 0)
            };
        }
        let block = random.below(2);
        let (offset, times) = (random.below(10) * texts[block].len(), 1 + random.below(3));
        let value = &buffers[block][offset..offset + times * texts[block].len()];
        make_view(value, block as u32, offset as u32)
    };
    let views: Vec<u128> = (0..len).map(view).collect();
    let array = GenericByteViewArray::<T>::try_new(views.into(), Vec::from(buffers), nulls);
    Arc::new(array.unwrap())
}

pub(crate) fn array(
    data_type: &DataType,
    nullable: bool,
    pattern: Nulls,
    len: usize,
    random: &mut Random,
) -> ArrayRef {
    let pattern = if nullable { pattern } else { Nulls::None };
    let nulls = match data_type {
        DataType::Null => None,
        _ => validity(pattern, len, random),
    };
    let view_nulls = nulls.clone();
    let builder = ArrayData::builder(data_type.clone()).len(len).nulls(nulls);
    let builder = match data_type {
        DataType::Null => builder,
        DataType::Boolean => builder.add_buffer(random_bytes(len.div_ceil(8), random)),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
            let words: Vec<&str> = (0..len).map(|_| WORDS[random.below(WORDS.len())]).collect();
            let lengths: Vec<usize> = words.iter().map(|w| w.len()).collect();
            let large = matches!(data_type, DataType::LargeUtf8 | DataType::LargeBinary);
            let offsets = if large {
                offsets::<i64>(&lengths)
            } else {
                offsets::<i32>(&lengths)
            };
            builder
                .add_buffer(offsets)
                .add_buffer(Buffer::from(words.concat().as_bytes()))
        }
        DataType::Utf8View => return views::<StringViewType>(len, view_nulls, random),
        DataType::BinaryView => return views::<BinaryViewType>(len, view_nulls, random),
        DataType::ListView(item) | DataType::LargeListView(item) => {
            // Anywhere, over each other, null ones too.
            let count = len + 3;
            let child = array(item.data_type(), item.is_nullable(), pattern, count, random);
            let starts: Vec<usize> = (0..len).map(|_| random.below(count)).collect();
            let size = |start: &usize| random.below(4).min(count - start);
            let sizes: Vec<usize> = starts.iter().map(size).collect();
            let buffers = if matches!(data_type, DataType::LargeListView(_)) {
                [native::<i64>(&starts), native::<i64>(&sizes)]
            } else {
                [native::<i32>(&starts), native::<i32>(&sizes)]
            };
            builder
                .buffers(buffers.into())
                .add_child_data(child.to_data())
        }
        DataType::Map(entries, _) => {
            let lengths: Vec<usize> = (0..len).map(|_| random.below(4)).collect();
            let count = lengths.iter().sum();
            let child = array(entries.data_type(), false, pattern, count, random);
            builder
                .add_buffer(offsets::<i32>(&lengths))
                .add_child_data(child.to_data())
        }
        DataType::List(item) | DataType::LargeList(item) => {
            let lengths: Vec<usize> = (0..len).map(|_| random.below(4)).collect();
            let large = matches!(data_type, DataType::LargeList(_));
            let offsets = if large {
                offsets::<i64>(&lengths)
            } else {
                offsets::<i32>(&lengths)
            };
            let count = lengths.iter().sum();
            let child = array(item.data_type(), item.is_nullable(), pattern, count, random);
            builder.add_buffer(offsets).add_child_data(child.to_data())
        }
        DataType::FixedSizeList(item, n) => {
            let count = len * *n as usize;
            let child = array(item.data_type(), item.is_nullable(), pattern, count, random);
            builder.add_child_data(child.to_data())
        }
        DataType::Struct(fields) => fields.iter().fold(builder, |builder, field| {
            let child = array(field.data_type(), field.is_nullable(), pattern, len, random);
            builder.add_child_data(child.to_data())
        }),
        DataType::Dictionary(key, value) => {
            let values = array(value, true, Nulls::None, 3, random);
            let width = key.primitive_width().unwrap();
            let mut keys = vec![0_u8; len * width];
            (0..len).for_each(|row| keys[row * width] = random.below(3) as u8);
            builder
                .add_buffer(Buffer::from_vec(keys))
                .add_child_data(values.to_data())
        }
        DataType::FixedSizeBinary(n) => builder.add_buffer(random_bytes(len * *n as usize, random)),
        fixed => {
            let width = fixed.primitive_width().unwrap();
            builder.add_buffer(random_bytes(len * width, random))
        }
    };
    make_array(builder.align_buffers(true).build().unwrap())
}

fn item(data_type: DataType) -> Arc<Field> {
    shared(Field::new("item", data_type, true))
}

pub(crate) fn leaf_types() -> Vec<DataType> {
    use DataType::*;
    let mut types = plain_types();
    types.extend([
        Utf8,
        LargeUtf8,
        Binary,
        LargeBinary,
        Decimal128(38, 10),
        Decimal256(76, -3),
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        FixedSizeBinary(1),
        FixedSizeBinary(3),
        FixedSizeBinary(16),
        FixedSizeList(item(Int16), 3),
        FixedSizeList(item(Boolean), 3),
        FixedSizeList(item(FixedSizeBinary(5)), 1),
        FixedSizeList(item(FixedSizeList(item(Int8), 2)), 3),
        FixedSizeList(item(FixedSizeList(item(Boolean), 5)), 2),
        FixedSizeList(shared(Field::new("item", Int64, false)), 2),
        FixedSizeList(item(Timestamp(TimeUnit::Second, Some("+02:00".into()))), 2),
        FixedSizeList(item(Decimal128(20, 2)), 2),
    ]);
    for unit in TIME_UNITS {
        types.push(Duration(unit));
        types.push(Timestamp(unit, None));
        types.push(Timestamp(unit, Some("Europe/Berlin".into())));
    }
    let integers = [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64];
    for key in &integers {
        types.push(Dictionary(Box::new(key.clone()), Box::new(Utf8)));
    }
    for value in integers.into_iter().chain([LargeUtf8, Binary, LargeBinary]) {
        types.push(Dictionary(Box::new(Int16), Box::new(value)));
    }
    types
}

/// Leaves that plain v1 has no form for.
pub(crate) fn leaf_types_beyond_v1() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![
        Utf8View,
        BinaryView,
        Decimal32(9, 2),
        Decimal64(18, -3),
        Interval(IntervalUnit::YearMonth),
        Interval(IntervalUnit::DayTime),
        Interval(IntervalUnit::MonthDayNano),
        FixedSizeBinary(0),
        FixedSizeList(item(Float32), 0),
        FixedSizeList(item(FixedSizeList(item(Int8), 0)), 2),
        FixedSizeList(item(FixedSizeBinary(0)), 2),
        FixedSizeList(item(Decimal32(5, 1)), 3),
        FixedSizeList(item(Interval(IntervalUnit::MonthDayNano)), 2),
    ];
    for value in [
        Boolean,
        Float16,
        Float32,
        Float64,
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into())),
        Timestamp(TimeUnit::Second, Some("+02:00".into())),
        Duration(TimeUnit::Millisecond),
        Decimal32(9, 2),
        Decimal64(18, -3),
        Decimal128(38, 10),
        Decimal256(76, -3),
        Interval(IntervalUnit::DayTime),
        FixedSizeBinary(3),
        FixedSizeBinary(0),
        Utf8View,
        BinaryView,
    ] {
        types.push(Dictionary(Box::new(UInt8), Box::new(value)));
    }
    types
}

pub(crate) fn map_of(key: DataType, value: DataType, sorted: bool) -> DataType {
    let pair = [
        Field::new("keys", key, false),
        Field::new("values", value, true),
    ];
    let entries = Field::new("entries", DataType::Struct(pair.to_vec().into()), false);
    DataType::Map(shared(entries), sorted)
}

/// Nested types that plain v1 has no form for.
pub(crate) fn nested_types_beyond_v1() -> Vec<DataType> {
    use DataType::*;
    let empty = || Struct(Vec::<Field>::new().into());
    let pair = Struct(
        vec![
            Field::new("a", Utf8View, true),
            Field::new("b", Boolean, false),
        ]
        .into(),
    );
    vec![
        map_of(Utf8, Int32, false),
        map_of(Int64, Utf8View, true),
        map_of(pair.clone(), map_of(Utf8, List(item(Int8)), false), true),
        ListView(item(Int32)),
        LargeListView(item(Utf8)),
        ListView(item(ListView(item(Utf8View)))),
        List(item(LargeListView(item(pair.clone())))),
        empty(),
        List(item(empty())),
        Struct(vec![Field::new("e", empty(), true), Field::new("x", Int8, true)].into()),
        FixedSizeList(item(Utf8), 2),
        FixedSizeList(item(Utf8), 0),
        FixedSizeList(item(Null), 3),
        FixedSizeList(item(empty()), 3),
        FixedSizeList(item(pair), 3),
        FixedSizeList(item(FixedSizeList(item(List(item(Int16))), 2)), 2),
        FixedSizeList(shared(Field::new("solid", Binary, false)), 2),
        FixedSizeList(item(map_of(Int8, Float16, false)), 1),
        FixedSizeList(item(Dictionary(Box::new(Int8), Box::new(Float16))), 2),
    ]
}

pub(crate) fn nested_types() -> Vec<DataType> {
    use DataType::*;
    let dictionary = Dictionary(Box::new(Int8), Box::new(Utf8));
    let inner = Struct(
        vec![
            Field::new("a", Int32, true),
            Field::new("b", Utf8, true),
            Field::new("c", Boolean, false),
            Field::new("d", Utf8, false),
            Field::new("e", dictionary.clone(), true),
            Field::new("f", FixedSizeList(item(Int16), 2), true),
        ]
        .into(),
    );
    vec![
        List(item(Int32)),
        LargeList(item(Utf8)),
        List(item(Boolean)),
        List(item(dictionary)),
        List(item(inner.clone())),
        LargeList(item(List(item(LargeBinary)))),
        List(item(FixedSizeList(item(Float32), 4))),
        List(item(Null)),
        inner.clone(),
        Struct(
            vec![
                Field::new("inner", inner.clone(), true),
                Field::new("list", List(item(inner)), true),
                Field::new("solid", List(shared(Field::new("x", Int64, false))), false),
            ]
            .into(),
        ),
    ]
}
