//! Updates: new values, the rest as it was, ids kept.

use std::sync::{Arc, Barrier};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Fields};
use futures::TryStreamExt;
use pilum_table::{
    Error, Projection, ScanOptions, StatementOptions, Store, UpdateOutcome, parse_sql,
};

use crate::support::{
    append, batch, content, create, delete, expect_no_orphans, files, local, memory, open, rows,
    runtime,
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
    let versions = |it: Option<pilum_format::RowVersions>| it.unwrap().runs().collect::<Vec<_>>();
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

/// `id`, and a struct `p` of `x`, `y`, and a struct `q` of a text `t` that may not be null.
fn nested() -> RecordBatch {
    let text = Arc::new(StringArray::from(vec!["t0", "t1", "t2", "t3"])) as ArrayRef;
    let t = Arc::new(Field::new("t", DataType::Utf8, false));
    let q_nulls = NullBuffer::from(vec![true, false, true, true]);
    let q = StructArray::new(vec![Arc::clone(&t)].into(), vec![text], Some(q_nulls));
    let x = Int64Array::from(vec![Some(10), Some(11), None, Some(13)]);
    let y = Int64Array::from(vec![20, 21, 22, 23]);
    let members: Fields = vec![
        Field::new("x", DataType::Int64, true),
        Field::new("y", DataType::Int64, true),
        Field::new("q", q.data_type().clone(), true),
    ]
    .into();
    let p_nulls = NullBuffer::from(vec![true, true, true, false]);
    let columns: Vec<ArrayRef> = vec![Arc::new(x), Arc::new(y), Arc::new(q)];
    let p = StructArray::new(members, columns, Some(p_nulls));
    let id = Field::new("id", DataType::Int64, false);
    let p_field = Field::new("p", p.data_type().clone(), true);
    let ids = Int64Array::from(vec![0, 1, 2, 3]);
    batch(vec![(id, Arc::new(ids)), (p_field, Arc::new(p))])
}

/// What a path holds, as texts, in the order of `id`.
fn values(store: &Store, path: &str) -> Vec<String> {
    let table = open(store);
    let mut options = ScanOptions::default();
    let column = |name: &str| (name.to_owned(), parse_sql(name).unwrap());
    options.columns = Projection::Expressions(vec![column("id"), column(path)]);
    let scan = table.snapshot().scan(options).unwrap();
    let batches = scan.batches(runtime().handle()).try_collect();
    let batches: Vec<RecordBatch> = runtime().block_on(batches).unwrap();
    let mut values = Vec::new();
    for batch in &batches {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        for (row, id) in ids.values().iter().enumerate() {
            let shown = array_value_to_string(batch.column(1), row).unwrap();
            let is_null = batch.column(1).is_null(row);
            values.push((*id, if is_null { "null".to_owned() } else { shown }));
        }
    }
    values.sort();
    values.into_iter().map(|(_, value)| value).collect()
}

#[test]
fn fields_of_structs_are_assigned_and_their_neighbours_stay() {
    let store = memory();
    create(&store, &nested(), true);
    let updated = update(&store, &[("p.x", "p.x + p.y")], Some("id <> 0"));
    assert_eq!(updated.num_updated_rows, 3);
    // Row 3 has no struct, and the new value is null too.
    assert_eq!(values(&store, "p.x"), ["10", "32", "null", "null"]);
    assert_eq!(values(&store, "p.y"), ["20", "21", "22", "null"]);
    assert_eq!(values(&store, "p.q.t"), ["t0", "null", "t2", "null"]);
    assert_eq!(
        values(&store, "p IS NULL"),
        ["false", "false", "false", "true"]
    );
    assert_eq!(
        values(&store, "p.q IS NULL"),
        ["false", "true", "false", "true"]
    );
    let set = [
        ("p.q.t", "CASE WHEN id = 1 THEN 'new' ELSE p.q.t END"),
        ("p.y", "id"),
    ];
    update(&store, &set, Some("id < 3"));
    // Row 1 has no struct `q`, row 3 no struct `p`: a null struct has no member to assign to, and stays null.
    assert_eq!(values(&store, "p.q.t"), ["t0", "null", "t2", "null"]);
    assert_eq!(values(&store, "p.y"), ["0", "1", "2", "null"]);
    assert_eq!(values(&store, "p.x"), ["10", "32", "null", "null"]);
    update(&store, &[("p.x", "7")], None);
    assert_eq!(values(&store, "p.x"), ["7", "7", "7", "null"]);
    assert_eq!(values(&store, "p.y"), ["0", "1", "2", "null"]);
    assert_eq!(
        values(&store, "p IS NULL"),
        ["false", "false", "false", "true"]
    );
    assert_eq!(
        values(&store, "p.q IS NULL"),
        ["false", "true", "false", "true"]
    );
    expect_no_orphans(&store);
    let before = files(&store);
    let bad: [(&[(&str, &str)], &str); 8] = [
        (&[("p.z", "1")], "`p.z`"),
        (&[("p.", "1")], "`p.`"),
        (&[("id.x", "1")], "`id.x`"),
        (&[("p.x", "1"), ("p.x", "2")], "assigned twice"),
        (&[("p", "p"), ("p.x", "2")], "assigned twice"),
        (&[("p.q.t", "'a'"), ("p.q", "p.q")], "assigned twice"),
        (&[("p.x", "'text'")], ""),
        // Row 0, found by its address.
        (&[("p.q.t", "NULL")], "`p.q.t`"),
    ];
    for (set, words) in bad {
        let error = try_update(&store, set, None).unwrap_err();
        assert_eq!(error.kind(), "invalid_input", "{set:?}: {error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let error = try_update(&store, &[("p.q.t", "NULL")], Some("id = 2")).unwrap_err();
    assert!(error.to_string().contains("`p.q.t`, row 3:"), "{error}");
    assert_eq!(files(&store), before);
}

#[test]
fn a_value_that_fails_half_way_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = local(folder.path());
    create(&store, &rows(0, 5), false);
    for part in 1..5 {
        append(&store, &rows(part * 50_000, 50_000));
    }
    let before = files(&store);
    // All rows of many batches are fine but the last.
    let text = "CASE WHEN id = 249999 THEN CAST(name AS BIGINT) ELSE id END";
    let error = try_update(&store, &[("id", text)], None).unwrap_err();
    assert_eq!(error.kind(), "invalid_input", "{error}");
    assert_eq!(files(&store), before);
    assert_eq!(open(&store).version(), 5);
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
