//! What statements assign: every value is kept in the type of its column, or the statement is refused and names it.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array,
    Float64Array, Int8Array, Int64Array, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use pilum_table::{ColumnChange, Error, StatementOptions, Store, UpdateOutcome, parse_sql};

use super::columns::{retyped, try_add, try_alter};
use crate::support::{
    append, batch, block_on, content, create, delete, expect_no_orphans, files, memory, open,
    runtime,
};

fn try_update(
    store: &Store,
    column: &str,
    value: &str,
    filter: &str,
) -> Result<UpdateOutcome, Error> {
    let (runtime, table) = (runtime(), open(store));
    let set = [(column.to_owned(), parse_sql(value).unwrap())];
    let filter = parse_sql(filter).unwrap();
    let options = StatementOptions::default();
    runtime.block_on(table.update(&set, Some(&filter), &options, runtime.handle()))
}

fn money(values: Vec<i128>) -> Decimal128Array {
    let values = Decimal128Array::from(values);
    values.with_precision_and_scale(5, 2).unwrap()
}

/// A column of each kind; `id` counts from `first`.
fn kinds(first: i64, len: i64) -> RecordBatch {
    let ids: Vec<i64> = (first..first + len).collect();
    let rows = ids.len();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(ids.clone()))),
        ("money", Arc::new(money(vec![100; rows]))),
        ("small", Arc::new(Int8Array::from(vec![1; rows]))),
        ("single", Arc::new(Float32Array::from(vec![0.5; rows]))),
        ("flag", Arc::new(BooleanArray::from(vec![true; rows]))),
        ("day", Arc::new(Date32Array::from(vec![20_000; rows]))),
        ("text", Arc::new(StringArray::from(vec!["a"; rows]))),
        (
            "precise",
            Arc::new(Float64Array::from_iter_values(
                ids.iter().map(|id| *id as f64 + 0.123_456_78),
            )),
        ),
        (
            "moment",
            Arc::new(TimestampMicrosecondArray::from_iter_values(
                ids.iter().map(|id| id * 3_600_000_000),
            )),
        ),
        (
            "word",
            Arc::new(DictionaryArray::<arrow_array::types::Int8Type>::from_iter(
                vec!["x"; rows],
            )),
        ),
    ];
    let columns = columns.into_iter().map(|(name, column)| {
        let field = Field::new(name, column.data_type().clone(), name != "id");
        (field, column)
    });
    batch(columns.collect())
}

#[test]
fn a_value_that_its_column_does_not_hold_is_refused_with_its_place() {
    let store = memory();
    create(&store, &kinds(0, 5), false);
    append(&store, &kinds(5, 5));
    delete(&store, "id IN (1, 6)");
    let before = files(&store);
    // Row 6 of the table is the one with id 8: the ids 1 and 6 are deleted.
    for (column, value, words) in [
        ("money", "99999.00", "99999.00 (decimal128(7, 2))"),
        ("money", "id * 1000", "row 1: 2000 (int64)"),
        ("money", "precise", "row 0: 0.12345678 (double)"),
        (
            "small",
            "CASE WHEN id = 8 THEN 300 ELSE id END",
            "row 6: 300 (int64)",
        ),
        ("small", "id + 0.5", "row 0: 0.5 ("),
        ("single", "1e40", "1e40 (double) cannot become float"),
        ("single", "precise", "row 0: 0.12345678 (double)"),
        ("flag", "5", "5 (int64) cannot become bool"),
        ("flag", "id", "row 1: 2 (int64)"),
        ("day", "moment", "row 1: 1970-01-01T02:00:00"),
        (
            "day",
            "'2026-01-01 10:00:00'",
            "(string) cannot become date32",
        ),
        ("day", "id", "(int64) cannot become date32"),
        ("text", "id", "(int64) cannot become string"),
        ("id", "text", "(string) cannot become int64"),
        ("id", "'7'", "(string) cannot become int64"),
        ("id", "NULL", "`id`, row 0: it may not be null"),
        ("word", "id", "(int64) cannot become string"),
    ] {
        let told = match try_update(&store, column, value, "true") {
            Ok(_) => panic!("{column} = {value} was accepted"),
            Err(error) => {
                assert_eq!(error.kind(), "invalid_input", "{error}");
                error.to_string()
            }
        };
        let names = [open(&store).uri().to_owned(), format!("`{column}`")];
        for part in names.iter().map(String::as_str).chain([words, ";"]) {
            assert!(told.contains(part), "{column} = {value}: {told}");
        }
        assert_eq!(files(&store), before, "{column} = {value}");
    }
    assert_eq!(open(&store).version(), 3);
}

#[test]
fn values_that_are_kept_are_assigned_whatever_type_they_have() {
    for (column, value, expected) in [
        ("money", "9.87", "9.87"),
        ("money", "id * 10", "30.00"),
        ("money", "9.87e0", "9.87"),
        ("small", "id + 0.0", "3"),
        ("small", "CAST(precise AS BIGINT)", "3"),
        ("single", "0.1", "0.1"),
        ("single", "id", "3.0"),
        ("flag", "id - 2", "true"),
        ("day", "'2026-01-01'", "2026-01-01"),
        ("day", "DATE '2026-01-01'", "2026-01-01"),
        ("day", "CAST(moment AS DATE)", "1970-01-01"),
        ("moment", "day", "2024-10-04T00:00:00"),
        ("text", "CAST(id AS VARCHAR)", "3"),
        ("word", "text", "a"),
        ("word", "'new'", "new"),
        // The loss is asked for.
        ("money", "CAST(precise AS DECIMAL(5, 2))", "3.12"),
        ("money", "CAST(9.876 AS DECIMAL(5, 2))", "9.88"),
        ("single", "CAST(precise AS FLOAT)", "3.1234567"),
        ("small", "TRY_CAST(text AS TINYINT)", ""),
    ] {
        let store = memory();
        create(&store, &kinds(0, 4), false);
        try_update(&store, column, value, "id = 3").unwrap();
        let content = content(open(&store).snapshot());
        let row = content.num_rows() - 1;
        let values = content.column_by_name(column).unwrap();
        let shown = arrow_cast::display::array_value_to_string(values, row).unwrap();
        assert_eq!(shown, expected, "{column} = {value}");
        expect_no_orphans(&store);
    }
    let store = memory();
    create(&store, &kinds(0, 4), false);
    // A cast that is asked for must fit too.
    let value = "CAST(precise AS DECIMAL(9, 6))";
    let error = try_update(&store, "money", value, "true").unwrap_err();
    assert!(error.to_string().contains("row 0: 0.123457"), "{error}");
}

#[test]
fn a_constant_is_refused_even_where_no_row_matches() {
    let store = memory();
    create(&store, &kinds(0, 4), false);
    let error = try_update(&store, "small", "300", "id > 99").unwrap_err();
    assert!(!error.to_string().contains("row"), "{error}");
    let none = try_update(&store, "small", "id * 1000", "id > 99").unwrap();
    assert_eq!(none.num_updated_rows, 0);
}

#[test]
fn a_member_of_a_null_struct_is_not_assigned_so_its_value_need_not_fit() {
    let store = memory();
    let members = Fields::from(vec![Field::new("a", DataType::Int8, false)]);
    let a: ArrayRef = Arc::new(Int8Array::from(vec![1, 2, 3]));
    let structs = StructArray::new(
        members.clone(),
        vec![a],
        Some(vec![true, false, true].into()),
    );
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![10, 5_000, 30]));
    let id = Field::new("id", DataType::Int64, false);
    let field = Field::new("s", DataType::Struct(members), true);
    create(
        &store,
        &batch(vec![(id, ids), (field, Arc::new(structs))]),
        false,
    );
    try_update(&store, "s.a", "id", "true").unwrap();
    let error = try_update(&store, "s.a", "id * 10", "true").unwrap_err();
    assert!(
        error.to_string().contains("`s.a`, row 2: 300 (int64)"),
        "{error}"
    );
    let content = content(open(&store).snapshot());
    let structs = content.column(1).as_struct();
    let a = structs
        .column(0)
        .as_primitive::<arrow_array::types::Int8Type>();
    assert_eq!((a.value(0), a.value(2)), (10, 30));
    assert!(structs.is_null(1));
}

#[test]
fn computed_values_that_their_own_type_does_not_hold_are_refused() {
    let store = memory();
    create(&store, &kinds(0, 4), false);
    // Either the cast drops the time of day, or the value is no date64: it may not be stored as one.
    match try_add(&store, &[("d", "CAST(moment AS DATE64)")]) {
        Ok(_) => {
            let content = content(open(&store).snapshot());
            let days = content.column_by_name("d").unwrap();
            let millis = days.as_primitive::<arrow_array::types::Date64Type>();
            assert!(millis.values().iter().all(|it| it % 86_400_000 == 0));
        }
        Err(error) => assert!(error.to_string().contains("`d`, row 1"), "{error}"),
    }
    assert!(block_on(open(&store).snapshot().verify()).unwrap().is_ok());
}

#[test]
fn an_altered_type_keeps_every_value_or_is_refused_with_its_row() {
    let store = memory();
    create(&store, &kinds(0, 5), false);
    delete(&store, "id = 1");
    let before = files(&store);
    let moment = |unit| DataType::Timestamp(unit, None);
    for (column, to, words) in [
        ("text", DataType::Int64, "(string) cannot become int64"),
        ("id", DataType::Utf8, "(int64) cannot become string"),
        ("precise", DataType::Float32, "row 0: 0.12345678 (double)"),
        ("precise", DataType::Int64, "row 0: 0.12345678 (double)"),
        ("moment", DataType::Date32, "row 1: 1970-01-01T02:00:00"),
        ("id", DataType::Boolean, "row 1: 2 (int64)"),
        ("day", moment(TimeUnit::Nanosecond), ""),
    ] {
        let altered = try_alter(&store, &[retyped(column, to.clone())]);
        if words.is_empty() {
            altered.unwrap();
            continue;
        }
        let told = altered.unwrap_err().to_string();
        assert!(
            told.contains(words) && told.contains(&format!("`{column}`")) && told.contains(';'),
            "{column} to {to}: {told}"
        );
        assert_eq!(files(&store), before, "{column} to {to}");
    }
    // Half of the values are halves, which a shorter float holds.
    try_alter(&store, &[retyped("single", DataType::Float16)]).unwrap();
    try_alter(&store, &[retyped("single", DataType::Float32)]).unwrap();
    try_alter(&store, &[retyped("money", DataType::Decimal128(3, 1))]).unwrap();
    try_alter(&store, &[retyped("small", DataType::Decimal128(4, 1))]).unwrap();
    let content = content(open(&store).snapshot());
    let single = content.column_by_name("single").unwrap();
    assert_eq!(single.as_primitive::<Float32Type>().value(3), 0.5);
    let money = content.column_by_name("money").unwrap();
    assert_eq!(money.as_primitive::<Decimal128Type>().value(3), 10);
    assert!(block_on(open(&store).snapshot().verify()).unwrap().is_ok());
}

#[test]
fn a_member_changes_its_type_and_its_neighbour_its_name_at_once() {
    let store = memory();
    let members = Fields::from(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Int64, true),
    ]);
    let numbers = |from: i64| Arc::new(Int64Array::from(vec![from, from + 1])) as ArrayRef;
    let structs = StructArray::new(members.clone(), vec![numbers(1), numbers(5)], None);
    let field = Field::new("s", DataType::Struct(members), true);
    // The struct is the first field of its file, so it is written again as a whole.
    create(&store, &batch(vec![(field, Arc::new(structs))]), false);
    let renamed = ColumnChange {
        path: "s.b".to_owned(),
        name: Some("c".to_owned()),
        ..ColumnChange::default()
    };
    let both = ColumnChange {
        name: Some("z".to_owned()),
        ..retyped("s.a", DataType::Int16)
    };
    try_alter(&store, &[renamed, both]).unwrap();
    let content = content(open(&store).snapshot());
    let structs = content.column(0).as_struct();
    let names: Vec<_> = structs.fields().iter().map(|it| it.name()).collect();
    assert_eq!(names, ["z", "c"]);
    assert_eq!(structs.column(0).data_type(), &DataType::Int16);
    assert_eq!(
        structs.column(1).as_primitive::<Int64Type>().values(),
        &[5, 6]
    );
    expect_no_orphans(&store);
}
