//! Reading var-binary pages: the bytes of strings and binaries, found by their offsets.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::ByteArrayType;
use arrow_array::types::{BinaryType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{ArrayRef, OffsetSizeTrait};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field};
use pilum_common::type_name;

use super::byte_array::{ascending_offsets, byte_array};
use crate::beyond_v1::views_of;
use crate::error::{Error, to_usize};
use crate::plan::{Page, offset_ranges, offsets, value_range};
use crate::rows::Rows;
use crate::source::{PageSource, shared};
use crate::validity::{Validity, count_empty, read_nulls};

/// Decodes the selected rows of a page of strings or binaries; of views, the values that they show.
pub(super) fn decode_var_binary(
    field: &Field,
    page: &Page,
    validity: Validity,
    rows: &Rows,
    source: &dyn PageSource,
) -> Result<ArrayRef, Error> {
    let read = VarPage {
        nullable: field.is_nullable(),
        page,
        validity,
        rows,
        source,
    };
    let data_type = field.data_type();
    let array = match data_type {
        DataType::Utf8 | DataType::Utf8View => read.decode::<Utf8Type>(),
        DataType::LargeUtf8 => read.decode::<LargeUtf8Type>(),
        DataType::Binary | DataType::BinaryView => read.decode::<BinaryType>(),
        DataType::LargeBinary => read.decode::<LargeBinaryType>(),
        other => Err(Error::unsupported(format!(
            "var-binary page of {}",
            type_name(other)
        ))),
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
        Ok(Arc::new(array.map_err(|error| self.invalid_array(&error))?))
    }

    /// Offsets and values of one range of rows: the values share the fetched memory.
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

    /// Offsets and values of many ranges: the values are copied together.
    fn scattered<O: OffsetSizeTrait>(&self) -> Result<(OffsetBuffer<O>, Buffer), Error> {
        let Some(span) = self.rows.span() else {
            return Ok((OffsetBuffer::new_empty(), Buffer::default()));
        };
        let ranges = self.rows.ranges();
        let stored = self.source.slices(
            offsets(self.page.position, &span, 8)?,
            &offset_ranges(self.page, self.rows)?,
        )?;
        let mut relative: Vec<O> = Vec::with_capacity(to_usize(self.rows.len(), "rows")? + 1);
        relative.push(O::zero());
        let mut value_ranges = Vec::with_capacity(ranges.len());
        let (mut floor, mut total) = (0, 0_u64);
        for (index, rows) in ranges.iter().enumerate() {
            let stored = stored.get(index, offsets(self.page.position, rows, 8)?)?;
            let range = value_range(stored, floor, self.page, rows)?;
            floor = range.end;
            let before = total;
            total += range.end - range.start;
            self.check_size::<O>(total)?;
            // The first offset of a range repeats the last of the range before.
            relative.pop();
            self.push_offsets(stored, rows, before, &mut relative)?;
            value_ranges.push(range);
        }
        let span = value_ranges.first().map_or(0, |r| r.start)..floor;
        let values = self.source.slices(span, &value_ranges)?;
        let mut bytes = Vec::with_capacity(to_usize(total, "bytes of values")?);
        for (index, range) in value_ranges.into_iter().enumerate() {
            if !range.is_empty() {
                bytes.extend_from_slice(values.get(index, range)?);
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

    /// Appends stored offsets as Arrow's: the first becomes `base`, and the others keep their distance to it.
    ///
    /// The caller has checked that the last offset, less the first, fits `O`. This function finds an offset between them that
    /// does not fit `O`; [`Self::ascending`] finds one that fits but descends. Both are loops without a branch, and the second
    /// reads what the first left in the cache.
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
        // The compiler does not vectorise one loop that does both. A chunk is still in the cache for the second loop.
        for stored in stored.chunks(CACHED_OFFSETS) {
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

    fn invalid_array(&self, error: &ArrowError) -> Error {
        Error::corrupt_at(
            format!(
                "values of the rows {:?}: {error}",
                self.rows.span().unwrap_or(0..0)
            ),
            self.page.position,
        )
    }
}

/// How many 8-byte offsets fit the first-level cache and leave room for other data.
const CACHED_OFFSETS: usize = 1024;

/// Keeps the low bits. The caller finds offsets that do not fit after its loop, because a check inside would prevent vectorising.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked by the caller"
)]
fn narrow<O: OffsetSizeTrait>(offset: i64) -> O {
    O::usize_as(offset as usize)
}

/// The nulls by v1's rule for a nullable field: zero length is null. Counting vectorises, so a page
/// without nulls costs only the count.
fn empty_is_null<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> Option<NullBuffer> {
    if count_empty(offsets) == 0 {
        return None;
    }
    let len = offsets.len() - 1;
    let bits = BooleanBuffer::collect_bool(len, |row| offsets[row] != offsets[row + 1]);
    Some(NullBuffer::new(bits))
}
