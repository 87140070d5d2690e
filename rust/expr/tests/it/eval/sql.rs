//! Operators that people type, with the answers of DuckDB.

use arrow_array::BooleanArray;

use super::*;

#[test]
fn casts_that_fail_are_null() {
    let row = batch(vec![("one", Arc::new(Int64Array::from(vec![1])))]);
    for (text, expected) in [
        ("TRY_CAST('17' AS INTEGER)", "17"),
        ("TRY_CAST('x' AS INTEGER)", "-"),
        ("TRY_CAST(300 AS TINYINT)", "-"),
        ("TRY_CAST(2.5 AS TINYINT)", "3"),
        ("TRY_CAST('2026-02-30' AS DATE)", "-"),
    ] {
        assert_eq!(run(text, &row), [expected], "{text}");
    }
    let rows = batch(vec![(
        "s",
        Arc::new(StringArray::from(vec![Some("1"), Some("b"), None])),
    )]);
    assert_eq!(run("TRY_CAST(s AS BIGINT)", &rows), ["1", "-", "-"]);
    assert!(matches!(
        fails("TRY_CAST(one AS DATE)", &row),
        Error::TypeMismatch { .. }
    ));
}

#[test]
fn truth_and_distinctness_know_null() {
    let k: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]));
    let a: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, None]));
    let b: ArrayRef = Arc::new(Int64Array::from(vec![Some(2), Some(2), None]));
    let t = batch(vec![("k", k), ("a", a), ("b", b)]);
    for (text, expected) in [
        ("k IS TRUE", ["true", "false", "false"]),
        ("k IS NOT TRUE", ["false", "true", "true"]),
        ("k IS FALSE", ["false", "true", "false"]),
        ("k IS NOT FALSE", ["true", "false", "true"]),
        ("(a < b) IS TRUE", ["true", "false", "false"]),
        ("(a < b) IS NOT FALSE", ["true", "true", "true"]),
        ("a IS DISTINCT FROM b", ["true", "true", "false"]),
        ("a IS NOT DISTINCT FROM b", ["false", "false", "true"]),
        ("a IS NOT DISTINCT FROM NULL", ["false", "true", "true"]),
        ("a IS NOT DISTINCT FROM 1", ["true", "false", "false"]),
    ] {
        assert_eq!(run(text, &t), expected, "{text}");
        let tree = parse_sql(text).unwrap();
        assert_eq!(parse_sql(&tree.to_string()).unwrap(), tree, "{tree}");
    }
}
