//! Decodes the nodes of a message to an expression tree.

use arrow_buffer::i256;

use super::{broken::broken, list};
use crate::{
    error::{Error, Result, shorten},
    expr::{ArithmeticOp, CompareOp, Expr, MAX_DEPTH, Node, call, coalesce, lit},
    function::Function,
    parse::parse_type,
    path::ColumnPath,
    proto::expression::{self as proto, literal::Value, node::Kind},
    scalar::Scalar,
};

/// Builds the tree of the nodes; `values` holds the values of their lists.
pub(super) fn tree(tree: proto::Tree, values: &[u8]) -> Result<Expr> {
    let mut rest = values;
    let mut built: Vec<Expr> = Vec::new();
    for node in tree.nodes {
        let operands = usize::try_from(node.operands).unwrap_or(usize::MAX);
        let first = built
            .len()
            .checked_sub(operands)
            .ok_or_else(|| broken("a node has more operands than there are"))?;
        let operands = built.split_off(first);
        let kind = node.kind.ok_or_else(|| broken("a node of unknown kind"))?;
        let expr = expr(kind, operands, &mut rest)?;
        if matches!(expr.node(), Node::TooDeep) {
            return Err(Error::Limit {
                what: "nesting of the expression".into(),
                limit: usize::from(MAX_DEPTH),
            });
        }
        built.push(expr);
    }
    match (built.pop(), built.is_empty(), rest.is_empty()) {
        (Some(root), true, true) => Ok(root),
        (_, _, false) => Err(broken("values without a list")),
        _ => Err(broken("it is not one expression")),
    }
}

fn expr(kind: Kind, operands: Vec<Expr>, rest: &mut &[u8]) -> Result<Expr> {
    let count = operands.len();
    let mut each = operands.into_iter();
    let mut next = || each.next().ok_or_else(|| broken("an operand is missing"));
    let expected = match &kind {
        Kind::Column(_) | Kind::Literal(_) => 0,
        Kind::Cast(_) | Kind::TryCast(_) | Kind::Among(_) => 1,
        Kind::Like(_) => 2,
        Kind::Operation(_) | Kind::Case(_) => count,
    };
    if count != expected {
        return Err(broken("a node with a wrong number of operands"));
    }
    Ok(match kind {
        Kind::Column(column) if column.names.is_empty() => {
            return Err(broken("a column without a name"));
        }
        Kind::Column(column) if column.names.len() > usize::from(MAX_DEPTH) => {
            return Err(broken("a path of too many names"));
        }
        Kind::Column(column) => Expr::column(ColumnPath::new(column.names)),
        Kind::Literal(value) => lit(literal(value)?),
        Kind::Cast(name) => next()?.cast(parse_type(&name)?),
        Kind::TryCast(name) => next()?.try_cast(parse_type(&name)?),
        Kind::Among(values) => next()?.is_among(list::read(&values, rest)?),
        Kind::Like(like) => {
            let mut escape = like.escape.chars();
            let (escape, more) = (escape.next(), escape.next());
            if more.is_some() {
                return Err(broken("ESCAPE of several characters"));
            }
            let (operand, pattern) = (next()?, next()?);
            operand.like_with(pattern, escape, like.ignore_case)
        }
        Kind::Case(case) => {
            let fixed = usize::from(case.has_operand) + usize::from(case.has_otherwise);
            let branches = count
                .checked_sub(fixed)
                .filter(|rest| rest % 2 == 0 && *rest > 0);
            let branches = branches.ok_or_else(|| broken("CASE with half a branch"))? / 2;
            let operand = case.has_operand.then(&mut next).transpose()?;
            let branches = (0..branches).map(|_| Ok((next()?, next()?)));
            let branches = branches.collect::<Result<_>>()?;
            let otherwise = case.has_otherwise.then(&mut next).transpose()?;
            Expr::case(operand, branches, otherwise)
        }
        Kind::Operation(name) => return operation(&name, each.collect()),
    })
}

const COMPARISONS: [CompareOp; 6] = [
    CompareOp::Eq,
    CompareOp::NotEq,
    CompareOp::Lt,
    CompareOp::LtEq,
    CompareOp::Gt,
    CompareOp::GtEq,
];

const ARITHMETIC: [ArithmeticOp; 6] = [
    ArithmeticOp::Add,
    ArithmeticOp::Subtract,
    ArithmeticOp::Multiply,
    ArithmeticOp::Divide,
    ArithmeticOp::IntegerDivide,
    ArithmeticOp::Modulo,
];

/// An operator or function by its name in the message.
fn operation(name: &str, operands: Vec<Expr>) -> Result<Expr> {
    let wrong = || {
        broken(&format!(
            "{} with a wrong number of operands",
            shorten(name)
        ))
    };
    if let Some(function) = Function::ALL.into_iter().find(|one| one.name() == name) {
        return match function.arity().contains(&operands.len()) {
            true => Ok(call(function, operands)),
            false => Err(wrong()),
        };
    }
    if let "AND" | "OR" = name {
        // A chain inside of a chain of its kind would be copied with each level.
        let is_chain = |one: &Expr| {
            matches!(
                (one.node(), name),
                (Node::And(_), "AND") | (Node::Or(_), "OR")
            )
        };
        if operands.len() < 2 || operands.iter().any(is_chain) {
            return Err(wrong());
        }
        let chain = if name == "AND" {
            Expr::all(operands)
        } else {
            Expr::any(operands)
        };
        return chain.ok_or_else(wrong);
    }
    if name == "COALESCE" {
        return if operands.is_empty() {
            Err(wrong())
        } else {
            Ok(coalesce(operands))
        };
    }
    if name == "IN" {
        let mut operands = operands.into_iter();
        let operand = operands.next().ok_or_else(wrong)?;
        return Ok(operand.is_in(operands.collect()));
    }
    if name == "BETWEEN" {
        let [operand, low, high] = <[Expr; 3]>::try_from(operands).map_err(|_| wrong())?;
        return Ok(operand.between(low, high));
    }
    if let "NOT" | "IS NULL" | "NEGATE" = name {
        let [operand] = <[Expr; 1]>::try_from(operands).map_err(|_| wrong())?;
        return Ok(match name {
            "NOT" => operand.not(),
            "IS NULL" => operand.is_null(),
            _ => operand.neg(),
        });
    }
    let comparison = COMPARISONS.into_iter().find(|op| op.to_string() == name);
    let arithmetic = ARITHMETIC.into_iter().find(|op| op.to_string() == name);
    if comparison.is_none() && arithmetic.is_none() {
        return Err(Error::unsupported(format!(
            "the operation {} in a message of an expression; a newer release of pilum wrote it",
            shorten(name)
        )));
    }
    let [left, right] = <[Expr; 2]>::try_from(operands).map_err(|_| wrong())?;
    match (comparison, arithmetic) {
        (Some(op), _) => Ok(left.compare(op, right)),
        (_, Some(op)) => Ok(left.arithmetic(op, right)),
        _ => Err(wrong()),
    }
}

fn literal(literal: proto::Literal) -> Result<Scalar> {
    let wide = |bytes: &[u8]| {
        let bytes = <[u8; 16]>::try_from(bytes);
        bytes
            .map(i128::from_le_bytes)
            .map_err(|_| broken("an integer of a wrong length"))
    };
    const NANOS_PER_SECOND: u64 = 1_000_000_000;
    const NANOS_PER_DAY: i64 = 86_400_000_000_000;
    Ok(
        match literal
            .value
            .ok_or_else(|| broken("a literal without a value"))?
        {
            Value::Null(_) => Scalar::Null,
            Value::Boolean(value) => Scalar::Boolean(value),
            Value::Integer(bytes) => Scalar::Integer(wide(&bytes)?),
            Value::Decimal(decimal) if decimal.unscaled.len() == 32 => {
                let bytes = decimal.unscaled.as_ref().try_into();
                let bytes = bytes.map_err(|_| broken("a decimal of other than 32 bytes"))?;
                u8::try_from(decimal.scale)
                    .ok()
                    .and_then(|scale| Scalar::number(i256::from_le_bytes(bytes), scale))
                    .ok_or_else(|| broken("a decimal of more than 76 digits"))?
            }
            Value::Decimal(decimal) => {
                let unscaled = wide(&decimal.unscaled)?;
                let scale = u8::try_from(decimal.scale)
                    .ok()
                    .filter(|scale| *scale <= 38);
                let scale = scale.ok_or_else(|| broken("a decimal of more than 38 digits"))?;
                Scalar::Decimal { unscaled, scale }
            }
            Value::Float(value) => Scalar::Float(value),
            Value::String(text) => Scalar::String(text),
            Value::Binary(bytes) => Scalar::Binary(bytes.to_vec()),
            Value::Date(days) => Scalar::Date(days),
            Value::Time(nanos) if (0..NANOS_PER_DAY).contains(&nanos) => Scalar::Time(nanos),
            Value::Time(_) => return Err(broken("a time beyond the day")),
            Value::Timestamp(timestamp) => {
                let nanos = wide(&timestamp.nanos)?;
                // No timestamp type reaches further than 2^63 seconds.
                if nanos.unsigned_abs() >> 63 > u128::from(NANOS_PER_SECOND) {
                    return Err(broken("a timestamp beyond every type"));
                }
                let zoned = timestamp.zoned;
                Scalar::Timestamp { nanos, zoned }
            }
            Value::Interval(interval) => Scalar::Interval {
                months: interval.months,
                days: interval.days,
                nanos: interval.nanos,
            },
        },
    )
}
