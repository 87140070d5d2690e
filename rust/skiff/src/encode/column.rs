//! One column of a batch, or a part of it, as a source of values.

use arrow_array::{ArrayRef, cast::AsArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer, i256};

use super::value::{Check, Refusal, check_bytes, push_tag, refuse, write_decimal, write_string};
use crate::bytes::BytesArray;
use crate::decode::exact_float;
use crate::error::ValueFault;
use crate::schema::Integer;
use crate::yson::{self, Limits, Style};

/// A source of values. Buffers begin at the first row.
#[derive(Debug)]
pub(crate) enum Column {
    Nothing,
    /// A column that the batch does not have, under an optional node.
    Missing,
    Boolean(BooleanBuffer),
    Copy1(Buffer),
    Copy2(Buffer),
    Copy4(Buffer),
    Copy8(Buffer),
    Copy16(Buffer),
    Copy32(Buffer),
    Number {
        arrow: Integer,
        wire: Integer,
        /// The type that the value is decoded to.
        held: Integer,
        values: Buffer,
    },
    Float32(ScalarBuffer<f32>),
    /// Doubles that are decoded to `float`: they must be exact there.
    Narrow(ScalarBuffer<f64>),
    Decimal {
        arrow_bytes: usize,
        wire_bytes: usize,
        precision: u8,
        values: Buffer,
    },
    Uuid(Buffer),
    Bytes {
        offsets: ScalarBuffer<i32>,
        data: Buffer,
    },
    /// Strings of the less frequent layouts, and all that are checked.
    AnyBytes {
        array: ArrayRef,
        check: Check,
    },
    /// JSON text, written as a YSON node within the limits of the check.
    Json {
        texts: ArrayRef,
        check: Check,
    },
    Optional {
        nulls: Option<NullBuffer>,
        value: Box<Column>,
    },
    Required {
        nulls: NullBuffer,
        value: Box<Column>,
    },
    /// A required YSON node: null is written as an entity.
    Entity {
        nulls: NullBuffer,
        value: Box<Column>,
    },
    /// The members that have bytes.
    Struct(Vec<Column>),
    List {
        offsets: Vec<usize>,
        item: Box<Column>,
        is_wide: bool,
        is_choice: bool,
    },
    Union(Union),
    Dictionary {
        keys: Vec<usize>,
        value: Box<Column>,
    },
}

/// A variant.
#[derive(Debug)]
pub(crate) struct Union {
    pub(crate) ids: ScalarBuffer<i8>,
    /// None for a sparse union, whose children have a value for every row.
    pub(crate) offsets: Option<ScalarBuffer<i32>>,
    /// The number of the alternative of each type id.
    pub(crate) numbers: [u8; 128],
    pub(crate) children: Vec<Column>,
    pub(crate) is_wide: bool,
    pub(crate) is_paged: bool,
}

/// The value of a row in a buffer of values of this size.
#[inline(always)]
fn chunk<const N: usize>(values: &Buffer, row: usize) -> [u8; N] {
    let chunks = values.as_slice().as_chunks::<N>().0;
    chunks.get(row).copied().unwrap_or([0; N])
}

impl Column {
    /// Appends the value of a row. After an error the caller cuts `out` back to the beginning of the row.
    #[inline]
    pub(crate) fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Box<Refusal>> {
        match self {
            Self::Copy8(values) => out.extend_from_slice(&chunk::<8>(values, row)),
            Self::Bytes { offsets, data } => {
                let ends = offsets.get(row).zip(offsets.get(row + 1));
                let range = ends.and_then(|(start, end)| {
                    Some(usize::try_from(*start).ok()?..usize::try_from(*end).ok()?)
                });
                let bytes = range.and_then(|range| data.as_slice().get(range));
                write_string(bytes.unwrap_or_default(), out)?;
            }
            Self::Boolean(values) => out.push(u8::from(values.value(row))),
            Self::Optional { nulls, value } => {
                if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                    out.push(1);
                    return value.write(row, out);
                }
                out.push(0);
            }
            Self::Copy1(values) => out.extend_from_slice(&chunk::<1>(values, row)),
            Self::Copy2(values) => out.extend_from_slice(&chunk::<2>(values, row)),
            Self::Copy4(values) => out.extend_from_slice(&chunk::<4>(values, row)),
            Self::Copy16(values) => out.extend_from_slice(&chunk::<16>(values, row)),
            Self::Copy32(values) => out.extend_from_slice(&chunk::<32>(values, row)),
            Self::Required { nulls, value } => {
                if nulls.is_null(row) {
                    return refuse(
                        ValueFault::NullInRequired,
                        "a null, and the format requires a value; fill it, or make the column optional in the format",
                    );
                }
                return value.write(row, out);
            }
            other => return other.write_converted(row, out),
        }
        Ok(())
    }

    /// The columns whose values are not copied as they are.
    fn write_converted(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Box<Refusal>> {
        match self {
            Self::Missing => out.push(0),
            Self::Number {
                arrow,
                wire,
                held,
                values,
            } => {
                let start = row * arrow.bytes;
                let bytes = values.as_slice().get(start..start + arrow.bytes);
                let value = arrow.read(bytes.unwrap_or_default());
                if let Some(full) = [wire, held].into_iter().find(|it| !it.holds(value)) {
                    let reason = format!("{value} does not fit the {full} of the format");
                    return refuse(ValueFault::OutOfRange, reason);
                }
                out.extend_from_slice(value.to_le_bytes().get(..wire.bytes).unwrap_or_default());
            }
            Self::Float32(values) => {
                let value = values.get(row).copied().unwrap_or_default();
                out.extend_from_slice(&f64::from(value).to_le_bytes());
            }
            Self::Narrow(values) => {
                let value = values.get(row).copied().unwrap_or_default();
                if exact_float(value).is_none() {
                    let reason = format!("{value:?} is not exact in the float of the format");
                    return refuse(ValueFault::OutOfRange, reason);
                }
                out.extend_from_slice(&value.to_le_bytes());
            }
            Self::Decimal {
                arrow_bytes,
                wire_bytes,
                precision,
                values,
            } => {
                let value = match arrow_bytes {
                    16 => i256::from_i128(i128::from_le_bytes(chunk(values, row))),
                    _ => i256::from_le_bytes(chunk(values, row)),
                };
                write_decimal(value, *precision, *wire_bytes, out)?;
            }
            Self::Uuid(values) => {
                let mut bytes = chunk::<16>(values, row);
                bytes.reverse();
                out.extend_from_slice(&bytes);
            }
            Self::AnyBytes { array, check } => {
                // The layout was looked at when the column was bound.
                let Ok(bytes) = BytesArray::try_new(array.as_ref()) else {
                    return Ok(());
                };
                let bytes = bytes.bytes(row);
                check_bytes(*check, bytes)?;
                write_string(bytes, out)?;
            }
            Self::Json { texts, check } => {
                let limits = match check {
                    Check::Yson(limits) => *limits,
                    _ => Limits::default(),
                };
                let text = texts.as_string::<i32>().value(row);
                let node = yson::json_to_yson(text, Style::Binary, limits);
                write_string(&node.map_err(Refusal::from)?, out)?;
            }
            other => return other.write_nested(row, out),
        }
        Ok(())
    }

    /// The columns that hold other columns.
    fn write_nested(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Box<Refusal>> {
        match self {
            Self::Entity { nulls, value } => {
                if nulls.is_valid(row) {
                    return value.write(row, out);
                }
                write_string(b"#", out)?;
            }
            Self::Struct(children) => {
                for child in children {
                    child.write(row, out)?;
                }
            }
            Self::List { .. } => return self.write_list(row, out),
            Self::Union(union) => {
                let most = if union.is_wide { u16::MAX } else { 0xff };
                union.write(row, union.is_wide, most, out)?;
            }
            Self::Dictionary { keys, value } => {
                return value.write(keys.get(row).copied().unwrap_or_default(), out);
            }
            // Nothing has no bytes; the other columns are written by the callers.
            _ => {}
        }
        Ok(())
    }

    fn write_list(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Box<Refusal>> {
        let Self::List {
            offsets,
            item,
            is_wide,
            is_choice,
        } = self
        else {
            return Ok(());
        };
        let range = offsets.get(row).zip(offsets.get(row + 1));
        let (start, end) = range.unwrap_or((&0, &0));
        let terminator = if *is_wide { u16::MAX } else { 0xff };
        for place in *start..*end {
            match item.as_ref() {
                Self::Union(union) if *is_choice => {
                    union.write(place, *is_wide, terminator - 1, out)?;
                }
                item => {
                    push_tag(0, *is_wide, out);
                    item.write(place, out)?;
                }
            }
        }
        push_tag(terminator, *is_wide, out);
        Ok(())
    }

    /// True for a column whose values have no bytes.
    pub(crate) fn is_void(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Struct(children) => children.is_empty(),
            _ => false,
        }
    }

    /// False for a value that the sparse part leaves out.
    pub(crate) fn is_present(&self, row: usize) -> bool {
        match self {
            Self::Nothing | Self::Missing => false,
            Self::Optional { nulls, .. } => nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)),
            _ => true,
        }
    }

    /// Appends a value that is present without the tag that says so.
    pub(crate) fn write_present(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Box<Refusal>> {
        match self {
            Self::Optional { value, .. } => value.write(row, out),
            other => other.write(row, out),
        }
    }
}
