//! Reading the offsets of lists, maps and list views: which child rows the selected lists hold.

use std::ops::Range;

use arrow_array::OffsetSizeTrait;
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::Field;

use super::byte_array::ascending_offsets;
use crate::error::{Error, offset_by, to_usize};
use crate::layout::has_large_offsets;
use crate::plan::{Page, offsets};
use crate::rows::Rows;
use crate::source::PageSource;
use crate::validity::{Validity, check_nullable, read_nulls, slots_per_row};

/// What the offsets of the selected lists say.
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

/// Decodes the offsets of the selected lists: which rows of the child's page they hold, and how the
/// values read for those form lists.
///
/// `page_rows` is the number of lists in this batch, `child_length` the number of values in the
/// child's page.
///
/// # Errors
/// `Corrupt` for offsets that descend or lie outside of the child's page, `Missing` for bytes that the
/// source does not hold, `InvalidInput` for rows beyond the page and for a type that is no list.
pub fn decode_list_offsets(
    field: &Field,
    page: &Page,
    page_rows: u64,
    child_length: u64,
    validity: &[Validity],
    rows: &Rows,
    source: &dyn PageSource,
) -> Result<ListOffsets, Error> {
    let large = has_large_offsets(field.data_type())?;
    if page_rows.checked_add(1) != Some(page.length) {
        return Err(Error::corrupt_at(
            format!("{} offsets for {page_rows} lists", page.length),
            page.position,
        ));
    }
    rows.check_within(page_rows)?;
    slots_per_row(field.data_type(), validity.len())?;
    let read = ListPage {
        page,
        child_length,
        rows,
        source,
    };
    let (offsets, child_rows) = if large {
        let (offsets, child) = read.decode::<i64, 8>(i64::from_le_bytes)?;
        (Offsets::Large(offsets), child)
    } else {
        let (offsets, child) = read.decode::<i32, 4>(i32::from_le_bytes)?;
        (Offsets::Small(offsets), child)
    };
    let nulls = read_nulls(
        validity.first().copied().unwrap_or_default(),
        1,
        rows,
        source,
    )?;
    check_nullable(field.is_nullable(), nulls.as_ref())?;
    Ok(ListOffsets {
        offsets,
        nulls,
        child_rows,
    })
}

struct ListPage<'a> {
    page: &'a Page,
    child_length: u64,
    rows: &'a Rows,
    source: &'a dyn PageSource,
}

impl ListPage<'_> {
    fn decode<O: OffsetSizeTrait, const W: usize>(
        &self,
        parse: fn([u8; W]) -> O,
    ) -> Result<(OffsetBuffer<O>, Rows), Error> {
        let Some(span) = self.rows.span() else {
            return Ok((OffsetBuffer::new_empty(), Rows::empty()));
        };
        let (position, width) = (self.page.position, W as u64);
        let origin = self
            .source
            .slice(position..offset_by(position, 1, width)?)?;
        let origin = origin.first_chunk::<W>().map_or(O::zero(), |b| parse(*b));
        let place = |rows: &Range<u64>| offsets(position, rows, width);
        let places = self
            .rows
            .ranges()
            .iter()
            .map(place)
            .collect::<Result<Vec<_>, _>>()?;
        let slices = self.source.slices(place(&span)?, &places)?;
        let mut out: Vec<O> = Vec::with_capacity(to_usize(self.rows.len(), "rows")? + 1);
        out.push(O::zero());
        let mut child: Vec<Range<u64>> = Vec::new();
        for (index, (rows, place)) in self.rows.ranges().iter().zip(places).enumerate() {
            let (stored, _) = slices.get(index, place)?.as_chunks::<W>();
            // Copied before they are checked: bytes of a mapped file could change in between.
            let total = out.pop().unwrap_or_default();
            let start = out.len();
            out.extend(stored.iter().map(|bytes| parse(*bytes)));
            let copied = &mut out[start..];
            let descends = copied
                .windows(2)
                .fold(false, |any, pair| any | (pair[1] < pair[0]));
            let (Some(&first), Some(&last)) = (copied.first(), copied.last()) else {
                return Err(Error::corrupt_at("no list offsets", position));
            };
            let held = self.child_range(first, last, origin).filter(|_| !descends);
            let held = held.filter(|held| child.last().is_none_or(|c| c.end <= held.start));
            let held = held.ok_or_else(|| {
                Error::corrupt_at(
                    format!(
                        "list offsets {first:?}..{last:?} of rows {rows:?} do not ascend within {} \
                         child values (first offset {origin:?})",
                        self.child_length
                    ),
                    position,
                )
            })?;
            // The offsets ascend from `first` to `last`, and ranges of child rows do not overlap. So the
            // sums stay below the number of child values, which an offset of this width can count.
            for offset in copied {
                *offset = *offset - first + total;
            }
            match child.last_mut() {
                _ if held.is_empty() => {}
                Some(before) if before.end == held.start => before.end = held.end,
                _ => child.push(held),
            }
        }
        let offsets = ascending_offsets(out)
            .map_err(|row| Error::corrupt_at(format!("list offset {row} descends"), position))?;
        Ok((offsets, Rows::from_canonical(child)))
    }

    /// The child rows between two offsets, if they lie within the child's page.
    fn child_range<O: OffsetSizeTrait>(&self, first: O, last: O, origin: O) -> Option<Range<u64>> {
        let wide = |offset: O| offset.to_i64();
        let (first, last, origin) = (wide(first)?, wide(last)?, wide(origin)?);
        let start = u64::try_from(first.checked_sub(origin)?).ok()?;
        let end = u64::try_from(last.checked_sub(origin)?).ok()?;
        (origin >= 0 && start <= end && end <= self.child_length).then_some(start..end)
    }
}
