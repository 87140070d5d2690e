//! The typed tree: what remains to be done once every type is known.

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Schema};

use crate::{
    ArithmeticOp, CompareOp, Expr, Function, Result, Scalar, bind::Binder, eval::InSet,
    path::ColumnPath,
};

/// An expression bound to a schema: names resolved, types checked, literals folded exactly into the types of the columns
/// they meet.
///
/// It can be evaluated on any batch that has the columns of [`BoundExpr::columns`] under their names and types; other
/// columns and their order do not matter.
#[derive(Debug, Clone)]
pub struct BoundExpr {
    pub(crate) root: Typed,
    columns: Vec<ColumnPath>,
}

/// Resolves the names of an expression and fixes all of its types.
///
/// Coercions never lose precision: `x > 2.5` on integers becomes `x >= 3`, a literal out of the range of a column becomes a
/// constant (null stays null), integers of both signs, decimals, dates and timestamps of any unit compare by value. The
/// exceptions are between decimals and floats: two columns compare as floats; a literal of one kind beside a column of the
/// other means the nearest value, or the digits it is written with, so that `price = 0.1` finds 0.10 in either.
pub fn bind(expr: &Expr, schema: &Schema) -> Result<BoundExpr> {
    let mut binder = Binder::new(schema);
    let root = binder.bind(expr)?;
    Ok(BoundExpr {
        root,
        columns: binder.into_columns(),
    })
}

/// As [`bind`], with the result converted to `data_type`; for assigning to a column of that type.
///
/// The conversion is checked: a value that does not fit is an error, when bound if it is a literal, else when evaluated.
pub fn bind_as(expr: &Expr, schema: &Schema, data_type: &DataType) -> Result<BoundExpr> {
    let mut binder = Binder::new(schema);
    let bound = binder.bind(expr)?;
    let root = binder.assign(bound, data_type, expr)?;
    Ok(BoundExpr {
        root,
        columns: binder.into_columns(),
    })
}

impl BoundExpr {
    /// The columns needed, each once, in order of first use; fields of structs by their own path.
    pub fn columns(&self) -> &[ColumnPath] {
        &self.columns
    }

    /// The type of the result.
    pub fn data_type(&self) -> &DataType {
        &self.root.data_type
    }

    /// Whether the result can be null.
    pub fn nullable(&self) -> bool {
        self.root.nullable
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Typed {
    pub(crate) node: Bound,
    pub(crate) data_type: DataType,
    pub(crate) nullable: bool,
}

/// How a string is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    StartsWith,
    EndsWith,
    Contains,
    /// A pattern with back slashes as its escapes.
    Like,
    /// The same, without regard to case.
    ILike,
}

#[derive(Debug, Clone)]
pub(crate) enum Bound {
    Column(ColumnPath),
    /// A value and the same as an array of one row.
    Literal(Scalar, ArrayRef),
    /// Both sides have one type, or the left is a dictionary of it.
    Compare(CompareOp, Box<Typed>, Box<Typed>),
    /// A 64 bit integer against a float, by their exact values.
    CompareIntFloat(CompareOp, Box<Typed>, Box<Typed>),
    /// The constant where the operand is not null, null elsewhere: a comparison decided by types alone.
    IfValid(bool, Box<Typed>),
    And(Vec<Typed>),
    Or(Vec<Typed>),
    Not(Box<Typed>),
    In(Box<Typed>, InSet),
    IsNull(Box<Typed>),
    Match(Match, Box<Typed>, Box<Typed>),
    /// Patterns of rows with an escape character of their own, as patterns whose escape is the back slash.
    Pattern(Box<Typed>, Option<char>, String),
    Arithmetic(ArithmeticOp, Box<Typed>, Box<Typed>, String),
    /// As `//`, but an error where the divisor is zero.
    Quotient(Box<Typed>, Box<Typed>, String),
    Negate(Box<Typed>, String),
    Cast(Box<Typed>, String),
    /// Any temporal type as nanoseconds in a decimal, where no other type holds them all.
    Nanos(Box<Typed>),
    Case(Vec<(Typed, Typed)>, Option<Box<Typed>>),
    Call(Function, Box<Typed>, String),
}

impl Typed {
    /// The operands.
    fn children(&self) -> Vec<&Self> {
        match &self.node {
            Bound::Column(_) | Bound::Literal(..) => Vec::new(),
            Bound::Compare(_, left, right)
            | Bound::CompareIntFloat(_, left, right)
            | Bound::Match(_, left, right)
            | Bound::Arithmetic(_, left, right, _)
            | Bound::Quotient(left, right, _) => vec![left, right],
            Bound::IfValid(_, inner)
            | Bound::Not(inner)
            | Bound::In(inner, _)
            | Bound::IsNull(inner)
            | Bound::Negate(inner, _)
            | Bound::Cast(inner, _)
            | Bound::Nanos(inner)
            | Bound::Pattern(inner, ..)
            | Bound::Call(_, inner, _) => vec![inner],
            Bound::And(terms) | Bound::Or(terms) => terms.iter().collect(),
            Bound::Case(branches, otherwise) => branches
                .iter()
                .flat_map(|(when, then)| [when, then])
                .chain(otherwise.as_deref())
                .collect(),
        }
    }

    fn num_nodes(&self) -> usize {
        self.children()
            .into_iter()
            .map(Self::num_nodes)
            .sum::<usize>()
            + 1
    }

    /// A copy for a form that uses its operand in several places, such as `BETWEEN`.
    ///
    /// Nested in one another such forms would double the tree at every level; the size is limited instead.
    pub(crate) fn copies(&self, count: usize) -> Result<Vec<Self>> {
        const MAX_COPIED_NODES: usize = 50_000;
        if count.saturating_mul(self.num_nodes()) > MAX_COPIED_NODES {
            return Err(crate::Error::Limit {
                what: "the size of operands that are used more than once".into(),
                limit: MAX_COPIED_NODES,
            });
        }
        Ok(vec![self.clone(); count])
    }

    pub(crate) fn boolean(node: Bound, nullable: bool) -> Self {
        Self {
            node,
            data_type: DataType::Boolean,
            nullable,
        }
    }

    pub(crate) fn literal(&self) -> Option<&Scalar> {
        match &self.node {
            Bound::Literal(scalar, _) => Some(scalar),
            _ => None,
        }
    }
}
