//! Streams of other implementations: values, errors, and the same bytes when they are encoded again.

use arrow_array::RecordBatch;
use pilum_skiff::{
    DecodeOptions, Decoder, EncodeOptions, Encoder, Error, Format, Reader, Strings, Tags,
};
use serde_json::Value as Json;

use crate::cases::{Case, all, rows};

fn options(case: &Case) -> DecodeOptions {
    let mut options = DecodeOptions::default();
    options.has_end_of_stream = case.schema["end_of_stream"] == true;
    options
}

/// The batches of a stream, and the error that ended it.
fn decode(
    stream: &[u8],
    format: &Format,
    options: DecodeOptions,
) -> (Vec<(usize, RecordBatch)>, Option<Error>) {
    let mut batches = Vec::new();
    for batch in Reader::new(stream, format.clone(), options) {
        match batch {
            Ok(batch) => batches.push(batch),
            Err(error) => return (batches, Some(error)),
        }
    }
    (batches, None)
}

fn format(case: &Case) -> Result<Format, Error> {
    Format::from_json(&case.schema["format"].to_string(), Strings::Binary)
}

fn all_rows(format: &Format, batches: &[(usize, RecordBatch)]) -> Vec<Json> {
    let rows =
        |(table, batch): &(usize, RecordBatch)| rows(*table, &format.tables()[*table], batch);
    batches.iter().flat_map(rows).collect()
}

/// Where each malformed stream is wrong, read from its bytes by hand: the tag or value that is cut or not allowed, and for YSON
/// the byte of the node.
const OFFSETS: [(&str, u64); 26] = [
    ("bad_boolean", 5),
    ("bad_eos_missing", 16),
    ("bad_eos_trailing", 18),
    ("bad_huge_string", 10),
    ("bad_list_tag", 11),
    ("bad_list_unterminated", 11),
    ("bad_optional_tag", 2),
    ("bad_optional_tag_ff", 10),
    ("bad_other_not_map", 10),
    ("bad_row_index_tag", 21),
    ("bad_sparse_tag", 10),
    ("bad_sparse_unterminated", 20),
    ("bad_table_tag", 16),
    ("bad_table_tag_eos", 16),
    ("bad_tag_without_row", 18),
    ("bad_truncated_string", 26),
    ("bad_truncated_tag", 16),
    ("bad_truncated_value", 18),
    ("bad_yson_0", 6),
    ("bad_yson_1", 10),
    ("bad_yson_2", 7),
    ("bad_yson_3", 9),
    ("bad_yson_4", 9),
    ("bad_yson_5", 6),
    ("bad_yson_6", 6),
    ("bad_yson_7", 6),
];

#[test]
fn every_case_has_the_values_or_the_error_that_the_client_gives() {
    let (mut sound, mut refused) = (0, 0);
    for case in all() {
        let name = &case.name;
        let error = &case.expected["error"];
        if error["stage"] == "schema" {
            let error = format(&case).unwrap_err();
            assert_eq!(error.class(), "SchemaError", "{name}: {error}");
            refused += 1;
            continue;
        }
        let format = format(&case).unwrap();
        let (batches, end) = decode(&case.stream, &format, options(&case));
        let found = all_rows(&format, &batches);
        if let Some(class) = error["class"].as_str() {
            let end = end.unwrap();
            assert_eq!(end.class(), class, "{name}: {end}");
            let offset = OFFSETS.iter().find(|(case, _)| case == name);
            let (_, offset) = offset.unwrap_or_else(|| panic!("{name}: which byte is wrong?"));
            let found_at = match &end {
                Error::Stream { offset, .. } => *offset,
                other => panic!("{name}: {other}"),
            };
            assert_eq!(found_at, *offset, "{name}: {end}");
            let before = error["complete_rows_before_error"].as_u64().unwrap();
            assert_eq!(u64::try_from(found.len()).unwrap(), before, "{name}");
            refused += 1;
            continue;
        }
        assert!(end.is_none(), "{name}: {end:?}");
        let mut expected = case.expected["rows"].clone();
        for row in expected.as_array_mut().unwrap() {
            row["control"]
                .as_object_mut()
                .unwrap()
                .retain(|key, _| !key.ends_with("_tag"));
        }
        let expected = expected.as_array().unwrap();
        assert_eq!(found.len(), expected.len(), "{name}");
        for (row, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert_eq!(found, expected, "{name}, row {row}");
        }
        sound += 1;
    }
    assert!(sound >= 30 && refused >= 40, "{sound} {refused}");
}

#[test]
fn streams_are_the_same_bytes_when_they_are_encoded_again() {
    let mut from_client = 0;
    for case in all() {
        let name = &case.name;
        if case.expected["error"].is_object() {
            continue;
        }
        let format = format(&case).unwrap();
        let mut options = options(&case);
        options.keeps_sparse_order = true;
        let (batches, _) = decode(&case.stream, &format, options);
        let mut encode = EncodeOptions::default();
        encode.tags = Tags::Input;
        encode.has_end_of_stream = case.schema["end_of_stream"] == true;
        let mut encoder = Encoder::new(format.clone(), encode);
        let mut out = Vec::new();
        for (table, batch) in &batches {
            encoder.encode(*table, batch, &mut out).unwrap();
        }
        encoder.finish(&mut out);
        let is_client = case.schema["encoded_by"]
            .as_str()
            .unwrap()
            .starts_with("ytsaurus");
        assert_eq!(out, case.stream, "{name}");
        from_client += usize::from(is_client);
    }
    assert!(from_client >= 5, "{from_client}");
}

#[test]
fn streams_in_pieces_of_any_size_have_the_same_rows_and_errors() {
    for case in all() {
        if case.expected["error"]["stage"] == "schema" {
            continue;
        }
        let format = format(&case).unwrap();
        let (batches, end) = decode(&case.stream, &format, options(&case));
        let whole = all_rows(&format, &batches);
        for (size, batch_rows) in [(1, 2), (3, 1), (7, 100), (64, 3)] {
            if case.stream.len() > 4_000 && size < 64 {
                continue;
            }
            let mut options = options(&case);
            options.batch_rows = batch_rows;
            let (found, error) = push(&case.stream, &format, options, size);
            assert!(
                found
                    .iter()
                    .all(|(_, batch)| batch.num_rows() <= batch_rows)
            );
            let found = all_rows(&format, &found);
            assert_eq!(found, whole, "{} in pieces of {size}", case.name);
            assert_eq!(
                error.map(|error| error.to_string()),
                end.as_ref().map(ToString::to_string),
                "{} in pieces of {size}",
                case.name
            );
        }
    }
}

fn push(
    stream: &[u8],
    format: &Format,
    options: DecodeOptions,
    size: usize,
) -> (Vec<(usize, RecordBatch)>, Option<Error>) {
    let mut decoder = Decoder::new(format.clone(), options);
    let mut batches = Vec::new();
    let (mut start, mut end) = (0, 0);
    loop {
        let is_last = end == stream.len();
        start += decoder.decode(&stream[start..end], is_last);
        match decoder.next_batch() {
            Ok(Some(batch)) => {
                batches.push(batch);
                continue;
            }
            Err(error) => return (batches, Some(error)),
            Ok(None) if is_last => {
                assert!(decoder.is_done());
                return (batches, None);
            }
            Ok(None) => end = (end + size).min(stream.len()),
        }
    }
}
