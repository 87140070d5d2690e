//! Predicates and expressions: parse, bind, evaluate, prune; pure.
mod bind;
mod bound;
mod calendar;
mod display;
mod dnf;
mod error;
mod eval;
mod expr;
mod parse;
mod path;
mod prune;
mod scalar;
mod types;

pub use bound::{BoundExpr, bind, bind_as};
pub use dnf::{DnfTerm, DnfValue, from_dnf};
pub use error::{Error, Result};
pub use eval::{evaluate, filter_mask};
pub use expr::{ArithmeticOp, CompareOp, Expr, Function, call, case_when, coalesce, col, lit};
pub use parse::parse_sql;
pub use path::ColumnPath;
pub use prune::{ColumnStatistics, Truth, prune};
pub use scalar::Scalar;
