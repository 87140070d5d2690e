//! Expressions as SQL text that parses back to the same tree.

use std::fmt::{self, Display, Formatter, Write as _};

use crate::{
    calendar::{NANOS_PER_DAY, write_date, write_time},
    expr::{ArithmeticOp, CompareOp, Expr, Node},
    function::Function,
    scalar::Scalar,
    types,
};

/// Precedence of operators; an operand of a lower level than its place needs is put in parentheses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Or,
    And,
    Not,
    /// Comparisons, `IN`, `BETWEEN`, `LIKE`, `IS NULL`.
    Predicate,
    /// `||`
    Append,
    Sum,
    Product,
    Sign,
    Atom,
}

impl Level {
    /// The next tighter level, for the right side of operators that group to the left.
    pub(crate) fn tighter(self) -> Self {
        match self {
            Self::Or => Self::And,
            Self::And => Self::Not,
            Self::Not => Self::Predicate,
            Self::Predicate => Self::Append,
            Self::Append => Self::Sum,
            Self::Sum => Self::Product,
            Self::Product => Self::Sign,
            Self::Sign | Self::Atom => Self::Atom,
        }
    }

    pub(crate) fn of_arithmetic(op: ArithmeticOp) -> Self {
        match op {
            ArithmeticOp::Add | ArithmeticOp::Subtract => Self::Sum,
            _ => Self::Product,
        }
    }
}

fn level(expr: &Expr) -> Level {
    match expr.node() {
        Node::Or(_) => Level::Or,
        Node::And(_) => Level::And,
        Node::Not(inner) if negated_infix(inner) => Level::Predicate,
        Node::Not(_) => Level::Not,
        Node::Compare(..)
        | Node::In(..)
        | Node::Among(..)
        | Node::Between(..)
        | Node::IsNull(_)
        | Node::Like(_) => Level::Predicate,
        Node::Arithmetic(op, ..) => Level::of_arithmetic(*op),
        Node::Negate(_) => Level::Sign,
        Node::Call(Function::Append, _) => Level::Append,
        Node::Call(Function::Distinct | Function::SimilarTo, _) => Level::Predicate,
        _ => Level::Atom,
    }
}

/// Predicates that take `NOT` before their keyword: `x NOT IN (…)`.
fn negated_infix(expr: &Expr) -> bool {
    matches!(
        expr.node(),
        Node::In(..)
            | Node::Among(..)
            | Node::Between(..)
            | Node::IsNull(_)
            | Node::Like(_)
            | Node::Call(Function::Distinct | Function::SimilarTo, _)
    )
}

/// An operand in a place that needs at least this level.
struct At<'a>(&'a Expr, Level);

impl Display for At<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if level(self.0) < self.1 {
            write!(f, "({})", self.0)
        } else {
            self.0.fmt(f)
        }
    }
}

fn list(f: &mut Formatter<'_>, items: &[Expr], separator: &str, level: Level) -> fmt::Result {
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            f.write_str(separator)?;
        }
        At(item, level).fmt(f)?;
    }
    Ok(())
}

impl Display for CompareOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eq => "=",
            Self::NotEq => "<>",
            Self::Lt => "<",
            Self::LtEq => "<=",
            Self::Gt => ">",
            Self::GtEq => ">=",
        })
    }
}

impl Display for ArithmeticOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::IntegerDivide => "//",
            Self::Modulo => "%",
        })
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.node() {
            Node::Column(path) => path.fmt(f),
            Node::Literal(scalar) => scalar.fmt(f),
            Node::Compare(op, left, right) => {
                write!(
                    f,
                    "{} {op} {}",
                    At(left, Level::Append),
                    At(right, Level::Append)
                )
            }
            Node::And(terms) => list(f, terms, " AND ", Level::Not),
            Node::Or(terms) => list(f, terms, " OR ", Level::And),
            Node::Not(inner) if negated_infix(inner) => predicate(f, inner, "NOT "),
            Node::Not(inner) => write!(f, "NOT {}", At(inner, Level::Not)),
            Node::In(..)
            | Node::Among(..)
            | Node::Between(..)
            | Node::IsNull(_)
            | Node::Like(_) => predicate(f, self, ""),
            Node::Arithmetic(op, left, right) => {
                let level = Level::of_arithmetic(*op);
                write!(f, "{} {op} {}", At(left, level), At(right, level.tighter()))
            }
            Node::Negate(inner) => match inner.node() {
                // `-5` would be parsed as a literal, and `--` begins a comment.
                Node::Literal(_) => write!(f, "-({inner})"),
                _ => write!(f, "-{}", At(inner, Level::Atom)),
            },
            Node::Cast(inner, data_type) => match types::name_of(data_type) {
                Some(name) => write!(f, "CAST({inner} AS {name})"),
                None => write!(f, "CAST({inner} AS \"{data_type}\")"),
            },
            Node::TryCast(inner, data_type) => match types::name_of(data_type) {
                Some(name) => write!(f, "TRY_CAST({inner} AS {name})"),
                None => write!(f, "TRY_CAST({inner} AS \"{data_type}\")"),
            },
            Node::Case(case) => {
                f.write_str("CASE")?;
                if let Some(operand) = &case.operand {
                    write!(f, " {operand}")?;
                }
                for (when, then) in &case.branches {
                    write!(f, " WHEN {when} THEN {then}")?;
                }
                if let Some(otherwise) = &case.otherwise {
                    write!(f, " ELSE {otherwise}")?;
                }
                f.write_str(" END")
            }
            Node::Coalesce(arguments) => {
                f.write_str("COALESCE(")?;
                list(f, arguments, ", ", Level::Or)?;
                f.write_char(')')
            }
            Node::Call(Function::Distinct | Function::SimilarTo, _) => predicate(f, self, ""),
            Node::Call(Function::Append, arguments) => match arguments.as_slice() {
                [left, right] => {
                    let right = At(right, Level::Append.tighter());
                    write!(f, "{} || {right}", At(left, Level::Append))
                }
                _ => f.write_str("||"),
            },
            Node::Call(Function::Element, arguments) => match arguments.as_slice() {
                // A literal in front of a bracket is no operand of it in the grammar.
                [of, key] if matches!(of.node(), Node::Literal(_)) => write!(f, "({of})[{key}]"),
                [of, key] => write!(f, "{}[{key}]", At(of, Level::Atom)),
                _ => f.write_str("[]"),
            },
            Node::Call(function, arguments) => {
                write!(f, "{}(", function.name())?;
                list(f, arguments, ", ", Level::Or)?;
                f.write_char(')')
            }
            Node::TooDeep => f.write_str("<nested too deeply>"),
        }
    }
}

/// A predicate that takes `NOT` before its keyword.
fn predicate(f: &mut Formatter<'_>, expr: &Expr, not: &str) -> fmt::Result {
    match expr.node() {
        Node::In(operand, items) => {
            write!(f, "{} {not}IN (", At(operand, Level::Append))?;
            list(f, items, ", ", Level::Or)?;
            f.write_char(')')
        }
        Node::Among(operand, values) => {
            write!(f, "{} {not}IN (", At(operand, Level::Append))?;
            for position in 0..values.len() {
                if position > 0 {
                    f.write_str(", ")?;
                }
                values.literal(position).fmt(f)?;
            }
            f.write_char(')')
        }
        Node::Between(operand, low, high) => write!(
            f,
            "{} {not}BETWEEN {} AND {}",
            At(operand, Level::Append),
            At(low, Level::Append),
            At(high, Level::Append)
        ),
        Node::IsNull(operand) => write!(f, "{} IS {not}NULL", At(operand, Level::Append)),
        Node::Like(like) => {
            let operator = if like.ignore_case { "ILIKE" } else { "LIKE" };
            let (operand, pattern) = (
                At(&like.operand, Level::Append),
                At(&like.pattern, Level::Append),
            );
            write!(f, "{operand} {not}{operator} {pattern}")?;
            match like.escape {
                Some(escape) => {
                    write!(f, " ESCAPE {}", Scalar::String(escape.to_string()))
                }
                None => Ok(()),
            }
        }
        Node::Call(Function::Distinct, arguments) => match arguments.as_slice() {
            [left, right] => {
                let (left, right) = (At(left, Level::Append), At(right, Level::Append));
                write!(f, "{left} IS {not}DISTINCT FROM {right}")
            }
            _ => f.write_str("IS DISTINCT FROM"),
        },
        Node::Call(Function::SimilarTo, arguments) => match arguments.as_slice() {
            [left, right] => {
                let (left, right) = (At(left, Level::Append), At(right, Level::Append));
                write!(f, "{left} {not}SIMILAR TO {right}")
            }
            _ => f.write_str("SIMILAR TO"),
        },
        _ => expr.fmt(f),
    }
}

impl Display for Scalar {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Boolean(true) => f.write_str("TRUE"),
            Self::Boolean(false) => f.write_str("FALSE"),
            Self::Integer(value) => value.fmt(f),
            Self::Decimal { unscaled, scale } => write_decimal(f, &unscaled.to_string(), *scale),
            Self::WideDecimal { unscaled, scale: 0 } => unscaled.fmt(f),
            Self::WideDecimal { unscaled, scale } => {
                write_decimal(f, &unscaled.to_string(), *scale)
            }
            Self::Float(value) if value.is_nan() => f.write_str("CAST('NaN' AS DOUBLE)"),
            Self::Float(f64::INFINITY) => f.write_str("CAST('Infinity' AS DOUBLE)"),
            Self::Float(f64::NEG_INFINITY) => f.write_str("CAST('-Infinity' AS DOUBLE)"),
            negative_zero if negative_zero.is_negative_zero() => f.write_str("-0.0"),
            // Without an exponent the number would be parsed as a decimal.
            Self::Float(value) => write!(f, "{value:e}"),
            Self::String(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Self::Binary(bytes) => {
                f.write_str("X'")?;
                for byte in bytes {
                    write!(f, "{byte:02x}")?;
                }
                f.write_char('\'')
            }
            Self::Date(days) => {
                f.write_str("DATE '")?;
                write_date(f, i128::from(*days))?;
                f.write_char('\'')
            }
            Self::Time(nanos) => {
                f.write_str("TIME '")?;
                write_time(f, i128::from(*nanos))?;
                f.write_char('\'')
            }
            Self::Timestamp { nanos, zoned } => {
                f.write_str("TIMESTAMP '")?;
                write_date(f, nanos.div_euclid(NANOS_PER_DAY))?;
                f.write_char(' ')?;
                write_time(f, nanos.rem_euclid(NANOS_PER_DAY))?;
                f.write_str(if *zoned { "Z'" } else { "'" })
            }
            Self::Interval {
                months,
                days,
                nanos,
            } => {
                write!(
                    f,
                    "INTERVAL '{months} months {days} days {nanos} nanoseconds'"
                )
            }
        }
    }
}

/// Writes the digits of a number, which may begin with a sign, with a point before the last `scale` of them.
fn write_decimal(f: &mut Formatter<'_>, unscaled: &str, scale: u8) -> fmt::Result {
    let scale = usize::from(scale);
    let (sign, digits) = match unscaled.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", unscaled),
    };
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    write!(f, "{sign}{whole}.{fraction}")
}
