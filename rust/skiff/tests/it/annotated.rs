//! Streams as annotated hex dumps.

use pilum_skiff::{Format, Strings};

use crate::cases::all;

#[test]
fn every_field_of_the_worked_example_is_a_line() {
    let cases = all();
    let case = cases
        .iter()
        .find(|case| case.name == "two_tables_control")
        .unwrap();
    let format = Format::from_json(&case.schema["format"].to_string(), Strings::Binary).unwrap();
    let dump = format.annotate(&case.stream, 100);
    let lines: Vec<_> = dump
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for line in [
        "0 0000 row 0 table 0",
        "3 01 $row_index tag 1",
        "4 0a00000000000000 [1] int64 10",
        "35 0000 row 1 table 0",
        "38 00 $row_index tag 0: the previous row index + 1",
        "39 00 $range_index tag 0: the previous range index",
        "189 end of the stream",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}: {dump}");
    }
    assert!(dump.contains("$other_columns yson32 {\"z\"=7}"), "{dump}");
    assert!(dump.contains("string32 \"a\" (1 bytes)"), "{dump}");
}

#[test]
fn a_fault_is_the_last_line() {
    for case in all() {
        if case.expected["error"]["stage"] != "decode" || case.schema["end_of_stream"] == true {
            continue;
        }
        let class = case.expected["error"]["class"].as_str().unwrap();
        let format =
            Format::from_json(&case.schema["format"].to_string(), Strings::Binary).unwrap();
        let dump = format.annotate(&case.stream, 1_000);
        let last = dump.lines().last().unwrap();
        // On the wire a node that is no map is a node, and `FF FF` ends a stream.
        if class != "OtherColumnsNotMap" && case.name != "bad_table_tag_eos" {
            assert!(last.contains("FAULT"), "{}: {dump}", case.name);
        }
    }
}
