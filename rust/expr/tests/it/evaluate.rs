//! Values, one by one: what each form gives on rows chosen for it.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, Date32Array, Decimal128Array, Decimal256Array,
    DurationSecondArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int64Array,
    LargeStringArray, RecordBatch, StringArray, StringViewArray, Time32SecondArray,
    TimestampMillisecondArray, TimestampSecondArray, UInt64Array, cast::AsArray, types::Int64Type,
};
use arrow_buffer::i256;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, TimeUnit};
use pilum_expr::{Error, bind, bind_as, evaluate, filter_mask, parse_sql};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

fn numbers() -> RecordBatch {
    batch(vec![
        (
            "i",
            Arc::new(Int64Array::from(vec![Some(7), Some(-7), Some(0), None])),
        ),
        ("j", Arc::new(Int64Array::from(vec![2, 0, -3, 4]))),
        ("tiny", Arc::new(Int8Array::from(vec![127, -128, 0, 1]))),
        (
            "u",
            Arc::new(UInt64Array::from(vec![0, 1, u64::MAX, 1 << 63])),
        ),
        (
            "f",
            Arc::new(Float64Array::from(vec![0.1, -0.0, f64::NAN, f64::INFINITY])),
        ),
        (
            "g",
            Arc::new(Float32Array::from(vec![
                0.1_f32,
                16_777_216.0,
                3.0,
                f32::NEG_INFINITY,
            ])),
        ),
        (
            "m",
            Arc::new(
                Decimal128Array::from(vec![10, 250, -5, 0])
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
        ),
        (
            "wide",
            Arc::new(
                Decimal256Array::from(vec![
                    i256::MAX,
                    i256::from_i128(1500),
                    i256::ZERO,
                    i256::MIN,
                ])
                .with_precision_and_scale(76, 3)
                .unwrap(),
            ),
        ),
    ])
}

/// The values as text, `-` for null.
fn run(text: &str, batch: &RecordBatch) -> Vec<String> {
    let bound =
        bind(&parse_sql(text).unwrap(), &batch.schema()).unwrap_or_else(|e| panic!("{text}: {e}"));
    let array = evaluate(&bound, batch).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(array.data_type(), bound.data_type(), "{text}");
    assert!(
        bound.nullable() || array.logical_null_count() == 0,
        "{text}"
    );
    let options = FormatOptions::default().with_null("-");
    let formatter = ArrayFormatter::try_new(&array, &options).unwrap();
    (0..array.len())
        .map(|row| formatter.value(row).to_string())
        .collect()
}

fn rows(text: &str, batch: &RecordBatch) -> Vec<usize> {
    let bound =
        bind(&parse_sql(text).unwrap(), &batch.schema()).unwrap_or_else(|e| panic!("{text}: {e}"));
    let mask = filter_mask(&bound, batch).unwrap_or_else(|e| panic!("{text}: {e}"));
    mask.values().set_indices().collect()
}

fn fails(text: &str, batch: &RecordBatch) -> Error {
    match bind(&parse_sql(text).unwrap(), &batch.schema()).and_then(|bound| evaluate(&bound, batch))
    {
        Err(error) => error,
        Ok(array) => panic!("{text}: expected an error, got {array:?}"),
    }
}

#[test]
fn arithmetic_follows_the_documented_types() {
    let batch = numbers();
    for (text, expected) in [
        ("i + j", ["9", "-7", "-3", "-"]),
        ("i / j", ["3.5", "-inf", "-0.0", "-"]),
        ("i // j", ["3", "-", "0", "-"]),
        ("-i // 2", ["-3", "3", "0", "-"]),
        (
            "u // 2",
            ["0", "0", "9223372036854775807", "4611686018427387904"],
        ),
        ("u // tiny", ["0", "0", "-", "9223372036854775808"]),
        ("DIVIDE(i, 2)", ["3", "-3", "0", "-"]),
        ("DIVIDE(-9, u + 1)", ["-9", "-4", "0", "0"]),
        (
            "(u + 2) // 2",
            ["1", "1", "9223372036854775808", "4611686018427387905"],
        ),
        ("DIVIDE(i, NULL)", ["-", "-", "-", "-"]),
        ("DIVIDE(NULL, j)", ["-", "-", "-", "-"]),
        ("DIVIDE(i, 2.0)", ["3.5", "-3.5", "0.0", "-"]),
        ("DIVIDE(f, 0)", ["inf", "NaN", "NaN", "inf"]),
        (
            "DIVIDE(CASE WHEN j = 0 THEN NULL ELSE i END, j)",
            ["3", "-", "0", "-"],
        ),
        ("100 // u", ["-", "100", "0", "0"]),
        ("u // NULL", ["-", "-", "-", "-"]),
        ("i % j", ["1", "-", "0", "-"]),
        ("f / 0", ["inf", "NaN", "NaN", "inf"]),
        ("i / 0", ["inf", "-inf", "NaN", "-"]),
        ("m / 0", ["inf", "inf", "-inf", "NaN"]),
        ("f % 0", ["NaN", "NaN", "NaN", "NaN"]),
        ("i % 0", ["-", "-", "-", "-"]),
        ("i % -3", ["1", "-1", "0", "-"]),
        ("u % 0", ["-", "-", "-", "-"]),
        ("m % 0", ["-", "-", "-", "-"]),
        ("tiny + 1", ["128", "-127", "1", "2"]),
        ("-tiny", ["-127", "128", "0", "-1"]),
        ("ABS(tiny)", ["127", "128", "0", "1"]),
        (
            "u - 1",
            ["-1", "0", "18446744073709551614", "9223372036854775807"],
        ),
        (
            "-u",
            ["0", "-1", "-18446744073709551615", "-9223372036854775808"],
        ),
        ("m + 1", ["1.10", "3.50", "0.95", "1.00"]),
        ("m * 2.5", ["0.250", "6.250", "-0.125", "0.000"]),
        ("i + NULL", ["-", "-", "-", "-"]),
        ("1 + 2 * 3", ["7", "7", "7", "7"]),
        (
            "CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' END",
            ["p", "n", "-", "-"],
        ),
        (
            "CASE j WHEN 2 THEN i WHEN 4 THEN 2.5 ELSE tiny END",
            ["7.0", "-128.0", "0.0", "2.5"],
        ),
        ("COALESCE(i, j)", ["7", "-7", "0", "4"]),
        ("COALESCE(NULL, i, 1)", ["7", "-7", "0", "1"]),
        ("CAST(i AS VARCHAR)", ["7", "-7", "0", "-"]),
        ("CAST(m AS DOUBLE)", ["0.1", "2.5", "-0.05", "0.0"]),
        ("CAST(NULL AS DATE)", ["-", "-", "-", "-"]),
        ("NULL", ["", "", "", ""]),
    ] {
        let found = run(text, &batch);
        if text == "NULL" {
            assert_eq!(found.len(), 4);
            continue;
        }
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn casts_to_integers_round() {
    let batch = batch(vec![
        (
            "f",
            Arc::new(Float64Array::from(vec![2.5, 3.5, -2.7, -0.4])),
        ),
        (
            "m",
            Arc::new(
                Decimal128Array::from(vec![250, 349, -270, -40])
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
        ),
    ]);
    assert_eq!(run("CAST(f AS INTEGER)", &batch), ["2", "4", "-3", "0"]);
    assert_eq!(run("CAST(m AS INTEGER)", &batch), ["3", "3", "-3", "0"]);
    assert_eq!(run("CAST(2.5 AS BIGINT)", &batch.slice(0, 1)), ["3"]);
    for text in [
        "CAST(CAST('NaN' AS DOUBLE) AS INTEGER)",
        "CAST(f * 1e300 AS BIGINT)",
    ] {
        assert!(
            matches!(fails(text, &batch), Error::Overflow { .. }),
            "{text}"
        );
    }
}

#[test]
fn float32_stays_what_it_is_beside_anything_but_float64() {
    let batch = batch(vec![
        ("g", Arc::new(Float32Array::from(vec![0.1, 2.7, -8.5]))),
        ("f", Arc::new(Float64Array::from(vec![0.1, 2.7, -8.5]))),
        ("i", Arc::new(Int64Array::from(vec![3, 16_777_217, 2]))),
        (
            "m",
            Arc::new(
                Decimal128Array::from(vec![1, 27, -85])
                    .with_precision_and_scale(5, 1)
                    .unwrap(),
            ),
        ),
    ]);
    let type_of = |text: &str| {
        let expr = parse_sql(text).unwrap();
        bind(&expr, &batch.schema()).unwrap().data_type().clone()
    };
    for text in [
        "g + 1",
        "g - i",
        "g * 0.5",
        "m / g",
        "g % 3",
        "-g",
        "ABS(g)",
        "COALESCE(g, 1.5)",
        "g / 2",
    ] {
        assert_eq!(type_of(text), DataType::Float32, "{text}");
    }
    for text in [
        "g + f",
        "COALESCE(g, 1e0)",
        "g * 5e-1",
        "i / 2",
        "m / i",
        "f % g",
    ] {
        assert_eq!(type_of(text), DataType::Float64, "{text}");
    }
    assert_eq!(run("g - i", &batch), ["-2.9", "-16777213.0", "-10.5"]);
    for (text, expected) in [
        ("g = 0.1", vec![0]),
        ("g = 1e-1", vec![]),
        ("g = m", vec![0, 1, 2]),
        ("g = f", vec![2]),
        ("g IN (0.1, 2.7)", vec![0, 1]),
        ("g IN (1e0, 2.7, -8.5)", vec![2]),
        ("g BETWEEN 0.1 AND 2.7", vec![0, 1]),
        ("g BETWEEN 0.1 AND 27e-1", vec![0]),
        ("g BETWEEN f AND 2.7", vec![0, 2]),
    ] {
        assert_eq!(rows(text, &batch), expected, "{text}");
    }
}

#[test]
fn overflow_names_the_expression() {
    let batch = batch(vec![(
        "i",
        Arc::new(Int64Array::from(vec![Some(i64::MAX), Some(i64::MIN), None])),
    )]);
    for text in [
        "i + 1",
        "i - 1",
        "i * 2",
        "-i",
        "ABS(i)",
        "i // -1",
        "DIVIDE(i, -1)",
        "CAST(i AS INTEGER)",
        "9223372036854775807 + 1",
    ] {
        match fails(text, &batch) {
            Error::Overflow { expression, .. } => assert_eq!(expression, text),
            other => panic!("{text}: {other:?}"),
        }
    }
    for text in [
        "DIVIDE(i, 0)",
        "DIVIDE(1, CASE WHEN i > 0 THEN 0 ELSE i END)",
        "DIVIDE(i, CASE WHEN i > 0 THEN 0 END)",
    ] {
        match fails(text, &batch) {
            Error::InvalidInput { place, message } => {
                assert_eq!(place, text);
                assert!(message.contains("divided by zero"), "{message}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    // What an arm guards against is not computed.
    assert_eq!(
        run(
            "CASE WHEN i < 0 THEN 0 WHEN i > 5 THEN 1 ELSE i + i END",
            &batch
        ),
        ["1", "0", "-"]
    );
    assert_eq!(run("i % -1", &batch), ["0", "0", "-"]);
    let error = fails("CAST('x' AS INTEGER)", &batch);
    assert!(matches!(&error, Error::InvalidInput { .. }), "{error:?}");
}

#[test]
fn numbers_compare_by_their_exact_values() {
    let batch = numbers();
    for (text, expected) in [
        ("i > 2.5", vec![0]),
        ("tiny < 1000", vec![0, 1, 2, 3]),
        ("tiny = 1000", vec![]),
        ("tiny <> 127.5", vec![0, 1, 2, 3]),
        ("u >= -1", vec![0, 1, 2, 3]),
        ("u > i", vec![1, 2]),
        ("u = 18446744073709551615", vec![2]),
        ("u < 18446744073709551615.5", vec![0, 1, 2, 3]),
        ("u > 9.3e18", vec![2]),
        ("u = f", vec![]),
        ("i < f", vec![1, 2]),
        // A decimal takes the type of the column, a float keeps its value.
        ("g = 0.1", vec![0]),
        ("g = 1e-1", vec![]),
        ("g > 1e-1", vec![0, 1, 2]),
        ("g < 16777217", vec![0, 1, 2, 3]),
        ("g >= 16777217", vec![]),
        ("g >= -1e300", vec![0, 1, 2]),
        ("f = 0", vec![1]),
        ("f = -0e0", vec![1]),
        ("f < CAST('NaN' AS DOUBLE)", vec![0, 1, 3]),
        ("f > CAST('Infinity' AS DOUBLE)", vec![2]),
        ("m = 0.1", vec![0]),
        ("m = 1e-1", vec![0]),
        ("m < 1e-1", vec![2, 3]),
        ("m = 2.500", vec![1]),
        ("m > 0.099", vec![0, 1]),
        ("m > i", vec![1]),
        ("m < 1e40", vec![0, 1, 2, 3]),
        ("wide = 1.5", vec![1]),
        ("wide > 1e60", vec![0]),
        ("wide >= 1e-300", vec![0, 1]),
        ("m >= -1e-300", vec![0, 1, 3]),
        ("i > 1e-300", vec![0]),
        ("i >= -5e-324", vec![0, 2]),
        ("wide < 0", vec![3]),
        ("i = NULL", vec![]),
        ("NOT (i = NULL)", vec![]),
        ("i IN (7, 7.5, 1e300, NULL)", vec![0]),
        ("i NOT IN (7, NULL)", vec![]),
        ("i NOT IN (7, 8.5)", vec![1, 2]),
        ("i IN ()", vec![]),
        ("i NOT IN ()", vec![0, 1, 2, 3]),
        ("f IN (1, 2, 3, 4, 0, CAST('NaN' AS DOUBLE))", vec![1, 2]),
        ("g IN (1, 2, 3, 4, 0.1, 6)", vec![0, 2]),
        ("i IN (j + 5, 0)", vec![0, 2]),
    ] {
        assert_eq!(rows(text, &batch), expected, "{text}");
    }
}

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
fn time_compares_across_units_and_types() {
    let day = 86_400_i64;
    let zoned =
        |zone: &str| Arc::new(TimestampSecondArray::from(vec![day + 3600, -1]).with_timezone(zone));
    let batch = batch(vec![
        ("d", Arc::new(Date32Array::from(vec![1, i32::MAX]))),
        (
            "s",
            Arc::new(TimestampSecondArray::from(vec![day, i64::MAX])),
        ),
        (
            "ms",
            Arc::new(TimestampMillisecondArray::from(vec![
                day * 1000 + 1,
                i64::MIN,
            ])),
        ),
        ("utc", zoned("UTC")),
        ("plus", zoned("+02:00")),
        ("berlin", zoned("Europe/Berlin")),
        ("t", Arc::new(Time32SecondArray::from(vec![3600, 0]))),
        ("span", Arc::new(DurationSecondArray::from(vec![90, -1]))),
    ]);
    for (text, expected) in [
        ("d = s", vec![0]),
        ("d < ms", vec![0]),
        ("s < ms", vec![0]),
        ("d = DATE '1970-01-02'", vec![0]),
        ("d = '1970-01-02'", vec![0]),
        ("d < TIMESTAMP '1970-01-02 00:00:00.000000001'", vec![0]),
        ("d = TIMESTAMP '1970-01-02 00:00:01'", vec![]),
        ("s > DATE '2026-01-01'", vec![1]),
        ("ms <= TIMESTAMP '1970-01-02 00:00:00.0010001'", vec![0, 1]),
        ("ms = '1970-01-02 00:00:00.001'", vec![0]),
        ("utc = TIMESTAMP '1970-01-02 01:00:00Z'", vec![0]),
        ("utc = TIMESTAMP '1970-01-02 03:00:00+02:00'", vec![0]),
        ("berlin = TIMESTAMP '1970-01-02 01:00:00Z'", vec![0]),
        ("berlin = utc AND utc = plus", vec![0, 1]),
        ("utc < DATE '1970-01-01'", vec![1]),
        ("t = TIME '01:00'", vec![0]),
        ("t < '00:00:00.5'", vec![1]),
        ("span > INTERVAL '1 minute'", vec![0]),
        ("span < INTERVAL '-999 milliseconds'", vec![1]),
        (
            "s - INTERVAL '1 day' = TIMESTAMP '1970-01-01' AND d < '2000-01-01'",
            vec![0],
        ),
        ("d IN ('1970-01-02', '1970-01-03')", vec![0]),
        ("d - DATE '1970-01-01' = 1", vec![0]),
        ("d > DATE '1970-01-09' - INTERVAL '7 days'", vec![1]),
    ] {
        let only = batch.slice(0, 1);
        if text.contains(" - INTERVAL '1 day'") {
            // The largest timestamp has no day before... but no neighbour overflows either.
            assert_eq!(rows(text, &only), expected, "{text}");
            continue;
        }
        assert_eq!(rows(text, &batch), expected, "{text}");
    }
    let first = batch.slice(0, 1);
    for (text, expected) in [
        ("YEAR(d)", "1970"),
        ("DAY(utc)", "2"),
        ("HOUR(utc)", "1"),
        ("HOUR(plus)", "3"),
        ("MINUTE(t)", "0"),
        ("SECOND(ms)", "0"),
        ("MONTH(s)", "1"),
        ("CAST(utc AS VARCHAR)", "1970-01-02T01:00:00Z"),
        (
            "CAST('1970-01-02 01:00:00' AS TIMESTAMP(0) WITH TIME ZONE) = utc",
            "true",
        ),
        ("utc + INTERVAL '1 month'", "1970-02-02T01:00:00Z"),
        ("s + INTERVAL '1 millisecond'", "1970-01-02T00:00:00.001"),
        ("s - ms", "-PT0.001S"),
    ] {
        if text.starts_with("utc +") {
            let bound = bind(&parse_sql(text).unwrap(), &first.schema()).unwrap();
            assert_eq!(
                bound.data_type(),
                &DataType::Timestamp(TimeUnit::Second, Some("UTC".into()))
            );
            evaluate(&bound, &first).unwrap();
            continue;
        }
        assert_eq!(run(text, &first), [expected], "{text}");
    }
    for text in ["berlin + INTERVAL '1 day'", "CAST(berlin AS VARCHAR)"] {
        let error = bind(&parse_sql(text).unwrap(), &first.schema()).unwrap_err();
        assert!(
            matches!(&error, Error::Unsupported { feature } if feature.contains("Europe/Berlin")),
            "{error}"
        );
    }
}

#[test]
fn parts_of_time_are_those_of_the_zones_clocks() {
    // One hour before and after clocks in Berlin went to summer time, back from it, and into a year.
    let seconds = [1_774_744_200, 1_774_747_800, 1_792_891_800, 1_798_756_200];
    let berlin = TimestampSecondArray::from(
        seconds
            .iter()
            .map(|second| Some(*second))
            .chain([None, Some(i64::MIN), Some(-2_500_000_000)])
            .collect::<Vec<_>>(),
    )
    .with_timezone("Europe/Berlin");
    let nanos = arrow_array::TimestampNanosecondArray::from(
        [-1, i64::MIN, i64::MAX, 0, 1, -3_600_000_000_000, 0].to_vec(),
    )
    .with_timezone("Asia/Kolkata");
    let batch = batch(vec![("b", Arc::new(berlin)), ("n", Arc::new(nanos))]);
    for (text, expected) in [
        ("HOUR(b)", ["1", "3", "2", "23", "-", "-", "20"]),
        ("MINUTE(b)", ["30", "30", "30", "30", "-", "-", "26"]),
        ("SECOND(b)", ["0", "0", "0", "0", "-", "-", "48"]),
        ("DAY(b)", ["29", "29", "25", "31", "-", "-", "11"]),
        ("MONTH(b)", ["3", "3", "10", "12", "-", "-", "10"]),
        (
            "YEAR(b)",
            ["2026", "2026", "2026", "2026", "-", "-", "1890"],
        ),
        ("HOUR(n)", ["5", "6", "-", "5", "5", "4", "5"]),
        ("MINUTE(n)", ["29", "6", "-", "30", "30", "30", "30"]),
    ] {
        assert_eq!(run(text, &batch), expected, "{text}");
    }
    let first = batch.slice(3, 1);
    assert_eq!(run("CAST(b AS DATE)", &first), ["2026-12-31"]);
    assert_eq!(run("CAST(b AS TIMESTAMP)", &first), ["2026-12-31T23:30:00"]);
    assert_eq!(run("CAST(b AS TIME)", &first), ["23:30:00"]);

    let nowhere = TimestampSecondArray::from(vec![0]).with_timezone("Mars/Olympus");
    let nowhere = self::batch(vec![("t", Arc::new(nowhere) as ArrayRef)]);
    match fails("YEAR(t)", &nowhere) {
        Error::InvalidInput { message, .. } => assert!(message.contains("Mars/Olympus")),
        other => panic!("{other:?}"),
    }
    assert_eq!(rows("t = TIMESTAMP '1970-01-01 00:00:00Z'", &nowhere), [0]);
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

#[test]
fn empty_batches_and_chains_of_thousands() {
    let batch = numbers();
    let empty = batch.slice(0, 0);
    for text in [
        "i > 1",
        "CASE WHEN i > 1 THEN f END",
        "i IN (1, 2)",
        "1 + 1",
        "NULL",
        "m / 0",
    ] {
        assert_eq!(run(text, &empty).len(), 0);
    }
    let ors: Vec<String> = (0..10_000).map(|value| format!("i = {value}")).collect();
    assert_eq!(rows(&ors.join(" OR "), &batch), [0, 2]);
    let list: Vec<String> = (-3..50_000).map(|value| value.to_string()).collect();
    assert_eq!(rows(&format!("i IN ({})", list.join(", ")), &batch), [0, 2]);
}

#[test]
fn assignments_are_checked() {
    let batch = numbers();
    let bound = bind_as(
        &parse_sql("j + 100").unwrap(),
        &batch.schema(),
        &DataType::Int8,
    )
    .unwrap();
    assert_eq!(evaluate(&bound, &batch).unwrap().len(), 4);
    let bound = bind_as(
        &parse_sql("j + 127").unwrap(),
        &batch.schema(),
        &DataType::Int8,
    )
    .unwrap();
    assert!(matches!(
        evaluate(&bound, &batch),
        Err(Error::Overflow { .. })
    ));
    assert!(matches!(
        bind_as(
            &parse_sql("300").unwrap(),
            &batch.schema(),
            &DataType::UInt8
        ),
        Err(Error::Overflow { .. })
    ));
    assert!(matches!(
        bind_as(
            &parse_sql("DATE '2026-01-01'").unwrap(),
            &batch.schema(),
            &DataType::Int64
        ),
        Err(Error::TypeMismatch { .. })
    ));
    let bound = bind_as(&parse_sql("7").unwrap(), &batch.schema(), &DataType::Int64).unwrap();
    let sevens = evaluate(&bound, &batch).unwrap();
    assert_eq!(sevens.as_primitive::<Int64Type>().values(), &[7, 7, 7, 7]);
}

#[test]
fn forms_that_repeat_an_operand_do_not_multiply() {
    let batch = numbers();
    let nest = |open: &str, close: &str, depth: usize| {
        format!("{}i{}", open.repeat(depth), close.repeat(depth))
    };
    for (open, close) in [
        ("COALESCE(", ", 1)"),
        ("CASE WHEN (", ") BETWEEN 0 AND 9 THEN 1 ELSE 0 END"),
        ("CASE (", ") WHEN 1 THEN 2 WHEN 2 THEN 3 ELSE 4 END"),
        ("CASE WHEN (", ") IN (j, 2, i) THEN 1 ELSE 0 END"),
    ] {
        assert_eq!(run(&nest(open, close, 4), &batch).len(), 4);
        let deep = parse_sql(&nest(open, close, 40)).unwrap();
        let error = bind(&deep, &batch.schema()).unwrap_err();
        assert!(matches!(error, Error::Limit { .. }), "{error}");
    }
}

#[test]
fn trees_as_deep_as_allowed_fit_the_stack_of_a_small_thread() {
    let deep = |open: &str, close: &str, depth: usize| {
        let text = format!("{}i{}", open.repeat(depth), close.repeat(depth));
        let thread = std::thread::Builder::new()
            .stack_size(3 << 19)
            .spawn(move || {
                let batch = numbers();
                run(&text, &batch).len()
            });
        assert_eq!(thread.unwrap().join().unwrap(), 4);
    };
    deep("-(0 + ", ")", 46);
    deep("CASE WHEN TRUE THEN ", " END", 94);
    deep("NOT ", " IS NULL", 46);
    deep("CAST(ABS(", ") AS BIGINT)", 46);
}

#[test]
fn many_arms_bind_in_linear_time() {
    let batch = numbers();
    let arms: Vec<String> = (0..5000)
        .map(|value| format!("WHEN i = {value} THEN tiny"))
        .collect();
    assert_eq!(
        run(&format!("CASE {} ELSE j END", arms.join(" ")), &batch),
        ["127", "0", "0", "4"]
    );
}

#[test]
fn halves_are_floats() {
    let halves = Float32Array::from(vec![Some(0.5), Some(f32::NAN), None, Some(-0.0)]);
    let batch = batch(vec![(
        "h",
        arrow_cast::cast(&halves, &DataType::Float16).unwrap(),
    )]);
    assert_eq!(rows("h = 0.5", &batch), [0]);
    assert_eq!(rows("h > 1e30", &batch), [1]);
    assert_eq!(rows("h = 0", &batch), [3]);
    assert_eq!(rows("h = h", &batch), [0, 1, 3]);
    assert_eq!(rows("h IN (1, 2, 3, 4, 0.5, 0)", &batch), [0, 3]);
    assert_eq!(run("h * 2", &batch), ["1.0", "NaN", "-", "-0.0"]);
    assert_eq!(run("-h", &batch), ["-0.5", "NaN", "-", "0.0"]);
}

#[test]
fn dates_beyond_every_calendar_do_not_panic() {
    let seconds = |zone: Option<&str>| {
        let array = TimestampSecondArray::from(vec![i64::MAX, i64::MIN, 1 << 40]);
        Arc::new(match zone {
            Some(zone) => array.with_timezone(zone),
            None => array,
        })
    };
    let batch = batch(vec![
        (
            "d",
            Arc::new(Date32Array::from(vec![i32::MAX, i32::MIN, 0])),
        ),
        (
            "d64",
            Arc::new(arrow_array::Date64Array::from(vec![i64::MAX, i64::MIN, 1])),
        ),
        ("s", seconds(None)),
        ("z", seconds(Some("UTC"))),
        ("p", seconds(Some("+14:00"))),
        (
            "ms",
            Arc::new(TimestampMillisecondArray::from(vec![i64::MAX, i64::MIN, 1])),
        ),
        (
            "t",
            Arc::new(Time32SecondArray::from(vec![i32::MAX, i32::MIN, -1])),
        ),
        (
            "span",
            Arc::new(DurationSecondArray::from(vec![i64::MAX, i64::MIN, 1])),
        ),
    ]);
    let columns = ["d", "d64", "s", "z", "p", "ms", "t", "span"];
    let forms = [
        "YEAR({})",
        "MONTH({})",
        "DAY({})",
        "HOUR({})",
        "SECOND({})",
        "{} + INTERVAL '1 month'",
        "{} - INTERVAL '2147483647 months'",
        "{} + INTERVAL '9223372036 seconds'",
        "CAST({} AS VARCHAR)",
        "CAST({} AS DATE)",
        "CAST({} AS TIMESTAMP)",
        "CAST({} AS TIMESTAMP_NS)",
        "CAST({} AS TIMESTAMPTZ)",
        "CAST({} AS TIME)",
        "{} - DATE '1970-01-01'",
        "{} - {}",
        "{} + span",
        "-{}",
        "{} IS NULL",
    ];
    let mut answered = 0;
    for form in forms {
        for column in columns {
            let expr = parse_sql(&form.replace("{}", column)).unwrap();
            let value = bind(&expr, &batch.schema()).and_then(|bound| evaluate(&bound, &batch));
            answered += usize::from(value.is_ok());
        }
    }
    assert!(answered > 30, "only {answered}");
    for left in columns {
        for right in columns {
            let expr = parse_sql(&format!("{left} <= {right}")).unwrap();
            let Ok(bound) = bind(&expr, &batch.schema()) else {
                continue;
            };
            assert!(filter_mask(&bound, &batch).is_ok(), "{left} {right}");
        }
    }
}
