//! Lists, maps, structs and dictionaries from the arrays of their pages.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, GenericListArray, GenericListViewArray,
    MapArray, OffsetSizeTrait, StructArray, downcast_integer,
};
use arrow_buffer::{ArrowNativeType, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef};
use pilum_common::type_name;

use super::list::{ListOffsets, Offsets};
use crate::error::Error;

/// A list, list view or map array from its offsets and the child values read for `child_rows`.
///
/// # Errors
/// `Corrupt` if Arrow finds that offsets, nulls and values do not fit each other, `InvalidInput` for a
/// type that has no such offsets.
pub fn assemble_list(
    data_type: &DataType,
    offsets: ListOffsets,
    child: ArrayRef,
) -> Result<ArrayRef, Error> {
    let nulls = offsets.nulls;
    Ok(match (data_type, offsets.offsets) {
        (DataType::List(item), Offsets::Small(offsets)) => {
            let list = GenericListArray::try_new(Arc::clone(item), offsets, child, nulls);
            Arc::new(list.map_err(mismatched)?)
        }
        (DataType::LargeList(item), Offsets::Large(offsets)) => {
            let list = GenericListArray::try_new(Arc::clone(item), offsets, child, nulls);
            Arc::new(list.map_err(mismatched)?)
        }
        (DataType::ListView(item), Offsets::Small(offsets)) => {
            Arc::new(list_view(item, &offsets, child, nulls)?)
        }
        (DataType::LargeListView(item), Offsets::Large(offsets)) => {
            Arc::new(list_view(item, &offsets, child, nulls)?)
        }
        (DataType::Map(field, sorted), Offsets::Small(offsets)) => {
            let entries = child.as_struct_opt().ok_or_else(|| {
                Error::invalid(format!("{} is no pair", type_name(child.data_type())))
            })?;
            let map =
                MapArray::try_new(Arc::clone(field), offsets, entries.clone(), nulls, *sorted);
            Arc::new(map.map_err(mismatched)?)
        }
        (other, _) => {
            return Err(Error::invalid(format!(
                "these offsets are not those of {}",
                type_name(other)
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
    GenericListViewArray::try_new(Arc::clone(item), starts, sizes, child, nulls).map_err(mismatched)
}

/// A fixed-size list array of `num_rows` rows from its items.
///
/// # Errors
/// `Corrupt` if the number or type of the items does not fit, `InvalidInput` for another type.
pub fn assemble_items(
    data_type: &DataType,
    items: ArrayRef,
    nulls: Option<NullBuffer>,
    num_rows: usize,
) -> Result<ArrayRef, Error> {
    let DataType::FixedSizeList(item, size) = data_type else {
        return Err(Error::invalid(format!(
            "{} is no fixed-size list",
            type_name(data_type)
        )));
    };
    let item = Arc::clone(item);
    let array = FixedSizeListArray::try_new_with_length(item, *size, items, nulls, num_rows);
    Ok(Arc::new(array.map_err(mismatched)?))
}

/// A struct array of `num_rows` rows from its members; `nulls` as [`crate::decode_nulls`] reads them.
///
/// # Errors
/// `Corrupt` if the number or type of the members does not fit, `InvalidInput` for another type.
pub fn assemble_struct(
    data_type: &DataType,
    children: Vec<ArrayRef>,
    nulls: Option<NullBuffer>,
    num_rows: usize,
) -> Result<ArrayRef, Error> {
    let DataType::Struct(fields) = data_type else {
        return Err(Error::invalid(format!(
            "{} is no struct",
            type_name(data_type)
        )));
    };
    let array = StructArray::try_new_with_length(fields.clone(), children, nulls, num_rows);
    Ok(Arc::new(array.map_err(mismatched)?))
}

/// A dictionary array from its keys, each checked against the number of values.
///
/// The keys must lie in memory of their own, as [`decode_page`](crate::decode_page) returns them: a key
/// that changes after this check would be an index outside of the values.
///
/// # Errors
/// `Corrupt` for a key without a value, `InvalidInput` for keys or values of other types than the dictionary's.
pub fn assemble_dictionary(
    keys: &ArrayRef,
    values: ArrayRef,
    data_type: &DataType,
) -> Result<ArrayRef, Error> {
    let DataType::Dictionary(key_type, value_type) = data_type else {
        return Err(Error::invalid(format!(
            "{} is no dictionary",
            type_name(data_type)
        )));
    };
    if keys.data_type() != key_type.as_ref() || values.data_type() != value_type.as_ref() {
        return Err(Error::invalid(format!(
            "keys {} and values {} are not those of {}",
            type_name(keys.data_type()),
            type_name(values.data_type()),
            type_name(data_type)
        )));
    }
    macro_rules! dictionary {
        ($key:ty) => {{
            let keys = keys.as_primitive::<$key>();
            check_keys(keys.values(), keys.nulls(), values.len())?;
            let array = DictionaryArray::<$key>::try_new(keys.clone(), values);
            Ok(Arc::new(array.map_err(mismatched)?))
        }};
    }
    downcast_integer! {
        keys.data_type() => (dictionary),
        other => Err(Error::unsupported(format!("dictionary index {}", type_name(other)))),
    }
}

fn check_keys<K: ArrowNativeType>(
    keys: &ScalarBuffer<K>,
    nulls: Option<&NullBuffer>,
    num_values: usize,
) -> Result<(), Error> {
    // A negative key becomes a huge one. A fold vectorises; a search, which may end early, does not.
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

/// Arrow found that arrays read from one file do not fit each other.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err takes"
)]
fn mismatched(error: ArrowError) -> Error {
    Error::corrupt(format!(
        "arrays of one column do not fit each other: {error}"
    ))
}
