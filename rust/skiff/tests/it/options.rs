//! What options of decoding, encoding and promotion do, and what is refused instead of changed.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, Decimal128Array, FixedSizeBinaryArray, Int64Array, ListArray,
    RecordBatch, TimestampMillisecondArray, TimestampSecondArray,
};
use arrow_schema::{DataType, Field, Schema};
use pilum_skiff::yson::Limits;
use pilum_skiff::{
    Conflicts, DecodeOptions, Decoder, Error, Format, Reader, promote_other_columns,
};

use super::one_table::{decode_with, encode, table};

fn batch(name: &str, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter([(name, array)]).unwrap()
}

#[test]
fn decimals_that_are_no_numbers_are_errors_or_nulls() {
    let (nan, inf, minus) = (i32::MAX, i32::MAX - 1, -(i32::MAX - 1));
    let optional = r#"{"name": "d", "wire_type": "variant8", "children": [{"wire_type": "nothing"}, {"wire_type": "int32"}]}"#;
    let required = r#"{"name": "d", "wire_type": "int32"}"#;
    let decimal = |nullable| Field::new("d", DataType::Decimal128(5, 2), nullable);
    for (column, nullable, is_null) in [
        (optional, true, true),
        (required, true, true),
        (required, false, false),
    ] {
        let wanted = Schema::new(vec![decimal(nullable)]);
        let format = table(column).with_arrow(0, &wanted).unwrap();
        let mut stream = Vec::new();
        for value in [12_345, nan, inf, minus, -1] {
            stream.extend_from_slice(&[0, 0]);
            if column == optional {
                stream.push(1);
            }
            stream.extend_from_slice(&value.to_le_bytes());
        }
        let mut options = DecodeOptions::default();
        let mut reader = Reader::new(stream.as_slice(), format.clone(), options);
        assert_eq!(reader.next().unwrap().unwrap().1.num_rows(), 1);
        let error = reader.next().unwrap().unwrap_err();
        assert_eq!(error.class(), "OutOfRange");
        assert!(error.to_string().contains("the decimal is NaN"), "{error}");

        options.special_as_null = true;
        let mut reader = Reader::new(stream.as_slice(), format, options);
        if !is_null {
            reader.next().unwrap().unwrap();
            assert_eq!(reader.next().unwrap().unwrap_err().class(), "OutOfRange");
            continue;
        }
        let (_, batch) = reader.next().unwrap().unwrap();
        let found = batch.column(0).as_any();
        let found = found.downcast_ref::<Decimal128Array>().unwrap();
        let found: Vec<_> = found.iter().collect();
        assert_eq!(found, [Some(12_345), None, None, None, Some(-1)]);
        assert_eq!(reader.num_special_decimals(), 3);
    }
}

#[test]
fn a_key_that_is_a_column_too_is_refused_both_ways_or_left_in_its_map() {
    let format = table(
        r#"{"name": "a", "wire_type": "int64"}, {"name": "$other_columns", "wire_type": "yson32"}"#,
    );
    let map = b"{b={a=1};a=2}";
    let mut stream = vec![0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 13, 0, 0, 0];
    stream.extend_from_slice(map);
    let mut options = DecodeOptions::default();
    let error = decode_with(&format, &stream, options).unwrap_err();
    assert_eq!(error.class(), "DuplicateColumn");
    assert!(error.to_string().contains("key `a`"), "{error}");
    options.rejects_duplicates = false;
    let batch = decode_with(&format, &stream, options).unwrap();
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), 7);
    assert_eq!(batch.column(1).as_binary::<i32>().value(0), map);
    assert_eq!(
        encode(&format, &batch).unwrap_err().class(),
        "DuplicateColumn"
    );
}

#[test]
fn numbers_of_another_scale_or_unit_are_refused_instead_of_reinterpreted() {
    let columns =
        br#"[{"name": "price", "type_v3": {"type_name": "decimal", "precision": 5, "scale": 2}}]"#;
    let format = Format::from_table_schema(columns).unwrap();
    let price = |scale| {
        let array = Decimal128Array::from(vec![1_234]);
        let array = array.with_precision_and_scale(5, scale).unwrap();
        encode(&format, &batch("price", Arc::new(array)))
    };
    assert!(price(2).is_ok());
    let error = price(3).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("decimal128(5, 3)"), "{error}");

    let columns = br#"[{"name": "t", "type_v3": {"type_name": "list", "item": "datetime"}}]"#;
    let format = Format::from_table_schema(columns).unwrap();
    let times = |values: ArrayRef| {
        let item = Arc::new(Field::new("item", values.data_type().clone(), false));
        let offsets = arrow_buffer::OffsetBuffer::from_lengths([values.len()]);
        let list = ListArray::new(item, offsets, values, None);
        encode(&format, &batch("t", Arc::new(list)))
    };
    assert!(times(Arc::new(TimestampSecondArray::from(vec![1, 2]))).is_ok());
    let error = times(Arc::new(TimestampMillisecondArray::from(vec![1, 2]))).unwrap_err();
    assert!(error.to_string().contains("timestamp[ms]"), "{error}");

    let format = Format::from_table_schema(br#"[{"name": "id", "type_v3": "uuid"}]"#).unwrap();
    let plain = FixedSizeBinaryArray::try_from_iter([[1_u8; 16]].into_iter()).unwrap();
    let error = encode(&format, &batch("id", Arc::new(plain))).unwrap_err();
    assert!(error.to_string().contains("arrow.uuid"), "{error}");
}

#[test]
fn an_alternative_beyond_the_tags_of_a_variant_is_refused() {
    let children = vec![r#"{"wire_type": "int8"}"#; 300].join(",");
    for (wire, last) in [("variant8", 255), ("repeated_variant8", 254)] {
        let format = table(&format!(
            r#"{{"name": "v", "wire_type": "{wire}", "children": [{children}]}}"#
        ));
        let is_list = wire == "repeated_variant8";
        for (tag, is_written) in [(last, true), (last + 1, false), (299, false)] {
            // The same alternatives under 16-bit tags give a batch with any of them.
            let wide = table(&format!(
                r#"{{"name": "v", "wire_type": "{}", "children": [{children}]}}"#,
                wire.replace('8', "16")
            ));
            let mut stream = [&[0, 0], &u16::to_le_bytes(tag)[..], &[5]].concat();
            if is_list {
                stream.extend_from_slice(&[0xff, 0xff]);
            }
            let batch = decode_with(&wide, &stream, DecodeOptions::default()).unwrap();
            match encode(&format, &batch) {
                Ok(out) => {
                    assert!(is_written, "{wire} {tag}");
                    assert_eq!(
                        decode_with(&format, &out, DecodeOptions::default()).unwrap(),
                        batch
                    );
                }
                Err(error) => {
                    assert!(!is_written, "{wire} {tag}");
                    assert_eq!(error.class(), "OutOfRange");
                }
            }
        }
    }
}

#[test]
fn a_row_that_is_too_long_is_refused_from_memory_too() {
    let format = table(r#"{"name": "s", "wire_type": "string32"}"#);
    let mut options = DecodeOptions::default();
    options.max_row_bytes = 100;
    let row = |length: u32| {
        let text = vec![b'x'; usize::try_from(length).unwrap()];
        [&[0, 0], &length.to_le_bytes()[..], &text].concat()
    };
    let stream = [row(94), row(95)].concat();
    let mut decoder = Decoder::new(format, options);
    let consumed = decoder.decode(&stream, true);
    assert_eq!(consumed, 100);
    assert_eq!(decoder.next_batch().unwrap().unwrap().1.num_rows(), 1);
    let error = decoder.next_batch().unwrap_err();
    assert_eq!(error.class(), "Limit");
    assert!(
        error
            .to_string()
            .contains("byte 100, table 0, row 1: the row has more than 100 bytes"),
        "{error}"
    );
}

#[test]
fn the_largest_integer_is_shown_and_the_fields_behind_it_too() {
    let format =
        table(r#"{"name": "u", "wire_type": "uint256"}, {"name": "b", "wire_type": "boolean"}"#);
    let dump = format.annotate(&[&[0, 0][..], &[0xff; 32], &[1]].concat(), 1);
    assert!(
        dump.contains(&format!("uint256 0x{}", "ff".repeat(32))),
        "{dump}"
    );
    assert!(dump.contains("b boolean true"), "{dump}");
}

#[test]
fn nodes_beyond_a_limit_are_limits_with_their_place() {
    let format = table(r#"{"name": "y", "wire_type": "yson32"}"#);
    let deep = ["[".repeat(256), "]".repeat(256)].concat();
    let length = u32::try_from(deep.len()).unwrap();
    let stream = [&[0, 0][..], &length.to_le_bytes(), deep.as_bytes()].concat();
    let error = decode_with(&format, &stream, DecodeOptions::default()).unwrap_err();
    assert_eq!(error.class(), "Limit");
    for part in ["byte 2, table 0, row 0, column `y`", "255", "max_depth"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let nodes: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"#", deep.as_bytes()]));
    let error = encode(&format, &batch("y", nodes)).unwrap_err();
    assert_eq!(error.class(), "Limit");
    assert!(
        error.to_string().contains("table 0, row 1, column `y`"),
        "{error}"
    );
}

/// Gives some bytes at each call, and then an error.
struct Broken<'a>(&'a [u8], usize);

impl std::io::Read for Broken<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.1.min(self.0.len()).min(buffer.len());
        if count == 0 {
            return Err(std::io::Error::other("the network is gone"));
        }
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

#[test]
fn rows_before_a_broken_input_are_given_first() {
    let format = table(
        r#"{"name": "l", "wire_type": "repeated_variant8", "children": [{"wire_type": "int8"}]}"#,
    );
    // A row of 100,000 items, which comes in small pieces, between small rows; half a row follows.
    let long = [&[0, 0][..], &[0, 7].repeat(100_000), &[0xff]].concat();
    for (rest, is_fault) in [(&b"\0\0\0"[..], false), (b"", false), (b"\0\0\x05", true)] {
        for piece in [1 << 20, 1_000] {
            let stream = [b"\0\0\xff", long.as_slice(), rest].concat();
            let mut batches = Reader::new(
                Broken(&stream, piece),
                format.clone(),
                DecodeOptions::default(),
            );
            let mut num_rows = 0;
            let error = loop {
                match batches.next().unwrap() {
                    Ok((_, batch)) => num_rows += batch.num_rows(),
                    Err(error) => break error,
                }
            };
            assert_eq!(num_rows, 2);
            // What is wrong with the bytes at hand is told before the input that broke.
            assert_eq!(
                error.class(),
                if is_fault { "BadRepeatedTag" } else { "Io" },
                "{error}"
            );
            assert!(batches.next().is_none());
        }
    }
}

#[test]
fn keys_of_other_columns_become_columns_and_go_back() {
    let format = table(
        r#"{"name": "id", "wire_type": "int64"}, {"name": "$other_columns", "wire_type": "yson32"}"#,
    );
    let maps: Vec<&[u8]> = vec![
        b"{n=5;rest=[1;2]}",
        b"{}",
        b"{n=#; x = \"y\" ;n=7u}",
        b"{\x01\x02n=\x02\x0a;t=\"\\xff\"}",
        b"{n=1.5;t=text}",
    ];
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5));
    let other: ArrayRef = Arc::new(BinaryArray::from_vec(maps));
    let batch = RecordBatch::try_from_iter([("id", ids), ("$other_columns", other)]).unwrap();
    let wanted = Schema::new(vec![
        Field::new("n", DataType::Int32, true),
        Field::new("t", DataType::Utf8, true),
    ]);
    let error = promote_other_columns(&batch, &wanted, Conflicts::Error, Limits::default());
    let error = error.unwrap_err();
    assert_eq!(error.class(), "TypeConflict");
    assert!(matches!(error, Error::Value { row: 3, .. }), "{error}");
    let keep = Conflicts::Keep;
    let made = promote_other_columns(&batch, &wanted, keep, Limits::default()).unwrap();
    let names: Vec<_> = made
        .schema_ref()
        .fields()
        .iter()
        .map(|it| it.name().clone())
        .collect();
    assert_eq!(names, ["id", "n", "t", "$other_columns"]);
    let numbers: Vec<_> = made.column(1).as_primitive::<Int32Type>().iter().collect();
    assert_eq!(numbers, [Some(5), None, Some(7), Some(5), None]);
    let rest: Vec<_> = made
        .column(3)
        .as_binary::<i32>()
        .iter()
        .map(Option::unwrap)
        .collect();
    let expected: [&[u8]; 5] = [
        b"{rest=[1;2];}",
        b"{}",
        b"{x = \"y\";}",
        b"{t=\"\\xff\";}",
        b"{n=1.5;}",
    ];
    assert_eq!(rest, expected);
    // What stayed in the map because of its type does not come twice: the column is null there.
    let stream = encode(&format, &made).unwrap();
    let mut options = DecodeOptions::default();
    options.batch_rows = 10;
    let again = decode_with(&format, &stream, options).unwrap();
    let again = promote_other_columns(&again, &wanted, keep, Limits::default()).unwrap();
    assert_eq!(again.column(1), made.column(1));
    assert_eq!(again.column(2), made.column(2));
}
