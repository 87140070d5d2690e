//! Evaluates a bound expression on a batch, one kernel call per node.

use std::sync::Arc;

use arrow_arith::boolean::{and_kleene, is_null, not, or_kleene};
use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, StructArray, cast::AsArray, new_null_array,
};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;
use arrow_select::{
    filter::{filter_record_batch, prep_null_mask_filter},
    interleave::interleave,
    nullif::nullif,
    take::take,
};

use crate::{
    bound::{Bound, BoundExpr, Typed},
    error::{Error, Result},
    expr::ArithmeticOp,
    function::Function,
    kernel::{
        arithmetic,
        call::Call,
        cast,
        compare::{compare, int_float},
        function,
        pattern::{matches, patterns},
        value::{Value, internal},
    },
    path::ColumnPath,
};

/// The value of the expression for each row of the batch.
///
/// Comparisons are SQL's: null makes null, `AND` and `OR` by Kleene's logic. Floats are ordered as in DuckDB: all NaN are
/// equal and greater than everything else, and -0.0 equals 0.0. Division by zero is infinite or NaN in `/` and in the
/// remainder of floats, null in `//` and in the remainder of others. A result out of the range of its
/// type is [`Error::Overflow`].
///
/// # Errors
/// [`Error::Overflow`]; [`Error::InvalidInput`] for a value that cannot be converted, and for a batch without a needed column;
/// [`Error::TypeMismatch`] if a column has another type than when it was bound.
pub fn evaluate(expr: &BoundExpr, batch: &RecordBatch) -> Result<ArrayRef> {
    eval(&expr.root, batch)?.into_array(batch.num_rows())
}

/// Which rows match: only `true` keeps a row, so the mask has no nulls.
///
/// # Errors
/// As [`evaluate`]; also [`Error::TypeMismatch`] if the expression is not a condition.
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

/// The value of one node on every row of the batch.
///
/// # Errors
/// As [`evaluate`].
pub(crate) fn eval(typed: &Typed, batch: &RecordBatch) -> Result<Value> {
    match &typed.node {
        Bound::Column(path) => column(path, &typed.data_type, batch).map(Value::array),
        Bound::Literal(_, array) => Ok(Value::scalar(Arc::clone(array))),
        Bound::Function(function, arguments, text) => {
            functions(*function, arguments, text, typed, batch)
        }
        Bound::And(terms) => chain(terms, batch, true),
        Bound::Or(terms) => chain(terms, batch, false),
        Bound::Case(branches, otherwise) => {
            case(branches, otherwise.as_deref(), &typed.data_type, batch).map(Value::array)
        }
        Bound::Compare(_, left, right)
        | Bound::CompareIntFloat(_, left, right)
        | Bound::Match(_, left, right)
        | Bound::Arithmetic(_, left, right, _)
        | Bound::Quotient(left, right, _) => {
            let (left, right) = (eval(left, batch)?, eval(right, batch)?);
            binary(typed, &left, &right, batch.num_rows())
        }
        Bound::IfValid(_, operand)
        | Bound::Not(operand)
        | Bound::In(operand, _)
        | Bound::IsNull(operand)
        | Bound::Pattern(operand, ..)
        | Bound::Negate(operand, _)
        | Bound::Cast(operand, _)
        | Bound::TryCast(operand, _)
        | Bound::Nanos(operand)
        | Bound::Call(_, operand, _) => unary(typed, &eval(operand, batch)?),
    }
}

/// A function of several arguments; of literals alone it is evaluated once.
fn functions(
    function: Function,
    arguments: &[Typed],
    text: &str,
    typed: &Typed,
    batch: &RecordBatch,
) -> Result<Value> {
    let values = arguments
        .iter()
        .map(|argument| eval(argument, batch))
        .collect::<Result<Vec<_>>>()?;
    let is_scalar = values.iter().all(|value| value.is_scalar);
    let rows = if is_scalar { 1 } else { batch.num_rows() };
    let call = Call {
        function,
        rows,
        data_type: &typed.data_type,
        text,
    };
    let array = call.evaluate(&values)?;
    Ok(Value { array, is_scalar })
}

/// A node of two operands, given their values.
fn binary(typed: &Typed, left: &Value, right: &Value, num_rows: usize) -> Result<Value> {
    let arithmetic = |op: ArithmeticOp, text: &str| {
        arithmetic::arithmetic(op, left, right)
            .map_err(|error| Error::kernel(&error, text, &typed.data_type))
    };
    match &typed.node {
        Bound::Compare(op, ..) if right.is_scalar => {
            per_value(left, |left| compare(*op, left, right))
        }
        Bound::Compare(op, ..) => {
            compare(*op, left, right).map(|mask| joint(left, right, Arc::new(mask)))
        }
        Bound::CompareIntFloat(op, ..) => {
            let int = left.clone().into_array(num_rows)?;
            let float = right.clone().into_array(num_rows)?;
            int_float(*op, &int, &float).map(|mask| Value::array(Arc::new(mask)))
        }
        Bound::Match(kind, ..) if right.is_scalar => {
            per_value(left, |text| matches(*kind, text, right))
        }
        Bound::Match(kind, ..) => {
            matches(*kind, left, right).map(|mask| joint(left, right, Arc::new(mask)))
        }
        Bound::Arithmetic(op, _, _, text) => {
            arithmetic(*op, text).map(|result| joint(left, right, result))
        }
        Bound::Quotient(_, _, text) => {
            let result = arithmetic(ArithmeticOp::IntegerDivide, text)?;
            // The quotient by zero is null: more nulls than the operands have show a zero.
            if result.null_count() > arithmetic::num_null_pairs(left, right) {
                return Err(Error::invalid(
                    text,
                    "an integer is divided by zero; `//` is null there, and CASE can leave such rows out",
                ));
            }
            Ok(joint(left, right, result))
        }
        _ => Err(not_of_this_arity()),
    }
}

/// A node of one operand, given its value.
fn unary(typed: &Typed, operand: &Value) -> Result<Value> {
    let array = &operand.array;
    let result: ArrayRef = match &typed.node {
        Bound::IfValid(truth, _) => {
            let constant = if *truth {
                BooleanBuffer::new_set(array.len())
            } else {
                BooleanBuffer::new_unset(array.len())
            };
            Arc::new(BooleanArray::new(constant, array.logical_nulls()))
        }
        Bound::Not(_) => Arc::new(not(as_boolean(array)?).map_err(internal)?),
        Bound::In(_, set) => return per_value(operand, |values| set.contains(&values.array)),
        Bound::IsNull(_) => Arc::new(is_null(array.as_ref()).map_err(internal)?),
        Bound::Pattern(_, escape, text) => patterns(array, *escape, text)?,
        Bound::Negate(_, text) => arrow_arith::numeric::neg(array.as_ref())
            .map_err(|error| Error::kernel(&error, text, &typed.data_type))?,
        Bound::Cast(_, text) => cast::convert(array, &typed.data_type, text)?,
        Bound::TryCast(_, text) => cast::try_convert(array, &typed.data_type, text)?,
        Bound::Nanos(_) => cast::nanos(array)?,
        Bound::Call(function, _, text) => function::call(*function, array, text)?,
        _ => return Err(not_of_this_arity()),
    };
    Ok(operand.with(result))
}

/// [`eval`] sends each node to the function of its number of operands, so nobody sees this error.
fn not_of_this_arity() -> Error {
    Error::unsupported("a node with this number of operands")
}

/// A result that stands for all rows only if both operands do.
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
    // A slice of a few rows may refer to a large dictionary: then evaluate per row.
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

/// `CASE`: each arm is evaluated only on the rows that reach it, so that it cannot fail on a row that an earlier arm took.
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
