//! Numbers: types of results, casts, overflow, comparison.

use super::*;

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
fn nan_has_no_place_in_comparisons_of_the_standard() {
    let values = [
        None,
        Some(f64::NAN),
        Some(f64::NEG_INFINITY),
        Some(-0.0),
        Some(0.0),
        Some(1.5),
        Some(f64::INFINITY),
    ];
    let pairs: Vec<_> = values
        .into_iter()
        .flat_map(|x| values.map(|y| (x, y)))
        .collect();
    let left = Float64Array::from_iter(pairs.iter().map(|pair| pair.0));
    let right = Float64Array::from_iter(pairs.iter().map(|pair| pair.1));
    let single = arrow_cast::cast(&right, &DataType::Float32).unwrap();
    let batch = batch(vec![
        ("x", Arc::new(left) as ArrayRef),
        ("y", Arc::new(right)),
        ("s", single),
    ]);
    type Holds = fn(f64, f64) -> bool;
    let operators: [(&str, Holds); 6] = [
        ("=", |x, y| x == y),
        ("<>", |x, y| x != y),
        ("<", |x, y| x < y),
        ("<=", |x, y| x <= y),
        (">", |x, y| x > y),
        (">=", |x, y| x >= y),
    ];
    let literal = |value: Option<f64>| value.map_or("NULL".to_owned(), |it| lit(it).to_string());
    for (operator, holds) in operators {
        let told = |x: Option<f64>, y: Option<f64>| match (x, y) {
            (Some(x), Some(y)) => holds(x, y).to_string(),
            _ => "-".to_owned(),
        };
        let expected: Vec<_> = pairs.iter().map(|&(x, y)| told(x, y)).collect();
        for other in ["y", "s"] {
            let text = format!("IEEE(x {operator} {other})");
            assert_eq!(run(&text, &batch), expected, "{text}");
        }
        for value in values {
            let text = format!("IEEE(x {operator} {})", literal(value));
            let expected: Vec<_> = pairs.iter().map(|pair| told(pair.0, value)).collect();
            assert_eq!(run(&text, &batch), expected, "{text}");
            let text = format!("IEEE({} {operator} x)", literal(value));
            let expected: Vec<_> = pairs.iter().map(|pair| told(value, pair.0)).collect();
            assert_eq!(run(&text, &batch), expected, "{text}");
        }
    }
    let refused = |text: &str| bind(&parse_sql(text).unwrap(), &batch.schema()).unwrap_err();
    assert!(
        refused("IEEE(x)")
            .to_string()
            .contains("it takes a comparison")
    );
    let mismatch = refused("IEEE('a' = CAST('NaN' AS DOUBLE))");
    assert!(matches!(mismatch, Error::TypeMismatch { .. }), "{mismatch}");
}
