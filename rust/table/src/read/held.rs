//! The Arrow memory of the rows of a batch, in bytes.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

/// The bytes that the rows of a batch take. A slice counts its own rows alone, and not the whole buffers.
pub(crate) fn held_bytes(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(array_bytes).sum()
}

fn array_bytes(array: &ArrayRef) -> u64 {
    let of_list = |values: &ArrayRef, start: usize, end: usize| {
        array_bytes(&values.slice(start, end.saturating_sub(start)))
    };
    let rows = array.len() as u64;
    match array.data_type() {
        DataType::Struct(_) => {
            let members = array.as_struct().columns().iter();
            rows / 8 + members.map(array_bytes).sum::<u64>()
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            let at = |offset: Option<&i32>| {
                offset.map_or(0, |it| usize::try_from(*it).unwrap_or_default())
            };
            4 * rows + of_list(list.values(), at(offsets.first()), at(offsets.last()))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let offsets = list.value_offsets();
            let at = |offset: Option<&i64>| {
                offset.map_or(0, |it| usize::try_from(*it).unwrap_or_default())
            };
            8 * rows + of_list(list.values(), at(offsets.first()), at(offsets.last()))
        }
        // All batches share the values.
        DataType::Dictionary(keys, _) => rows * keys.primitive_width().unwrap_or_default() as u64,
        _ => array
            .to_data()
            .get_slice_memory_size()
            .map_or(0, |bytes| bytes as u64),
    }
}
