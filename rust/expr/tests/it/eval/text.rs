//! Text, bytes and patterns.

use super::*;

#[test]
fn strings_of_every_layout() {
    let plain = vec![Some("abc"), Some("a%c"), Some("äBC"), None];
    let long: ArrayRef = Arc::new(LargeStringArray::from(plain.clone()));
    let view: ArrayRef = Arc::new(StringViewArray::from(plain.clone()));
    let dictionary = arrow_cast::cast(
        &StringArray::from(plain.clone()),
        &DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8)),
    )
    .unwrap();
    let batch = batch(vec![
        ("s", Arc::new(StringArray::from(plain))),
        ("long", long),
        ("view", view),
        ("dict", dictionary),
    ]);
    for column in ["s", "long", "view", "dict"] {
        for (condition, expected) in [
            ("= 'abc'", vec![0]),
            ("> 'abc'", vec![2]),
            ("LIKE 'a%'", vec![0, 1]),
            ("LIKE '%c'", vec![0, 1]),
            ("LIKE '%b%'", vec![0]),
            ("LIKE 'a!%c' ESCAPE '!'", vec![1]),
            ("LIKE 'a\\%c'", vec![]),
            ("LIKE '___'", vec![0, 1, 2]),
            ("LIKE '_%b_'", vec![0]),
            ("ILIKE '%BC'", vec![0, 2]),
            ("ILIKE 'Äbc'", vec![2]),
            ("NOT LIKE 'a%'", vec![2]),
            ("IN ('abc', 'x', 'y', 'z', 'äBC')", vec![0, 2]),
            ("IS NULL", vec![3]),
            ("BETWEEN 'a' AND 'abc'", vec![0, 1]),
        ] {
            assert_eq!(
                rows(&format!("{column} {condition}"), &batch),
                expected,
                "{column} {condition}"
            );
        }
        for other in ["s", "long", "view", "dict"] {
            assert_eq!(rows(&format!("{column} = {other}"), &batch), [0, 1, 2]);
            assert_eq!(
                rows(&format!("STARTS_WITH({column}, {other})"), &batch),
                [0, 1, 2]
            );
        }
        assert_eq!(
            run(&format!("LENGTH({column})"), &batch),
            ["3", "3", "3", "-"]
        );
        assert_eq!(
            run(&format!("UPPER({column})"), &batch),
            ["ABC", "A%C", "ÄBC", "-"]
        );
        assert_eq!(
            run(&format!("LOWER({column})"), &batch),
            ["abc", "a%c", "äbc", "-"]
        );
        assert_eq!(rows(&format!("ENDS_WITH({column}, 'BC')"), &batch), [2]);
        assert_eq!(rows(&format!("CONTAINS({column}, '%')"), &batch), [1]);
    }
    // A column on its own keeps its layout.
    let bound = bind(&pilum_expr::col("dict"), &batch.schema()).unwrap();
    assert_eq!(bound.data_type(), batch.column(3).data_type());
}

#[test]
fn bytes_compare_as_bytes() {
    let fixed = FixedSizeBinaryArray::try_from_iter([[0_u8, 1], [255, 0]].into_iter()).unwrap();
    let batch = batch(vec![
        (
            "b",
            Arc::new(BinaryArray::from_vec(vec![b"\x00\x01", b"\xff"])),
        ),
        ("x", Arc::new(fixed)),
    ]);
    assert_eq!(rows("b = X'0001'", &batch), [0]);
    assert_eq!(rows("b > X'0001'", &batch), [1]);
    assert_eq!(rows("x = X'0001'", &batch), [0]);
    assert_eq!(rows("x >= X'00'", &batch), [0, 1]);
    assert_eq!(rows("x IN (X'ff00', X'0001', X'00')", &batch), [0, 1]);
    assert_eq!(rows("x = b", &batch), [0]);
    assert_eq!(run("LENGTH(b)", &batch), ["2", "1"]);
}

#[test]
fn patterns_may_differ_from_row_to_row() {
    let text = ["abc", "a%c", "a_c", "ABC", "a\\c", ""];
    let pattern = ["a_c", "a!%c", "a!_c", "%b%", "a\\c", ""];
    let batch = batch(vec![
        ("s", Arc::new(StringArray::from(text.to_vec()))),
        ("p", Arc::new(LargeStringArray::from(pattern.to_vec()))),
        (
            "v",
            Arc::new(StringViewArray::from(vec![
                Some("a%"),
                None,
                Some("%_"),
                Some(""),
                Some("_\\_"),
                Some("%"),
            ])),
        ),
    ]);
    assert_eq!(rows("s LIKE p", &batch), [0, 4, 5]);
    assert_eq!(rows("s LIKE p ESCAPE '!'", &batch), [0, 1, 2, 4, 5]);
    assert_eq!(rows("s ILIKE p ESCAPE '!'", &batch), [0, 1, 2, 3, 4, 5]);
    assert_eq!(rows("s NOT LIKE v", &batch), [3]);
    assert_eq!(rows("s LIKE LOWER(p)", &batch), [0, 4, 5]);
    assert_eq!(rows("'abc' LIKE v", &batch), [0, 2, 5]);
    assert_eq!(rows("s LIKE CASE WHEN s = '' THEN v END", &batch), [5]);
    match fails("s LIKE p ESCAPE 'c'", &batch) {
        Error::InvalidInput { place, message } => {
            assert_eq!(place, "s LIKE p ESCAPE 'c'");
            assert!(message.contains("double it"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}
