//! Damaged input without end: no panic, memory within bounds, and errors that say where.

use std::path::Path;

use pilum_skiff::yson::{JsonOptions, Limits, parse, validate, yson_to_json};
use pilum_skiff::{DecodeOptions, EncodeOptions, Encoder, Error, Format, Reader, Strings, Tags};
use pilum_testing::{CountingAllocator, Random, Target, attack, fuzz, mutate};

use crate::cases::all;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn kept() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// A format and a stream in one input: the length of the format in four bytes, the format, the stream.
fn join(format: &str, stream: &[u8]) -> Vec<u8> {
    let length = u32::try_from(format.len()).unwrap();
    [&length.to_le_bytes(), format.as_bytes(), stream].concat()
}

fn split(input: &[u8]) -> (&[u8], &[u8]) {
    let Some((length, rest)) = input.split_first_chunk::<4>() else {
        return (&[], &[]);
    };
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap();
    rest.split_at(length.min(rest.len()))
}

fn corpus() -> Vec<Vec<u8>> {
    let cases = all()
        .into_iter()
        .filter(|case| case.expected["error"]["stage"] != "schema");
    cases
        .map(|case| join(&case.schema["format"].to_string(), &case.stream))
        .collect()
}

#[test]
fn fuzz_skiff_streams() {
    let decode = |input: &[u8], random: &mut Random| {
        let (format, stream) = split(input);
        let Ok(format) = Format::from_json(&String::from_utf8_lossy(format), Strings::Binary)
        else {
            return false;
        };
        let mut options = DecodeOptions::default();
        options.batch_rows = 1 + random.below(100);
        options.keeps_order = random.one_in(2);
        options.cuts_at_key_switch = random.one_in(2);
        options.has_end_of_stream = random.one_in(8);
        options.keeps_sparse_order = random.one_in(2);
        options.special_as_null = random.one_in(2);
        let mut encode = EncodeOptions::default();
        encode.tags = Tags::Input;
        let mut encoder = Encoder::new(format.clone(), encode);
        let mut out = Vec::new();
        for batch in Reader::new(stream, format.clone(), options) {
            let Ok((table, batch)) = batch else {
                return false;
            };
            // Whatever was decoded can be encoded.
            out.clear();
            if let Err(error) = encoder.encode(table, &batch, &mut out) {
                panic!(
                    "{error}: table {table}, {:?}, {}",
                    batch.schema(),
                    format.to_json()
                );
            }
        }
        true
    };
    let damage = |input: &mut Vec<u8>, random: &mut Random| {
        // The stream alone: a damaged format is seldom one.
        let format = split(input).0.len();
        let mut stream = input.split_off(format + 4);
        mutate(&mut stream, random);
        input.extend_from_slice(&stream);
    };
    fuzz(
        &Target {
            name: "skiff-stream",
            corpus: corpus(),
            damage: &damage,
            mend: &|_| {},
            decode: &decode,
        },
        &kept(),
        4_000,
    );
}

#[test]
fn fuzz_skiff_schemas() {
    let decode = |input: &[u8], _: &mut Random| {
        let format = match std::str::from_utf8(input) {
            Ok(text) if text.starts_with('{') => Format::from_json(text, Strings::Text),
            _ => Format::from_yson(input, Strings::Text),
        };
        let Ok(format) = format else {
            return false;
        };
        assert!(!format.explain().is_empty() || format.tables().is_empty());
        let again = Format::from_json(&format.to_json(), Strings::Text).unwrap();
        assert_eq!(again, format);
        true
    };
    let json: Vec<_> = all()
        .iter()
        .map(|case| case.schema["format"].to_string().into_bytes())
        .collect();
    let yson = json.iter().filter_map(|json| {
        let json = std::str::from_utf8(json).unwrap();
        Some(
            Format::from_json(json, Strings::Text)
                .ok()?
                .to_yson(Default::default()),
        )
    });
    let corpus = yson.chain(json.iter().cloned()).collect();
    fuzz(
        &Target {
            name: "skiff-schema",
            corpus,
            damage: &|input, random| mutate(input, random),
            mend: &|_| {},
            decode: &decode,
        },
        &kept(),
        4_000,
    );
}

#[test]
fn fuzz_skiff_yson() {
    let decode = |input: &[u8], _: &mut Random| {
        let limits = Limits::default();
        let node = parse(input, limits);
        assert_eq!(node.is_ok(), validate(input, limits).is_ok());
        let Ok(node) = node else {
            return false;
        };
        for style in [
            pilum_skiff::yson::Style::Binary,
            pilum_skiff::yson::Style::Text,
        ] {
            let mut out = Vec::new();
            pilum_skiff::yson::write_node(&node, style, false, &mut out);
            let again = parse(&out, limits).unwrap();
            // NaN differs from itself.
            assert_eq!(format!("{again:?}"), format!("{node:?}"));
        }
        yson_to_json(input, JsonOptions::exact(), limits).unwrap();
        true
    };
    let corpus: Vec<&[u8]> = vec![
        b"<a=1;b=[#;%true;%nan]>{\"x\\n\\xff\\u00e9\"=-5;\x01\x04ab=\x02\x0a;z=18446744073709551615u}",
        b"[1.5e10;-0.;%-inf;\x03\0\0\0\0\0\0\xf8\x3f;\x04;\x05;\x06\xff\x01;{};[];a.b%c-d]",
        b"{\x01\x02z=\x02\x0e;}",
    ];
    fuzz(
        &Target {
            name: "skiff-yson",
            corpus: corpus.into_iter().map(<[u8]>::to_vec).collect(),
            damage: &|input, random| mutate(input, random),
            mend: &|_| {},
            decode: &decode,
        },
        &kept(),
        20_000,
    );
}

#[test]
fn fuzz_skiff_other_columns() {
    use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
    use arrow_schema::{DataType, Field, Schema};
    let wanted = Schema::new(vec![
        Field::new("a", DataType::Int8, true),
        Field::new("b", DataType::Utf8, true),
        Field::new("c", DataType::Float32, true),
    ]);
    let format = column(r#"{"name": "$other_columns", "wire_type": "yson32"}"#);
    let decode = |input: &[u8], random: &mut Random| {
        let maps: ArrayRef = std::sync::Arc::new(BinaryArray::from_vec(vec![input, b"{}"]));
        let batch = RecordBatch::try_from_iter([("$other_columns", maps)]).unwrap();
        let conflicts = if random.one_in(2) {
            pilum_skiff::Conflicts::Keep
        } else {
            pilum_skiff::Conflicts::Error
        };
        let limits = Limits::default();
        let Ok(made) = pilum_skiff::promote_other_columns(&batch, &wanted, conflicts, limits)
        else {
            return false;
        };
        // The columns go back into the maps, and come out of them as the same columns.
        let mut out = Vec::new();
        let mut encoder = Encoder::new(format.clone(), EncodeOptions::default());
        encoder.encode(0, &made, &mut out).unwrap();
        let mut reader = Reader::new(out.as_slice(), format.clone(), DecodeOptions::default());
        let (_, again) = reader.next().unwrap().unwrap();
        let again = pilum_skiff::promote_other_columns(&again, &wanted, conflicts, limits).unwrap();
        assert_eq!(
            format!("{:?}", &again.columns()[..3]),
            format!("{:?}", &made.columns()[..3])
        );
        true
    };
    let corpus: Vec<&[u8]> = vec![
        b"{a=1;b=x;c=1.5;d=[1;2;{e=#}]}",
        b"{\x01\x02a=\x02\x0a;\"b\"=\"\\xff\";c=%nan;a=7u;}",
        b" { c = <x=1> 5 ; a = # ; z = {} } ",
    ];
    fuzz(
        &Target {
            name: "skiff-other-columns",
            corpus: corpus.into_iter().map(<[u8]>::to_vec).collect(),
            damage: &|input, random| mutate(input, random),
            mend: &|_| {},
            decode: &decode,
        },
        &kept(),
        10_000,
    );
}

/// Rows of one table of one column.
fn column(children: &str) -> Format {
    let format = format!(
        r#"{{"table_skiff_schemas": [{{"wire_type": "tuple", "children": [{children}]}}]}}"#
    );
    Format::from_json(&format, Strings::Binary).unwrap()
}

#[test]
fn nothing_is_allocated_for_a_declared_length() {
    let format = column(r#"{"name": "s", "wire_type": "string32"}"#);
    let stream = b"\0\0\xff\xff\xff\xffabc";
    let what = || "a string of 4 GiB".to_owned();
    let (error, peak) = attack(stream.len(), &what, || {
        let mut reader = Reader::new(stream.as_slice(), format.clone(), DecodeOptions::default());
        reader.next().unwrap().unwrap_err()
    });
    assert!(
        matches!(
            error,
            Error::Stream {
                offset: 2,
                row: 0,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.class(), "TruncatedStream");
    assert!(peak < 4 << 20, "{peak}");
}

#[test]
fn items_that_take_more_memory_than_bytes_are_counted() {
    let wide = r#"{"wire_type": "int256"}"#;
    let wide = [wide; 100].join(",");
    let item = format!(
        r#"{{"wire_type": "variant8", "children": [{{"wire_type": "nothing"}}, {{"wire_type": "tuple", "children": [{wide}]}}]}}"#
    );
    let format = column(&format!(
        r#"{{"name": "l", "wire_type": "repeated_variant8", "children": [{item}]}}"#
    ));
    // A million null items of two bytes each, which take 3,200 bytes of memory each.
    let mut stream = vec![0; 2 + 2_000_000];
    stream.push(0xff);
    let mut options = DecodeOptions::default();
    options.max_row_bytes = 8 << 20;
    let what = || "a list of wide nulls".to_owned();
    let (error, _) = attack(stream.len(), &what, || {
        Reader::new(stream.as_slice(), format.clone(), options)
            .next()
            .unwrap()
            .unwrap_err()
    });
    assert_eq!(error.class(), "Limit");
    assert!(error.to_string().contains("max_row_bytes"), "{error}");
}

#[test]
fn rows_of_few_bytes_and_many_columns_are_cut_into_batches() {
    let sparse: Vec<_> = (0..2_000)
        .map(|number| format!(r#"{{"name": "s{number}", "wire_type": "int256"}}"#))
        .collect();
    let format = column(&format!(
        r#"{{"name": "$sparse_columns", "wire_type": "repeated_variant16", "children": [{}]}}"#,
        sparse.join(",")
    ));
    let stream = [0, 0, 0xff, 0xff].repeat(5_000);
    let mut num_rows = 0;
    let what = || "rows of nulls".to_owned();
    attack(stream.len(), &what, || {
        for batch in Reader::new(stream.as_slice(), format.clone(), DecodeOptions::default()) {
            num_rows += batch.unwrap().1.num_rows();
        }
    });
    assert_eq!(num_rows, 5_000);
}

#[test]
fn a_registry_that_doubles_at_every_level_is_refused_in_no_time() {
    let mut entries = vec![r#""e0": {"wire_type": "int64"}"#.to_owned()];
    for level in 1..50 {
        let below = level - 1;
        entries.push(format!(
            r#""e{level}": {{"wire_type": "tuple", "children": ["$e{below}", "$e{below}"]}}"#
        ));
    }
    let format = format!(
        r#"{{"table_skiff_schemas": ["$e49"], "skiff_schema_registry": {{{}}}}}"#,
        entries.join(",")
    );
    let error = Format::from_json(&format, Strings::Binary).unwrap_err();
    assert!(error.to_string().contains("131072 nodes"), "{error}");
}
