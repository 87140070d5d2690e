//! Rows that arrive in pieces.

use super::*;
use crate::schema::Strings;

/// A row of as many bytes as there are megabytes would be read for hours, if it were read again for every byte.
#[test]
fn a_row_is_given_at_its_last_byte_however_few_bytes_come_at_once() {
    let format = r#"{"table_skiff_schemas": [{"wire_type": "tuple", "children": [
        {"name": "l", "wire_type": "repeated_variant8", "children": [{"wire_type": "int8"}]}]}]}"#;
    let format = Format::from_json(format, Strings::Binary).unwrap();
    for num_items in [0, 1, 20_000, 1_000_000] {
        let row = [&[0, 0][..], &[0, 7].repeat(num_items), &[0xff]].concat();
        for piece in [1, 16, 1_000] {
            let mut decoder = Decoder::new(format.clone(), DecodeOptions::default());
            let (mut end, mut consumed) = (0, 0);
            while consumed == 0 {
                assert!(end < row.len(), "the complete row was held back");
                end = (end + piece).min(row.len());
                consumed = decoder.decode(&row[..end], false);
                assert!(
                    decoder.needed() <= row.len(),
                    "more than the row is asked for"
                );
                assert_eq!(consumed == 0, end < row.len());
            }
            assert_eq!((consumed, decoder.num_rows()), (row.len(), 1));
        }
    }
}

/// The fault of a row that arrives in pieces is told when its byte is there, and not at the end of the row.
#[test]
fn a_tag_that_the_schema_does_not_have_is_told_at_once() {
    let format = r#"{"table_skiff_schemas": [{"wire_type": "tuple", "children": [
        {"name": "l", "wire_type": "repeated_variant8", "children": [{"wire_type": "int8"}]}]}]}"#;
    let format = Format::from_json(format, Strings::Binary).unwrap();
    let mut decoder = Decoder::new(format, DecodeOptions::default());
    let row = [0, 0, 0, 7, 0, 7, 9];
    for end in 1..row.len() {
        assert_eq!(decoder.decode(&row[..end], false), 0);
        assert!(decoder.next_batch().unwrap().is_none());
    }
    decoder.decode(&row, false);
    let error = decoder.next_batch().unwrap_err();
    assert!(
        matches!(
            error,
            Error::Stream {
                fault: StreamFault::BadRepeatedTag,
                offset: 6,
                ..
            }
        ),
        "{error}"
    );
}
