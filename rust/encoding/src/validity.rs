//! Validity: which slots of a page are null, where the rules of v1 do not say it (`docs/format.md`, section 4).
//!
//! Validity has levels: level 0 is the node itself, and for a `fixed_size_list` level k ≥ 1 are the
//! items at nesting depth k, whose bits multiply by the list sizes on the way down.

use std::ops::Range;
use std::sync::LazyLock;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, MutableBuffer, NullBuffer};
use arrow_schema::DataType;
use pilum_common::type_name;

use crate::error::{Error, to_usize};
use crate::layout::list_sizes;
use crate::rows::Rows;
use crate::source::PageSource;

/// Most slots that `AllNull` may make null in one read: it has no bytes in the file that would bound their number.
pub(crate) const MAX_SLOTS_WITHOUT_BITMAP: u64 = 1 << 26;

/// The bits of all pages whose slots are all null. Such a page takes a few bytes of a file, so all of them share this memory.
static NONE_VALID: LazyLock<Buffer> =
    LazyLock::new(|| MutableBuffer::from_len_zeroed(1 << 23).into());

/// How a reader learns the nulls of one level of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Validity {
    /// By the rules of v1: a zero-length value of a nullable var-binary field is null, all else valid.
    #[default]
    V1,
    /// No slot is null, zero length or not.
    AllValid,
    /// Every slot is null.
    AllNull,
    /// Bits of the whole page, LSB first, 1 = valid.
    Bitmap {
        /// File position of the first byte.
        position: u64,
    },
}

/// What a writer stores about the nulls of one level.
#[derive(Debug, Clone)]
pub enum LevelValidity {
    /// Nothing: v1 holds it.
    V1,
    /// A mark: no slot is null.
    AllValid,
    /// A mark: every slot is null.
    AllNull,
    /// A bitmap of `ceil(slots / 8)` bytes, LSB first, unused bits 0.
    Bitmap(Buffer),
}

/// Levels of validity that a type has: 1, and one more per nested `fixed_size_list`.
pub fn validity_levels(data_type: &DataType) -> usize {
    1 + list_sizes(data_type).len()
}

/// Slots per row of each level, after checking that the page has no more levels than the type.
pub(crate) fn slots_per_row(data_type: &DataType, levels: usize) -> Result<Vec<u64>, Error> {
    let mut slots = vec![1_u64];
    for size in list_sizes(data_type) {
        let above = slots.last().copied().unwrap_or(1);
        slots.push(
            above
                .checked_mul(size)
                .ok_or_else(|| Error::corrupt(format!("{above} times {size} items in a row")))?,
        );
    }
    if levels > slots.len() {
        return Err(Error::corrupt(format!(
            "{levels} levels of validity for type {}",
            type_name(data_type)
        )));
    }
    Ok(slots)
}

/// The bytes that hold a range of bits.
pub(crate) fn bit_bytes(position: u64, bits: &Range<u64>) -> Result<Range<u64>, Error> {
    let end = position.checked_add(bits.end.div_ceil(8));
    let end = end.ok_or_else(|| Error::corrupt_at("bits beyond the end of any file", position))?;
    Ok(position + bits.start / 8..end)
}

fn bit_in_byte(bit: u64) -> usize {
    (bit % 8) as usize
}

/// The bits of the selected rows, `per_row` of them each.
pub(crate) fn read_bits(
    position: u64,
    per_row: u64,
    rows: &Rows,
    source: &dyn PageSource,
) -> Result<BooleanBuffer, Error> {
    let Some(span) = rows.span() else {
        return Ok(BooleanBuffer::new_unset(0));
    };
    let bits = |rows: &Range<u64>| -> Result<Range<u64>, Error> {
        let end = rows.end.checked_mul(per_row);
        let end =
            end.ok_or_else(|| Error::corrupt_at("bits beyond the end of any file", position))?;
        Ok(rows.start * per_row..end)
    };
    let span = bits(&span)?;
    let span_bytes = bit_bytes(position, &span)?;
    if span.is_empty() {
        return Ok(BooleanBuffer::new_unset(0));
    }
    if rows.is_single_range() {
        let buffer = source.buffer(span_bytes)?;
        let len = to_usize(span.end - span.start, "bits of a page")?;
        return Ok(BooleanBuffer::new(buffer, bit_in_byte(span.start), len));
    }
    let place = |rows: &Range<u64>| bit_bytes(position, &bits(rows)?);
    let places = rows
        .ranges()
        .iter()
        .map(place)
        .collect::<Result<Vec<_>, _>>()?;
    let slices = source.slices(span_bytes, &places)?;
    let count = to_usize(rows.len().saturating_mul(per_row), "bits of a page")?;
    // Every byte was found above, so the count is bounded by what exists (times eight).
    let mut builder = BooleanBufferBuilder::new(count);
    for (index, (rows, place)) in rows.ranges().iter().zip(places).enumerate() {
        let bytes = slices.get(index, place)?;
        let bits = bits(rows)?;
        let start = bit_in_byte(bits.start);
        if bits.end - bits.start == 1 {
            builder.append(bytes.first().is_some_and(|byte| byte >> start & 1 == 1));
        } else {
            let len = to_usize(bits.end - bits.start, "bits of a page")?;
            builder.append_packed_range(start..start + len, bytes);
        }
    }
    Ok(builder.finish())
}

/// The nulls of one level of the selected rows; `None` if the rules of v1 apply or no slot is null.
///
/// A bitmap is copied, because Arrow relies on the number of nulls that it counted once: bits in a
/// mapped file could change afterwards.
pub(crate) fn read_nulls(
    validity: Validity,
    per_row: u64,
    rows: &Rows,
    source: &dyn PageSource,
) -> Result<Option<NullBuffer>, Error> {
    match validity {
        Validity::V1 | Validity::AllValid => Ok(None),
        Validity::AllNull => {
            let slots = rows
                .len()
                .checked_mul(per_row)
                .ok_or_else(|| Error::corrupt(format!("{} rows of {per_row} slots", rows.len())))?;
            if slots > MAX_SLOTS_WITHOUT_BITMAP {
                return Err(Error::Limit {
                    what: "null slots without a bitmap".to_owned(),
                    actual: slots,
                    limit: MAX_SLOTS_WITHOUT_BITMAP,
                });
            }
            let slots = to_usize(slots, "slots of a page")?;
            let bits = BooleanBuffer::new(NONE_VALID.clone(), 0, slots);
            Ok(Some(NullBuffer::new(bits)))
        }
        Validity::Bitmap { position } => {
            let bits = read_bits(position, per_row, rows, source)?;
            let bits = BooleanBuffer::new(
                Buffer::from_slice_ref(bits.inner()),
                bits.offset(),
                bits.len(),
            );
            let nulls = NullBuffer::new(bits);
            Ok((nulls.null_count() > 0).then_some(nulls))
        }
    }
}

/// A bitmap as it is stored: from bit 0, unused bits 0.
pub(crate) fn packed_bits(bits: &BooleanBuffer) -> Buffer {
    let byte_len = bits.len().div_ceil(8);
    let packed = bits.sliced();
    let packed = packed.slice_with_length(0, byte_len);
    let used = bits.len() % 8;
    if used == 0 || packed[byte_len - 1] >> used == 0 {
        return packed;
    }
    let mut bytes = packed.to_vec();
    bytes[byte_len - 1] &= (1 << used) - 1;
    Buffer::from_vec(bytes)
}

/// Refuses nulls in a field that is not nullable.
pub(crate) fn check_nullable(nullable: bool, nulls: Option<&NullBuffer>) -> Result<(), Error> {
    match nulls {
        Some(nulls) if !nullable && nulls.null_count() > 0 => Err(Error::corrupt(format!(
            "{} null values in a field that is not nullable",
            nulls.null_count()
        ))),
        _ => Ok(()),
    }
}

/// How many var-binary values have length 0, by their offsets: in a nullable field v1 reads them as null.
pub(crate) fn count_empty<T: PartialEq + Copy>(offsets: &[T]) -> usize {
    let next = offsets.get(1..).unwrap_or(&[]);
    offsets
        .iter()
        .zip(next)
        .map(|(a, b)| usize::from(a == b))
        .sum()
}
