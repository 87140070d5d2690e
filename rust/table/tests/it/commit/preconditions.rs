//! `expect`: what a caller relies on must hold at the instant of the commit.

use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_schema::{DataType, Field};
use pilum_table::{
    ColumnChange, CommitOptions, CompactOptions, Dataset, Error, MergeOptions, Precondition,
    Reason, StatementOptions, Store, VersionRef, WhenNotMatched, WriteMode, WriteOptions,
    parse_sql, write,
};

use crate::support::{
    append, batch, before_publishing, block_on, create, delete, expect_no_orphans, files, ids,
    memory, open, reader, rows, runtime,
};

fn no_rows(predicate: &str) -> Precondition {
    Precondition::NoRows {
        predicate: parse_sql(predicate).unwrap(),
        handle: runtime().handle().clone(),
    }
}

fn try_append(store: &Store, first: i64, expect: Precondition) -> Result<u64, Error> {
    let mut options = WriteOptions::default();
    options.mode = WriteMode::Append;
    options.expect = Some(expect);
    let written = runtime().block_on(write(store, reader(&[rows(first, 1)]), &options))?;
    Ok(written.snapshot.version())
}

#[test]
fn a_version_that_is_not_the_newest_any_more_is_a_conflict() {
    let store = memory();
    create(&store, &rows(0, 5), false);
    assert_eq!(try_append(&store, 5, Precondition::Version(1)).unwrap(), 2);
    let before = files(&store);
    let error = try_append(&store, 6, Precondition::Version(1)).unwrap_err();
    let Error::Conflict {
        version,
        theirs,
        reason,
        retryable,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((*version, *theirs, *retryable), (2, "Append", false));
    assert_eq!(*reason, Reason::NotVersion(1));
    let mut options = StatementOptions::default();
    options.expect = Some(Precondition::Version(1));
    let (runtime, table) = (runtime(), open(&store));
    let predicate = parse_sql("id = 77").unwrap();
    // Told even where there is nothing to do.
    let deleted = table.delete(&predicate, &options, runtime.handle());
    assert_eq!(runtime.block_on(deleted).unwrap_err().kind(), "conflict");
    let set = [("id".to_owned(), parse_sql("id + 1").unwrap())];
    let updated = table.update(&set, None, &options, runtime.handle());
    assert_eq!(runtime.block_on(updated).unwrap_err().kind(), "conflict");
    assert_eq!(files(&store), before);
    options.expect = Some(Precondition::Version(2));
    let updated = table.update(&set, None, &options, runtime.handle());
    assert_eq!(runtime.block_on(updated).unwrap().num_updated_rows, 6);
}

#[test]
fn a_table_that_is_not_there_is_version_0() {
    let store = memory();
    let error = try_append(&store, 0, Precondition::Version(3)).unwrap_err();
    assert_eq!(error.kind(), "not_found");
    assert_eq!(try_append(&store, 0, Precondition::Version(0)).unwrap(), 1);
    assert_eq!(
        try_append(&store, 0, Precondition::Version(0))
            .unwrap_err()
            .kind(),
        "conflict"
    );
}

#[test]
fn rows_that_should_not_be_there_are_named() {
    let store = memory();
    create(&store, &rows(0, 5), false);
    assert_eq!(try_append(&store, 9, no_rows("id = 9")).unwrap(), 2);
    let before = files(&store);
    let error = try_append(&store, 9, no_rows("id = 9")).unwrap_err();
    let Error::Conflict {
        reason,
        retryable: false,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    let Reason::Expected { predicate, row_ids } = reason else {
        panic!("{error}");
    };
    assert_eq!(
        (predicate.as_str(), row_ids.as_slice()),
        ("id = 9", &[1 << 32][..])
    );
    assert_eq!(files(&store), before);
    delete(&store, "id = 9");
    assert_eq!(try_append(&store, 9, no_rows("id = 9")).unwrap(), 4);
    expect_no_orphans(&store);
}

#[test]
fn compactions_and_restores_may_expect_too() {
    let store = memory();
    create(&store, &rows(0, 5), false);
    append(&store, &rows(5, 5));
    let compacted = |expect: Precondition| {
        let mut options = CompactOptions::default();
        options.statement.expect = Some(expect);
        let (runtime, table) = (runtime(), open(&store));
        let compacted = table.compact(&options, runtime.handle());
        runtime.block_on(compacted)
    };
    let before = files(&store);
    for wrong in [Precondition::Version(1), no_rows("id = 7")] {
        assert_eq!(compacted(wrong).unwrap_err().kind(), "conflict");
    }
    assert_eq!(files(&store), before);
    // Its own commit, that takes fragment ids, is none that it did not expect.
    let done = compacted(Precondition::Version(2)).unwrap();
    assert_eq!(done.committed.snapshot.version(), 4);
    append(&store, &rows(10, 1));
    assert_eq!(
        compacted(no_rows("id = 77")).unwrap().num_removed_fragments,
        2
    );
    let restored = |expect: Precondition| {
        let old = block_on(Dataset::open_in(&store, &VersionRef::Number(1))).unwrap();
        let mut options = CommitOptions::default();
        options.expect = Some(expect);
        block_on(old.restore(&options))
    };
    let before = files(&store);
    for wrong in [Precondition::Version(6), no_rows("id = 10")] {
        assert_eq!(restored(wrong).unwrap_err().kind(), "conflict");
    }
    assert_eq!(files(&store), before);
    let done = restored(Precondition::Version(7)).unwrap();
    assert_eq!(ids(&done.snapshot), [0, 1, 2, 3, 4]);
    expect_no_orphans(&store);
}

/// Nothing is added, and yet a row is there that was not: a restore brings it back, or another column gets the name.
#[test]
fn rows_that_come_back_and_columns_that_change_names_are_looked_at() {
    let store = memory();
    create(&store, &rows(0, 10), false);
    delete(&store, "id = 7");
    let restoring = before_publishing(&store, |store| {
        let old = block_on(Dataset::open_in(store, &VersionRef::Number(1))).unwrap();
        block_on(old.restore(&CommitOptions::default())).unwrap();
    });
    let mut options = WriteOptions::default();
    options.mode = WriteMode::Overwrite;
    options.expect = Some(no_rows("id = 7"));
    let error = block_on(write(&restoring, reader(&[rows(50, 1)]), &options)).unwrap_err();
    assert_eq!(error.kind(), "conflict", "{error}");
    assert_eq!(ids(open(&store).snapshot()), (0..10).collect::<Vec<_>>());
    expect_no_orphans(&store);

    let store = memory();
    let column = |name: &str, value: i64| {
        let field = Field::new(name, DataType::Int64, false);
        (field, Arc::new(Int64Array::from(vec![value])) as _)
    };
    create(&store, &batch(vec![column("a", 1), column("b", 7)]), false);
    let rename = |path: &str, name: &str| {
        let (path, name) = (path.to_owned(), Some(name.to_owned()));
        ColumnChange {
            path,
            name,
            ..ColumnChange::default()
        }
    };
    let swapping = before_publishing(&store, move |store| {
        let changes = [rename("a", "b"), rename("b", "a")];
        let (options, runtime) = (StatementOptions::default(), runtime());
        let table = open(store);
        let swapped = table.alter_columns(&changes, &options, runtime.handle());
        runtime.block_on(swapped).unwrap();
    });
    options.mode = WriteMode::Append;
    options.expect = Some(no_rows("a = 7"));
    let more = batch(vec![column("a", 2), column("b", 3)]);
    let error = block_on(write(&swapping, reader(&[more]), &options)).unwrap_err();
    assert_eq!(error.kind(), "conflict", "{error}");
    assert!(error.to_string().contains("a = 7"), "{error}");
    assert_eq!(open(&store).num_rows(), 1);
    expect_no_orphans(&store);
}

/// Two writers that each add a row because the other's is not there: one of them fails.
#[test]
fn what_came_between_reading_and_committing_is_looked_at() {
    for (theirs, holds) in [(7, false), (8, true)] {
        let store = memory();
        create(&store, &rows(0, 5), false);
        let mut options = MergeOptions::default();
        options.when_not_matched = WhenNotMatched::Insert;
        options.statement.expect = Some(no_rows("id = 7"));
        let source = {
            let (store, source) = (store.clone(), rows(6, 1));
            let schema = source.schema();
            let batches = std::iter::once(source).map(move |source| {
                append(&store, &rows(theirs, 1));
                Ok(source)
            });
            arrow_array::RecordBatchIterator::new(batches, schema)
        };
        let (runtime, table) = (runtime(), open(&store));
        let on = ["id".to_owned()];
        let merged = table.merge_insert(&on, source, &options, runtime.handle());
        match runtime.block_on(merged) {
            Ok(merged) => assert!(holds, "{merged:?}"),
            Err(error) => {
                assert!(!holds, "{error}");
                assert_eq!(error.kind(), "conflict");
                assert!(error.to_string().contains("id = 7"), "{error}");
            }
        }
        let mut wanted = vec![0, 1, 2, 3, 4, theirs];
        wanted.extend(holds.then_some(6));
        assert_eq!(ids(open(&store).snapshot()), wanted);
        expect_no_orphans(&store);
    }
}
