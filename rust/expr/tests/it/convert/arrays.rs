//! Random types and values, arrays from values, and values from arrays.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray,
    FixedSizeListArray, GenericListArray, GenericListViewArray, LargeBinaryArray, LargeStringArray,
    MapArray, NullArray, OffsetSizeTrait, PrimitiveArray, StringArray, StringViewArray,
    StructArray, cast::AsArray, types::*,
};
use arrow_buffer::{
    IntervalDayTime, IntervalMonthDayNano, NullBuffer, OffsetBuffer, ScalarBuffer, i256,
};
use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};
use half::f16;
use num_bigint::BigInt;
use pilum_testing::Random;

use super::model::{DAY, Fraction, Value, digits, integer_range, ten, unit};

const UNITS: [TimeUnit; 4] = [
    TimeUnit::Second,
    TimeUnit::Millisecond,
    TimeUnit::Microsecond,
    TimeUnit::Nanosecond,
];

/// Every type without parts, decimals of several shapes.
pub(crate) fn leaf_types() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![
        Null,
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Date32,
        Date64,
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        FixedSizeBinary(3),
        FixedSizeBinary(0),
        Decimal32(9, 2),
        Decimal32(5, 0),
        Decimal64(18, 6),
        Decimal64(12, -2),
        Decimal128(38, 0),
        Decimal128(10, 2),
        Decimal128(38, 20),
        Decimal128(3, 3),
        Decimal256(76, 10),
        Decimal256(40, 38),
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Interval(IntervalUnit::YearMonth),
        Interval(IntervalUnit::DayTime),
        Interval(IntervalUnit::MonthDayNano),
    ];
    for unit in UNITS {
        types.push(Timestamp(unit, None));
        types.push(Timestamp(unit, Some("UTC".into())));
        types.push(Timestamp(unit, Some("Europe/Berlin".into())));
        types.push(Duration(unit));
    }
    types
}

/// A random type; of parts if `depth` allows.
pub(crate) fn data_type(random: &mut Random, leaves: &[DataType], depth: u8) -> DataType {
    if depth == 0 || random.one_in(3) {
        return random.pick(leaves).clone();
    }
    let part = |random: &mut Random| data_type(random, leaves, depth - 1);
    let item = |random: &mut Random, inner: DataType| -> FieldRef {
        let name = *random.pick(&["item", "element"]);
        let nullable = inner == DataType::Null || !random.one_in(4);
        Arc::new(Field::new(name, inner, nullable))
    };
    let inner = part(random);
    let item = item(random, inner);
    match random.below(8) {
        0 => DataType::List(item),
        1 => DataType::LargeList(item),
        2 => DataType::ListView(item),
        3 => DataType::LargeListView(item),
        4 => DataType::FixedSizeList(item, i32::try_from(random.below(3)).unwrap()),
        5 => {
            let key = random
                .pick(&[DataType::Int8, DataType::Utf8, DataType::Int64])
                .clone();
            let value = part(random);
            let nullable = value == DataType::Null || !random.one_in(4);
            let value = Field::new("value", value, nullable);
            let entries = Fields::from(vec![Field::new("key", key, false), value]);
            DataType::Map(
                Arc::new(Field::new("entries", DataType::Struct(entries), false)),
                false,
            )
        }
        6 => {
            let keys = random
                .pick(&[DataType::Int8, DataType::UInt16, DataType::Int64])
                .clone();
            let values = random
                .pick(&[DataType::Utf8, DataType::Int32, DataType::Binary])
                .clone();
            DataType::Dictionary(Box::new(keys), Box::new(values))
        }
        _ => {
            let mut names = vec!["a", "b", "c"];
            let mut fields = Vec::new();
            for _ in 0..=random.below(2) {
                let name = names.remove(random.below(names.len()));
                let inner = part(random);
                let nullable = inner == DataType::Null || !random.one_in(5);
                fields.push(Field::new(name, inner, nullable));
            }
            DataType::Struct(fields.into())
        }
    }
}

/// A type that values of `from` might be converted to: mostly of the same shape.
pub(crate) fn relative(random: &mut Random, from: &DataType, leaves: &[DataType]) -> DataType {
    let field = |random: &mut Random, field: &FieldRef| -> FieldRef {
        let data_type = relative(random, field.data_type(), leaves);
        Arc::new(Field::new(
            field.name(),
            data_type,
            field.is_nullable() || random.one_in(2),
        ))
    };
    match from {
        DataType::Struct(fields) => {
            let mut fields: Vec<FieldRef> = fields.iter().map(|of| field(random, of)).collect();
            fields.reverse();
            if random.one_in(6) {
                fields.push(Arc::new(Field::new(
                    "new",
                    DataType::Int8,
                    !random.one_in(3),
                )));
            }
            if random.one_in(8) {
                fields.pop();
            }
            DataType::Struct(fields.into())
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else {
                return from.clone();
            };
            let key = pair[0].data_type();
            let pair = Fields::from(vec![
                Field::new("keys", relative(random, key, leaves), false),
                Field::new(
                    "values",
                    relative(random, pair[1].data_type(), leaves),
                    true,
                ),
            ]);
            DataType::Map(
                Arc::new(Field::new("pairs", DataType::Struct(pair), false)),
                false,
            )
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => {
            let item = field(random, item);
            match random.below(5) {
                0 => DataType::List(item),
                1 => DataType::LargeList(item),
                2 => DataType::ListView(item),
                3 => DataType::LargeListView(item),
                _ => DataType::FixedSizeList(item, i32::try_from(random.below(3)).unwrap()),
            }
        }
        DataType::Dictionary(_, values) if random.one_in(2) => values.as_ref().clone(),
        leaf if random.one_in(5) => leaf.clone(),
        _ => random.pick(leaves).clone(),
    }
}

fn edge_integer(random: &mut Random) -> BigInt {
    let value = BigInt::from(random.edge());
    let value = if random.one_in(3) {
        BigInt::from(random.below(300))
    } else {
        value
    };
    if random.one_in(2) { -value } else { value }
}

/// A random value that the type holds.
pub(crate) fn value(random: &mut Random, data_type: &DataType, nullable: bool) -> Value {
    if *data_type == DataType::Null || nullable && random.one_in(6) {
        return Value::Null;
    }
    if let Some((low, high)) = integer_range(data_type) {
        let size: BigInt = &high - &low + 1;
        let value = edge_integer(random);
        let value = ((value - &low) % &size + &size) % &size + low;
        return Value::Number(Fraction::whole(value));
    }
    if let Some((precision, scale)) = digits(data_type) {
        let few = u32::try_from(random.below(usize::from(precision))).unwrap() + 1;
        let limit = ten(few);
        let product =
            edge_integer(random) * BigInt::from(random.any()) * BigInt::from(random.any());
        let unscaled = if random.one_in(2) {
            edge_integer(random)
        } else {
            product
        } % limit;
        return Value::Number(Fraction::decimal(unscaled, scale));
    }
    match data_type {
        DataType::Float16 => float(f16::from_bits(random.any() as u16).to_f64(), random),
        DataType::Float32 => {
            let value = match random.below(3) {
                0 => f32::from_bits(random.any() as u32),
                1 => random.below(100_000) as f32 / 100.0,
                _ => random.edge() as f32,
            };
            float(f64::from(value), random)
        }
        DataType::Float64 => {
            let value = match random.below(4) {
                0 => f64::from_bits(random.any()),
                1 => random.below(1_000_000) as f64 / 1000.0,
                2 => f64::from(random.below(1000) as f32 / 7.0),
                _ => random.edge() as f64,
            };
            float(value, random)
        }
        DataType::Date32 => Value::Nanos(i128::from(random.edge() as i32) * DAY),
        DataType::Date64 => {
            let days = if random.one_in(2) {
                random.edge() as i64
            } else {
                random.below(40_000) as i64
            };
            Value::Nanos(i128::from(days % 106_751_991_167) * DAY)
        }
        DataType::Time32(of) | DataType::Time64(of) => {
            let step = unit(*of);
            let coarse = *random.pick(&[1_000_000_000, 1_000_000, 1000, 1]).max(&step);
            let nanos = i128::from(random.any()) % DAY;
            Value::Nanos(nanos / coarse * coarse)
        }
        DataType::Timestamp(of, _) | DataType::Duration(of) => {
            let coarse = *random.pick(&[1, 1000, 1_000_000, 86_400_000, 86_400_000_000]);
            let raw = (random.edge() as i64) / coarse * coarse;
            let raw = if random.one_in(2) {
                raw % 1_000_000_000_000_000
            } else {
                raw
            };
            Value::Nanos(i128::from(raw) * unit(*of))
        }
        DataType::Interval(IntervalUnit::YearMonth) => Value::Interval(random.edge() as i32, 0, 0),
        DataType::Interval(IntervalUnit::DayTime) => {
            let millis = i64::from(random.edge() as i32);
            Value::Interval(0, random.edge() as i32, millis * 1_000_000)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let some = |random: &mut Random| {
                if random.one_in(2) {
                    0
                } else {
                    random.edge() as i32
                }
            };
            let (months, days) = (some(random), some(random));
            let nanos = match random.below(3) {
                0 => 0,
                1 => i64::from(random.edge() as i32) * 1_000_000,
                _ => random.edge() as i64,
            };
            Value::Interval(months, days, nanos)
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let words = ["", "a", "abc", "größer", "a text longer than a view holds"];
            Value::Text((*random.pick(&words)).to_owned())
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let words: [&[u8]; 5] = [
                b"",
                b"abc",
                b"\xff",
                b"\xc3\xb6x",
                b"bytes longer than a view holds",
            ];
            Value::Bytes((*random.pick(&words)).to_vec())
        }
        DataType::FixedSizeBinary(size) => {
            let bytes = (0..*size).map(|_| if random.one_in(4) { 0xff } else { b'x' });
            Value::Bytes(bytes.collect())
        }
        DataType::Dictionary(_, values) => value(random, values, false),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => {
            let len = random.below(4);
            Value::List(
                (0..len)
                    .map(|_| value(random, item.data_type(), item.is_nullable()))
                    .collect(),
            )
        }
        DataType::FixedSizeList(item, size) => Value::List(
            (0..*size)
                .map(|_| value(random, item.data_type(), item.is_nullable()))
                .collect(),
        ),
        DataType::Struct(fields) => Value::Struct(
            fields
                .iter()
                .map(|of| {
                    (
                        of.name().clone(),
                        value(random, of.data_type(), of.is_nullable()),
                    )
                })
                .collect(),
        ),
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else {
                panic!("a map has entries");
            };
            let len = random.below(3);
            Value::Map(
                (0..len)
                    .map(|_| {
                        (
                            value(random, pair[0].data_type(), false),
                            value(random, pair[1].data_type(), pair[1].is_nullable()),
                        )
                    })
                    .collect(),
            )
        }
        other => panic!("no values of {other}"),
    }
}

fn float(value: f64, random: &mut Random) -> Value {
    let value = match random.below(20) {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => -0.0,
        _ => value,
    };
    of_float(value)
}

fn of_float(value: f64) -> Value {
    if value.is_nan() {
        Value::NaN
    } else if value.is_infinite() {
        Value::Infinite(value > 0.0)
    } else {
        Value::Number(Fraction::float(value))
    }
}

fn steps(value: &Value, scale: i8) -> Option<BigInt> {
    let Value::Number(number) = value else {
        return None;
    };
    let factor = ten(u32::from(scale.unsigned_abs()));
    Some(if scale < 0 {
        &number.0 / (&number.1 * factor)
    } else {
        &number.0 * factor / &number.1
    })
}

fn parsed<T: std::str::FromStr>(value: Option<BigInt>) -> Option<T> {
    value.map(|value| value.to_string().parse().ok().unwrap())
}

fn as_float(value: &Value) -> Option<f64> {
    match value {
        Value::NaN => Some(f64::NAN),
        Value::Infinite(positive) => Some(if *positive {
            f64::INFINITY
        } else {
            f64::NEG_INFINITY
        }),
        Value::Number(Fraction(numerator, denominator)) => {
            // The value came from a float, so halving is exact.
            let mut numerator = numerator.clone();
            let mut exponent = -i32::try_from(denominator.bits() - 1).unwrap();
            while numerator.bits() > 53 {
                numerator /= 2;
                exponent += 1;
            }
            let mantissa: i64 = numerator.to_string().parse().unwrap();
            let half = exponent / 2;
            Some(mantissa as f64 * 2_f64.powi(half) * 2_f64.powi(exponent - half))
        }
        _ => None,
    }
}

/// An array of the values.
pub(crate) fn build(data_type: &DataType, values: &[Value]) -> ArrayRef {
    macro_rules! primitive {
        ($type:ty, $value:expr) => {{
            let value = $value;
            let array: PrimitiveArray<$type> = values.iter().map(|v| value(v)).collect();
            Arc::new(array.with_data_type(data_type.clone()))
        }};
    }
    macro_rules! integer {
        ($type:ty) => {
            primitive!($type, |v: &Value| parsed(steps(v, 0)))
        };
    }
    macro_rules! nanos {
        ($type:ty, $step:expr) => {
            primitive!($type, |v: &Value| match v {
                Value::Nanos(nanos) => Some((nanos / $step).try_into().unwrap()),
                _ => None,
            })
        };
    }
    let text = |value: &Value| match value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    };
    let bytes = |value: &Value| match value {
        Value::Bytes(bytes) => Some(bytes.clone()),
        _ => None,
    };
    match data_type {
        DataType::Null => Arc::new(NullArray::new(values.len())),
        DataType::Boolean => {
            let bits = values
                .iter()
                .map(|v| steps(v, 0).map(|v| v != BigInt::from(0)));
            Arc::new(bits.collect::<BooleanArray>())
        }
        DataType::Int8 => integer!(Int8Type),
        DataType::Int16 => integer!(Int16Type),
        DataType::Int32 => integer!(Int32Type),
        DataType::Int64 => integer!(Int64Type),
        DataType::UInt8 => integer!(UInt8Type),
        DataType::UInt16 => integer!(UInt16Type),
        DataType::UInt32 => integer!(UInt32Type),
        DataType::UInt64 => integer!(UInt64Type),
        DataType::Float16 => primitive!(Float16Type, |v| as_float(v).map(f16::from_f64)),
        DataType::Float32 => primitive!(Float32Type, |v| as_float(v).map(|v| v as f32)),
        DataType::Float64 => primitive!(Float64Type, as_float),
        DataType::Decimal32(_, s) => primitive!(Decimal32Type, |v| parsed(steps(v, *s))),
        DataType::Decimal64(_, s) => primitive!(Decimal64Type, |v| parsed(steps(v, *s))),
        DataType::Decimal128(_, s) => primitive!(Decimal128Type, |v| parsed(steps(v, *s))),
        DataType::Decimal256(_, s) => primitive!(Decimal256Type, |v| steps(v, *s)
            .map(|v| i256::from_string(&v.to_string()).unwrap())),
        DataType::Date32 => nanos!(Date32Type, DAY),
        DataType::Date64 => nanos!(Date64Type, 1_000_000),
        DataType::Time32(TimeUnit::Second) => nanos!(Time32SecondType, 1_000_000_000),
        DataType::Time32(_) => nanos!(Time32MillisecondType, 1_000_000),
        DataType::Time64(TimeUnit::Microsecond) => nanos!(Time64MicrosecondType, 1000),
        DataType::Time64(_) => nanos!(Time64NanosecondType, 1),
        DataType::Timestamp(TimeUnit::Second, _) => nanos!(TimestampSecondType, 1_000_000_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            nanos!(TimestampMillisecondType, 1_000_000)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => nanos!(TimestampMicrosecondType, 1000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => nanos!(TimestampNanosecondType, 1),
        DataType::Duration(TimeUnit::Second) => nanos!(DurationSecondType, 1_000_000_000),
        DataType::Duration(TimeUnit::Millisecond) => nanos!(DurationMillisecondType, 1_000_000),
        DataType::Duration(TimeUnit::Microsecond) => nanos!(DurationMicrosecondType, 1000),
        DataType::Duration(TimeUnit::Nanosecond) => nanos!(DurationNanosecondType, 1),
        DataType::Interval(IntervalUnit::YearMonth) => {
            primitive!(IntervalYearMonthType, |v: &Value| match v {
                Value::Interval(months, ..) => Some(*months),
                _ => None,
            })
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            primitive!(IntervalDayTimeType, |v: &Value| match v {
                Value::Interval(_, days, nanos) =>
                    Some(IntervalDayTime::new(*days, (nanos / 1_000_000) as i32)),
                _ => None,
            })
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            primitive!(IntervalMonthDayNanoType, |v: &Value| match v {
                Value::Interval(m, d, n) => Some(IntervalMonthDayNano::new(*m, *d, *n)),
                _ => None,
            })
        }
        DataType::Utf8 => Arc::new(values.iter().map(text).collect::<StringArray>()),
        DataType::LargeUtf8 => Arc::new(values.iter().map(text).collect::<LargeStringArray>()),
        DataType::Utf8View => Arc::new(values.iter().map(text).collect::<StringViewArray>()),
        DataType::Binary => Arc::new(values.iter().map(bytes).collect::<BinaryArray>()),
        DataType::LargeBinary => Arc::new(values.iter().map(bytes).collect::<LargeBinaryArray>()),
        DataType::BinaryView => Arc::new(values.iter().map(bytes).collect::<BinaryViewArray>()),
        DataType::FixedSizeBinary(size) => Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.iter().map(bytes), *size)
                .unwrap(),
        ),
        DataType::Dictionary(..) => dictionary(data_type, values),
        DataType::List(item) => list::<i32>(item, values),
        DataType::LargeList(item) => list::<i64>(item, values),
        DataType::ListView(item) => view::<i32>(item, values),
        DataType::LargeListView(item) => view::<i64>(item, values),
        DataType::FixedSizeList(item, size) => {
            let mut items = Vec::new();
            for value in values {
                match value {
                    Value::List(of) => items.extend(of.iter().cloned()),
                    // Items under a null list may be anything.
                    _ => items.extend((0..*size).map(|_| junk(item))),
                }
            }
            let items = build(item.data_type(), &items);
            let built = FixedSizeListArray::try_new_with_length(
                Arc::clone(item),
                *size,
                items,
                nulls(values),
                values.len(),
            );
            Arc::new(built.unwrap())
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().enumerate().map(|(position, field)| {
                let column: Vec<Value> = values
                    .iter()
                    .map(|value| match value {
                        Value::Struct(members) => members[position].1.clone(),
                        _ => junk(field),
                    })
                    .collect();
                build(field.data_type(), &column)
            });
            let columns = columns.collect();
            let built = StructArray::try_new_with_length(
                fields.clone(),
                columns,
                nulls(values),
                values.len(),
            );
            Arc::new(built.unwrap())
        }
        DataType::Map(entries, sorted) => {
            let mut offsets = vec![0_i32];
            let mut pairs = Vec::new();
            for value in values {
                if let Value::Map(of) = value {
                    pairs.extend(of.iter().cloned());
                }
                offsets.push(i32::try_from(pairs.len()).unwrap());
            }
            let DataType::Struct(pair) = entries.data_type() else {
                panic!("a map has entries");
            };
            let keys: Vec<Value> = pairs.iter().map(|(key, _)| key.clone()).collect();
            let items: Vec<Value> = pairs.iter().map(|(_, value)| value.clone()).collect();
            let columns = vec![
                build(pair[0].data_type(), &keys),
                build(pair[1].data_type(), &items),
            ];
            let pairs = StructArray::try_new(pair.clone(), columns, None).unwrap();
            let offsets = OffsetBuffer::new(offsets.into());
            let map =
                MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls(values), *sorted);
            Arc::new(map.unwrap())
        }
        other => panic!("no arrays of {other}"),
    }
}

/// What stands below a null: values that no reader may look at.
fn junk(field: &Field) -> Value {
    value(&mut Random(99), field.data_type(), false)
}

fn nulls(values: &[Value]) -> Option<NullBuffer> {
    let valid: Vec<bool> = values.iter().map(|value| *value != Value::Null).collect();
    valid.contains(&false).then(|| NullBuffer::from(valid))
}

fn dictionary(data_type: &DataType, values: &[Value]) -> ArrayRef {
    let DataType::Dictionary(keys, of) = data_type else {
        panic!("a dictionary");
    };
    // In reverse, with a value that no row has.
    let mut distinct: Vec<Value> = vec![value(&mut Random(7), of, false)];
    for value in values.iter().rev() {
        if *value != Value::Null && !distinct.contains(value) {
            distinct.push(value.clone());
        }
    }
    let positions: Vec<Value> = values
        .iter()
        .map(|value| match distinct.iter().position(|of| of == value) {
            Some(at) => Value::Number(Fraction::whole(at as i64)),
            None => Value::Null,
        })
        .collect();
    let keys = build(keys, &positions);
    let data = keys.to_data().into_builder().data_type(data_type.clone());
    let data = data.add_child_data(build(of, &distinct).to_data());
    arrow_array::make_array(data.build().unwrap())
}

fn list<O: OffsetSizeTrait>(item: &FieldRef, values: &[Value]) -> ArrayRef {
    let mut offsets = vec![O::zero()];
    // Items before the first list, which belong to none.
    let mut items = vec![junk(item)];
    offsets[0] = O::one();
    for value in values {
        match value {
            Value::List(of) => items.extend(of.iter().cloned()),
            _ => items.push(junk(item)),
        }
        offsets.push(O::usize_as(items.len()));
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let items = build(item.data_type(), &items);
    let built = GenericListArray::try_new(Arc::clone(item), offsets, items, nulls(values));
    Arc::new(built.unwrap())
}

fn view<O: OffsetSizeTrait>(item: &FieldRef, values: &[Value]) -> ArrayRef {
    let (mut offsets, mut sizes) = (vec![O::zero(); values.len()], vec![O::zero(); values.len()]);
    let mut items = vec![junk(item)];
    for (row, value) in values.iter().enumerate().rev() {
        offsets[row] = O::usize_as(items.len());
        if let Value::List(of) = value {
            items.extend(of.iter().cloned());
            sizes[row] = O::usize_as(of.len());
        }
    }
    let items = build(item.data_type(), &items);
    let built = GenericListViewArray::try_new(
        Arc::clone(item),
        offsets.into(),
        sizes.into(),
        items,
        nulls(values),
    );
    Arc::new(built.unwrap())
}

/// One value of an array.
pub(crate) fn read(array: &dyn Array, row: usize) -> Value {
    if *array.data_type() == DataType::Null || array.is_null(row) {
        return Value::Null;
    }
    macro_rules! raw {
        ($type:ty) => {
            array.as_primitive::<$type>().value(row)
        };
    }
    let whole = |value: BigInt| Value::Number(Fraction::whole(value));
    let list = |items: ArrayRef| Value::List((0..items.len()).map(|at| read(&items, at)).collect());
    match array.data_type() {
        DataType::Boolean => whole(i64::from(array.as_boolean().value(row)).into()),
        DataType::Int8 => whole(raw!(Int8Type).into()),
        DataType::Int16 => whole(raw!(Int16Type).into()),
        DataType::Int32 => whole(raw!(Int32Type).into()),
        DataType::Int64 => whole(raw!(Int64Type).into()),
        DataType::UInt8 => whole(raw!(UInt8Type).into()),
        DataType::UInt16 => whole(raw!(UInt16Type).into()),
        DataType::UInt32 => whole(raw!(UInt32Type).into()),
        DataType::UInt64 => whole(raw!(UInt64Type).into()),
        DataType::Float16 => of_float(raw!(Float16Type).to_f64()),
        DataType::Float32 => of_float(raw!(Float32Type).into()),
        DataType::Float64 => of_float(raw!(Float64Type)),
        DataType::Decimal32(_, s) => {
            Value::Number(Fraction::decimal(raw!(Decimal32Type).into(), *s))
        }
        DataType::Decimal64(_, s) => {
            Value::Number(Fraction::decimal(raw!(Decimal64Type).into(), *s))
        }
        DataType::Decimal128(_, s) => {
            Value::Number(Fraction::decimal(raw!(Decimal128Type).into(), *s))
        }
        DataType::Decimal256(_, s) => {
            let unscaled = raw!(Decimal256Type).to_string().parse().unwrap();
            Value::Number(Fraction::decimal(unscaled, *s))
        }
        DataType::Date32 => Value::Nanos(i128::from(raw!(Date32Type)) * DAY),
        DataType::Date64 => Value::Nanos(i128::from(raw!(Date64Type)) * 1_000_000),
        DataType::Time32(TimeUnit::Second) => {
            Value::Nanos(i128::from(raw!(Time32SecondType)) * 1_000_000_000)
        }
        DataType::Time32(_) => Value::Nanos(i128::from(raw!(Time32MillisecondType)) * 1_000_000),
        DataType::Time64(TimeUnit::Microsecond) => {
            Value::Nanos(i128::from(raw!(Time64MicrosecondType)) * 1000)
        }
        DataType::Time64(_) => Value::Nanos(raw!(Time64NanosecondType).into()),
        DataType::Timestamp(of, _) => {
            let value = match of {
                TimeUnit::Second => raw!(TimestampSecondType),
                TimeUnit::Millisecond => raw!(TimestampMillisecondType),
                TimeUnit::Microsecond => raw!(TimestampMicrosecondType),
                TimeUnit::Nanosecond => raw!(TimestampNanosecondType),
            };
            Value::Nanos(i128::from(value) * unit(*of))
        }
        DataType::Duration(of) => {
            let value = match of {
                TimeUnit::Second => raw!(DurationSecondType),
                TimeUnit::Millisecond => raw!(DurationMillisecondType),
                TimeUnit::Microsecond => raw!(DurationMicrosecondType),
                TimeUnit::Nanosecond => raw!(DurationNanosecondType),
            };
            Value::Nanos(i128::from(value) * unit(*of))
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            Value::Interval(raw!(IntervalYearMonthType), 0, 0)
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let value = raw!(IntervalDayTimeType);
            Value::Interval(0, value.days, i64::from(value.milliseconds) * 1_000_000)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = raw!(IntervalMonthDayNanoType);
            Value::Interval(value.months, value.days, value.nanoseconds)
        }
        DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::LargeUtf8 => Value::Text(array.as_string::<i64>().value(row).to_owned()),
        DataType::Utf8View => Value::Text(array.as_string_view().value(row).to_owned()),
        DataType::Binary => Value::Bytes(array.as_binary::<i32>().value(row).to_owned()),
        DataType::LargeBinary => Value::Bytes(array.as_binary::<i64>().value(row).to_owned()),
        DataType::BinaryView => Value::Bytes(array.as_binary_view().value(row).to_owned()),
        DataType::FixedSizeBinary(_) => {
            Value::Bytes(array.as_fixed_size_binary().value(row).to_owned())
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            read(dictionary.values(), dictionary.normalized_keys()[row])
        }
        DataType::List(_) => list(array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(array.as_list::<i64>().value(row)),
        DataType::ListView(_) => list(array.as_list_view::<i32>().value(row)),
        DataType::LargeListView(_) => list(array.as_list_view::<i64>().value(row)),
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list().value(row)),
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let members = fields.iter().zip(columns);
            Value::Struct(
                members
                    .map(|(f, c)| (f.name().clone(), read(c, row)))
                    .collect(),
            )
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            Value::Map(
                (0..entries.len())
                    .map(|at| (read(keys, at), read(values, at)))
                    .collect(),
            )
        }
        other => panic!("no values of {other}"),
    }
}
