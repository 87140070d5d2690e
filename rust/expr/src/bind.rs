//! Binding: resolves names to columns and gives every node and literal its type.

mod arithmetic;
mod common;
mod compare;
mod convert;
mod function;
mod like;
mod scalar_function;

use arrow_schema::{DataType, Field, Schema};

use crate::{
    bound::{Bound, BoundExpr, Typed},
    check::check_values,
    error::{Error, Result, shorten},
    expr::{Case, CompareOp, Expr, MAX_DEPTH, Node},
    function::Function,
    kernel::pattern::Match,
    path::{ColumnPath, similar},
    place::{Place, array_of, place},
    scalar::Scalar,
    types::unpacked_type,
    values::as_written,
};
use convert::{cast, literal, negated, null_boolean, try_cast, typed_literal};

/// Resolves the names of an expression and fixes all of its types.
///
/// Coercions never lose precision: `x > 2.5` on integers becomes `x >= 3`, a literal out of the range of a column becomes a
/// constant (null stays null), integers of both signs, decimals, dates and timestamps of any unit compare by value. The
/// exceptions are between decimals and floats: two columns compare as floats; a literal of one kind beside a column of the
/// other means the nearest value, or the digits it is written with, so that `price = 0.1` finds 0.10 in either.
///
/// # Errors
/// [`Error::UnknownColumn`], [`Error::TypeMismatch`], [`Error::Unsupported`] for what the language lacks, [`Error::Limit`]
/// for a tree that is nested too deeply, and errors of evaluation for constants.
pub fn bind(expr: &Expr, schema: &Schema) -> Result<BoundExpr> {
    let mut binder = Binder::new(schema);
    let root = binder.bind(expr)?;
    Ok(BoundExpr {
        root,
        columns: binder.columns,
    })
}

/// As [`bind`], for assigning to a column of the type `data_type`: a literal that is exactly one value of that type becomes
/// that value, so that a text literal can be a date. Every other result keeps its own type, and is to be converted by
/// [`Conversion`](crate::Conversion), which keeps or refuses each value.
///
/// # Errors
/// As [`bind`].
pub fn bind_as(expr: &Expr, schema: &Schema, data_type: &DataType) -> Result<BoundExpr> {
    let mut binder = Binder::new(schema);
    let bound = binder.bind(expr)?;
    let root = Binder::assign(bound, data_type);
    Ok(BoundExpr {
        root,
        columns: binder.columns,
    })
}

struct Binder<'a> {
    schema: &'a Schema,
    columns: Vec<ColumnPath>,
}

impl<'a> Binder<'a> {
    fn new(schema: &'a Schema) -> Self {
        Self {
            schema,
            columns: Vec::new(),
        }
    }

    fn bind(&mut self, expr: &Expr) -> Result<Typed> {
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
            Node::Among(operand, values) => compare::among(self.bind(operand)?, values, expr),
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
            Node::TryCast(inner, data_type) => {
                let inner = self.bind(inner)?;
                try_cast(inner, data_type, expr)
            }
            Node::Case(case) => self.case(case, expr),
            Node::Coalesce(arguments) => self.coalesce(arguments, expr),
            Node::Call(Function::Ieee, arguments) => self.ieee(arguments, expr),
            Node::Call(function @ (Function::Element | Function::Item), arguments) => {
                self.element(*function, arguments, expr)
            }
            Node::Call(function, arguments) => self.call(*function, arguments, expr),
            Node::TooDeep => Err(Error::Limit {
                what: "nesting of the expression".into(),
                limit: usize::from(MAX_DEPTH),
            }),
        }
    }

    /// A literal as a value of the type that it is assigned to, if it is exactly one; else the result as it is.
    fn assign(bound: Typed, data_type: &DataType) -> Typed {
        let value_type = unpacked_type(data_type);
        let placed =
            match bound.literal() {
                // Beside a float a decimal literal means the nearest float; an assigned one must be kept. The digits of a float64
                // are that float, which the type holds or not.
                Some(
                    scalar @ (Scalar::Decimal { .. } | Scalar::WideDecimal { scale: 1.., .. }),
                ) if value_type.is_floating() => as_written(scalar)
                    .and_then(|value| array_of(&Scalar::Float(value), value_type))
                    .map(|array| typed_literal(scalar.clone(), array)),
                Some(scalar) => match place(value_type, scalar) {
                    // A place among decimals may lie beyond the precision of the column.
                    Some(Place::At(array)) if check_values(&array, "").is_ok() => {
                        Some(typed_literal(scalar.clone(), array))
                    }
                    _ => None,
                },
                None => None,
            };
        placed.unwrap_or(bound)
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
                    compare::compare(CompareOp::Eq, operand, when, expr)?
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

    /// `COALESCE` as a `CASE` that takes the first value that is not null.
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

    /// A comparison by IEEE 754: NaN equals nothing and has no order.
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

    /// A member of a struct is a column of its own; items and values of maps are computed.
    fn element(&mut self, function: Function, arguments: &[Expr], expr: &Expr) -> Result<Typed> {
        let [of, key] = arguments else {
            return Err(Error::invalid(expr, "it takes two arguments"));
        };
        let needed = self.columns.clone();
        let (of, key) = (self.bind(of)?, self.bind(key)?);
        if let (Bound::Column(path), DataType::Struct(_)) = (&of.node, &of.data_type)
            && let Some(Scalar::String(name)) = key.literal()
        {
            self.columns = needed; // the member alone is needed, not the whole struct
            let names = path.names().iter().chain([name]).cloned();
            return self.column(&ColumnPath::new(names));
        }
        scalar_function::call(function, vec![of, key], expr)
    }

    fn call(&mut self, function: Function, arguments: &[Expr], expr: &Expr) -> Result<Typed> {
        let mut bound = arguments
            .iter()
            .map(|argument| self.bind(argument))
            .collect::<Result<Vec<_>>>()?;
        if !function.arity().contains(&bound.len()) {
            let arity = function.arity_text();
            return Err(Error::invalid(expr, format!("it takes {arity} arguments")));
        }
        if bound.len() > 2 || function.is_general() {
            return scalar_function::call(function, bound, expr);
        }
        if let (Function::Length, [only]) = (function, bound.as_slice())
            && let Some(length) = scalar_function::list_length(only, expr)
        {
            return length;
        }
        match (function, bound.pop(), bound.pop()) {
            (Function::StartsWith, Some(needle), Some(text)) => {
                like::matches(Match::StartsWith, text, needle, expr)
            }
            (Function::EndsWith, Some(needle), Some(text)) => {
                like::matches(Match::EndsWith, text, needle, expr)
            }
            (Function::Contains, Some(needle), Some(text)) => {
                like::matches(Match::Contains, text, needle, expr)
            }
            (Function::Distinct, Some(right), Some(left)) => compare::distinct(left, right, expr),
            (Function::Divide, Some(divisor), Some(dividend)) => {
                arithmetic::divide(dividend, divisor, expr)
            }
            (_, Some(argument), None) => function::call(function, argument, expr),
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
