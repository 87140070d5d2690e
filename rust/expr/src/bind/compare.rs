//! Comparisons: both sides are converted to one type; a literal is located exactly among the values of the other side.

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use pilum_common::type_name;

use super::{
    common::common_type,
    convert::{convert, negated, null_boolean, typed_literal},
};
use crate::{
    bound::{Bound, Typed},
    error::{Error, Result, shorten},
    expr::{CompareOp, Expr},
    kernel::{cast, in_set::InSet},
    place::{Place, place, scalar_at},
    scalar::Scalar,
    types::unpacked_type,
    values::Values,
};

pub(super) fn compare(op: CompareOp, left: Typed, right: Typed, expr: &Expr) -> Result<Typed> {
    if left.data_type == DataType::Null || right.data_type == DataType::Null {
        return Ok(null_boolean());
    }
    if let Some(scalar) = right.literal() {
        let scalar = scalar.clone();
        return with_literal(op, left, &scalar, &right.data_type, expr);
    }
    if let Some(scalar) = left.literal() {
        let scalar = scalar.clone();
        return with_literal(op.flip(), right, &scalar, &left.data_type, expr);
    }
    two_columns(op, left, right, expr)
}

/// As [`compare`], but NaN equals nothing and is neither less nor greater.
///
/// [`compare`] orders NaN above every number and equal to itself, so the side where that gives a wrong `true` must also be
/// less than NaN.
pub(super) fn ieee(op: CompareOp, left: Typed, right: Typed, expr: &Expr) -> Result<Typed> {
    if op == CompareOp::NotEq {
        return Ok(negated(ieee(CompareOp::Eq, left, right, expr)?));
    }
    let is_nan =
        |side: &Typed| matches!(side.literal(), Some(Scalar::Float(value)) if value.is_nan());
    if is_nan(&left) || is_nan(&right) {
        let other = if is_nan(&left) { &right } else { &left };
        let never = Typed::boolean(Bound::IfValid(false, sole_copy(other)?), other.nullable);
        // Bind the comparison anyway: it reports a type that does not compare with a float.
        return compare(op, left, right, expr).map(|_| never);
    }
    let (side, other) = match op {
        CompareOp::Lt | CompareOp::LtEq => (&right, &left),
        _ => (&left, &right),
    };
    if side.literal().is_some() || !unpacked_type(&side.data_type).is_floating() {
        return compare(op, left, right, expr);
    }
    let nan = Scalar::Float(f64::NAN);
    let number = with_literal(
        CompareOp::Lt,
        *sole_copy(side)?,
        &nan,
        &DataType::Float64,
        expr,
    )?;
    // A null compared with NaN must stay null, so a null on the other side makes this test null.
    let number = if other.nullable {
        let unknown = Typed::boolean(Bound::IfValid(false, sole_copy(other)?), true);
        Typed::boolean(Bound::Or(vec![number, unknown]), true)
    } else {
        number
    };
    let comparison = compare(op, left, right, expr)?;
    let nullable = comparison.nullable || number.nullable;
    Ok(Typed::boolean(
        Bound::And(vec![comparison, number]),
        nullable,
    ))
}

/// Binds `left IS DISTINCT FROM right`. The result is false if both sides are null or both are equal, else true; it is
/// never null.
pub(super) fn distinct(left: Typed, right: Typed, expr: &Expr) -> Result<Typed> {
    let is_null = |side: &Typed| -> Result<Typed> {
        Ok(Typed::boolean(Bound::IsNull(sole_copy(side)?), false))
    };
    let (left_null, right_null) = (is_null(&left)?, is_null(&right)?);
    let (left_valid, right_valid) = (negated(is_null(&left)?), negated(is_null(&right)?));
    let equal = compare(CompareOp::Eq, left, right, expr)?;
    let all = |terms| Typed::boolean(Bound::And(terms), false);
    let same = vec![
        all(vec![equal, left_valid, right_valid]),
        all(vec![left_null, right_null]),
    ];
    Ok(negated(Typed::boolean(Bound::Or(same), false)))
}

/// One copy, within the limit of [`Typed::copies`].
fn sole_copy(side: &Typed) -> Result<Box<Typed>> {
    let mut copies = side.copies(1)?;
    copies
        .pop()
        .map(Box::new)
        .ok_or_else(|| Error::unsupported("a copy of nothing"))
}

/// The type in which values of a type are compared: kernels compare no halves, narrow decimals and fixed-size binaries.
fn compared_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Float16 => DataType::Float32,
        DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        other => other.clone(),
    }
}

/// The operand in the type in which its values are compared.
fn comparable(operand: Typed, expr: &Expr) -> Result<Typed> {
    let data_type = unpacked_type(&operand.data_type);
    let compared = compared_type(data_type);
    if compared == *data_type {
        return Ok(operand);
    }
    convert(operand, &compared, expr)
}

/// Where the literal lies among the values of a type, in the type in which these are compared.
fn place_in(
    data_type: &DataType,
    scalar: &Scalar,
    literal_type: &DataType,
    expr: &Expr,
) -> Result<Place> {
    let data_type = unpacked_type(data_type);
    let compared = compared_type(data_type);
    // Binaries have one order whatever their size; numbers are placed among those that their type has.
    let placed = match data_type {
        DataType::FixedSizeBinary(_) => place(&compared, scalar),
        _ => place(data_type, scalar),
    };
    let wide = |array: ArrayRef| cast::convert(&array, &compared, &shorten(expr));
    Ok(
        match placed.ok_or_else(|| Error::mismatch(data_type, literal_type, expr))? {
            Place::At(array) => Place::At(wide(array)?),
            Place::After(array) => Place::After(wide(array)?),
            beyond => beyond,
        },
    )
}

fn with_literal(
    op: CompareOp,
    operand: Typed,
    scalar: &Scalar,
    literal_type: &DataType,
    expr: &Expr,
) -> Result<Typed> {
    if *scalar == Scalar::Null {
        return Ok(null_boolean());
    }
    let place = place_in(&operand.data_type, scalar, literal_type, expr)?;
    Ok(at_place(op, comparable(operand, expr)?, place))
}

fn at_place(op: CompareOp, operand: Typed, place: Place) -> Typed {
    let above = match (place, op) {
        (Place::At(array), op) => return against(op, operand, array),
        // The literal lies between two neighbouring values: compare with the lower one.
        (Place::After(array), CompareOp::Lt | CompareOp::LtEq) => {
            return against(CompareOp::LtEq, operand, array);
        }
        (Place::After(array), CompareOp::Gt | CompareOp::GtEq) => {
            return against(CompareOp::Gt, operand, array);
        }
        // The literal is no value of the type, so `=` and `<>` have one answer for all rows.
        (Place::After(_), _) | (Place::Above, _) => true,
        (Place::Below, _) => false,
    };
    let truth = match op {
        CompareOp::Eq => false,
        CompareOp::NotEq => true,
        CompareOp::Lt | CompareOp::LtEq => above,
        CompareOp::Gt | CompareOp::GtEq => !above,
    };
    let nullable = operand.nullable;
    Typed::boolean(Bound::IfValid(truth, Box::new(operand)), nullable)
}

fn against(op: CompareOp, operand: Typed, array: ArrayRef) -> Typed {
    let nullable = operand.nullable;
    let scalar = scalar_at(&array).unwrap_or(Scalar::Null);
    // Types without a literal form keep the value in the array; the scalar is not read then.
    let literal = typed_literal(scalar, array);
    Typed::boolean(
        Bound::Compare(op, Box::new(operand), Box::new(literal)),
        nullable,
    )
}

fn two_columns(op: CompareOp, left: Typed, right: Typed, expr: &Expr) -> Result<Typed> {
    let nullable = left.nullable || right.nullable;
    let mismatch = || Error::mismatch(&left.data_type, &right.data_type, expr);
    let (l, r) = (
        unpacked_type(&left.data_type),
        unpacked_type(&right.data_type),
    );
    let wide = |data_type: &DataType| matches!(data_type, DataType::Int64 | DataType::UInt64);
    if wide(l) && r.is_floating() || l.is_floating() && wide(r) {
        let (op, int, float) = if wide(l) {
            (op, left, right)
        } else {
            (op.flip(), right, left)
        };
        let int_type = unpacked_type(&int.data_type).clone();
        let int = convert(int, &int_type, expr)?;
        let float = convert(float, &DataType::Float64, expr)?;
        let node = Bound::CompareIntFloat(op, Box::new(int), Box::new(float));
        return Ok(Typed::boolean(node, nullable));
    }
    if l != r && instants(l, r) {
        let node = Bound::Compare(op, Box::new(nanos(left)), Box::new(nanos(right)));
        return Ok(Typed::boolean(node, nullable));
    }
    let data_type = match compared_type(&common_type(l, r).ok_or_else(mismatch)?) {
        other if other.is_nested() || matches!(other, DataType::Interval(_)) => {
            return Err(Error::unsupported(format!(
                "comparison of {} in {}; compare fields of it",
                type_name(&other),
                shorten(expr)
            )));
        }
        other => other,
    };
    let left = convert(left, &data_type, expr)?;
    let right = convert(right, &data_type, expr)?;
    Ok(Typed::boolean(
        Bound::Compare(op, Box::new(left), Box::new(right)),
        nullable,
    ))
}

/// Temporal types that are compared in nanoseconds when their units differ.
fn instants(left: &DataType, right: &DataType) -> bool {
    use DataType::{Date32, Date64, Duration, Timestamp};
    match (left, right) {
        (Timestamp(_, a), Timestamp(_, b)) => a.is_some() == b.is_some(),
        (Date32 | Date64, Timestamp(_, None) | Date32 | Date64)
        | (Timestamp(_, None), Date32 | Date64)
        | (Duration(_), Duration(_)) => true,
        _ => false,
    }
}

fn nanos(operand: Typed) -> Typed {
    let nullable = operand.nullable;
    Typed {
        node: Bound::Nanos(Box::new(operand)),
        data_type: DataType::Decimal128(38, 0),
        nullable,
    }
}

/// A float32 that is compared with several values, one of them a float64, is a float64 for all of them, as in DuckDB.
fn widened(operand: Typed, others: &[&Typed], expr: &Expr) -> Result<Typed> {
    let single = matches!(
        unpacked_type(&operand.data_type),
        DataType::Float16 | DataType::Float32
    );
    // Every width of floats has negative zero, so this literal asks for none.
    let double = |other: &&Typed| {
        *unpacked_type(&other.data_type) == DataType::Float64
            && !other.literal().is_some_and(Scalar::is_negative_zero)
    };
    if single && others.iter().any(double) {
        convert(operand, &DataType::Float64, expr)
    } else {
        Ok(operand)
    }
}

/// `BETWEEN` is two comparisons.
pub(super) fn between(operand: &Typed, low: Typed, high: Typed, expr: &Expr) -> Result<Typed> {
    let operand = widened(operand.clone(), &[&low, &high], expr)?;
    let mut both = Vec::with_capacity(2);
    let sides = [(CompareOp::GtEq, low), (CompareOp::LtEq, high)];
    for (operand, (op, bound)) in operand.copies(2)?.into_iter().zip(sides) {
        both.push(compare(op, operand, bound, expr)?);
    }
    let nullable = both.iter().any(|side| side.nullable);
    Ok(Typed::boolean(Bound::And(both), nullable))
}

/// `IN` of an array: its values form a set that is looked up.
pub(super) fn among(operand: Typed, values: &Values, expr: &Expr) -> Result<Typed> {
    if values.len() == 0 {
        return is_in(operand, Vec::new(), expr);
    }
    if operand.data_type == DataType::Null {
        return Ok(null_boolean());
    }
    let is_single = matches!(
        unpacked_type(&operand.data_type),
        DataType::Float16 | DataType::Float32
    );
    let operand = if values.are_exact_floats() && is_single {
        convert(operand, &DataType::Float64, expr)?
    } else {
        operand
    };
    let own = unpacked_type(&operand.data_type).clone();
    let operand = comparable(operand, expr)?;
    let known = if own == *unpacked_type(&operand.data_type) {
        values.among(&own)?
    } else {
        None
    };
    let placed = match known {
        Some(array) => vec![array],
        None => {
            let value_type = values.array().data_type();
            let mut placed = Vec::with_capacity(values.len());
            for position in 0..values.len() {
                let literal = values.literal(position);
                if literal == Scalar::Null {
                    continue;
                }
                if let Place::At(array) = place_in(&own, &literal, value_type, expr)? {
                    placed.push(array);
                }
            }
            placed
        }
    };
    let nullable = operand.nullable || values.has_null();
    let set = InSet::new(
        unpacked_type(&operand.data_type),
        &placed,
        values.has_null(),
    )
    .map_err(|error| Error::invalid(expr, error.to_string()))?;
    Ok(Typed::boolean(Bound::In(Box::new(operand), set), nullable))
}

/// `IN`: literals form a set that is looked up; other items are compared one by one.
pub(super) fn is_in(operand: Typed, items: Vec<Typed>, expr: &Expr) -> Result<Typed> {
    if items.is_empty() {
        // `x IN ()` is false for every row, null rows included.
        return Ok(typed_literal(
            Scalar::Boolean(false),
            std::sync::Arc::new(arrow_array::BooleanArray::from(vec![false])),
        ));
    }
    if operand.data_type == DataType::Null {
        return Ok(null_boolean());
    }
    let operand = widened(operand, &items.iter().collect::<Vec<_>>(), expr)?;
    let own = operand.data_type.clone();
    let operand = comparable(operand, expr)?;
    let mut values: Vec<ArrayRef> = Vec::with_capacity(items.len());
    let mut has_null = false;
    let mut alternatives = Vec::new();
    let num_compared = items.iter().filter(|item| item.literal().is_none()).count();
    let mut copies = operand.copies(num_compared)?;
    for item in items {
        match item.literal() {
            Some(Scalar::Null) => has_null = true,
            Some(scalar) => {
                // A literal that is no value of the type equals no row.
                if let Place::At(array) = place_in(&own, scalar, &item.data_type, expr)? {
                    values.push(array);
                }
            }
            None => {
                if let Some(operand) = copies.pop() {
                    alternatives.push(compare(CompareOp::Eq, operand, item, expr)?);
                }
            }
        }
    }
    let nullable = operand.nullable || has_null;
    let set = InSet::new(unpacked_type(&operand.data_type), &values, has_null)
        .map_err(|error| Error::invalid(expr, error.to_string()))?;
    let found = Typed::boolean(Bound::In(Box::new(operand), set), nullable);
    if alternatives.is_empty() {
        return Ok(found);
    }
    alternatives.push(found);
    let nullable = alternatives.iter().any(|term| term.nullable);
    Ok(Typed::boolean(Bound::Or(alternatives), nullable))
}
