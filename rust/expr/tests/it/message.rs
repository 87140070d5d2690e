//! Expressions as bytes: lists of values, versions, and damaged messages.

use std::{path::Path, sync::Arc};

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    LargeBinaryArray, RecordBatch, StringArray, TimestampMicrosecondArray, UInt64Array,
};
use pilum_expr::{Error, Expr, Scalar, Values, bind, col, evaluate, filter_mask, lit, parse_sql};
use pilum_testing::{Random, Target, damage_message, fuzz};

fn lists() -> Vec<ArrayRef> {
    let decimals = Decimal128Array::from(vec![Some(150), None, Some(-1)]);
    vec![
        Arc::new(Int32Array::from(vec![Some(1), None, Some(-3)])),
        Arc::new(UInt64Array::from(vec![u64::MAX, 0])),
        Arc::new(Float64Array::from(vec![0.5, f64::NAN, -0.0])),
        Arc::new(StringArray::from(vec![
            Some("a"),
            Some(""),
            None,
            Some("ä"),
        ])),
        Arc::new(LargeBinaryArray::from(vec![Some(&b"\0\xff"[..]), None])),
        Arc::new(BooleanArray::from(vec![Some(true), None])),
        Arc::new(Date32Array::from(vec![0, -1])),
        Arc::new(TimestampMicrosecondArray::from(vec![1, 2])),
        Arc::new(TimestampMicrosecondArray::from(vec![Some(1), None]).with_timezone("UTC")),
        Arc::new(decimals.with_precision_and_scale(10, 2).unwrap()),
    ]
}

#[test]
fn lists_of_every_type_survive_the_message() {
    for array in lists() {
        let values = Values::new(&[Arc::clone(&array), array]).unwrap();
        let expr = col("a").is_among(values).not();
        let again = Expr::from_message(&expr.to_message().unwrap()).unwrap();
        assert_eq!(again.to_string(), expr.to_string());
        assert!(parse_sql(&expr.to_string()).is_ok(), "{expr}");
    }
    let inner = col("a").is_among(Values::new(&lists()[..1]).unwrap());
    let nested = inner.is_among(Values::new(&lists()[5..6]).unwrap());
    let again = Expr::from_message(&nested.to_message().unwrap()).unwrap();
    assert_eq!(again, nested, "the lists keep their order");
    let written = [0.1, 2.0, 1e300].map(|v| Scalar::written(v).unwrap_or(Scalar::Float(v)));
    let values = Values::of_literals(&written).unwrap();
    let expr = col("a").is_among(values);
    assert_eq!(expr.to_string(), "a IN (0.1, 2.0, 1e300)");
    assert_eq!(
        Expr::from_message(&expr.to_message().unwrap()).unwrap(),
        expr
    );
}

#[test]
fn a_list_finds_what_its_literals_find() {
    let numbers: Vec<Scalar> = [0_i64, 3, 7, 200, -5].map(Scalar::from).to_vec();
    let floats: Vec<Scalar> = [0.5, 3.0, f64::NAN].map(Scalar::from).to_vec();
    let written: Vec<Scalar> = [0.1, 3.0]
        .iter()
        .filter_map(|v| Scalar::written(*v))
        .collect();
    let texts: Vec<Scalar> = ["a", "b"].map(Scalar::from).to_vec();
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "i",
            Arc::new(Int32Array::from(vec![Some(3), Some(4), None, Some(200)])),
        ),
        (
            "tiny",
            Arc::new(arrow_array::Int8Array::from(vec![3, -5, 100, 0])),
        ),
        ("u", Arc::new(UInt64Array::from(vec![3, 7, u64::MAX, 1]))),
        (
            "f",
            Arc::new(Float64Array::from(vec![0.1, 3.0, f64::NAN, 0.5])),
        ),
        (
            "g",
            Arc::new(arrow_array::Float32Array::from(vec![
                0.1,
                3.0,
                f32::NAN,
                0.5,
            ])),
        ),
        (
            "s",
            Arc::new(StringArray::from(vec![
                Some("a"),
                None,
                Some("c"),
                Some("b"),
            ])),
        ),
        (
            "v",
            Arc::new(arrow_array::StringViewArray::from(vec!["a", "x", "b", ""])),
        ),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap();
    for (name, literals) in [
        ("i", &numbers),
        ("tiny", &numbers),
        ("u", &numbers),
        ("f", &numbers),
        ("f", &floats),
        ("g", &floats),
        ("f", &written),
        ("g", &written),
        ("i", &written),
        ("s", &texts),
        ("v", &texts),
    ] {
        for with_null in [false, true] {
            let mut literals = literals.clone();
            if with_null {
                literals.push(Scalar::Null);
            }
            let values = if literals == floats {
                Values::new(&[Arc::new(Float64Array::from(vec![0.5, 3.0, f64::NAN]))]).unwrap()
            } else {
                match Values::of_literals(&literals) {
                    Some(values) => values,
                    None => continue, // exact floats come as arrays alone
                }
            };
            let many = col(name).is_among(values);
            let few = col(name).is_in(literals.into_iter().map(lit).collect());
            let answer =
                |expr: &Expr| evaluate(&bind(expr, &batch.schema()).unwrap(), &batch).unwrap();
            assert_eq!(&answer(&many), &answer(&few), "{many}");
        }
    }
}

#[test]
fn a_million_values_are_bound_and_sent_as_an_array() {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1_000_000).map(|i| i * 2)));
    let expr = col("i").is_among(Values::new(&[values]).unwrap());
    let message = expr.to_message().unwrap();
    assert!(message.len() < 9 << 20, "{}", message.len());
    let again = Expr::from_message(&message).unwrap();
    let i: ArrayRef = Arc::new(Int64Array::from(vec![4, 5, 1_999_998, 2_000_000]));
    let batch = RecordBatch::try_from_iter([("i", i)]).unwrap();
    let mask = filter_mask(&bind(&again, &batch.schema()).unwrap(), &batch).unwrap();
    assert_eq!(mask.values().set_indices().collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn another_version_is_refused_by_name() {
    let mut message = col("a").to_message().unwrap();
    assert_eq!(message[..2], [8, 1], "the version comes first");
    message[1] = 2;
    let error = Expr::from_message(&message).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("version 2"), "{error}");
    assert!(Expr::from_message(&[]).is_err());
}

#[test]
fn a_tree_that_is_too_deep_is_refused() {
    // Nested once more than a tree may be: 96 levels.
    let deep = (0..200).fold(col("a"), |inner, _| inner.is_null());
    assert!(matches!(deep.to_message(), Err(Error::Limit { .. })));
    let most = (0..95).fold(col("a"), |inner, _| inner.is_null());
    assert_eq!(
        Expr::from_message(&most.to_message().unwrap()).unwrap(),
        most
    );
}

fn inputs() -> Vec<Vec<u8>> {
    let texts = [
        "a > 3 AND (b LIKE 'x%' ESCAPE '!' OR NOT c IN (1, 2.5, NULL))",
        "CASE WHEN a THEN l[1] ELSE ROUND(m, 2) END BETWEEN -1e3 AND COALESCE(x.y, 2)",
        "TRY_CAST(s || 'a' AS DECIMAL(12, 2)) = DATE '2020-01-01' + INTERVAL '2 days'",
        "t >= TIMESTAMP '2020-01-01 00:00:00Z' AND b = X'00ff' AND c = TIME '01:00:00'",
    ];
    let mut inputs: Vec<Vec<u8>> = texts
        .iter()
        .map(|text| parse_sql(text).unwrap().to_message().unwrap())
        .collect();
    for array in lists() {
        let values = Values::new(&[array]).unwrap();
        inputs.push(col("a").is_among(values).to_message().unwrap());
    }
    inputs
}

/// Damaged messages are refused, or are some other expression; nothing panics.
#[test]
fn fuzz_expression_messages() {
    let decode = |message: &[u8], _: &mut Random| {
        let Ok(expr) = Expr::from_message(message) else {
            return false;
        };
        let text = expr.to_string();
        if let Ok(again) = expr.to_message() {
            assert_eq!(Expr::from_message(&again).unwrap().to_string(), text);
        }
        let _ = bind(&expr, &crate::rows::schema());
        true
    };
    let target = Target {
        name: "expression",
        corpus: inputs(),
        damage: &|message, random| *message = damage_message(message, random),
        mend: &|_| {},
        decode: &decode,
    };
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    fuzz(&target, &kept, 4_000);
}
