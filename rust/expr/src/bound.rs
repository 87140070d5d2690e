//! The bound expression tree: names resolved, types fixed, literals converted.

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use crate::{
    error::{Error, Result},
    expr::{ArithmeticOp, CompareOp},
    function::Function,
    kernel::{in_set::InSet, pattern::Match},
    path::ColumnPath,
    scalar::Scalar,
};

/// An expression bound to a schema: names resolved, types checked, literals folded exactly into the types of the columns
/// they meet.
///
/// It can be evaluated on any batch that has the columns of [`BoundExpr::columns`] under their names and types; other
/// columns and their order do not matter.
#[derive(Debug, Clone)]
pub struct BoundExpr {
    pub(crate) root: Typed,
    pub(crate) columns: Vec<ColumnPath>,
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

#[derive(Debug, Clone)]
pub(crate) enum Bound {
    Column(ColumnPath),
    /// A literal, as written and as an array of one row.
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
    /// One pattern per row, rewritten so that the escape character is the back slash.
    Pattern(Box<Typed>, Option<char>, String),
    Arithmetic(ArithmeticOp, Box<Typed>, Box<Typed>, String),
    /// As `//`, but a divisor of zero is an error.
    Quotient(Box<Typed>, Box<Typed>, String),
    Negate(Box<Typed>, String),
    Cast(Box<Typed>, String),
    /// As `Cast`, with null for a value that does not convert.
    TryCast(Box<Typed>, String),
    /// A function of any number of arguments.
    Function(Function, Vec<Typed>, String),
    /// A temporal value as nanoseconds in a decimal128, the only type that holds all of them.
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
            | Bound::TryCast(inner, _)
            | Bound::Nanos(inner)
            | Bound::Pattern(inner, ..)
            | Bound::Call(_, inner, _) => vec![inner],
            Bound::And(terms) | Bound::Or(terms) | Bound::Function(_, terms, _) => {
                terms.iter().collect()
            }
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
            return Err(Error::Limit {
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
