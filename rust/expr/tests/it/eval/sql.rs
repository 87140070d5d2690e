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

fn words() -> RecordBatch {
    let s: ArrayRef = Arc::new(StringArray::from(vec![Some(" añb "), Some("xyx"), None]));
    let p: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), Some("x"), Some("")]));
    batch(vec![("s", s), ("p", p)])
}

#[test]
fn text_is_joined_cut_and_searched() {
    for (text, expected) in [
        ("s || p", [" añb b", "xyxx", "-"]),
        ("CONCAT(s, '-', p)", [" añb -b", "xyx-x", "-"]),
        ("SUBSTRING(s, 2, 2)", ["añ", "yx", "-"]),
        ("SUBSTR(s, -2)", ["b ", "yx", "-"]),
        ("SUBSTRING(s FROM 0 FOR 3)", [" a", "xy", "-"]),
        ("SUBSTRING(s, 3, -2)", [" a", "xy", "-"]),
        ("TRIM(s)", ["añb", "xyx", "-"]),
        ("TRIM(BOTH 'x' FROM s)", [" añb ", "y", "-"]),
        ("TRIM(LEADING FROM s)", ["añb ", "xyx", "-"]),
        ("LTRIM(s, ' a')", ["ñb ", "xyx", "-"]),
        ("RTRIM(s, 'x')", [" añb ", "xy", "-"]),
        ("REPLACE(s, 'x', 'zz')", [" añb ", "zzyzz", "-"]),
        ("REPLACE(s, '', 'zz')", [" añb ", "xyx", "-"]),
        ("POSITION(p IN s)", ["4", "1", "-"]),
        ("STRPOS(s, 'q')", ["0", "0", "-"]),
        ("REGEXP_MATCHES(s, 'ñ|y')", ["true", "true", "-"]),
        ("s SIMILAR TO '[xy]*'", ["false", "true", "-"]),
        ("s NOT SIMILAR TO 'x|y'", ["true", "true", "-"]),
    ] {
        assert_eq!(run(text, &words()), expected, "{text}");
        let tree = parse_sql(text).unwrap();
        assert_eq!(parse_sql(&tree.to_string()).unwrap(), tree, "{tree}");
    }
}

#[test]
fn patterns_are_limited() {
    for pattern in ["(", "(?:a{1000}){1000}", "a)|(b", r"(a)\1"] {
        let text = format!("REGEXP_MATCHES(s, '{pattern}')");
        let error = fails(&text, &words()).to_string();
        assert!(error.contains("regular expression"), "{error}");
    }
    // A broken literal is refused although no row needs it.
    let error = fails("s SIMILAR TO '['", &words().slice(0, 0)).to_string();
    assert!(error.contains("regular expression"), "{error}");
    // This pattern takes exponential time in engines that go back.
    let many = batch(vec![(
        "s",
        Arc::new(StringArray::from(vec!["a".repeat(100_000)])),
    )]);
    assert_eq!(run("REGEXP_MATCHES(s, '^(a+)+$b')", &many), ["false"]);
}

#[test]
fn results_beyond_the_offsets_of_strings_are_refused() {
    let long = batch(vec![(
        "s",
        Arc::new(StringArray::from(vec!["a".repeat(1 << 20)])),
    )]);
    // 2^20 times 2^20 bytes are counted before they are written.
    let error = fails("REPLACE(s, 'a', s)", &long);
    assert!(matches!(error, Error::Limit { .. }), "{error}");
    assert!(error.to_string().contains("REPLACE(s, 'a', s)"), "{error}");
}

#[test]
fn numbers_are_rounded_and_classified() {
    let f: ArrayRef = Arc::new(Float64Array::from(vec![2.5, -2.5, f64::NAN, f64::INFINITY]));
    let m: ArrayRef = Arc::new(
        Decimal128Array::from(vec![Some(255), Some(-255), Some(9_999), None])
            .with_precision_and_scale(4, 2)
            .unwrap(),
    );
    let i: ArrayRef = Arc::new(Int64Array::from(vec![15, -15, i64::MAX, 4]));
    let t = batch(vec![("f", f), ("m", m), ("i", i)]);
    for (text, expected) in [
        ("ROUND(f)", ["3.0", "-3.0", "NaN", "inf"]),
        ("FLOOR(f)", ["2.0", "-3.0", "NaN", "inf"]),
        ("CEIL(f)", ["3.0", "-2.0", "NaN", "inf"]),
        ("TRUNC(f)", ["2.0", "-2.0", "NaN", "inf"]),
        ("ROUND(m, 1)", ["2.6", "-2.6", "100.0", "-"]),
        ("ROUND(m)", ["3", "-3", "100", "-"]),
        ("TRUNC(m, 1)", ["2.5", "-2.5", "99.9", "-"]),
        ("FLOOR(m)", ["2", "-3", "99", "-"]),
        ("ROUND(m, -1)", ["0", "0", "100", "-"]),
        ("ISNAN(f)", ["false", "false", "true", "false"]),
        ("ISFINITE(f)", ["true", "true", "false", "false"]),
        ("ISINF(f)", ["false", "false", "false", "true"]),
    ] {
        assert_eq!(run(text, &t), expected, "{text}");
    }
    let small = t.slice(0, 2);
    assert_eq!(run("ROUND(i, -1)", &small), ["20", "-20"]);
    assert!(matches!(
        fails("ROUND(i, -1)", &t),
        Error::Overflow { .. } | Error::InvalidInput { .. }
    ));
}

#[test]
fn times_are_cut_and_taken_apart() {
    let ts: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![
        Some(1_609_632_000_123),
        Some(-1),
        None,
    ]));
    let t = batch(vec![("ts", ts)]);
    for (text, expected) in [
        (
            "DATE_TRUNC('week', ts)",
            ["2020-12-28T00:00:00", "1969-12-29T00:00:00", "-"],
        ),
        (
            "DATE_TRUNC('minute', ts)",
            ["2021-01-03T00:00:00", "1969-12-31T23:59:00", "-"],
        ),
        (
            "DATE_TRUNC('quarter', CAST(ts AS DATE))",
            ["2021-01-01T00:00:00", "1969-10-01T00:00:00", "-"],
        ),
        ("EXTRACT(week FROM ts)", ["53", "1", "-"]),
        ("DATE_PART('dow', ts)", ["0", "3", "-"]),
        ("DATE_PART('isodow', ts)", ["7", "3", "-"]),
        ("DATE_PART('doy', ts)", ["3", "365", "-"]),
        ("DATE_PART('millisecond', ts)", ["123", "59999", "-"]),
        ("DATE_PART('epoch', ts)", ["1609632000.123", "-0.001", "-"]),
        ("EXTRACT(YEAR FROM ts)", ["2021", "1969", "-"]),
    ] {
        assert_eq!(run(text, &t), expected, "{text}");
    }
    // The clocks of a fixed offset.
    let ts = TimestampSecondArray::from(vec![0]).with_timezone("+05:30");
    let t = batch(vec![("ts", Arc::new(ts))]);
    assert_eq!(run("DATE_PART('hour', ts)", &t), ["5"]);
    assert_eq!(run("HOUR(ts)", &t), ["5"]);
    assert_eq!(
        run("DATE_PART('epoch', DATE_TRUNC('day', ts))", &t),
        ["-19800.0"]
    );
}

#[test]
fn items_members_and_keys() {
    use arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder, StringBuilder};
    let mut l = ListBuilder::new(Int64Builder::new());
    l.append_value([Some(1), Some(2), None]);
    l.append_value([Some(3)]);
    l.append_null();
    let mut m = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    m.keys().append_value("k");
    m.values().append_value(7);
    m.append(true).unwrap();
    m.append(true).unwrap();
    m.append(false).unwrap();
    let v: ArrayRef = Arc::new(Int64Array::from(vec![2, 3, 1]));
    let t = batch(vec![
        ("l", Arc::new(l.finish())),
        ("m", Arc::new(m.finish())),
        ("v", v),
    ]);
    for (text, expected) in [
        ("l[1]", ["1", "3", "-"]),
        ("l[v]", ["2", "-", "-"]),
        ("l[0]", ["-", "-", "-"]),
        ("l[-1]", ["-", "3", "-"]),
        ("ITEM(l, 0)", ["1", "3", "-"]),
        ("ITEM(l, -1)", ["-", "3", "-"]),
        ("LEN(l)", ["3", "1", "-"]),
        ("LIST_CONTAINS(l, 2)", ["true", "false", "-"]),
        ("LIST_CONTAINS(l, v)", ["true", "true", "-"]),
        ("LIST_CONTAINS(l, 2.5)", ["false", "false", "-"]),
        ("m['k']", ["7", "-", "-"]),
        ("m['q']", ["-", "-", "-"]),
    ] {
        assert_eq!(run(text, &t), expected, "{text}");
    }
}
