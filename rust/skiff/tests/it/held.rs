//! What is encoded is read back as the same value in the same format, or refused: kinds of numbers, ranges, names of members.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float64Array,
    Int8Array, Int32Array, Int64Array, LargeStringArray, MapArray, RecordBatch, StringArray,
    StructArray, TimestampMicrosecondArray, UInt64Array, UnionArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit, UnionFields, UnionMode};
use pilum_skiff::{DecodeOptions, EncodeOptions, Encoder, Error, Format, Reader, Strings};

fn format_of(fields: Vec<Field>) -> Format {
    Format::from_arrow(&[&Schema::new(fields)]).unwrap()
}

fn table(children: &str) -> Format {
    let text = format!(
        r#"{{"table_skiff_schemas": [{{"wire_type": "tuple", "children": [{children}]}}]}}"#
    );
    Format::from_json(&text, Strings::Binary).unwrap()
}

fn encode(format: &Format, batch: &RecordBatch) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    Encoder::new(format.clone(), EncodeOptions::default()).encode(0, batch, &mut out)?;
    Ok(out)
}

fn column(format: &Format, array: ArrayRef) -> Result<Vec<u8>, Error> {
    encode(format, &RecordBatch::try_from_iter([("c", array)]).unwrap())
}

fn decode(format: &Format, stream: &[u8]) -> RecordBatch {
    let mut batches = Reader::new(stream, format.clone(), DecodeOptions::default());
    batches.next().unwrap().unwrap().1
}

fn decimal(value: i128, precision: u8, scale: i8) -> ArrayRef {
    let array = Decimal128Array::from(vec![value]);
    Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
}

#[test]
fn numbers_of_another_kind_are_refused_instead_of_written_as_raw_units() {
    let utc = || DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let int: ArrayRef = Arc::new(Int64Array::from(vec![5]));
    let time: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![5]));
    let day: ArrayRef = Arc::new(Date32Array::from(vec![5]));
    let kinds: [(DataType, ArrayRef); 5] = [
        (DataType::Int64, Arc::clone(&int)),
        (DataType::Decimal128(9, 2), decimal(500, 9, 2)),
        (utc(), Arc::clone(&time)),
        (
            DataType::Duration(TimeUnit::Microsecond),
            Arc::new(arrow_array::DurationMicrosecondArray::from(vec![5])),
        ),
        (DataType::Date32, day),
    ];
    for (to, (data_type, _)) in kinds.iter().enumerate() {
        let format = format_of(vec![Field::new("c", data_type.clone(), false)]);
        for (from, (_, array)) in kinds.iter().enumerate() {
            let written = column(&format, Arc::clone(array));
            if from == to {
                written.unwrap();
                continue;
            }
            let error = written.unwrap_err();
            assert!(
                matches!(error, Error::Unsupported { .. }),
                "{from} {to}: {error}"
            );
            assert!(error.to_string().contains("column `c`"), "{error}");
            assert!(error.to_string().contains("cast the column"), "{error}");
        }
    }
    // Inside of lists too, and where a format of wire types has a plain integer.
    let plain = table(r#"{"name": "c", "wire_type": "int64"}"#);
    assert!(column(&plain, time).is_err());
    assert!(column(&plain, decimal(500, 9, 2)).is_err());
    assert!(column(&plain, Arc::new(UInt64Array::from(vec![5]))).is_ok());
    let item = Arc::new(Field::new("item", DataType::Decimal128(9, 2), false));
    let lists = format_of(vec![Field::new("c", DataType::List(item), false)]);
    let item = Arc::new(Field::new("item", DataType::Int64, false));
    let offsets = OffsetBuffer::from_lengths([1]);
    let list = arrow_array::ListArray::new(item, offsets, int, None);
    let error = column(&lists, Arc::new(list)).unwrap_err();
    assert!(error.to_string().contains("`item` in it"), "{error}");
}

#[test]
fn values_that_the_arrow_type_of_the_format_does_not_hold_are_refused_with_their_row() {
    let text = "text".as_bytes();
    let cases: [(DataType, ArrayRef, &str); 9] = [
        (
            DataType::Int8,
            Arc::new(Int64Array::from(vec![127, 128])),
            "OutOfRange",
        ),
        (
            DataType::UInt8,
            Arc::new(UInt64Array::from(vec![255, 256])),
            "OutOfRange",
        ),
        (
            DataType::UInt16,
            Arc::new(Int32Array::from(vec![0, -1])),
            "OutOfRange",
        ),
        (
            DataType::Decimal128(5, 2),
            Arc::new(
                Decimal128Array::from(vec![99_999, 100_000])
                    .with_precision_and_scale(9, 2)
                    .unwrap(),
            ),
            "OutOfRange",
        ),
        (
            DataType::Float32,
            Arc::new(Float64Array::from(vec![0.5, 0.1])),
            "OutOfRange",
        ),
        (
            DataType::Utf8,
            Arc::new(BinaryArray::from_vec(vec![text, b"\xff"])),
            "BadUtf8",
        ),
        (
            DataType::LargeUtf8,
            Arc::new(BinaryArray::from_vec(vec![text, b"\xff"])),
            "BadUtf8",
        ),
        (
            DataType::FixedSizeBinary(4),
            Arc::new(BinaryArray::from_vec(vec![text, b"abc"])),
            "OutOfRange",
        ),
        (
            DataType::FixedSizeBinary(4),
            Arc::new(StringArray::from(vec!["text", "abcde"])),
            "OutOfRange",
        ),
    ];
    for (data_type, array, class) in cases {
        for is_nullable in [false, true] {
            let format = format_of(vec![Field::new("c", data_type.clone(), is_nullable)]);
            let error = column(&format, Arc::clone(&array)).unwrap_err();
            assert_eq!(error.class(), class, "{data_type}: {error}");
            assert!(matches!(error, Error::Value { row: 1, .. }), "{error}");
            let stream = column(&format, array.slice(0, 1)).unwrap();
            assert_eq!(decode(&format, &stream).column(0).data_type(), &data_type);
        }
    }
    // Infinity and NaN are floats.
    let format = format_of(vec![Field::new("c", DataType::Float32, false)]);
    let values = vec![f64::NAN, f64::INFINITY, -0.0, f64::from(f32::MIN_POSITIVE)];
    column(&format, Arc::new(Float64Array::from(values))).unwrap();
    // A node of YSON under the wire type of a string.
    let yson = std::collections::HashMap::from([(
        "ARROW:extension:name".to_owned(),
        "ytsaurus.yson".to_owned(),
    )]);
    let field = Field::new("c", DataType::Binary, false).with_metadata(yson);
    let format = table(r#"{"name": "c", "wire_type": "string32"}"#);
    let format = format.with_arrow(0, &Schema::new(vec![field])).unwrap();
    let nodes = BinaryArray::from_vec(vec![b"{a=1}".as_slice(), b"{a=1"]);
    let error = column(&format, Arc::new(nodes)).unwrap_err();
    assert_eq!(error.class(), "BadYson");
    assert!(matches!(error, Error::Value { row: 1, .. }), "{error}");
}

/// A struct of one row, and the fields of its members.
fn structs(members: &[(&str, ArrayRef)]) -> ArrayRef {
    let fields: Fields = members
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), false))
        .collect();
    let arrays = members.iter().map(|(_, array)| Arc::clone(array)).collect();
    Arc::new(StructArray::new(fields, arrays, None))
}

fn int(value: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![value]))
}

#[test]
fn members_of_structs_are_matched_by_name() {
    let ab = structs(&[("a", int(1)), ("b", int(2))]);
    let format = format_of(vec![Field::new("c", ab.data_type().clone(), false)]);
    let stream = column(&format, Arc::clone(&ab)).unwrap();
    let ba = structs(&[("b", int(2)), ("a", int(1))]);
    assert_eq!(column(&format, ba).unwrap(), stream);
    for other in [
        structs(&[("a", int(1)), ("x", int(2))]),
        structs(&[("a", int(1))]),
        structs(&[("a", int(1)), ("b", int(2)), ("x", int(3))]),
        structs(&[("0", int(1)), ("1", int(2))]),
    ] {
        let error = column(&format, other).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("column `c`"), "{error}");
    }
    // Members without a name on the wire are called by their number.
    let tuple = table(
        r#"{"name": "c", "wire_type": "tuple", "children": [{"wire_type": "int64"}, {"wire_type": "int64"}]}"#,
    );
    let numbered = structs(&[("1", int(2)), ("0", int(1))]);
    assert_eq!(column(&tuple, numbered).unwrap(), stream);
    let error = column(&tuple, Arc::clone(&ab)).unwrap_err();
    assert!(error.to_string().contains("`0`, `1`"), "{error}");
    // A member that the batch does not have is null where the format allows it.
    let fields: Fields = vec![
        Field::new("a", DataType::Int64, false),
        Field::new("o", DataType::Int64, true),
    ]
    .into();
    let format = format_of(vec![Field::new("c", DataType::Struct(fields), false)]);
    let stream = column(&format, structs(&[("a", int(1))])).unwrap();
    assert_eq!(stream, [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn alternatives_of_unions_are_matched_by_name() {
    let union = |names: [&str; 2], ids: [i8; 2]| -> ArrayRef {
        let number: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let text: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"x"]));
        let arrays: Vec<ArrayRef> = names
            .iter()
            .map(|name| Arc::clone(if *name == "text" { &text } else { &number }))
            .collect();
        let fields = names.iter().zip(&arrays);
        let fields =
            fields.map(|(name, array)| Field::new(*name, array.data_type().clone(), false));
        let fields = UnionFields::try_new([0, 1], fields.collect::<Vec<_>>()).unwrap();
        let array =
            UnionArray::try_new(fields, ids.to_vec().into(), Some(vec![0, 0].into()), arrays);
        Arc::new(array.unwrap())
    };
    let format = table(
        r#"{"name": "c", "wire_type": "variant8", "children": [{"name": "number", "wire_type": "int64"}, {"name": "text", "wire_type": "string32"}]}"#,
    );
    let stream = column(&format, union(["number", "text"], [0, 1])).unwrap();
    assert_eq!(
        column(&format, union(["text", "number"], [1, 0])).unwrap(),
        stream
    );
    let error = column(&format, union(["0", "text"], [0, 1])).unwrap_err();
    assert!(error.to_string().contains("`number`, `text`"), "{error}");
    // Two alternatives of one type changed places before.
    let same = table(
        r#"{"name": "c", "wire_type": "variant8", "children": [{"name": "a", "wire_type": "int64"}, {"name": "b", "wire_type": "int64"}]}"#,
    );
    let given = |names: [&str; 2]| {
        let fields = names.map(|name| Field::new(name, DataType::Int64, false));
        let fields = UnionFields::try_new([0, 1], fields.to_vec()).unwrap();
        let arrays = vec![int(1), int(2)];
        Arc::new(
            UnionArray::try_new(fields, vec![0, 1].into(), Some(vec![0, 0].into()), arrays)
                .unwrap(),
        )
    };
    let stream = column(&same, given(["b", "a"])).unwrap();
    assert_eq!(
        stream,
        [
            0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0
        ]
    );
}

#[test]
fn keys_and_values_of_maps_are_told_apart_by_their_order() {
    let map = |names: [&str; 2]| -> ArrayRef {
        let key: ArrayRef = Arc::new(StringArray::from(vec!["k"]));
        let entries = StructArray::new(
            vec![
                Field::new(names[0], DataType::Utf8, false),
                Field::new(names[1], DataType::Int64, false),
            ]
            .into(),
            vec![key, int(5)],
            None,
        );
        let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        Arc::new(MapArray::new(
            field,
            OffsetBuffer::from_lengths([1]),
            entries,
            None,
            false,
        ))
    };
    let columns =
        br#"[{"name": "c", "type_v3": {"type_name": "dict", "key": "utf8", "value": "int64"}}]"#;
    let format = Format::from_table_schema(columns).unwrap();
    let stream = column(&format, map(["key", "value"])).unwrap();
    assert_eq!(column(&format, map(["keys", "values"])).unwrap(), stream);
}

#[test]
fn a_schema_that_would_exchange_members_is_refused() {
    let format = table(
        r#"{"name": "c", "wire_type": "tuple", "children": [{"name": "a", "wire_type": "int64"}, {"name": "b", "wire_type": "int64"}]}"#,
    );
    let wanted = |names: [&str; 2]| {
        let fields: Fields = names
            .map(|name| Field::new(name, DataType::Int32, false))
            .to_vec()
            .into();
        Schema::new(vec![Field::new("c", DataType::Struct(fields), false)])
    };
    assert!(format.clone().with_arrow(0, &wanted(["a", "b"])).is_ok());
    let error = format
        .clone()
        .with_arrow(0, &wanted(["b", "a"]))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("member 0 is `a` on the wire and `b`"),
        "{error}"
    );
    let variant = table(
        r#"{"name": "c", "wire_type": "variant8", "children": [{"name": "a", "wire_type": "int64"}, {"name": "b", "wire_type": "int64"}]}"#,
    );
    let fields = ["b", "a"].map(|name| Field::new(name, DataType::Int64, false));
    let fields = UnionFields::try_new([0, 1], fields.to_vec()).unwrap();
    let wanted = Schema::new(vec![Field::new(
        "c",
        DataType::Union(fields, UnionMode::Dense),
        true,
    )]);
    assert!(variant.with_arrow(0, &wanted).is_err());
}

#[test]
fn columns_of_one_name_and_control_columns_do_not_reach_other_columns() {
    let weak = table(
        r#"{"name": "id", "wire_type": "int64"}, {"name": "$other_columns", "wire_type": "yson32"}"#,
    );
    let strict = table(r#"{"name": "id", "wire_type": "int64"}"#);
    let twice = |first: &str, second: &str| {
        let schema = Schema::new(vec![
            Field::new(first, DataType::Int64, false),
            Field::new(second, DataType::Int64, false),
        ]);
        RecordBatch::try_new(Arc::new(schema), vec![int(1), int(2)]).unwrap()
    };
    for format in [&weak, &strict] {
        let error = encode(format, &twice("id", "id")).unwrap_err();
        assert_eq!(error.class(), "DuplicateColumn", "{error}");
        assert!(matches!(&error, Error::Value { column: Some(name), .. } if name == "id"));
        for control in [
            "$row_index",
            "$range_index",
            "$key_switch",
            "$remaining_row_bytes",
            "$sparse_columns",
        ] {
            let error = encode(format, &twice("id", control)).unwrap_err();
            assert_eq!(error.class(), "UnexpectedColumn", "{error}");
            assert!(error.to_string().contains("drop it"), "{error}");
        }
    }
    assert!(encode(&weak, &twice("id", "more")).is_ok());
}

#[test]
fn extension_types_are_the_same_with_and_without_empty_parameters() {
    let columns = br#"[{"name": "c", "type_v3": "uuid"}]"#;
    let format = Format::from_table_schema(columns).unwrap();
    let field = format.tables()[0].arrow().field(0).clone();
    let mut metadata = field.metadata().clone();
    metadata.insert("ARROW:extension:metadata".to_owned(), String::new());
    let wanted = Schema::new(vec![field.with_metadata(metadata)]);
    assert_eq!(format.clone().with_arrow(0, &wanted).unwrap(), format);
    let uuids = FixedSizeBinaryArray::try_from_iter([[1_u8; 16]].into_iter()).unwrap();
    let schema = Arc::clone(format.tables()[0].arrow());
    let batch = RecordBatch::try_new(schema, vec![Arc::new(uuids)]).unwrap();
    encode(&format, &batch).unwrap();
}

#[test]
fn strings_of_every_layout_are_written_alike() {
    let format = format_of(vec![Field::new("c", DataType::Utf8, false)]);
    let plain = column(&format, Arc::new(StringArray::from(vec!["a", "é"]))).unwrap();
    let layouts: [ArrayRef; 3] = [
        Arc::new(LargeStringArray::from(vec!["a", "é"])),
        Arc::new(arrow_array::StringViewArray::from(vec!["a", "é"])),
        Arc::new(BinaryArray::from_vec(vec![b"a", "é".as_bytes()])),
    ];
    for array in layouts {
        assert_eq!(column(&format, array).unwrap(), plain);
    }
    // A null hides what stands under it.
    let format = format_of(vec![Field::new("c", DataType::Int8, true)]);
    let hidden = Int8Array::new(vec![5].into(), Some(vec![false].into()));
    assert_eq!(column(&format, Arc::new(hidden)).unwrap(), [0, 0, 0]);
}

#[test]
fn a_struct_with_two_members_of_one_name_is_not_written_as_a_yson_map() {
    let weak = table(
        r#"{"name": "id", "wire_type": "int64"}, {"name": "$other_columns", "wire_type": "yson32"}"#,
    );
    let member = |name: &str| Arc::new(Field::new(name, DataType::Int64, false));
    let encoded = |names: [&str; 2]| {
        let members = StructArray::new(
            names.map(member).to_vec().into(),
            vec![int(1), int(2)],
            None,
        );
        let columns: Vec<(&str, ArrayRef)> = vec![("id", int(1)), ("s", Arc::new(members))];
        encode(&weak, &RecordBatch::try_from_iter(columns).unwrap())
    };
    assert!(encoded(["x", "y"]).is_ok());
    let error = encoded(["x", "x"]).unwrap_err();
    assert!(error.to_string().contains("two members `x`"), "{error}");
}

#[test]
fn yson_in_a_string_column_must_be_valid_utf8() {
    let yson = |bytes: &[u8]| {
        let field = Field::new("a", DataType::Binary, false).with_metadata(
            std::collections::HashMap::from([(
                "ARROW:extension:name".to_owned(),
                "ytsaurus.yson".to_owned(),
            )]),
        );
        let values: ArrayRef = Arc::new(BinaryArray::from_vec(vec![bytes]));
        RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![values]).unwrap()
    };
    let format = Format::from_json(
        r#"{"table_skiff_schemas": [{"wire_type": "tuple", "children": [{"name": "a", "wire_type": "string32"}]}]}"#,
        Strings::Text,
    )
    .unwrap();
    assert!(encode(&format, &yson(b"\"text\"")).is_ok());
    let error = encode(&format, &yson(b"\"\xff\"")).unwrap_err();
    assert_eq!(error.class(), "BadUtf8", "{error}");
}
