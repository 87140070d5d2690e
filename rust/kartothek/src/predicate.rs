//! Predicates in the form of Kartothek, lists of lists of `(column, operator, value)`, with the meaning that Kartothek's row filter
//! has: a null is unlike every value, so `!=` finds it, and NaN is a null.

use arrow_schema::{DataType, Schema};
use pilum_expr::{DnfValue, Expr, Scalar, col, lit, similar};

use crate::error::{Error, Result};
use crate::names::shortened;

/// One condition: column, operator, value.
pub type Condition = (String, String, DnfValue);

const OPERATORS: &str = "==, !=, <, <=, >, >=, in";

/// The expression of a predicate over the columns of a table. The outer list is OR, each inner list AND.
///
/// | row | `== v` | `!= v` | `<` ... v | `in L` | `== null` | `!= null` |
/// |---|---|---|---|---|---|---|
/// | value x | x = v | x != v | order | x in L | false | true |
/// | null, NaN | false | true | false | null in L | true | false |
///
/// # Errors
/// `CommonError::InvalidInput` for an empty list, an unknown column, and a value that does not fit its operator;
/// `CommonError::Unsupported` for an unknown operator.
pub fn from_predicates(predicates: Vec<Vec<Condition>>, schema: &Schema) -> Result<Expr> {
    let empty = |what: &str| {
        Error::invalid(
            "predicates",
            format!("Empty predicates: {what}; pass None to read all rows"),
        )
    };
    let mut alternatives = Vec::with_capacity(predicates.len());
    for conjunction in predicates {
        let terms = conjunction
            .into_iter()
            .map(|condition| term(condition, schema))
            .collect::<Result<Vec<_>>>()?;
        alternatives.push(Expr::all(terms).ok_or_else(|| empty("an inner list has no condition"))?);
    }
    Expr::any(alternatives).ok_or_else(|| empty("the list has no alternative"))
}

fn term((column, operator, value): Condition, schema: &Schema) -> Result<Expr> {
    let Some((_, field)) = schema.fields().find(&column) else {
        let names = schema.fields().iter().map(|it| it.name().as_str());
        let hint = similar(&column, names).into_iter().next();
        return Err(Error::invalid(
            format!("predicates: column `{}`", shortened(&column)),
            match hint {
                Some(hint) => format!("the table has no such column, did you mean `{hint}`?"),
                None => "the table has no such column".to_owned(),
            },
        ));
    };
    let what = || format!("predicates: ({column}, {}, …)", shortened(&operator));
    let is_float = field.data_type().is_floating();
    let here = || col_of(&column);
    match (operator.as_str(), value) {
        ("in", DnfValue::Many(values)) => {
            let mut wanted = Vec::with_capacity(values.len());
            let mut finds_null = false;
            for value in values {
                match is_missing(&value) {
                    true => finds_null = true,
                    false => wanted.push(lit(fitting(value, field.data_type()))),
                }
            }
            let found = here().is_in(wanted);
            Ok(match finds_null {
                true => found.or(missing(here(), is_float)),
                false => found,
            })
        }
        ("in", DnfValue::One(_)) => Err(Error::invalid(what(), "`in` needs a list of values")),
        ("==" | "!=" | "<" | "<=" | ">" | ">=", DnfValue::Many(_)) => Err(Error::invalid(
            what(),
            "this operator needs one value; use `in` for a list",
        )),
        ("==", DnfValue::One(value)) if is_missing(&value) => Ok(missing(here(), is_float)),
        ("!=", DnfValue::One(value)) if is_missing(&value) => Ok(missing(here(), is_float).not()),
        ("==", DnfValue::One(value)) => Ok(here().eq(lit(fitting(value, field.data_type())))),
        ("!=", DnfValue::One(value)) => {
            let differs = here().not_eq(lit(fitting(value, field.data_type())));
            Ok(differs.or(here().is_null()))
        }
        ("<" | "<=" | ">" | ">=", DnfValue::One(value)) => {
            if is_missing(&value) {
                return Err(Error::invalid(
                    what(),
                    "a null has no order; use `==`, `!=` or `in` to find nulls",
                ));
            }
            let value = lit(fitting(value, field.data_type()));
            let ordered = match operator.as_str() {
                "<" => here().lt(value),
                "<=" => here().lt_eq(value),
                ">" => here().gt(value),
                _ => here().gt_eq(value),
            };
            // NaN is greater than every number in expressions, and has no order here.
            Ok(match is_float && operator.starts_with('>') {
                true => ordered.and(here().lt_eq(lit(Scalar::Float(f64::INFINITY)))),
                false => ordered,
            })
        }
        _ => Err(Error::unsupported(
            what(),
            format!("the operator {}", shortened(&operator)),
            format!("allowed are {OPERATORS}"),
        )),
    }
}

/// The column of exactly that name, which may have dots.
fn col_of(column: &str) -> Expr {
    col(column)
}

fn is_missing(value: &Scalar) -> bool {
    match value {
        Scalar::Null => true,
        Scalar::Float(value) => value.is_nan(),
        _ => false,
    }
}

fn missing(column: Expr, is_float: bool) -> Expr {
    let null = column.clone().is_null();
    match is_float {
        // In expressions NaN equals NaN.
        true => null.or(column.eq(lit(Scalar::Float(f64::NAN)))),
        false => null,
    }
}

/// Text for bytes and bytes for text, as Kartothek converts them.
fn fitting(value: Scalar, data_type: &DataType) -> Scalar {
    match (value, data_type) {
        (Scalar::String(text), DataType::Binary | DataType::LargeBinary) => {
            Scalar::Binary(text.into_bytes())
        }
        (Scalar::Binary(bytes), DataType::Utf8 | DataType::LargeUtf8) => {
            match String::from_utf8(bytes) {
                Ok(text) => Scalar::String(text),
                Err(error) => Scalar::Binary(error.into_bytes()),
            }
        }
        (value, _) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use arrow_schema::Field;

    fn text(predicates: Vec<Vec<(&str, &str, DnfValue)>>) -> Result<String> {
        let schema = Schema::new(vec![
            Field::new("i", DataType::Int64, true),
            Field::new("f", DataType::Float64, true),
            Field::new("b", DataType::Binary, true),
        ]);
        let owned =
            |(column, op, value): (&str, &str, DnfValue)| (column.to_owned(), op.to_owned(), value);
        let predicates = predicates
            .into_iter()
            .map(|it| it.into_iter().map(owned).collect());
        from_predicates(predicates.collect(), &schema).map(|it| it.to_string())
    }

    fn one(value: impl Into<Scalar>) -> DnfValue {
        DnfValue::One(value.into())
    }

    #[test]
    fn nulls_differ_from_every_value() {
        let differs = text(vec![vec![("i", "!=", one(1))]]).unwrap();
        assert!(differs.contains("IS NULL"), "{differs}");
        let null = text(vec![vec![("f", "==", one(f64::NAN))]]).unwrap();
        assert!(null.contains("IS NULL") && null.contains("NaN"), "{null}");
        let among = text(vec![vec![(
            "i",
            "in",
            DnfValue::Many(vec![Scalar::Null, 1.into()]),
        )]]);
        assert!(among.unwrap().contains("IS NULL"));
        let bytes = text(vec![vec![("b", "==", one("ab"))]]).unwrap();
        assert!(bytes.contains("X'6162'"), "{bytes}");
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        for (predicates, kind, word) in [
            (vec![], "invalid_input", "Empty"),
            (vec![vec![]], "invalid_input", "Empty"),
            (
                vec![vec![("j", "==", one(1))]],
                "invalid_input",
                "no such column",
            ),
            (
                vec![vec![("i", "<", one(Scalar::Null))]],
                "invalid_input",
                "order",
            ),
            (vec![vec![("i", "in", one(1))]], "invalid_input", "list"),
            (
                vec![vec![("i", "==", DnfValue::Many(vec![]))]],
                "invalid_input",
                "one value",
            ),
            (
                vec![vec![("i", "not in", DnfValue::Many(vec![]))]],
                "unsupported",
                "not in",
            ),
        ] {
            let error = text(predicates).unwrap_err();
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
