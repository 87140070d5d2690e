//! Types that v1 has no form for: stored behind the reader flag, under names and layouts of our own.
//!
//! Most are kin of a type that v1 has. Views are stored as the strings and binaries they show, list
//! views as lists, a map as a list of pairs: the page holds the plain kin, the type string restores
//! the rest.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, LargeBinaryArray, LargeStringArray, StringViewArray,
};
use arrow_schema::DataType;

use crate::error::Error;
use crate::layout::is_flat;

/// A reader of plain v1 has no name or no page for this type, or for one below it: a file with such
/// a column needs the reader flag.
pub fn is_beyond_v1(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(_, _)
        | DataType::Decimal32(_, _)
        | DataType::Decimal64(_, _)
        | DataType::Interval(_)
        | DataType::Utf8View
        | DataType::BinaryView
        | DataType::ListView(_)
        | DataType::LargeListView(_) => true,
        DataType::Dictionary(_, value) => !is_v1_dictionary_value(value),
        // Of size 0 its readers know neither: they refuse the schema of the one and stop at the other.
        DataType::FixedSizeBinary(size) => *size < 1,
        DataType::FixedSizeList(item, size) => {
            *size < 1 || !is_flat(item.data_type()) || is_beyond_v1(item.data_type())
        }
        DataType::List(item) | DataType::LargeList(item) => is_beyond_v1(item.data_type()),
        DataType::Struct(members) => {
            members.is_empty() || members.iter().any(|m| is_beyond_v1(m.data_type()))
        }
        _ => false,
    }
}

/// Strings, binaries and integers: all the dictionary values that a reader of v1 decodes.
fn is_v1_dictionary_value(value: &DataType) -> bool {
    value.is_integer()
        || matches!(
            value,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
        )
}

/// Dictionary values are what fits one page: values of one size, strings and binaries.
pub(crate) fn check_dictionary_value(value: &DataType) -> Result<(), Error> {
    let nested = matches!(value, DataType::FixedSizeList(_, _));
    if is_v1_dictionary_value(value)
        || matches!(value, DataType::Utf8View | DataType::BinaryView)
        || is_flat(value) && !nested
    {
        return Ok(());
    }
    Err(Error::unsupported(format!("dictionary of {value}")))
}

/// The values that an array of views shows, as the plain array whose bytes are its page; `None` for
/// other arrays. 64-bit offsets, because many views may show the same long text.
pub(crate) fn shown_values(array: &dyn Array) -> Option<ArrayRef> {
    if let Some(views) = array.as_string_view_opt() {
        return Some(Arc::new(LargeStringArray::from_iter(views)));
    }
    let views = array.as_binary_view_opt()?;
    Some(Arc::new(LargeBinaryArray::from_iter(views)))
}

/// Views of values that were read as a plain array; they share its bytes.
pub(crate) fn views_of(data_type: &DataType, plain: ArrayRef) -> ArrayRef {
    match data_type {
        DataType::Utf8View => Arc::new(StringViewArray::from(plain.as_string::<i32>())),
        DataType::BinaryView => Arc::new(BinaryViewArray::from(plain.as_binary::<i32>())),
        _ => plain,
    }
}
