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
    let beyond = parse_sql("99999.00").unwrap();
    let money = DataType::Decimal128(5, 2);
    let assigned = bind_as(&beyond, &batch.schema(), &money).and_then(|b| evaluate(&b, &batch));
    assert!(
        assigned.is_err(),
        "a decimal beyond the precision of the column: {assigned:?}"
    );
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
