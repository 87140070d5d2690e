//! String arrays from bytes that this crate has checked itself.
//!
//! The checked constructor decodes every character; text is mostly ASCII, for which one test of the
//! high bits is proof enough, offsets included. On pages of 40-byte ASCII values the checked
//! constructor took three quarters of the whole decode. Bytes need no such check at all.
#![expect(
    unsafe_code,
    reason = "checks equal to the checked constructor's, at memory speed"
)]

use arrow_array::types::ByteArrayType;
use arrow_array::{GenericByteArray, OffsetSizeTrait};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType};

/// A string or binary array, checked.
pub(crate) fn byte_array<T: ByteArrayType>(
    offsets: OffsetBuffer<T::Offset>,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<GenericByteArray<T>, ArrowError> {
    let fits = ends_within(&offsets, &values)
        && nulls
            .as_ref()
            .is_none_or(|nulls| nulls.len() == offsets.len() - 1);
    let is_text = matches!(T::DATA_TYPE, DataType::Utf8 | DataType::LargeUtf8);
    if is_text && fits && values.is_ascii() {
        // SAFETY: an `OffsetBuffer` ascends from a number that is not negative, and its last offset
        // lies within the values, so every value does. All values are ASCII, so any part of them
        // is UTF-8. The nulls have one bit per value.
        return Ok(unsafe { GenericByteArray::new_unchecked(offsets, values, nulls) });
    }
    GenericByteArray::try_new(offsets, values, nulls)
}

fn ends_within<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, values: &Buffer) -> bool {
    offsets
        .last()
        .to_usize()
        .is_some_and(|end| end <= values.len())
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Utf8Type;

    use super::*;

    fn strings(lengths: &[usize], values: &[u8], nulls: Option<NullBuffer>) -> bool {
        let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
        let array = byte_array::<Utf8Type>(offsets, Buffer::from(values), nulls);
        array.is_ok_and(|array| arrow_array::Array::to_data(&array).validate_full().is_ok())
    }

    #[test]
    fn only_what_the_checked_constructor_takes_is_built() {
        assert!(strings(&[1, 2], b"abc", None));
        assert!(strings(&[1, 2, 1], "aäb".as_bytes(), None));
        assert!(strings(&[], b"", None));
        // Beyond the values; within a character; no text; too few nulls.
        assert!(!strings(&[1, 3], b"abc", None));
        assert!(!strings(&[2, 2], "aäb".as_bytes(), None));
        assert!(!strings(&[1, 1], b"a\xff", None));
        assert!(!strings(&[1, 2], b"abc", Some(NullBuffer::new_null(1))));
    }
}
