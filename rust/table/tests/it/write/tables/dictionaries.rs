//! Dictionaries that grow over writes and appends.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int64Array, RecordBatch, StructArray};
use arrow_schema::{DataType, Field};
use pilum_table::{
    Compat, Snapshot, WriteMode, WriteOptions, commit_fragments, write, write_fragments,
};

use super::{all, kind, mode, options, put};
use crate::support::{batch, block_on, files, memory, open, reader, rows};

fn words(values: &[Option<&str>]) -> ArrayRef {
    let array: DictionaryArray<Int8Type> = values.iter().copied().collect();
    Arc::new(array)
}

fn tagged(values: &[Option<&str>]) -> RecordBatch {
    let array = words(values);
    let field = Field::new("tag", array.data_type().clone(), true);
    let item = Field::new("inner", array.data_type().clone(), true);
    let nested = StructArray::from(vec![(Arc::new(item), words(values))]);
    batch(vec![
        (field, array),
        (
            Field::new("nested", nested.data_type().clone(), true),
            Arc::new(nested),
        ),
    ])
}

fn text(array: &ArrayRef) -> Vec<Option<String>> {
    let array = arrow_cast::cast(array, &DataType::Utf8).unwrap();
    array
        .as_string::<i32>()
        .iter()
        .map(|it| it.map(str::to_owned))
        .collect()
}

#[test]
fn one_dictionary_grows_over_a_write_and_over_appends() {
    let store = memory();
    // Each batch brings its own dictionary; files and pages are cut in the middle of batches.
    let first = [Some("b"), Some("a"), None, Some("b"), Some("")];
    let second = [Some("c"), Some("a"), Some("d"), Some("c")];
    let options = options(|it| {
        it.max_rows_per_file = 4;
        it.max_rows_per_page = Some(3);
    });
    let one = put(&store, &[tagged(&first), tagged(&second)], &options);
    assert_eq!(one.fragments().len(), 3);
    assert!(one.manifest().needs_extension(), "\"\" and null differ");
    let expected: Vec<_> = first
        .iter()
        .chain(&second)
        .map(|it| it.map(str::to_owned))
        .collect();
    let check = |snapshot: &Snapshot, expected: &[Option<String>]| {
        let read = all(snapshot);
        assert_eq!(text(read.column(0)), expected);
        assert_eq!(text(read.column(1).as_struct().column(0)), expected);
    };
    check(&one, &expected);
    let id = one.schema().fields[0].id;
    let values = one.dictionaries()[&id].as_string::<i32>();
    assert_eq!(
        values.iter().flatten().collect::<Vec<_>>(),
        ["b", "a", "", "c", "d"]
    );

    let again = put(
        &store,
        &[tagged(&[Some("d"), Some("a")])],
        &mode(WriteMode::Append),
    );
    let longer: Vec<_> = expected
        .iter()
        .cloned()
        .chain(["d", "a"].map(|it| Some(it.to_owned())))
        .collect();
    check(&again, &longer);
    check(open(&store).snapshot(), &longer);
    let values =
        |snapshot: &Snapshot| -> Vec<Option<String>> { text(&snapshot.dictionaries()[&id]) };
    assert_eq!(values(&again), values(&one));
    let new = put(
        &store,
        &[tagged(&[Some("new"), Some("d")])],
        &mode(WriteMode::Append),
    );
    let more = ["new", "d"].map(|it| Some(it.to_owned()));
    let longest: Vec<_> = longer.iter().cloned().chain(more).collect();
    check(&new, &longest);
    assert_eq!(values(&new)[..5], values(&one));
    assert_eq!(values(&new)[5..], [Some("new".to_owned())]);
    // Versions before know nothing of it.
    check(&again, &longer);
    let restored = block_on(Snapshot::at_version(&store, 1)).unwrap();
    assert_eq!(values(&restored), values(&one));
    check(&restored, &expected);
}

/// Files that were written while another append gave the dictionary other values cannot be committed as they are.
#[test]
fn keys_of_a_dictionary_that_went_on_otherwise_are_never_committed() {
    let store = memory();
    let one = put(&store, &[tagged(&[Some("a")])], &WriteOptions::default());
    let append = mode(WriteMode::Append);
    let piece = |value: &str| {
        let rows = reader(&[tagged(&[Some(value)])]);
        block_on(write_fragments(&store, Some(&one), rows, &append)).unwrap()
    };
    let (x, y, again) = (piece("x"), piece("y"), piece("x"));
    let commit = |piece| block_on(commit_fragments(&store, Some(one.clone()), piece, &append));
    commit(x).unwrap();
    let error = commit(y).unwrap_err();
    assert_eq!(error.kind(), "conflict", "{error}");
    assert!(
        error.to_string().contains("dictionary of column `tag`"),
        "{error}"
    );
    // The same values in the same order mean the same keys.
    let snapshot = commit(again).unwrap().snapshot;
    let values: Vec<_> = text(all(&snapshot).column(0))
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(values, ["a", "x", "x"]);
}

#[test]
fn compat_lance_refuses_what_would_be_lost_and_lossless_flags_it() {
    let nulls = batch(vec![(
        Field::new("n", DataType::Int64, true),
        Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef,
    )]);
    let store = memory();
    let strict = options(|it| it.compat = Some(Compat::Lance));
    let error = block_on(write(&store, reader(std::slice::from_ref(&nulls)), &strict)).unwrap_err();
    assert_eq!(error.kind(), "invalid_input", "{error}");
    assert!(files(&store).is_empty(), "{:?}", files(&store));
    let one = put(&store, &[nulls], &WriteOptions::default());
    assert_eq!(one.manifest().reader_flags, 1 << 56);
    // The recorded compat is part of the config.
    assert_eq!(one.manifest().writer_flags, 1 << 56 | 1 << 3);
    let plain = put(&memory(), &[rows(0, 3)], &strict);
    assert_eq!(plain.manifest().reader_flags, 0);
    assert!(plain.manifest().is_checksummed);
    // A dictionary with "" needs the extension too, and is refused in time.
    let store = memory();
    let empty = reader(&[tagged(&[Some(""), Some("x")])]);
    assert_eq!(
        kind(block_on(write(&store, empty, &strict))),
        "invalid_input"
    );
    assert!(files(&store).is_empty(), "{:?}", files(&store));
}
