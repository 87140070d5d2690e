//! Writing tables and looking at their versions.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
    StructArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use chrono::TimeDelta;
use pilum_table::{
    CommitOptions, Compat, Dataset, Manifest, ManifestFile, NamingScheme, Projection, Snapshot,
    Store, VersionRef, WriteMode, WriteOptions, commit_fragments, write, write_fragments,
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
        "`id` is Utf8, the table stores Int64",
        "`name` is missing",
        "`extra` is not in the table",
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(files(&store), before);
    assert_eq!(open(&store).version(), 2);
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
    let strict = options(|it| it.compat = Compat::Lance);
    let error = block_on(write(&store, reader(std::slice::from_ref(&nulls)), &strict)).unwrap_err();
    assert_eq!(error.kind(), "invalid_input", "{error}");
    assert!(files(&store).is_empty(), "{:?}", files(&store));
    let one = put(&store, &[nulls], &WriteOptions::default());
    assert_eq!(one.manifest().reader_flags, 1 << 56);
    assert_eq!(one.manifest().writer_flags, 1 << 56);
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

#[test]
fn what_is_no_table_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let open_at = |path: &std::path::Path| {
        block_on(Dataset::open_in(&local(path), &VersionRef::Latest)).unwrap_err()
    };
    let missing = open_at(&folder.path().join("missing"));
    assert_eq!(missing.kind(), "not_found");
    assert!(missing.to_string().contains("missing"), "{missing}");
    let bare = open_at(folder.path());
    assert_eq!(bare.kind(), "not_found");
    assert!(bare.to_string().contains("no _versions"), "{bare}");
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    assert!(
        open_at(&file).to_string().contains("file"),
        "{}",
        open_at(&file)
    );
    let by_tag = VersionRef::Tag("a".to_owned());
    assert_eq!(
        kind(block_on(Dataset::open_in(&memory(), &by_tag))),
        "not_found"
    );
    assert_eq!(
        kind(block_on(Dataset::open_in(
            &memory(),
            &VersionRef::Number(0)
        ))),
        "not_found"
    );
}

/// A table whose newest manifest was changed by hand.
fn changed(change: impl FnOnce(&mut Manifest)) -> Store {
    let store = memory();
    put(&store, &[rows(0, 2)], &WriteOptions::default());
    let mut manifest = open(&store).snapshot().manifest().as_ref().clone();
    manifest.version = 2;
    change(&mut manifest);
    let bytes = ManifestFile {
        manifest,
        transaction: None,
    }
    .encode()
    .unwrap();
    block_on(store.create(&format!("_versions/{}", NamingScheme::V2.name(2)), bytes)).unwrap();
    store
}

#[test]
fn tables_beyond_us_are_refused_by_name() {
    let refused = |change: fn(&mut Manifest)| {
        let error = block_on(Snapshot::newest(&changed(change))).unwrap_err();
        (error.kind(), error.to_string())
    };
    let (kind, text) = refused(|it| it.reader_flags = 1 << 6 | 1 << 40);
    assert_eq!(kind, "unsupported");
    assert!(text.contains("bit 6 (overlay files), 40"), "{text}");
    let (kind, text) = refused(|it| it.data_format = Some("2.1".to_owned()));
    assert_eq!(kind, "unsupported");
    assert!(text.contains("2.1") && text.contains("memory://"), "{text}");
    let (kind, text) = refused(|it| it.fragments[0].files[0].file_version = (2, 0));
    assert_eq!(kind, "unsupported");
    assert!(text.contains("file version 2.0"), "{text}");
    assert_eq!(
        refused(|it| it.fragments[0].files[0].path = "../x".to_owned()).0,
        "corrupt"
    );
    assert_eq!(refused(|it| it.version = 3).0, "corrupt");

    // A writer flag forbids writing only.
    let store = changed(|it| it.writer_flags |= 1 << 20);
    assert_eq!(open(&store).num_rows(), 2);
    let before = files(&store);
    let append = block_on(write(
        &store,
        reader(&[rows(2, 1)]),
        &mode(WriteMode::Append),
    ));
    let error = append.unwrap_err();
    assert!(
        error.to_string().contains("writer feature flag bit 20"),
        "{error}"
    );
    assert_eq!(files(&store), before);
}

#[test]
fn counts_that_an_old_writer_left_out_are_looked_up() {
    let store = changed(|it| {
        it.writer = None;
        it.fragments[0].physical_rows = 90;
    });
    assert_eq!(open(&store).num_rows(), 2);
    let next = put(&store, &[rows(2, 1)], &mode(WriteMode::Append));
    assert_eq!((next.num_rows(), next.fragments()[0].physical_rows), (3, 2));
}

#[test]
fn both_naming_schemes_at_once_are_refused() {
    let store = memory();
    put(&store, &[rows(0, 2)], &WriteOptions::default());
    let bytes = open(&store).snapshot().manifest().as_ref().clone();
    let bytes = ManifestFile {
        manifest: bytes,
        transaction: None,
    }
    .encode()
    .unwrap();
    block_on(store.create("_versions/1.manifest", bytes)).unwrap();
    assert_eq!(kind(block_on(Snapshot::newest(&store))), "corrupt");
}

#[test]
fn a_damaged_manifest_names_its_file() {
    let store = memory();
    put(&store, &[rows(0, 2)], &WriteOptions::default());
    let path = format!("_versions/{}", NamingScheme::V2.name(1));
    let bytes = block_on(store.read(&path, 1 << 20)).unwrap();
    let mut damaged = bytes.to_vec();
    damaged[bytes.len() / 2] ^= 1;
    for bad in [
        damaged,
        bytes[..bytes.len() - 1].to_vec(),
        Vec::new(),
        b"LANC".repeat(9),
    ] {
        block_on(store.put(&path, bad.into())).unwrap();
        let error = block_on(Snapshot::newest(&store)).unwrap_err();
        assert_eq!(error.kind(), "corrupt");
        assert!(error.to_string().contains(&path), "{error}");
    }
}
