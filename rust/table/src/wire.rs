//! The little of protobuf's wire format that the generated code does not give.

use std::ops::Range;

use crate::error::{Error, Result};

/// One field of an encoded message: its number and where its value lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawField {
    pub(crate) number: u64,
    /// The value: the four or eight bytes of a fixed number, the content of a length-delimited one.
    pub(crate) value: Range<usize>,
}

/// The top-level fields of an encoded message, in their order.
pub(crate) fn fields(message: &[u8]) -> Result<Vec<RawField>> {
    let mut fields = Vec::new();
    let mut position = 0;
    while position < message.len() {
        let key = varint(message, &mut position)?;
        let number = key >> 3;
        let start = position;
        let len = match key & 7 {
            0 => {
                varint(message, &mut position)?;
                0
            }
            1 => 8,
            2 => varint(message, &mut position)?,
            5 => 4,
            other => return Err(Error::corrupt(format!("wire type {other} at byte {start}"))),
        };
        // A varint's value is what was just read; the others follow their key and length.
        let start = if key & 7 == 0 { start } else { position };
        let end = usize::try_from(len)
            .ok()
            .and_then(|len| position.checked_add(len));
        let end = end.filter(|end| *end <= message.len());
        position = end.ok_or_else(|| {
            Error::corrupt(format!(
                "field {number} at byte {start} ends beyond its message"
            ))
        })?;
        fields.push(RawField {
            number,
            value: start..position,
        });
    }
    Ok(fields)
}

fn varint(message: &[u8], position: &mut usize) -> Result<u64> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let byte = *message
            .get(*position)
            .ok_or_else(|| Error::corrupt("a cut varint"))?;
        *position += 1;
        if shift < 64 {
            value |= u64::from(byte & 0x7f) << shift;
        }
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Error::corrupt(format!(
        "a varint without end at byte {position}"
    )))
}

/// `len` bytes from `position`, or an error that says what was looked for.
pub(crate) fn slice<'a>(bytes: &'a [u8], position: u64, len: u64, what: &str) -> Result<&'a [u8]> {
    let range = usize::try_from(position)
        .ok()
        .zip(usize::try_from(len).ok());
    let range = range.and_then(|(start, len)| Some(start..start.checked_add(len)?));
    range.and_then(|range| bytes.get(range)).ok_or_else(|| {
        Error::corrupt(format!(
            "{what} at byte {position}, {len} bytes long, lies beyond the {} bytes of the file",
            bytes.len()
        ))
    })
}

/// The range of the message behind a `u32` length prefix at `position`.
pub(crate) fn prefixed(bytes: &[u8], position: u64, what: &str) -> Result<Range<usize>> {
    let prefix = slice(bytes, position, 4, what)?;
    let len = prefix
        .try_into()
        .map(u32::from_le_bytes)
        .unwrap_or_default();
    let start = position
        .checked_add(4)
        .ok_or_else(|| Error::corrupt(what))?;
    slice(bytes, start, u64::from(len), what)?;
    // Both fit: the slice above exists.
    let start = usize::try_from(start).map_err(|_| Error::corrupt(what))?;
    let len = usize::try_from(len).map_err(|_| Error::corrupt(what))?;
    Ok(start..start + len)
}

/// Appends a message with its `u32` length prefix; returns its position.
pub(crate) fn put_prefixed(out: &mut Vec<u8>, message: &[u8], what: &str) -> Result<u64> {
    let position = out.len() as u64;
    let len = u32::try_from(message.len()).map_err(|_| Error::Limit {
        what: what.to_owned(),
        needed: format!("{} bytes", message.len()),
        limit: "4 GiB".to_owned(),
    })?;
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(message);
    Ok(position)
}
