//! The bytes of one page to an Arrow array.
//!
//! A single range of rows shares the fetched memory; scattered rows are gathered into memory that is
//! reserved once, after the bytes for it were seen to exist.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray, NullArray,
    PrimitiveArray, downcast_primitive,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer, MutableBuffer, NullBuffer, ScalarBuffer,
};
use arrow_schema::{ArrowError, DataType, Field};

use crate::error::{Error, to_usize};
use crate::layout::{FixedLayout, Layout};
use crate::plan::{Page, values};
use crate::rows::Rows;
use crate::source::{PageSource, Pieces, shared};
use crate::validity::{MAX_MARKED, Validity, read_bits, read_nulls, slots_per_row};
use crate::variable::decode_var;

/// Decodes the selected rows of a leaf's page. Of a dictionary it returns the keys, as integers.
///
/// `page_rows` is the number of slots that the node has in this batch.
pub fn decode_page(
    field: &Field,
    page: &Page,
    page_rows: u64,
    validity: &[Validity],
    rows: &Rows,
    source: &dyn PageSource,
) -> Result<ArrayRef, Error> {
    let data_type = field.data_type();
    let layout = Layout::of(data_type)?;
    if page.length != page_rows {
        return Err(Error::corrupt_at(
            format!("a page of {} values in a batch of {page_rows}", page.length),
            page.position,
        ));
    }
    rows.check_within(page_rows)?;
    let array: ArrayRef = match layout {
        Layout::Null => {
            // Arrow counts the nulls of a field that may have none, in memory that no byte pays for.
            if !field.is_nullable() && rows.len() > MAX_MARKED {
                return Err(Error::corrupt("nulls in a field that is not nullable"));
            }
            Arc::new(NullArray::new(to_usize(rows.len(), "rows")?))
        }
        Layout::Fixed(layout) => {
            let per_row = slots_per_row(data_type, validity.len())?;
            let read = FixedPage {
                layout,
                page,
                rows,
                source,
                validity,
                per_row: &per_row,
            };
            read.decode(data_type)?
        }
        Layout::Keys { width } => {
            let per_row = slots_per_row(data_type, validity.len())?;
            let DataType::Dictionary(key_type, _) = data_type else {
                return Err(Error::unsupported(format!("keys of {data_type}")));
            };
            let layout = FixedLayout {
                items: 1,
                item_bytes: Some(width),
            };
            let read = FixedPage {
                layout,
                page,
                rows,
                source,
                validity,
                per_row: &per_row,
            };
            read.decode(key_type)?
        }
        Layout::Var { .. } => {
            slots_per_row(data_type, validity.len())?;
            let validity = validity.first().copied().unwrap_or_default();
            decode_var(data_type, field.is_nullable(), page, validity, rows, source)?
        }
        Layout::Offsets { .. } | Layout::Struct | Layout::Items { .. } => {
            return Err(Error::invalid(format!(
                "{data_type} is no leaf; decode its children"
            )));
        }
    };
    if !matches!(layout, Layout::Null) {
        check_nullable(field.is_nullable(), array.nulls())?;
    }
    Ok(array)
}

/// The nulls of a struct (or any node of one level) among the selected rows; `None` if none is.
pub fn decode_nulls(
    field: &Field,
    page_rows: u64,
    validity: &[Validity],
    rows: &Rows,
    source: &dyn PageSource,
) -> Result<Option<NullBuffer>, Error> {
    slots_per_row(field.data_type(), validity.len())?;
    rows.check_within(page_rows)?;
    let nulls = read_nulls(
        validity.first().copied().unwrap_or_default(),
        1,
        rows,
        source,
    )?;
    check_nullable(field.is_nullable(), nulls.as_ref())?;
    Ok(nulls)
}

pub(crate) fn check_nullable(nullable: bool, nulls: Option<&NullBuffer>) -> Result<(), Error> {
    match nulls {
        Some(nulls) if !nullable && nulls.null_count() > 0 => Err(Error::corrupt(format!(
            "{} null values in a field that is not nullable",
            nulls.null_count()
        ))),
        _ => Ok(()),
    }
}

/// Everything that reading a page of equally sized values needs.
struct FixedPage<'a> {
    layout: FixedLayout,
    page: &'a Page,
    rows: &'a Rows,
    source: &'a dyn PageSource,
    validity: &'a [Validity],
    per_row: &'a [u64],
}

impl FixedPage<'_> {
    fn decode(&self, data_type: &DataType) -> Result<ArrayRef, Error> {
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
        self.wrap(data_type, len, 0, values)
    }

    fn bytes(&self, width: u64) -> Result<Buffer, Error> {
        let Some(span) = self.rows.span() else {
            return Ok(Buffer::default());
        };
        let span = values(self.page.position, &span, width)?;
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
        let pieces = self.source.pieces(span, &ranges)?;
        let total = to_usize(self.rows.len().saturating_mul(width), "bytes of a page")?;
        match to_usize(width, "bytes of a value")? {
            1 => gather::<1>(&pieces, ranges, total),
            2 => gather::<2>(&pieces, ranges, total),
            4 => gather::<4>(&pieces, ranges, total),
            8 => gather::<8>(&pieces, ranges, total),
            16 => gather::<16>(&pieces, ranges, total),
            _ => gather::<0>(&pieces, ranges, total),
        }
    }

    /// Dresses the values in their type, level by level.
    fn wrap(
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
                let child = self.wrap(item.data_type(), items, level + 1, values)?;
                let item = Arc::clone(item);
                Arc::new(
                    FixedSizeListArray::try_new_with_length(item, *n, child, nulls, len)
                        .map_err(refused)?,
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
                FixedSizeBinaryArray::try_new_with_len(*n, bytes, nulls, len).map_err(refused)?,
            ),
            (_, Values::Bytes(bytes)) => primitive(data_type, bytes, len, nulls)?,
            (other, Values::Bits(_)) => return Err(Error::unsupported(format!("bits of {other}"))),
        };
        Ok(array)
    }
}

enum Values {
    Bytes(Buffer),
    Bits(BooleanBuffer),
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err takes"
)]
fn refused(error: ArrowError) -> Error {
    Error::corrupt(format!("Arrow refuses the page: {error}"))
}

/// Copies the pieces together. `W` > 0 is the width of one row, whose copy is then one move.
fn gather<const W: usize>(
    pieces: &Pieces<'_>,
    ranges: Vec<Range<u64>>,
    total: usize,
) -> Result<Buffer, Error> {
    // `total` bytes exist in the source, or fetching them had failed.
    let mut out = MutableBuffer::from_len_zeroed(total);
    let mut rest = out.as_slice_mut();
    for (index, range) in ranges.into_iter().enumerate() {
        let bytes = pieces.get(index, range.clone())?;
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
pub(crate) fn aligned(bytes: Buffer, align: usize) -> Buffer {
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
            let array = PrimitiveArray::<$type>::try_new(values, nulls).map_err(refused)?;
            // Restores what the native type does not say: zone, precision, scale.
            Ok(Arc::new(array.with_data_type(data_type.clone())))
        }};
    }
    downcast_primitive! {
        data_type => (build),
        other => Err(Error::unsupported(format!("type {other}"))),
    }
}
