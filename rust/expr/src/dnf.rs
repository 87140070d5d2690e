//! Filters as lists of tuples `(column, operator, value)`: an `OR` of `AND`s.

use crate::{
    error::{Error, Result, shorten},
    expr::{CompareOp, Expr, col, lit},
    scalar::Scalar,
};

/// The value of one tuple.
#[derive(Debug, Clone, PartialEq)]
pub enum DnfValue {
    /// For comparisons.
    One(Scalar),
    /// For `in` and `not in`.
    Many(Vec<Scalar>),
}

/// One tuple: column (a dot leads into structs), operator, value.
pub type DnfTerm = (String, String, DnfValue);

const OPERATORS: &str = "=, ==, !=, <, <=, >, >=, in, not in";

/// Reads filters in the form of pyarrow and Kartothek: the outer list is `OR`, each inner list `AND`.
///
/// Null has the meaning of SQL: nothing compares equal to it, and `in` never finds it.
///
/// # Errors
/// [`Error::InvalidInput`] for an empty list and for a value that does not fit its operator; [`Error::Unsupported`] for an
/// unknown operator.
pub fn from_dnf(predicate: Vec<Vec<DnfTerm>>) -> Result<Expr> {
    let empty = || {
        Error::invalid(
            "DNF predicate",
            "it is empty; pass no filter at all to keep every row",
        )
    };
    let mut alternatives = Vec::with_capacity(predicate.len());
    for conjunction in predicate {
        let terms = conjunction
            .into_iter()
            .map(term)
            .collect::<Result<Vec<_>>>()?;
        alternatives.push(Expr::all(terms).ok_or_else(empty)?);
    }
    Expr::any(alternatives).ok_or_else(empty)
}

fn term((column, operator, value): DnfTerm) -> Result<Expr> {
    let op = match operator.trim() {
        "=" | "==" => CompareOp::Eq,
        "!=" => CompareOp::NotEq,
        "<" => CompareOp::Lt,
        "<=" => CompareOp::LtEq,
        ">" => CompareOp::Gt,
        ">=" => CompareOp::GtEq,
        "in" | "not in" => {
            return match value {
                DnfValue::Many(values) => {
                    let found = col(column).is_in(values.into_iter().map(lit).collect());
                    Ok(if operator.trim() == "in" {
                        found
                    } else {
                        found.not()
                    })
                }
                DnfValue::One(_) => Err(Error::invalid(
                    &format!("({column}, {operator}, …)"),
                    "this operator needs a list of values",
                )),
            };
        }
        other => {
            return Err(Error::unsupported(format!(
                "operator {} in a DNF predicate; allowed are {OPERATORS}",
                shorten(other)
            )));
        }
    };
    match value {
        DnfValue::One(value) => Ok(col(column).compare(op, lit(value))),
        DnfValue::Many(_) => Err(Error::invalid(
            &format!("({column}, {operator}, …)"),
            "this operator needs one value; use in or not in for a list",
        )),
    }
}
