//! How a condition is made of other conditions, for callers that decide its parts one by one.

use crate::expr::{Expr, Node};

/// The outermost connective of a condition.
#[derive(Debug, Clone, Copy)]
pub enum Junction<'a> {
    /// All of these.
    And(&'a [Expr]),
    /// At least one of these.
    Or(&'a [Expr]),
    /// Not this.
    Not(&'a Expr),
    /// Anything else.
    None,
}

impl Expr {
    /// The outermost connective, with the conditions that it joins.
    #[must_use]
    pub fn junction(&self) -> Junction<'_> {
        match self.node() {
            Node::And(terms) => Junction::And(terms),
            Node::Or(terms) => Junction::Or(terms),
            Node::Not(term) => Junction::Not(term),
            _ => Junction::None,
        }
    }
}
