//! Updates: new values, the rest as it was, ids kept.

use std::sync::Barrier;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use futures::TryStreamExt;
use pilum_table::{Error, ScanOptions, StatementOptions, Store, UpdateOutcome, parse_sql};

use crate::support::{
    append, content, create, delete, expect_no_orphans, files, memory, open, rows, runtime,
};

fn try_update(
    store: &Store,
    set: &[(&str, &str)],
    filter: Option<&str>,
) -> Result<UpdateOutcome, Error> {
    let (runtime, table) = (runtime(), open(store));
    let set: Vec<_> = set
        .iter()
        .map(|(name, text)| ((*name).to_owned(), parse_sql(text).unwrap()))
        .collect();
    let filter = filter.map(|text| parse_sql(text).unwrap());
    let mut options = StatementOptions::default();
    options.retries = 100;
    options.commit_retries = 100;
    runtime.block_on(table.update(&set, filter.as_ref(), &options, runtime.handle()))
}

fn update(store: &Store, set: &[(&str, &str)], filter: Option<&str>) -> UpdateOutcome {
    try_update(store, set, filter).unwrap()
}

/// `id` and `name` of all rows, by id.
fn pairs(store: &Store) -> Vec<(i64, Option<String>)> {
    let content: RecordBatch = content(open(store).snapshot());
    let ids = content.column(0).as_primitive::<Int64Type>();
    let names = content.column(1).as_string::<i32>();
    let mut pairs: Vec<_> = ids
        .values()
        .iter()
        .zip(names)
        .map(|(id, name)| (*id, name.map(str::to_owned)))
        .collect();
    pairs.sort();
    pairs
}

fn named(id: i64) -> Option<String> {
    (id % 3 != 0).then(|| format!("name {id}"))
}

#[test]
fn expressions_see_old_values_and_nulls_are_values() {
    let store = memory();
    create(&store, &rows(0, 10), false);
    append(&store, &rows(10, 5));
    let set = [
        ("id", "id + 100"),
        ("name", "CASE WHEN id = 4 THEN NULL ELSE name END"),
    ];
    let updated = update(&store, &set, Some("id >= 3 AND id < 12"));
    assert_eq!(
        (
            updated.num_updated_rows,
            updated.committed.snapshot.version()
        ),
        (9, 3)
    );
    let mut expected: Vec<_> = (0..15)
        .map(|id| match id {
            4 => (104, None),
            3..12 => (id + 100, named(id)),
            _ => (id, named(id)),
        })
        .collect();
    expected.sort();
    assert_eq!(pairs(&store), expected);
    expect_no_orphans(&store);
    let all = update(&store, &[("name", "'x'")], None);
    assert_eq!(all.num_updated_rows, 15);
    assert_eq!(
        open(&store).fragments().len(),
        1,
        "emptied fragments are gone"
    );
    assert!(
        pairs(&store)
            .iter()
            .all(|(_, name)| name.as_deref() == Some("x"))
    );
    expect_no_orphans(&store);
}

#[test]
fn rows_keep_their_ids_and_the_version_that_made_them() {
    let store = memory();
    create(&store, &rows(0, 6), true);
    append(&store, &rows(6, 4));
    update(&store, &[("name", "'new'")], Some("id IN (1, 4, 8)"));
    let table = open(&store);
    let mut options = ScanOptions::default();
    options.with_row_id = true;
    let scan = table.snapshot().scan(options).unwrap();
    let batches = scan.batches(runtime().handle()).try_collect();
    let batches: Vec<RecordBatch> = runtime().block_on(batches).unwrap();
    for batch in &batches {
        let ids = batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec();
        let row_ids = batch
            .column(2)
            .as_primitive::<arrow_array::types::UInt64Type>();
        assert!(
            ids.iter()
                .zip(row_ids.values())
                .all(|(id, row)| id.cast_unsigned() == *row)
        );
        assert_eq!(row_ids.null_count(), 0);
    }
    let added = table.fragments().last().unwrap();
    let versions = |it: Option<pilum_table::RowVersions>| it.unwrap().runs().collect::<Vec<_>>();
    assert_eq!(versions(added.created_at().unwrap()), [(2, 1), (1, 2)]);
    assert_eq!(versions(added.last_updated_at().unwrap()), [(3, 3)]);
    expect_no_orphans(&store);
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let store = memory();
    create(&store, &rows(0, 10), false);
    let before = files(&store);
    let bad: [&[(&str, &str)]; 6] = [
        &[],
        &[("nothing", "1")],
        &[("id", "1"), ("id", "2")],
        &[("id", "'text'")],
        &[("id", "NULL")],
        &[("name", "nothing")],
    ];
    for set in bad {
        let error = try_update(&store, set, None).unwrap_err();
        assert_eq!(error.kind(), "invalid_input", "{set:?}: {error}");
    }
    assert_eq!(files(&store), before);
    let none = update(&store, &[("id", "1")], Some("id > 99"));
    assert_eq!(
        (none.num_updated_rows, none.committed.snapshot.version()),
        (0, 1)
    );
    assert_eq!(files(&store), before);
}

#[test]
fn counting_up_from_four_threads_loses_nothing() {
    let store = memory();
    create(&store, &rows(0, 8), true);
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, start) = (&store, &start);
            scope.spawn(move || {
                start.wait();
                for _ in 0..3 {
                    // Everybody counts one common row up, and one of their own.
                    let filter = format!("name = 'name 7' OR name = 'name {thread}'");
                    update(store, &[("id", "id + 1000")], Some(&filter));
                }
            });
        }
    });
    let expected: Vec<_> = {
        let mut rows: Vec<_> = (0..8)
            .map(|id| match id {
                7 => (12_007, named(7)),
                1 | 2 => (id + 3000, named(id)),
                _ => (id, named(id)),
            })
            .collect();
        rows.sort();
        rows
    };
    assert_eq!(pairs(&store), expected);
    assert_eq!(open(&store).version(), 13);
    expect_no_orphans(&store);
    delete(&store, "id > 1000");
    assert_eq!(open(&store).num_rows(), 5);
}
