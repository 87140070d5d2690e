//! Values of a bound expression on a batch, by arrow's kernels.

mod arithmetic;
mod compare;
mod function;
mod in_set;
mod prefix;
mod zone;

use std::sync::Arc;

use arrow_arith::boolean::{and_kleene, is_null, not, or_kleene};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Datum, LargeStringArray, RecordBatch, StringArray,
    StringViewArray, StructArray, UInt32Array, cast::AsArray, new_null_array,
};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, DataType};
use arrow_select::{
    filter::{filter_record_batch, prep_null_mask_filter},
    interleave::interleave,
    nullif::nullif,
    take::take,
};
use arrow_string::like;

use crate::{
    ArithmeticOp, BoundExpr, ColumnPath, Error, Result,
    bind::kernel_pattern,
    bound::{Bound, Match, Typed},
};

pub(crate) use arithmetic::{arithmetic_kernel, foreign_zone};
pub(crate) use compare::compare;
pub(crate) use in_set::InSet;
pub(crate) use zone::is_known_zone;

/// Values of one node: of every row, or one that stands for all of them.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    array: ArrayRef,
    is_scalar: bool,
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

    /// The same kind (all rows, or one for all) with other values.
    fn with(&self, array: ArrayRef) -> Self {
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

/// Errors of kernels whose operands were checked when bound: only sizes can still go wrong.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err asks for"
)]
fn internal(error: ArrowError) -> Error {
    Error::invalid("evaluation", error.to_string())
}

/// The value of the expression for each row of the batch.
///
/// Comparisons are SQL's: null makes null, `AND` and `OR` by Kleene's logic. Floats are ordered as in DuckDB: all NaN are
/// equal and greater than everything else, and -0.0 equals 0.0. Division by zero is infinite or NaN in `/` and in the
/// remainder of floats, null in `//` and in the remainder of others. A result out of the range of its
/// type is [`Error::Overflow`].
pub fn evaluate(expr: &BoundExpr, batch: &RecordBatch) -> Result<ArrayRef> {
    eval(&expr.root, batch)?.into_array(batch.num_rows())
}

/// Which rows match: only `true` keeps a row, so the mask has no nulls.
pub fn filter_mask(expr: &BoundExpr, batch: &RecordBatch) -> Result<BooleanArray> {
    if *expr.data_type() != DataType::Boolean && *expr.data_type() != DataType::Null {
        return Err(Error::mismatch(
            expr.data_type(),
            &DataType::Boolean,
            "a filter",
        ));
    }
    mask(&expr.root, batch)
}

fn mask(typed: &Typed, batch: &RecordBatch) -> Result<BooleanArray> {
    if typed.data_type == DataType::Null {
        return Ok(BooleanArray::new(
            BooleanBuffer::new_unset(batch.num_rows()),
            None,
        ));
    }
    let mask = boolean(typed, batch)?;
    Ok(if mask.null_count() > 0 {
        prep_null_mask_filter(&mask)
    } else {
        mask
    })
}

fn boolean(typed: &Typed, batch: &RecordBatch) -> Result<BooleanArray> {
    let array = eval(typed, batch)?.into_array(batch.num_rows())?;
    as_boolean(&array).cloned()
}

fn as_boolean(array: &ArrayRef) -> Result<&BooleanArray> {
    array
        .as_boolean_opt()
        .ok_or_else(|| Error::mismatch(array.data_type(), &DataType::Boolean, "a condition"))
}

pub(crate) fn eval(typed: &Typed, batch: &RecordBatch) -> Result<Value> {
    match &typed.node {
        Bound::Column(path) => column(path, &typed.data_type, batch).map(Value::array),
        Bound::Literal(_, array) => Ok(Value::scalar(Arc::clone(array))),
        Bound::Compare(op, left, right) => {
            let (left, right) = (eval(left, batch)?, eval(right, batch)?);
            if right.is_scalar {
                per_value(&left, |left| compare(*op, left, &right))
            } else {
                let mask = compare(*op, &left, &right)?;
                Ok(joint(&left, &right, Arc::new(mask)))
            }
        }
        Bound::CompareIntFloat(op, int, float) => {
            let (int, float) = (eval(int, batch)?, eval(float, batch)?);
            let rows = batch.num_rows();
            let (int, float) = (int.into_array(rows)?, float.into_array(rows)?);
            compare::int_float(*op, &int, &float).map(|mask| Value::array(Arc::new(mask)))
        }
        Bound::IfValid(truth, operand) => {
            let operand = eval(operand, batch)?;
            let nulls = operand.array.logical_nulls();
            let constant = if *truth {
                BooleanBuffer::new_set(operand.array.len())
            } else {
                BooleanBuffer::new_unset(operand.array.len())
            };
            Ok(operand.with(Arc::new(BooleanArray::new(constant, nulls))))
        }
        Bound::And(terms) => chain(terms, batch, true),
        Bound::Or(terms) => chain(terms, batch, false),
        Bound::Not(inner) => {
            let inner = eval(inner, batch)?;
            let negated = not(as_boolean(&inner.array)?).map_err(internal)?;
            Ok(inner.with(Arc::new(negated)))
        }
        Bound::In(operand, set) => {
            let operand = eval(operand, batch)?;
            per_value(&operand, |values| set.contains(&values.array))
        }
        Bound::IsNull(operand) => {
            let operand = eval(operand, batch)?;
            let nulls = is_null(operand.array.as_ref()).map_err(internal)?;
            Ok(operand.with(Arc::new(nulls)))
        }
        Bound::Match(kind, text, needle) => {
            let (text, needle) = (eval(text, batch)?, eval(needle, batch)?);
            let kernel = |text: &Value| matches(*kind, text, &needle);
            if needle.is_scalar {
                per_value(&text, kernel)
            } else {
                kernel(&text).map(|mask| joint(&text, &needle, Arc::new(mask)))
            }
        }
        Bound::Arithmetic(op, left, right, text) => {
            let (left, right) = (eval(left, batch)?, eval(right, batch)?);
            let result = arithmetic::arithmetic(*op, &left, &right)
                .map_err(|error| Error::kernel(&error, text, &typed.data_type))?;
            Ok(joint(&left, &right, result))
        }
        Bound::Quotient(left, right, text) => {
            let (left, right) = (eval(left, batch)?, eval(right, batch)?);
            let result = arithmetic::arithmetic(ArithmeticOp::IntegerDivide, &left, &right)
                .map_err(|error| Error::kernel(&error, text, &typed.data_type))?;
            // Zeros are the nulls that neither side had.
            if result.null_count() > arithmetic::num_null_pairs(&left, &right) {
                return Err(Error::invalid(
                    text,
                    "an integer is divided by zero; `//` is null there, and CASE can leave such rows out",
                ));
            }
            Ok(joint(&left, &right, result))
        }
        Bound::Negate(inner, text) => {
            let inner = eval(inner, batch)?;
            let result = arrow_arith::numeric::neg(inner.array.as_ref())
                .map_err(|error| Error::kernel(&error, text, &typed.data_type))?;
            Ok(inner.with(result))
        }
        Bound::Cast(inner, text) => {
            let inner = eval(inner, batch)?;
            let result = arithmetic::convert(&inner.array, &typed.data_type, text)?;
            Ok(inner.with(result))
        }
        Bound::Nanos(inner) => {
            let inner = eval(inner, batch)?;
            let result = arithmetic::nanos(&inner.array)?;
            Ok(inner.with(result))
        }
        Bound::Pattern(inner, escape, text) => {
            let inner = eval(inner, batch)?;
            let result = patterns(&inner.array, *escape, text)?;
            Ok(inner.with(result))
        }
        Bound::Case(branches, otherwise) => {
            case(branches, otherwise.as_deref(), &typed.data_type, batch).map(Value::array)
        }
        Bound::Call(function, argument, text) => {
            let argument = eval(argument, batch)?;
            let result = function::call(*function, &argument.array, text)?;
            Ok(argument.with(result))
        }
    }
}

/// The result of two operands: one for all rows only if both are.
fn joint(left: &Value, right: &Value, array: ArrayRef) -> Value {
    Value {
        array,
        is_scalar: left.is_scalar && right.is_scalar,
    }
}

/// Evaluates a predicate of one operand; of a dictionary once per value instead of once per row.
fn per_value(operand: &Value, predicate: impl Fn(&Value) -> Result<BooleanArray>) -> Result<Value> {
    let Some(dictionary) = operand.array.as_any_dictionary_opt() else {
        return predicate(operand).map(|mask| operand.with(Arc::new(mask)));
    };
    // A small slice may carry a large dictionary.
    if dictionary.values().len() > dictionary.len() {
        let values = take(dictionary.values(), dictionary.keys(), None).map_err(internal)?;
        return predicate(&Value::array(values)).map(|mask| operand.with(Arc::new(mask)));
    }
    let per_value = predicate(&Value::array(Arc::clone(dictionary.values())))?;
    let mask = take(&per_value, dictionary.keys(), None).map_err(internal)?;
    Ok(operand.with(mask))
}

/// `AND` or `OR` of terms; stops when the answer is decided for all rows.
fn chain(terms: &[Typed], batch: &RecordBatch, is_and: bool) -> Result<Value> {
    let mut so_far: Option<BooleanArray> = None;
    for term in terms {
        let next = boolean(term, batch)?;
        let joined = match so_far {
            None => next,
            Some(before) if is_and => and_kleene(&before, &next).map_err(internal)?,
            Some(before) => or_kleene(&before, &next).map_err(internal)?,
        };
        let decided = if is_and {
            joined.false_count()
        } else {
            joined.true_count()
        };
        let done = decided == joined.len();
        so_far = Some(joined);
        if done {
            break;
        }
    }
    let all = so_far.unwrap_or_else(|| BooleanArray::from(vec![is_and; batch.num_rows()]));
    Ok(Value::array(Arc::new(all)))
}

fn matches(kind: Match, text: &Value, needle: &Value) -> Result<BooleanArray> {
    if kind == Match::StartsWith
        && needle.is_scalar
        && let Some(mask) = prefix::starts_with(&text.array, &needle.array)
    {
        return Ok(mask);
    }
    match kind {
        Match::StartsWith => like::starts_with(text, needle),
        Match::EndsWith => like::ends_with(text, needle),
        Match::Contains => like::contains(text, needle),
        Match::Like => like::like(text, needle),
        Match::ILike => like::ilike(text, needle),
    }
    .map_err(internal)
}

/// Patterns as the kernels read them.
fn patterns(array: &ArrayRef, escape: Option<char>, text: &str) -> Result<ArrayRef> {
    let rewritten = |pattern: Option<&str>| {
        pattern
            .map(|pattern| kernel_pattern(pattern, escape, text))
            .transpose()
    };
    Ok(match array.data_type() {
        DataType::Utf8 => {
            let patterns = array.as_string::<i32>().iter().map(rewritten);
            Arc::new(patterns.collect::<Result<StringArray>>()?)
        }
        DataType::LargeUtf8 => {
            let patterns = array.as_string::<i64>().iter().map(rewritten);
            Arc::new(patterns.collect::<Result<LargeStringArray>>()?)
        }
        DataType::Utf8View => {
            let patterns = array.as_string_view().iter().map(rewritten);
            Arc::new(patterns.collect::<Result<StringViewArray>>()?)
        }
        other => return Err(Error::mismatch(other, &DataType::Utf8, text)),
    })
}

/// A column by its path; a field of a struct is null where the struct is.
fn column(path: &ColumnPath, data_type: &DataType, batch: &RecordBatch) -> Result<ArrayRef> {
    let missing = || {
        Error::invalid(
            path,
            "the batch lacks this column, which the expression was bound to",
        )
    };
    let mut names = path.names().iter();
    let root = names.next().ok_or_else(missing)?;
    let mut array = Arc::clone(batch.column_by_name(root).ok_or_else(missing)?);
    for name in names {
        let outer: &StructArray = array.as_struct_opt().ok_or_else(missing)?;
        let inner = outer.column_by_name(name).ok_or_else(missing)?;
        array = match outer.nulls() {
            Some(nulls) if nulls.null_count() > 0 && *inner.data_type() != DataType::Null => {
                nullif(inner, &BooleanArray::new(!nulls.inner(), None)).map_err(internal)?
            }
            _ => Arc::clone(inner),
        };
    }
    if array.data_type() != data_type {
        return Err(Error::mismatch(array.data_type(), data_type, path));
    }
    Ok(array)
}

/// `CASE`: each arm is evaluated on the rows that reach it alone, so that what an earlier arm guards against cannot fail.
fn case(
    branches: &[(Typed, Typed)],
    otherwise: Option<&Typed>,
    data_type: &DataType,
    batch: &RecordBatch,
) -> Result<ArrayRef> {
    if *data_type == DataType::Null {
        return Ok(new_null_array(data_type, batch.num_rows()));
    }
    let mut arms: Vec<ArrayRef> = vec![new_null_array(data_type, 1)];
    let mut choice = vec![(0_usize, 0_usize); batch.num_rows()];
    let mut rows: Vec<usize> = (0..batch.num_rows()).collect();
    let mut remaining = batch.clone();
    for (when, then) in branches {
        if rows.is_empty() {
            break;
        }
        let taken = mask(when, &remaining)?;
        let chosen = filter_record_batch(&remaining, &taken).map_err(internal)?;
        let arm = eval(then, &chosen)?.into_array(chosen.num_rows())?;
        let (mut left, mut position) = (Vec::new(), 0);
        for (row, is_taken) in rows.iter().zip(taken.values()) {
            if !is_taken {
                left.push(*row);
            } else if let Some(slot) = choice.get_mut(*row) {
                *slot = (arms.len(), position);
                position += 1;
            }
        }
        arms.push(arm);
        remaining =
            filter_record_batch(&remaining, &not(&taken).map_err(internal)?).map_err(internal)?;
        rows = left;
    }
    if let Some(otherwise) = otherwise.filter(|_| !rows.is_empty()) {
        for (position, row) in rows.iter().enumerate() {
            if let Some(slot) = choice.get_mut(*row) {
                *slot = (arms.len(), position);
            }
        }
        arms.push(eval(otherwise, &remaining)?.into_array(remaining.num_rows())?);
    }
    let arms: Vec<&dyn Array> = arms.iter().map(AsRef::as_ref).collect();
    interleave(&arms, &choice).map_err(internal)
}
