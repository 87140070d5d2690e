//! One column while its rows are read: the buffers that become its array.
//!
//! A column can be cut back to any earlier number of rows, because a row that is not complete yet is read again when more
//! bytes are there.

use arrow_buffer::MutableBuffer;

use super::check::{Check, ReadRules, bad_yson, check_bytes, narrow};
use super::cursor::{Cursor, Stop, bad};
use super::number::{Decimal, Number};
use crate::error::{Result, StreamFault};
use crate::yson;

/// The builder of a column or of a part of it.
#[derive(Debug)]
pub(crate) enum Column {
    Null {
        len: usize,
    },
    /// One byte per row, 0 or 1.
    Boolean(Vec<u8>),
    /// Values whose bytes are the same on the wire and in Arrow.
    Copy1(MutableBuffer),
    Copy2(MutableBuffer),
    Copy4(MutableBuffer),
    Copy8(MutableBuffer),
    Copy16(MutableBuffer),
    Copy32(MutableBuffer),
    Number(Number),
    Decimal(Decimal),
    Float32(Vec<f32>),
    /// 16 bytes in the reverse order.
    Uuid(MutableBuffer),
    Bytes {
        offsets: Vec<i32>,
        data: MutableBuffer,
        check: Check,
    },
    LargeBytes {
        offsets: Vec<i64>,
        data: MutableBuffer,
        check: Check,
    },
    /// Strings that must all have the same length.
    Fixed {
        width: usize,
        len: usize,
        data: MutableBuffer,
    },
    /// YSON nodes as JSON text.
    Json {
        offsets: Vec<i32>,
        data: MutableBuffer,
    },
    Optional {
        /// One byte per row: 1 where there is a value.
        flags: Vec<u8>,
        value: Box<Column>,
    },
    Struct(Struct),
    List(List),
    Union(Union),
}

/// Tuples: one column per member.
#[derive(Debug)]
pub(crate) struct Struct {
    pub(super) children: Vec<Column>,
    /// The members that have bytes on the wire.
    pub(super) read: Vec<usize>,
    pub(super) len: usize,
}

/// Repeated variants: offsets and one column of items.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) offsets: Vec<i64>,
    pub(crate) item: Box<Column>,
    pub(super) is_wide: bool,
    /// Whether the tag picks an alternative of a union; otherwise it is 0.
    pub(super) is_choice: bool,
    pub(super) item_width: usize,
}

/// Variants: which alternative each row has, and where.
#[derive(Debug)]
pub(crate) struct Union {
    pub(crate) ids: Vec<i8>,
    pub(crate) offsets: Vec<i32>,
    pub(crate) children: Vec<Column>,
    pub(super) is_wide: bool,
    pub(super) num_alternatives: usize,
    /// Whether the children are unions of 128 alternatives each.
    pub(super) is_paged: bool,
}

impl Column {
    /// Bytes of memory that a row takes whatever its values are.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Null { .. } => 0,
            Self::Boolean(_) | Self::Copy1(_) => 1,
            Self::Copy2(_) => 2,
            Self::Copy4(_) | Self::Float32(_) | Self::Bytes { .. } | Self::Json { .. } => 4,
            Self::Copy8(_) | Self::LargeBytes { .. } | Self::List(_) => 8,
            Self::Copy16(_) | Self::Uuid(_) => 16,
            Self::Copy32(_) => 32,
            Self::Number(number) => number.arrow.bytes,
            Self::Decimal(decimal) => decimal.arrow_bytes,
            Self::Fixed { width, .. } => *width,
            Self::Optional { value, .. } => 1 + value.width(),
            Self::Struct(it) => it.children.iter().map(Self::width).sum(),
            Self::Union(union) => {
                let widths = union.children.iter().map(Self::width);
                5 + widths.max().unwrap_or_default()
            }
        }
    }

    /// True for a column whose values have no bytes on the wire. The tuple or table around it does not read it: it counts the
    /// rows once, when its arrays are made, so that a stream costs no more time than it has bytes.
    pub(crate) fn is_void(&self) -> bool {
        match self {
            Self::Null { .. } => true,
            Self::Struct(it) => it.read.is_empty(),
            _ => false,
        }
    }

    /// Sets the number of rows of a column whose values have no bytes.
    pub(crate) fn set_void_len(&mut self, num_rows: usize) {
        match self {
            Self::Null { len } => *len = num_rows,
            Self::Struct(it) => it.len = num_rows,
            _ => {}
        }
    }

    /// Reads one value. After an error the column has to be cut back before it is used again.
    #[inline]
    pub(crate) fn read(&mut self, cursor: &mut Cursor<'_>, rules: ReadRules) -> Result<(), Stop> {
        match self {
            Self::Copy8(out) => out.extend_from_slice(&cursor.array::<8>()?),
            Self::Bytes {
                offsets,
                data,
                check,
            } => {
                let at = cursor.pos;
                let bytes = cursor.string()?;
                if *check != Check::Nothing {
                    check_bytes(*check, bytes, at, rules)?;
                }
                data.extend_from_slice(bytes);
                let Ok(end) = i32::try_from(data.len()) else {
                    return Err(Stop::TooLarge);
                };
                offsets.push(end);
            }
            Self::Boolean(flags) => {
                let byte = cursor.byte()?;
                if byte > 1 {
                    let reason = format!("the byte of a boolean is {byte:#04x}, not 0 or 1");
                    return bad(StreamFault::BadBoolean, cursor.pos - 1, reason);
                }
                flags.push(byte);
            }
            Self::Optional { flags, value } => {
                let tag = cursor.byte()?;
                match tag {
                    1 => value.read(cursor, rules)?,
                    0 => value.push_default(),
                    _ => {
                        let reason = format!("the tag of an optional is {tag}, not 0 or 1");
                        return bad(StreamFault::BadVariantTag, cursor.pos - 1, reason);
                    }
                }
                flags.push(tag);
            }
            Self::Copy1(out) => out.push(cursor.byte()?),
            Self::Copy2(out) => out.extend_from_slice(&cursor.array::<2>()?),
            Self::Copy4(out) => out.extend_from_slice(&cursor.array::<4>()?),
            Self::Copy16(out) => out.extend_from_slice(&cursor.array::<16>()?),
            Self::Copy32(out) => out.extend_from_slice(&cursor.array::<32>()?),
            other => return other.read_rare(cursor, rules),
        }
        Ok(())
    }

    fn read_rare(&mut self, cursor: &mut Cursor<'_>, rules: ReadRules) -> Result<(), Stop> {
        let at = cursor.pos;
        match self {
            Self::Null { len } => *len += 1,
            Self::Number(number) => number.read(cursor)?,
            Self::Decimal(decimal) => decimal.read(cursor)?,
            Self::Float32(out) => out.push(narrow(f64::from_le_bytes(cursor.array()?), at)?),
            Self::Uuid(out) => {
                let mut bytes = cursor.array::<16>()?;
                bytes.reverse();
                out.extend_from_slice(&bytes);
            }
            Self::LargeBytes {
                offsets,
                data,
                check,
            } => {
                let bytes = cursor.string()?;
                check_bytes(*check, bytes, at, rules)?;
                data.extend_from_slice(bytes);
                offsets.push(i64::try_from(data.len()).map_err(|_| Stop::TooLarge)?);
            }
            Self::Fixed { width, len, data } => {
                let bytes = cursor.string()?;
                if bytes.len() != *width {
                    let found = bytes.len();
                    let reason = format!(
                        "a string of {found} bytes, and the format has fixed_size_binary[{width}]"
                    );
                    return bad(StreamFault::OutOfRange, at, reason);
                }
                data.extend_from_slice(bytes);
                *len += 1;
            }
            Self::Json { offsets, data } => {
                let json =
                    yson::yson_to_json(cursor.string()?, yson::JsonOptions::exact(), rules.limits);
                match json {
                    Ok(json) => data.extend_from_slice(json.as_bytes()),
                    Err(error) => return bad_yson(error, at),
                }
                offsets.push(i32::try_from(data.len()).map_err(|_| Stop::TooLarge)?);
            }
            Self::Struct(it) => it.read(cursor, rules)?,
            Self::List(list) => list.read(cursor, rules)?,
            Self::Union(union) => union.read(cursor, rules)?,
            // The other columns are read by the caller.
            _ => {}
        }
        Ok(())
    }

    /// Appends what stands under a null.
    pub(crate) fn push_default(&mut self) {
        match self {
            Self::Null { len } => *len += 1,
            Self::Boolean(flags) => flags.push(0),
            Self::Float32(out) => out.push(0.0),
            Self::Bytes { offsets, .. } | Self::Json { offsets, .. } => {
                offsets.push(offsets.last().copied().unwrap_or_default());
            }
            Self::LargeBytes { offsets, .. } => {
                offsets.push(offsets.last().copied().unwrap_or_default());
            }
            Self::List(list) => list.push_default(),
            Self::Optional { flags, value } => {
                flags.push(0);
                value.push_default();
            }
            Self::Struct(it) => it.push_default(),
            Self::Union(union) => union.push_default(),
            Self::Fixed { width, len, data } => {
                data.extend_zeros(*width);
                *len += 1;
            }
            _ => {
                if let Self::Decimal(Decimal {
                    flags: Some(flags), ..
                }) = self
                {
                    flags.push(1);
                }
                let width = self.width();
                if let Some(out) = self.plain() {
                    out.extend_zeros(width);
                }
            }
        }
    }

    /// The buffer of a column with one fixed-size value per row.
    fn plain(&mut self) -> Option<&mut MutableBuffer> {
        match self {
            Self::Copy1(out)
            | Self::Copy2(out)
            | Self::Copy4(out)
            | Self::Copy8(out)
            | Self::Copy16(out)
            | Self::Copy32(out)
            | Self::Uuid(out)
            | Self::Number(Number { out, .. })
            | Self::Decimal(Decimal { out, .. }) => Some(out),
            _ => None,
        }
    }

    /// Cuts the column back to `len` rows at most, and removes what an unfinished row left.
    pub(crate) fn truncate(&mut self, len: usize) {
        match self {
            Self::Null { len: own } => *own = len.min(*own),
            Self::Boolean(flags) => flags.truncate(len),
            Self::Float32(out) => out.truncate(len),
            Self::Bytes { offsets, data, .. } | Self::Json { offsets, data } => {
                offsets.truncate(len + 1);
                let end = offsets.last().copied().unwrap_or_default();
                data.truncate(usize::try_from(end).unwrap_or_default());
            }
            Self::LargeBytes { offsets, data, .. } => {
                offsets.truncate(len + 1);
                let end = offsets.last().copied().unwrap_or_default();
                data.truncate(usize::try_from(end).unwrap_or_default());
            }
            Self::Fixed {
                width,
                len: own,
                data,
            } => {
                *own = len.min(*own);
                data.truncate(*own * *width);
            }
            Self::Optional { flags, value } => {
                flags.truncate(len);
                value.truncate(flags.len());
            }
            Self::Struct(it) => it.truncate(len),
            Self::List(list) => list.truncate(len),
            Self::Union(union) => union.truncate(len),
            _ => {
                if let Self::Decimal(Decimal {
                    flags: Some(flags), ..
                }) = self
                {
                    flags.truncate(len);
                }
                let width = self.width();
                if let Some(out) = self.plain() {
                    out.truncate(len * width);
                }
            }
        }
    }

    /// NaN and infinities that were handed out as nulls.
    pub(crate) fn num_special(&self) -> u64 {
        match self {
            Self::Decimal(decimal) => decimal.num_special,
            Self::Optional { value, .. } => value.num_special(),
            Self::Struct(it) => it.children.iter().map(Self::num_special).sum(),
            Self::List(list) => list.item.num_special(),
            Self::Union(union) => union.children.iter().map(Self::num_special).sum(),
            _ => 0,
        }
    }
}
