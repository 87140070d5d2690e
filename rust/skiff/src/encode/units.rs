//! Refuses a column whose numbers would mean something else in the type that the format has for it.
//!
//! A stream has the plain number of a decimal or a time. Written from a column of another scale or unit, the same number would
//! be read as another value.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields};

use crate::arrow_name::arrow_name;
use crate::error::{Error, Result};
use crate::schema::is_uuid;

/// Compares the field of a batch with the field of the format, at every level.
///
/// # Errors
///
/// [`Error::Unsupported`] for decimals of another scale, times of another unit, and identifiers whose byte order is not known.
pub(crate) fn check(expected: &Field, given: &Field) -> Result<()> {
    check_types(expected, given, given.name())
}

fn check_types(expected: &Field, given: &Field, column: &str) -> Result<()> {
    let given_type = match given.data_type() {
        DataType::Dictionary(_, value) => value.as_ref(),
        other => other,
    };
    let differs = || {
        let (given, wanted) = (arrow_name(given_type), arrow_name(expected.data_type()));
        let wanted = if is_uuid(expected) {
            "arrow.uuid"
        } else {
            &wanted
        };
        let reason = format!(
            "it is {given}, and the format has {wanted}, in which the same bytes are another value; cast the column"
        );
        Err(Error::unsupported(format!("column `{column}`"), reason))
    };
    match (expected.data_type(), given_type) {
        (
            DataType::Decimal128(_, expected) | DataType::Decimal256(_, expected),
            DataType::Decimal128(_, given) | DataType::Decimal256(_, given),
        ) if expected != given => differs(),
        (expected, given) if is_time(expected) && is_time(given) => {
            // The zone is for display: the number is the same instant.
            let is_same = match (expected, given) {
                (DataType::Timestamp(one, _), DataType::Timestamp(other, _)) => one == other,
                (one, other) => one == other,
            };
            if is_same { Ok(()) } else { differs() }
        }
        (DataType::FixedSizeBinary(16), DataType::FixedSizeBinary(16))
            if is_uuid(expected) && !is_uuid(given) =>
        {
            differs()
        }
        (expected, given) => match (item(expected), item(given)) {
            (Some(expected), Some(given)) => check_types(expected, given, column),
            _ => check_members(expected, given, column),
        },
    }
}

fn is_time(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(_, _)
            | DataType::Duration(_)
    )
}

/// The field of the items of a list or of the entries of a map.
fn item(data_type: &DataType) -> Option<&Field> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => Some(item),
        _ => None,
    }
}

/// Members of structs and unions: by name where the names are known, else by their order.
fn check_members(expected: &DataType, given: &DataType, column: &str) -> Result<()> {
    let (expected, given): (Fields, Fields) = match (expected, given) {
        (DataType::Struct(expected), DataType::Struct(given)) => (expected.clone(), given.clone()),
        (DataType::Union(expected, _), DataType::Union(given, _)) => {
            let expected = expected.iter().map(|(_, field)| Arc::clone(field));
            let given = given.iter().map(|(_, field)| Arc::clone(field));
            (expected.collect(), given.collect())
        }
        _ => return Ok(()),
    };
    for (number, field) in given.iter().enumerate() {
        let same = expected.iter().find(|it| it.name() == field.name());
        if let Some(other) = same.or(expected.get(number)) {
            check_types(other, field, column)?;
        }
    }
    Ok(())
}
