//! Lists, structs and dictionaries: taking them apart for their pages and putting them together.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, GenericListArray, OffsetSizeTrait, StructArray,
    downcast_integer, make_array,
};
use arrow_buffer::{ArrowNativeType, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType};

use crate::error::Error;
use crate::layout::Layout;
use crate::rows::Rows;

/// Lengths of lists, 0 where null.
pub(crate) fn list_lengths<'a, O: OffsetSizeTrait>(
    offsets: &'a OffsetBuffer<O>,
    valid: Option<&'a NullBuffer>,
) -> impl Iterator<Item = usize> + 'a {
    let lengths = offsets.lengths().enumerate();
    lengths.map(move |(row, length)| {
        if valid.is_none_or(|v| v.is_valid(row)) {
            length
        } else {
            0
        }
    })
}

/// The child values of exactly the rows of a list array, as its page stores them: those of null
/// lists, and of lists `hidden` by a null ancestor, are gone. Nothing below is hidden any more.
pub fn list_child(array: &dyn Array, hidden: Option<&NullBuffer>) -> Result<ArrayRef, Error> {
    match array.data_type() {
        DataType::List(_) => child_of::<i32>(array, hidden),
        DataType::LargeList(_) => child_of::<i64>(array, hidden),
        other => Err(Error::invalid(format!("{other} is no list"))),
    }
}

fn child_of<O: OffsetSizeTrait>(
    array: &dyn Array,
    hidden: Option<&NullBuffer>,
) -> Result<ArrayRef, Error> {
    let list = array.as_list::<O>();
    let offsets = list.offsets();
    let valid = NullBuffer::union(list.nulls(), hidden);
    if !offsets.has_non_empty_nulls(valid.as_ref()) {
        let (first, last) = (offsets.first().as_usize(), offsets.last().as_usize());
        return Ok(list.values().slice(first, last - first));
    }
    let child = list.values().to_data();
    let kept: usize = list_lengths(offsets, valid.as_ref()).sum();
    let mut picked = MutableArrayData::new(vec![&child], false, kept);
    if let Some(valid) = &valid {
        for (start, end) in valid.inner().set_slices() {
            picked
                .try_extend(0, offsets[start].as_usize(), offsets[end].as_usize())
                .map_err(|error| Error::invalid(format!("values of the lists kept: {error}")))?;
        }
    }
    Ok(make_array(picked.freeze()))
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
    /// Of a list.
    Small(OffsetBuffer<i32>),
    /// Of a large list.
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

/// A list array from its offsets and the child values read for `child_rows`.
pub fn assemble_list(
    data_type: &DataType,
    offsets: ListOffsets,
    child: ArrayRef,
) -> Result<ArrayRef, Error> {
    let nulls = offsets.nulls;
    match (data_type, offsets.offsets) {
        (DataType::List(item), Offsets::Small(offsets)) => {
            let list = GenericListArray::try_new(Arc::clone(item), offsets, child, nulls);
            Ok(Arc::new(list.map_err(disagree)?))
        }
        (DataType::LargeList(item), Offsets::Large(offsets)) => {
            let list = GenericListArray::try_new(Arc::clone(item), offsets, child, nulls);
            Ok(Arc::new(list.map_err(disagree)?))
        }
        (other, _) => Err(Error::invalid(format!(
            "these offsets are not those of {other}"
        ))),
    }
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
