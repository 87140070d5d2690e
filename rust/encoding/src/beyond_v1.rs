//! Types that Lance v1 cannot store: files with them carry the reader flag (`docs/format.md`, section 3.1).
//!
//! Most are stored in the page of a related type that v1 has: views as the strings and binaries that
//! they show, list views as lists, a map as a list of pairs. The type string in the schema restores the
//! original type.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, LargeBinaryArray, LargeStringArray, StringViewArray,
};
use arrow_schema::DataType;
use pilum_common::type_name;

use crate::error::Error;
use crate::layout::is_flat;

/// Whether readers of plain v1 have no name or no page for this type, or for a type nested in it: a
/// file with such a column needs the reader flag.
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
        // Readers of v1 refuse a schema with fixed_size_binary(0), and fail at a page of fixed_size_list(T, 0).
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

/// Strings, binaries and integers: the only dictionary values that readers of v1 decode.
fn is_v1_dictionary_value(value: &DataType) -> bool {
    value.is_integer()
        || matches!(
            value,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
        )
}

/// Refuses dictionary values that need more than one page: all but values of one size, strings and binaries.
pub(crate) fn check_dictionary_value(value: &DataType) -> Result<(), Error> {
    let nested = matches!(value, DataType::FixedSizeList(_, _));
    if is_v1_dictionary_value(value)
        || matches!(value, DataType::Utf8View | DataType::BinaryView)
        || is_flat(value) && !nested
    {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "dictionary of {}",
        type_name(value)
    )))
}

/// For an array of views, the array of strings or binaries whose bytes its page holds; `None` for
/// other arrays. It has 64-bit offsets, because many views may show the same long text.
pub(crate) fn stored_values(array: &dyn Array) -> Option<ArrayRef> {
    if let Some(views) = array.as_string_view_opt() {
        return Some(Arc::new(LargeStringArray::from_iter(views)));
    }
    let views = array.as_binary_view_opt()?;
    Some(Arc::new(LargeBinaryArray::from_iter(views)))
}

/// An array of view type from the values of its page, whose bytes it shares; other arrays unchanged.
pub(crate) fn views_of(data_type: &DataType, plain: ArrayRef) -> ArrayRef {
    match data_type {
        DataType::Utf8View => Arc::new(StringViewArray::from(plain.as_string::<i32>())),
        DataType::BinaryView => Arc::new(BinaryViewArray::from(plain.as_binary::<i32>())),
        _ => plain,
    }
}
