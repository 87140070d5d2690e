//! Names and types: what fits, and what an error says when it does not.

use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use pilum_expr::{Error, bind, col, parse_sql};

fn schema() -> Schema {
    let inner = Fields::from(vec![
        Field::new("city", DataType::Utf8, false),
        Field::new("zip", DataType::Int32, true),
    ]);
    Schema::new(vec![
        Field::new("qty", DataType::Int32, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("address", DataType::Struct(inner), true),
        Field::new("dotted.name", DataType::Int64, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("raw", DataType::Binary, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("_rowid", DataType::UInt64, false),
        Field::new("items", DataType::new_list(DataType::Int32, true), true),
    ])
}

fn error(text: &str) -> Error {
    bind(&parse_sql(text).unwrap(), &schema()).unwrap_err()
}

#[test]
fn columns_are_found_by_path() {
    let expr =
        parse_sql("address.zip > 5 AND qty < 3 AND \"dotted.name\" = 1 OR _rowid = 7 AND qty = 1")
            .unwrap();
    let bound = bind(&expr, &schema()).unwrap();
    let names: Vec<String> = bound.columns().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["address.zip", "qty", "\"dotted.name\"", "_rowid"]);
    assert_eq!(bound.data_type(), &DataType::Boolean);
    // The builder's dots lead into structs, a field of a null struct is null.
    let city = bind(&col("address.city"), &schema()).unwrap();
    assert_eq!((city.data_type(), city.nullable()), (&DataType::Utf8, true));
    assert!(!bind(&col("qty"), &schema()).unwrap().nullable());
    assert!(bind(&col("dotted.name"), &schema()).is_ok());
}

#[test]
fn unknown_columns_come_with_near_names() {
    for (text, near) in [
        ("qyt > 1", vec!["qty"]),
        ("NAME = 'x'", vec!["name"]),
        ("address.zap = 1", vec!["address.zip"]),
        ("qty.x = 1", vec![]),
        ("something = 1", vec![]),
    ] {
        match error(text) {
            Error::UnknownColumn { similar, .. } => assert_eq!(similar, near, "{text}"),
            other => panic!("{text}: {other}"),
        }
    }
    assert_eq!(
        error("qyt > 1").to_string(),
        "unknown column qyt; did you mean qty?"
    );
}

#[test]
fn mismatches_name_both_types() {
    for (text, left, right) in [
        ("qty > 'x'", "int32", "string"),
        ("name = 3", "string", "int64"),
        ("name = qty", "string", "int32"),
        ("flag = 1", "bool", "int64"),
        ("raw = 'x'", "binary", "string"),
        ("at > 5", "timestamp[us]", "int64"),
        (
            "at = TIMESTAMP '2026-01-01 00:00:00Z'",
            "timestamp[us]",
            "timestamp[us, tz=UTC]",
        ),
        ("at = 'yesterday'", "timestamp[us]", "string"),
        ("qty AND flag", "int32", "bool"),
        ("qty + name", "int32", "string"),
        ("LENGTH(qty) = 1", "int32", "string"),
        ("YEAR(name) = 1", "string", "timestamp[us]"),
        ("qty LIKE 'x'", "int32", "string"),
        ("name LIKE 5", "int64", "string"),
        ("name LIKE qty", "int32", "string"),
        ("qty // 2.5 = 1", "int32", "decimal128(2, 1)"),
        ("DIVIDE(name, 2) = 1", "string", "int64"),
        ("qty IN (1, 'x')", "int32", "string"),
        ("COALESCE(qty, name) = 1", "int32", "string"),
        ("CAST(at AS BIGINT) = 1", "timestamp[us]", "int64"),
        ("-name = 1", "string", "int64"),
        ("items = 1", "list<item: int32>", "int64"),
    ] {
        match error(text) {
            Error::TypeMismatch {
                left: l,
                right: r,
                expression,
            } => {
                assert_eq!((l.as_str(), r.as_str()), (left, right), "{text}");
                assert!(text.contains(&expression), "{text}: {expression}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    assert!(matches!(error("items = items"), Error::Unsupported { .. }));
    assert!(matches!(
        error("name LIKE 'x!' ESCAPE '!'"),
        Error::InvalidInput { .. }
    ));
    assert!(bind(&parse_sql("items IS NULL").unwrap(), &schema()).is_ok());
}

#[test]
fn a_filter_is_a_condition() {
    let bound = bind(&col("qty"), &schema()).unwrap();
    let batch = arrow_array::RecordBatch::new_empty(schema().into());
    let error = pilum_expr::filter_mask(&bound, &batch).unwrap_err();
    assert!(matches!(error, Error::TypeMismatch { .. }), "{error}");
}
