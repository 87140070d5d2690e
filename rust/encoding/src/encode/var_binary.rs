//! The page of strings and binaries: the bytes of all values, then their absolute 8-byte offsets.

use arrow_array::{Array, OffsetSizeTrait};
use arrow_buffer::{Buffer, NullBuffer};
use pilum_common::type_name;

use super::page::{EncodedPage, Levels, Lossy};
use crate::error::Error;
use crate::validity::{LevelValidity, count_empty, packed_bits};

/// Encodes an array of strings or binaries with offsets of type `O`.
///
/// `valid` covers the array's own nulls and those of its ancestors, `has_own_nulls` says whether any
/// is its own. `position` is where in the file the first byte will lie.
pub(super) fn encode_var_binary<O: OffsetSizeTrait>(
    array: &dyn Array,
    nullable: bool,
    valid: Option<&NullBuffer>,
    has_own_nulls: bool,
    position: u64,
) -> Result<EncodedPage, Error> {
    let data = array.to_data();
    let (Some(offsets), Some(values)) = (data.buffers().first(), data.buffers().get(1)) else {
        return Err(Error::invalid(format!(
            "{} without buffers",
            type_name(data.data_type())
        )));
    };
    // An empty array may come without its one offset.
    let offsets: &[O] = offsets.typed_data();
    let offsets = offsets
        .get(data.offset()..=data.offset() + data.len())
        .unwrap_or(&[]);
    let (first, last) = match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) => (first.as_usize(), last.as_usize()),
        _ => (0, 0),
    };
    let start = i64::try_from(position)
        .ok()
        .filter(|start| start.checked_add(values.len() as i64).is_some())
        .ok_or_else(|| Error::invalid(format!("page position {position} beyond a file's end")))?;

    let nulls_have_bytes = valid.is_some_and(|valid| {
        (!valid.inner())
            .set_slices()
            .any(|(start, end)| offsets[start] != offsets[end])
    });
    let mut absolute: Vec<i64> = Vec::with_capacity(data.len() + 1);
    let bytes = match valid {
        Some(valid) if nulls_have_bytes => {
            let mut bytes = Vec::with_capacity(last - first);
            absolute.push(start);
            for (row, pair) in offsets.windows(2).enumerate() {
                if valid.is_valid(row) {
                    bytes.extend_from_slice(&values[pair[0].as_usize()..pair[1].as_usize()]);
                }
                absolute.push(start + bytes.len() as i64);
            }
            Buffer::from_vec(bytes)
        }
        _ => {
            let shift = start - first as i64;
            absolute.extend(offsets.iter().map(|o| o.as_usize() as i64 + shift));
            if absolute.is_empty() {
                absolute.push(start);
            }
            values.slice_with_length(first, last - first)
        }
    };
    let levels = levels(&absolute, nullable, valid, has_own_nulls);
    let pointer = bytes.len() as u64;
    let mut page = EncodedPage::new(vec![bytes, little_endian(absolute)], data.len(), levels);
    page.pointer = pointer;
    Ok(page)
}

/// v1 reads zero length as null where the field is nullable, so a page with a valid empty value needs
/// validity of its own.
fn levels(
    offsets: &[i64],
    nullable: bool,
    valid: Option<&NullBuffer>,
    has_own_nulls: bool,
) -> Levels {
    let mut levels = Levels::default();
    let empty = if nullable { count_empty(offsets) } else { 0 };
    let null_count = valid.map_or(0, NullBuffer::null_count);
    // Every null has length 0 in the page, so any further value of length 0 is a valid empty value.
    if empty <= null_count {
        levels.validity.push(LevelValidity::V1);
        return levels;
    }
    let is_valid = |row: usize| valid.is_none_or(|v| v.is_valid(row));
    let first = offsets
        .windows(2)
        .enumerate()
        .position(|(row, pair)| pair[0] == pair[1] && is_valid(row));
    levels.lossy = Some(Lossy {
        first_row: first.unwrap_or(0) as u64,
        count: (empty - null_count) as u64,
        what: "empty value in a nullable field",
    });
    levels.validity.push(match valid {
        Some(valid) if has_own_nulls => LevelValidity::Bitmap(packed_bits(valid.inner())),
        _ => LevelValidity::AllValid,
    });
    levels
}

/// Memory order is file order on every machine that this crate builds for.
#[cfg(target_endian = "little")]
fn little_endian(offsets: Vec<i64>) -> Buffer {
    Buffer::from_vec(offsets)
}

#[cfg(not(target_endian = "little"))]
compile_error!(
    "pages are little endian and share memory with arrays: big endian machines need a copy"
);
