//! The bytes of one page to an Arrow array.
//!
//! A single range of rows shares the fetched memory; scattered rows are copied together into memory
//! that is reserved once, after the bytes for it were found in the source.

mod assemble;
mod byte_array;
mod fixed;
mod list;
mod var_binary;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, NullArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field};
use pilum_common::type_name;

use crate::error::{Error, to_usize};
use crate::layout::{FixedLayout, Layout};
use crate::plan::Page;
use crate::rows::Rows;
use crate::source::PageSource;
use crate::validity::{
    MAX_SLOTS_WITHOUT_BITMAP, Validity, check_nullable, read_nulls, slots_per_row,
};
pub use assemble::{assemble_dictionary, assemble_items, assemble_list, assemble_struct};
pub use list::{ListOffsets, Offsets, decode_list_offsets};

use fixed::FixedPage;
use var_binary::decode_var_binary;

/// Decodes the selected rows of a leaf's page. Of a dictionary it returns the keys, as integers.
///
/// `page_rows` is the number of slots that the node has in this batch.
///
/// # Errors
/// `Corrupt` for bytes that contradict the format, `Missing` for bytes that the source does not hold,
/// `Unsupported` for a type without a page, `Limit` for more values than one array holds,
/// `InvalidInput` for rows beyond the page and for a type that is no leaf.
pub fn decode_page(
    field: &Field,
    page: &Page,
    page_rows: u64,
    validity: &[Validity],
    rows: &Rows,
    source: &dyn PageSource,
) -> Result<ArrayRef, Error> {
    let data_type = field.data_type();
    let layout = Layout::of(data_type)?;
    let copies = matches!(layout, Layout::Keys { .. });
    if page.length != page_rows {
        return Err(Error::corrupt_at(
            format!("a page of {} values in a batch of {page_rows}", page.length),
            page.position,
        ));
    }
    rows.check_within(page_rows)?;
    let fixed = |layout: FixedLayout, data_type: &DataType, levels_of: &DataType| {
        let per_row = slots_per_row(levels_of, validity.len())?;
        let page = FixedPage {
            layout,
            page,
            rows,
            source,
            validity,
            per_row: &per_row,
            copies,
        };
        page.decode(data_type)
    };
    let array: ArrayRef = match layout {
        Layout::Null => {
            // Arrow counts the nulls of such a field in a bitmap, and no bytes of the file bound its size.
            if !field.is_nullable() && rows.len() > MAX_SLOTS_WITHOUT_BITMAP {
                return Err(Error::corrupt("nulls in a field that is not nullable"));
            }
            return Ok(Arc::new(NullArray::new(to_usize(rows.len(), "rows")?)));
        }
        Layout::Fixed(layout) => fixed(layout, data_type, data_type)?,
        Layout::Keys { width } => {
            let DataType::Dictionary(key_type, _) = data_type else {
                return Err(Error::unsupported(format!(
                    "keys of {}",
                    type_name(data_type)
                )));
            };
            let keys = FixedLayout {
                items: 1,
                item_bytes: Some(width),
            };
            fixed(keys, key_type, data_type)?
        }
        Layout::Var { .. } => {
            slots_per_row(data_type, validity.len())?;
            let validity = validity.first().copied().unwrap_or_default();
            decode_var_binary(field, page, validity, rows, source)?
        }
        Layout::Offsets { .. } | Layout::Struct | Layout::Items { .. } => {
            return Err(Error::invalid(format!(
                "{} is no leaf; decode its children",
                type_name(data_type)
            )));
        }
    };
    check_nullable(field.is_nullable(), array.nulls())?;
    Ok(array)
}

/// The nulls of a struct (or any node of one level) among the selected rows; `None` if no row is null.
///
/// # Errors
/// As [`decode_page`].
pub fn decode_nulls(
    field: &Field,
    page_rows: u64,
    validity: &[Validity],
    rows: &Rows,
    source: &dyn PageSource,
) -> Result<Option<NullBuffer>, Error> {
    slots_per_row(field.data_type(), validity.len())?;
    rows.check_within(page_rows)?;
    let nulls = read_nulls(
        validity.first().copied().unwrap_or_default(),
        1,
        rows,
        source,
    )?;
    check_nullable(field.is_nullable(), nulls.as_ref())?;
    Ok(nulls)
}
