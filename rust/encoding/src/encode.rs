//! Arrow arrays to the bytes of one page.
//!
//! Bytes under a null are zero, as readers of plain v1 expect (`docs/format.md`, section 3);
//! without nulls the page is the array's own memory.

mod children;
mod fixed;
mod lists;
mod page;
mod var_binary;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_buffer::NullBuffer;

use crate::beyond_v1::stored_values;
use crate::error::Error;
use crate::layout::Layout;
use crate::validity::LevelValidity;
pub use children::{items_child, list_child, struct_children};
pub use page::{EncodedPage, Lossy};

use children::encode_offsets;
use fixed::encode_fixed;
use page::{Levels, OwnNulls};
use var_binary::encode_var_binary;

/// Encodes the page of one node.
///
/// * `nullable`: of the field. A null of its own in a field that is not nullable is refused.
/// * `hidden`: the slots that are null because an ancestor is (the whole validity of the
///   ancestors). Their bytes are zeroed like nulls, but the page stores no validity for them: the
///   ancestor's page does.
/// * `position`: where in the file the first byte will lie; var-binary offsets are absolute.
///
/// # Errors
/// `Unsupported` for a type without a page, `InvalidInput` for a null in a field that is not nullable,
/// `Limit` for more list items than the offsets of the type can count.
pub fn encode_page(
    array: &dyn Array,
    nullable: bool,
    hidden: Option<&NullBuffer>,
    position: u64,
) -> Result<EncodedPage, Error> {
    if let Some(hidden) = hidden
        && hidden.len() != array.len()
    {
        return Err(Error::invalid(format!(
            "{} rows hidden or shown, the array has {}",
            hidden.len(),
            array.len()
        )));
    }
    let layout = Layout::of(array.data_type())?;
    if layout == Layout::Null {
        let mut levels = Levels::default();
        levels.validity.push(LevelValidity::V1);
        return Ok(EncodedPage::new(Vec::new(), array.len(), levels));
    }
    let valid = NullBuffer::union(array.nulls(), hidden);
    let valid = valid.filter(|v| v.null_count() > 0);
    let own = OwnNulls::find(valid.as_ref(), hidden);
    if let Some(own) = &own
        && !nullable
    {
        return Err(Error::invalid(format!(
            "{} null values in a field that is not nullable, the first in row {}; \
             make the field nullable or fill them",
            own.count, own.first
        )));
    }
    if let Layout::Var { large, .. } = layout {
        let (valid, own) = (valid.as_ref(), own.is_some());
        return if let Some(stored) = stored_values(array) {
            encode_var_binary::<i64>(stored.as_ref(), nullable, valid, own, position)
        } else if large {
            encode_var_binary::<i64>(array, nullable, valid, own, position)
        } else {
            encode_var_binary::<i32>(array, nullable, valid, own, position)
        };
    }
    let mut levels = Levels::default();
    levels.push_nulls(own, valid.as_ref());
    match layout {
        Layout::Keys { .. } => encode_keys(array, nullable, valid.as_ref(), levels),
        _ => encode_values(array, layout, valid.as_ref(), levels),
    }
}

/// The page of a node with one kind of values and no dictionary.
fn encode_values(
    array: &dyn Array,
    layout: Layout,
    valid: Option<&NullBuffer>,
    mut levels: Levels,
) -> Result<EncodedPage, Error> {
    let (bytes, length) = match layout {
        Layout::Fixed(_) => (encode_fixed(array, valid, 1, &mut levels)?, array.len()),
        Layout::Offsets { large: true } => {
            (Some(encode_offsets::<i64>(array, valid)?), array.len() + 1)
        }
        Layout::Offsets { large: false } => {
            (Some(encode_offsets::<i32>(array, valid)?), array.len() + 1)
        }
        // A struct with members owns no page; without members, only its length says how many rows it has.
        Layout::Struct if array.as_struct().num_columns() > 0 => (None, 0),
        _ => (None, array.len()),
    };
    Ok(EncodedPage::new(
        bytes.into_iter().collect(),
        length,
        levels,
    ))
}

/// The page of a dictionary: its keys. The values are stored elsewhere.
fn encode_keys(
    array: &dyn Array,
    nullable: bool,
    valid: Option<&NullBuffer>,
    mut levels: Levels,
) -> Result<EncodedPage, Error> {
    let dictionary = array.as_any_dictionary();
    if dictionary.values().is_empty() && !array.is_empty() {
        if !nullable {
            return Err(Error::invalid(
                "an empty dictionary has no key to store; give it one value",
            ));
        }
        // All rows are null. A reader must not look up any key of the page, not even a hidden one.
        levels = Levels::all_null(array.len());
    }
    let bytes = encode_fixed(dictionary.keys(), valid, 1, &mut Levels::default())?;
    Ok(EncodedPage::new(
        bytes.into_iter().collect(),
        array.len(),
        levels,
    ))
}
