//! Names to columns, literals to types: from the untyped tree to the typed one.

mod arithmetic;
mod common;
mod compare;
mod like;
mod place;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_cast::can_cast_types;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use std::sync::Arc;

use crate::{
    Error, Expr, Function, Result, Scalar,
    bound::{Bound, Typed},
    error::shorten,
    eval,
    expr::{Case, MAX_DEPTH, Node},
    path::{ColumnPath, similar},
};

pub(crate) use like::kernel_pattern;
pub(crate) use place::{array_of, default_type, scalar_at};

pub(crate) struct Binder<'a> {
    schema: &'a Schema,
    columns: Vec<ColumnPath>,
}

impl<'a> Binder<'a> {
    pub(crate) fn new(schema: &'a Schema) -> Self {
        Self {
            schema,
            columns: Vec::new(),
        }
    }

    pub(crate) fn into_columns(self) -> Vec<ColumnPath> {
        self.columns
    }

    pub(crate) fn bind(&mut self, expr: &Expr) -> Result<Typed> {
        match expr.node() {
            Node::Column(path) => self.column(path),
            Node::Literal(scalar) => literal(scalar.clone(), expr),
            Node::Compare(op, left, right) => {
                let (left, right) = (self.bind(left)?, self.bind(right)?);
                compare::compare(*op, left, right, expr)
            }
            Node::And(terms) => {
                let terms = self.conditions(terms)?;
                let nullable = terms.iter().any(|term| term.nullable);
                Ok(Typed::boolean(Bound::And(terms), nullable))
            }
            Node::Or(terms) => {
                let terms = self.conditions(terms)?;
                let nullable = terms.iter().any(|term| term.nullable);
                Ok(Typed::boolean(Bound::Or(terms), nullable))
            }
            Node::Not(inner) => Ok(negated(self.condition(inner)?)),
            Node::In(operand, items) => {
                let operand = self.bind(operand)?;
                let items = items
                    .iter()
                    .map(|item| self.bind(item))
                    .collect::<Result<_>>()?;
                compare::is_in(operand, items, expr)
            }
            Node::Between(operand, low, high) => {
                let operand = self.bind(operand)?;
                let (low, high) = (self.bind(low)?, self.bind(high)?);
                compare::between(&operand, low, high, expr)
            }
            Node::IsNull(operand) => {
                let operand = self.bind(operand)?;
                Ok(Typed::boolean(Bound::IsNull(Box::new(operand)), false))
            }
            Node::Like(like) => {
                let operand = self.bind(&like.operand)?;
                let pattern = self.bind(&like.pattern)?;
                like::like(&operand, &pattern, like.escape, like.ignore_case, expr)
            }
            Node::Arithmetic(op, left, right) => {
                let (left, right) = (self.bind(left)?, self.bind(right)?);
                arithmetic::arithmetic(*op, left, right, expr)
            }
            Node::Negate(inner) => arithmetic::negate(self.bind(inner)?, expr),
            Node::Cast(inner, data_type) => {
                let inner = self.bind(inner)?;
                cast(inner, data_type, expr)
            }
            Node::Case(case) => self.case(case, expr),
            Node::Coalesce(arguments) => self.coalesce(arguments, expr),
            Node::Call(Function::Ieee, arguments) => self.ieee(arguments, expr),
            Node::Call(function, arguments) => self.call(*function, arguments, expr),
            Node::TooDeep => Err(Error::Limit {
                what: "nesting of the expression".into(),
                limit: usize::from(MAX_DEPTH),
            }),
        }
    }

    /// The conversion of an assignment: what fits the type is taken, the rest is refused by name.
    pub(crate) fn assign(&self, bound: Typed, data_type: &DataType, expr: &Expr) -> Result<Typed> {
        let value_type = unpacked_type(data_type);
        let bound = match bound.literal() {
            Some(scalar) => match place::place(value_type, scalar) {
                Some(place::Place::At(array)) => typed_literal(scalar.clone(), array),
                _ => bound,
            },
            None => bound,
        };
        cast(bound, data_type, expr)
    }

    fn column(&mut self, path: &ColumnPath) -> Result<Typed> {
        let names: Vec<String> = match path.names() {
            // A dot in a single name leads into a struct, unless a column has the whole name.
            [name] if self.schema.column_with_name(name).is_none() && name.contains('.') => {
                name.split('.').map(str::to_owned).collect()
            }
            names => names.to_vec(),
        };
        let unknown = |level: usize, fields: &mut dyn Iterator<Item = &'a str>| {
            let name = names.get(level).map_or("", String::as_str);
            let prefix: String = names
                .iter()
                .take(level)
                .map(|outer| format!("{outer}."))
                .collect();
            Error::UnknownColumn {
                name: shorten(&path.dotted()),
                similar: similar(name, fields)
                    .into_iter()
                    .map(|found| format!("{prefix}{found}"))
                    .collect(),
            }
        };
        let mut fields = self.schema.fields();
        let mut found: Option<&Field> = None;
        let mut nullable = false;
        for (level, name) in names.iter().enumerate() {
            if let Some(outer) = found {
                match outer.data_type() {
                    DataType::Struct(inner) => fields = inner,
                    _ => return Err(unknown(level, &mut std::iter::empty())),
                }
            }
            let field = fields
                .iter()
                .find(|field| field.name() == name)
                .ok_or_else(|| unknown(level, &mut fields.iter().map(|f| f.name().as_str())))?;
            nullable |= field.is_nullable();
            found = Some(field);
        }
        let data_type = found
            .map(|field| field.data_type().clone())
            .ok_or_else(|| unknown(0, &mut std::iter::empty()))?;
        let path = ColumnPath::new(names);
        if !self.columns.contains(&path) {
            self.columns.push(path.clone());
        }
        Ok(Typed {
            node: Bound::Column(path),
            data_type,
            nullable,
        })
    }

    fn condition(&mut self, expr: &Expr) -> Result<Typed> {
        let bound = self.bind(expr)?;
        match bound.data_type {
            DataType::Boolean => Ok(bound),
            DataType::Null => Ok(null_boolean()),
            ref other => Err(Error::mismatch(other, &DataType::Boolean, expr)),
        }
    }

    fn conditions(&mut self, terms: &[Expr]) -> Result<Vec<Typed>> {
        terms.iter().map(|term| self.condition(term)).collect()
    }

    fn case(&mut self, case: &Case, expr: &Expr) -> Result<Typed> {
        let mut conditions = Vec::with_capacity(case.branches.len());
        let mut values = Vec::with_capacity(case.branches.len() + 1);
        let mut operands = match &case.operand {
            Some(operand) => self.bind(operand)?.copies(case.branches.len())?,
            None => Vec::new(),
        };
        for (when, then) in &case.branches {
            conditions.push(match operands.pop() {
                Some(operand) => {
                    let when = self.bind(when)?;
                    compare::compare(crate::CompareOp::Eq, operand, when, expr)?
                }
                None => self.condition(when)?,
            });
            values.push(self.bind(then)?);
        }
        if let Some(otherwise) = &case.otherwise {
            values.push(self.bind(otherwise)?);
        }
        choose(conditions, values, expr)
    }

    /// The first value that is not null, as a choice.
    fn coalesce(&mut self, arguments: &[Expr], expr: &Expr) -> Result<Typed> {
        let values = arguments
            .iter()
            .map(|argument| self.bind(argument))
            .collect::<Result<Vec<_>>>()?;
        let mut conditions = Vec::with_capacity(values.len());
        for value in values.iter().take(values.len().saturating_sub(1)) {
            for copy in value.copies(1)? {
                let missing = Typed::boolean(Bound::IsNull(Box::new(copy)), false);
                conditions.push(negated(missing));
            }
        }
        choose(conditions, values, expr)
    }

    /// A comparison in which NaN has no place.
    fn ieee(&mut self, arguments: &[Expr], expr: &Expr) -> Result<Typed> {
        match arguments {
            [comparison] => match comparison.node() {
                Node::Compare(op, left, right) => {
                    let (left, right) = (self.bind(left)?, self.bind(right)?);
                    compare::ieee(*op, left, right, expr)
                }
                _ => Err(Error::invalid(expr, "it takes a comparison")),
            },
            _ => Err(Error::invalid(expr, "it takes one argument")),
        }
    }

    fn call(&mut self, function: Function, arguments: &[Expr], expr: &Expr) -> Result<Typed> {
        let mut bound = arguments
            .iter()
            .map(|argument| self.bind(argument))
            .collect::<Result<Vec<_>>>()?;
        if bound.len() != function.arity() {
            return Err(Error::invalid(
                expr,
                format!("it takes {} arguments", function.arity()),
            ));
        }
        match (function, bound.pop(), bound.pop()) {
            (Function::StartsWith, Some(needle), Some(text)) => {
                like::matches(crate::bound::Match::StartsWith, text, needle, expr)
            }
            (Function::EndsWith, Some(needle), Some(text)) => {
                like::matches(crate::bound::Match::EndsWith, text, needle, expr)
            }
            (Function::Contains, Some(needle), Some(text)) => {
                like::matches(crate::bound::Match::Contains, text, needle, expr)
            }
            (Function::Divide, Some(divisor), Some(dividend)) => {
                arithmetic::divide(dividend, divisor, expr)
            }
            (_, Some(argument), None) => arithmetic::call(function, argument, expr),
            _ => Err(Error::invalid(expr, "it has too many arguments")),
        }
    }
}

/// `CASE`: the values take one type.
fn choose(conditions: Vec<Typed>, values: Vec<Typed>, expr: &Expr) -> Result<Typed> {
    let has_otherwise = values.len() > conditions.len();
    let (data_type, mut values) = common::unify(values, expr)?;
    let otherwise = if has_otherwise { values.pop() } else { None };
    let nullable = values.iter().chain(&otherwise).any(|value| value.nullable) || !has_otherwise;
    let branches = conditions.into_iter().zip(values).collect();
    Ok(Typed {
        node: Bound::Case(branches, otherwise.map(Box::new)),
        data_type,
        nullable,
    })
}

pub(crate) fn negated(inner: Typed) -> Typed {
    let nullable = inner.nullable;
    Typed::boolean(Bound::Not(Box::new(inner)), nullable)
}

pub(crate) fn typed_literal(scalar: Scalar, array: arrow_array::ArrayRef) -> Typed {
    Typed {
        data_type: array.data_type().clone(),
        nullable: scalar == Scalar::Null,
        node: Bound::Literal(scalar, array),
    }
}

fn literal(scalar: Scalar, expr: &Expr) -> Result<Typed> {
    let too_large = || {
        Error::invalid(
            expr,
            format!("{} out of the range of every type", scalar.kind()),
        )
    };
    let data_type = default_type(&scalar).ok_or_else(too_large)?;
    let array = array_of(&scalar, &data_type).ok_or_else(too_large)?;
    Ok(typed_literal(scalar, array))
}

/// Null of any type.
pub(crate) fn null_of(data_type: &DataType) -> Typed {
    typed_literal(Scalar::Null, arrow_array::new_null_array(data_type, 1))
}

pub(crate) fn null_boolean() -> Typed {
    null_of(&DataType::Boolean)
}

/// The type of the values of a dictionary, or the type itself.
pub(crate) fn unpacked_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// A conversion that the language makes by itself because it loses nothing.
pub(crate) fn convert(inner: Typed, data_type: &DataType, expr: &Expr) -> Result<Typed> {
    if inner.data_type == *data_type {
        return Ok(inner);
    }
    let (nullable, data_type) = (inner.nullable, data_type.clone());
    if inner.literal() == Some(&Scalar::Null) {
        return Ok(null_of(&data_type));
    }
    let node = Bound::Cast(Box::new(inner), shorten(expr));
    fold(Typed {
        node,
        data_type,
        nullable,
    })
}

/// A conversion that was asked for.
fn cast(inner: Typed, data_type: &DataType, expr: &Expr) -> Result<Typed> {
    let from = unpacked_type(&inner.data_type);
    let sensible = match (from, data_type) {
        // Arrow would read the raw number of a date or timestamp; nobody means that.
        (from, to) if from.is_temporal() && (to.is_numeric() || *to == DataType::Boolean) => false,
        (from, to) if to.is_temporal() && (from.is_numeric() || *from == DataType::Boolean) => {
            false
        }
        (from, to) => from == to || can_cast_types(from, to),
    };
    if !sensible && *from != DataType::Null {
        return Err(Error::mismatch(from, data_type, expr));
    }
    let refused = match (from, data_type) {
        // Another name for the same instants.
        (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, Some(_))) => None,
        // Some local times come twice a year, and some never.
        (_, DataType::Timestamp(_, Some(_))) => eval::foreign_zone(data_type),
        (_, to) if to.is_temporal() => None,
        (from, _) => eval::foreign_zone(from),
    };
    if let Some(zone) = refused {
        return Err(Error::unsupported(format!(
            "a conversion by the rules of zone {zone} in {}; use UTC or a fixed offset",
            shorten(expr)
        )));
    }
    if !matches!(data_type, DataType::Timestamp(_, Some(_))) {
        known_zone(from, expr)?;
    }
    convert(inner, data_type, expr)
}

/// The rules of a zone are needed: they must be known.
fn known_zone(data_type: &DataType, expr: &Expr) -> Result<()> {
    match eval::foreign_zone(data_type) {
        Some(zone) if !eval::is_known_zone(zone) => Err(Error::invalid(
            expr,
            format!(
                "the time zone {zone} is not known; CAST to TIMESTAMP WITH TIME ZONE reads it as UTC"
            ),
        )),
        _ => Ok(()),
    }
}

/// Computes an operation whose operands are all literals.
fn fold(typed: Typed) -> Result<Typed> {
    let constant = match &typed.node {
        Bound::Arithmetic(_, left, right, _) | Bound::Quotient(left, right, _) => {
            left.literal().is_some() && right.literal().is_some()
        }
        Bound::Negate(inner, _) | Bound::Cast(inner, _) | Bound::Call(_, inner, _) => {
            inner.literal().is_some()
        }
        _ => false,
    };
    if !constant {
        return Ok(typed);
    }
    let one_row = RecordBatch::try_new_with_options(
        Arc::new(Schema::empty()),
        Vec::new(),
        &RecordBatchOptions::new().with_row_count(Some(1)),
    )
    .map_err(|error| Error::invalid("a constant", error.to_string()))?;
    let array = eval::eval(&typed, &one_row)?.into_array(1)?;
    Ok(match scalar_at(&array) {
        Some(scalar) => typed_literal(scalar, array),
        None => typed,
    })
}

/// Nanoseconds of one step of a unit.
pub(crate) fn unit_nanos(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    }
}
