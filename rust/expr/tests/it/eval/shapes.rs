//! Trees of unusual shape, empty batches, assignments.

use super::*;

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
fn an_assigned_literal_takes_the_type_of_its_column_where_that_is_exact() {
    let batch = numbers();
    let typed = |text: &str, to: &DataType| {
        let bound = bind_as(&parse_sql(text).unwrap(), &batch.schema(), to).unwrap();
        bound.data_type().clone()
    };
    let money = DataType::Decimal128(5, 2);
    for (text, to) in [
        ("7", DataType::UInt8),
        ("7.0", DataType::Int16),
        ("1 + 1", DataType::Int8),
        ("99.5", money.clone()),
        ("'2026-01-01'", DataType::Date32),
        ("DATE '2026-01-01'", DataType::Date64),
        ("7", DataType::Float32),
    ] {
        assert_eq!(typed(text, &to), to, "{text}");
    }
    for (text, to, own) in [
        ("300", DataType::UInt8, DataType::Int64),
        ("7.5", DataType::Int16, DataType::Decimal128(2, 1)),
        ("99999.00", money, DataType::Decimal128(7, 2)),
        ("0.1", DataType::Float32, DataType::Decimal128(1, 1)),
        ("'2026-01-01 10:00:00'", DataType::Date32, DataType::Utf8),
        ("DATE '2026-01-01'", DataType::Int64, DataType::Date32),
        ("j + 100", DataType::Int8, DataType::Int64),
    ] {
        assert_eq!(typed(text, &to), own, "{text}");
    }
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
