//! Which bytes a selection of rows needs: pure arithmetic, in rounds.
//!
//! The page table tells the ranges of round one; the offsets fetched in round one tell those of round
//! two (the bytes of var-binary values, the child of a list). Ranges that touch are merged. Ranges with
//! a gap stay apart: the reader knows what a request costs and decides whether to join them.

use std::ops::Range;

use arrow_schema::DataType;

use crate::error::{Error, offset_by};
use crate::layout::{Layout, has_large_offsets};
use crate::rows::Rows;
use crate::source::PageSource;
use crate::validity::{Validity, bit_bytes, slots_per_row};

/// One pair of the page table, already checked not to be negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// File position of the first value or offset.
    pub position: u64,
    /// Values, for lists offsets (one more than rows).
    pub length: u64,
}

/// Round one: values, keys, or the offsets of lists and var-binary. Ranges are added to `out`.
///
/// # Errors
/// `InvalidInput` for rows beyond the page, `Unsupported` for a type without a page, `Corrupt` for
/// positions beyond 2^64.
pub fn plan_fixed(
    data_type: &DataType,
    page: &Page,
    rows: &Rows,
    out: &mut Vec<Range<u64>>,
) -> Result<(), Error> {
    let mut out = Merged::new(out);
    match Layout::of(data_type)? {
        Layout::Null | Layout::Struct | Layout::Items { .. } => {}
        Layout::Keys { width } => {
            rows.check_within(page.length)?;
            for rows in rows.ranges() {
                out.push(values(page.position, rows, width)?);
            }
        }
        Layout::Fixed(layout) => {
            rows.check_within(page.length)?;
            let width = layout.row_bytes()?;
            for rows in rows.ranges() {
                match width {
                    Some(width) => out.push(values(page.position, rows, width)?),
                    None => out.push(bit_bytes(page.position, &bits(rows, layout.items)?)?),
                }
            }
        }
        Layout::Var { .. } => {
            rows.check_within(page.length)?;
            for rows in rows.ranges() {
                out.push(offsets(page.position, rows, 8)?);
            }
        }
        Layout::Offsets { large } => {
            rows.check_within(page.length.saturating_sub(1))?;
            let width = if large { 8 } else { 4 };
            if !rows.is_empty() {
                // The first offset of the page is the origin of all others.
                out.push(page.position..offset_by(page.position, 1, width)?);
            }
            for rows in rows.ranges() {
                out.push(offsets(page.position, rows, width)?);
            }
        }
    }
    Ok(())
}

/// Round two of var-binary: the value bytes, by the offsets in `source`. No ranges for other types.
///
/// # Errors
/// As [`plan_fixed`]; `Missing` until `source` holds the offsets, `Corrupt` if they descend or leave
/// the page.
pub fn plan_bytes(
    data_type: &DataType,
    page: &Page,
    rows: &Rows,
    source: &dyn PageSource,
    out: &mut Vec<Range<u64>>,
) -> Result<(), Error> {
    let Layout::Var { .. } = Layout::of(data_type)? else {
        return Ok(());
    };
    rows.check_within(page.length)?;
    let Some(span) = rows.span() else {
        return Ok(());
    };
    let places = offset_ranges(page, rows)?;
    let slices = source.slices(offsets(page.position, &span, 8)?, &places)?;
    let mut out = Merged::new(out);
    let mut floor = 0;
    for (index, (rows, place)) in rows.ranges().iter().zip(places).enumerate() {
        let bytes = slices.get(index, place)?;
        let range = value_range(bytes, floor, page, rows)?;
        floor = range.end;
        out.push(range);
    }
    Ok(())
}

/// The rows of a list's child page from the first to the last of the selected lists, by three offsets in `source`: cheaper than
/// [`decode_list_offsets`](crate::decode_list_offsets), which looks at all of them.
///
/// # Errors
/// `Missing` until `source` holds the offsets, `Corrupt` if they descend, `InvalidInput` for a type that is no list.
pub fn plan_child_span(
    data_type: &DataType,
    page: &Page,
    rows: &Rows,
    source: &dyn PageSource,
) -> Result<Range<u64>, Error> {
    let width = if has_large_offsets(data_type)? { 8 } else { 4 };
    let Some(span) = rows.span() else {
        return Ok(0..0);
    };
    let offset = |row: u64| {
        let bytes = source.slice(values(page.position, &(row..row.saturating_add(1)), width)?)?;
        Ok(match (bytes.first_chunk(), bytes.first_chunk()) {
            (Some(large), _) => i64::from_le_bytes(*large),
            (None, Some(small)) => i64::from(i32::from_le_bytes(*small)),
            (None, None) => 0,
        })
    };
    let origin = offset(0)?;
    let child_row = |offset: i64| {
        offset
            .checked_sub(origin)
            .and_then(|row| u64::try_from(row).ok())
    };
    match (child_row(offset(span.start)?), child_row(offset(span.end)?)) {
        (Some(start), Some(end)) if start <= end => Ok(start..end),
        _ => Err(Error::corrupt_at("list offsets descend", page.position)),
    }
}

/// The ranges of the validity bitmaps, which depend on no other page: for either round.
///
/// # Errors
/// As [`plan_fixed`]; `Corrupt` for more levels than the type has.
pub fn plan_validity(
    validity: &[Validity],
    data_type: &DataType,
    page_rows: u64,
    rows: &Rows,
    out: &mut Vec<Range<u64>>,
) -> Result<(), Error> {
    rows.check_within(page_rows)?;
    let slots = slots_per_row(data_type, validity.len())?;
    for (validity, per_row) in validity.iter().zip(slots) {
        if let Validity::Bitmap { position } = validity {
            let mut out = Merged::new(out);
            for rows in rows.ranges() {
                out.push(bit_bytes(*position, &bits(rows, per_row)?)?);
            }
        }
    }
    Ok(())
}

/// Bytes of `rows`, `width` each.
pub(crate) fn values(position: u64, rows: &Range<u64>, width: u64) -> Result<Range<u64>, Error> {
    Ok(offset_by(position, rows.start, width)?..offset_by(position, rows.end, width)?)
}

/// Bytes of the offsets around `rows`: one more than rows.
pub(crate) fn offsets(position: u64, rows: &Range<u64>, width: u64) -> Result<Range<u64>, Error> {
    values(position, &(rows.start..rows.end.saturating_add(1)), width)
}

pub(crate) fn offset_ranges(page: &Page, rows: &Rows) -> Result<Vec<Range<u64>>, Error> {
    rows.ranges()
        .iter()
        .map(|rows| offsets(page.position, rows, 8))
        .collect()
}

pub(crate) fn bits(rows: &Range<u64>, per_row: u64) -> Result<Range<u64>, Error> {
    let end = rows.end.checked_mul(per_row);
    let end = end.ok_or_else(|| Error::corrupt(format!("{} rows of {per_row} bits", rows.end)))?;
    Ok(rows.start * per_row..end)
}

/// The bytes between the first and last of some var-binary offsets: ascending, before the offset
/// array, and not before `floor`, where earlier values ended.
pub(crate) fn value_range(
    offsets: &[u8],
    floor: u64,
    page: &Page,
    rows: &Range<u64>,
) -> Result<Range<u64>, Error> {
    let first = offsets.first_chunk().map(|b| i64::from_le_bytes(*b));
    let last = offsets.last_chunk().map(|b| i64::from_le_bytes(*b));
    let (Some(first), Some(last)) = (first, last) else {
        return Err(Error::corrupt("no offsets"));
    };
    let wrong = || {
        Error::corrupt_at(
            format!(
                "value offsets {first}..{last} of rows {rows:?} do not ascend from {floor} to the \
                 offset array"
            ),
            page.position,
        )
    };
    let range =
        u64::try_from(first).map_err(|_| wrong())?..u64::try_from(last).map_err(|_| wrong())?;
    if range.start < floor || range.start > range.end || range.end > page.position {
        return Err(wrong());
    }
    Ok(range)
}

/// Appends ranges, joining one to the previous of the same node if they touch or overlap.
struct Merged<'a> {
    out: &'a mut Vec<Range<u64>>,
    start: usize,
}

impl<'a> Merged<'a> {
    fn new(out: &'a mut Vec<Range<u64>>) -> Self {
        Self {
            start: out.len(),
            out,
        }
    }

    fn push(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        match self.out.get_mut(self.start..).and_then(<[_]>::last_mut) {
            Some(last) if last.start <= range.start && range.start <= last.end => {
                last.end = last.end.max(range.end);
            }
            _ => self.out.push(range),
        }
    }
}
