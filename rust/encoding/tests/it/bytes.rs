//! The bytes themselves, the memory they share, and the small parts.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Int32Array, Int64Array, ListArray,
    StringArray, StructArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields};
use pilum_encoding::*;
use proptest::prelude::*;

fn bytes(page: &EncodedPage) -> Vec<u8> {
    page.buffers.iter().flat_map(|b| b.to_vec()).collect()
}

fn bitmap(level: &LevelValidity) -> Option<Vec<u8>> {
    match level {
        LevelValidity::Bitmap(bits) => Some(bits.to_vec()),
        _ => None,
    }
}

/// The worked example of the format: an integer and a string column of four rows.
#[test]
fn pages_hold_the_bytes_of_the_worked_example() {
    let a = Int64Array::from(vec![Some(1), Some(2), None, Some(4)]);
    let page = encode_page(&a, true, None, 0).unwrap();
    assert_eq!(
        bytes(&page),
        [1_i64, 2, 0, 4].map(i64::to_le_bytes).concat()
    );
    assert_eq!((page.byte_len, page.pointer, page.length), (32, 0, 4));
    assert_eq!(bitmap(&page.validity[0]), Some(vec![0b1011]));
    assert_eq!(
        page.lossy,
        Some(Lossy {
            first_row: 2,
            count: 1,
            what: "null"
        })
    );

    let s = StringArray::from(vec![Some("x"), None, Some(""), Some("yy")]);
    let page = encode_page(&s, true, None, 0x20).unwrap();
    let offsets = [0x20_i64, 0x21, 0x21, 0x21, 0x23]
        .map(i64::to_le_bytes)
        .concat();
    assert_eq!(bytes(&page), [b"xyy".as_slice(), &offsets].concat());
    assert_eq!((page.byte_len, page.pointer, page.length), (43, 3, 4));
    assert_eq!(bitmap(&page.validity[0]), Some(vec![0b1101]));
    assert_eq!(
        page.lossy.as_ref().map(|l| (l.first_row, l.count)),
        Some((2, 1))
    );
    // In a field without nulls the empty string is itself.
    let solid = StringArray::from(vec!["", "b"]);
    assert!(
        !encode_page(&solid, false, None, 0)
            .unwrap()
            .needs_extension()
    );
    let page = encode_page(&solid, true, None, 0).unwrap();
    assert!(matches!(page.validity[0], LevelValidity::AllValid));
}

#[test]
fn empty_lists_hold_zero_offsets_and_their_child_one() {
    let lists = ListArray::new_null(Arc::new(Field::new("item", DataType::Utf8, true)), 0);
    assert_eq!(bytes(&encode_page(&lists, true, None, 0).unwrap()), [0; 4]);
    let field = Arc::new(Field::new("item", DataType::Utf8, true));
    let child: ArrayRef = Arc::new(StringArray::from(Vec::<&str>::new()));
    let lists = ListArray::new(field, OffsetBuffer::new_zeroed(4), child, None);
    let page = encode_page(&lists, true, None, 0).unwrap();
    assert_eq!((bytes(&page), page.length), (vec![0; 20], 5));
    let page = encode_page(&list_child(&lists, None).unwrap(), true, None, 20).unwrap();
    assert_eq!(
        (bytes(&page), page.pointer, page.length),
        (20_i64.to_le_bytes().into(), 0, 0)
    );
}

#[test]
fn without_nulls_nothing_is_copied() {
    let ints = Int32Array::from_iter_values(0..100).slice(7, 50);
    let page = encode_page(&ints, true, None, 0).unwrap();
    assert_eq!(page.buffers[0].as_ptr(), ints.values().inner().as_ptr());
    let text = StringArray::from_iter_values(["ab", "cd", "ef"]).slice(1, 2);
    let page = encode_page(&text, false, None, 0).unwrap();
    assert_eq!(page.buffers[0].as_ptr(), text.values()[2..].as_ptr());
    assert_eq!(page.byte_len, 4 + 24);
    // Zeros under the nulls are the bytes to write.
    let nulls = Int32Array::from(vec![Some(1), None, Some(3)]);
    let page = encode_page(&nulls, true, None, 0).unwrap();
    assert_eq!(page.buffers[0].as_ptr(), nulls.values().inner().as_ptr());
}

#[test]
fn whole_pages_are_read_without_a_copy() {
    let source = Segments::new([(64, Buffer::from_vec((0..100_i64).collect::<Vec<_>>()))]);
    let field = Field::new("x", DataType::Int64, true);
    let page = Page {
        position: 64,
        length: 100,
    };
    let rows = Rows::range(10..90);
    let array = decode_page(&field, &page, 100, &[], &rows, &source).unwrap();
    let array = array.as_primitive::<Int64Type>();
    assert_eq!(
        array.values().inner().as_ptr(),
        source.slice(144..145).unwrap().as_ptr()
    );
    assert!(array.nulls().is_none());
    // Four bytes further no i64 is aligned: the same values, elsewhere.
    let page = Page {
        position: 68,
        length: 99,
    };
    let array = decode_page(&field, &page, 99, &[], &Rows::all(99), &source).unwrap();
    assert_eq!(array.as_primitive::<Int64Type>().value(0), 1 << 32);
}

#[test]
fn garbage_under_nulls_is_not_written() {
    let valid = NullBuffer::from(vec![true, false, true]);
    let ints = Int32Array::new(vec![1, 99, 3].into(), Some(valid.clone()));
    let page = encode_page(&ints, true, None, 0).unwrap();
    assert_eq!(bytes(&page), [1_i32, 0, 3].map(i32::to_le_bytes).concat());
    let bools = BooleanArray::new(vec![true, true, true].into(), Some(valid.clone()));
    assert_eq!(bytes(&encode_page(&bools, true, None, 0).unwrap()), [0b101]);
    let text = StringArray::new(
        OffsetBuffer::from_lengths([1, 1, 1]),
        b"abc".into(),
        Some(valid),
    );
    let page = encode_page(&text, true, None, 0).unwrap();
    assert_eq!(
        (page.pointer, &bytes(&page)[..2], page.needs_extension()),
        (2, &b"ac"[..], false)
    );
}

#[test]
fn bits_beyond_the_last_row_are_zero() {
    let bools = BooleanArray::from(vec![true; 64]);
    assert_eq!(
        bytes(&encode_page(&bools.slice(8, 11), true, None, 0).unwrap()),
        [0xff, 0b111]
    );
    assert_eq!(
        bytes(&encode_page(&bools.slice(3, 9), true, None, 0).unwrap()),
        [0xff, 1]
    );
    assert!(bytes(&encode_page(&bools.slice(3, 0), true, None, 0).unwrap()).is_empty());
}

#[test]
fn hidden_slots_are_zero_and_not_the_childs_own_nulls() {
    let child = Int32Array::from(vec![Some(7), Some(8), None]);
    let hidden = NullBuffer::from(vec![false, true, true]);
    let page = encode_page(&child.slice(0, 2), false, Some(&hidden.slice(0, 2)), 0).unwrap();
    assert_eq!(bytes(&page), [0_i32, 8].map(i32::to_le_bytes).concat());
    assert!(!page.needs_extension());
    let page = encode_page(&child, true, Some(&hidden), 0).unwrap();
    assert_eq!(
        page.lossy,
        Some(Lossy {
            first_row: 2,
            count: 1,
            what: "null"
        })
    );
    assert!(encode_page(&child, false, Some(&hidden), 0).is_err());

    let fields = Fields::from(vec![Field::new("x", DataType::Int32, true)]);
    let parent = StructArray::new(fields, vec![Arc::new(child)], Some(hidden));
    let children = struct_children(&parent, None).unwrap();
    assert_eq!(children[0].1.as_ref().map(NullBuffer::null_count), Some(1));
    let page = encode_page(&parent, true, None, 9).unwrap();
    assert_eq!((page.byte_len, page.length), (0, 0));
    assert_eq!(bitmap(&page.validity[0]), Some(vec![0b110]));
}

#[test]
fn null_lists_lose_their_items() {
    let items: ArrayRef = Arc::new(Int32Array::from_iter_values(0..6));
    let lists = ListArray::new(
        Arc::new(Field::new("item", DataType::Int32, true)),
        OffsetBuffer::from_lengths([1, 2, 1, 2]),
        items,
        Some(vec![true, false, true, true].into()),
    )
    .slice(1, 3);
    let page = encode_page(&lists, true, None, 0).unwrap();
    assert_eq!(
        bytes(&page),
        [0_i32, 0, 1, 3].map(i32::to_le_bytes).concat()
    );
    let child = list_child(&lists, None).unwrap();
    assert_eq!(child.as_primitive::<Int32Type>().values(), &[3, 4, 5]);
    let hidden = NullBuffer::from(vec![true, false, true]);
    let child = list_child(&lists, Some(&hidden)).unwrap();
    assert_eq!(child.as_primitive::<Int32Type>().values(), &[4, 5]);
}

#[test]
fn fixed_size_lists_have_a_level_for_their_items() {
    let lists = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
        [
            Some(vec![Some(1), None]),
            None,
            Some(vec![Some(5), Some(6)]),
        ],
        2,
    );
    let page = encode_page(&lists, true, None, 0).unwrap();
    assert_eq!(
        bytes(&page),
        [1_i32, 0, 0, 0, 5, 6].map(i32::to_le_bytes).concat()
    );
    assert_eq!(bitmap(&page.validity[0]), Some(vec![0b101]));
    assert_eq!(bitmap(&page.validity[1]), Some(vec![0b11_0001]));
    assert_eq!(
        page.lossy,
        Some(Lossy {
            first_row: 1,
            count: 1,
            what: "null"
        })
    );
    let page = encode_page(&lists.slice(0, 1), true, None, 0).unwrap();
    assert_eq!(
        page.lossy,
        Some(Lossy {
            first_row: 0,
            count: 1,
            what: "null item"
        })
    );
}

#[test]
fn an_empty_dictionary_marks_its_rows_null() {
    let keys = arrow_array::Int8Array::from(vec![None, None]);
    let values: ArrayRef = Arc::new(StringArray::from(Vec::<&str>::new()));
    let array = arrow_array::DictionaryArray::new(keys, values);
    let page = encode_page(&array, true, None, 0).unwrap();
    assert!(matches!(page.validity[0], LevelValidity::AllNull));
    let hidden = NullBuffer::new_null(2);
    let page = encode_page(&array, true, Some(&hidden), 0).unwrap();
    assert!(matches!(page.validity[0], LevelValidity::AllNull));
}

#[test]
fn dictionary_values_read_empty_as_asked() {
    let values = StringArray::from(vec!["", "b"]);
    let page = encode_dictionary_values(&values, 0).unwrap();
    assert!(page.needs_extension());
    let source = Segments::new([(0, Buffer::from_vec(bytes(&page)))]);
    let page = Page {
        position: page.pointer,
        length: page.length,
    };
    for (empty_is_null, nulls) in [(true, 1), (false, 0)] {
        let read = decode_dictionary_values(&DataType::Utf8, &page, &[], empty_is_null, &source);
        assert_eq!(read.unwrap().null_count(), nulls);
    }
    // Nested values do not fit one page of values.
    assert!(encode_dictionary_values(&StructArray::new_empty_fields(1, None), 0).is_err());
}

#[test]
fn plans_name_each_byte_once() {
    let page = Page {
        position: 100,
        length: 50,
    };
    let rows = Rows::from_sorted_indices([0, 1, 2, 9, 17, 18]).unwrap();
    let plan = |data_type: &DataType| {
        let mut out = Vec::new();
        plan_fixed(data_type, &page, &rows, &mut out).unwrap();
        out
    };
    assert_eq!(plan(&DataType::Int32), [100..112, 136..140, 168..176]);
    assert_eq!(plan(&DataType::Boolean), vec![100..103]);
    assert_eq!(plan(&DataType::Utf8), [100..132, 172..188, 236..260]);
    let mut out = Vec::new();
    let levels = [Validity::Bitmap { position: 900 }, Validity::V1];
    let lists = DataType::new_fixed_size_list(DataType::Int8, 2, true);
    plan_validity(&levels, &lists, 50, &rows, &mut out).unwrap();
    assert_eq!(out, vec![900..903]);
    assert!(plan_fixed(&DataType::Int8, &page, &Rows::all(51), &mut out).is_err());
}

#[test]
fn checksums_are_castagnolis_and_streams_split_anywhere() {
    assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    let size = NonZeroUsize::new(8).unwrap();
    assert!(block_checksums([], size).is_empty() && block_checksums([&b""[..]], size).is_empty());
    let all = block_checksums([&b"123456789"[..]], size);
    assert_eq!(all, [crc32c(b"12345678"), crc32c(b"9")]);
    let damaged = |bytes: &[u8]| find_damaged(pairs(bytes, &words(&all), size));
    assert_eq!(damaged(b"123456789"), Ok(None));
    assert_eq!(damaged(b"12345678x"), Ok(Some(1)));
    assert_eq!(damaged(b"12345678"), Ok(None));
    assert_eq!(damaged(b"x23456789"), Ok(Some(0)));
    // What one of many could not be fetched for is told, unless damage comes before it is even asked for.
    let (good, sum) = (&b"12345678"[..], crc32c(b"12345678").to_le_bytes());
    for place in 0..50 {
        let some = (0..50).map(|i| {
            if i == place {
                Err(i)
            } else {
                Ok((i, good, &sum))
            }
        });
        assert_eq!(find_damaged(some), Err(place));
    }
}

fn words(checksums: &[u32]) -> Vec<[u8; 4]> {
    checksums.iter().map(|word| word.to_le_bytes()).collect()
}

fn pairs<'a>(
    bytes: &'a [u8],
    words: &'a [[u8; 4]],
    size: NonZeroUsize,
) -> impl Iterator<Item = Result<(usize, &'a [u8], &'a [u8; 4]), u32>> {
    let blocks = bytes.chunks(size.get()).zip(words).enumerate();
    blocks.map(|(place, (bytes, word))| Ok((place, bytes, word)))
}

proptest! {
    #[test]
    fn pieces_do_not_matter_to_checksums(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..8),
        size in 1_usize..40,
    ) {
        let size = NonZeroUsize::new(size).unwrap();
        let whole = pieces.concat();
        let expected: Vec<u32> = whole.chunks(size.get()).map(crc32c).collect();
        let got = block_checksums(pieces.iter().map(Vec::as_slice), size);
        prop_assert_eq!(&got, &expected);
        let mut words = words(&got);
        prop_assert_eq!(find_damaged(pairs(&whole, &words, size)), Ok(None));
        for place in 0..words.len() {
            words[place][3] ^= 1;
            prop_assert_eq!(find_damaged(pairs(&whole, &words, size)), Ok(Some(place)));
            words[place][3] ^= 1;
        }
    }

    #[test]
    fn row_sets_behave_like_sets(
        a in prop::collection::btree_set(0_u64..100, 0..40),
        b in prop::collection::btree_set(0_u64..100, 0..40),
        offset in 0_u64..50,
        len in 0_u64..50,
    ) {
        let rows = Rows::from_sorted_indices(a.iter().copied()).unwrap();
        let other = Rows::from_sorted_indices(b.iter().copied()).unwrap();
        prop_assert_eq!(rows.iter().collect::<Vec<_>>(), a.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(rows.len(), a.len() as u64);
        prop_assert!(rows.ranges().windows(2).all(|w| w[0].end < w[1].start));
        prop_assert_eq!(&Rows::from_ranges(rows.ranges().iter().cloned()).unwrap(), &rows);
        let both = a.intersection(&b).copied().collect::<Vec<_>>();
        prop_assert_eq!(rows.intersect(&other).iter().collect::<Vec<_>>(), both);
        let part = a.iter().copied().skip(offset as usize).take(len as usize).collect::<Vec<_>>();
        prop_assert_eq!(rows.slice(offset, len).iter().collect::<Vec<_>>(), part);
        let part = a.range(offset..offset + len).map(|row| row - offset);
        let within = Rows::from_sorted_indices(part).unwrap();
        prop_assert_eq!(rows.within(&(offset..offset + len)), within);
        prop_assert_eq!(rows.first_from(offset), a.range(offset..).next().copied());
        prop_assert!(Rows::from_sorted_indices([5, 5]).is_err());
        prop_assert!(Rows::from_ranges([5..9, 8..10]).is_err());
    }
}
