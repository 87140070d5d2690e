//! What the grammar takes, what it refuses, and how it ends on hostile text.

use pilum_expr::{Error, Expr, Scalar, col, lit, parse_sql};
use proptest::prelude::*;

fn refused(text: &str) -> (String, u64, u64) {
    match parse_sql(text) {
        Err(Error::Syntax {
            message,
            line,
            column,
        }) => (message, line, column),
        other => panic!("{text}: expected a syntax error, got {other:?}"),
    }
}

#[test]
fn precedence_is_that_of_sql() {
    for (text, same) in [
        ("a OR b AND NOT c = 1", "(a) OR ((b) AND (NOT (c = 1)))"),
        ("a + b * c - d", "(a + (b * c)) - d"),
        ("a - b - c", "(a - b) - c"),
        ("-a + b", "(-a) + b"),
        ("a BETWEEN 1 AND 2 AND b", "(a BETWEEN 1 AND 2) AND b"),
        (
            "a NOT IN (1) OR b NOT LIKE 'x'",
            "(NOT a IN (1)) OR (NOT b LIKE 'x')",
        ),
        ("a IS NOT NULL", "NOT a IS NULL"),
        ("a::bigint + 1", "CAST(a AS BIGINT) + 1"),
        ("a == 1", "a = 1"),
        ("a != 1", "a <> 1"),
        ("`b c` = \"d e\"", "\"b c\" = `d e`"),
        ("a -- comment\n = 1 /* more */", "a = 1"),
    ] {
        assert_eq!(parse_sql(text).unwrap(), parse_sql(same).unwrap(), "{text}");
    }
    assert_ne!(
        parse_sql("a - (b - c)").unwrap(),
        parse_sql("a - b - c").unwrap()
    );
}

/// A number of more than 38 digits.
fn wide(unscaled: &str, scale: u8) -> Scalar {
    Scalar::WideDecimal {
        unscaled: unscaled.parse().unwrap(),
        scale,
    }
}

#[test]
fn numbers_have_at_most_76_digits() {
    let nines = "9".repeat(76);
    for text in [nines.clone(), format!("-{nines}"), format!("0.{nines}")] {
        let read = parse_sql(&text).unwrap();
        assert_eq!(read.to_string(), text);
    }
    for text in [
        "9".repeat(77),
        format!("1.{}", "0".repeat(76)),
        "9".repeat(1_000_000),
    ] {
        let message = parse_sql(&text).unwrap_err().to_string();
        assert!(
            message.contains("no number of up to 76 digits"),
            "{message}"
        );
    }
}

#[test]
fn literals_are_read_exactly() {
    let hour = 3_600_000_000_000_i128;
    for (text, scalar) in [
        ("18446744073709551615", Scalar::Integer(u64::MAX.into())),
        ("-9223372036854775808", Scalar::Integer(i64::MIN.into())),
        (
            "-170141183460469231731687303715884105728",
            Scalar::Integer(i128::MIN),
        ),
        (
            "0.10",
            Scalar::Decimal {
                unscaled: 10,
                scale: 2,
            },
        ),
        (
            "-.5",
            Scalar::Decimal {
                unscaled: -5,
                scale: 1,
            },
        ),
        (
            "00000000000000000000000000000000000000000000",
            Scalar::Integer(0),
        ),
        (
            "-170141183460469231731687303715884105729",
            wide("-170141183460469231731687303715884105729", 0),
        ),
        (
            "100000000000000000000000000000000000000.5",
            wide("1000000000000000000000000000000000000005", 1),
        ),
        (
            "-0.0000000000000000000000000000000000000001",
            wide("-1", 40),
        ),
        ("1e3", Scalar::Float(1000.0)),
        ("CAST('NaN' AS DOUBLE)", Scalar::Float(f64::NAN)),
        ("'it''s'", Scalar::String("it's".into())),
        ("''", Scalar::String(String::new())),
        ("X'00fF'", Scalar::Binary(vec![0, 255])),
        ("DATE '1970-01-02'", Scalar::Date(1)),
        ("DATE '0000-03-01'", Scalar::Date(-719_468)),
        ("DATE '2024-02-29'", Scalar::Date(19_782)),
        ("TIME '01:00:00.5'", Scalar::Time(3_600_500_000_000)),
        (
            "TIMESTAMP '1970-01-01 01:00:00'",
            Scalar::Timestamp {
                nanos: hour,
                zoned: false,
            },
        ),
        (
            "TIMESTAMP '1970-01-01T01:00:00+02:00'",
            Scalar::Timestamp {
                nanos: -hour,
                zoned: true,
            },
        ),
        (
            "TIMESTAMP '1970-01-01 01:00Z'",
            Scalar::Timestamp {
                nanos: hour,
                zoned: true,
            },
        ),
        (
            "INTERVAL '1 year 2 days'",
            Scalar::Interval {
                months: 12,
                days: 2,
                nanos: 0,
            },
        ),
        (
            "INTERVAL '3' DAY",
            Scalar::Interval {
                months: 0,
                days: 3,
                nanos: 0,
            },
        ),
        (
            "INTERVAL 2 HOURS",
            Scalar::Interval {
                months: 0,
                days: 0,
                nanos: 7_200_000_000_000,
            },
        ),
        (
            "INTERVAL '-1.5 seconds'",
            Scalar::Interval {
                months: 0,
                days: 0,
                nanos: -1_500_000_000,
            },
        ),
        ("NULL", Scalar::Null),
        ("true", Scalar::Boolean(true)),
    ] {
        assert_eq!(parse_sql(text).unwrap(), lit(scalar), "{text}");
    }
}

#[test]
fn words_of_types_and_functions_are_names_elsewhere() {
    for name in [
        "date",
        "time",
        "timestamp",
        "interval",
        "year",
        "length",
        "value",
        "key",
        "first",
    ] {
        assert_eq!(
            parse_sql(&format!("{name} = 1")).unwrap(),
            col(name).eq(lit(1))
        );
    }
    let nested = parse_sql("a.\"b.c\".date IS NULL").unwrap();
    assert_eq!(nested.to_string(), "a.\"b.c\".date IS NULL");
}

#[test]
fn refusals_name_the_place_and_what_is_allowed() {
    let (message, line, column) = refused("a = 1 AND\n  b =");
    assert_eq!((line, column), (2, 6));
    assert!(message.contains("expected a column"), "{message}");
    for (text, column, part) in [
        ("a = SELECT 1", 5, "SELECT"),
        ("a IN (SELECT b FROM c)", 7, "SELECT"),
        ("foo(a) = 1", 1, "unknown function FOO"),
        ("LENGTH(a, b)", 1, "takes 1 argument"),
        ("a = 1 b", 7, "expected an operator"),
        ("(a = 1", 7, "expected )"),
        ("a = 'x", 5, "Unterminated"),
        ("CAST(a AS BLUB)", 11, "BIGINT"),
        ("CAST(a AS DECIMAL(77, 2))", 11, "DECIMAL"),
        ("DATE '2026-02-30'", 6, "2026-01-31"),
        ("TIMESTAMP '2026-01-01 25:00:00'", 11, "TIMESTAMP '"),
        ("INTERVAL '1.5 months'", 10, "INTERVAL '"),
        ("X'abc'", 1, "hexadecimal"),
        ("a LIKE 'b' ESCAPE 'xy'", 19, "one character"),
        ("a = ?", 5, "expected"),
        ("CASE END", 6, "expected"),
        ("COALESCE()", 1, "needs arguments"),
        (
            "10000000000000000000000000000000000000000000000000000000000000000000000000000 = a",
            1,
            "exponent",
        ),
        ("1e999 = a", 1, "exponent"),
        ("", 1, "the end"),
        ("a IS 5", 6, "NULL, TRUE, FALSE"),
        ("a; DROP TABLE b", 2, ";"),
    ] {
        let (message, line, at) = refused(text);
        assert_eq!((line, at), (1, column), "{text}: {message}");
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn deep_nesting_is_an_error_not_a_crash() {
    let deep = 1_000_000;
    refused(&"(".repeat(deep));
    refused(&format!("{}a{}", "(".repeat(deep), ")".repeat(deep)));
    refused(&"NOT ".repeat(deep));
    refused(&format!("{}a", "- ".repeat(deep)));
    refused(&"CASE WHEN ".repeat(100_000));
    refused(&format!("a{}", " + 1".repeat(100_000)));
    refused(&format!("a{}", "::bigint".repeat(100_000)));
    refused(&format!("a{}", " = 1".repeat(100_000)));
    refused(&format!("a{}", ".a".repeat(100_000)));
    // Far less than the limit is fine.
    assert!(parse_sql(&format!("{}a{}", "(".repeat(90), ")".repeat(90))).is_ok());
    assert!(matches!(
        parse_sql(&" ".repeat(5 << 20)),
        Err(Error::Limit { .. })
    ));
}

#[test]
fn long_chains_are_flat() {
    for (joint, count) in [(" OR ", 10_000), (" AND ", 100_000)] {
        let text = vec!["a = 1"; count].join(joint);
        let expr = parse_sql(&text).unwrap();
        assert_eq!(expr.to_string(), text);
        drop(expr.clone().not());
    }
    let mut built = col("a").eq(lit(0));
    for i in 1..10_000 {
        built = built.or(col("a").eq(lit(i)));
    }
    assert_eq!(parse_sql(&built.to_string()).unwrap(), built);
}

#[test]
fn a_tree_built_too_deep_is_reported_when_bound() {
    let mut deep = col("a");
    for _ in 0..1_000_000 {
        deep = deep.add(lit(1));
    }
    let schema = arrow_schema::Schema::empty();
    assert!(matches!(
        pilum_expr::bind(&deep, &schema),
        Err(Error::Limit { .. })
    ));
    assert!(parse_sql(&deep.to_string()).is_err());
}

/// Random sequences of words of the grammar; they get deeper into the parser than random characters.
fn soup() -> impl Strategy<Value = String> {
    let words = vec![
        "a",
        "b.c",
        "(",
        ")",
        ",",
        "AND",
        "OR",
        "NOT",
        "IN",
        "BETWEEN",
        "LIKE",
        "ILIKE",
        "ESCAPE",
        "DISTINCT FROM",
        "TRY_CAST(",
        "IS",
        "NULL",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "CAST",
        "AS",
        "BIGINT",
        "DECIMAL",
        "1",
        "-",
        "2.5",
        "1e9",
        "'x'",
        "X'0a'",
        "=",
        "<",
        "+",
        "*",
        "/",
        "%",
        "::",
        "DATE",
        "'2026-01-01'",
        "TIMESTAMP",
        "INTERVAL",
        "DAY",
        "LENGTH",
        "COALESCE",
        "STARTS_WITH",
        "\"q\"",
        "`r`",
        ".",
        "0x",
        "E'",
        "$$",
        "--",
        "/*",
        "'",
        "\"",
        "ä",
        "\u{0}",
        "99999999999999999999",
    ];
    prop::collection::vec(prop::sample::select(words), 0..24).prop_map(|words| words.join(" "))
}

fn ends_well(text: &str) {
    if let Ok(expr) = parse_sql(text) {
        let again: Expr = parse_sql(&expr.to_string())
            .unwrap_or_else(|error| panic!("{text:?} became {expr}: {error}"));
        assert_eq!(again, expr, "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn random_characters_never_panic(text in any::<String>()) {
        ends_well(&text);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        ends_well(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_words_never_panic(text in soup()) {
        ends_well(&text);
    }
}
