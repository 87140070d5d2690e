//! The bytes that an encoder writes: blocks, chunks, and the order of sparse columns.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt16Type;
use arrow_array::{ArrayRef, BinaryArray, ListArray, RecordBatch};
use pilum_skiff::{DecodeOptions, EncodeOptions, Encoder};

use super::one_table::{decode_with, encode, table};

/// Every chunk that is written is small, however much the sizes of the rows differ.
#[test]
fn rows_of_very_different_sizes_are_written_in_small_chunks() {
    struct Largest(usize, usize);
    impl std::io::Write for Largest {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.max(bytes.len());
            self.1 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let long = vec![b'x'; 300_000];
    let values: Vec<&[u8]> = (0..2_000)
        .map(|row| if row < 1_900 { &b"a"[..] } else { &long })
        .collect();
    for column in [
        r#"{"name": "s", "wire_type": "string32"}"#,
        r#"{"name": "$sparse_columns", "wire_type": "repeated_variant16", "children": [{"name": "s", "wire_type": "string32"}]}"#,
    ] {
        let format = table(column);
        let batch = RecordBatch::try_from_iter([(
            "s",
            Arc::new(BinaryArray::from_vec(values.clone())) as ArrayRef,
        )])
        .unwrap();
        let mut largest = Largest(0, 0);
        let mut encoder = Encoder::new(format.clone(), EncodeOptions::default());
        encoder
            .write(0, &batch, &mut Vec::new(), &mut largest)
            .unwrap();
        assert!(largest.0 < 600_000, "{}", largest.0);
        assert_eq!(encoder.num_rows(), 2_000);
        assert_eq!(largest.1, encode(&format, &batch).unwrap().len());
    }
}

#[test]
fn sparse_columns_are_written_in_the_order_that_the_batch_has() {
    let format = table(
        r#"{"name": "$sparse_columns", "wire_type": "repeated_variant16", "children": [
            {"name": "a", "wire_type": "int8"}, {"name": "b", "wire_type": "int8"}, {"name": "c", "wire_type": "int8"}]}"#,
    );
    // Rows `c a`, `b`, none, and `a` twice around `c`.
    let stream = [
        &[0, 0, 2, 0, 1, 0, 0, 2, 0xff, 0xff][..],
        &[0, 0, 1, 0, 3, 0xff, 0xff],
        &[0, 0, 0xff, 0xff],
        &[0, 0, 0, 0, 4, 2, 0, 5, 0, 0, 6, 0xff, 0xff],
    ]
    .concat();
    let mut options = DecodeOptions::default();
    options.keeps_sparse_order = true;
    let batch = decode_with(&format, &stream, options).unwrap();
    let order = batch.column_by_name("$sparse_columns").unwrap();
    let last = order.as_list::<i32>().value(3);
    assert_eq!(last.as_primitive::<UInt16Type>().values(), &[2, 0]);
    // The last of two values counts, in its place; all else is the same.
    let expected = [
        &stream[..stream.len() - 13],
        &[0, 0, 2, 0, 5, 0, 0, 6, 0xff, 0xff],
    ]
    .concat();
    assert_eq!(encode(&format, &batch).unwrap(), expected);
    // A slice has the order of its rows.
    assert_eq!(
        encode(&format, &batch.slice(1, 2)).unwrap(),
        expected[10..21]
    );

    let wrong = RecordBatch::try_from_iter([
        ("a", Arc::clone(batch.column(0))),
        ("$sparse_columns", Arc::clone(batch.column(0))),
    ]);
    let error = encode(&format, &wrong.unwrap()).unwrap_err();
    assert!(error.to_string().contains("list<uint16>"), "{error}");

    // An item of the order is the number of a column, once; columns that it does not name follow, and nulls are left out.
    let row = batch.slice(0, 1);
    let ordered = |items: Vec<Option<u16>>| {
        let order = ListArray::from_iter_primitive::<UInt16Type, _, _>([Some(items)]);
        let columns = ["a", "b", "c"]
            .into_iter()
            .zip(row.columns().iter().cloned());
        let order: ArrayRef = Arc::new(order);
        let columns = columns.chain([("$sparse_columns", order)]);
        encode(&format, &RecordBatch::try_from_iter(columns).unwrap())
    };
    for (items, message) in [
        (vec![Some(3)], "3 is not the number"),
        (vec![Some(u16::MAX)], "65535 is not the number"),
        (vec![Some(2), Some(0), Some(2)], "2 is there twice"),
        (vec![None], "an item is null"),
    ] {
        let error = ordered(items).unwrap_err();
        assert_eq!(error.class(), "BadSparseTag");
        assert!(error.to_string().contains(message), "{error}");
    }
    assert_eq!(ordered(vec![Some(1), Some(2)]).unwrap(), stream[..10]);
    assert_eq!(
        ordered(vec![]).unwrap(),
        [0, 0, 0, 0, 2, 2, 0, 1, 0xff, 0xff]
    );
}

/// The block writer and the writer of single rows write the same bytes: a column that has no block form picks the second one.
#[test]
fn blocks_have_the_bytes_of_single_rows() {
    let simple = [
        "int8", "int16", "uint32", "int64", "uint128", "int256", "double", "boolean", "string32",
    ];
    let mut columns: Vec<_> = simple
        .iter()
        .map(|wire| format!(r#"{{"name": "{wire}", "wire_type": "{wire}"}}"#))
        .collect();
    columns.extend(simple.iter().map(|wire| {
        format!(
            r#"{{"name": "o{wire}", "wire_type": "variant8", "children": [{{"wire_type": "nothing"}}, {{"wire_type": "{wire}"}}]}}"#
        )
    }));
    let blocks = table(&columns.join(","));
    columns.push(
        r#"{"name": "l", "wire_type": "repeated_variant8", "children": [{"wire_type": "int8"}]}"#
            .to_owned(),
    );
    let single = table(&columns.join(","));
    let mut stream = Vec::new();
    let mut number = 0_u8;
    for row in 0..3_000_u32 {
        stream.extend_from_slice(&[0, 0]);
        for is_optional in [false, true] {
            for (place, wire) in simple.iter().enumerate() {
                if is_optional {
                    let is_valid = (row as usize).is_multiple_of(place + 2);
                    stream.push(u8::from(is_valid));
                    if !is_valid {
                        continue;
                    }
                }
                let width = match *wire {
                    "int8" => 1,
                    "int16" => 2,
                    "uint32" => 4,
                    "uint128" => 16,
                    "int256" => 32,
                    "boolean" => {
                        stream.push(u8::from(row % 3 == 0));
                        0
                    }
                    "string32" => {
                        stream.extend_from_slice(&(row % 40).to_le_bytes());
                        row % 40
                    }
                    _ => 8,
                };
                for _ in 0..width {
                    number = number.wrapping_mul(31).wrapping_add(7);
                    stream.push(number);
                }
            }
        }
        stream.push(0xff);
    }
    let batch = decode_with(&single, &stream, DecodeOptions::default()).unwrap();
    assert_eq!(encode(&single, &batch).unwrap(), stream);
    let batch = batch.project(&(0..18).collect::<Vec<_>>()).unwrap();
    let out = encode(&blocks, &batch).unwrap();
    assert_eq!(out.len(), stream.len() - 3_000);
    assert_eq!(
        decode_with(&blocks, &out, DecodeOptions::default()).unwrap(),
        batch
    );
    // From the middle of a batch, and after other bytes.
    let mut tail = out.clone();
    let mut encoder = Encoder::new(blocks.clone(), EncodeOptions::default());
    encoder
        .encode(0, &batch.slice(1_000, 500), &mut tail)
        .unwrap();
    let slice = encode(&blocks, &batch.slice(1_000, 500)).unwrap();
    assert_eq!(tail[out.len()..], slice);
    let mut encoder = Encoder::new(blocks.clone(), EncodeOptions::default());
    let mut parts = Vec::new();
    for start in (0..3_000).step_by(500) {
        encoder
            .encode(0, &batch.slice(start, 500), &mut parts)
            .unwrap();
    }
    assert_eq!(parts, out);
}
