//! Beginnings of strings, compared eight bytes at a time.

use arrow_array::{
    Array, ArrayRef, BooleanArray, GenericStringArray, OffsetSizeTrait, cast::AsArray,
};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;

/// Which strings begin with the one in `prefix`; `None` for types that other kernels know.
pub(super) fn starts_with(text: &ArrayRef, prefix: &ArrayRef) -> Option<BooleanArray> {
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
    let one = |row: usize| {
        let (start, end) = (offsets[row].as_usize(), offsets[row + 1].as_usize());
        if end - start < prefix.len() {
            return false;
        }
        // What follows the string in memory is masked away; only the last strings have too little behind them.
        let word = match bytes[start..].first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => first_word(&bytes[start..end]),
        };
        word & mask == wanted && (tail.is_empty() || bytes[start + 8..end].starts_with(tail))
    };
    let values = BooleanBuffer::collect_bool(text.len(), one);
    BooleanArray::new(values, text.nulls().cloned())
}

/// At most eight bytes as the low ones of a word.
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
    fn others_are_left_to_their_kernels() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let null: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
        let number: ArrayRef = Arc::new(arrow_array::Int8Array::from(vec![1]));
        assert!(starts_with(&text, &null).is_none());
        assert!(starts_with(&number, &text).is_none());
        assert!(starts_with(&text, &number).is_none());
    }
}
