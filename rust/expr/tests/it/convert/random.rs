//! Random types, and random values of a type.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};
use half::f16;
use num_bigint::BigInt;
use pilum_testing::{Random, TIME_UNITS, plain_types};

use super::model::{DAY, Fraction, Value, digits, integer_range, ten, unit};

/// Every type without parts, decimals of several shapes.
pub(crate) fn leaf_types() -> Vec<DataType> {
    use DataType::*;
    let mut types = plain_types();
    types.extend([
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
    ]);
    for unit in TIME_UNITS {
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

pub(super) fn of_float(value: f64) -> Value {
    if value.is_nan() {
        Value::NaN
    } else if value.is_infinite() {
        Value::Infinite(value > 0.0)
    } else {
        Value::Number(Fraction::float(value))
    }
}
