//! Operands of kernels.

use arrow_array::{Array, ArrayRef, Datum, UInt32Array, new_null_array};
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;

use crate::error::{Error, Result};

/// Operand of a kernel: one value per row, or one value that stands for every row.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) array: ArrayRef,
    pub(crate) is_scalar: bool,
}

impl Datum for Value {
    fn get(&self) -> (&dyn Array, bool) {
        (self.array.as_ref(), self.is_scalar)
    }
}

impl Value {
    pub(crate) fn array(array: ArrayRef) -> Self {
        Self {
            array,
            is_scalar: false,
        }
    }

    pub(crate) fn scalar(array: ArrayRef) -> Self {
        Self {
            array,
            is_scalar: true,
        }
    }

    /// Other values that stand for the same rows.
    pub(crate) fn with(&self, array: ArrayRef) -> Self {
        Self {
            array,
            is_scalar: self.is_scalar,
        }
    }

    /// One value per row.
    pub(crate) fn into_array(self, num_rows: usize) -> Result<ArrayRef> {
        if !self.is_scalar {
            return Ok(self.array);
        }
        if num_rows == 1 {
            return Ok(self.array);
        }
        if self.array.is_null(0) || *self.array.data_type() == DataType::Null {
            return Ok(new_null_array(self.array.data_type(), num_rows));
        }
        let first = UInt32Array::from_value(0, num_rows);
        take(&self.array, &first, None).map_err(internal)
    }
}

/// Reports a kernel that failed although binding checked its operands: only sizes can still be wrong.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err asks for"
)]
pub(crate) fn internal(error: ArrowError) -> Error {
    Error::invalid("evaluation", error.to_string())
}
