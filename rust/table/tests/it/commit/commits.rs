//! A commit takes effect exactly once, although writers race and answers of the store are lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Barrier;

use pilum_format::{DeletionFile, DeletionFileKind, NamingScheme};
use pilum_store::failpoint;
use pilum_table::{
    CommitOptions, Error, Operation, Snapshot, Store, Transaction, WriteMode, WriteOptions, commit,
    write,
};

use crate::support::{block_on, fabricated, files, local, memory, open, reader, rows};

fn append_options() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.mode = WriteMode::Append;
    options
}

fn create(store: &Store) -> Snapshot {
    block_on(write(
        store,
        reader(&[rows(0, 1)]),
        &WriteOptions::default(),
    ))
    .unwrap()
    .snapshot
}

fn append(base: &Snapshot, name: &str) -> Transaction {
    let fragments = vec![fabricated(name)];
    Transaction::new(base.version(), Operation::Append { fragments })
}

fn paths(snapshot: &Snapshot) -> Vec<String> {
    snapshot
        .fragments()
        .iter()
        .map(|fragment| fragment.files[0].path.clone())
        .collect()
}

fn race(store: &Store, writers: usize, each: usize) {
    let base = create(store);
    let start = Barrier::new(writers);
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (store, base, start) = (store.clone(), &base, &start);
            scope.spawn(move || {
                start.wait();
                for number in 0..each {
                    // Always over the first version: every commit must look at all that came since.
                    let transaction = append(base, &format!("{writer}-{number}"));
                    let mut options = CommitOptions::default();
                    options.retries = 1000;
                    block_on(commit(&store, Some(base), transaction, &options)).unwrap();
                }
            });
        }
    });
    let newest = open(store);
    assert_eq!(newest.version(), 1 + (writers * each) as u64);
    let committed = paths(newest.snapshot());
    let names: BTreeSet<_> = committed.iter().skip(1).cloned().collect();
    let expected: BTreeSet<_> = (0..writers)
        .flat_map(|writer| (0..each).map(move |number| format!("{writer}-{number}.lance")))
        .collect();
    assert_eq!(names, expected, "every append is there");
    assert_eq!(committed.len(), expected.len() + 1, "and only once");
    let ids: BTreeSet<_> = newest
        .fragments()
        .iter()
        .map(|fragment| fragment.id)
        .collect();
    assert_eq!(ids.len(), committed.len());
    assert!(files(store).iter().all(|it| !it.contains(".tmp")));
}

#[test]
fn eight_writers_append_twenty_times_each_in_memory() {
    race(&memory(), 8, 20);
}

#[test]
fn four_writers_append_ten_times_each_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    race(&local(&folder.path().join("table")), 4, 10);
}

#[test]
fn one_of_many_creations_wins_and_the_others_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for store in [memory(), local(&folder.path().join("table"))] {
        let start = Barrier::new(6);
        let results: Vec<_> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..6)
                .map(|writer| {
                    let (store, start) = (store.clone(), &start);
                    scope.spawn(move || {
                        let rows = reader(&[rows(writer, 1)]);
                        start.wait();
                        block_on(write(&store, rows, &WriteOptions::default()))
                    })
                })
                .collect();
            writers
                .into_iter()
                .map(|writer| writer.join().unwrap())
                .collect()
        });
        assert_eq!(results.iter().filter(|it| it.is_ok()).count(), 1);
        for error in results.iter().filter_map(|it| it.as_ref().err()) {
            assert_eq!(error.kind(), "already_exists", "{error}");
        }
        let left = files(&store);
        assert_eq!(left.len(), 3, "data, transaction, manifest: {left:?}");
    }
}

#[test]
fn appends_that_race_to_create_the_table_all_count() {
    let store = memory();
    let start = Barrier::new(6);
    std::thread::scope(|scope| {
        for writer in 0..6 {
            let (store, start) = (store.clone(), &start);
            scope.spawn(move || {
                let rows = reader(&[rows(writer * 10, 10)]);
                start.wait();
                block_on(write(&store, rows, &append_options())).unwrap();
            });
        }
    });
    let table = open(&store);
    assert_eq!((table.version(), table.num_rows()), (6, 60));
}

#[test]
fn a_commit_whose_answer_was_lost_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lost-answer");
    let store = local(&path);
    let base = create(&store);
    // The name is linked, then the folder cannot be made durable: nobody knows.
    let only = format!("{}/_versions", path.to_str().unwrap());
    let armed = failpoint::arm("create.before_folder_fsync=error", &only);
    let transaction = append(&base, "a");
    let committed = block_on(commit(
        &store,
        Some(&base),
        transaction,
        &CommitOptions::default(),
    ));
    drop(armed);
    let committed = committed.unwrap();
    assert_eq!((committed.snapshot.version(), committed.attempts), (2, 2));
    assert!(!committed.was_committed_before);
    assert_eq!(open(&store).fragments().len(), 2);
}

#[test]
fn a_commit_that_certainly_failed_leaves_the_table_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full-disk");
    let store = local(&path);
    create(&store);
    let before = files(&store);
    let only = format!("{}/_versions", path.to_str().unwrap());
    let armed = failpoint::arm("create.before_link=error", &only);
    let failed = block_on(write(&store, reader(&[rows(1, 4)]), &append_options()));
    drop(armed);
    assert_eq!(failed.unwrap_err().kind(), "store");
    assert_eq!(files(&store), before);
    assert_eq!(open(&store).version(), 1);
}

#[test]
fn a_commit_id_commits_once() {
    let folder = tempfile::tempdir().unwrap();
    for store in [memory(), local(&folder.path().join("table"))] {
        let options = || {
            let mut options = append_options();
            options.commit_id = Some("batch 7/é".to_owned());
            options
        };
        let first = block_on(write(&store, reader(&[rows(0, 3)]), &options())).unwrap();
        assert!(!first.was_committed_before);
        block_on(write(&store, reader(&[rows(9, 1)]), &append_options())).unwrap();
        let before = files(&store);
        let again = block_on(write(&store, reader(&[rows(0, 3)]), &options())).unwrap();
        assert!(again.was_committed_before);
        assert_eq!((again.snapshot.version(), again.num_rows), (1, 0));
        assert_eq!(files(&store), before);
        assert_eq!(open(&store).num_rows(), 4);
        // Without the marker, the history is searched.
        let marker = before
            .iter()
            .find(|it| it.starts_with("_refs/commits/"))
            .unwrap();
        let bare = br#"{"commit_id":"batch 7/\u00e9","after_version":0}"#;
        block_on(store.put(marker, bare.to_vec().into())).unwrap();
        let again = block_on(write(&store, reader(&[rows(0, 3)]), &options())).unwrap();
        assert!(again.was_committed_before);
        assert_eq!(again.snapshot.version(), 1);
    }
    let mut long = append_options();
    long.commit_id = Some("x".repeat(101));
    let refused = block_on(write(&memory(), reader(&[rows(0, 1)]), &long));
    assert_eq!(refused.unwrap_err().kind(), "invalid_input");
}

#[test]
fn an_announced_commit_id_that_was_never_published_may_be() {
    let store = memory();
    let base = create(&store);
    let mut options = CommitOptions::default();
    options.commit_id = Some("once".to_owned());
    // The first process died after its marker: only the marker is there.
    let marker = br#"{"commit_id":"once","after_version":1}"#;
    block_on(store.create("_refs/commits/6f6e6365.json", marker.to_vec().into())).unwrap();
    let committed = block_on(commit(&store, Some(&base), append(&base, "a"), &options)).unwrap();
    assert!(!committed.was_committed_before);
    let again = block_on(commit(&store, Some(&base), append(&base, "b"), &options)).unwrap();
    assert!(again.was_committed_before);
    assert_eq!(paths(open(&store).snapshot())[1], "a.lance");
}

#[test]
fn threads_with_one_commit_id_commit_once() {
    let store = memory();
    let base = create(&store);
    let start = Barrier::new(8);
    let before: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (store, base, start) = (store.clone(), &base, &start);
                scope.spawn(move || {
                    let mut options = CommitOptions::default();
                    options.commit_id = Some("shared".to_owned());
                    let transaction = append(base, &writer.to_string());
                    start.wait();
                    let committed = block_on(commit(&store, Some(base), transaction, &options));
                    usize::from(committed.unwrap().was_committed_before)
                })
            })
            .collect();
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .sum()
    });
    assert_eq!(before, 7);
    assert_eq!(open(&store).version(), 2);
    let transactions = files(&store)
        .into_iter()
        .filter(|it| it.ends_with(".txn"))
        .count();
    assert_eq!(transactions, 2, "the losers' transactions are gone");
}

fn delete(base: &Snapshot, fragment: u64) -> Transaction {
    let mut updated = base.manifest().fragment(fragment).unwrap().clone();
    updated.deletion = Some(DeletionFile {
        kind: DeletionFileKind::Arrow,
        read_version: base.version(),
        id: 1,
        num_deleted_rows: 1,
        crc32c: None,
    });
    let operation = Operation::Delete {
        updated: vec![updated],
        removed_ids: vec![],
        predicate: "true".to_owned(),
    };
    Transaction::new(base.version(), operation)
}

#[test]
fn conflicts_are_values_that_name_both_sides() {
    let store = memory();
    block_on(write(
        &store,
        reader(&[rows(0, 5)]),
        &WriteOptions::default(),
    ))
    .unwrap();
    let base = open(&store).snapshot().clone();
    let options = CommitOptions::default();
    block_on(commit(&store, Some(&base), delete(&base, 0), &options)).unwrap();
    let before = files(&store);
    let error = block_on(commit(&store, Some(&base), delete(&base, 0), &options)).unwrap_err();
    let Error::Conflict {
        ours,
        theirs,
        version,
        retryable,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (*ours, *theirs, *version, *retryable),
        ("Delete", "Delete", 2, true)
    );
    assert_eq!(error.kind(), "conflict");
    assert_eq!(files(&store), before, "its transaction file is gone");

    // Over an append it is rebased.
    let rebased = block_on(commit(&store, Some(&base), append(&base, "x"), &options)).unwrap();
    assert_eq!(
        (
            rebased.snapshot.version(),
            rebased.snapshot.fragments().len()
        ),
        (3, 2)
    );
    assert!(rebased.snapshot.fragments()[0].deletion.is_some());

    let mut overwrite = WriteOptions::default();
    overwrite.mode = WriteMode::Overwrite;
    block_on(write(&store, reader(&[rows(0, 1)]), &overwrite)).unwrap();
    let error = block_on(commit(&store, Some(&base), append(&base, "y"), &options)).unwrap_err();
    let Error::Conflict {
        theirs,
        version,
        retryable,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    // The delete before it is no conflict, the overwrite is.
    assert_eq!((*theirs, *version, *retryable), ("Overwrite", 4, false));
}

#[test]
fn an_overwrite_without_retries_fails_if_anything_happened() {
    let store = memory();
    let base = create(&store);
    block_on(commit(
        &store,
        Some(&base),
        append(&base, "a"),
        &CommitOptions::default(),
    ))
    .unwrap();
    let operation = || Operation::Overwrite {
        fragments: vec![],
        fields: base.manifest().fields.clone(),
        schema_metadata: BTreeMap::new(),
        config_upserts: BTreeMap::new(),
    };
    let overwrite = |retries| {
        let mut options = CommitOptions::default();
        options.retries = retries;
        block_on(commit(
            &store,
            Some(&base),
            Transaction::new(1, operation()),
            &options,
        ))
    };
    assert_eq!(overwrite(0).unwrap_err().kind(), "conflict");
    assert_eq!(overwrite(1).unwrap().snapshot.version(), 3);
}

#[test]
fn a_version_without_its_transaction_stops_a_commit_that_did_not_know_it() {
    let store = memory();
    let base = create(&store);
    let mut manifest = base.manifest().as_ref().clone();
    manifest.version = 2;
    manifest.transaction_file = "0-gone.txn".to_owned();
    let bytes = pilum_format::ManifestFile {
        manifest,
        transaction: None,
    }
    .encode()
    .unwrap();
    block_on(store.create(&format!("_versions/{}", NamingScheme::V2.name(2)), bytes)).unwrap();
    let options = CommitOptions::default();
    let error = block_on(commit(&store, Some(&base), append(&base, "a"), &options)).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Conflict {
                retryable: false,
                ..
            }
        ),
        "{error}"
    );
    // From that version on it is no obstacle.
    let base = open(&store).snapshot().clone();
    block_on(commit(&store, Some(&base), append(&base, "a"), &options)).unwrap();
}

#[test]
fn an_append_costs_three_writes_and_one_listing() {
    let store = memory();
    create(&store);
    let before = store.counters();
    block_on(write(&store, reader(&[rows(1, 4)]), &append_options())).unwrap();
    let cost = store.counters().since(&before);
    assert_eq!(cost.writes, 3, "data, transaction, manifest: {cost:?}");
    // Opening the newest version, and looking again before the commit.
    assert_eq!((cost.lists, cost.reads), (2, 1), "{cost:?}");
}

#[test]
fn times_never_run_backwards() {
    let store = memory();
    let base = create(&store);
    let mut manifest = base.manifest().as_ref().clone();
    manifest.version = 2;
    manifest.timestamp += chrono::TimeDelta::days(1);
    let future = manifest.timestamp;
    let bytes = pilum_format::ManifestFile {
        manifest,
        transaction: None,
    }
    .encode()
    .unwrap();
    block_on(store.create(&format!("_versions/{}", NamingScheme::V2.name(2)), bytes)).unwrap();
    let base = open(&store).snapshot().clone();
    let options = CommitOptions::default();
    let next = block_on(commit(&store, Some(&base), append(&base, "a"), &options)).unwrap();
    assert_eq!(next.snapshot.manifest().timestamp, future);
}
