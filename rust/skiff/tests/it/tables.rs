//! Formats that declare many tables, and what they cost.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use pilum_skiff::{
    DecodeOptions, EncodeOptions, Encoder, Format, Reader, Strings, Tags, WireNode, WireType,
};

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
