//! Deletes: which rows go, what is written, and who wins.

use std::collections::BTreeSet;
use std::sync::Barrier;

use pilum_format::DeletionFileKind;
use pilum_table::{DeleteOutcome, Expr, StatementOptions, Store, parse_sql};

use crate::support::{
    append, create, delete, delete_with, expect_no_orphans, files, ids, local, memory, open, rows,
    runtime,
};

fn sql(text: &str) -> Expr {
    parse_sql(text).unwrap()
}

#[test]
fn matching_rows_go_and_nulls_stay() {
    let store = memory();
    create(&store, &rows(0, 10), false);
    append(&store, &rows(10, 10));
    // `name` is null where the id is a multiple of 3: neither true nor false there.
    let gone = delete(&store, "name != 'name 4'");
    assert_eq!(
        (gone.num_deleted_rows, gone.committed.snapshot.version()),
        (12, 3)
    );
    assert_eq!(ids(&gone.committed.snapshot), [0, 3, 4, 6, 9, 12, 15, 18]);
    let gone = delete(&store, "name IS NULL AND id < 10");
    assert_eq!(gone.num_deleted_rows, 4);
    assert_eq!(ids(&gone.committed.snapshot), [4, 12, 15, 18]);
    let table = open(&store);
    let fragment = &table.fragments()[0];
    let file = fragment.deletion.as_ref().unwrap();
    assert_eq!((file.num_deleted_rows, file.read_version), (9, 3));
    assert_eq!(file.kind, DeletionFileKind::Arrow);
    assert!(file.crc32c.is_some());
    expect_no_orphans(&store);
}

#[test]
fn without_a_match_nothing_is_written() {
    let store = memory();
    create(&store, &rows(0, 10), false);
    let before = files(&store);
    let gone = delete(&store, "id > 99");
    assert_eq!(
        (gone.num_deleted_rows, gone.committed.snapshot.version()),
        (0, 1)
    );
    assert_eq!((files(&store), open(&store).version()), (before, 1));
}

#[test]
fn a_fragment_without_rows_goes_and_many_rows_are_a_bitmap() {
    let store = memory();
    create(&store, &rows(0, 5), false);
    append(&store, &rows(5, 12_000));
    let gone = delete(&store, "id < 5 OR id >= 7005");
    assert_eq!(gone.num_deleted_rows, 5005);
    let table = open(&store);
    let [fragment] = table.fragments() else {
        panic!("{:?}", table.fragments())
    };
    let file = fragment.deletion.as_ref().unwrap();
    assert_eq!((fragment.id, file.kind), (1, DeletionFileKind::Bitmap));
    assert_eq!(ids(table.snapshot()), (5..7005).collect::<Vec<_>>());
    // Of an empty table nothing more can be deleted, and it can be written to again.
    assert_eq!(delete(&store, "true").num_deleted_rows, 7000);
    assert!(open(&store).fragments().is_empty());
    append(&store, &rows(1, 1));
    assert_eq!(ids(open(&store).snapshot()), [1]);
    expect_no_orphans(&store);
}

#[test]
fn the_same_commit_id_deletes_once() {
    let store = memory();
    create(&store, &rows(0, 10), false);
    let mut options = StatementOptions::default();
    options.commit_id = Some("once".to_owned());
    assert_eq!(delete_with(&store, "id < 3", &options).num_deleted_rows, 3);
    append(&store, &rows(0, 2));
    let again = delete_with(&store, "id < 3", &options);
    assert!(again.committed.was_committed_before);
    assert_eq!(
        (again.num_deleted_rows, again.committed.snapshot.version()),
        (0, 2)
    );
    assert_eq!(open(&store).num_rows(), 9);
}

#[test]
fn a_predicate_that_does_not_fit_changes_nothing() {
    let store = memory();
    create(&store, &rows(0, 10), false);
    let before = files(&store);
    for bad in ["nothing = 1", "id + 1", "name > 3"] {
        let runtime = runtime();
        let (table, predicate) = (open(&store), sql(bad));
        let options = StatementOptions::default();
        let refused = runtime.block_on(table.delete(&predicate, &options, runtime.handle()));
        assert_eq!(refused.unwrap_err().kind(), "invalid_input", "{bad}");
    }
    assert_eq!(files(&store), before);
}

/// `predicates` at once, one thread each, all over one fragment.
fn race(store: &Store, predicates: &[String]) -> Vec<DeleteOutcome> {
    let start = Barrier::new(predicates.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = predicates
            .iter()
            .map(|predicate| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let mut options = StatementOptions::default();
                    options.retries = 100;
                    options.commit_retries = 100;
                    delete_with(store, predicate, &options)
                })
            })
            .collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

#[test]
fn deletes_of_different_rows_of_one_fragment_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    for store in [memory(), local(folder.path())] {
        create(&store, &rows(0, 400), false);
        for round in 0..5 {
            let from = round * 40;
            let predicates: Vec<String> = (0..4)
                .map(|it| format!("id >= {} AND id < {}", from + it * 10, from + it * 10 + 10))
                .collect();
            let outcomes = race(&store, &predicates);
            assert!(outcomes.iter().all(|it| it.num_deleted_rows == 10));
        }
        let table = open(&store);
        // Nobody's work was lost, and everybody made one version.
        assert_eq!(ids(table.snapshot()), (200..400).collect::<Vec<_>>());
        assert_eq!(table.version(), 21);
        expect_no_orphans(&store);
    }
}

#[test]
fn of_deletes_of_the_same_rows_each_row_counts_once() {
    let store = memory();
    create(&store, &rows(0, 100), false);
    let predicates: Vec<String> = (0..4).map(|it| format!("id < {}", 50 + it)).collect();
    let outcomes = race(&store, &predicates);
    let sum: u64 = outcomes.iter().map(|it| it.num_deleted_rows).sum();
    assert_eq!(sum, 53);
    let table = open(&store);
    assert_eq!(ids(table.snapshot()), (53..100).collect::<Vec<_>>());
    let versions: BTreeSet<u64> = outcomes
        .iter()
        .filter(|it| it.num_deleted_rows > 0)
        .map(|it| it.committed.snapshot.version())
        .collect();
    assert_eq!(table.version(), 1 + versions.len() as u64);
    expect_no_orphans(&store);
}
