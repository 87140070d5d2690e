//! The bytes of values of equal size, fixed-size lists flattened.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_buffer::{ArrowNativeType, Buffer, MutableBuffer, NullBuffer};
use arrow_schema::{DataType, Field};
use pilum_common::type_name;

use super::page::{Levels, OwnNulls};
use crate::error::Error;
use crate::layout::Layout;
use crate::validity::packed_bits;

/// The value bytes of a fixed-width array, zero where it is null; lists descend to their items.
///
/// `valid` covers the array's own nulls and those of its ancestors; `per_row` is the number of the
/// array's slots for each row of the page. The levels of list items are added to `levels`.
pub(super) fn encode_fixed(
    array: &dyn Array,
    valid: Option<&NullBuffer>,
    per_row: usize,
    levels: &mut Levels,
) -> Result<Option<Buffer>, Error> {
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean().values();
            Ok(Some(match valid {
                Some(valid) => packed_bits(&(values & valid.inner())),
                None => packed_bits(values),
            }))
        }
        DataType::FixedSizeList(item, _) => encode_items(array, item, valid, per_row, levels),
        _ => value_bytes(array, valid),
    }
}

/// The bytes of the items of a fixed-size list, and their level of validity.
fn encode_items(
    array: &dyn Array,
    item: &Field,
    valid: Option<&NullBuffer>,
    per_row: usize,
    levels: &mut Levels,
) -> Result<Option<Buffer>, Error> {
    let array = array.as_fixed_size_list();
    let size = array
        .value_length()
        .to_usize()
        .ok_or_else(|| Error::invalid(format!("list size {}", array.value_length())))?;
    let count = array.len().checked_mul(size);
    let count = count.ok_or_else(|| Error::invalid("too many list items"))?;
    let items = array.values().slice(0, count);
    let hidden = valid.map(|valid| valid.expand(size));
    let valid = NullBuffer::union(items.nulls(), hidden.as_ref());
    let valid = valid.filter(|v| v.null_count() > 0);
    let own = OwnNulls::find(valid.as_ref(), hidden.as_ref());
    let per_row = per_row.saturating_mul(size);
    if let Some(own) = &own
        && !item.is_nullable()
    {
        return Err(Error::invalid(format!(
            "{} null items in a list whose items are not nullable, the first in row {}; \
             make the items nullable or fill them",
            own.count,
            own.first / per_row.max(1)
        )));
    }
    levels.push_item_nulls(own, valid.as_ref(), per_row);
    encode_fixed(&items, valid.as_ref(), per_row, levels)
}

/// The bytes of values of whole bytes.
fn value_bytes(array: &dyn Array, valid: Option<&NullBuffer>) -> Result<Option<Buffer>, Error> {
    let data = array.to_data();
    let Layout::Fixed(layout) = Layout::of(data.data_type())? else {
        return Err(Error::unsupported(format!(
            "fixed-width page of {}",
            type_name(data.data_type())
        )));
    };
    let width = usize::try_from(layout.item_bytes.unwrap_or(0))
        .map_err(|_| Error::invalid("value too wide"))?;
    let bytes = data
        .buffers()
        .first()
        .map(|b| b.slice_with_length(data.offset() * width, data.len() * width));
    Ok(match (bytes, valid) {
        (Some(bytes), Some(valid)) => Some(zeroed(bytes, valid, width)),
        (bytes, _) => bytes,
    })
}

/// The bytes with every null slot zero; the same memory if these slots are zero already.
fn zeroed(bytes: Buffer, valid: &NullBuffer, width: usize) -> Buffer {
    let null_runs = !valid.inner();
    let is_zero = null_runs
        .set_slices()
        .all(|(start, end)| bytes[start * width..end * width].iter().all(|b| *b == 0));
    if is_zero {
        return bytes;
    }
    let mut copy = MutableBuffer::with_capacity(bytes.len());
    copy.extend_from_slice(&bytes);
    for (start, end) in null_runs.set_slices() {
        copy[start * width..end * width].fill(0);
    }
    copy.into()
}
