//! The events that writes, statements and maintenance send to `tracing`.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use pilum_store::testing::{Fate, Script, Verb};
use pilum_table::{Store, WriteMode, WriteOptions, write};
use pilum_testing::events_of;

use crate::dml::settings::try_config;
use crate::support::{append, block_on, create, delete, memory, open, reader, rows};

/// The only event of a target and level, which has all of these words.
fn expect(events: &[String], start: &str, words: &[&str]) {
    let found: Vec<&String> = events.iter().filter(|it| it.starts_with(start)).collect();
    assert_eq!(found.len(), 1, "{start}: {events:#?}");
    for word in words {
        assert!(found[0].contains(word), "{word}: {}", found[0]);
    }
}

#[test]
fn writes_and_statements_tell_what_they_did() {
    let store = memory();
    let uri = format!("uri=\"{}\"", store.uri());
    let ((), events) = events_of(|| create(&store, &rows(0, 5), false));
    let words = [
        "operation=\"create\"",
        &uri,
        "version=1",
        "rows=5",
        "outcome=\"ok\"",
    ];
    expect(&events, "INFO pilum::table::write", &words);
    let mut options = WriteOptions::default();
    options.mode = WriteMode::Create;
    let again = || block_on(write(&store, reader(&[rows(0, 5)]), &options)).unwrap_err();
    let (_, events) = events_of(again);
    let words = [
        "operation=\"create\"",
        "outcome=\"already_exists\"",
        "error=",
    ];
    expect(&events, "DEBUG pilum::table::write", &words);
    let (_, events) = events_of(|| delete(&store, "id = 1"));
    let words = ["operation=\"Delete\"", &uri, "version=2", "attempts=1"];
    expect(&events, "INFO pilum::table::statement", &words);
    let (_, events) = events_of(|| block_on(open(&store).cleanup(&Default::default())).unwrap());
    let words = [&uri, "versions=0", "files=0", "dry_run=false"];
    expect(&events, "INFO pilum::table::cleanup", &words);
}

/// No file can be deleted.
#[derive(Debug)]
struct NothingIsDeleted;

impl Script for NothingIsDeleted {
    fn fate(&self, verb: Verb, _: &str) -> BoxFuture<'_, Fate> {
        let fate = match verb {
            Verb::Delete => Fate::Fails,
            _ => Fate::Happens,
        };
        std::future::ready(fate).boxed()
    }
}

/// The commit that asks for the cleanup succeeds, so only its result and an event can tell that old versions pile up.
#[test]
fn an_automatic_cleanup_that_fails_is_told() {
    let store = memory();
    create(&store, &rows(0, 5), false);
    append(&store, &rows(5, 5));
    let settings = [
        ("lance.auto_cleanup.interval", Some("4")),
        ("lance.auto_cleanup.retain_versions", Some("1")),
    ];
    try_config(&store, &settings).unwrap();
    let scripted: Store = store.scripted(Arc::new(NothingIsDeleted));
    let mut options = WriteOptions::default();
    options.mode = WriteMode::Append;
    let write = || block_on(write(&scripted, reader(&[rows(10, 5)]), &options)).unwrap();
    let (written, events) = events_of(write);
    assert_eq!(written.snapshot.version(), 4);
    let error = written.cleanup_error.as_ref().unwrap();
    assert_eq!(error.kind(), "store", "{error}");
    let uri = format!("uri=\"{}\"", store.uri());
    let words = [&uri, "version=4", "an automatic cleanup failed", "error="];
    expect(&events, "WARN pilum::table::cleanup", &words);
    // Three versions on it is asked for again, and works.
    for first in 3..6 {
        append(&store, &rows(5 * first, 5));
    }
    let (_, events) = events_of(|| append(&store, &rows(50, 5)));
    expect(
        &events,
        "INFO pilum::table::cleanup",
        &["versions=7", "outcome=\"ok\""],
    );
    assert_eq!(block_on(open(&store).versions()).unwrap().len(), 1);
}

/// The write fails for a reason of its own; that its file stays is only told by the event.
#[test]
fn a_file_that_could_not_be_removed_is_told() {
    let store = memory();
    let scripted: Store = store.scripted(Arc::new(NothingIsDeleted));
    let first = rows(0, 5);
    let schema = first.schema();
    let broken = arrow_schema::ArrowError::ComputeError("the source broke".to_owned());
    let source = arrow_array::RecordBatchIterator::new([Ok(first), Err(broken)], schema);
    let mut options = WriteOptions::default();
    options.max_rows_per_file = 5;
    let (result, events) = events_of(|| block_on(write(&scripted, source, &options)));
    let error = result.unwrap_err();
    assert!(error.to_string().contains("the source broke"), "{error}");
    let path = format!("path=\"{}/data/", store.uri());
    let words = [
        &path,
        "a file that no version names was not removed",
        "error=",
    ];
    expect(&events, "WARN pilum::table::cleanup", &words);
}

/// Markers of commit ids can be created and not be changed.
#[derive(Debug)]
struct MarkersStay;

impl Script for MarkersStay {
    fn fate(&self, verb: Verb, path: &str) -> BoxFuture<'_, Fate> {
        let fate = match verb {
            Verb::Put if path.contains("_refs/commits") => Fate::Fails,
            _ => Fate::Happens,
        };
        std::future::ready(fate).boxed()
    }
}

#[test]
fn a_commit_whose_marker_was_not_completed_stands_and_tells_it() {
    let store = memory();
    create(&store, &rows(0, 5), false);
    let scripted: Store = store.scripted(Arc::new(MarkersStay));
    let mut options = WriteOptions::default();
    options.mode = WriteMode::Append;
    options.commit_id = Some("once".to_owned());
    let append = || block_on(write(&scripted, reader(&[rows(5, 5)]), &options)).unwrap();
    let (written, events) = events_of(append);
    assert_eq!(written.snapshot.version(), 2);
    let path = format!("path=\"{}/_refs/commits/", store.uri());
    let words = [&path, "a step behind the commit was not done", "error="];
    expect(&events, "WARN pilum::table::commit", &words);
    let (again, events) = events_of(append);
    assert!(again.was_committed_before);
    assert_eq!(again.snapshot.version(), 2);
    assert!(
        !events.iter().any(|it| it.starts_with("WARN")),
        "{events:#?}"
    );
}
