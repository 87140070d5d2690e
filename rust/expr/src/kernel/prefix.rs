//! Prefix matching on strings, eight bytes at a time.

use arrow_array::{
    Array, ArrayRef, BooleanArray, GenericStringArray, OffsetSizeTrait, cast::AsArray,
};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::DataType;

/// Which strings begin with the one value of `prefix`; `None` for types that the Arrow kernels have to match.
pub(crate) fn starts_with(text: &ArrayRef, prefix: &ArrayRef) -> Option<BooleanArray> {
    let prefix = match prefix.data_type() {
        _ if prefix.len() != 1 || prefix.is_null(0) => return None,
        DataType::Utf8 => prefix.as_string::<i32>().value(0),
        DataType::LargeUtf8 => prefix.as_string::<i64>().value(0),
        _ => return None,
    };
    match text.data_type() {
        DataType::Utf8 => Some(begins(text.as_string::<i32>(), prefix.as_bytes())),
        DataType::LargeUtf8 => Some(begins(text.as_string::<i64>(), prefix.as_bytes())),
        _ => None,
    }
}

fn begins<O: OffsetSizeTrait>(text: &GenericStringArray<O>, prefix: &[u8]) -> BooleanArray {
    let (offsets, bytes) = (text.value_offsets(), text.value_data());
    let (head, tail) = prefix.split_at(prefix.len().min(8));
    let wanted = first_word(head);
    let mask = match head.len() {
        8 => u64::MAX,
        length => (1 << (8 * length)) - 1,
    };
    // The mask removes bytes that follow the string in memory. No branch depends on the strings, so the compiler compares
    // eight of them at once.
    let begins = |start: &O, end: &O| {
        let (start, end) = (start.as_usize(), end.as_usize());
        (word_at(bytes, start) & mask == wanted) & (end - start >= prefix.len())
    };
    let (starts, ends) = (&offsets[..text.len()], &offsets[1..]);
    let ((starts, last_starts), (ends, last_ends)) =
        (starts.as_chunks::<8>(), ends.as_chunks::<8>());
    let mut packed: Vec<u8> = Vec::with_capacity(text.len().div_ceil(8));
    packed.extend(starts.iter().zip(ends).map(|(starts, ends)| {
        let bits = (0..8).map(|row| u8::from(begins(&starts[row], &ends[row])) << row);
        bits.fold(0, |byte, bit| byte | bit)
    }));
    if !last_starts.is_empty() {
        let rows = last_starts.iter().zip(last_ends).rev();
        packed.push(rows.fold(0, |byte, (start, end)| {
            byte << 1 | u8::from(begins(start, end))
        }));
    }
    if !tail.is_empty() {
        let goes_on = |row: usize| {
            bytes[offsets[row].as_usize() + 8..offsets[row + 1].as_usize()].starts_with(tail)
        };
        for (index, byte) in packed.iter_mut().enumerate() {
            let begun = *byte;
            for row in (0..8).filter(|row| begun >> row & 1 == 1) {
                if !goes_on(8 * index + row) {
                    *byte ^= 1 << row;
                }
            }
        }
    }
    let values = BooleanBuffer::new(Buffer::from_vec(packed), 0, text.len());
    BooleanArray::new(values, text.nulls().cloned())
}

/// Up to eight bytes from `start` as a little-endian word.
fn word_at(bytes: &[u8], start: usize) -> u64 {
    #[cold]
    fn last_word(bytes: &[u8], start: usize) -> u64 {
        first_word(bytes.get(start..).unwrap_or_default())
    }
    match bytes.get(start..).and_then(<[u8]>::first_chunk) {
        Some(word) => u64::from_le_bytes(*word),
        None => last_word(bytes, start),
    }
}

/// At most eight bytes as the low bytes of a word.
fn first_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{LargeStringArray, StringArray};

    use super::*;

    #[test]
    fn beginnings_of_every_length_at_every_place() {
        let whole = "abcdefghijklmnäöü";
        let mut texts: Vec<Option<String>> = vec![None, Some(String::new())];
        for (end, _) in whole.char_indices() {
            texts.push(Some(whole[..end].to_owned()));
            texts.push(Some(format!("{}x", &whole[..end])));
        }
        texts.push(Some(whole.to_owned()));
        for (end, _) in whole.char_indices() {
            let prefix = &whole[..end];
            let expected: Vec<Option<bool>> = texts
                .iter()
                .map(|text| Some(text.as_ref()?.starts_with(prefix)))
                .collect();
            let narrow: ArrayRef = Arc::new(StringArray::from(texts.clone()));
            let wide: ArrayRef = Arc::new(LargeStringArray::from(texts.clone()));
            let needle: ArrayRef = Arc::new(StringArray::from(vec![prefix]));
            for array in [narrow, wide] {
                for offset in [0, 1, texts.len() - 1, texts.len()] {
                    let slice = array.slice(offset, texts.len() - offset);
                    let mask = starts_with(&slice, &needle).unwrap();
                    assert_eq!(
                        mask.iter().collect::<Vec<_>>(),
                        expected[offset..],
                        "{prefix}"
                    );
                }
            }
        }
    }

    #[test]
    fn arrays_of_every_length_around_the_bytes_of_a_mask() {
        for rows in 0..40 {
            let texts: Vec<String> = (0..rows)
                .map(|row| format!("{}{}", "prefix and more"[..row % 16].to_owned(), row % 3))
                .collect();
            let text: ArrayRef = Arc::new(StringArray::from(texts.clone()));
            for prefix in ["", "p", "prefix a", "prefix an", "prefix and"] {
                let needle: ArrayRef = Arc::new(StringArray::from(vec![prefix]));
                let expected: Vec<bool> = texts.iter().map(|it| it.starts_with(prefix)).collect();
                let mask = starts_with(&text, &needle).unwrap();
                assert_eq!(mask.values().iter().collect::<Vec<_>>(), expected);
            }
        }
    }

    #[test]
    fn others_are_left_to_their_kernels() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let null: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
        let number: ArrayRef = Arc::new(arrow_array::Int8Array::from(vec![1]));
        assert!(starts_with(&text, &null).is_none());
        assert!(starts_with(&number, &text).is_none());
        assert!(starts_with(&text, &number).is_none());
    }
}
