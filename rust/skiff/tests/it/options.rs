//! What options of decoding, encoding and promotion do, and what is refused instead of changed.

use std::sync::Arc;

use arrow_array::types::{Int32Type, Int64Type, UInt16Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, Decimal128Array, FixedSizeBinaryArray, Int64Array, ListArray,
    RecordBatch, TimestampMillisecondArray, TimestampSecondArray, cast::AsArray,
};
use arrow_schema::{DataType, Field, Schema};
use pilum_skiff::yson::Limits;
use pilum_skiff::{
    Conflicts, DecodeOptions, EncodeOptions, Encoder, Error, Format, Reader, Strings, Tags,
    WireNode, WireType, promote_other_columns,
};

fn table(children: &str) -> Format {
    let text = format!(
        r#"{{"table_skiff_schemas": [{{"wire_type": "tuple", "children": [{children}]}}]}}"#
    );
    Format::from_json(&text, Strings::Binary).unwrap()
}

fn decode(stream: &[u8], format: &Format, options: DecodeOptions) -> Result<RecordBatch, Error> {
    let mut batches = Reader::new(stream, format.clone(), options);
    batches.next().unwrap().map(|(_, batch)| batch)
}

fn encode(batch: &RecordBatch, format: &Format) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    Encoder::new(format.clone(), EncodeOptions::default()).encode(0, batch, &mut out)?;
    Ok(out)
}

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
    let error = decode(&stream, &format, options).unwrap_err();
    assert_eq!(error.class(), "DuplicateColumn");
    assert!(error.to_string().contains("key `a`"), "{error}");
    options.rejects_duplicates = false;
    let batch = decode(&stream, &format, options).unwrap();
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), 7);
    assert_eq!(batch.column(1).as_binary::<i32>().value(0), map);
    assert_eq!(
        encode(&batch, &format).unwrap_err().class(),
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
        encode(&batch("price", Arc::new(array)), &format)
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
        encode(&batch("t", Arc::new(list)), &format)
    };
    assert!(times(Arc::new(TimestampSecondArray::from(vec![1, 2]))).is_ok());
    let error = times(Arc::new(TimestampMillisecondArray::from(vec![1, 2]))).unwrap_err();
    assert!(error.to_string().contains("timestamp[ms]"), "{error}");

    let format = Format::from_table_schema(br#"[{"name": "id", "type_v3": "uuid"}]"#).unwrap();
    let plain = FixedSizeBinaryArray::try_from_iter([[1_u8; 16]].into_iter()).unwrap();
    let error = encode(&batch("id", Arc::new(plain)), &format).unwrap_err();
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
            let batch = decode(&stream, &wide, DecodeOptions::default()).unwrap();
            match encode(&batch, &format) {
                Ok(out) => {
                    assert!(is_written, "{wire} {tag}");
                    assert_eq!(
                        decode(&out, &format, DecodeOptions::default()).unwrap(),
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
fn schemas_that_look_alike_in_words_keep_their_own_entries() {
    let int = |name: &str| format!(r#"{{"name": "{name}", "wire_type": "int64"}}"#);
    let tuple = |children: &str| format!(r#"{{"wire_type": "tuple", "children": [{children}]}}"#);
    let optional = |name: &str| {
        format!(
            r#"{{"name": "o", "wire_type": "variant8", "children": [{{"wire_type": "nothing"}}, {}]}}"#,
            int(name)
        )
    };
    let tables = [
        tuple(&int("a: int64; b")),
        tuple(&format!("{}, {}", int("a"), int("b"))),
        tuple(&optional("x")),
        tuple(&optional("y")),
        tuple(&optional("x")),
    ];
    let text = format!(r#"{{"table_skiff_schemas": [{}]}}"#, tables.join(","));
    let format = Format::from_json(&text, Strings::Binary).unwrap();
    let again = Format::from_json(&format.to_json(), Strings::Binary).unwrap();
    assert_eq!(again, format);
    assert!(
        format.explain().contains("table 4: as table 2"),
        "{}",
        format.explain()
    );
}

#[test]
fn more_tables_than_tags_are_refused() {
    let tables = vec![r#""$t""#; 65_536].join(",");
    let text = format!(
        r#"{{"table_skiff_schemas": [{tables}], "skiff_schema_registry": {{"t": {{"wire_type": "tuple", "children": []}}}}}}"#
    );
    let error = Format::from_json(&text, Strings::Binary).unwrap_err();
    assert!(error.to_string().contains("65535"), "{error}");
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
    let mut decoder = pilum_skiff::Decoder::new(format, options);
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
        let batch = batch("s", Arc::new(BinaryArray::from_vec(values.clone())));
        let mut largest = Largest(0, 0);
        let mut encoder = Encoder::new(format.clone(), EncodeOptions::default());
        encoder
            .write(0, &batch, &mut Vec::new(), &mut largest)
            .unwrap();
        assert!(largest.0 < 600_000, "{}", largest.0);
        assert_eq!(encoder.num_rows(), 2_000);
        assert_eq!(largest.1, encode(&batch, &format).unwrap().len());
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
    let batch = decode(&stream, &format, options).unwrap();
    let order = batch.column_by_name("$sparse_columns").unwrap();
    let last = order.as_list::<i32>().value(3);
    assert_eq!(last.as_primitive::<UInt16Type>().values(), &[2, 0]);
    // The last of two values counts, in its place; all else is the same.
    let expected = [
        &stream[..stream.len() - 13],
        &[0, 0, 2, 0, 5, 0, 0, 6, 0xff, 0xff],
    ]
    .concat();
    assert_eq!(encode(&batch, &format).unwrap(), expected);
    // A slice has the order of its rows.
    assert_eq!(
        encode(&batch.slice(1, 2), &format).unwrap(),
        expected[10..21]
    );

    let wrong = RecordBatch::try_from_iter([
        ("a", Arc::clone(batch.column(0))),
        ("$sparse_columns", Arc::clone(batch.column(0))),
    ]);
    let error = encode(&wrong.unwrap(), &format).unwrap_err();
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
        encode(&RecordBatch::try_from_iter(columns).unwrap(), &format)
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

#[test]
fn nodes_beyond_a_limit_are_limits_with_their_place() {
    let format = table(r#"{"name": "y", "wire_type": "yson32"}"#);
    let deep = ["[".repeat(256), "]".repeat(256)].concat();
    let length = u32::try_from(deep.len()).unwrap();
    let stream = [&[0, 0][..], &length.to_le_bytes(), deep.as_bytes()].concat();
    let error = decode(&stream, &format, DecodeOptions::default()).unwrap_err();
    assert_eq!(error.class(), "Limit");
    for part in ["byte 2, table 0, row 0, column `y`", "255", "max_depth"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let nodes: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"#", deep.as_bytes()]));
    let error = encode(&batch("y", nodes), &format).unwrap_err();
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

/// Work must depend on the rows, not on the tables that the format declares: the looks through all tables are what this counts.
#[test]
fn tables_that_are_only_declared_cost_nothing_per_batch() {
    use std::time::Instant;
    let seconds = |num_tables: usize, keeps_order: bool| {
        let tables = vec![r#""$t""#; num_tables].join(",");
        let text = format!(
            r#"{{"table_skiff_schemas": [{tables}], "skiff_schema_registry": {{"t": {{"wire_type": "tuple", "children": [
                {{"name": "$key_switch", "wire_type": "boolean"}}, {{"name": "x", "wire_type": "int64"}}]}}}}}}"#
        );
        let format = Format::from_json(&text, Strings::Binary).unwrap();
        // Every row begins a key: 30,000 batches.
        let stream: Vec<u8> = (0..30_000_u16)
            .flat_map(|row| [&(row % 100).to_le_bytes()[..], &[1], &[7; 8]].concat())
            .collect();
        let mut options = DecodeOptions::default();
        options.cuts_at_key_switch = true;
        options.keeps_order = keeps_order;
        let began = Instant::now();
        let reader = Reader::new(stream.as_slice(), format, options);
        let num_batches = reader
            .map(|batch| batch.unwrap().1.num_rows())
            .sum::<usize>();
        assert_eq!(num_batches, 30_000);
        began.elapsed().as_secs_f64()
    };
    for keeps_order in [true, false] {
        // The shortest of three runs: other programs of the machine may slow one of them down.
        let least = |num_tables| {
            (0..3)
                .map(|_| seconds(num_tables, keeps_order))
                .fold(f64::INFINITY, f64::min)
        };
        let (few, many) = (least(100), least(65_535));
        assert!(many < 5.0 * few + 0.5, "{few} {many}");
    }
}

#[test]
fn references_do_not_multiply_the_nodes_of_many_tables() {
    let mut entries = vec![r#""e0": {"name": "x", "wire_type": "int64"}"#.to_owned()];
    for level in 1..16 {
        let below = level - 1;
        entries.push(format!(
            r#""e{level}": {{"wire_type": "tuple", "children": ["$e{below}", "$e{below}"]}}"#
        ));
    }
    let table = |number: usize| {
        format!(
            r#"{{"wire_type": "tuple", "children": [{{"name": "c{number}", "wire_type": "repeated_variant8", "children": ["$e15"]}}]}}"#
        )
    };
    let read = |tables: &[String]| {
        let text = format!(
            r#"{{"table_skiff_schemas": [{}], "skiff_schema_registry": {{{}}}}}"#,
            tables.join(","),
            entries.join(",")
        );
        Format::from_json(&text, Strings::Binary)
    };
    assert!(read(&[table(0), table(1)]).is_ok());
    let many: Vec<_> = (0..1_000).map(table).collect();
    let error = read(&many).unwrap_err();
    assert!(error.to_string().contains("table 4"), "{error}");
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
    let stream = encode(&made, &format).unwrap();
    let mut options = DecodeOptions::default();
    options.batch_rows = 10;
    let again = decode(&stream, &format, options).unwrap();
    let again = promote_other_columns(&again, &wanted, keep, Limits::default()).unwrap();
    assert_eq!(again.column(1), made.column(1));
    assert_eq!(again.column(2), made.column(2));
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
    let batch = decode(&stream, &single, DecodeOptions::default()).unwrap();
    assert_eq!(encode(&batch, &single).unwrap(), stream);
    let batch = batch.project(&(0..18).collect::<Vec<_>>()).unwrap();
    let out = encode(&batch, &blocks).unwrap();
    assert_eq!(out.len(), stream.len() - 3_000);
    assert_eq!(
        decode(&out, &blocks, DecodeOptions::default()).unwrap(),
        batch
    );
    // From the middle of a batch, and after other bytes.
    let mut tail = out.clone();
    let mut encoder = Encoder::new(blocks.clone(), EncodeOptions::default());
    encoder
        .encode(0, &batch.slice(1_000, 500), &mut tail)
        .unwrap();
    let slice = encode(&batch.slice(1_000, 500), &blocks).unwrap();
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

#[test]
fn a_format_made_by_hand_with_too_many_tables_is_refused_when_it_is_used() {
    let root = Arc::new(WireNode::complex(WireType::Tuple, Vec::new()));
    let schema = pilum_skiff::TableSchema::try_new(root, Strings::Binary).unwrap();
    let format = Format::new(vec![schema; 65_536]);
    let mut options = EncodeOptions::default();
    options.tags = Tags::Input;
    let empty = RecordBatch::new_empty(Arc::new(Schema::empty()));
    let mut encoder = Encoder::new(format, options);
    let error = encoder.encode(65_535, &empty, &mut Vec::new()).unwrap_err();
    assert_eq!(error.class(), "SchemaError");
}
