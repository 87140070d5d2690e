//! Members of structs, unions and maps are matched by their names, or by their order where names say nothing.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, Int64Array, MapArray, RecordBatch, StringArray, StructArray,
    UnionArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Fields, Schema, UnionFields, UnionMode};
use pilum_skiff::{Error, Format};

use super::one_table::{column, encode, format_of, table};

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
