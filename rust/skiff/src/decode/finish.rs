//! The buffers of a column become its array.

use std::mem::{replace, take};
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, Float32Array, GenericByteArray,
    GenericListArray, MapArray, NullArray, OffsetSizeTrait, StructArray, UnionArray, make_array,
    types::ByteArrayType,
};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field};

use super::column::Column;
use super::number::Decimal;
use crate::error::Result;

impl Column {
    /// Rows that are complete.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Null { len } | Self::Fixed { len, .. } => *len,
            Self::Struct(it) => it.len,
            Self::Boolean(flags) | Self::Optional { flags, .. } => flags.len(),
            Self::Copy1(out) => out.len(),
            Self::Copy2(out) => out.len() / 2,
            Self::Copy4(out) => out.len() / 4,
            Self::Copy8(out) => out.len() / 8,
            Self::Copy16(out) | Self::Uuid(out) => out.len() / 16,
            Self::Copy32(out) => out.len() / 32,
            Self::Number(number) => number.out.len() / number.arrow.bytes,
            Self::Decimal(decimal) => decimal.out.len() / decimal.arrow_bytes,
            Self::Float32(out) => out.len(),
            Self::Bytes { offsets, .. } | Self::Json { offsets, .. } => offsets.len() - 1,
            Self::LargeBytes { offsets, .. } => offsets.len() - 1,
            Self::List(list) => list.offsets.len() - 1,
            Self::Union(union) => union.ids.len(),
        }
    }

    /// Takes the rows as an array of the type of `field`, and leaves the column empty.
    pub(crate) fn finish(&mut self, field: &Field) -> Result<ArrayRef> {
        self.finish_with(field, None)
    }

    fn finish_with(&mut self, field: &Field, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let len = self.len();
        let data_type = field.data_type();
        Ok(match self {
            Self::Null { len } => Arc::new(NullArray::new(take(len))),
            Self::Boolean(flags) => Arc::new(BooleanArray::new(pack(&take_vec(flags)), nulls)),
            Self::Float32(out) => Arc::new(Float32Array::new(take_vec(out).into(), nulls)),
            Self::Copy1(out)
            | Self::Copy2(out)
            | Self::Copy4(out)
            | Self::Copy8(out)
            | Self::Copy16(out)
            | Self::Copy32(out)
            | Self::Uuid(out) => plain(out, len, data_type, nulls)?,
            Self::Number(number) => plain(&mut number.out, len, data_type, nulls)?,
            Self::Decimal(decimal) => {
                let nulls = with_special(decimal, nulls.as_ref());
                plain(&mut decimal.out, len, data_type, nulls)?
            }
            Self::Fixed { width, len, data } => {
                let size = i32::try_from(*width).unwrap_or_default();
                let data = take_buffer(data);
                let array = FixedSizeBinaryArray::try_new_with_len(size, data, nulls, take(len))?;
                Arc::new(array)
            }
            Self::Bytes { offsets, data, .. } | Self::Json { offsets, data } => {
                let offsets = take_offsets(offsets);
                match data_type {
                    DataType::Utf8 => {
                        text_or_bytes::<arrow_array::types::Utf8Type>(offsets, data, nulls)?
                    }
                    _ => text_or_bytes::<arrow_array::types::BinaryType>(offsets, data, nulls)?,
                }
            }
            Self::LargeBytes { offsets, data, .. } => {
                let offsets = take_offsets(offsets);
                match data_type {
                    DataType::LargeUtf8 => {
                        text_or_bytes::<arrow_array::types::LargeUtf8Type>(offsets, data, nulls)?
                    }
                    _ => {
                        text_or_bytes::<arrow_array::types::LargeBinaryType>(offsets, data, nulls)?
                    }
                }
            }
            Self::Optional { flags, value } => {
                let nulls = NullBuffer::new(pack(&take_vec(flags)));
                value.finish_with(field, Some(nulls).filter(|nulls| nulls.null_count() > 0))?
            }
            Self::Struct(it) => finish_struct(&mut it.children, take(&mut it.len), field, nulls)?,
            Self::List(list) => {
                let offsets = replace(&mut list.offsets, vec![0]);
                finish_list(offsets, &mut list.item, field, nulls)?
            }
            Self::Union(union) => {
                let DataType::Union(fields, _) = data_type else {
                    return Err(mismatch(field));
                };
                let pairs = union.children.iter_mut().zip(fields.iter());
                let arrays: Result<Vec<_>> = pairs
                    .map(|(child, (_, field))| child.finish(field))
                    .collect();
                let ids = ScalarBuffer::from(take(&mut union.ids));
                let offsets = ScalarBuffer::from(take(&mut union.offsets));
                Arc::new(UnionArray::try_new(
                    fields.clone(),
                    ids,
                    Some(offsets),
                    arrays?,
                )?)
            }
        })
    }
}

/// The nulls of a column of decimals, with one for every value that is no number; these are counted.
fn with_special(decimal: &mut Decimal, nulls: Option<&NullBuffer>) -> Option<NullBuffer> {
    let special = decimal.flags.as_mut().map(take_vec);
    let special = special.map(|flags| NullBuffer::new(pack(&flags)));
    let special = special.filter(|special| special.null_count() > 0);
    let num_special = special.as_ref().map_or(0, NullBuffer::null_count);
    decimal.num_special += num_special as u64;
    NullBuffer::union(nulls, special.as_ref())
}

fn finish_struct(
    children: &mut [Column],
    len: usize,
    field: &Field,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let DataType::Struct(fields) = field.data_type() else {
        return Err(mismatch(field));
    };
    if fields.is_empty() {
        return Ok(Arc::new(StructArray::new_empty_fields(len, nulls)));
    }
    for child in children.iter_mut().filter(|it| it.is_void()) {
        child.set_void_len(len);
    }
    let pairs = children.iter_mut().zip(fields);
    let arrays: Result<Vec<_>> = pairs.map(|(child, field)| child.finish(field)).collect();
    Ok(Arc::new(StructArray::try_new_with_length(
        fields.clone(),
        arrays?,
        nulls,
        len,
    )?))
}

fn finish_list(
    offsets: Vec<i64>,
    item: &mut Column,
    field: &Field,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let narrow = |offsets: &[i64]| -> Result<OffsetBuffer<i32>> {
        let narrow = offsets.iter().map(|offset| i32::try_from(*offset));
        let narrow: std::result::Result<Vec<_>, _> = narrow.collect();
        let narrow = narrow.map_err(|_| ArrowError::OffsetOverflowError(offsets.len()))?;
        Ok(OffsetBuffer::new(narrow.into()))
    };
    Ok(match field.data_type() {
        DataType::List(inner) => {
            let items = item.finish(inner)?;
            let offsets = narrow(&offsets)?;
            Arc::new(GenericListArray::<i32>::try_new(
                Arc::clone(inner),
                offsets,
                items,
                nulls,
            )?)
        }
        DataType::LargeList(inner) => {
            let items = item.finish(inner)?;
            let offsets = OffsetBuffer::new(offsets.into());
            Arc::new(GenericListArray::<i64>::try_new(
                Arc::clone(inner),
                offsets,
                items,
                nulls,
            )?)
        }
        DataType::Map(inner, is_sorted) => {
            let entries = item.finish(inner)?;
            let Some(entries) = entries.as_any().downcast_ref::<StructArray>() else {
                return Err(mismatch(field));
            };
            let offsets = narrow(&offsets)?;
            let map = MapArray::try_new(
                Arc::clone(inner),
                offsets,
                entries.clone(),
                nulls,
                *is_sorted,
            )?;
            Arc::new(map)
        }
        _ => return Err(mismatch(field)),
    })
}

fn text_or_bytes<T: ByteArrayType>(
    offsets: OffsetBuffer<T::Offset>,
    data: &mut MutableBuffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    Ok(Arc::new(GenericByteArray::<T>::try_new(
        offsets,
        take_buffer(data),
        nulls,
    )?))
}

/// An array of fixed-size values from their bytes.
fn plain(
    out: &mut MutableBuffer,
    len: usize,
    data_type: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let data = ArrayData::builder(data_type.clone())
        .len(len)
        .nulls(nulls)
        .add_buffer(take_buffer(out))
        .build()?;
    Ok(make_array(data))
}

/// Takes the bytes. The next batch is likely to be of the same size, so that its buffer need not grow step by step.
fn take_buffer(data: &mut MutableBuffer) -> Buffer {
    let next = MutableBuffer::new(data.len());
    replace(data, next).into()
}

fn take_vec<T>(values: &mut Vec<T>) -> Vec<T> {
    let next = Vec::with_capacity(values.len());
    replace(values, next)
}

fn take_offsets<O: OffsetSizeTrait>(offsets: &mut Vec<O>) -> OffsetBuffer<O> {
    let mut next = Vec::with_capacity(offsets.len());
    next.push(O::default());
    OffsetBuffer::new(replace(offsets, next).into())
}

/// Bits from bytes that are 0 or 1, eight at a time.
fn pack(flags: &[u8]) -> BooleanBuffer {
    let mut bits = Vec::with_capacity(flags.len().div_ceil(8));
    let (chunks, rest) = flags.as_chunks::<8>();
    for chunk in chunks {
        // The multiplication moves the lowest bit of byte i to bit 56 + i; no two terms meet.
        let [.., high] = u64::from_le_bytes(*chunk)
            .wrapping_mul(0x0102_0408_1020_4080)
            .to_le_bytes();
        bits.push(high);
    }
    if !rest.is_empty() {
        let last = rest.iter().enumerate();
        bits.push(last.fold(0, |bits, (place, flag)| bits | flag << place));
    }
    BooleanBuffer::new(Buffer::from_vec(bits), 0, flags.len())
}

fn mismatch(field: &Field) -> crate::Error {
    let name = crate::arrow_name::arrow_name(field.data_type());
    crate::Error::unsupported(
        format!("column `{}`", field.name()),
        format!("its values are not held by {name}"),
    )
}
