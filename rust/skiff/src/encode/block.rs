//! Rows of fixed-size values and strings, written column by column into the places of their rows.
//!
//! Writing row by row looks at the type of a column for every value. A block adds up the sizes of some hundred rows first, so
//! that each row has its place in the output; then each column writes all its values in one loop. The bytes are the same.

use std::ops::Range;

use arrow_buffer::NullBuffer;

use super::column::Column;

/// Rows of one block: few enough that their output stays in the cache of the processor while all columns write.
const BLOCK_ROWS: usize = 256;

/// How the presence of a value is written before it.
#[derive(Clone, Copy)]
enum Tag<'a> {
    /// Required: no tag.
    Absent,
    /// Optional, without a null in the batch.
    Present,
    /// Optional, with nulls.
    Nulls(&'a NullBuffer),
}

/// The size of a row, by its number in the batch, beyond what every row has.
pub(crate) struct Block<'a> {
    columns: Vec<&'a Column>,
    /// Bytes that every row has, its table tag included.
    fixed: usize,
}

impl<'a> Block<'a> {
    /// A block writer, when every column has a block form: fixed-size values and strings that no check can refuse.
    pub(crate) fn try_new(columns: Vec<&'a Column>) -> Option<Self> {
        let mut fixed = 2;
        for column in &columns {
            fixed += fixed_size(column)?;
        }
        Some(Self { columns, fixed })
    }

    /// Appends rows with the table tag until `max_bytes` are reached or the range ends, one row at least, and returns the
    /// number of the first row that is left.
    pub(crate) fn write(
        &self,
        tag: [u8; 2],
        mut rows: Range<usize>,
        max_bytes: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        let mut places = [0; BLOCK_ROWS];
        while !rows.is_empty() && out.len() < max_bytes {
            let Some(places) = places.get_mut(..rows.len().min(BLOCK_ROWS)) else {
                break;
            };
            let count = self.place(rows.start, places, out.len(), max_bytes);
            let (Some(places), Some(last)) = (places.get_mut(..count.0), Some(count.1)) else {
                break;
            };
            let end = rows.start + places.len();
            out.resize(last, 0);
            for place in places.iter_mut() {
                *place = put(out, *place, tag);
            }
            for column in &self.columns {
                scatter(column, rows.start..end, places, out);
            }
            rows.start = end;
        }
        rows.start
    }

    /// Fills in where each row begins, and returns how many rows fit and where the last of them ends.
    fn place(
        &self,
        first: usize,
        places: &mut [usize],
        start: usize,
        max_bytes: usize,
    ) -> (usize, usize) {
        places.fill(self.fixed);
        let rows = first..first + places.len();
        for column in &self.columns {
            add_sizes(column, rows.clone(), places);
        }
        let mut next = start;
        for (number, place) in places.iter_mut().enumerate() {
            if next >= max_bytes && number > 0 {
                return (number, next);
            }
            let size = std::mem::replace(place, next);
            next += size;
        }
        (places.len(), next)
    }
}

/// Bytes that every value has; none for a column without a block form.
fn fixed_size(column: &Column) -> Option<usize> {
    Some(match column {
        Column::Optional { nulls, value } => match (fixed_size(value)?, nulls) {
            _ if matches!(value.as_ref(), Column::Optional { .. }) => return None,
            (_, Some(_)) => 1,
            (size, None) => 1 + size,
        },
        Column::Nothing => 0,
        Column::Missing | Column::Boolean(_) | Column::Copy1(_) => 1,
        Column::Copy2(_) => 2,
        Column::Copy4(_) | Column::Bytes { .. } => 4,
        Column::Copy8(_) | Column::Float32(_) => 8,
        Column::Copy16(_) => 16,
        Column::Copy32(_) => 32,
        _ => return None,
    })
}

/// Adds what the values have beyond their fixed size.
fn add_sizes(column: &Column, rows: Range<usize>, sizes: &mut [usize]) {
    let (nulls, value) = match column {
        Column::Optional { nulls, value } => (nulls.as_ref(), value.as_ref()),
        column => (None, column),
    };
    let lengths = |row: usize| match value {
        Column::Bytes { offsets, .. } => {
            let ends = offsets.get(row).zip(offsets.get(row + 1));
            ends.map_or(0, |(start, end)| length(*start, *end))
        }
        _ => 0,
    };
    match nulls {
        None if matches!(value, Column::Bytes { .. }) => {
            for (row, size) in rows.zip(sizes) {
                *size += lengths(row);
            }
        }
        None => {}
        Some(nulls) => {
            let fixed = fixed_size(value).unwrap_or_default();
            for (row, size) in rows.zip(sizes) {
                if nulls.is_valid(row) {
                    *size += fixed + lengths(row);
                }
            }
        }
    }
}

fn length(start: i32, end: i32) -> usize {
    usize::try_from(end.saturating_sub(start)).unwrap_or_default()
}

/// Writes the values of the rows to their places, and moves the places behind them.
fn scatter(column: &Column, rows: Range<usize>, places: &mut [usize], out: &mut [u8]) {
    let (tag, value) = match column {
        Column::Optional { nulls: None, value } => (Tag::Present, value.as_ref()),
        Column::Optional {
            nulls: Some(nulls),
            value,
        } => (Tag::Nulls(nulls), value.as_ref()),
        column => (Tag::Absent, column),
    };
    match value {
        Column::Copy8(values) => copies::<8>(values, tag, rows, places, out),
        Column::Copy4(values) => copies::<4>(values, tag, rows, places, out),
        Column::Copy2(values) => copies::<2>(values, tag, rows, places, out),
        Column::Copy1(values) => copies::<1>(values, tag, rows, places, out),
        Column::Copy16(values) => copies::<16>(values, tag, rows, places, out),
        Column::Copy32(values) => copies::<32>(values, tag, rows, places, out),
        Column::Boolean(values) => each(tag, rows, places, out, |row, place, out| {
            put(out, place, [u8::from(values.value(row))])
        }),
        Column::Float32(values) => each(tag, rows, places, out, |row, place, out| {
            let value = values.get(row).copied().unwrap_or_default();
            put(out, place, f64::from(value).to_le_bytes())
        }),
        Column::Bytes { offsets, data } => {
            let data = data.as_slice();
            each(tag, rows, places, out, |row, place, out| {
                let ends = offsets.get(row).zip(offsets.get(row + 1));
                let (start, end) = ends.map_or((0, 0), |(start, end)| (*start, *end));
                let length = length(start, end);
                // Offsets of 32 bits: the length has 31 bits at most.
                let place = put(out, place, end.saturating_sub(start).to_le_bytes());
                let from = usize::try_from(start).unwrap_or_default();
                let bytes = data.get(from..from + length).unwrap_or_default();
                if let Some(slot) = out.get_mut(place..place + bytes.len()) {
                    slot.copy_from_slice(bytes);
                }
                place + length
            });
        }
        Column::Missing => each(tag, rows, places, out, |_, place, out| put(out, place, [0])),
        Column::Nothing => each(tag, rows, places, out, |_, place, _| place),
        // `fixed_size` gave no block form to the others.
        _ => {}
    }
}

fn copies<const N: usize>(
    values: &[u8],
    tag: Tag<'_>,
    rows: Range<usize>,
    places: &mut [usize],
    out: &mut [u8],
) {
    let values = values.as_chunks::<N>().0;
    each(tag, rows, places, out, |row, place, out| {
        put(out, place, values.get(row).copied().unwrap_or([0; N]))
    });
}

/// Calls `write` with the row, its place and the output for every value that is there; it returns the place behind the value.
#[inline(always)]
fn each(
    tag: Tag<'_>,
    rows: Range<usize>,
    places: &mut [usize],
    out: &mut [u8],
    write: impl Fn(usize, usize, &mut [u8]) -> usize,
) {
    match tag {
        Tag::Absent => {
            for (row, place) in rows.zip(places) {
                *place = write(row, *place, out);
            }
        }
        Tag::Present => {
            for (row, place) in rows.zip(places) {
                let value = put(out, *place, [1]);
                *place = write(row, value, out);
            }
        }
        Tag::Nulls(nulls) => {
            for (row, place) in rows.zip(places) {
                let is_valid = nulls.is_valid(row);
                let value = put(out, *place, [u8::from(is_valid)]);
                *place = if is_valid {
                    write(row, value, out)
                } else {
                    value
                };
            }
        }
    }
}

/// Writes bytes at a place of the output, which was sized for them, and returns the place behind them.
#[inline(always)]
fn put<const N: usize>(out: &mut [u8], place: usize, bytes: [u8; N]) -> usize {
    if let Some(slot) = out.get_mut(place..place + N) {
        slot.copy_from_slice(&bytes);
    }
    place + N
}
