//! Writing tables and looking at their versions.

mod dictionaries;
mod refused;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use chrono::TimeDelta;
use pilum_table::{
    CommitOptions, Extra, Missing, Mode, Projection, Snapshot, Store, VersionRef, WriteMode,
    WriteOptions, write,
};

use crate::support::{batch, block_on, files, local, memory, open, reader, rows};

fn options(change: impl FnOnce(&mut WriteOptions)) -> WriteOptions {
    let mut options = WriteOptions::default();
    change(&mut options);
    options
}

fn mode(mode: WriteMode) -> WriteOptions {
    options(|it| it.mode = mode)
}

fn put(store: &Store, batches: &[RecordBatch], options: &WriteOptions) -> Snapshot {
    block_on(write(store, reader(batches), options))
        .unwrap()
        .snapshot
}

fn kind<T: std::fmt::Debug>(result: pilum_table::Result<T>) -> &'static str {
    result.unwrap_err().kind()
}

/// All rows of a version, in order.
fn all(snapshot: &Snapshot) -> RecordBatch {
    let positions: Vec<u64> = (0..snapshot.num_rows()).collect();
    block_on(snapshot.take(&positions, Projection::All)).unwrap()
}

fn ids(snapshot: &Snapshot) -> Vec<i64> {
    all(snapshot)
        .column_by_name("id")
        .unwrap()
        .as_primitive::<Int64Type>()
        .values()
        .to_vec()
}

#[test]
fn rows_come_back_from_every_version() {
    let folder = tempfile::tempdir().unwrap();
    for store in [memory(), local(&folder.path().join("table"))] {
        let one = put(&store, &[rows(0, 5), rows(5, 2)], &WriteOptions::default());
        assert_eq!((one.version(), one.num_rows()), (1, 7));
        let two = put(&store, &[rows(7, 3)], &mode(WriteMode::Append));
        let other = batch(vec![(
            Field::new("x", DataType::Int64, true),
            Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef,
        )]);
        let three = put(
            &store,
            std::slice::from_ref(&other),
            &mode(WriteMode::Overwrite),
        );
        assert_eq!((two.version(), three.version()), (2, 3));
        assert_eq!(
            three.fragments()[0].id,
            2,
            "ids of fragments are not used again"
        );

        let table = open(&store);
        assert_eq!((table.version(), table.num_rows()), (3, 2));
        let at = |version| block_on(table.checkout(&version)).unwrap();
        assert_eq!(
            ids(at(VersionRef::Number(1)).snapshot()),
            (0..7).collect::<Vec<_>>()
        );
        assert_eq!(
            ids(at(VersionRef::Number(2)).snapshot()),
            (0..10).collect::<Vec<_>>()
        );
        let names = all(at(VersionRef::Number(2)).snapshot());
        let expected =
            arrow_select::concat::concat_batches(&rows(0, 1).schema(), &[rows(0, 7), rows(7, 3)])
                .unwrap();
        assert_eq!(names.columns(), expected.columns());
        assert_eq!(all(table.snapshot()).columns(), other.columns());

        let history = block_on(table.versions()).unwrap();
        let operations: Vec<_> = history.iter().map(|it| it.operation.unwrap()).collect();
        assert_eq!(operations, ["Overwrite", "Append", "Overwrite"]);
        assert_eq!(
            history
                .iter()
                .map(|it| it.num_rows.unwrap())
                .collect::<Vec<_>>(),
            [7, 10, 2]
        );
        assert!(
            history
                .windows(2)
                .all(|pair| pair[0].timestamp <= pair[1].timestamp)
        );
        let second = history[1].timestamp;
        assert_eq!(
            at(VersionRef::AsOf(
                history[2].timestamp + TimeDelta::seconds(1)
            ))
            .version(),
            3
        );
        assert_eq!(
            at(VersionRef::AsOf(second)).version(),
            history_version(&history, second)
        );
        let before = VersionRef::AsOf(history[0].timestamp - TimeDelta::nanoseconds(1));
        assert_eq!(kind(block_on(table.checkout(&before))), "not_found");
        assert_eq!(
            kind(block_on(table.checkout(&VersionRef::Number(9)))),
            "not_found"
        );
    }
}

/// The newest version not after a time; two commits may share a timestamp.
fn history_version(
    history: &[pilum_table::VersionSummary],
    time: chrono::DateTime<chrono::Utc>,
) -> u64 {
    history
        .iter()
        .filter(|it| it.timestamp <= time)
        .map(|it| it.version)
        .max()
        .unwrap()
}

#[test]
fn modes_say_what_happens_to_a_table_that_exists_or_does_not() {
    let store = memory();
    assert_eq!(
        put(&store, &[rows(0, 1)], &mode(WriteMode::Append)).version(),
        1
    );
    let again = block_on(write(
        &store,
        reader(&[rows(0, 1)]),
        &WriteOptions::default(),
    ));
    assert_eq!(kind(again), "already_exists");
    assert_eq!(
        put(&memory(), &[rows(0, 1)], &mode(WriteMode::Overwrite)).version(),
        1
    );
    assert_eq!(
        files(&store)
            .iter()
            .filter(|it| it.starts_with("data/"))
            .count(),
        1
    );
}

#[test]
fn no_rows_make_a_version_and_no_file() {
    let store = memory();
    let one = put(&store, &[rows(0, 0)], &WriteOptions::default());
    assert_eq!(
        (one.version(), one.num_rows(), one.fragments().len()),
        (1, 0, 0)
    );
    assert_eq!(one.manifest().max_fragment_id, None);
    assert_eq!(
        put(&store, &[rows(0, 0)], &mode(WriteMode::Append)).version(),
        2
    );
    let three = put(&store, &[rows(0, 2)], &mode(WriteMode::Append));
    assert_eq!(three.fragments()[0].id, 0);
    assert_eq!(
        files(&store)
            .iter()
            .filter(|it| it.starts_with("data/"))
            .count(),
        1
    );
    // A table without any column.
    let store = memory();
    let none = RecordBatch::new_empty(Arc::new(Schema::empty()));
    assert_eq!(put(&store, &[none], &WriteOptions::default()).num_rows(), 0);
    assert!(open(&store).snapshot().schema().fields.is_empty());
}

#[test]
fn files_are_cut_at_their_limits() {
    let cut = |change: fn(&mut WriteOptions)| -> Vec<u64> {
        let batches: Vec<RecordBatch> = (0..10).map(|i| rows(i * 3, 3)).collect();
        let snapshot = put(&memory(), &batches, &options(change));
        assert_eq!(ids(&snapshot), (0..30).collect::<Vec<_>>());
        snapshot
            .fragments()
            .iter()
            .map(|fragment| fragment.physical_rows)
            .collect()
    };
    assert_eq!(cut(|it| it.max_rows_per_file = 12), [12, 12, 6]);
    assert_eq!(cut(|it| it.max_rows_per_file = 1).len(), 30);
    assert_eq!(cut(|_| {}), [30]);
    let by_bytes = cut(|it| {
        it.max_bytes_per_file = 1;
        it.max_rows_per_page = Some(5);
    });
    // A file is closed after the batch that made it too large.
    assert_eq!(by_bytes, [6, 6, 6, 6, 6]);
}

#[test]
fn columns_are_matched_by_name_and_every_difference_is_told() {
    let store = memory();
    put(&store, &[rows(0, 2)], &WriteOptions::default());
    let turned = rows(2, 2).project(&[1, 0]).unwrap();
    let two = put(&store, &[turned], &mode(WriteMode::Append));
    assert_eq!(ids(&two), [0, 1, 2, 3]);
    let before = files(&store);
    let wrong = batch(vec![
        (
            Field::new("id", DataType::Utf8, true),
            Arc::new(StringArray::from(vec!["a"])) as ArrayRef,
        ),
        (
            Field::new("extra", DataType::Int64, true),
            Arc::new(Int64Array::from(vec![1])),
        ),
    ]);
    let error = block_on(write(&store, reader(&[wrong]), &mode(WriteMode::Append))).unwrap_err();
    assert_eq!(error.kind(), "invalid_input");
    for part in [
        "`id`: (string) cannot become int64",
        "`extra` is not in the table",
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(files(&store), before);
    assert_eq!(open(&store).version(), 2);
}

#[test]
fn appended_values_are_kept_or_refused_with_their_row_in_the_stream() {
    let store = memory();
    put(&store, &[rows(0, 1)], &WriteOptions::default());
    let narrow = |values: Vec<i32>| {
        let ids: ArrayRef = Arc::new(arrow_array::Int32Array::from(values));
        batch(vec![(Field::new("id", DataType::Int32, true), ids)])
    };
    // A narrower integer fits, and a column that may be null may be missing.
    let two = put(&store, &[narrow(vec![1, 2])], &mode(WriteMode::Append));
    assert_eq!(ids(&two), [0, 1, 2]);
    let floats = |values: Vec<f64>| {
        let ids: ArrayRef = Arc::new(arrow_array::Float64Array::from(values));
        batch(vec![(Field::new("id", DataType::Float64, true), ids)])
    };
    let three = put(&store, &[floats(vec![3.0])], &mode(WriteMode::Append));
    assert_eq!(ids(&three), [0, 1, 2, 3]);
    let before = files(&store);
    let bad = || reader(&[floats(vec![4.0]), floats(vec![5.0, 5.5])]);
    let error = block_on(write(&store, bad(), &mode(WriteMode::Append))).unwrap_err();
    assert_eq!(error.kind(), "invalid_input");
    let text = error.to_string();
    assert!(
        text.contains("column `id`, row 2: 5.5 (double) cannot become int64"),
        "{text}"
    );
    assert_eq!(files(&store), before);
    let mut lossy = mode(WriteMode::Append);
    lossy.adapt.cast = Mode::Lossy;
    let four = block_on(write(&store, bad(), &lossy)).unwrap().snapshot;
    assert_eq!(ids(&four), [0, 1, 2, 3, 4, 5, 6]);
    let mut strict = mode(WriteMode::Append);
    strict.adapt.missing = Missing::Error;
    let error = block_on(write(&store, reader(&[narrow(vec![1])]), &strict)).unwrap_err();
    assert!(error.to_string().contains("`name` is missing"), "{error}");
}

#[test]
fn a_declared_schema_is_what_is_written() {
    let store = memory();
    let declared = Arc::new(Schema::new(vec![
        Field::new("name", DataType::LargeUtf8, true),
        Field::new("id", DataType::Float32, true),
    ]));
    let mut options = WriteOptions::default();
    options.schema = Some(Arc::clone(&declared));
    let one = put(&store, &[rows(0, 2)], &options);
    assert_eq!(one.schema().to_arrow().fields(), declared.fields());
    // The rows of an append get the declared columns first, then those of the table.
    let narrow = Arc::new(Schema::new(vec![Field::new("id", DataType::Int8, true)]));
    let mut append = mode(WriteMode::Append);
    append.schema = Some(narrow);
    append.adapt.extra = Extra::Ignore;
    let two = put(&store, &[rows(100, 27)], &append);
    assert_eq!(two.num_rows(), 29);
    let error = block_on(write(&store, reader(&[rows(100, 29)]), &append)).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("column `id`, row 28: 128 (int64) cannot become int8"),
        "{text}"
    );
}

#[test]
fn values_that_their_own_type_cannot_hold_are_refused() {
    let store = memory();
    let decimals = |values: Vec<i128>| {
        let array = arrow_array::Decimal128Array::from(values);
        let array: ArrayRef = Arc::new(array.with_precision_and_scale(5, 2).unwrap());
        batch(vec![(
            Field::new("d", array.data_type().clone(), true),
            array,
        )])
    };
    let bad = reader(&[decimals(vec![1, 2]), decimals(vec![3, 9_999_900])]);
    let error = block_on(write(&store, bad, &WriteOptions::default())).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("column `d`, row 3: 99999.00 is no decimal128(5, 2)"),
        "{text}"
    );
    assert_eq!(error.kind(), "invalid_input");
}

#[test]
fn a_nullable_column_may_be_appended_where_it_holds_no_null() {
    let store = memory();
    put(&store, &[rows(0, 1)], &WriteOptions::default());
    let ids_of = |ids: Vec<Option<i64>>| {
        let names = StringArray::new_null(ids.len());
        batch(vec![
            (
                Field::new("id", DataType::Int64, true),
                Arc::new(Int64Array::from(ids)) as ArrayRef,
            ),
            (Field::new("name", DataType::Utf8, true), Arc::new(names)),
        ])
    };
    let two = put(
        &store,
        &[ids_of(vec![Some(1), Some(2)])],
        &mode(WriteMode::Append),
    );
    assert_eq!(ids(&two), [0, 1, 2]);
    let before = files(&store);
    let bad = reader(&[ids_of(vec![Some(3), None])]);
    let error = block_on(write(&store, bad, &mode(WriteMode::Append))).unwrap_err();
    assert_eq!(error.kind(), "invalid_input", "{error}");
    assert!(error.to_string().contains("`id`"), "{error}");
    assert_eq!(files(&store), before);
}

#[test]
fn a_source_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for store in [memory(), local(&folder.path().join("table"))] {
        put(&store, &[rows(0, 1)], &WriteOptions::default());
        let before = files(&store);
        let broken = [
            Ok(rows(1, 4)),
            Err(ArrowError::ComputeError("out of rows".to_owned())),
        ];
        let broken = RecordBatchIterator::new(broken, rows(0, 1).schema());
        let options = options(|it| {
            it.mode = WriteMode::Append;
            it.max_rows_per_file = 2;
        });
        let error = block_on(write(&store, broken, &options)).unwrap_err();
        assert!(error.to_string().contains("out of rows"), "{error}");
        assert_eq!(files(&store), before);
        assert_eq!(open(&store).version(), 1);
    }
}

#[test]
fn stable_row_ids_are_given_from_the_first_version_on() {
    let store = memory();
    let stable = options(|it| it.stable_row_ids = true);
    let one = put(&store, &[rows(0, 3)], &stable);
    let two = put(&store, &[rows(3, 2)], &mode(WriteMode::Append));
    assert_eq!(two.manifest().reader_flags, 2);
    let second = &two.fragments()[1];
    assert_eq!(second.row_ids().unwrap().unwrap().as_range(), Some(3..5));
    assert_eq!(second.created_at().unwrap().unwrap().get(0), Some(2));
    assert_eq!(
        (one.manifest().next_row_id, two.manifest().next_row_id),
        (3, 5)
    );
    let three = put(&store, &[rows(0, 1)], &mode(WriteMode::Overwrite));
    assert_eq!(
        three.fragments()[0].row_ids().unwrap().unwrap().as_range(),
        Some(5..6)
    );
    let plain = memory();
    put(&plain, &[rows(0, 1)], &WriteOptions::default());
    let mut late = stable;
    late.mode = WriteMode::Append;
    assert_eq!(
        kind(block_on(write(&plain, reader(&[rows(1, 1)]), &late))),
        "invalid_input"
    );
}

#[test]
fn properties_are_kept_in_the_transaction() {
    let store = memory();
    let words = options(|it| {
        it.properties.insert("who".to_owned(), "me".to_owned());
    });
    put(&store, &[rows(0, 1)], &words);
    let history = block_on(open(&store).versions()).unwrap();
    assert_eq!(history[0].properties["who"], "me");
}

#[test]
fn restore_makes_an_old_version_the_newest() {
    let store = memory();
    put(&store, &[rows(0, 2)], &WriteOptions::default());
    put(&store, &[rows(2, 2)], &mode(WriteMode::Append));
    let old = block_on(open(&store).checkout(&VersionRef::Number(1))).unwrap();
    let restored = block_on(old.restore(&CommitOptions::default()))
        .unwrap()
        .snapshot;
    assert_eq!((restored.version(), ids(&restored)), (3, vec![0, 1]));
    assert_eq!(restored.manifest().max_fragment_id, Some(1));
    let next = put(&store, &[rows(9, 1)], &mode(WriteMode::Append));
    assert_eq!(next.fragments()[1].id, 2);
}

#[test]
fn tags_name_versions() {
    let store = memory();
    put(&store, &[rows(0, 2)], &WriteOptions::default());
    put(&store, &[rows(2, 2)], &mode(WriteMode::Append));
    let table = open(&store);
    block_on(table.create_tag("first", Some(1))).unwrap();
    block_on(table.create_tag("v2.0/final", None)).unwrap();
    assert_eq!(
        kind(block_on(table.create_tag("first", None))),
        "already_exists"
    );
    assert_eq!(kind(block_on(table.create_tag("x", Some(7)))), "not_found");
    assert_eq!(
        kind(block_on(table.create_tag("a b", None))),
        "invalid_input"
    );
    let tags = block_on(table.tags()).unwrap();
    let versions: Vec<_> = tags
        .iter()
        .map(|(name, tag)| (name.as_str(), tag.version))
        .collect();
    assert_eq!(versions, [("first", 1), ("v2.0/final", 2)]);
    let first = block_on(table.checkout(&VersionRef::Tag("first".to_owned()))).unwrap();
    assert_eq!(ids(first.snapshot()), [0, 1]);
    block_on(table.delete_tag("first")).unwrap();
    assert_eq!(kind(block_on(table.delete_tag("first"))), "not_found");
    let gone = block_on(table.checkout(&VersionRef::Tag("first".to_owned())));
    assert_eq!(kind(gone), "not_found");
}
