//! The values of a list as packed bytes.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, LargeBinaryArray, LargeStringArray, PrimitiveArray,
    cast::AsArray,
    types::{
        ArrowPrimitiveType, Date32Type, Decimal128Type, Float64Type, Int64Type,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType, UInt64Type,
    },
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer,
};
use arrow_schema::{DataType, TimeUnit};

use super::broken::broken;
use crate::{error::Result, parse::parse_type, proto::expression as proto, types, values::Values};

/// Appends the values to `out`.
pub(super) fn write(values: &Values, out: &mut Vec<u8>) -> Result<proto::List> {
    let array = values.array();
    let data_type =
        types::name_of(array.data_type()).ok_or_else(|| broken("a type without a name"))?;
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        let mut bits = vec![0_u8; array.len().div_ceil(8)];
        for row in nulls.valid_indices() {
            if let Some(byte) = bits.get_mut(row / 8) {
                *byte |= 1 << (row % 8);
            }
        }
        out.extend(bits);
    }
    match array.data_type() {
        DataType::Boolean => out.extend(array.as_boolean().values().iter().map(u8::from)),
        DataType::UInt64 => fixed::<UInt64Type, 8>(array, out, u64::to_le_bytes),
        DataType::Float64 => fixed::<Float64Type, 8>(array, out, f64::to_le_bytes),
        DataType::Date32 => fixed::<Date32Type, 4>(array, out, i32::to_le_bytes),
        DataType::Decimal128(..) => fixed::<Decimal128Type, 16>(array, out, i128::to_le_bytes),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => fixed::<TimestampSecondType, 8>(array, out, i64::to_le_bytes),
            TimeUnit::Millisecond => {
                fixed::<TimestampMillisecondType, 8>(array, out, i64::to_le_bytes);
            }
            TimeUnit::Microsecond => {
                fixed::<TimestampMicrosecondType, 8>(array, out, i64::to_le_bytes);
            }
            TimeUnit::Nanosecond => {
                fixed::<TimestampNanosecondType, 8>(array, out, i64::to_le_bytes);
            }
        },
        DataType::LargeUtf8 => {
            let texts = array.as_string::<i64>();
            let texts = || texts.iter().map(|text| text.unwrap_or_default().as_bytes());
            long(texts, out)?;
        }
        DataType::LargeBinary => {
            let bytes = array.as_binary::<i64>();
            long(|| bytes.iter().map(Option::unwrap_or_default), out)?;
        }
        _ => fixed::<Int64Type, 8>(array, out, i64::to_le_bytes),
    }
    Ok(proto::List {
        r#type: data_type,
        count: array.len() as u64,
        has_nulls: values.has_null(),
        written: values.is_written(),
    })
}

fn fixed<T: ArrowPrimitiveType, const WIDTH: usize>(
    array: &ArrayRef,
    out: &mut Vec<u8>,
    bytes: impl Fn(T::Native) -> [u8; WIDTH],
) {
    let values = array.as_primitive::<T>().values();
    out.extend(values.iter().flat_map(|value| bytes(*value)));
}

fn long<'a, I: Iterator<Item = &'a [u8]>>(values: impl Fn() -> I, out: &mut Vec<u8>) -> Result<()> {
    for value in values() {
        let length = u32::try_from(value.len()).map_err(|_| broken("a value of 4 GiB"))?;
        out.extend(length.to_le_bytes());
    }
    values().for_each(|value| out.extend(value));
    Ok(())
}

/// Takes the values of one list from the front of `rest`.
pub(super) fn read(list: &proto::List, rest: &mut &[u8]) -> Result<Values> {
    let data_type = parse_type(&list.r#type)?;
    let count = usize::try_from(list.count).map_err(|_| broken("a list of 2^64 values"))?;
    let nulls = if list.has_nulls {
        let bits = taken(rest, count.div_ceil(8))?;
        let bits = BooleanBuffer::new(Buffer::from(bits), 0, count);
        Some(NullBuffer::new(bits))
    } else {
        None
    };
    let array: ArrayRef = match &data_type {
        DataType::Boolean => {
            let values = taken(rest, count)?.iter().map(|byte| *byte != 0);
            Arc::new(BooleanArray::new(values.collect(), nulls))
        }
        DataType::Int64 => read_fixed::<Int64Type, 8>(rest, count, nulls, i64::from_le_bytes)?,
        DataType::UInt64 => read_fixed::<UInt64Type, 8>(rest, count, nulls, u64::from_le_bytes)?,
        DataType::Float64 => read_fixed::<Float64Type, 8>(rest, count, nulls, f64::from_le_bytes)?,
        DataType::Date32 => read_fixed::<Date32Type, 4>(rest, count, nulls, i32::from_le_bytes)?,
        DataType::Decimal128(..) => {
            let raw = read_fixed::<Decimal128Type, 16>(rest, count, nulls, i128::from_le_bytes)?;
            let decimals = raw.as_primitive::<Decimal128Type>().clone();
            Arc::new(decimals.with_data_type(data_type.clone()))
        }
        DataType::Timestamp(..) => {
            let raw = read_fixed::<Int64Type, 8>(rest, count, nulls, i64::from_le_bytes)?;
            crate::kernel::zone::relabel(&raw, &data_type).map_err(|error| broken(&error))?
        }
        DataType::LargeUtf8 => {
            let (offsets, bytes) = read_long(rest, count)?;
            let texts = LargeStringArray::try_new(offsets, bytes, nulls);
            Arc::new(texts.map_err(|error| broken(&error))?)
        }
        DataType::LargeBinary => {
            let (offsets, bytes) = read_long(rest, count)?;
            let values = LargeBinaryArray::try_new(offsets, bytes, nulls);
            Arc::new(values.map_err(|error| broken(&error))?)
        }
        _ => return Err(broken("a list of a type that lists do not have")),
    };
    if list.written && data_type != DataType::Float64 {
        return Err(broken("numbers as they are written that are no floats"));
    }
    Values::kept(array, list.written).ok_or_else(|| broken("a type that lists do not have"))
}

fn taken<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    let (front, back) = rest
        .split_at_checked(len)
        .ok_or_else(|| broken("a list has fewer values than it says"))?;
    *rest = back;
    Ok(front)
}

fn read_fixed<T: ArrowPrimitiveType, const WIDTH: usize>(
    rest: &mut &[u8],
    count: usize,
    nulls: Option<NullBuffer>,
    value: impl Fn([u8; WIDTH]) -> T::Native,
) -> Result<ArrayRef>
where
    T::Native: ArrowNativeType,
{
    let size = count
        .checked_mul(WIDTH)
        .ok_or_else(|| broken("a list is too long"))?;
    let (chunks, _) = taken(rest, size)?.as_chunks::<WIDTH>();
    let values: ScalarBuffer<T::Native> = chunks.iter().map(|chunk| value(*chunk)).collect();
    Ok(Arc::new(PrimitiveArray::<T>::new(values, nulls)))
}

/// The offsets of values of any length, and their bytes.
fn read_long(rest: &mut &[u8], count: usize) -> Result<(OffsetBuffer<i64>, Buffer)> {
    let size = count
        .checked_mul(4)
        .ok_or_else(|| broken("a list is too long"))?;
    let (lengths, _) = taken(rest, size)?.as_chunks::<4>();
    let lengths = lengths
        .iter()
        .map(|length| u32::from_le_bytes(*length) as usize);
    let total = lengths.clone().sum();
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok((offsets, Buffer::from(taken(rest, total)?)))
}
