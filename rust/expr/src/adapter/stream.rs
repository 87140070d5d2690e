//! Batches of one stream: each has the columns that the schema of the stream says, at every level in any order.

use arrow_array::ArrayRef;
use arrow_schema::{
    DataType, Field, Fields,
    extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY},
};
use pilum_common::type_name;

use super::error::AdaptError;
use crate::{
    convert::{AdaptOptions, Extra, Missing, Mode, apply, step},
    lists::item_of,
};

/// The columns of a batch in the order in which its stream declares them. Columns and struct members are matched by name;
/// `batch` counts the batches of the stream from 0.
///
/// # Errors
/// [`AdaptError::Batch`] if the batch has not the same names and types as the stream; [`AdaptError::Value`] for a null where
/// the stream declares none.
pub fn in_order_of(
    said: &Fields,
    found: &Fields,
    columns: &[ArrayRef],
    batch: u64,
) -> Result<Vec<ArrayRef>, AdaptError> {
    if said.len() == found.len() && said.iter().zip(found).all(|(a, b)| is_same(a, b)) {
        return Ok(columns.to_vec());
    }
    let contradicts = |difference: String| AdaptError::Batch { batch, difference };
    if let Some(difference) = difference(said, found, "") {
        return Err(contradicts(difference));
    }
    let options = AdaptOptions {
        missing: Missing::Error,
        extra: Extra::Error,
        cast: Mode::Exact,
        // The adapter checks the values once they are in order.
        are_stored: true,
    };
    let column = |target: &arrow_schema::FieldRef| {
        let name = target.name();
        let source = found.find(name).and_then(|(position, field)| {
            let column = columns.get(position)?;
            Some((field, column))
        });
        let (field, column) =
            source.ok_or_else(|| contradicts(format!("column `{name}` is missing")))?;
        step(field, target, options)
            .and_then(|step| apply(&step, column, None))
            .map_err(|refusal| AdaptError::Value(refusal.under(name).into_error()))
    };
    said.iter().map(column).collect()
}

fn extension_of(field: &Field) -> (Option<&String>, &str) {
    let metadata = field.metadata();
    let parameters = metadata.get(EXTENSION_TYPE_METADATA_KEY);
    (
        metadata.get(EXTENSION_TYPE_NAME_KEY),
        parameters.map_or("", String::as_str),
    )
}

/// Same name, type and extension type.
fn is_same(said: &Field, found: &Field) -> bool {
    said.name() == found.name()
        && said.data_type() == found.data_type()
        && extension_of(said) == extension_of(found)
}

/// The first difference in names and types; the order of names is none.
fn difference(said: &Fields, found: &Fields, above: &str) -> Option<String> {
    let path = |name: &str| format!("`{above}{name}`");
    let names = |fields: &Fields, others: &Fields| -> Vec<String> {
        let fields = fields.iter().map(|field| field.name());
        let unknown = fields.filter(|name| others.find(name).is_none());
        unknown.map(|name| path(name)).collect()
    };
    let (lacks, adds) = (names(said, found), names(found, said));
    let first = |names: &[String]| names.first().cloned().unwrap_or_default();
    match (lacks.is_empty(), adds.is_empty()) {
        (false, false) => {
            return Some(format!(
                "the schema has column {} and the batch has {} instead",
                first(&lacks),
                first(&adds)
            ));
        }
        (false, true) => {
            return Some(format!(
                "column {} of the schema is not in the batch",
                first(&lacks)
            ));
        }
        (true, false) => {
            return Some(format!(
                "column {} of the batch is not in the schema",
                first(&adds)
            ));
        }
        (true, true) => {}
    }
    let (wanted, given) = (said.len(), found.len());
    if wanted != given {
        let reason = "a name occurs more than once";
        return Some(format!(
            "the schema has {wanted} columns and the batch {given}: {reason}"
        ));
    }
    said.iter().find_map(|said| {
        let (_, found) = found.find(said.name())?;
        of_types(said, found, &format!("{above}{}", said.name()))
    })
}

/// The first difference between the types of two fields with the same name.
fn of_types(said: &Field, found: &Field, path: &str) -> Option<String> {
    let differ = || {
        Some(format!(
            "column `{path}` is {} in the schema and {} in the batch",
            type_name(said.data_type()),
            type_name(found.data_type())
        ))
    };
    if extension_of(said) != extension_of(found) {
        let name = |field: &Field| {
            extension_of(field)
                .0
                .map_or("none", String::as_str)
                .to_owned()
        };
        return Some(format!(
            "column `{path}` has the extension type {} in the schema and {} in the batch",
            name(said),
            name(found)
        ));
    }
    match (said.data_type(), found.data_type()) {
        (said, found) if said == found => None,
        (DataType::Struct(said), DataType::Struct(found)) => {
            difference(said, found, &format!("{path}."))
        }
        (DataType::Map(said, sorted), DataType::Map(found, other)) if sorted == other => {
            match (said.data_type(), found.data_type()) {
                (DataType::Struct(said), DataType::Struct(found))
                    if said.len() == 2 && found.len() == 2 =>
                {
                    let mut pairs = said.iter().zip(found);
                    pairs.find_map(|(said, found)| {
                        of_types(said, found, &format!("{path}.{}", said.name()))
                    })
                }
                _ => differ(),
            }
        }
        (DataType::Map(..), _) | (_, DataType::Map(..)) => differ(),
        (DataType::FixedSizeList(_, size), DataType::FixedSizeList(_, other)) if size != other => {
            differ()
        }
        (a, b) if std::mem::discriminant(a) == std::mem::discriminant(b) => {
            match (item_of(a), item_of(b)) {
                // What items are called is a declaration, and no part of their values.
                (Some(said), Some(found)) => {
                    of_types(said, found, &format!("{path}.{}", said.name()))
                }
                _ => differ(),
            }
        }
        _ => differ(),
    }
}
