//! Encodes an expression tree as the nodes of a message.

use super::list;
use crate::{
    error::{Error, Result, shorten},
    expr::{Case, Expr, MAX_DEPTH, Node},
    proto::expression::{self as proto, literal::Value, node::Kind},
    scalar::Scalar,
    types,
};

/// The message that is being written.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) tree: proto::Tree,
    pub(super) values: Vec<u8>,
}

impl Writer {
    /// Writes the operands of an expression and then the expression.
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<()> {
        let kind = match expr.node() {
            Node::Column(path) => {
                let names = path.names().to_vec();
                return self.node(&[], Kind::Column(proto::Column { names }));
            }
            Node::Literal(scalar) => return self.node(&[], Kind::Literal(literal(scalar))),
            Node::Case(case) => return self.case(case),
            Node::TooDeep => {
                return Err(Error::Limit {
                    what: "nesting of the expression".into(),
                    limit: usize::from(MAX_DEPTH),
                });
            }
            Node::In(operand, items) => {
                let operands: Vec<&Expr> = std::iter::once(operand).chain(items).collect();
                return self.node(&operands, Kind::Operation("IN".into()));
            }
            Node::Among(operand, values) => {
                // The values of lists inside the operand come first, as the reader meets them.
                self.expr(operand)?;
                let list = list::write(values, &mut self.values)?;
                self.push(1, Kind::Among(list));
                return Ok(());
            }
            Node::Compare(op, ..) => Kind::Operation(op.to_string()),
            Node::Arithmetic(op, ..) => Kind::Operation(op.to_string()),
            Node::And(_) => Kind::Operation("AND".into()),
            Node::Or(_) => Kind::Operation("OR".into()),
            Node::Not(_) => Kind::Operation("NOT".into()),
            Node::Between(..) => Kind::Operation("BETWEEN".into()),
            Node::IsNull(_) => Kind::Operation("IS NULL".into()),
            Node::Negate(_) => Kind::Operation("NEGATE".into()),
            Node::Coalesce(_) => Kind::Operation("COALESCE".into()),
            Node::Call(function, _) => Kind::Operation(function.name().into()),
            Node::Like(like) => Kind::Like(proto::Like {
                escape: like.escape.map(String::from).unwrap_or_default(),
                ignore_case: like.ignore_case,
            }),
            Node::Cast(_, data_type) => Kind::Cast(type_text(data_type, expr)?),
            Node::TryCast(_, data_type) => Kind::TryCast(type_text(data_type, expr)?),
        };
        match expr.node() {
            Node::Compare(_, left, right) | Node::Arithmetic(_, left, right) => {
                self.node(&[left, right], kind)
            }
            Node::Between(operand, low, high) => self.node(&[operand, low, high], kind),
            Node::Like(like) => self.node(&[&like.operand, &like.pattern], kind),
            Node::Not(one)
            | Node::IsNull(one)
            | Node::Negate(one)
            | Node::Cast(one, _)
            | Node::TryCast(one, _) => self.node(&[one], kind),
            Node::And(many) | Node::Or(many) | Node::Coalesce(many) | Node::Call(_, many) => {
                self.node(&many.iter().collect::<Vec<_>>(), kind)
            }
            _ => self.node(&[], kind),
        }
    }

    fn case(&mut self, case: &Case) -> Result<()> {
        let branches = case.branches.iter().flat_map(|(when, then)| [when, then]);
        let operands: Vec<&Expr> = case
            .operand
            .iter()
            .chain(branches)
            .chain(&case.otherwise)
            .collect();
        let kind = Kind::Case(proto::Case {
            has_operand: case.operand.is_some(),
            has_otherwise: case.otherwise.is_some(),
        });
        self.node(&operands, kind)
    }

    fn node(&mut self, operands: &[&Expr], kind: Kind) -> Result<()> {
        for operand in operands {
            self.expr(operand)?;
        }
        self.push(operands.len(), kind);
        Ok(())
    }

    fn push(&mut self, operands: usize, kind: Kind) {
        self.tree.nodes.push(proto::Node {
            operands: u32::try_from(operands).unwrap_or(u32::MAX),
            kind: Some(kind),
        });
    }
}

fn type_text(data_type: &arrow_schema::DataType, expr: &Expr) -> Result<String> {
    types::name_of(data_type).ok_or_else(|| {
        Error::unsupported(format!(
            "{} in another process: the type has no name in SQL",
            shorten(expr)
        ))
    })
}

fn literal(scalar: &Scalar) -> proto::Literal {
    let wide = |value: i128| value.to_le_bytes().to_vec().into();
    let value = match scalar {
        Scalar::Null => Value::Null(true),
        Scalar::Boolean(value) => Value::Boolean(*value),
        Scalar::Integer(value) => Value::Integer(wide(*value)),
        Scalar::Decimal { unscaled, scale } => Value::Decimal(proto::Decimal {
            unscaled: wide(*unscaled),
            scale: u32::from(*scale),
        }),
        Scalar::WideDecimal { unscaled, scale } => Value::Decimal(proto::Decimal {
            unscaled: unscaled.to_le_bytes().to_vec().into(),
            scale: u32::from(*scale),
        }),
        Scalar::Float(value) => Value::Float(*value),
        Scalar::String(text) => Value::String(text.clone()),
        Scalar::Binary(bytes) => Value::Binary(bytes.clone().into()),
        Scalar::Date(days) => Value::Date(*days),
        Scalar::Time(nanos) => Value::Time(*nanos),
        Scalar::Timestamp { nanos, zoned } => Value::Timestamp(proto::Timestamp {
            nanos: wide(*nanos),
            zoned: *zoned,
        }),
        Scalar::Interval {
            months,
            days,
            nanos,
        } => Value::Interval(proto::Interval {
            months: *months,
            days: *days,
            nanos: *nanos,
        }),
    };
    proto::Literal { value: Some(value) }
}
