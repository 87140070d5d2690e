//! Reading pages of values of equal size: fixed-width values, bits, keys, and flattened lists of these.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray, PrimitiveArray,
    downcast_primitive,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer, MutableBuffer, NullBuffer, ScalarBuffer,
};
use arrow_schema::{ArrowError, DataType};
use pilum_common::type_name;

use crate::error::{Error, to_usize};
use crate::layout::FixedLayout;
use crate::plan::{Page, values};
use crate::rows::Rows;
use crate::source::{PageSource, RangeSlices, shared};
use crate::validity::{Validity, read_bits, read_nulls};

/// Everything that reading a page of equally sized values needs.
pub(super) struct FixedPage<'a> {
    pub(super) layout: FixedLayout,
    pub(super) page: &'a Page,
    pub(super) rows: &'a Rows,
    pub(super) source: &'a dyn PageSource,
    /// Validity by level, outermost first.
    pub(super) validity: &'a [Validity],
    /// Slots per row of each level.
    pub(super) per_row: &'a [u64],
    /// Whether the values must lie in memory that no other process can change: a check of dictionary
    /// keys would be worth nothing if a key could change after it.
    pub(super) copies: bool,
}

impl FixedPage<'_> {
    /// The selected rows as an array of `data_type`, whose layout the page has.
    pub(super) fn decode(&self, data_type: &DataType) -> Result<ArrayRef, Error> {
        let values = match self.layout.row_bytes()? {
            Some(width) => Values::Bytes(self.bytes(width)?),
            None => Values::Bits(read_bits(
                self.page.position,
                self.layout.items,
                self.rows,
                self.source,
            )?),
        };
        let len = to_usize(self.rows.len(), "rows")?;
        self.to_array(data_type, len, 0, values)
    }

    /// The value bytes of the selected rows: shared with the source for one range of
    /// rows, unless the field `copies` forbids it, else copied together.
    fn bytes(&self, width: u64) -> Result<Buffer, Error> {
        let Some(span) = self.rows.span() else {
            return Ok(Buffer::default());
        };
        let span = values(self.page.position, &span, width)?;
        if self.rows.is_single_range() && self.copies {
            return Ok(Buffer::from_slice_ref(self.source.slice(span)?));
        }
        if self.rows.is_single_range() {
            return shared(self.source, span);
        }
        let range = |rows: &Range<u64>| values(self.page.position, rows, width);
        let ranges = self
            .rows
            .ranges()
            .iter()
            .map(range)
            .collect::<Result<Vec<_>, _>>()?;
        let slices = self.source.slices(span, &ranges)?;
        let total = to_usize(self.rows.len().saturating_mul(width), "bytes of a page")?;
        match to_usize(width, "bytes of a value")? {
            1 => gather::<1>(&slices, ranges, total),
            2 => gather::<2>(&slices, ranges, total),
            4 => gather::<4>(&slices, ranges, total),
            8 => gather::<8>(&slices, ranges, total),
            16 => gather::<16>(&slices, ranges, total),
            _ => gather::<0>(&slices, ranges, total),
        }
    }

    /// An array of the values, which lie flattened, with the nulls of its level and of those below.
    fn to_array(
        &self,
        data_type: &DataType,
        len: usize,
        level: usize,
        values: Values,
    ) -> Result<ArrayRef, Error> {
        let nulls = match (self.validity.get(level), self.per_row.get(level)) {
            (Some(validity), Some(per_row)) => {
                read_nulls(*validity, *per_row, self.rows, self.source)?
            }
            _ => None,
        };
        let array: ArrayRef = match (data_type, values) {
            (DataType::FixedSizeList(item, n), values) => {
                let items = n.to_usize().and_then(|n| len.checked_mul(n));
                let items = items.ok_or_else(|| Error::corrupt(format!("{len} lists of {n}")))?;
                let child = self.to_array(item.data_type(), items, level + 1, values)?;
                let item = Arc::clone(item);
                Arc::new(
                    FixedSizeListArray::try_new_with_length(item, *n, child, nulls, len)
                        .map_err(invalid_array)?,
                )
            }
            (DataType::Boolean, Values::Bits(bits)) => {
                if bits.len() != len || nulls.as_ref().is_some_and(|n| n.len() != len) {
                    return Err(Error::corrupt(format!(
                        "{} bits for {len} values",
                        bits.len()
                    )));
                }
                Arc::new(BooleanArray::new(bits, nulls))
            }
            (DataType::FixedSizeBinary(n), Values::Bytes(bytes)) => Arc::new(
                FixedSizeBinaryArray::try_new_with_len(*n, bytes, nulls, len)
                    .map_err(invalid_array)?,
            ),
            (_, Values::Bytes(bytes)) => primitive(data_type, bytes, len, nulls)?,
            (other, Values::Bits(_)) => {
                return Err(Error::unsupported(format!("bits of {}", type_name(other))));
            }
        };
        Ok(array)
    }
}

/// The flattened values of a page.
enum Values {
    Bytes(Buffer),
    Bits(BooleanBuffer),
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err takes"
)]
fn invalid_array(error: ArrowError) -> Error {
    Error::corrupt(format!("Arrow refuses the page: {error}"))
}

/// Copies scattered rows together. `W` > 0 is the width of one row: a range of one row is then copied
/// by one move.
fn gather<const W: usize>(
    slices: &RangeSlices<'_>,
    ranges: Vec<Range<u64>>,
    total: usize,
) -> Result<Buffer, Error> {
    // Bounded: `slices` was built only after all `total` bytes were found in the source.
    let mut out = MutableBuffer::from_len_zeroed(total);
    let mut rest = out.as_slice_mut();
    for (index, range) in ranges.into_iter().enumerate() {
        let bytes = slices.get(index, range.clone())?;
        let Some((here, after)) = rest.split_at_mut_checked(bytes.len()) else {
            return Err(Error::Missing(range));
        };
        if let (true, Some(one), Some(to)) = (
            here.len() == W,
            bytes.first_chunk::<W>(),
            here.first_chunk_mut::<W>(),
        ) {
            *to = *one;
        } else {
            here.copy_from_slice(bytes);
        }
        rest = after;
    }
    Ok(out.into())
}

/// A buffer that Arrow may read as values of this alignment: the same one if it already may.
fn aligned(bytes: Buffer, align: usize) -> Buffer {
    if bytes.as_ptr().align_offset(align) == 0 {
        bytes
    } else {
        Buffer::from_slice_ref(&*bytes)
    }
}

fn primitive(
    data_type: &DataType,
    bytes: Buffer,
    len: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, Error> {
    macro_rules! build {
        ($type:ty) => {{
            type Native = <$type as arrow_array::ArrowPrimitiveType>::Native;
            if bytes.len() != len * size_of::<Native>() {
                return Err(Error::corrupt(format!(
                    "{} bytes for {len} values",
                    bytes.len()
                )));
            }
            let values = ScalarBuffer::<Native>::from(aligned(bytes, align_of::<Native>()));
            let array = PrimitiveArray::<$type>::try_new(values, nulls).map_err(invalid_array)?;
            // The native type has no time zone, precision or scale: take them from the field.
            Ok(Arc::new(array.with_data_type(data_type.clone())))
        }};
    }
    downcast_primitive! {
        data_type => (build),
        other => Err(Error::unsupported(format!("type {}", type_name(other)))),
    }
}
