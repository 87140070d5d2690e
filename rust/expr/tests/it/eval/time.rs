//! Dates, times and zones.

use super::*;

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
