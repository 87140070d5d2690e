//! Functions of any number of arguments, each of them one value per row or one value for all rows.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, UInt64Array, cast::AsArray, new_null_array, types::*,
};
use arrow_cast::cast;
use arrow_schema::DataType;
use arrow_select::{nullif::nullif, take::take};

use super::{
    call::{Call, Integers},
    compare::compare,
    round, text_function, time_function,
    value::{Value, internal},
};
use crate::{
    error::{Error, Result},
    expr::CompareOp,
    function::Function,
    lists::Lists,
    types::unpacked_type,
};

impl Call<'_> {
    /// The result, one value per row; binding fixed the types of the arguments.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a broken pattern; [`Error::Overflow`] for a result out of range; [`Error::Limit`] for too
    /// much text.
    pub(crate) fn evaluate(&self, arguments: &[Value]) -> Result<ArrayRef> {
        let argument = |position: usize| arguments.get(position).ok_or_else(|| self.wrong());
        // The argument that a value is computed of; the others may stand for all rows.
        let first = |position: usize| argument(position)?.clone().into_array(self.rows);
        match self.function {
            Function::Append
            | Function::Concat
            | Function::Substring
            | Function::Trim
            | Function::LTrim
            | Function::RTrim
            | Function::Replace
            | Function::Position
            | Function::RegexpMatches
            | Function::SimilarTo => text_function::evaluate(self, arguments),
            Function::Round | Function::Floor | Function::Ceil | Function::Trunc => {
                let digits = arguments.get(1);
                let digits = digits.map(|digits| Integers::of(digits, self.text));
                round::evaluate(self, &first(0)?, digits.transpose()?.as_ref())
            }
            Function::IsNan => self.floats(&first(0)?, f64::is_nan),
            Function::IsFinite => self.floats(&first(0)?, f64::is_finite),
            Function::IsInf => self.floats(&first(0)?, f64::is_infinite),
            Function::DateTrunc => time_function::truncate(self, &argument(0)?.array, &first(1)?),
            Function::DatePart => time_function::part(self, &argument(0)?.array, &first(1)?),
            Function::Length => self.lengths(&first(0)?),
            Function::ListContains => self.list_contains(&first(0)?, argument(1)?),
            Function::Element | Function::Item => {
                let of = first(0)?;
                match of.data_type() {
                    DataType::Map(..) => self.map_value(&of, argument(1)?),
                    DataType::Struct(_) => self.member(&of, argument(1)?),
                    _ => self.list_item(&of, argument(1)?),
                }
            }
            _ => Err(self.wrong()),
        }
    }

    fn wrong(&self) -> Error {
        Error::invalid(self.text, "it takes other arguments")
    }

    fn floats(&self, array: &ArrayRef, test: impl Fn(f64) -> bool) -> Result<ArrayRef> {
        let values = array.as_primitive_opt::<Float64Type>();
        let values = values.ok_or_else(|| self.wrong())?;
        Ok(Arc::new(BooleanArray::from_unary(values, test)))
    }

    fn read(&self, array: &ArrayRef) -> Result<Lists> {
        Lists::read(array, array.nulls().cloned())
            .map_err(|error| Error::invalid(self.text, error.to_string()))
    }

    /// The number of items of each list.
    fn lengths(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let lists = self.read(array)?;
        let size = |row: usize| i64::try_from(lists.size(row)).ok();
        let lengths = (0..array.len()).map(|row| array.is_valid(row).then(|| size(row))?);
        Ok(Arc::new(lengths.collect::<Int64Array>()))
    }

    /// Which items (of a map: which keys) equal the value of their row.
    fn equal_items(&self, lists: &Lists, value: &Value) -> Result<BooleanArray> {
        let keys = match lists.items.as_struct_opt() {
            Some(entries) => entries.columns().first().map(Arc::clone),
            None => Some(Arc::clone(&lists.items)),
        };
        let mut items = keys.ok_or_else(|| self.wrong())?;
        let value_type = unpacked_type(items.data_type()).clone();
        if *items.data_type() != value_type {
            items = cast(&items, &value_type).map_err(internal)?;
        }
        if value.is_scalar {
            return compare(CompareOp::Eq, &Value::array(items), value);
        }
        if value_type.is_primitive() {
            let rows = (0..self.rows)
                .flat_map(|row| std::iter::repeat_n(row as u64, lists.size(row)))
                .collect::<Vec<_>>();
            let repeated = take(&value.array, &UInt64Array::from(rows), None).map_err(internal)?;
            return compare(CompareOp::Eq, &Value::array(items), &Value::array(repeated));
        }
        // A value for each item would take the length of the text times the number of items: compare list by list.
        let mut equal = Vec::with_capacity(items.len());
        for row in 0..self.rows {
            let start = lists.starts.get(row).copied().unwrap_or(0);
            let own = items.slice(start, lists.size(row));
            let value = Value::scalar(value.array.slice(row, 1));
            equal.extend(&compare(CompareOp::Eq, &Value::array(own), &value)?);
        }
        Ok(BooleanArray::from(equal))
    }

    fn list_contains(&self, array: &ArrayRef, value: &Value) -> Result<ArrayRef> {
        let lists = self.read(array)?;
        let equal = self.equal_items(&lists, value)?;
        let is_true = |item: usize| equal.is_valid(item) && equal.value(item);
        let has_value = |row: usize| value.array.is_valid(if value.is_scalar { 0 } else { row });
        let found = (0..array.len()).map(|row| {
            let start = lists.starts.get(row).copied().unwrap_or(0);
            let mut own = start..start + lists.size(row);
            (array.is_valid(row) && has_value(row)).then(|| own.any(is_true))
        });
        Ok(Arc::new(found.collect::<BooleanArray>()))
    }

    /// The value of a key in each map.
    fn map_value(&self, array: &ArrayRef, key: &Value) -> Result<ArrayRef> {
        let lists = self.read(array)?;
        let equal = self.equal_items(&lists, key)?;
        let is_true = |item: &usize| equal.is_valid(*item) && equal.value(*item);
        let positions: UInt64Array = (0..array.len())
            .map(|row| {
                let start = lists.starts.get(row).copied()?;
                let item = (start..start + lists.size(row)).find(is_true)?;
                Some(item as u64)
            })
            .collect();
        let entries = lists.items.as_struct_opt();
        let values = entries.and_then(|entries| entries.columns().get(1));
        let values = values.ok_or_else(|| self.wrong())?;
        take(values, &positions, None).map_err(internal)
    }

    /// A member of each struct; null where the struct is.
    fn member(&self, array: &ArrayRef, name: &Value) -> Result<ArrayRef> {
        let name = name.array.as_string_opt::<i64>();
        let name = name.filter(|name| name.len() == 1 && name.is_valid(0));
        let member = name.and_then(|name| array.as_struct_opt()?.column_by_name(name.value(0)));
        let member = member.ok_or_else(|| self.wrong())?;
        if *member.data_type() == DataType::Null {
            return Ok(Arc::clone(member));
        }
        let is_null = (0..array.len()).map(|row| Some(array.is_null(row)));
        nullif(member, &is_null.collect::<BooleanArray>()).map_err(internal)
    }

    /// The item of each list at a position, or from the end; null beyond the list.
    fn list_item(&self, array: &ArrayRef, position: &Value) -> Result<ArrayRef> {
        let lists = self.read(array)?;
        let wanted = Integers::of(position, self.text)?;
        let positions: UInt64Array = (0..array.len())
            .map(|row| {
                let size = i64::try_from(lists.size(row)).ok()?;
                let item = match (self.function, wanted.at(row)?) {
                    (Function::Element, 0) => return None,
                    (Function::Element, from_start @ 1..) => from_start - 1,
                    (_, from_start @ 0..) => from_start,
                    (_, from_end) => size.checked_add(from_end)?,
                };
                let start = u64::try_from(lists.starts.get(row).copied()?).ok()?;
                let item = u64::try_from(item).ok().filter(|_| item < size)?;
                Some(start + item)
            })
            .collect();
        if lists.items.is_empty() {
            return Ok(new_null_array(self.data_type, array.len()));
        }
        take(&lists.items, &positions, None).map_err(internal)
    }
}
