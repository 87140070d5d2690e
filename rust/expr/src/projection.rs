//! The columns that a read of any source asks for.

use crate::expr::Expr;

/// The columns of a read.
#[derive(Clone, Debug, Default)]
pub enum Projection {
    /// All columns of the schema.
    #[default]
    All,
    /// The columns with these names, in this order. `a.b` is the member `b` of the struct `a`.
    Names(Vec<String>),
    /// Computed columns: the name and the expression of each.
    Expressions(Vec<(String, Expr)>),
}
