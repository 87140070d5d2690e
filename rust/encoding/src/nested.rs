//! Lists, maps, structs and dictionaries: taking them apart for their pages and putting them together.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, GenericListArray, GenericListViewArray,
    MapArray, OffsetSizeTrait, StructArray, downcast_integer,
};
use arrow_buffer::{ArrowNativeType, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef};

use crate::error::Error;
use crate::layout::Layout;
use crate::lists::Lists;
use crate::rows::Rows;

/// The child values of exactly the rows of a list array (a map and a list view are lists too), as
/// its page stores them: those of null lists, and of lists `hidden` by a null ancestor, are gone.
/// Nothing below is hidden any more.
pub fn list_child(array: &dyn Array, hidden: Option<&NullBuffer>) -> Result<ArrayRef, Error> {
    let valid = NullBuffer::union(array.nulls(), hidden);
    if offsets_of(array.data_type())? {
        Lists::<i64>::of(array)?.items(valid.as_ref())
    } else {
        Lists::<i32>::of(array)?.items(valid.as_ref())
    }
}

/// The items of a fixed-size list array whose items have a page, each with the slots that a null
/// list (or an ancestor) hides: every list keeps its slots.
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

/// What a list's page says of the selected rows.
#[derive(Debug, Clone)]
pub struct ListOffsets {
    /// Offsets of the selected lists into the child values that are read for them, from 0.
    pub offsets: Offsets,
    /// The null lists.
    pub nulls: Option<NullBuffer>,
    /// The rows of the child's page that the lists hold.
    pub child_rows: Rows,
}

/// Arrow list offsets of either width.
#[derive(Debug, Clone)]
pub enum Offsets {
    /// Of a list, list view or map.
    Small(OffsetBuffer<i32>),
    /// Of a large list or large list view.
    Large(OffsetBuffer<i64>),
}

impl Offsets {
    /// Number of lists.
    pub fn num_lists(&self) -> usize {
        match self {
            Self::Small(offsets) => offsets.len() - 1,
            Self::Large(offsets) => offsets.len() - 1,
        }
    }
}

/// A list, list view or map array from its offsets and the child values read for `child_rows`.
pub fn assemble_list(
    data_type: &DataType,
    offsets: ListOffsets,
    child: ArrayRef,
) -> Result<ArrayRef, Error> {
    let nulls = offsets.nulls;
    Ok(match (data_type, offsets.offsets) {
        (DataType::List(item), Offsets::Small(offsets)) => {
            let list = GenericListArray::try_new(Arc::clone(item), offsets, child, nulls);
            Arc::new(list.map_err(disagree)?)
        }
        (DataType::LargeList(item), Offsets::Large(offsets)) => {
            let list = GenericListArray::try_new(Arc::clone(item), offsets, child, nulls);
            Arc::new(list.map_err(disagree)?)
        }
        (DataType::ListView(item), Offsets::Small(offsets)) => {
            Arc::new(list_view(item, &offsets, child, nulls)?)
        }
        (DataType::LargeListView(item), Offsets::Large(offsets)) => {
            Arc::new(list_view(item, &offsets, child, nulls)?)
        }
        (DataType::Map(field, sorted), Offsets::Small(offsets)) => {
            let entries = child
                .as_struct_opt()
                .ok_or_else(|| Error::invalid(format!("{} is no pair", child.data_type())))?;
            let map =
                MapArray::try_new(Arc::clone(field), offsets, entries.clone(), nulls, *sorted);
            Arc::new(map.map_err(disagree)?)
        }
        (other, _) => {
            return Err(Error::invalid(format!(
                "these offsets are not those of {other}"
            )));
        }
    })
}

fn list_view<O: OffsetSizeTrait>(
    item: &FieldRef,
    offsets: &OffsetBuffer<O>,
    child: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<GenericListViewArray<O>, Error> {
    let starts = offsets.inner().slice(0, offsets.len() - 1);
    let sizes = offsets.lengths().map(O::usize_as).collect();
    GenericListViewArray::try_new(Arc::clone(item), starts, sizes, child, nulls).map_err(disagree)
}

/// A fixed-size list array of `num_rows` rows from its items.
pub fn assemble_items(
    data_type: &DataType,
    items: ArrayRef,
    nulls: Option<NullBuffer>,
    num_rows: usize,
) -> Result<ArrayRef, Error> {
    let DataType::FixedSizeList(item, size) = data_type else {
        return Err(Error::invalid(format!("{data_type} is no fixed-size list")));
    };
    let item = Arc::clone(item);
    let array = FixedSizeListArray::try_new_with_length(item, *size, items, nulls, num_rows);
    Ok(Arc::new(array.map_err(disagree)?))
}

/// A struct array of `num_rows` rows from its members; `nulls` as [`crate::decode_nulls`] reads them.
pub fn assemble_struct(
    data_type: &DataType,
    children: Vec<ArrayRef>,
    nulls: Option<NullBuffer>,
    num_rows: usize,
) -> Result<ArrayRef, Error> {
    let DataType::Struct(fields) = data_type else {
        return Err(Error::invalid(format!("{data_type} is no struct")));
    };
    let array = StructArray::try_new_with_length(fields.clone(), children, nulls, num_rows);
    Ok(Arc::new(array.map_err(disagree)?))
}

/// A dictionary array from its keys, each checked against the number of values.
pub fn assemble_dictionary(
    keys: &ArrayRef,
    values: ArrayRef,
    data_type: &DataType,
) -> Result<ArrayRef, Error> {
    let DataType::Dictionary(key_type, value_type) = data_type else {
        return Err(Error::invalid(format!("{data_type} is no dictionary")));
    };
    if keys.data_type() != key_type.as_ref() || values.data_type() != value_type.as_ref() {
        return Err(Error::invalid(format!(
            "keys {} and values {} are not those of {data_type}",
            keys.data_type(),
            values.data_type()
        )));
    }
    macro_rules! dictionary {
        ($key:ty) => {{
            let keys = keys.as_primitive::<$key>();
            check_keys(keys.values(), keys.nulls(), values.len())?;
            let array = DictionaryArray::<$key>::try_new(keys.clone(), values);
            Ok(Arc::new(array.map_err(disagree)?))
        }};
    }
    downcast_integer! {
        keys.data_type() => (dictionary),
        other => Err(Error::unsupported(format!("dictionary index {other}"))),
    }
}

fn check_keys<K: ArrowNativeType>(
    keys: &ScalarBuffer<K>,
    nulls: Option<&NullBuffer>,
    num_values: usize,
) -> Result<(), Error> {
    // A negative key becomes a huge one; folding, because it vectorises and a search does not.
    let beyond = |key: &K| key.as_usize() >= num_values;
    if keys.iter().fold(false, |any, key| any | beyond(key)) {
        let bad = keys
            .iter()
            .enumerate()
            .find(|(row, key)| beyond(key) && nulls.is_none_or(|nulls| nulls.is_valid(*row)));
        if let Some((row, key)) = bad {
            return Err(Error::corrupt(format!(
                "dictionary key {key:?} in row {row}, the dictionary has {num_values} values"
            )));
        }
    }
    Ok(())
}

/// Arrow found that parts read from one file do not fit each other.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err takes"
)]
fn disagree(error: ArrowError) -> Error {
    Error::corrupt(format!("the parts of an array disagree: {error}"))
}

/// The type has list offsets of its own (not merely nested ones).
pub(crate) fn offsets_of(data_type: &DataType) -> Result<bool, Error> {
    match Layout::of(data_type)? {
        Layout::Offsets { large } => Ok(large),
        _ => Err(Error::invalid(format!("{data_type} is no list"))),
    }
}
