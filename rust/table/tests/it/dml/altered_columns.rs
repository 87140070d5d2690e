//! Columns that are dropped, renamed or converted to another type.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Int32Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use pilum_table::{ColumnChange, Store};

use crate::support::{
    append, block_on, compact, content, create, delete, expect_no_orphans, files, memory, open,
};

use super::columns::{data_files, holed, ints, nested, retyped, try_add, try_alter, try_drop};

#[test]
fn nothing_but_the_schema_changes_when_columns_are_dropped_or_renamed() {
    let store = memory();
    holed(&store, true);
    try_add(&store, &[("twice", "id * 2")]).unwrap();
    let before = data_files(&store);
    let renamed = ColumnChange {
        path: "name".to_owned(),
        name: Some("title".to_owned()),
        ..ColumnChange::default()
    };
    try_alter(&store, &[renamed]).unwrap();
    let names = |store: &Store| -> Vec<String> {
        let snapshot = open(store).snapshot().clone();
        let fields = snapshot.schema().fields.iter();
        fields.map(|it| it.name.clone()).collect()
    };
    assert_eq!(names(&store), ["id", "title", "twice"]);
    try_drop(&store, &["title"]).unwrap();
    assert_eq!(names(&store), ["id", "twice"]);
    assert_eq!(open(&store).snapshot().fragments()[0].files.len(), 2);
    // A file that holds nothing else goes from the version; an id that a file still holds is not given again.
    try_drop(&store, &["twice"]).unwrap();
    assert_eq!(open(&store).snapshot().fragments()[0].files.len(), 1);
    assert_eq!(data_files(&store), before);
    try_add(&store, &[("other", "1")]).unwrap();
    let snapshot = open(&store).snapshot().clone();
    assert!(
        snapshot.schema().fields[1].id >= 2,
        "{:?}",
        snapshot.schema()
    );
    expect_no_orphans(&store);
}

#[test]
fn members_are_converted_one_after_the_other_and_no_live_id_stands_in_two_files() {
    let cast = |batch: &RecordBatch, to: &Schema| {
        let columns = batch.columns().iter().zip(to.fields());
        let columns = columns.map(|(it, field)| arrow_cast::cast(it, field.data_type()).unwrap());
        RecordBatch::try_new(Arc::new(to.clone()), columns.collect()).unwrap()
    };
    let steps = [
        ("s.a", DataType::Int32),
        ("s.t.p", DataType::Int16),
        ("s.t.q", DataType::LargeUtf8),
        ("s.a", DataType::Int64),
        ("s.t.p", DataType::Float64),
    ];
    for start in 0..steps.len() {
        let store = memory();
        create(&store, &nested(0, 20), false);
        append(&store, &nested(20, 10));
        delete(&store, "id IN (0, 3, 19, 25)");
        for (path, to) in steps.iter().cycle().skip(start).take(steps.len()) {
            let before = content(open(&store).snapshot());
            let altered = try_alter(&store, &[retyped(path, to.clone())]).unwrap();
            let after = content(&altered.committed.snapshot);
            assert_eq!(
                after,
                cast(&before, after.schema().as_ref()),
                "{path} to {to}"
            );
            let snapshot = open(&store).snapshot().clone();
            let live = snapshot.schema().ids();
            for fragment in snapshot.fragments() {
                for id in &live {
                    let holders = fragment.files.iter();
                    let holders = holders.filter(|it| it.field_ids.contains(id)).count();
                    assert_eq!(holders, 1, "field {id} after {path}: {:?}", fragment.files);
                }
            }
            let report = block_on(snapshot.verify()).unwrap();
            assert!(report.is_ok(), "{path}: {:?}", report.problems);
        }
        compact(&store, 1_000);
        expect_no_orphans(&store);
    }
}

#[test]
fn a_value_that_does_not_fit_is_named_by_its_row_and_nothing_is_left() {
    let store = memory();
    holed(&store, false);
    // Row 11 of the table: 2 to 6, 8, 9 are seven, then 10, 11, 12, 15, 16.
    try_add(
        &store,
        &[("x", "CASE WHEN id = 16 THEN 3000000000 ELSE id END")],
    )
    .unwrap();
    let before = files(&store);
    let version = open(&store).version();
    let error = try_alter(&store, &[retyped("x", DataType::Int32)]).unwrap_err();
    let told = error.to_string();
    assert!(
        told.contains("`x`")
            && told.contains("row 11: 3000000000 (int64)")
            && told.contains("int32"),
        "{told}"
    );
    let forbid = ColumnChange {
        path: "name".to_owned(),
        nullable: Some(false),
        ..ColumnChange::default()
    };
    let told = try_alter(&store, &[forbid]).unwrap_err().to_string();
    // Names of multiples of 3 are null: 3 is the second row.
    assert!(
        told.contains("`name`") && told.contains("row 1 is null"),
        "{told}"
    );
    assert_eq!((files(&store), open(&store).version()), (before, version));
    delete(&store, "id = 16");
    try_alter(&store, &[retyped("x", DataType::Int32)]).unwrap();
    let content = content(open(&store).snapshot());
    let x = content.column_by_name("x").unwrap();
    let wanted: Vec<i32> = ints(&content, "id")
        .iter()
        .map(|id| i32::try_from(*id).unwrap())
        .collect();
    assert_eq!(x.as_primitive::<Int32Type>(), &Int32Array::from(wanted));
}
