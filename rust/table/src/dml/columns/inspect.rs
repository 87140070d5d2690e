//! Looks for nulls and empty texts of one field in the files: they decide whether its nullability can change without a rewrite
//! of its values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use pilum_file::Rows;
use pilum_format::{FieldId, Schema};

use crate::error::Result;
use crate::read::fragment::FragmentReader;
use crate::read::snapshot::Snapshot;

/// Arrow bytes read at once.
const TASK_BYTES: u64 = 8 << 20;

/// What was found.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    /// The first live row with a null in the field.
    pub(super) null_row: Option<u64>,
    /// A deleted row, or one whose struct or list is null, has a null there: no value, but stored as a null.
    pub(super) has_hidden_null: bool,
    /// A live row has a text of no bytes.
    pub(super) has_empty: bool,
}

/// Reads all physical rows of the field at the end of `ids`; `schema` holds only this field. Stops at the first live null.
pub(super) async fn inspect(base: &Snapshot, schema: &Schema, ids: &[FieldId]) -> Result<Found> {
    let mut found = Found::default();
    let mut num_live = 0;
    for fragment in base.fragments() {
        let context = Arc::clone(base.read_context());
        let reader = FragmentReader::open(context, fragment, schema).await?;
        for range in reader.task_ranges(TASK_BYTES) {
            let live: Vec<bool> = {
                let rows = reader.live(range.clone())?;
                let mut live = vec![false; usize::try_from(range.end - range.start).unwrap_or(0)];
                let offset = |row: u64| usize::try_from(row - range.start).unwrap_or(usize::MAX);
                for part in rows.ranges() {
                    live[offset(part.start)..offset(part.end)].fill(true);
                }
                live
            };
            let arrays = reader.read(&Rows::range(range)).await?;
            let mut columns = schema.fields.iter().zip(&arrays);
            let column = columns.find(|(field, _)| ids.first() == Some(&field.id));
            if let Some((field, array)) = column {
                let slots = (0..live.len()).map(|row| Slot {
                    row,
                    is_visible: live[row],
                });
                let null = look(
                    array,
                    field,
                    &ids[1..],
                    &slots.collect::<Vec<_>>(),
                    &mut found,
                );
                if let Some(row) = null {
                    let before = live[..row].iter().filter(|is_live| **is_live).count();
                    found.null_row = Some(num_live + before as u64);
                    return Ok(found);
                }
            }
            num_live += live.iter().filter(|is_live| **is_live).count() as u64;
        }
    }
    Ok(found)
}

/// One slot of a node: the row that it belongs to, and whether a level above it is null or the row deleted.
#[derive(Clone, Copy)]
struct Slot {
    row: usize,
    is_visible: bool,
}

/// Goes down to the last of `ids`; the row of the first visible null there.
fn look(
    array: &ArrayRef,
    field: &pilum_format::Field,
    ids: &[FieldId],
    slots: &[Slot],
    found: &mut Found,
) -> Option<usize> {
    let nulls = array.logical_nulls();
    let is_null = |slot: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(slot));
    let Some((id, rest)) = ids.split_first() else {
        let mut first = None;
        let lens = byte_lens(array);
        for (index, slot) in slots.iter().enumerate() {
            match (is_null(index), slot.is_visible) {
                (true, true) => first = first.or(Some(slot.row)),
                (true, false) => found.has_hidden_null = true,
                (false, true) => {
                    found.has_empty |= lens.as_ref().is_some_and(|len| len(index) == 0);
                }
                (false, false) => {}
            }
        }
        return first;
    };
    let place = field.children.iter().position(|child| child.id == *id)?;
    let child = &field.children[place];
    let seen = |index: usize| Slot {
        is_visible: slots[index].is_visible && !is_null(index),
        ..slots[index]
    };
    let (values, below): (ArrayRef, Vec<Slot>) = match array.data_type() {
        DataType::Struct(_) => {
            let values = Arc::clone(array.as_struct().columns().get(place)?);
            (values, (0..slots.len()).map(seen).collect())
        }
        DataType::List(_) => items::<i32>(array, &seen),
        DataType::LargeList(_) => items::<i64>(array, &seen),
        DataType::Map(..) => {
            let map = array.as_map();
            let slots = spread(map.value_offsets().iter().map(|it| it.as_usize()), &seen);
            (Arc::new(map.entries().clone()), slots)
        }
        DataType::FixedSizeList(_, size) => {
            let lists = array.as_fixed_size_list();
            let size = usize::try_from(*size).unwrap_or(0);
            let slots = spread((0..=array.len()).map(|it| it * size), &seen);
            (Arc::clone(lists.values()), slots)
        }
        _ => return None,
    };
    look(&values, child, rest, &below, found)
}

fn items<O: OffsetSizeTrait>(
    array: &ArrayRef,
    seen: &dyn Fn(usize) -> Slot,
) -> (ArrayRef, Vec<Slot>) {
    let lists = array.as_list::<O>();
    let slots = spread(lists.value_offsets().iter().map(|it| it.as_usize()), seen);
    (Arc::clone(lists.values()), slots)
}

/// The slots of the items of lists that begin at `offsets`; items outside of every list have no slot.
fn spread(offsets: impl Iterator<Item = usize>, seen: &dyn Fn(usize) -> Slot) -> Vec<Slot> {
    let mut slots = Vec::new();
    let mut start = None;
    for (index, end) in offsets.enumerate() {
        if index == 0 {
            let outside = Slot {
                row: 0,
                is_visible: false,
            };
            slots.resize(end, outside);
        } else if let Some(start) = start {
            slots.resize(end.max(start), seen(index - 1));
        }
        start = Some(end);
    }
    slots
}

type ByteLen<'a> = Box<dyn Fn(usize) -> usize + 'a>;

/// How many bytes each value has, of texts and binaries.
fn byte_lens(array: &ArrayRef) -> Option<ByteLen<'_>> {
    fn of<'a, O: OffsetSizeTrait>(offsets: &'a [O]) -> ByteLen<'a> {
        Box::new(|index| offsets[index + 1].as_usize() - offsets[index].as_usize())
    }
    match array.data_type() {
        DataType::Utf8 => Some(of(array.as_string::<i32>().value_offsets())),
        DataType::LargeUtf8 => Some(of(array.as_string::<i64>().value_offsets())),
        DataType::Binary => Some(of(array.as_binary::<i32>().value_offsets())),
        DataType::LargeBinary => Some(of(array.as_binary::<i64>().value_offsets())),
        DataType::Utf8View => Some(Box::new(|i| array.as_string_view().value(i).len())),
        DataType::BinaryView => Some(Box::new(|i| array.as_binary_view().value(i).len())),
        _ => None,
    }
}
