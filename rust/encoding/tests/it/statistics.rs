//! Page statistics equal to a peer's, and to a naive reading of the rules.
//!
//! The fixtures are input tables and the statistics that pylance 14.0.2 wrote for them.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float64Array, Int32Array, RecordBatch, StringArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use arrow_select::concat::concat_batches;
use pilum_encoding::*;
use proptest::prelude::*;
use serde_json::Value;

/// A bound as the fixtures print it.
fn print(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Date32 => array.as_primitive::<Date32Type>().value(row).into(),
        DataType::Date64 => array.as_primitive::<Date64Type>().value(row).into(),
        // As text, so that -0.0 is not 0.0.
        DataType::Float32 => format!(
            "{:?}",
            f64::from(array.as_primitive::<Float32Type>().value(row))
        )
        .into(),
        DataType::Float64 => format!("{:?}", array.as_primitive::<Float64Type>().value(row)).into(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).into(),
        DataType::Binary => hex(array.as_binary::<i32>().value(row)).into(),
        DataType::LargeBinary => hex(array.as_binary::<i64>().value(row)).into(),
        DataType::Decimal128(_, _) => array
            .as_primitive::<Decimal128Type>()
            .value(row)
            .to_string()
            .into(),
        other => panic!("{other}"),
    }
}

/// The fixtures print decimals as numbers and floats in another notation: to one form.
fn normalise(expected: &Value, data_type: &DataType) -> Value {
    match (expected, data_type) {
        // Zero length is an empty value or none: the fixtures cannot tell.
        (Value::String(s), DataType::Utf8 | DataType::LargeUtf8) if s.is_empty() => Value::Null,
        (Value::String(s), DataType::Float32 | DataType::Float64) => {
            format!("{:?}", s.parse::<f64>().unwrap()).into()
        }
        (Value::String(s), DataType::Decimal128(_, scale)) => {
            let (digits, exponent) = s.split_once('E').unwrap_or((s, "0"));
            let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
            let exponent: i32 = exponent.parse().unwrap();
            let shift = i32::from(*scale) + exponent - fraction.len() as i32;
            let raw: i128 = format!("{whole}{fraction}").parse().unwrap();
            (raw * 10_i128.pow(u32::try_from(shift).unwrap()))
                .to_string()
                .into()
        }
        _ => expected.clone(),
    }
}

fn column(batch: &RecordBatch, name: &str) -> (ArrayRef, Option<NullBuffer>) {
    if let Some(column) = batch.column_by_name(name) {
        return (Arc::clone(column), None);
    }
    let structs = batch.columns().iter().filter_map(|c| c.as_struct_opt());
    let mut found =
        structs.filter_map(|s| Some((Arc::clone(s.column_by_name(name)?), s.nulls().cloned())));
    found.next().unwrap()
}

fn check_fixture(name: &str, rows_per_page: usize) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/statistics");
    let file = std::fs::File::open(folder.join(format!("{name}.arrow"))).unwrap();
    let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
    let schema = reader.schema();
    let batches: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
    let table = concat_batches(&schema, &batches).unwrap();
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let columns = expected["files"][0]["stats"].as_object().unwrap();
    for stats in columns.values() {
        let name = stats["name"].as_str().unwrap();
        let (array, hidden) = column(&table, name);
        let mut builder = StatisticsBuilder::new(array.data_type()).unwrap();
        let pages = array.len().div_ceil(rows_per_page);
        for page in 0..pages {
            let start = page * rows_per_page;
            let len = rows_per_page.min(array.len() - start);
            let hidden = hidden.as_ref().map(|h| h.slice(start, len));
            builder
                .push_page(&array.slice(start, len), hidden.as_ref())
                .unwrap();
        }
        let (null_counts, min, max) = builder.finish();
        assert_eq!(
            stats["null_count"].as_array().unwrap().len(),
            pages,
            "{name}"
        );
        for page in 0..pages {
            let place = format!("column {name}, page {page}");
            assert_eq!(
                stats["null_count"][page],
                null_counts.value(page),
                "nulls of {place}"
            );
            for (kind, bound) in [("min_value", &min), ("max_value", &max)] {
                let expected = normalise(&stats[kind][page], array.data_type());
                let got = print(bound, page);
                // A bound that is empty and one that is unknown are stored alike.
                let got = if got == "" { Value::Null } else { got };
                assert_eq!(got, expected, "{kind} of {place}");
            }
        }
    }
    columns.len()
}

#[test]
fn statistics_equal_a_peers() {
    assert_eq!(check_fixture("stats_edges", 3), 10);
    assert_eq!(check_fixture("strings", 8), 4);
    assert_eq!(check_fixture("prims_nulls", 5), 11);
    assert_eq!(check_fixture("decimals", 6), 3);
}

fn one_page(array: &dyn Array) -> (Value, Value) {
    let mut builder = StatisticsBuilder::new(array.data_type()).unwrap();
    builder.push_page(array, None).unwrap();
    let (_, min, max) = builder.finish();
    (print(&min, 0), print(&max, 0))
}

fn text(values: &[&str]) -> (Value, Value) {
    one_page(&StringArray::from(values.to_vec()))
}

#[test]
fn long_text_is_cut_at_whole_characters_and_rounded_up() {
    let a64 = "a".repeat(64);
    assert_eq!(text(&[&a64]), (a64.clone().into(), a64.clone().into()));
    let up = format!("{}b", "a".repeat(63));
    assert_eq!(text(&[&format!("{a64}a")]), (a64.clone().into(), up.into()));
    // One value was cut: the maximum grows although it was not the one.
    assert_eq!(text(&[&format!("{a64}a"), "b"]), (a64.into(), "c".into()));
    // 63 bytes of a, then a character of two bytes that does not fit.
    let straddles = format!("{}ä", "a".repeat(63));
    let cut = "a".repeat(63);
    let up = format!("{}b", "a".repeat(62));
    assert_eq!(text(&[&straddles]), (cut.into(), up.into()));
    // A continuation byte at its end passes the carry to the lead byte: U+00FF to U+013F.
    let ends = format!("{}ÿ", "a".repeat(62));
    let up = format!("{}\u{13f}", "a".repeat(62));
    assert_eq!(text(&[&format!("{ends}x")]), (ends.into(), up.into()));
    // 0x7f has no larger byte that is text alone.
    let del = format!("{}\u{7f}", "a".repeat(63));
    let up = format!("{}b\u{7f}", "a".repeat(62));
    assert_eq!(text(&[&format!("{del}x")]), (del.into(), up.into()));
    // Sixteen times the last character: nothing is larger.
    let last = "\u{10FFFF}".repeat(17);
    assert_eq!(
        text(&[&last]),
        ("\u{10FFFF}".repeat(16).into(), Value::Null)
    );
    assert_eq!(text(&[&"\u{7f}".repeat(65)]).1, Value::Null);
    assert_eq!(text(&[]), (Value::Null, Value::Null));
    assert_eq!(text(&["", "x"]), ("".into(), "x".into()));
}

#[test]
fn long_binary_carries_over() {
    let bytes = |values: Vec<Vec<u8>>| one_page(&BinaryArray::from_iter_values(values.iter()));
    assert_eq!(
        bytes(vec![vec![0xff; 65]]),
        ("ff".repeat(64).into(), Value::Null)
    );
    assert_eq!(
        bytes(vec![vec![0xff; 64]]),
        ("ff".repeat(64).into(), "ff".repeat(64).into())
    );
    let mut carry = vec![0xff; 65];
    carry[0] = 1;
    let up = format!("02{}", "00".repeat(63));
    assert_eq!(bytes(vec![carry]).1, Value::from(up));
    assert_eq!(bytes(vec![vec![7; 65], vec![0xff]]).1, Value::Null);
}

#[test]
fn numbers_without_a_value_take_the_sentinels() {
    let nulls = Int32Array::from(vec![None, None]);
    assert_eq!(one_page(&nulls), (i32::MIN.into(), i32::MAX.into()));
    let nan = Float64Array::from(vec![Some(f64::NAN), None]);
    assert_eq!(one_page(&nan), ("-inf".into(), "inf".into()));
    let zeros = Float64Array::from(vec![0.0, f64::NAN]);
    assert_eq!(one_page(&zeros), ("-0.0".into(), "0.0".into()));
    let zeros = Float64Array::from(vec![-0.0]);
    assert_eq!(one_page(&zeros), ("-0.0".into(), "0.0".into()));
    let bools = BooleanArray::from(vec![None, None, Some(true)]);
    assert_eq!(one_page(&bools), (true.into(), true.into()));
    assert_eq!(one_page(&bools.slice(0, 2)), (false.into(), true.into()));
}

#[test]
fn hidden_slots_are_nulls_that_bound_nothing() {
    let array = Int32Array::from(vec![Some(-9), Some(5), None, Some(99)]);
    let mut builder = StatisticsBuilder::new(&DataType::Int32).unwrap();
    let hidden = NullBuffer::from(vec![false, true, true, false]);
    builder.push_page(&array, Some(&hidden)).unwrap();
    let (nulls, min, max) = builder.finish();
    assert_eq!(
        (nulls.value(0), print(&min, 0), print(&max, 0)),
        (3, 5.into(), 5.into())
    );
    assert!(StatisticsBuilder::new(&DataType::Float16).is_err());
}

proptest! {
    #[test]
    fn integers_agree_with_a_sort(values in prop::collection::vec(any::<Option<i32>>(), 0..300)) {
        let array = Int32Array::from(values.clone());
        let mut seen: Vec<i32> = values.into_iter().flatten().collect();
        seen.sort_unstable();
        let min = seen.first().copied().unwrap_or(i32::MIN);
        let max = seen.last().copied().unwrap_or(i32::MAX);
        prop_assert_eq!(one_page(&array), (min.into(), max.into()));
    }

    /// No value lies outside its page's bounds, however they were cut.
    #[test]
    fn text_lies_within_its_bounds(values in prop::collection::vec("[a\u{7f}-\u{82}ÿ\u{7ff}漢\u{ffff}\u{10ffff}]{0,40}", 1..20)) {
        let array = StringArray::from(values.clone());
        let (min, max) = one_page(&array);
        for value in &values {
            prop_assert!(min.as_str().is_some_and(|min| min <= value.as_str()));
            prop_assert!(max.as_str().is_none_or(|max| value.as_str() <= max));
        }
    }
}
