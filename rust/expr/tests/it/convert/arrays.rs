//! Arrays from values of the model, and values of the model from arrays.

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
use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use half::f16;
use num_bigint::BigInt;
use pilum_testing::Random;

use super::model::{DAY, Fraction, Value, ten, unit};
use super::random::{of_float, value};

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
