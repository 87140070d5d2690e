//! Zone maps: minimum, maximum and null count of each page, by the rules that v1 readers prune with
//! (`docs/format.md`, section 5).
//!
//! Minimum and maximum are those of the values that are not null (a hidden slot is null). A wrong one is
//! worse than none, because readers skip pages by them.

mod min_max;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, GenericByteArray, Int64Array, PrimitiveArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};

use crate::error::Error;
use crate::types::has_statistics;
use min_max::{ByteMinMax, MinMax, bool_min_max};
use pilum_common::type_name;

/// Collects the statistics of one column, page by page.
pub struct StatisticsBuilder {
    data_type: DataType,
    null_counts: Vec<i64>,
    min_max: Box<dyn ColumnMinMax>,
    covers_nan: bool,
}

impl fmt::Debug for StatisticsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatisticsBuilder")
            .field("data_type", &self.data_type)
            .field("null_counts", &self.null_counts)
            .finish_non_exhaustive()
    }
}

impl StatisticsBuilder {
    /// For a type of which [`has_statistics`] is true.
    ///
    /// # Errors
    /// `Unsupported` for all other types.
    pub fn new(data_type: &DataType) -> Result<Self, Error> {
        if !has_statistics(data_type) {
            return Err(Error::unsupported(format!(
                "statistics of {}",
                type_name(data_type)
            )));
        }
        let min_max: Box<dyn ColumnMinMax> = match data_type {
            DataType::Boolean => Box::<Booleans>::default(),
            DataType::Int8 => Box::new(Numbers::<Int8Type>::new(data_type)),
            DataType::Int16 => Box::new(Numbers::<Int16Type>::new(data_type)),
            DataType::Int32 => Box::new(Numbers::<Int32Type>::new(data_type)),
            DataType::Int64 => Box::new(Numbers::<Int64Type>::new(data_type)),
            DataType::UInt8 => Box::new(Numbers::<UInt8Type>::new(data_type)),
            DataType::UInt16 => Box::new(Numbers::<UInt16Type>::new(data_type)),
            DataType::UInt32 => Box::new(Numbers::<UInt32Type>::new(data_type)),
            DataType::UInt64 => Box::new(Numbers::<UInt64Type>::new(data_type)),
            DataType::Float32 => Box::new(Numbers::<Float32Type>::new(data_type)),
            DataType::Float64 => Box::new(Numbers::<Float64Type>::new(data_type)),
            DataType::Date32 => Box::new(Numbers::<Date32Type>::new(data_type)),
            DataType::Date64 => Box::new(Numbers::<Date64Type>::new(data_type)),
            DataType::Decimal128(_, _) => Box::new(Numbers::<Decimal128Type>::new(data_type)),
            DataType::Decimal256(_, _) => Box::new(Numbers::<Decimal256Type>::new(data_type)),
            temporal if temporal.is_temporal() => of_time(temporal)?,
            DataType::Utf8 => Box::<Bytes<Utf8Type>>::default(),
            DataType::LargeUtf8 => Box::<Bytes<LargeUtf8Type>>::default(),
            DataType::Binary => Box::<Bytes<BinaryType>>::default(),
            DataType::LargeBinary => Box::<Bytes<LargeBinaryType>>::default(),
            other => {
                return Err(Error::unsupported(format!(
                    "statistics of {}",
                    type_name(other)
                )));
            }
        };
        Ok(Self {
            data_type: data_type.clone(),
            null_counts: Vec::new(),
            min_max,
            covers_nan: false,
        })
    }

    /// Makes the maximum of a page of floats that holds NaN +inf, so that every other maximum says that there is none.
    #[must_use]
    pub fn covering_nan(mut self) -> Self {
        self.covers_nan = true;
        self
    }

    /// Adds a page. Slots that are null, or `hidden` by a null ancestor, count as nulls; their values are
    /// not looked at.
    ///
    /// # Errors
    /// `InvalidInput` for an array of another type than the column's.
    pub fn push_page(
        &mut self,
        array: &dyn Array,
        hidden: Option<&NullBuffer>,
    ) -> Result<(), Error> {
        if *array.data_type() != self.data_type || hidden.is_some_and(|h| h.len() != array.len()) {
            return Err(Error::invalid(format!(
                "a page of {} {} for statistics of {}",
                array.len(),
                type_name(array.data_type()),
                type_name(&self.data_type)
            )));
        }
        let valid = NullBuffer::union(array.nulls(), hidden).filter(|v| v.null_count() > 0);
        let nulls = valid.as_ref().map_or(0, NullBuffer::null_count);
        self.null_counts
            .push(i64::try_from(nulls).unwrap_or(i64::MAX));
        self.min_max.push(array, valid.as_ref(), self.covers_nan);
        Ok(())
    }

    /// Null counts, minima and maxima, one per page; an unknown minimum or maximum is null.
    pub fn finish(self) -> (Int64Array, ArrayRef, ArrayRef) {
        let (min, max) = self.min_max.finish();
        (Int64Array::from(self.null_counts), min, max)
    }
}

/// Of a timestamp, a time of day or a duration.
fn of_time(data_type: &DataType) -> Result<Box<dyn ColumnMinMax>, Error> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    macro_rules! numbers {
        ($type:ty) => {
            Box::new(Numbers::<$type>::new(data_type))
        };
    }
    Ok(match data_type {
        DataType::Timestamp(Second, _) => numbers!(TimestampSecondType),
        DataType::Timestamp(Millisecond, _) => numbers!(TimestampMillisecondType),
        DataType::Timestamp(Microsecond, _) => numbers!(TimestampMicrosecondType),
        DataType::Timestamp(Nanosecond, _) => numbers!(TimestampNanosecondType),
        DataType::Time32(Second) => numbers!(Time32SecondType),
        DataType::Time32(Millisecond) => numbers!(Time32MillisecondType),
        DataType::Time64(Microsecond) => numbers!(Time64MicrosecondType),
        DataType::Time64(Nanosecond) => numbers!(Time64NanosecondType),
        DataType::Duration(Second) => numbers!(DurationSecondType),
        DataType::Duration(Millisecond) => numbers!(DurationMillisecondType),
        DataType::Duration(Microsecond) => numbers!(DurationMicrosecondType),
        DataType::Duration(Nanosecond) => numbers!(DurationNanosecondType),
        other => {
            return Err(Error::unsupported(format!(
                "statistics of {}",
                type_name(other)
            )));
        }
    })
}

/// Minima and maxima of all pages of one column.
trait ColumnMinMax: Send {
    /// Adds a page of the right type; `valid` has at least one null.
    fn push(&mut self, array: &dyn Array, valid: Option<&NullBuffer>, covers_nan: bool);
    /// Minima and maxima.
    fn finish(self: Box<Self>) -> (ArrayRef, ArrayRef);
}

struct Numbers<T: ArrowPrimitiveType> {
    data_type: DataType,
    min: Vec<T::Native>,
    max: Vec<T::Native>,
}

impl<T: ArrowPrimitiveType> Numbers<T> {
    fn new(data_type: &DataType) -> Self {
        Self {
            data_type: data_type.clone(),
            min: Vec::new(),
            max: Vec::new(),
        }
    }
}

impl<T: ArrowPrimitiveType> ColumnMinMax for Numbers<T>
where
    T::Native: MinMax,
{
    fn push(&mut self, array: &dyn Array, valid: Option<&NullBuffer>, covers_nan: bool) {
        let values = array.as_primitive::<T>().values();
        let (min, max) = T::Native::min_max(values, valid);
        let beyond = covers_nan
            .then(|| T::Native::beyond(values, valid))
            .flatten();
        self.min.push(min);
        self.max.push(beyond.unwrap_or(max));
    }

    fn finish(self: Box<Self>) -> (ArrayRef, ArrayRef) {
        let array = |values: Vec<T::Native>| -> ArrayRef {
            let array = PrimitiveArray::<T>::new(values.into(), None);
            Arc::new(array.with_data_type(self.data_type.clone()))
        };
        (array(self.min), array(self.max))
    }
}

#[derive(Default)]
struct Booleans {
    min: Vec<bool>,
    max: Vec<bool>,
}

impl ColumnMinMax for Booleans {
    fn push(&mut self, array: &dyn Array, valid: Option<&NullBuffer>, _covers_nan: bool) {
        let (min, max) = bool_min_max(array.as_boolean().values(), valid);
        self.min.push(min);
        self.max.push(max);
    }

    fn finish(self: Box<Self>) -> (ArrayRef, ArrayRef) {
        (
            Arc::new(BooleanArray::from(self.min)),
            Arc::new(BooleanArray::from(self.max)),
        )
    }
}

struct Bytes<T: ByteArrayType> {
    min: Vec<Option<Vec<u8>>>,
    max: Vec<Option<Vec<u8>>>,
    kind: PhantomData<fn() -> T>,
}

impl<T: ByteArrayType> Default for Bytes<T> {
    fn default() -> Self {
        Self {
            min: Vec::new(),
            max: Vec::new(),
            kind: PhantomData,
        }
    }
}

/// The two kinds of var-binary values: strings, which are cut at whole characters, and binaries.
trait ValueKind: ByteArrayType {
    /// Values are UTF-8 and are cut at whole characters.
    const IS_TEXT: bool;
    /// An array of values that are valid by construction.
    fn array(values: Vec<Option<Vec<u8>>>) -> ArrayRef;
}

macro_rules! value_kind {
    ($type:ty, text) => {
        impl ValueKind for $type {
            const IS_TEXT: bool = true;

            fn array(values: Vec<Option<Vec<u8>>>) -> ArrayRef {
                // Cutting and incrementing keep text valid. If they ever did not, unknown would still be right.
                let texts = values
                    .into_iter()
                    .map(|v| v.and_then(|v| String::from_utf8(v).ok()));
                Arc::new(texts.collect::<GenericByteArray<$type>>())
            }
        }
    };
    ($type:ty, bytes) => {
        impl ValueKind for $type {
            const IS_TEXT: bool = false;

            fn array(values: Vec<Option<Vec<u8>>>) -> ArrayRef {
                Arc::new(values.into_iter().collect::<GenericByteArray<$type>>())
            }
        }
    };
}
value_kind!(Utf8Type, text);
value_kind!(LargeUtf8Type, text);
value_kind!(BinaryType, bytes);
value_kind!(LargeBinaryType, bytes);

impl<T: ValueKind> ColumnMinMax for Bytes<T> {
    fn push(&mut self, array: &dyn Array, valid: Option<&NullBuffer>, _covers_nan: bool) {
        let array = array.as_bytes::<T>();
        let mut min_max = ByteMinMax::new(T::IS_TEXT);
        match valid {
            None => (0..array.len()).for_each(|row| min_max.push(array.value(row).as_ref())),
            Some(valid) => {
                valid
                    .valid_indices()
                    .for_each(|row| min_max.push(array.value(row).as_ref()));
            }
        }
        let (min, max) = min_max.finish();
        self.min.push(min);
        self.max.push(max);
    }

    fn finish(self: Box<Self>) -> (ArrayRef, ArrayRef) {
        (T::array(self.min), T::array(self.max))
    }
}
