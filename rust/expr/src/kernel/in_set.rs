//! Membership in the literals of an `IN` list.

use std::{collections::HashSet, sync::Arc};

use arrow_array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, BooleanArray, PrimitiveArray,
    cast::AsArray, downcast_primitive_array, new_empty_array,
};
use arrow_buffer::BooleanBuffer;
use arrow_ord::sort::sort;
use arrow_schema::{ArrowError, DataType};
use arrow_select::concat::concat;

use super::{
    compare::{collect, compare},
    value::{Value, internal},
};
use crate::{
    error::{Error, Result},
    expr::CompareOp,
};

/// Up to this many values are compared with all rows one after the other: vectorised comparisons beat a lookup per row.
const FEW_VALUES: usize = 4;

/// The distinct values of a list, ready to look up.
#[derive(Debug, Clone)]
pub(crate) struct InSet {
    /// Of the operand's type, sorted.
    values: ArrayRef,
    /// Hashes of strings and binary values; `None` for other types.
    bytes: Option<Arc<HashSet<Box<[u8]>>>>,
    /// The list holds null: a row that is not found is null instead of false.
    has_null: bool,
}

impl InSet {
    /// A set of the values of all arrays; none of them is null.
    pub(crate) fn new(
        data_type: &DataType,
        values: &[ArrayRef],
        has_null: bool,
    ) -> Result<Self, ArrowError> {
        let values = if values.is_empty() {
            new_empty_array(data_type)
        } else {
            let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
            sort(&concat(&values)?, None)?
        };
        let bytes =
            byte_values(&values).map(|all| Arc::new(all.flatten().map(Box::from).collect()));
        Ok(Self {
            values,
            bytes,
            has_null,
        })
    }

    /// The values, sorted, repeats possible.
    pub(crate) fn values(&self) -> &ArrayRef {
        &self.values
    }

    pub(crate) fn has_null(&self) -> bool {
        self.has_null
    }

    /// Whether each value is in the list: true, false, or null if unknown.
    pub(crate) fn contains(&self, array: &ArrayRef) -> Result<BooleanArray> {
        let found = self.lookup(array)?;
        let nulls = array.logical_nulls();
        if !self.has_null {
            return Ok(BooleanArray::new(found, nulls));
        }
        // The list holds null, so only rows that were found have an answer.
        let known = match nulls {
            Some(nulls) => &found & nulls.inner(),
            None => found.clone(),
        };
        Ok(BooleanArray::new(found, Some(known.into())))
    }

    fn lookup(&self, array: &ArrayRef) -> Result<BooleanBuffer> {
        if self.values.is_empty() {
            return Ok(BooleanBuffer::new_unset(array.len()));
        }
        let floating = array.data_type().is_floating();
        if self.values.len() <= FEW_VALUES || *array.data_type() == DataType::Boolean {
            return self.compare_each(array);
        }
        if let Some(set) = &self.bytes {
            return byte_values(array)
                .map(|rows| {
                    rows.map(|row| row.is_some_and(|bytes| set.contains(bytes)))
                        .collect()
                })
                .ok_or_else(|| Error::mismatch(array.data_type(), self.values.data_type(), "IN"));
        }
        if floating {
            return self.lookup_float(array);
        }
        downcast_primitive_array!(
            array => sorted(array, &self.values, |value| value),
            _ => self.compare_each(array)
        )
    }

    fn compare_each(&self, array: &ArrayRef) -> Result<BooleanBuffer> {
        let rows = Value::array(Arc::clone(array));
        let mut found = BooleanBuffer::new_unset(array.len());
        for position in 0..self.values.len() {
            let one = Value::scalar(self.values.slice(position, 1));
            found = &found | compare(CompareOp::Eq, &rows, &one)?.values();
        }
        Ok(found)
    }

    /// Arrow sorts floats by their bits, so -0.0 is replaced by 0.0 and every NaN by one NaN before the lookup.
    fn lookup_float(&self, array: &ArrayRef) -> Result<BooleanBuffer> {
        use arrow_array::types::{Float32Type, Float64Type};
        if let Some(rows) = array.as_primitive_opt::<Float32Type>() {
            let canon = |v: f32| if v.is_nan() { f32::NAN } else { v + 0.0 };
            let values = self
                .values
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(canon);
            let values = sort(&values, None).map_err(internal)?;
            return sorted(rows, &values, canon);
        }
        let rows = array
            .as_primitive_opt::<Float64Type>()
            .ok_or_else(|| Error::mismatch(array.data_type(), self.values.data_type(), "IN"))?;
        let canon = |v: f64| if v.is_nan() { f64::NAN } else { v + 0.0 };
        let values = self
            .values
            .as_primitive::<Float64Type>()
            .unary::<_, Float64Type>(canon);
        let values = sort(&values, None).map_err(internal)?;
        sorted(rows, &values, canon)
    }
}

fn sorted<T: ArrowPrimitiveType>(
    rows: &PrimitiveArray<T>,
    values: &ArrayRef,
    canon: impl Fn(T::Native) -> T::Native,
) -> Result<BooleanBuffer> {
    let values = values
        .as_primitive_opt::<T>()
        .ok_or_else(|| Error::mismatch(rows.data_type(), values.data_type(), "IN"))?
        .values();
    Ok(collect(rows.values(), |row| {
        let row = canon(row);
        values.binary_search_by(|value| value.compare(row)).is_ok()
    }))
}

/// The bytes of each row of a string or binary array; `None` for other types.
fn byte_values(array: &ArrayRef) -> Option<Box<dyn Iterator<Item = Option<&[u8]>> + '_>> {
    fn text(value: Option<&str>) -> Option<&[u8]> {
        value.map(str::as_bytes)
    }
    Some(match array.data_type() {
        DataType::Utf8 => Box::new(array.as_string::<i32>().iter().map(text)),
        DataType::LargeUtf8 => Box::new(array.as_string::<i64>().iter().map(text)),
        DataType::Utf8View => Box::new(array.as_string_view().iter().map(text)),
        DataType::Binary => Box::new(array.as_binary::<i32>().iter()),
        DataType::LargeBinary => Box::new(array.as_binary::<i64>().iter()),
        DataType::BinaryView => Box::new(array.as_binary_view().iter()),
        _ => return None,
    })
}
