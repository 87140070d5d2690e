//! Reading var-binary pages and list offsets: the two layouts whose bytes say where bytes are.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::ByteArrayType;
use arrow_array::types::{BinaryType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{ArrayRef, OffsetSizeTrait};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field};

use crate::beyond::views_of;
use crate::decode::check_nullable;
use crate::encode::count_equal_neighbours;
use crate::error::{Error, offset_by, to_usize};
use crate::nested::{ListOffsets, Offsets, offsets_of};
use crate::plan::{Page, offset_ranges, offsets, value_range};
use crate::rows::Rows;
use crate::source::{PageSource, shared};
use crate::text::{ascending_offsets, byte_array};
use crate::validity::{Validity, read_nulls, slots_per_row};

pub(crate) fn decode_var(
    data_type: &DataType,
    nullable: bool,
    page: &Page,
    validity: Validity,
    rows: &Rows,
    source: &dyn PageSource,
) -> Result<ArrayRef, Error> {
    let read = VarPage {
        nullable,
        page,
        validity,
        rows,
        source,
    };
    let array = match data_type {
        DataType::Utf8 | DataType::Utf8View => read.decode::<Utf8Type>(),
        DataType::LargeUtf8 => read.decode::<LargeUtf8Type>(),
        DataType::Binary | DataType::BinaryView => read.decode::<BinaryType>(),
        DataType::LargeBinary => read.decode::<LargeBinaryType>(),
        other => Err(Error::unsupported(format!("var-binary page of {other}"))),
    };
    Ok(views_of(data_type, array?))
}

struct VarPage<'a> {
    nullable: bool,
    page: &'a Page,
    validity: Validity,
    rows: &'a Rows,
    source: &'a dyn PageSource,
}

impl VarPage<'_> {
    fn decode<T: ByteArrayType>(&self) -> Result<ArrayRef, Error> {
        let (offsets, bytes) = if self.rows.is_single_range() {
            self.contiguous::<T::Offset>()?
        } else {
            self.scattered::<T::Offset>()?
        };
        let nulls = match self.validity {
            Validity::V1 if self.nullable => empty_is_null(&offsets),
            validity => read_nulls(validity, 1, self.rows, self.source)?,
        };
        let array = byte_array::<T>(offsets, bytes, nulls);
        Ok(Arc::new(array.map_err(|error| self.refused(&error))?))
    }

    /// One range of rows: the values stay where they were fetched.
    fn contiguous<O: OffsetSizeTrait>(&self) -> Result<(OffsetBuffer<O>, Buffer), Error> {
        let Some(rows) = self.rows.span() else {
            return self.scattered();
        };
        let stored = self.source.slice(offsets(self.page.position, &rows, 8)?)?;
        let range = value_range(stored, 0, self.page, &rows)?;
        self.check_size::<O>(range.end - range.start)?;
        let mut relative = Vec::with_capacity(stored.len() / 8);
        self.push_offsets(stored, &rows, 0, &mut relative)?;
        let bytes = shared(self.source, range)?;
        Ok((self.ascending(relative)?, bytes))
    }

    /// Many ranges: the values are copied together.
    fn scattered<O: OffsetSizeTrait>(&self) -> Result<(OffsetBuffer<O>, Buffer), Error> {
        let Some(span) = self.rows.span() else {
            return Ok((OffsetBuffer::new_empty(), Buffer::default()));
        };
        let ranges = self.rows.ranges();
        let stored = self.source.pieces(
            offsets(self.page.position, &span, 8)?,
            &offset_ranges(self.page, self.rows)?,
        )?;
        let mut relative: Vec<O> = Vec::with_capacity(to_usize(self.rows.len(), "rows")? + 1);
        relative.push(O::zero());
        let mut places = Vec::with_capacity(ranges.len());
        let (mut floor, mut total) = (0, 0_u64);
        for (index, rows) in ranges.iter().enumerate() {
            let stored = stored.get(index, offsets(self.page.position, rows, 8)?)?;
            let range = value_range(stored, floor, self.page, rows)?;
            floor = range.end;
            let before = total;
            total += range.end - range.start;
            self.check_size::<O>(total)?;
            // The first offset of a range is the last of the one before.
            relative.pop();
            self.push_offsets(stored, rows, before, &mut relative)?;
            places.push(range);
        }
        let span = places.first().map_or(0, |r| r.start)..floor;
        let values = self.source.pieces(span, &places)?;
        let mut bytes = Vec::with_capacity(to_usize(total, "bytes of values")?);
        for (index, place) in places.into_iter().enumerate() {
            if !place.is_empty() {
                bytes.extend_from_slice(values.get(index, place)?);
            }
        }
        Ok((self.ascending(relative)?, Buffer::from_vec(bytes)))
    }

    fn check_size<O: OffsetSizeTrait>(&self, bytes: u64) -> Result<(), Error> {
        let limit = O::MAX_OFFSET as u64;
        if bytes > limit {
            let what = format!("bytes in one array with {}-byte offsets", size_of::<O>());
            return Err(Error::Limit {
                what,
                actual: bytes,
                limit,
            });
        }
        Ok(())
    }

    /// Stored offsets as Arrow's: counted from `base` more than the first.
    ///
    /// The first and the last are known to lie `O` apart. One between them that does not fit `O` is found here, and one that
    /// fits but descends in [`Self::ascending`]: two loops without a branch, the second over what the first left in the cache.
    fn push_offsets<O: OffsetSizeTrait>(
        &self,
        stored: &[u8],
        rows: &Range<u64>,
        base: u64,
        out: &mut Vec<O>,
    ) -> Result<(), Error> {
        let (stored, _) = stored.as_chunks::<8>();
        let first = stored.first().map_or(0, |b| i64::from_le_bytes(*b));
        let shift = first.wrapping_sub_unsigned(base);
        let relative = move |b: &[u8; 8]| i64::from_le_bytes(*b).wrapping_sub(shift);
        let mut bits = 0;
        // One loop for both is not vectorised; so few offsets are still near when they are read again.
        for stored in stored.chunks(NEAR_OFFSETS) {
            bits |= stored.iter().fold(0, |bits, b| bits | relative(b));
            out.extend(stored.iter().map(|b| narrow::<O>(relative(b))));
        }
        if bits.cast_unsigned() > O::MAX_OFFSET as u64 {
            let at = stored
                .windows(2)
                .position(|p| i64::from_le_bytes(p[1]) < i64::from_le_bytes(p[0]));
            return Err(self.descends(rows.start + at.unwrap_or(0) as u64));
        }
        Ok(())
    }

    fn ascending<O: OffsetSizeTrait>(&self, relative: Vec<O>) -> Result<OffsetBuffer<O>, Error> {
        ascending_offsets(relative).map_err(|at| {
            let row = self.rows.iter().nth(at);
            self.descends(row.unwrap_or(0))
        })
    }

    fn descends(&self, row: u64) -> Error {
        Error::corrupt_at(
            format!("value offsets descend after row {row}"),
            self.page.position.saturating_add(row.saturating_mul(8)),
        )
    }

    fn refused(&self, error: &ArrowError) -> Error {
        Error::corrupt_at(
            format!(
                "values of the rows {:?}: {error}",
                self.rows.span().unwrap_or(0..0)
            ),
            self.page.position,
        )
    }
}

/// Offsets of 8 bytes that fit the nearest cache with room for others.
const NEAR_OFFSETS: usize = 1024;

/// Keeps the low bits: what does not fit is found by the checks around the loop, not within it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked by the caller"
)]
fn narrow<O: OffsetSizeTrait>(offset: i64) -> O {
    O::usize_as(offset as usize)
}

/// v1's rule for a nullable field: zero length is null. Counting vectorises, so a page without
/// nulls pays only for that.
fn empty_is_null<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> Option<NullBuffer> {
    if count_equal_neighbours(offsets) == 0 {
        return None;
    }
    let len = offsets.len() - 1;
    let bits = BooleanBuffer::collect_bool(len, |row| offsets[row] != offsets[row + 1]);
    Some(NullBuffer::new(bits))
}

/// Decodes the offsets of the selected lists: which rows of the child's page they hold, and how the
/// values read for those form lists.
///
/// `page_rows` is the number of lists in this batch, `child_length` the number of values in the
/// child's page.
pub fn decode_list_offsets(
    field: &Field,
    page: &Page,
    page_rows: u64,
    child_length: u64,
    validity: &[Validity],
    rows: &Rows,
    source: &dyn PageSource,
) -> Result<ListOffsets, Error> {
    let large = offsets_of(field.data_type())?;
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
        let pieces = self.source.pieces(place(&span)?, &places)?;
        let mut out: Vec<O> = Vec::with_capacity(to_usize(self.rows.len(), "rows")? + 1);
        out.push(O::zero());
        let mut child: Vec<Range<u64>> = Vec::new();
        let mut total = O::zero();
        for (index, (rows, place)) in self.rows.ranges().iter().zip(places).enumerate() {
            let (stored, _) = pieces.get(index, place)?.as_chunks::<W>();
            let descends = stored
                .windows(2)
                .fold(false, |any, pair| any | (parse(pair[1]) < parse(pair[0])));
            let (Some(first), Some(last)) = (stored.first(), stored.last()) else {
                return Err(Error::corrupt_at("no list offsets", position));
            };
            let (first, last) = (parse(*first), parse(*last));
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
            // Ascending between `first` and `last`, and held ranges do not overlap: the sums stay
            // below the number of child values that an offset of this width can count.
            let base = total;
            out.extend(stored.iter().skip(1).map(|b| parse(*b) - first + base));
            total = base + (last - first);
            match child.last_mut() {
                _ if held.is_empty() => {}
                Some(before) if before.end == held.start => before.end = held.end,
                _ => child.push(held),
            }
        }
        Ok((
            OffsetBuffer::new(ScalarBuffer::from(out)),
            Rows::from_canonical(child),
        ))
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
