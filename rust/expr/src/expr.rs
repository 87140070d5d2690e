//! The expression tree before binding, and the methods that build it.

use std::sync::Arc;

use arrow_schema::DataType;

use crate::{function::Function, path::ColumnPath, scalar::Scalar, values::Values};

/// Depth limit of a tree: every walk over it recurses, so the depth bounds the stack.
///
/// Chains of `AND` and of `OR` are one level however long they are.
pub(crate) const MAX_DEPTH: u16 = 96;

/// An expression over named columns, not yet bound to a schema.
///
/// Cheap to clone. Its `Display` is SQL text which [`parse_sql`](crate::parse_sql) reads back to an equal tree; that text
/// is also the portable form.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    node: Arc<Node>,
    depth: u16,
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `=`
    Eq,
    /// `<>`
    NotEq,
    /// `<`
    Lt,
    /// `<=`
    LtEq,
    /// `>`
    Gt,
    /// `>=`
    GtEq,
}

impl CompareOp {
    /// The operator that gives the same answer with the sides exchanged.
    pub(crate) fn flip(self) -> Self {
        match self {
            Self::Lt => Self::Gt,
            Self::LtEq => Self::GtEq,
            Self::Gt => Self::Lt,
            Self::GtEq => Self::LtEq,
            same => same,
        }
    }
}

/// Arithmetic on two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArithmeticOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`, of floats, whatever the operands
    Divide,
    /// `//`, of integers, cut off towards zero
    IntegerDivide,
    /// `%`
    Modulo,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Column(ColumnPath),
    Literal(Scalar),
    Compare(CompareOp, Expr, Expr),
    /// Two or more terms, none of them an `And`.
    And(Vec<Expr>),
    /// Two or more terms, none of them an `Or`.
    Or(Vec<Expr>),
    Not(Expr),
    In(Expr, Vec<Expr>),
    /// `IN` of many values.
    Among(Expr, Values),
    Between(Expr, Expr, Expr),
    IsNull(Expr),
    Like(Like),
    Arithmetic(ArithmeticOp, Expr, Expr),
    Negate(Expr),
    Cast(Expr, DataType),
    /// As `Cast`, with null for a value that does not convert.
    TryCast(Expr, DataType),
    Case(Case),
    Coalesce(Vec<Expr>),
    Call(Function, Vec<Expr>),
    /// Replaces a tree deeper than [`MAX_DEPTH`]: building never fails, and binding reports the error.
    TooDeep,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Like {
    pub(crate) operand: Expr,
    pub(crate) pattern: Expr,
    pub(crate) escape: Option<char>,
    pub(crate) ignore_case: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case {
    pub(crate) operand: Option<Expr>,
    pub(crate) branches: Vec<(Expr, Expr)>,
    pub(crate) otherwise: Option<Expr>,
}

/// The column of that name. A dot leads into a struct (`"a.b"`) unless a top level column has the whole name.
pub fn col(name: impl Into<String>) -> Expr {
    Expr::column(ColumnPath::new([name.into()]))
}

/// A literal value.
pub fn lit(value: impl Into<Scalar>) -> Expr {
    Expr::leaf(Node::Literal(value.into()))
}

/// `CASE WHEN condition THEN value … ELSE otherwise END`; without `otherwise` the rest is null.
pub fn case_when(branches: Vec<(Expr, Expr)>, otherwise: Option<Expr>) -> Expr {
    Expr::case(None, branches, otherwise)
}

/// The first argument that is not null.
pub fn coalesce(arguments: Vec<Expr>) -> Expr {
    let depth = deepest(&arguments);
    Expr::inner(Node::Coalesce(arguments), depth)
}

/// A function by its kind; [`Expr::length`] and others are shorter to write.
pub fn call(function: Function, arguments: Vec<Expr>) -> Expr {
    let depth = deepest(&arguments);
    Expr::inner(Node::Call(function, arguments), depth)
}

fn deepest(items: &[Expr]) -> u16 {
    items.iter().map(|item| item.depth).max().unwrap_or(0)
}

macro_rules! comparisons {
    ($($name:ident => $op:ident, $text:literal;)*) => {$(
        #[doc = concat!("`self ", $text, " other`")]
        #[must_use]
        pub fn $name(self, other: Self) -> Self {
            self.compare(CompareOp::$op, other)
        }
    )*};
}

macro_rules! operations {
    ($($name:ident => $op:ident, $text:literal;)*) => {$(
        #[doc = concat!("`self ", $text, " other`")]
        #[expect(clippy::should_implement_trait, reason = "a query is built by methods, as comparisons must be")]
        #[must_use]
        pub fn $name(self, other: Self) -> Self {
            self.arithmetic(ArithmeticOp::$op, other)
        }
    )*};
}

macro_rules! functions {
    ($($name:ident => $function:ident;)*) => {$(
        #[doc = concat!("See [`Function::", stringify!($function), "`].")]
        #[must_use]
        pub fn $name(self) -> Self {
            call(Function::$function, vec![self])
        }
    )*};
}

impl Expr {
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    fn leaf(node: Node) -> Self {
        Self {
            node: Arc::new(node),
            depth: 1,
        }
    }

    fn inner(node: Node, deepest_child: u16) -> Self {
        if deepest_child >= MAX_DEPTH {
            return Self {
                node: Arc::new(Node::TooDeep),
                depth: MAX_DEPTH,
            };
        }
        Self {
            node: Arc::new(node),
            depth: deepest_child + 1,
        }
    }

    /// A column by its path; [`col`] takes a name.
    pub fn column(path: ColumnPath) -> Self {
        Self::leaf(Node::Column(path))
    }

    comparisons! {
        eq => Eq, "=";
        not_eq => NotEq, "<>";
        lt => Lt, "<";
        lt_eq => LtEq, "<=";
        gt => Gt, ">";
        gt_eq => GtEq, ">=";
    }

    operations! {
        add => Add, "+";
        sub => Subtract, "-";
        mul => Multiply, "*";
        div => Divide, "/";
        rem => Modulo, "%";
    }

    functions! {
        length => Length;
        lower => Lower;
        upper => Upper;
        abs => Abs;
        year => Year;
        month => Month;
        day => Day;
        hour => Hour;
        minute => Minute;
        second => Second;
    }

    /// `self // other`, of integers, cut off towards zero
    #[must_use]
    pub fn div_whole(self, other: Self) -> Self {
        self.arithmetic(ArithmeticOp::IntegerDivide, other)
    }

    /// A comparison by its operator.
    #[must_use]
    pub fn compare(self, op: CompareOp, other: Self) -> Self {
        let depth = self.depth.max(other.depth);
        Self::inner(Node::Compare(op, self, other), depth)
    }

    /// `IEEE(self)` of a comparison, see [`Function::Ieee`]; the comparison itself where no side can be NaN.
    #[must_use]
    pub fn ieee(self) -> Self {
        let Node::Compare(op, _, right) = self.node() else {
            return call(Function::Ieee, vec![self]);
        };
        match right.node() {
            // In this crate NaN is greater than every number, so `<`, `<=`, `=` and `<>` with a number that is not NaN have the
            // answer of IEEE 754 already.
            Node::Literal(Scalar::Float(value))
                if !value.is_nan() && !matches!(op, CompareOp::Gt | CompareOp::GtEq) =>
            {
                self
            }
            Node::Literal(
                Scalar::Integer(_) | Scalar::Decimal { .. } | Scalar::WideDecimal { .. },
            ) if !matches!(op, CompareOp::Gt | CompareOp::GtEq) => self,
            _ => call(Function::Ieee, vec![self]),
        }
    }

    /// Arithmetic by its operator.
    #[must_use]
    pub fn arithmetic(self, op: ArithmeticOp, other: Self) -> Self {
        let depth = self.depth.max(other.depth);
        Self::inner(Node::Arithmetic(op, self, other), depth)
    }

    /// `self AND other`; chains stay one level deep.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let mut terms = self.into_terms(true);
        terms.extend(other.into_terms(true));
        let depth = deepest(&terms);
        Self::inner(Node::And(terms), depth)
    }

    /// `self OR other`; chains stay one level deep.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let mut terms = self.into_terms(false);
        terms.extend(other.into_terms(false));
        let depth = deepest(&terms);
        Self::inner(Node::Or(terms), depth)
    }

    /// `AND` of all terms; `None` for an empty list.
    pub fn all(terms: impl IntoIterator<Item = Self>) -> Option<Self> {
        Self::chain(terms, true)
    }

    /// `OR` of all terms; `None` for an empty list.
    pub fn any(terms: impl IntoIterator<Item = Self>) -> Option<Self> {
        Self::chain(terms, false)
    }

    fn chain(terms: impl IntoIterator<Item = Self>, is_and: bool) -> Option<Self> {
        let mut all: Vec<Self> = terms
            .into_iter()
            .flat_map(|term| term.into_terms(is_and))
            .collect();
        if all.len() < 2 {
            return all.pop();
        }
        let depth = deepest(&all);
        Some(Self::inner(
            if is_and {
                Node::And(all)
            } else {
                Node::Or(all)
            },
            depth,
        ))
    }

    /// The terms of a chain of one kind, or the expression alone.
    fn into_terms(self, is_and: bool) -> Vec<Self> {
        match (&*self.node, is_and) {
            (Node::And(_), true) | (Node::Or(_), false) => match Arc::unwrap_or_clone(self.node) {
                Node::And(terms) | Node::Or(terms) => terms,
                _ => Vec::new(),
            },
            _ => vec![self],
        }
    }

    /// `NOT self`
    #[expect(
        clippy::should_implement_trait,
        reason = "a query is built by methods throughout"
    )]
    #[must_use]
    pub fn not(self) -> Self {
        let depth = self.depth;
        Self::inner(Node::Not(self), depth)
    }

    /// `self IN (list)`; no value is in an empty list.
    #[must_use]
    pub fn is_in(self, list: Vec<Self>) -> Self {
        let depth = self.depth.max(deepest(&list));
        Self::inner(Node::In(self, list), depth)
    }

    /// `self IN (values)`; no value is in an empty list.
    #[must_use]
    pub fn is_among(self, values: Values) -> Self {
        let depth = self.depth;
        Self::inner(Node::Among(self, values), depth)
    }

    /// `self BETWEEN low AND high`, both ends included.
    #[must_use]
    pub fn between(self, low: Self, high: Self) -> Self {
        let depth = self.depth.max(low.depth).max(high.depth);
        Self::inner(Node::Between(self, low, high), depth)
    }

    /// `self IS NULL`
    #[must_use]
    pub fn is_null(self) -> Self {
        let depth = self.depth;
        Self::inner(Node::IsNull(self), depth)
    }

    /// `self IS NOT NULL`
    #[must_use]
    pub fn is_not_null(self) -> Self {
        self.is_null().not()
    }

    /// `self LIKE pattern`: `%` is any text, `_` any one character; no escape character.
    #[must_use]
    pub fn like(self, pattern: impl Into<String>) -> Self {
        self.like_with(lit(pattern.into()), None, false)
    }

    /// `self ILIKE pattern`: as [`Expr::like`], without regard to case.
    #[must_use]
    pub fn ilike(self, pattern: impl Into<String>) -> Self {
        self.like_with(lit(pattern.into()), None, true)
    }

    /// `self [I]LIKE pattern ESCAPE escape`
    #[must_use]
    pub fn like_with(self, pattern: Self, escape: Option<char>, ignore_case: bool) -> Self {
        let depth = self.depth.max(pattern.depth);
        Self::inner(
            Node::Like(Like {
                operand: self,
                pattern,
                escape,
                ignore_case,
            }),
            depth,
        )
    }

    /// `STARTS_WITH(self, prefix)`
    #[must_use]
    pub fn starts_with(self, prefix: Self) -> Self {
        call(Function::StartsWith, vec![self, prefix])
    }

    /// `ENDS_WITH(self, suffix)`
    #[must_use]
    pub fn ends_with(self, suffix: Self) -> Self {
        call(Function::EndsWith, vec![self, suffix])
    }

    /// `CONTAINS(self, part)`
    #[must_use]
    pub fn contains(self, part: Self) -> Self {
        call(Function::Contains, vec![self, part])
    }

    /// `-self`; of a number literal, the negative literal.
    #[expect(
        clippy::should_implement_trait,
        reason = "a query is built by methods throughout"
    )]
    #[must_use]
    pub fn neg(self) -> Self {
        let folded = match &*self.node {
            Node::Literal(Scalar::Integer(value)) => value.checked_neg().map(Scalar::Integer),
            Node::Literal(Scalar::Decimal { unscaled: 0, .. }) => Some(Scalar::Float(-0.0)),
            Node::Literal(Scalar::Decimal { unscaled, scale }) => {
                unscaled.checked_neg().map(|unscaled| Scalar::Decimal {
                    unscaled,
                    scale: *scale,
                })
            }
            Node::Literal(Scalar::WideDecimal { unscaled, scale }) => unscaled
                .checked_neg()
                .and_then(|unscaled| Scalar::number(unscaled, *scale)),
            Node::Literal(Scalar::Float(value)) => Some(Scalar::Float(-value)),
            _ => None,
        };
        match folded {
            Some(scalar) => lit(scalar),
            None => {
                let depth = self.depth;
                Self::inner(Node::Negate(self), depth)
            }
        }
    }

    /// `CAST(self AS data_type)`. Floats that have no digits (`NaN`, the infinities) are written as casts of their names.
    #[must_use]
    pub fn cast(self, data_type: DataType) -> Self {
        if let (Node::Literal(Scalar::String(name)), DataType::Float64) = (&*self.node, &data_type)
        {
            let value = match name.as_str() {
                "NaN" => Some(f64::NAN),
                "Infinity" => Some(f64::INFINITY),
                "-Infinity" => Some(f64::NEG_INFINITY),
                _ => None,
            };
            if let Some(value) = value {
                return lit(value);
            }
        }
        let depth = self.depth;
        Self::inner(Node::Cast(self, data_type), depth)
    }

    /// `TRY_CAST(self AS data_type)`: null for a value that does not convert.
    #[must_use]
    pub fn try_cast(self, data_type: DataType) -> Self {
        let depth = self.depth;
        Self::inner(Node::TryCast(self, data_type), depth)
    }

    /// `self[key]`, see [`Function::Element`].
    #[must_use]
    pub fn element(self, key: Self) -> Self {
        call(Function::Element, vec![self, key])
    }

    /// `self IS TRUE` or `self IS FALSE`: as the condition or its negation, but false where it is null.
    #[must_use]
    pub fn is_truth(self, truth: bool) -> Self {
        // Of a column the form that statistics decide; of other operands the form that has the operand once.
        if matches!(self.node(), Node::Column(_)) {
            let known = self.clone().is_not_null();
            let condition = if truth { self } else { self.not() };
            return condition.and(known);
        }
        let assumed = coalesce(vec![self, lit(!truth)]);
        if truth { assumed } else { assumed.not() }
    }

    /// `self IS DISTINCT FROM other`: as `<>`, with null as a value.
    #[must_use]
    pub fn is_distinct_from(self, other: Self) -> Self {
        call(Function::Distinct, vec![self, other])
    }

    /// `CASE [operand] WHEN … THEN … ELSE … END`
    pub fn case(
        operand: Option<Self>,
        branches: Vec<(Self, Self)>,
        otherwise: Option<Self>,
    ) -> Self {
        let depth = branches
            .iter()
            .flat_map(|(when, then)| [when.depth, then.depth])
            .chain(operand.iter().chain(&otherwise).map(|part| part.depth))
            .max()
            .unwrap_or(0);
        Self::inner(
            Node::Case(Case {
                operand,
                branches,
                otherwise,
            }),
            depth,
        )
    }
}

impl From<Scalar> for Expr {
    fn from(value: Scalar) -> Self {
        lit(value)
    }
}
