//! The columns that a read of any source asks for.

use crate::expr::Expr;

/// The columns of a read.
#[derive(Clone, Debug, Default)]
pub enum Projection {
    /// All of the schema.
    #[default]
    All,
    /// These, in this order; `a.b` is member `b` of struct `a`.
    Names(Vec<String>),
    /// Computed ones: a name and an expression each.
    Expressions(Vec<(String, Expr)>),
}
