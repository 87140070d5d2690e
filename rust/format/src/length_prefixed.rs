//! Messages that follow their length, and other byte ranges of a manifest file, checked against the size of the file.

use std::ops::Range;

use crate::error::{Error, Result};

/// `len` bytes from `position`; the error says what was read.
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
