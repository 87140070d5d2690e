//! Control columns: key switches and the indexes of rows and ranges.

use std::borrow::Cow;

use arrow_buffer::MutableBuffer;
use arrow_schema::{DataType, FieldRef};

use super::column::Column;
use super::cursor::{Cursor, RowStop, Stop, bad};
use crate::error::{Error, StreamFault};

type Result<T, E = Error> = std::result::Result<T, E>;

/// What the index columns of the next row are counted from; one for the whole stream.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IndexState {
    pub(crate) row: Option<i64>,
    pub(crate) range: Option<i64>,
}

/// An index column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Index {
    pub(super) column: usize,
    pub(super) is_three_way: bool,
}

/// Checks that a control column keeps its own type.
pub(super) fn control(field: &FieldRef, data_type: &DataType, is_nullable: bool) -> Result<()> {
    if field.data_type() == data_type && field.is_nullable() == is_nullable {
        return Ok(());
    }
    Err(Error::unsupported(
        format!("column `{}`", field.name()),
        format!(
            "the control column is always {}; leave it out of the schema",
            crate::arrow_name::arrow_name(data_type)
        ),
    ))
}

pub(super) fn index_column(is_three_way: bool) -> Column {
    let value = Column::Copy8(MutableBuffer::default());
    if !is_three_way {
        return value;
    }
    Column::Optional {
        flags: Vec::new(),
        value: Box::new(value),
    }
}

pub(super) fn read_key_switch(
    columns: &mut [Column],
    column: usize,
    cursor: &mut Cursor<'_>,
) -> Result<bool, Stop> {
    let at = cursor.pos;
    let byte = cursor.byte()?;
    if byte > 1 {
        let reason = format!("the byte of a boolean is {byte:#04x}, not 0 or 1");
        return bad(StreamFault::BadBoolean, at, reason);
    }
    if let Some(Column::Boolean(flags)) = columns.get_mut(column) {
        flags.push(byte);
    }
    Ok(byte == 1)
}

/// Reads a row index: tag 0 is the number behind that of the row before.
pub(super) fn read_row_index(
    columns: &mut [Column],
    index: Index,
    cursor: &mut Cursor<'_>,
    last: Option<i64>,
) -> Result<Option<i64>, RowStop> {
    let next = last.and_then(|last| last.checked_add(1));
    let reason = match last {
        Some(last) => Cow::Owned(format!(
            "tag 0 stands for the index of the row before plus 1; that index is {last}, the largest int64"
        )),
        None => Cow::Borrowed(NO_EARLIER),
    };
    read_index(columns, index, cursor, (next, reason))
}

/// Reads a range index: tag 0 is that of the row before.
pub(super) fn read_range_index(
    columns: &mut [Column],
    index: Index,
    cursor: &mut Cursor<'_>,
    last: Option<i64>,
) -> Result<Option<i64>, RowStop> {
    read_index(columns, index, cursor, (last, Cow::Borrowed(NO_EARLIER)))
}

const NO_EARLIER: &str = "tag 0 refers to the index of an earlier row, and no row had one";

/// Reads an index: tag 0 is `implied`, or a fault with the reason beside it; tag 1 is followed by the number, tag 2 is an index
/// that is not available.
fn read_index(
    columns: &mut [Column],
    index: Index,
    cursor: &mut Cursor<'_>,
    (implied, reason): (Option<i64>, Cow<'static, str>),
) -> Result<Option<i64>, RowStop> {
    let at = cursor.pos;
    let read = || match cursor.byte()? {
        1 => Ok(Some(i64::from_le_bytes(cursor.array()?))),
        0 if implied.is_some() => Ok(implied),
        0 => bad(StreamFault::BadVariantTag, at, reason),
        2 if index.is_three_way => Ok(None),
        tag => {
            let most = if index.is_three_way { 2 } else { 1 };
            let reason = format!("the tag of an index is {tag}, not one of 0 to {most}");
            bad(StreamFault::BadVariantTag, at, reason)
        }
    };
    let value = read().map_err(|stop| (Some(index.column), stop))?;
    push_index(columns, index.column, value);
    Ok(value)
}

fn push_index(columns: &mut [Column], column: usize, value: Option<i64>) {
    let bytes = value.unwrap_or_default().to_le_bytes();
    match columns.get_mut(column) {
        Some(Column::Copy8(out)) => out.extend_from_slice(&bytes),
        Some(Column::Optional {
            flags,
            value: inner,
        }) => {
            flags.push(u8::from(value.is_some()));
            if let Column::Copy8(out) = inner.as_mut() {
                out.extend_from_slice(&bytes);
            }
        }
        _ => {}
    }
}
