//! The range of values of an expression, from the ranges of its columns.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Schema};

use super::statistics::ColumnStatistics;
use crate::{
    bound::{Bound, Typed},
    eval::eval,
    expr::{ArithmeticOp, CompareOp},
    function::Function,
    kernel::{compare::compare, value::Value, zone::foreign_zone},
    place::scalar_at,
    scalar::Scalar,
    types::unpacked_type,
};

/// What is known of the values of an expression.
#[derive(Debug, Clone)]
pub(super) struct Range {
    /// No value is less, NaN aside.
    pub(super) min: Option<ArrayRef>,
    /// No value is greater, NaN aside.
    pub(super) max: Option<ArrayRef>,
    pub(super) can_be_null: bool,
    pub(super) can_be_valid: bool,
    pub(super) can_be_nan: bool,
}

impl Range {
    fn unknown(typed: &Typed) -> Self {
        Self {
            min: None,
            max: None,
            // The schema may declare "not null" wrongly; only statistics of the data count.
            can_be_null: true,
            can_be_valid: true,
            can_be_nan: unpacked_type(&typed.data_type).is_floating(),
        }
    }

    /// The upper bound with NaN counted as the greatest value.
    pub(super) fn upper(&self) -> Option<ArrayRef> {
        let max = self.max.as_ref()?;
        if !self.can_be_nan {
            return Some(Arc::clone(max));
        }
        match max.data_type() {
            DataType::Float32 => Some(Arc::new(Float32Array::from_value(f32::NAN, 1))),
            DataType::Float64 => Some(Arc::new(Float64Array::from_value(f64::NAN, 1))),
            _ => None,
        }
    }

    /// Whether NaN is among the values, as one of many or as the literal itself.
    pub(super) fn may_hold_nan(&self) -> bool {
        self.can_be_nan || self.max.as_ref().is_none_or(is_nan)
    }

    pub(super) fn of(typed: &Typed, statistics: &dyn ColumnStatistics) -> Self {
        match &typed.node {
            Bound::Column(path) => {
                let nulls = statistics.null_count(path);
                let rows = statistics.row_count();
                let value_type = unpacked_type(&typed.data_type);
                // A minimum or maximum that is null, NaN or of another type is not used.
                let usable = |bound: Option<ArrayRef>| {
                    bound.filter(|bound| {
                        bound.len() == 1
                            && bound.data_type() == value_type
                            && !bound.is_null(0)
                            && holds(CompareOp::Eq, bound, bound) == Some(true)
                            && !is_nan(bound)
                    })
                };
                let (mut min, mut max) =
                    (usable(statistics.min(path)), usable(statistics.max(path)));
                if let (Some(low), Some(high)) = (&min, &max)
                    && holds(CompareOp::LtEq, low, high) != Some(true)
                {
                    (min, max) = (None, None); // minimum above maximum: the statistics are wrong, so use neither
                }
                Self {
                    min,
                    max,
                    can_be_null: nulls != Some(0),
                    can_be_valid: nulls.is_none_or(|nulls| nulls < rows),
                    can_be_nan: value_type.is_floating() && statistics.nan_possible(path),
                }
            }
            Bound::Literal(_, array) => {
                let is_null = array.logical_null_count() > 0;
                let bound = (!is_null).then(|| Arc::clone(array));
                Self {
                    min: bound.clone(),
                    max: bound,
                    can_be_null: is_null,
                    can_be_valid: !is_null,
                    can_be_nan: false,
                }
            }
            _ => match monotone(typed) {
                Some((operand, turns)) => Self::through(typed, operand, turns, statistics),
                None => Self::unknown(typed),
            },
        }
    }

    /// The range of a monotone operation: the operation applied to minimum and maximum of the operand.
    fn through(
        typed: &Typed,
        operand: &Typed,
        turns: bool,
        statistics: &dyn ColumnStatistics,
    ) -> Self {
        let inner = Self::of(operand, statistics);
        let image = |bound: &Option<ArrayRef>| {
            let image = apply(typed, operand, bound.as_ref()?)?;
            (!is_nan(&image)).then_some(image)
        };
        let (min, max) = (image(&inner.min), image(&inner.max));
        let (min, max) = if turns { (max, min) } else { (min, max) };
        // A date outside of the range of the calendar library has a null year; dates between two that have a year have one.
        let may_make_null = matches!(typed.node, Bound::Call(..) | Bound::Cast(..))
            && (min.is_none() || max.is_none());
        // NaN stays NaN in an operation on floats; a conversion to another type may make anything of NaN.
        let stays_nan = typed.data_type.is_floating();
        let can_be_null = inner.can_be_null || may_make_null || (inner.can_be_nan && !stays_nan);
        Self {
            min,
            max,
            can_be_nan: inner.can_be_nan && stays_nan,
            can_be_null,
            ..inner
        }
    }
}

/// The operand of an operation under which a greater operand never gives a lesser result, or (`true`) never a greater one.
///
/// Rounding is monotone, so floats are allowed; infinite constants and zero as a factor or divisor are not, because they
/// make NaN of numbers.
fn monotone(typed: &Typed) -> Option<(&Typed, bool)> {
    let is_number = is_exact(&typed.data_type) || typed.data_type.is_floating();
    match &typed.node {
        Bound::Cast(inner, _) if keeps_order(&inner.data_type, &typed.data_type) => {
            Some((inner, false))
        }
        Bound::Nanos(inner) => Some((inner, false)),
        Bound::Negate(inner, _) if is_number => Some((inner, true)),
        // In a zone that set its clocks back across a new year, a later instant can have an earlier year.
        Bound::Call(Function::Year, inner, _) if foreign_zone(&inner.data_type).is_none() => {
            Some((inner, false))
        }
        Bound::Arithmetic(op, left, right, _) if is_number => match op {
            ArithmeticOp::Add if is_steady(right) => Some((left, false)),
            ArithmeticOp::Add if is_steady(left) => Some((right, false)),
            ArithmeticOp::Subtract if is_steady(right) => Some((left, false)),
            ArithmeticOp::Subtract if is_steady(left) => Some((right, true)),
            ArithmeticOp::Multiply => match (is_falling(right), is_falling(left)) {
                (Some(turns), _) => Some((left, turns)),
                (None, turns) => Some((right, turns?)),
            },
            ArithmeticOp::Divide if typed.data_type.is_floating() => {
                Some((left, is_falling(right)?))
            }
            ArithmeticOp::IntegerDivide => Some((left, is_falling(right)?)),
            _ => None,
        },
        Bound::Quotient(left, right, _) => Some((left, is_falling(right)?)),
        _ => None,
    }
}

/// A constant whose addition is monotone: finite, and without months, since 30 and 31 January plus one month are the same
/// day but keep their different times of day.
fn is_steady(typed: &Typed) -> bool {
    let Bound::Literal(scalar, array) = &typed.node else {
        return false;
    };
    let is_infinite = matches!(scalar_at(array), Some(Scalar::Float(value)) if !value.is_finite());
    let counts_months = match scalar {
        Scalar::Interval { months, .. } => *months != 0,
        _ => matches!(typed.data_type, DataType::Interval(_)),
    };
    array.logical_null_count() == 0 && !is_infinite && !counts_months
}

/// Whether a constant factor or divisor is negative and so reverses the order; `None` if the operation is not monotone.
fn is_falling(typed: &Typed) -> Option<bool> {
    let Bound::Literal(_, array) = &typed.node else {
        return None;
    };
    match scalar_at(array)? {
        Scalar::Integer(value)
        | Scalar::Decimal {
            unscaled: value, ..
        } if value != 0 => Some(value < 0),
        Scalar::Float(value) if value.is_finite() && value != 0.0 => Some(value < 0.0),
        _ => None,
    }
}

/// The operation with its operand replaced by a value; `None` if it fails there.
fn apply(typed: &Typed, operand: &Typed, value: &ArrayRef) -> Option<ArrayRef> {
    let literal = || {
        Box::new(Typed {
            node: Bound::Literal(Scalar::Null, Arc::clone(value)),
            data_type: value.data_type().clone(),
            nullable: operand.nullable,
        })
    };
    let node = match &typed.node {
        Bound::Cast(_, text) => Bound::Cast(literal(), text.clone()),
        Bound::Nanos(_) => Bound::Nanos(literal()),
        Bound::Negate(_, text) => Bound::Negate(literal(), text.clone()),
        Bound::Call(function, _, text) => Bound::Call(*function, literal(), text.clone()),
        Bound::Arithmetic(op, left, right, text) => {
            let (left, right) = if std::ptr::eq(left.as_ref(), operand) {
                (literal(), right.clone())
            } else {
                (left.clone(), literal())
            };
            Bound::Arithmetic(*op, left, right, text.clone())
        }
        Bound::Quotient(_, right, text) => Bound::Quotient(literal(), right.clone(), text.clone()),
        _ => return None,
    };
    let applied = Typed {
        node,
        data_type: typed.data_type.clone(),
        nullable: typed.nullable,
    };
    let one_row = RecordBatch::try_new_with_options(
        Arc::new(Schema::empty()),
        Vec::new(),
        &RecordBatchOptions::new().with_row_count(Some(1)),
    )
    .ok()?;
    let image = eval(&applied, &one_row).ok()?.into_array(1).ok()?;
    (image.len() == 1 && !image.is_null(0)).then_some(image)
}

/// Whether `left op right` holds for two single values; `None` if they cannot be compared.
pub(super) fn holds(op: CompareOp, left: &ArrayRef, right: &ArrayRef) -> Option<bool> {
    if left.data_type() != right.data_type() {
        return None;
    }
    let answer = compare(
        op,
        &Value::array(Arc::clone(left)),
        &Value::scalar(Arc::clone(right)),
    )
    .ok()?;
    (answer.len() == 1 && answer.is_valid(0)).then(|| answer.value(0))
}

pub(super) fn is_nan(array: &ArrayRef) -> bool {
    matches!(scalar_at(array), Some(Scalar::Float(value)) if value.is_nan())
}

/// Results without rounding: a sum with a constant keeps the order of every value.
fn is_exact(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Decimal128(..)
                | DataType::Decimal256(..)
                | DataType::Timestamp(..)
                | DataType::Duration(_)
        )
}

/// Conversions under which a greater value never becomes a lesser one. Floats become decimals by their digits: left alone.
fn keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Timestamp};
    let from = unpacked_type(from);
    if from == to {
        return true;
    }
    let string =
        |t: &DataType| matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match (from, to) {
        (from, to) if from.is_numeric() && to.is_numeric() => {
            !from.is_floating() || to.is_integer() || to.is_floating()
        }
        (from, to) if string(from) && string(to) => true,
        // No zone, no change of its offset.
        (Date32 | Date64 | Timestamp(_, None), Date32 | Date64 | Timestamp(_, None)) => true,
        (Timestamp(_, Some(_)), Timestamp(_, Some(_))) => true,
        _ => false,
    }
}
