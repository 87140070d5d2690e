//! Batches of streams: whatever is repeated, and whoever commits at the same time, every batch is in the table once.

use std::collections::BTreeMap;

use pilum_table::{
    Error, Reason, StatementOptions, Store, WriteMode, WriteOptions, Written, write,
};

use crate::support::{
    append, before_publishing, block_on, create, ids, memory, open, reader, rows, runtime,
};

fn properties(batch: u64, run: &str) -> BTreeMap<String, String> {
    let pairs = [("app", "s"), ("batch", &batch.to_string()), ("run", run)];
    let named = pairs.map(|(key, value)| (format!("pilum.stream.{key}"), value.to_owned()));
    BTreeMap::from(named)
}

fn commit_batch(store: &Store, batch: u64, run: &str) -> Result<Written, Error> {
    let mut options = WriteOptions::default();
    options.mode = WriteMode::Append;
    options.properties = properties(batch, run);
    let first = i64::try_from(batch * 10).unwrap();
    block_on(write(store, reader(&[rows(first, 10)]), &options))
}

fn recorded(store: &Store) -> String {
    open(store).snapshot().manifest().config["pilum.stream.s"].clone()
}

#[test]
fn a_repeated_batch_changes_nothing() {
    let store = memory();
    // The first batch makes the table.
    for batch in [0, 0, 1, 0, 1, 5, 5, 3] {
        let before = matches!(batch, 0 | 1 | 5) && !ids_have(&store, batch * 10);
        let written = commit_batch(&store, batch, "a").unwrap();
        assert_eq!(written.was_committed_before, !before, "batch {batch}");
    }
    assert_eq!(open(&store).version(), 3);
    assert_eq!(recorded(&store), "5 a");
    // The record outlives other commits and an overwrite of the rows.
    append(&store, &rows(1000, 5));
    let mut options = WriteOptions::default();
    options.mode = WriteMode::Overwrite;
    block_on(write(&store, reader(&[rows(0, 1)]), &options)).unwrap();
    assert_eq!(recorded(&store), "5 a");
    assert!(commit_batch(&store, 5, "a").unwrap().was_committed_before);
    assert!(!commit_batch(&store, 6, "a").unwrap().was_committed_before);
}

fn ids_have(store: &Store, id: u64) -> bool {
    match block_on(pilum_table::Dataset::open_in(
        store,
        &pilum_table::VersionRef::Latest,
    )) {
        Ok(table) => ids(table.snapshot()).contains(&i64::try_from(id).unwrap()),
        Err(_) => false,
    }
}

#[test]
fn of_two_that_commit_one_batch_at_once_one_does() {
    let store = memory();
    create(&store, &rows(500, 5), false);
    let rival = before_publishing(&store, |store| {
        commit_batch(store, 7, "b").unwrap();
    });
    // Both looked before either had committed; the second one sees the first inside its loop.
    assert!(commit_batch(&rival, 7, "a").unwrap().was_committed_before);
    assert_eq!(recorded(&store), "7 b");
    assert_eq!(ids(open(&store).snapshot()).len(), 15);
}

#[test]
fn a_run_that_another_one_followed_is_refused() {
    let store = memory();
    commit_batch(&store, 0, "a").unwrap();
    // A restarted stream repeats its batch, and claims the stream.
    assert!(commit_batch(&store, 0, "b").unwrap().was_committed_before);
    let mut claim = StatementOptions::default();
    claim.properties = properties(0, "b");
    let is_claim = ("pilum.stream.claim".to_owned(), "true".to_owned());
    claim.properties.extend([is_claim]);
    let mut update = pilum_table::ConfigUpdate::default();
    let value = Some("claimed".to_owned());
    update.config.entries = [("pilum.stream.s".to_owned(), value)].into();
    runtime()
        .block_on(open(&store).update_config(&update, &claim))
        .unwrap();
    assert_eq!(recorded(&store), "0 b a");
    let error = commit_batch(&store, 1, "a").unwrap_err();
    let Error::Conflict {
        reason: Reason::StreamRun(run),
        retryable: false,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(run, "b of stream s");
    assert!(error.to_string().contains("checkpoint"), "{error}");
    commit_batch(&store, 1, "b").unwrap();
    assert_eq!(recorded(&store), "1 b a");
    assert_eq!(open(&store).version(), 3);
}
