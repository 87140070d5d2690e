//! String and binary arrays from offsets and bytes, with the checks of Arrow's constructors made faster.
//!
//! Arrow's checked constructor decodes every character. Text is mostly ASCII, and then one test of the
//! high bits proves that every part of it is UTF-8. On pages of 40-byte ASCII values the checked
//! constructor took three quarters of the whole decode. Binary values need no such check. Offsets are
//! compared by a loop without an early exit, which vectorises; the checked constructor's loop does not.
//!
//! Offsets are always a copy, and checked after copying. Value bytes may be those of a mapped file and are
//! checked where they lie. Copying them would protect only against a program that overwrites a published data
//! file in place, which the contract of mapped files excludes (`pilum_store`, module `map`), and copying costs
//! several times as much as the check. Folders in which other programs overwrite files must be opened without
//! mapping; every read is then a private copy.
#![expect(
    unsafe_code,
    reason = "checks equal to the checked constructor's, at memory speed"
)]

use arrow_array::types::ByteArrayType;
use arrow_array::{GenericByteArray, OffsetSizeTrait};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType};

/// A string or binary array.
///
/// # Errors
/// The first text that is not UTF-8, by its index; else the error of Arrow's checked constructor.
pub(super) fn byte_array<T: ByteArrayType>(
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
    let (starts, bytes) = (offsets.clone(), values.clone());
    GenericByteArray::try_new(offsets, values, nulls).map_err(|error| {
        match first_invalid_text(&starts, &bytes).filter(|_| is_text && fits) {
            Some(index) => ArrowError::InvalidArgumentError(format!(
                "the bytes of value {index} are not UTF-8"
            )),
            None => error,
        }
    })
}

fn first_invalid_text<O: OffsetSizeTrait>(offsets: &[O], values: &[u8]) -> Option<usize> {
    offsets.windows(2).position(|ends| {
        let text = values.get(ends[0].as_usize()..ends[1].as_usize());
        text.is_none_or(|text| std::str::from_utf8(text).is_err())
    })
}

/// Offsets that begin at zero or above and never descend.
///
/// # Errors
/// The index of the first offset that is followed by a lower one; 0 if the first offset is negative.
pub(super) fn ascending_offsets<O: OffsetSizeTrait>(
    offsets: Vec<O>,
) -> Result<OffsetBuffer<O>, usize> {
    if offsets.first().is_none_or(|first| *first < O::zero()) {
        return Err(0);
    }
    // Two slices side by side: the compiler does not vectorise `windows`.
    let pairs = || offsets.iter().zip(&offsets[1..]);
    if pairs().fold(false, |any, (one, next)| any | (next < one)) {
        return Err(pairs()
            .position(|(one, next)| next < one)
            .unwrap_or_default());
    }
    // SAFETY: there is an offset, the first is not negative, and none is lower than the one before.
    Ok(unsafe { OffsetBuffer::new_unchecked(offsets.into()) })
}

/// Whether the last offset lies within the values.
fn ends_within<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, values: &Buffer) -> bool {
    offsets
        .last()
        .to_usize()
        .is_some_and(|end| end <= values.len())
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Utf8Type;
    use arrow_buffer::ScalarBuffer;

    use super::*;

    fn strings(lengths: &[usize], values: &[u8], nulls: Option<NullBuffer>) -> bool {
        let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
        let array = byte_array::<Utf8Type>(offsets, Buffer::from(values), nulls);
        array.is_ok_and(|array| arrow_array::Array::to_data(&array).validate_full().is_ok())
    }

    #[test]
    fn offsets_are_accepted_as_by_the_checked_constructor() {
        let lists: [&[i32]; 9] = [
            &[],
            &[0],
            &[-1],
            &[3, 3, 4],
            &[0, 5, 4, 9],
            &[0, 1, 0],
            &[-1, 0],
            &[0, i32::MAX],
            &[0, i32::MAX, i32::MIN],
        ];
        for list in lists {
            let checked =
                std::panic::catch_unwind(|| OffsetBuffer::new(ScalarBuffer::from(list.to_vec())));
            assert_eq!(ascending_offsets(list.to_vec()).ok(), checked.ok());
        }
        // A descent at any place: within the vectors of the loop and in the rest after them.
        for len in 2..70_i64 {
            for at in 1..len {
                let mut list: Vec<i64> = (10..10 + len).collect();
                list[to_usize(at)] = list[to_usize(at) - 1] - 1;
                assert_eq!(ascending_offsets(list).unwrap_err(), to_usize(at) - 1);
            }
        }
    }

    fn to_usize(at: i64) -> usize {
        usize::try_from(at).unwrap()
    }

    #[test]
    fn the_first_text_that_is_not_utf8_is_named() {
        let offsets = OffsetBuffer::<i32>::from_lengths([1, 2, 1, 1]);
        let array = byte_array::<Utf8Type>(offsets, Buffer::from(b"a\xc3\xa4\xff\xfe"), None);
        let told = array.unwrap_err().to_string();
        assert!(told.contains("value 2 are not UTF-8"), "{told}");
        // A character that two values share.
        let offsets = OffsetBuffer::<i32>::from_lengths([1, 1, 1]);
        let array = byte_array::<Utf8Type>(offsets, Buffer::from("a\u{e4}".as_bytes()), None);
        assert!(array.unwrap_err().to_string().contains("value 1 are not"));
    }

    #[test]
    fn arrays_that_the_checked_constructor_refuses_are_refused() {
        assert!(strings(&[1, 2], b"abc", None));
        assert!(strings(&[1, 2, 1], "aäb".as_bytes(), None));
        assert!(strings(&[], b"", None));
        // Offsets beyond the values; an offset within a character; bytes that are no UTF-8; too few nulls.
        assert!(!strings(&[1, 3], b"abc", None));
        assert!(!strings(&[2, 2], "aäb".as_bytes(), None));
        assert!(!strings(&[1, 1], b"a\xff", None));
        assert!(!strings(&[1, 2], b"abc", Some(NullBuffer::new_null(1))));
    }
}
