//! Staged fragments whose dictionaries differ: the commit joins the dictionaries.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, TimeUnit};
use pilum_table::{Snapshot, StatementOptions, WriteMode, WriteOptions, write};
use proptest::prelude::*;

use crate::support::{
    batch, before_publishing, block_on, content, expect_no_orphans, files, memory, open, reader,
};

use super::staged::{
    data_files, keyed, mode, nested, put, some, stage, tagged, tags, texts, told, try_commit, words,
};

/// What one process writes: dictionaries of numbers, one for each batch, and keys.
type Batches = Vec<(Vec<Option<usize>>, Vec<Option<usize>>)>;

fn batches() -> impl Strategy<Value = Batches> {
    let number = prop_oneof![1 => Just(None), 9 => (0..12_usize).prop_map(Some)];
    let key = prop_oneof![1 => Just(None), 4 => (0..12_usize).prop_map(Some)];
    let dictionary = prop::collection::vec(number, 0..6);
    let keys = prop::collection::vec(key, 1..20);
    prop::collection::vec((dictionary, keys), 1..3)
}

fn key_types() -> impl Strategy<Value = DataType> {
    prop::sample::select(vec![
        DataType::Int8,
        DataType::UInt8,
        DataType::Int16,
        DataType::UInt32,
        DataType::Int64,
    ])
}

fn value_types() -> impl Strategy<Value = DataType> {
    prop::sample::select(vec![
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::BinaryView,
        DataType::Boolean,
        DataType::UInt8,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Decimal128(20, 2),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever dictionaries the processes had, the rows are those that they wrote, in the order of the staged fragments.
    #[test]
    fn divergent_dictionaries_are_one(
        table in prop::option::of(batches()),
        staged in prop::collection::vec(batches(), 1..5),
        key_type in key_types(),
        value_type in value_types(),
        max_rows_per_file in 1..30_u64,
        replaces in any::<bool>(),
    ) {
        let store = memory();
        let made = |batches: &Batches| -> Vec<RecordBatch> {
            let array = |(dictionary, keys): &(Vec<_>, Vec<_>)| keyed(dictionary, keys, &key_type, &value_type);
            batches.iter().map(|it| nested(&array(it))).collect()
        };
        let mut expected = Vec::new();
        let base = table.as_ref().map(|batches| {
            let batches = made(batches);
            expected.extend(batches.iter().flat_map(told));
            block_on(write(&store, reader(&batches), &WriteOptions::default())).unwrap().snapshot
        });
        let mut options = mode(if replaces { WriteMode::Overwrite } else { WriteMode::Append });
        if replaces {
            expected.clear();
        }
        options.max_rows_per_file = max_rows_per_file;
        options.max_rows_per_page = Some(7);
        let appends_to = base.as_ref().filter(|_| !replaces);
        let staged: Vec<_> = staged
            .iter()
            .map(|batches| {
                let batches = made(batches);
                expected.extend(batches.iter().flat_map(told));
                stage(&store, appends_to, &batches, &options)
            })
            .collect();
        let written = try_commit(&store, base.as_ref(), &staged, &options).unwrap();
        prop_assert_eq!(told(&content(&written.snapshot)), expected);
        let num_rows: u64 = staged.iter().map(|it| it.num_rows).sum();
        prop_assert_eq!(written.num_rows, num_rows);
        // The values that the dictionary of the table already had keep their keys.
        for (id, before) in appends_to.into_iter().flat_map(Snapshot::dictionaries) {
            let after = &written.snapshot.dictionaries()[id];
            prop_assert_eq!(&after.slice(0, before.len()), before);
        }
        expect_no_orphans(&store);
    }
}

#[test]
fn staged_fragments_whose_dictionaries_continue_each_other_keep_their_files() {
    let store = memory();
    let create = WriteOptions::default();
    let write = |tags| stage(&store, None, &[words(tags)], &create);
    let staged = [
        write(&["a"]),
        write(&["a", "b", "c"]),
        write(&["a", "b", "a"]),
    ];
    let before = data_files(&store);
    let written = try_commit(&store, None, &staged, &create).unwrap();
    assert_eq!(data_files(&store), before);
    assert_eq!(
        tags(&written.snapshot),
        some(&["a", "a", "b", "c", "a", "b", "a"])
    );
    // Only the staged fragment whose dictionary does not continue the others is written again.
    let one = written.snapshot;
    let append = mode(WriteMode::Append);
    let more = |tags| stage(&store, Some(&one), &[words(tags)], &append);
    let staged = [more(&["x"]), more(&["c", "y", "x"]), more(&["b"])];
    let before = data_files(&store);
    let written = try_commit(&store, Some(&one), &staged, &append).unwrap();
    let after = data_files(&store);
    let gone: Vec<_> = before.difference(&after).cloned().collect();
    assert_eq!(gone, staged[0].paths());
    assert_eq!(
        tags(&written.snapshot)[7..],
        some(&["x", "c", "y", "x", "b"])
    );
    let id = one.schema().fields[0].id;
    let values = texts(&written.snapshot.dictionaries()[&id]);
    assert_eq!(values, some(&["a", "b", "c", "y", "x"]));
    assert_eq!(written.snapshot.manifest().reader_flags, 0);
    expect_no_orphans(&store);
}

#[test]
fn a_key_type_that_is_too_narrow_for_all_values_is_refused_before_a_file_is_written() {
    let store = memory();
    let create = WriteOptions::default();
    let write = |first: i32, count: i32| {
        let tags: Vec<String> = (first..first + count).map(|it| it.to_string()).collect();
        let tags: Vec<_> = tags.iter().map(|it| Some(it.as_str())).collect();
        stage(
            &store,
            None,
            &[tagged(&DataType::Int8, false, &tags)],
            &create,
        )
    };
    let (one, two, three) = (write(0, 100), write(72, 56), write(128, 1));
    let before = files(&store);
    let all = [one.clone(), two.clone(), three];
    let error = try_commit(&store, None, &all, &create).unwrap_err();
    assert_eq!(error.kind(), "invalid_input", "{error}");
    for part in [
        "column `tag`",
        "129 distinct values",
        "3 written parts",
        "int8 keys count 128",
        "wider",
    ] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    assert_eq!(files(&store), before);
    // As many values as int8 keys allow: the staged fragments of the refused commit can still be committed.
    let written = try_commit(&store, None, &[one, two], &create).unwrap();
    let expected = (0..100).chain(72..128).map(|it| Some(it.to_string()));
    assert_eq!(tags(&written.snapshot), expected.collect::<Vec<_>>());
}

#[test]
fn an_ordered_dictionary_is_never_joined_against_its_order() {
    let create = WriteOptions::default();
    let commit = |dictionaries: [&[&str]; 2]| {
        let store = memory();
        let staged = dictionaries.map(|tags| {
            let tags: Vec<_> = tags.iter().copied().map(Some).collect();
            stage(
                &store,
                None,
                &[tagged(&DataType::Int16, true, &tags)],
                &create,
            )
        });
        try_commit(&store, None, &staged, &create).map(|written| tags(&written.snapshot))
    };
    let good = commit([&["low", "high"], &["low", "middle", "high"]]).unwrap();
    assert_eq!(good, some(&["low", "high", "low", "middle", "high"]));
    let error = commit([&["low", "high"], &["high", "low"]]).unwrap_err();
    assert_eq!(error.kind(), "invalid_input", "{error}");
    let told = error.to_string();
    assert!(
        told.contains("column `tag`") && told.contains("\"high\" before \"low\""),
        "{told}"
    );
}

/// Another append adds a value to the dictionary before the staged fragments are committed: the commit joins their dictionaries
/// with the new one.
#[test]
fn a_commit_continues_a_dictionary_that_grew_meanwhile() {
    let store = memory();
    let one = put(&store, &words(&["a"]), &WriteOptions::default());
    let append = mode(WriteMode::Append);
    let write = |tags| stage(&store, Some(&one), &[words(tags)], &append);
    let staged = [write(&["x", "a"]), write(&["y", "x"])];
    let contested = before_publishing(&store, |store| {
        put(store, &words(&["z"]), &mode(WriteMode::Append));
    });
    let written = try_commit(&contested, Some(&one), &staged, &append).unwrap();
    assert_eq!(
        tags(&written.snapshot),
        some(&["a", "z", "x", "a", "y", "x"])
    );
    expect_no_orphans(&store);
    // An overwrite that was committed meanwhile is a conflict, as for every other append.
    let two = written.snapshot;
    let late = [stage(&store, Some(&two), &[words(&["new"])], &append)];
    put(&store, &words(&["other"]), &mode(WriteMode::Overwrite));
    let before = files(&store);
    let error = try_commit(&store, Some(&two), &late, &append).unwrap_err();
    assert_eq!(error.kind(), "conflict", "{error}");
    assert_eq!(
        data_files(&store).len() + 1,
        before.iter().filter(|it| it.starts_with("data/")).count() + 1
    );
}

/// Another writer adds a value to the dictionary, and then drops a column. The base lacks the value, and the newest version lacks
/// the column, so no version fits the staged fragment.
#[test]
fn dictionary_values_that_the_base_lacks_are_a_conflict_without_a_retry() {
    let store = memory();
    let numbered = |tag| {
        let tags = words(&[tag]);
        let (schema, columns) = (tags.schema(), tags.columns().to_vec());
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        batch(vec![
            (schema.field(0).clone(), Arc::clone(&columns[0])),
            (Field::new("n", DataType::Int64, true), numbers),
        ])
    };
    let append = mode(WriteMode::Append);
    let base = put(&store, &numbered("a"), &WriteOptions::default());
    let late = [stage(&store, Some(&base), &[numbered("b")], &append)];
    put(&store, &numbered("c"), &append);
    let dropped = ["n".to_owned()];
    block_on(open(&store).drop_columns(&dropped, &StatementOptions::default())).unwrap();
    let error = try_commit(&store, Some(&base), &late, &append).unwrap_err();
    assert_eq!(error.kind(), "conflict", "{error}");
    assert_eq!(
        tags(&block_on(Snapshot::newest(&store)).unwrap()),
        some(&["a", "c"])
    );
}
