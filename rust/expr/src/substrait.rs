//! Reads Substrait messages, the form in which pyarrow serialises its expressions.
//!
//! A message lists names of columns and functions and refers to them by number. Functions that have the same meaning in
//! this crate are accepted; others are refused by name, so that the caller can write the condition in SQL.
//! Nested expressions are decoded one level at a time: chains of `and` and of `or` in a loop, everything else up to the
//! depth limit of a tree. Untrusted bytes therefore use bounded stack, and memory proportional to their size.

mod columns;
mod refuse;
mod value;

use std::collections::BTreeMap;

use arrow_schema::{DataType, Fields, Schema};
use bytes::Bytes;

use crate::{
    bind::bind,
    error::{Error, Result, shorten},
    expr::{CompareOp, Expr, MAX_DEPTH, Node, call, coalesce, lit},
    function::Function,
    path::ColumnPath,
    proto::substrait::{
        self as proto, Expression,
        expression::{
            FieldReference, ReferenceSegment, RexType, ScalarFunction, SingularOrList,
            field_reference, reference_segment,
        },
        simple_extension_declaration::MappingType,
        r#type::Kind,
    },
    scalar::Scalar,
};
use pilum_common::type_name;
use refuse::{PLACE, decode, too_deep, unsupported};

/// Size limit of a message in bytes; the decoded tree takes a small multiple of it.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Reads the one expression of a Substrait `ExtendedExpression`, such as `pyarrow.compute.Expression.to_substrait` makes.
///
/// Columns are found by the names in the message. Functions mean what they mean to pyarrow: integers divide whole, and zero
/// is no divisor; NaN equals nothing ([`Function::Ieee`]); null is in no list. Arithmetic is the exception: it never wraps
/// around, and is an error where 64 bits do not hold the result.
///
/// # Errors
/// [`Error::Unsupported`] for what has another meaning here: conditional expressions (Substrait does not define a null
/// condition), lists that hold null, conversions that may lose part of a value. [`Error::InvalidInput`] for broken messages,
/// [`Error::Limit`] for messages that are too large or too deep.
pub fn from_substrait(message: &[u8]) -> Result<Expr> {
    if message.len() > MAX_MESSAGE_BYTES {
        return Err(Error::Limit {
            what: "bytes of a Substrait expression".into(),
            limit: MAX_MESSAGE_BYTES,
        });
    }
    let message: proto::ExtendedExpression = decode(Bytes::copy_from_slice(message))?;
    let mut functions = BTreeMap::new();
    let mut types = BTreeMap::new();
    for declaration in message.extensions {
        match declaration.mapping_type {
            Some(MappingType::ExtensionFunction(function)) => {
                functions.insert(function.function_anchor, function.name);
            }
            Some(MappingType::ExtensionType(declared)) => {
                types.insert(declared.type_anchor, declared.name);
            }
            None => {}
        }
    }
    let schema = columns::schema(message.base_schema.unwrap_or_default(), &types)?;
    let reader = Reader {
        schema,
        functions,
        types,
    };
    let mut expressions = message.referred_expr;
    let only = match (expressions.pop(), expressions.pop()) {
        (Some(only), None) => only.expression,
        _ => return Err(Error::invalid(PLACE, "it holds not one expression")),
    };
    let expr = reader.expression(only, 0)?;
    match expr.node() {
        Node::TooDeep => Err(too_deep()),
        _ => Ok(expr),
    }
}

struct Reader {
    schema: Schema,
    functions: BTreeMap<u32, String>,
    types: BTreeMap<u32, String>,
}

impl Reader {
    fn expression(&self, bytes: Bytes, depth: u16) -> Result<Expr> {
        self.node(decode(bytes)?, depth)
    }

    fn node(&self, node: Expression, depth: u16) -> Result<Expr> {
        if depth >= MAX_DEPTH {
            return Err(too_deep());
        }
        match node.rex_type {
            Some(RexType::Literal(literal)) => value::literal(literal, &self.types).map(lit),
            Some(RexType::Selection(reference)) => self.column(reference),
            Some(RexType::ScalarFunction(function)) => self.function(function, depth),
            Some(RexType::SingularOrList(list)) => self.list(list, depth),
            Some(RexType::Cast(cast)) => {
                let input = self.expression(cast.input, depth + 1)?;
                self.cast(input, cast.r#type)
            }
            None => Err(unsupported(
                "a form that is no column, literal, function, list or cast",
            )),
        }
    }

    fn column(&self, reference: FieldReference) -> Result<Expr> {
        if !matches!(
            reference.root_type,
            None | Some(field_reference::RootType::RootReference(_))
        ) {
            return Err(unsupported("a field of a computed value"));
        }
        let mut names = Vec::new();
        let mut fields: Option<&Fields> = Some(self.schema.fields());
        let mut segment = reference.direct_reference;
        while let Some(ReferenceSegment { reference_type }) = segment {
            let Some(reference_segment::ReferenceType::StructField(step)) = reference_type else {
                return Err(unsupported("an element of a list or map"));
            };
            let field = usize::try_from(step.field)
                .ok()
                .and_then(|position| fields?.get(position))
                .ok_or_else(|| {
                    Error::invalid(PLACE, format!("there is no field number {}", step.field))
                })?;
            names.push(field.name().clone());
            fields = match field.data_type() {
                DataType::Struct(members) => Some(members),
                _ => None,
            };
            segment = step.child.map(|child| *child);
        }
        if names.is_empty() {
            return Err(unsupported("a reference to a whole row"));
        }
        Ok(Expr::column(ColumnPath::new(names)))
    }

    fn name_of(&self, function: &ScalarFunction) -> Result<&str> {
        let anchor = function.function_reference;
        let name = self.functions.get(&anchor).ok_or_else(|| {
            Error::invalid(PLACE, format!("function number {anchor} is not declared"))
        })?;
        // A name may have a suffix with its argument types: `add:i64_i64`.
        Ok(name.split(':').next().unwrap_or(name))
    }

    fn function(&self, function: ScalarFunction, depth: u16) -> Result<Expr> {
        let name = self.name_of(&function)?.to_owned();
        for option in &function.options {
            match (option.name.as_str(), option.preference.as_slice()) {
                // These options concern results out of range, which are errors here.
                ("overflow" | "rounding", _) => {}
                ("case_sensitivity", [first, ..]) if first == "CASE_SENSITIVE" => {}
                (other, _) => {
                    return Err(unsupported(format_args!(
                        "option {other} of function {name}"
                    )));
                }
            }
        }
        if name == "and" || name == "or" {
            return self.chain(&name, function, depth);
        }
        let result = function.output_type.and_then(|of| of.kind);
        let arguments = arguments(function.arguments)?
            .into_iter()
            .map(|argument| self.expression(argument, depth + 1))
            .collect::<Result<Vec<_>>>()?;
        let wrong = |count: usize| {
            Error::invalid(
                PLACE,
                format!("{} takes not {count} arguments", shorten(&name)),
            )
        };
        if name == "coalesce" && !arguments.is_empty() {
            return Ok(coalesce(arguments));
        }
        match <[Expr; 1]>::try_from(arguments) {
            Ok([only]) => unary(&name, only),
            Err(arguments) => match <[Expr; 2]>::try_from(arguments) {
                Ok([left, right]) => match comparison(&name) {
                    Some(op) => Ok(self.compare(op, left, right)),
                    None => binary(&name, left, right, matches!(result, Some(Kind::Decimal(_)))),
                },
                Err(arguments) => Err(wrong(arguments.len())),
            },
        }
    }

    /// `and` or `or` of whatever is chained by the same: pyarrow nests them in pairs, as deep as the chain is long.
    fn chain(&self, name: &str, first: ScalarFunction, depth: u16) -> Result<Expr> {
        let mut terms = Vec::new();
        let mut waiting = arguments(first.arguments)?;
        waiting.reverse();
        while let Some(next) = waiting.pop() {
            match decode::<Expression>(next)?.rex_type {
                Some(RexType::ScalarFunction(inner))
                    if inner.options.is_empty() && self.name_of(&inner)? == name =>
                {
                    waiting.extend(arguments(inner.arguments)?.into_iter().rev());
                }
                rex_type => terms.push(self.node(Expression { rex_type }, depth + 1)?),
            }
        }
        let chained = if name == "and" {
            Expr::all(terms)
        } else {
            Expr::any(terms)
        };
        chained.ok_or_else(|| Error::invalid(PLACE, "a chain of no conditions"))
    }

    /// A list as pyarrow means it: null is in no list (not: unknown to be in it).
    fn list(&self, list: SingularOrList, depth: u16) -> Result<Expr> {
        let operand = self.expression(list.value, depth + 1)?;
        let mut values = Vec::with_capacity(list.options.len());
        for option in list.options {
            let value = self.expression(option, depth + 1)?;
            match value.node() {
                Node::Literal(Scalar::Null) => {
                    return Err(unsupported("a list with null, which matches null or not"));
                }
                Node::Literal(_) => values.push(value),
                _ => return Err(unsupported("a list of computed values")),
            }
        }
        if values.is_empty() {
            return Ok(lit(false));
        }
        Ok(coalesce(vec![operand.is_in(values), lit(false)]))
    }

    /// pyarrow tells the conversions that cut off what does not fit, and no others.
    fn cast(&self, input: Expr, wanted: Option<proto::Type>) -> Result<Expr> {
        let kind = wanted.and_then(|wanted| wanted.kind);
        let data_type = kind
            .as_ref()
            .and_then(|kind| value::data_type(kind, &self.types))
            .ok_or_else(|| unsupported("a cast to a type without counterpart"))?;
        let from = bind(&input, &self.schema)?.data_type().clone();
        if !keeps_all(&from, &data_type) {
            return Err(unsupported(format_args!(
                "a cast of {} to {}, which may lose part of a value,",
                type_name(&from),
                type_name(&data_type)
            )));
        }
        Ok(input.cast(data_type))
    }

    /// A comparison as IEEE 754 has it, which matters where a side can be NaN.
    fn compare(&self, op: CompareOp, left: Expr, right: Expr) -> Expr {
        let floating = |side: &Expr| {
            // A side that cannot be bound is reported when the whole expression is bound.
            bind(side, &self.schema).is_ok_and(|bound| bound.data_type().is_floating())
        };
        let any = floating(&left) || floating(&right);
        let comparison = left.compare(op, right);
        if any { comparison.ieee() } else { comparison }
    }
}

/// Whether the second type holds every value of the first; conversions to floats may round.
fn keeps_all(from: &DataType, to: &DataType) -> bool {
    use DataType::{LargeUtf8, Utf8};
    let bytes = |of: &DataType| of.primitive_width().unwrap_or(0);
    match (from, to) {
        (Utf8 | LargeUtf8, Utf8 | LargeUtf8) => true,
        (number, float) if float.is_floating() => number.is_integer() || number.is_floating(),
        (small, large) if small.is_integer() && large.is_integer() => {
            match (small.is_signed_integer(), large.is_signed_integer()) {
                (true, false) => false,
                (false, true) => bytes(small) < bytes(large),
                _ => bytes(small) <= bytes(large),
            }
        }
        (from, to) => from == to,
    }
}

fn arguments(arguments: Vec<proto::FunctionArgument>) -> Result<Vec<Bytes>> {
    arguments
        .into_iter()
        .map(|argument| {
            argument
                .value
                .ok_or_else(|| unsupported("an argument that is no expression"))
        })
        .collect()
}

fn unary(name: &str, operand: Expr) -> Result<Expr> {
    Ok(match name {
        "not" => operand.not(),
        "is_null" => operand.is_null(),
        "is_not_null" => operand.is_not_null(),
        "is_nan" => operand.eq(lit(f64::NAN)),
        // Of a float, which has an absolute value whatever it is.
        "is_finite" => operand.cast(DataType::Float64).abs().lt(lit(f64::INFINITY)),
        "negate" => operand.neg(),
        "abs" => operand.abs(),
        other => return Err(unsupported(format_args!("function {other}"))),
    })
}

fn comparison(name: &str) -> Option<CompareOp> {
    Some(match name {
        "equal" => CompareOp::Eq,
        "not_equal" => CompareOp::NotEq,
        "lt" => CompareOp::Lt,
        "lte" => CompareOp::LtEq,
        "gt" => CompareOp::Gt,
        "gte" => CompareOp::GtEq,
        _ => return None,
    })
}

fn binary(name: &str, left: Expr, right: Expr, decimal: bool) -> Result<Expr> {
    let function = |function: Function, left, right| Ok(call(function, vec![left, right]));
    match name {
        "add" => Ok(left.add(right)),
        "subtract" => Ok(left.sub(right)),
        "multiply" => Ok(left.mul(right)),
        "divide" if !decimal => function(Function::Divide, left, right),
        "starts_with" => function(Function::StartsWith, left, right),
        "ends_with" => function(Function::EndsWith, left, right),
        "contains" => function(Function::Contains, left, right),
        other => Err(unsupported(format_args!("function {other}"))),
    }
}
