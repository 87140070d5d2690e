//! Statistics never change an answer.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray,
    cast::AsArray,
    types::{Float32Type, Float64Type},
};
use arrow_schema::{DataType, Field, Schema};
use pilum_expr::{ColumnPath, ColumnStatistics, Truth, bind, filter_mask, parse_sql, prune};
use proptest::prelude::*;

use crate::rows::{batch, condition, row, schema};

#[derive(Debug, Clone)]
struct Bounds {
    min: Option<ArrayRef>,
    max: Option<ArrayRef>,
    nulls: Option<u64>,
    nan: bool,
}

#[derive(Debug, Default)]
struct Statistics {
    rows: u64,
    columns: HashMap<String, Bounds>,
}

impl ColumnStatistics for Statistics {
    fn row_count(&self) -> u64 {
        self.rows
    }
    fn min(&self, column: &ColumnPath) -> Option<ArrayRef> {
        self.columns.get(&column.dotted())?.min.clone()
    }
    fn max(&self, column: &ColumnPath) -> Option<ArrayRef> {
        self.columns.get(&column.dotted())?.max.clone()
    }
    fn null_count(&self, column: &ColumnPath) -> Option<u64> {
        self.columns.get(&column.dotted())?.nulls
    }
    fn nan_possible(&self, column: &ColumnPath) -> bool {
        self.columns
            .get(&column.dotted())
            .is_none_or(|bounds| bounds.nan)
    }
}

/// Bounds of one column, by sorting what is neither null nor NaN.
fn bounds_of(batch: &RecordBatch, name: &str) -> Bounds {
    let bound = bind(&pilum_expr::col(name), &schema()).unwrap();
    let mut array = pilum_expr::evaluate(&bound, batch).unwrap();
    if let DataType::Dictionary(_, values) = array.data_type().clone() {
        array = arrow_cast::cast(&array, &values).unwrap();
    }
    let nan: Vec<bool> = match array.data_type() {
        DataType::Float64 => array
            .as_primitive::<Float64Type>()
            .values()
            .iter()
            .map(|v| v.is_nan())
            .collect(),
        DataType::Float32 => array
            .as_primitive::<Float32Type>()
            .values()
            .iter()
            .map(|v| v.is_nan())
            .collect(),
        _ => vec![false; array.len()],
    };
    let kept = (0..array.len())
        .map(|i| !array.is_null(i) && !nan[i])
        .collect::<Vec<_>>();
    let has_nan = (0..array.len()).any(|i| !array.is_null(i) && nan[i]);
    let nulls = array.null_count() as u64;
    let values = arrow_select::filter::filter(&array, &kept.into()).unwrap();
    let values = arrow_ord::sort::sort(&values, None).unwrap();
    let at = |position: usize| (!values.is_empty()).then(|| values.slice(position, 1));
    Bounds {
        min: at(0),
        max: at(values.len().saturating_sub(1)),
        nulls: Some(nulls),
        nan: has_nan,
    }
}

const COLUMNS: [&str; 11] = ["a", "b", "u", "f", "g", "m", "x.y", "s", "d", "day", "ts"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn dropped_rows_never_match_and_kept_rows_always_do(
        // Few and alike, so that statistics decide something.
        rows in prop::collection::vec(row(), 0..4),
        condition in condition(),
        missing in prop::collection::vec((prop::bool::weighted(0.1), prop::bool::weighted(0.1), prop::bool::weighted(0.1), any::<bool>()), 12),
    ) {
        let batch = batch(&rows);
        let mut statistics = Statistics { rows: rows.len() as u64, ..Statistics::default() };
        for (name, (no_min, no_max, no_nulls, maybe_nan)) in COLUMNS.iter().chain(&["k"]).zip(missing) {
            let mut bounds = bounds_of(&batch, name);
            if no_min {
                bounds.min = None;
            }
            if no_max {
                bounds.max = None;
            }
            if no_nulls {
                bounds.nulls = None;
            }
            bounds.nan |= maybe_nan;
            statistics.columns.insert((*name).to_owned(), bounds);
        }
        let bound = bind(&condition.expr(), &schema()).unwrap();
        let matching = filter_mask(&bound, &batch).unwrap().true_count();
        match prune(&bound, &statistics) {
            Truth::AlwaysFalse => prop_assert_eq!(matching, 0),
            Truth::AlwaysTrue => prop_assert_eq!(matching, rows.len()),
            Truth::Unknown => {}
        }
    }
}

fn one(array: impl Array + 'static) -> Option<ArrayRef> {
    Some(Arc::new(array))
}

fn fixed(nan: bool, nulls: u64) -> Statistics {
    let column = |min, max| Bounds {
        min,
        max,
        nulls: Some(nulls),
        nan,
    };
    let columns = [
        (
            "i",
            column(
                one(Int64Array::from(vec![10])),
                one(Int64Array::from(vec![20])),
            ),
        ),
        (
            "f",
            column(
                one(Float64Array::from(vec![1.0])),
                one(Float64Array::from(vec![4.0])),
            ),
        ),
        (
            "s",
            column(
                one(StringArray::from(vec!["pa"])),
                one(StringArray::from(vec!["pz"])),
            ),
        ),
        (
            "bad",
            column(
                one(Int64Array::from(vec![9])),
                one(Int64Array::from(vec![1])),
            ),
        ),
    ];
    Statistics {
        rows: 100,
        columns: columns
            .into_iter()
            .map(|(name, bounds)| (name.to_owned(), bounds))
            .collect(),
    }
}

fn decide(text: &str, statistics: &Statistics) -> Truth {
    let schema = Schema::new(vec![
        Field::new("i", DataType::Int64, true),
        Field::new("f", DataType::Float64, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("bad", DataType::Int64, true),
        Field::new("bare", DataType::Int64, true),
    ]);
    prune(
        &bind(&parse_sql(text).unwrap(), &schema).unwrap(),
        statistics,
    )
}

#[test]
fn statistics_decide_what_they_can() {
    use Truth::{AlwaysFalse, AlwaysTrue, Unknown};
    for (text, expected) in [
        ("i > 20", AlwaysFalse),
        ("i >= 20", Unknown),
        ("i >= 10", AlwaysTrue),
        ("i < 9.5", AlwaysFalse),
        ("i = 10.5", AlwaysFalse),
        ("i <> 10.5", AlwaysTrue),
        ("i IN (1, 2, 30)", AlwaysFalse),
        ("i IN (1, 15)", Unknown),
        ("i NOT IN (1, 2, NULL)", AlwaysFalse),
        ("i NOT IN (1, 2)", AlwaysTrue),
        ("i BETWEEN 5 AND 25", AlwaysTrue),
        ("i BETWEEN 21 AND 25", AlwaysFalse),
        ("i IS NULL", AlwaysFalse),
        ("i IS NOT NULL", AlwaysTrue),
        ("i + 5 > 25", AlwaysFalse),
        ("100 - i >= 80", AlwaysTrue),
        ("-i > -10", AlwaysFalse),
        ("CAST(i AS DOUBLE) < 10", AlwaysFalse),
        ("i * i < 0", Unknown),
        ("i * 2 > 40", AlwaysFalse),
        ("i * -2 > -20", AlwaysFalse),
        ("i * 0 = 0", Unknown),
        ("i // 3 >= 3", AlwaysTrue),
        ("i // -3 < -6", AlwaysFalse),
        ("i // 0 IS NULL", Unknown),
        ("i / 4 > 5", AlwaysFalse),
        ("i + NULL IS NULL", Unknown),
        ("CAST(i AS BIGINT) = 3", AlwaysFalse),
        ("CAST(i AS SMALLINT) + 1 IN (3, 4, 22)", AlwaysFalse),
        ("f + 1 > 5", AlwaysFalse),
        ("1.5 - f > 0.5", AlwaysFalse),
        ("f * -2 > -2", AlwaysFalse),
        ("f * 0 > 1", Unknown),
        ("f / 0 > 1", Unknown),
        ("f / 2 > 2", AlwaysFalse),
        ("CAST(f AS INT) > 4", AlwaysFalse),
        ("CAST(f AS FLOAT) < 1", AlwaysFalse),
        ("i + 9223372036854775807 > 0", Unknown),
        ("s LIKE 'p%'", AlwaysTrue),
        ("s LIKE 'q%'", AlwaysFalse),
        ("s LIKE 'pb%x_'", Unknown),
        ("s LIKE 'oz%x_'", AlwaysFalse),
        ("STARTS_WITH(s, 'pyz')", Unknown),
        // No value is greater than the bound.
        ("STARTS_WITH(s, 'pza')", AlwaysFalse),
        ("STARTS_WITH(s, 'pzb') AND i > 20", AlwaysFalse),
        ("i > 20 OR i < 10", AlwaysFalse),
        ("NOT (i > 20)", AlwaysTrue),
        ("bad > 100", Unknown),
        ("bare > 100", Unknown),
        ("bare IS NULL", Unknown),
        ("NULL", AlwaysFalse),
        ("TRUE", AlwaysTrue),
        ("f <= 4", AlwaysTrue),
        ("f > 4", AlwaysFalse),
    ] {
        assert_eq!(decide(text, &fixed(false, 0)), expected, "{text}");
    }
}

#[test]
fn nan_is_above_every_maximum() {
    let statistics = fixed(true, 0);
    assert_eq!(decide("f > 5", &statistics), Truth::Unknown);
    assert_eq!(decide("f <= 4", &statistics), Truth::Unknown);
    assert_eq!(decide("f < 1", &statistics), Truth::AlwaysFalse);
    assert_eq!(decide("f >= 1", &statistics), Truth::AlwaysTrue);
    assert_eq!(decide("f = 5", &statistics), Truth::AlwaysFalse);
    assert_eq!(decide("f <> 5", &statistics), Truth::AlwaysTrue);
    assert_eq!(decide("f IN (5, 6)", &statistics), Truth::AlwaysFalse);
    assert_eq!(
        decide("f = CAST('NaN' AS DOUBLE)", &statistics),
        Truth::Unknown
    );
    assert_eq!(
        decide("f IN (5, CAST('NaN' AS DOUBLE))", &statistics),
        Truth::Unknown
    );
    // NaN is NaN under a sign, and greater than all else there too.
    assert_eq!(decide("-f < -5", &statistics), Truth::AlwaysFalse);
    assert_eq!(decide("-f > 0", &statistics), Truth::Unknown);
    assert_eq!(decide("-f > -5", &statistics), Truth::AlwaysTrue);
    assert_eq!(
        decide("CAST(f AS BIGINT) > 4", &statistics),
        Truth::AlwaysFalse
    );
    assert_eq!(
        decide("CAST(f AS BIGINT) <= 4", &statistics),
        Truth::Unknown
    );
}

#[test]
fn nulls_keep_a_predicate_from_being_always_true() {
    assert_eq!(decide("i >= 10", &fixed(false, 1)), Truth::Unknown);
    assert_eq!(
        decide("i IS NULL OR i IS NOT NULL", &fixed(false, 0)),
        Truth::AlwaysTrue
    );
    assert_eq!(decide("i >= 10", &fixed(false, 100)), Truth::AlwaysFalse);
    assert_eq!(decide("i IS NULL", &fixed(false, 100)), Truth::AlwaysTrue);
}

#[test]
fn a_date_beyond_the_calendar_has_a_null_year() {
    let dates = |day| one(arrow_array::Date32Array::from(vec![day]));
    let decide = |max: i32, text: &str| {
        let bounds = Bounds {
            min: dates(0),
            max: dates(max),
            nulls: Some(0),
            nan: false,
        };
        let columns = HashMap::from([("d".to_owned(), bounds)]);
        let schema = Schema::new(vec![Field::new("d", DataType::Date32, true)]);
        let bound = bind(&parse_sql(text).unwrap(), &schema).unwrap();
        prune(&bound, &Statistics { rows: 2, columns })
    };
    assert_eq!(decide(10, "YEAR(d) >= 1970"), Truth::AlwaysTrue);
    assert_eq!(decide(10, "YEAR(d) IS NULL"), Truth::AlwaysFalse);
    assert_eq!(decide(10, "YEAR(d) > 1970"), Truth::AlwaysFalse);
    assert_eq!(decide(i32::MAX, "YEAR(d) >= 1970"), Truth::Unknown);
    assert_eq!(decide(i32::MAX, "YEAR(d) IS NULL"), Truth::Unknown);
}

/// A number in an expression of one column, as text, and whether it is of floats.
fn steps() -> impl Strategy<Value = String> {
    let constants = || {
        prop::sample::select(vec![
            "0",
            "1",
            "-1",
            "3",
            "-7",
            "2.5",
            "-0.0e0",
            "1e0",
            "-3.5e0",
            "1e308",
            "-1e-320",
            "9223372036854775807",
            "-9223372036854775808",
            "CAST('inf' AS DOUBLE)",
            "CAST('nan' AS DOUBLE)",
            "NULL",
            "127",
        ])
    };
    let step = prop_oneof![
        4 => (prop::sample::select(vec!["+", "-", "*", "/", "//", "%"]), constants(), any::<bool>())
            .prop_map(|(op, constant, is_first)| if is_first {
                format!("({constant} {op} #)")
            } else {
                format!("(# {op} {constant})")
            }),
        1 => Just("(-(#))".to_owned()),
        2 => prop::sample::select(vec!["TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(20, 3)"])
            .prop_map(|to| format!("CAST(# AS {to})")),
    ];
    (
        prop::sample::select(vec!["a", "b", "u", "f", "g", "m"]),
        prop::collection::vec(step, 0..3),
    )
        .prop_map(|(column, steps)| {
            steps
                .into_iter()
                .fold(column.to_owned(), |inner, step| step.replace('#', &inner))
        })
}

fn question() -> impl Strategy<Value = String> {
    let value = || {
        prop::sample::select(vec![
            "0",
            "1",
            "-1",
            "4",
            "-2.5",
            "2.5e0",
            "100",
            "-100",
            "9223372036854775806",
            "-1e30",
            "CAST('nan' AS DOUBLE)",
            "CAST('inf' AS DOUBLE)",
            "-0.0e0",
        ])
    };
    prop_oneof![
        4 => (steps(), prop::sample::select(vec!["<", "<=", ">", ">=", "=", "<>"]), value())
            .prop_map(|(steps, op, value)| format!("{steps} {op} {value}")),
        1 => (steps(), prop::collection::vec(value(), 1..4), any::<bool>()).prop_map(|(steps, values, not)| {
            format!("{steps} {}IN ({})", if not { "NOT " } else { "" }, values.join(", "))
        }),
        1 => (steps(), any::<bool>())
            .prop_map(|(steps, not)| format!("{steps} IS {}NULL", if not { "NOT " } else { "" })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6000))]

    #[test]
    fn arithmetic_and_casts_are_pruned_as_they_are_evaluated(
        rows in prop::collection::vec(row(), 1..4),
        question in question(),
        maybe_nan in any::<bool>(),
    ) {
        let batch = batch(&rows);
        let mut statistics = Statistics { rows: rows.len() as u64, ..Statistics::default() };
        for name in ["a", "b", "u", "f", "g", "m"] {
            let mut bounds = bounds_of(&batch, name);
            bounds.nan |= maybe_nan;
            statistics.columns.insert(name.to_owned(), bounds);
        }
        // What does not fit together is not asked.
        let Ok(bound) = bind(&parse_sql(&question).unwrap(), &schema()) else { return Ok(()) };
        let truth = prune(&bound, &statistics);
        for row in 0..batch.num_rows() {
            // A row that fails, by an overflow, has no answer.
            let Ok(mask) = filter_mask(&bound, &batch.slice(row, 1)) else { continue };
            match truth {
                Truth::AlwaysFalse => prop_assert!(!mask.value(0), "{question}"),
                Truth::AlwaysTrue => prop_assert!(mask.value(0), "{question}"),
                Truth::Unknown => {}
            }
        }
    }
}
