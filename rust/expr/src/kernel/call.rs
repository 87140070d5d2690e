//! A call of a function of any number of arguments, as the kernels of its kinds take it.

use arrow_array::{Array, Int64Array, cast::AsArray, types::Int64Type};
use arrow_schema::DataType;

use super::value::Value;
use crate::{
    error::{Error, Result},
    function::Function,
};

/// One call: the function, the type of its result, and its text for messages.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) function: Function,
    pub(crate) rows: usize,
    pub(crate) data_type: &'a DataType,
    pub(crate) text: &'a str,
}

/// Integers, one per row or one for all rows.
pub(super) struct Integers<'a> {
    array: &'a Int64Array,
    is_scalar: bool,
}

impl<'a> Integers<'a> {
    /// The argument, which binding made an `int64`.
    pub(super) fn of(value: &'a Value, text: &str) -> Result<Self> {
        let array = value.array.as_primitive_opt::<Int64Type>();
        Ok(Self {
            array: array.ok_or_else(|| Error::invalid(text, "it takes integers"))?,
            is_scalar: value.is_scalar,
        })
    }

    pub(super) fn at(&self, row: usize) -> Option<i64> {
        let row = if self.is_scalar { 0 } else { row };
        self.array.is_valid(row).then(|| self.array.value(row))
    }
}
