//! The arrays of the nodes below a list, map, fixed-size list or struct, as their pages store them.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeListArray, OffsetSizeTrait, StructArray};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer};

use super::lists::Lists;
use crate::error::Error;
use crate::layout::has_large_offsets;

/// The child values of exactly the rows of a list array (a map and a list view are lists too), as
/// its page stores them: values of null lists, and of lists `hidden` by a null ancestor, are left out.
/// So no slot of the child is hidden any more.
///
/// # Errors
/// `InvalidInput` for an array that is no list, or whose items Arrow cannot put together.
pub fn list_child(array: &dyn Array, hidden: Option<&NullBuffer>) -> Result<ArrayRef, Error> {
    let valid = NullBuffer::union(array.nulls(), hidden);
    if has_large_offsets(array.data_type())? {
        Lists::<i64>::of(array)?.items(valid.as_ref())
    } else {
        Lists::<i32>::of(array)?.items(valid.as_ref())
    }
}

/// The items of a fixed-size list array whose items have a page, and which of these slots a null list
/// (or an ancestor) hides: every list keeps its slots.
///
/// # Errors
/// `InvalidInput` for a size below 0 or more items than memory can number.
pub fn items_child(
    array: &FixedSizeListArray,
    hidden: Option<&NullBuffer>,
) -> Result<(ArrayRef, Option<NullBuffer>), Error> {
    let size = array
        .value_length()
        .to_usize()
        .ok_or_else(|| Error::invalid(format!("list size {}", array.value_length())))?;
    let count = array
        .len()
        .checked_mul(size)
        .ok_or_else(|| Error::invalid("too many list items"))?;
    let hidden = NullBuffer::union(array.nulls(), hidden).filter(|h| h.null_count() > 0);
    let items = array.values().slice(0, count);
    Ok((items, hidden.map(|hidden| hidden.expand(size))))
}

/// The members of a struct array, each with the slots that the struct (or an ancestor) hides.
///
/// # Errors
/// `InvalidInput` if `hidden` has another length than the array.
pub fn struct_children(
    array: &StructArray,
    hidden: Option<&NullBuffer>,
) -> Result<Vec<(ArrayRef, Option<NullBuffer>)>, Error> {
    if hidden.is_some_and(|h| h.len() != array.len()) {
        return Err(Error::invalid(
            "hidden rows and struct rows differ in number",
        ));
    }
    let hidden = NullBuffer::union(array.nulls(), hidden).filter(|h| h.null_count() > 0);
    Ok(array
        .columns()
        .iter()
        .map(|child| (Arc::clone(child), hidden.clone()))
        .collect())
}

/// The page of a list: offsets from 0, null lists of length 0.
pub(super) fn encode_offsets<O: OffsetSizeTrait>(
    array: &dyn Array,
    valid: Option<&NullBuffer>,
) -> Result<Buffer, Error> {
    let lists = Lists::<O>::of(array)?;
    if let Some(offsets) = lists.offsets()
        && !offsets.has_non_empty_nulls(valid)
        && offsets[0] == O::zero()
    {
        return Ok(offsets.inner().inner().clone());
    }
    let mut current = 0_usize;
    let mut rebased = Vec::with_capacity(array.len() + 1);
    rebased.push(O::zero());
    for length in lists.lengths(valid) {
        current = current.saturating_add(length);
        // List views may overlap: their items, written one list after the other, may be too many.
        rebased.push(O::from_usize(current).ok_or_else(|| Error::Limit {
            what: format!("items of lists with {}-byte offsets", size_of::<O>()),
            actual: current as u64,
            limit: O::MAX_OFFSET as u64,
        })?);
    }
    Ok(Buffer::from_vec(rebased))
}
