//! Extension types: which conversions keep their meaning, and what their values must be.

use arrow_array::Array;
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::{
    DataType, Field,
    extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY},
};

use super::{
    error::Refusal,
    text::{is_text, reader},
};
use crate::types::unpacked_type;

/// A rule for the values of an extension type, beyond that of its storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExtensionCheck {
    Json,
}

fn name_of(field: &Field) -> Option<&str> {
    field
        .metadata()
        .get(EXTENSION_TYPE_NAME_KEY)
        .map(String::as_str)
}

/// Decides by the extension types of two fields. Values that are declared to be of the extension already are checked too,
/// because nothing but the declaration says so, unless they `are_stored` in a table, where they were checked before.
///
/// # Errors
/// If one extension type would become another one, or one with other parameters.
pub(crate) fn extension(
    from: &Field,
    to: &Field,
    are_stored: bool,
) -> Result<Option<ExtensionCheck>, Box<Refusal>> {
    let parameters = |field: &Field| {
        let parameters = field.metadata().get(EXTENSION_TYPE_METADATA_KEY);
        parameters
            .filter(|parameters| !parameters.is_empty())
            .cloned()
    };
    let refuse = |reason: String| {
        let remedy = "convert it to its storage type first";
        Err(Refusal::of_types(from.data_type(), to.data_type(), reason).remedy(remedy))
    };
    match (name_of(from), name_of(to)) {
        (Some(a), Some(b)) if a != b => refuse(format!("extension type {a} is not {b}")),
        (Some(a), Some(_)) if parameters(from) != parameters(to) => {
            refuse(format!("extension type {a} has other parameters"))
        }
        (before, Some("arrow.json"))
            if is_text(unpacked_type(to.data_type())) && !(are_stored && before.is_some()) =>
        {
            Ok(Some(ExtensionCheck::Json))
        }
        _ => Ok(None),
    }
}

/// The first row whose value breaks the rule of the extension type.
pub(crate) fn first_broken(
    check: ExtensionCheck,
    array: &dyn Array,
    valid: Option<&NullBuffer>,
) -> Option<usize> {
    let ExtensionCheck::Json = check;
    let flat = match array.data_type() {
        DataType::Dictionary(_, values) => Some(cast(array, values).ok()?),
        _ => None,
    };
    let array = flat.as_deref().unwrap_or(array);
    let read = reader(array)?;
    let is_json = |bytes: &[u8]| serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
    (0..array.len())
        .find(|row| valid.is_none_or(|valid| valid.is_valid(*row)) && !is_json(read(*row)))
}
