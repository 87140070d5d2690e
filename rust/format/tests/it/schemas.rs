//! Schemas from anywhere: what the tree of a file claims, and what is asked of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field};
use pilum_format::proto::file as proto;
use pilum_format::{Error, MAX_DEPTH, Schema};

fn field(id: i32, parent_id: i32, logical_type: &str) -> proto::Field {
    proto::Field {
        name: format!("f{id}"),
        id,
        parent_id,
        logical_type: logical_type.to_owned(),
        nullable: true,
        ..Default::default()
    }
}

fn read(fields: &[proto::Field]) -> Result<Schema, Error> {
    Schema::from_protos("the file", fields, &BTreeMap::new())
}

#[test]
fn hostile_schemas_are_told_by_file_and_reason() {
    let deep: Vec<_> = (0..=64)
        .map(|id| field(id, id - 1, if id < 64 { "struct" } else { "int32" }))
        .collect();
    assert_eq!(MAX_DEPTH, 64);
    assert!(read(&deep[..64]).is_ok());
    let negative = |offset, length| {
        let mut field = field(0, -1, "dict:string:int8:false");
        field.dictionary = Some(proto::Dictionary { offset, length });
        vec![field]
    };
    let mut garbled = field(0, -1, "int32");
    garbled.metadata.insert("unit".to_owned(), vec![0xff]);
    let cases = [
        (vec![field(0, 7, "int32")], "field 0 has no parent 7"),
        // Its own parent, and one that comes behind it: no cycle is ever walked.
        (vec![field(3, 3, "struct")], "field 3 has no parent 3"),
        (
            vec![field(0, 1, "int32"), field(1, -1, "struct")],
            "field 0 has no parent 1",
        ),
        (deep, "the nesting of the schema needs 65 levels"),
        (negative(-1, 3), "dictionary of `f0`: negative"),
        (negative(3, -1), "dictionary of `f0`: negative"),
        (vec![garbled], "`unit` is not UTF-8"),
        (vec![field(0, -1, "quux")], "quux"),
        (vec![field(0, -1, "list")], "list"),
        (
            vec![
                field(0, -1, "list"),
                field(1, 0, "int8"),
                field(2, 0, "int8"),
            ],
            "list",
        ),
        (vec![field(0, -1, "map"), field(1, 0, "int8")], "map"),
        (vec![field(0, -1, "int32"), field(1, 0, "int8")], "int32"),
    ];
    for (fields, reason) in cases {
        let told = read(&fields).unwrap_err().to_string();
        assert!(told.contains("the file"), "{told}");
        assert!(told.contains(reason), "{reason}: {told}");
    }
    let metadata = BTreeMap::from([("pandas".to_owned(), vec![0xc3])]);
    let told = Schema::from_protos("the file", &[], &metadata).unwrap_err();
    assert!(told.to_string().contains("`pandas` is not UTF-8"), "{told}");
}

/// Members may stand behind other columns: the parent that they name counts.
#[test]
fn hostile_orders_of_fields_keep_every_member_with_its_parent() {
    let mut member = field(2, 0, "int32");
    member.extension_name = "geo.point".to_owned();
    let fields = [field(0, -1, "struct"), field(1, -1, "string"), member];
    let schema = read(&fields).unwrap();
    assert_eq!(schema.fields.len(), 2);
    assert_eq!(schema.fields[0].children[0].id, 2);
    let name = &schema.fields[0].children[0].metadata["ARROW:extension:name"];
    assert_eq!(name, "geo.point");
    let again = read(&schema.to_protos().unwrap()).unwrap();
    assert_eq!(again, schema);
    assert_eq!(again.ids(), [0, 2, 1]);
    // One id twice: a member belongs to the one on the way to it.
    let twice = [
        field(0, -1, "struct"),
        field(0, -1, "struct"),
        field(1, 0, "int8"),
    ];
    let schema = read(&twice).unwrap();
    let members: Vec<_> = schema.fields.iter().map(|it| it.children.len()).collect();
    assert_eq!(members, [0, 1]);
}

/// What is asked of a schema that repeats names and ids, and has names with dots.
#[test]
fn hostile_names_are_found_once_or_refused() {
    let named = |id, parent, name: &str, logical_type: &str| proto::Field {
        name: name.to_owned(),
        ..field(id, parent, logical_type)
    };
    let mut fields = vec![
        named(0, -1, "s", "struct"),
        named(1, 0, "x", "int8"),
        named(2, 0, "x", "int16"),
        named(3, 0, "in", "struct"),
        named(4, 3, "y", "int8"),
        named(5, 3, "z", "int8"),
        named(6, -1, "s.x", "string"),
        named(7, -1, "s", "int64"),
    ];
    let lists = [
        "list",
        "large_list",
        "list_view",
        "large_list_view",
        "fixed_size_list.child:2",
    ];
    for (number, logical_type) in (0..).zip(lists) {
        fields.push(named(
            10 + 2 * number,
            0,
            &format!("l{number}"),
            logical_type,
        ));
        fields.push(named(11 + 2 * number, 10 + 2 * number, "item", "string"));
    }
    fields.extend([
        named(30, 0, "m", "map"),
        named(31, 30, "entries", "struct"),
        named(32, 31, "key", "string"),
        named(33, 31, "value", "int8"),
    ]);
    // Neither the entries of a map nor its keys may be missing.
    for field in &mut fields {
        field.nullable = ![31, 32].contains(&field.id);
    }
    let schema = read(&fields).unwrap();
    let ids = |columns: &[&str]| schema.project(columns).map(|it| it.ids());
    // The whole name comes first, then the first struct of that name and its first member.
    assert_eq!(ids(&["s.x"]).unwrap(), [6]);
    assert_eq!(ids(&["s.in.z"]).unwrap(), [0, 3, 5]);
    assert_eq!(ids(&["s.in.z", "s.in.y"]).unwrap(), [0, 3, 5, 4]);
    for twice in [
        &["s.x", "s.x"][..],
        &["s.in", "s.in.y"],
        &["s", "s.l0"],
        &["s", "s.l1"],
        &["s", "s.l2"],
        &["s", "s.l3"],
        &["s", "s.l4"],
        &["s", "s.m"],
        &["s", "s"],
    ] {
        let told = ids(twice).unwrap_err().to_string();
        assert!(told.contains("asked for twice"), "{twice:?}: {told}");
    }
    for unknown in ["s.in.", ".s", "s.in.y.y", "S", "", "l0.item", "s.l0.item"] {
        let told = ids(&[unknown]).unwrap_err().to_string();
        assert!(told.contains("there is no column"), "{unknown}: {told}");
    }
    let many: Vec<_> = (0..60).map(|id| field(id, -1, "int8")).collect();
    let told = read(&many)
        .unwrap()
        .project(&["x"])
        .unwrap_err()
        .to_string();
    assert!(told.ends_with("`f49`, …"), "{told}");
}

fn list(declarations: &[(&str, &str)]) -> proto::Field {
    let mut list = field(0, -1, "fixed_size_list:fixed_size_list:int8:2:3");
    let declarations = declarations.iter();
    list.metadata = declarations
        .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
        .collect();
    list
}

#[test]
fn items_of_flattened_lists_are_what_the_metadata_declares() {
    let declared = list(&[
        ("own", "kept"),
        ("pilum:item:1:metadata:unit", "m"),
        ("pilum:item:2:name", "cell"),
        ("pilum:item:2:nullable", "false"),
    ]);
    let schema = read(std::slice::from_ref(&declared)).unwrap();
    let cell = Field::new("cell", DataType::Int8, false);
    let row = Field::new("item", DataType::FixedSizeList(Arc::new(cell), 2), true);
    let row = row.with_metadata([("unit".to_owned(), "m".to_owned())]);
    assert_eq!(
        schema.fields[0].data_type,
        DataType::FixedSizeList(Arc::new(row), 3)
    );
    let own = BTreeMap::from([("own".to_owned(), "kept".to_owned())]);
    assert_eq!(schema.fields[0].metadata, own);
    assert_eq!(schema.to_protos().unwrap()[0].metadata, declared.metadata);
    // Rows that another reader made of the table bring the keys along: their type counts.
    let mut arrow = schema.to_arrow().field(0).clone();
    let mut metadata = arrow.metadata().clone();
    metadata.insert("pilum:item:1:name".to_owned(), "stale".to_owned());
    arrow.set_metadata(metadata);
    let again = Schema::from_arrow(&arrow_schema::Schema::new(vec![arrow]), 0).unwrap();
    assert_eq!(again, schema);
}

#[test]
fn hostile_declarations_of_items_declare_nothing() {
    let plain = read(&[list(&[])]).unwrap();
    let hostile = list(&[
        ("pilum:item:", "x"),
        ("pilum:item:0:name", "x"),
        ("pilum:item:3:name", "x"),
        ("pilum:item:18446744073709551616:name", "x"),
        ("pilum:item:1:nullable", "true"),
        ("pilum:item:2:nullable", ""),
        ("pilum:item:-1:metadata:a", "x"),
    ]);
    assert_eq!(read(&[hostile]).unwrap(), plain);
    let mut number = list(&[("pilum:item:1:name", "x")]);
    number.logical_type = "int32".to_owned();
    let schema = read(std::slice::from_ref(&number)).unwrap();
    assert_eq!(schema.to_protos().unwrap()[0].metadata, number.metadata);
}

fn keys(pairs: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
        .collect()
}

/// A list of large lists of views, none of which is called "item".
fn declared_list() -> Field {
    let view = Field::new("x", DataType::Utf8View, false);
    let inner = Field::new("element", DataType::LargeList(Arc::new(view)), true);
    let inner = inner.with_metadata([("unit".to_owned(), "m".to_owned())]);
    Field::new("l", DataType::List(Arc::new(inner)), true)
}

#[test]
fn views_and_items_are_stored_as_version_one_knows_them() {
    let ordered = DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8View));
    let member = Field::new("y", DataType::BinaryView, true);
    let fields = vec![
        declared_list(),
        Field::new("o", ordered, true).with_dict_is_ordered(true),
        Field::new("s", DataType::Struct(vec![member].into()), true),
    ];
    let arrow = arrow_schema::Schema::new(fields);
    let schema = Schema::from_arrow(&arrow, 0).unwrap();
    assert!(!schema.is_beyond_v1());
    let protos = schema.to_protos().unwrap();
    let told: Vec<_> = protos
        .iter()
        .map(|it| (it.name.as_str(), it.logical_type.as_str(), it.nullable))
        .collect();
    assert_eq!(
        told,
        [
            ("l", "list", true),
            ("item", "large_list", true),
            ("item", "string", true),
            ("o", "dict:string:uint8:false", true),
            ("s", "struct", true),
            ("y", "binary", true),
        ]
    );
    let of_list = keys(&[
        ("pilum:item:1:name", "element"),
        ("pilum:item:1:metadata:unit", "m"),
        ("pilum:item:2:name", "x"),
        ("pilum:item:2:nullable", "false"),
        ("pilum:item:2:type", "string_view"),
    ]);
    assert_eq!(protos[0].metadata, of_list);
    assert!(protos[1].metadata.is_empty() && protos[2].metadata.is_empty());
    let of_dictionary = keys(&[("pilum:type", "dict:string_view:uint8:true")]);
    assert_eq!(protos[3].metadata, of_dictionary);
    assert!(protos[4].metadata.is_empty());
    assert_eq!(protos[5].metadata, keys(&[("pilum:type", "binary_view")]));
    let again = read(&protos).unwrap();
    assert_eq!(again, schema);
    assert_eq!(*again.to_arrow(), arrow);
    assert!(again.fields[1].dictionary_is_ordered);
}

#[test]
fn fields_of_earlier_releases_are_read_as_they_were() {
    let mut list = field(0, -1, "list");
    list.name = "l".to_owned();
    let mut item = field(1, 0, "fixed_size_list:int8:2");
    item.name = "element".to_owned();
    item.nullable = false;
    // A list that is an item declared its own items.
    item.metadata = keys(&[("pilum:item:1:name", "cell"), ("unit", "m")]);
    let mut ordered = field(3, -1, "dict:string:int8:true");
    ordered.name = "o".to_owned();
    let mut view = field(2, -1, "string_view");
    view.name = "v".to_owned();
    let schema = read(&[list, item, view, ordered]).unwrap();
    let cell = Field::new("cell", DataType::Int8, true);
    let item = Field::new("element", DataType::FixedSizeList(Arc::new(cell), 2), false);
    let item = item.with_metadata([("unit".to_owned(), "m".to_owned())]);
    assert_eq!(schema.fields[0].data_type, DataType::List(Arc::new(item)));
    assert_eq!(schema.fields[1].data_type, DataType::Utf8View);
    assert!(schema.fields[2].dictionary_is_ordered);
    // Written again they have the new form, and mean the same.
    let protos = schema.to_protos().unwrap();
    assert_eq!(
        (protos[1].name.as_str(), protos[1].nullable),
        ("item", true)
    );
    assert_eq!(protos[2].logical_type, "string");
    assert_eq!(protos[3].logical_type, "dict:string:int8:false");
    assert_eq!(read(&protos).unwrap(), schema);
}

#[test]
fn declared_types_that_do_not_fit_declare_nothing() {
    for (stored, declared) in [
        ("large_string", "string_view"),
        ("string", "binary_view"),
        ("string", "map"),
        ("string", "struct"),
        ("string", ""),
        ("string", "fixed_size_list:string_view:2"),
        ("dict:string:int8:false", "dict:string_view:int16:false"),
        ("dict:string:int8:false", "string_view"),
        ("dict:int8:int8:false", "dict:string_view:int8:true"),
        ("int32", "string_view"),
    ] {
        let plain = read(&[field(0, -1, stored)]).unwrap();
        let mut hostile = field(0, -1, stored);
        hostile.metadata = keys(&[("pilum:type", declared)]);
        assert_eq!(read(&[hostile]).unwrap(), plain, "{stored} {declared}");
    }
    let deep = "fixed_size_list:".repeat(100_000);
    let mut hostile = field(0, -1, "string");
    hostile.metadata = keys(&[("pilum:type", &deep)]);
    assert_eq!(
        read(&[hostile]).unwrap().fields[0].data_type,
        DataType::Utf8
    );
}
