//! The events that a store sends to `tracing`: one for each request, with its address and outcome and without secrets.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use pilum_store::testing::{Fate, Script, Verb};
use pilum_store::{RegisterEntry, StorageOptions, Store};
use pilum_testing::events_of;
use tracing::Level;

use crate::{folder, now, open};

/// The events of `work`.
pub(crate) fn events(work: impl FnOnce()) -> Vec<String> {
    events_of(work).1
}

pub(crate) fn expect(events: &[String], level: Level, expected: &[&str]) {
    let level = format!("{level} ");
    let is_there = |line: &&String| {
        line.starts_with(&level) && expected.iter().all(|part| line.contains(part))
    };
    let found = events.iter().filter(is_there).count();
    assert_eq!(found, 1, "{level}{expected:?} in {events:#?}");
}

#[test]
fn every_request_is_told_with_its_address_and_outcome() {
    let (_keep, root) = folder();
    let seen = events(|| {
        let store = open(&root);
        now(store.create("_versions/1", "four".into())).unwrap();
        now(store.create("_versions/1", "late".into())).unwrap_err();
        now(store.read("_versions/1", 9)).unwrap();
        now(store.stat("absent")).unwrap_err();
        now(store.list("_versions")).unwrap();
        let file = now(store.open_file("_versions/1", None)).unwrap();
        now(file.read_ranges(&[0..1, 2..4])).unwrap();
        let mut writer = now(store.writer("data/a")).unwrap();
        now(writer.write("12345".into())).unwrap();
        now(writer.finish()).unwrap();
        now(store.delete("data/a")).unwrap();
    });
    let at = |path: &str| format!("path={root}/{path} ");
    let (publish, request) = ("pilum::store::publish ", "pilum::store::request ");
    let uri = format!("uri=\"{root}\"");
    expect(
        &seen,
        Level::DEBUG,
        &["pilum::store ", "message=open", &uri, "is_local=true"],
    );
    let version = at("_versions/1");
    let create = ["operation=\"create\"", &version, "bytes=4"];
    expect(
        &seen,
        Level::DEBUG,
        &[&[publish, "outcome=\"ok\""], &create[..]].concat(),
    );
    let taken = [
        publish,
        "outcome=\"already_exists\"",
        "exists already; read it",
    ];
    expect(&seen, Level::DEBUG, &[&taken, &create[..]].concat());
    expect(
        &seen,
        Level::TRACE,
        &[request, "\"read\"", &version, "bytes=4", "\"ok\""],
    );
    expect(
        &seen,
        Level::TRACE,
        &[request, "\"stat\"", &at("absent"), "\"not_found\""],
    );
    expect(
        &seen,
        Level::TRACE,
        &[request, "\"open\"", &version, "bytes=4"],
    );
    expect(
        &seen,
        Level::TRACE,
        &[
            request,
            "\"read_ranges\"",
            "_versions/1",
            "ranges=2 bytes=3",
        ],
    );
    let list = ["pilum::store::list ", "path=", "/_versions ", "names=1"];
    expect(&seen, Level::DEBUG, &list);
    expect(
        &seen,
        Level::DEBUG,
        &[publish, "\"finish\"", &at("data/a"), "bytes=5"],
    );
    expect(&seen, Level::TRACE, &[request, "\"delete\"", &at("data/a")]);
}

#[test]
fn requests_to_a_register_are_told_with_their_version() {
    let (_keep, path) = folder();
    let options =
        StorageOptions::new().with("manifest_store", format!("sqlite:{path}/versions.db"));
    let seen = events(|| {
        let store = Store::open(&format!("{path}/table"), &options).unwrap();
        let register = store.register().unwrap();
        let entry = RegisterEntry {
            version: 7,
            path: "_versions/staged".to_owned(),
            size: None,
        };
        now(register.insert(entry.clone())).unwrap();
        now(register.insert(entry)).unwrap_err();
        now(register.newest()).unwrap();
    });
    let target = "pilum::store::register ";
    expect(
        &seen,
        Level::DEBUG,
        &["pilum::store ", "register=\"sqlite:", "message=open"],
    );
    let insert = [target, "\"insert\"", "version=7", "versions.db"];
    expect(&seen, Level::DEBUG, &[&insert[..], &["\"ok\""]].concat());
    expect(
        &seen,
        Level::DEBUG,
        &[&insert[..], &["\"already_exists\""]].concat(),
    );
    expect(&seen, Level::DEBUG, &[target, "\"newest\"", "\"ok\""]);
}

#[test]
fn an_unfinished_file_that_stays_is_a_warning() {
    let (_keep, root) = folder();
    let store = open(&root);
    let writer = now(store.writer("data/a")).unwrap();
    std::fs::remove_file(format!("{root}/data/a")).unwrap();
    let seen = events(|| drop(writer));
    expect(
        &seen,
        Level::WARN,
        &["pilum::store::cleanup ", "data/a", "was not removed"],
    );
}

#[test]
fn no_field_holds_a_secret() {
    let (_keep, path) = folder();
    let options = StorageOptions::new()
        .with("endpoint", "http://user:c4n4ry@host/x")
        .with("aws_secret_access_key", "c4n4ry")
        .with("manifest_store", format!("sqlite:{path}/versions.db"));
    let seen = events(|| {
        let store = Store::open(&path, &options).unwrap();
        now(store.create("k", "c4n4ry".into())).unwrap();
        now(store.read("k", 99)).unwrap();
        now(store.read("k", 1)).unwrap_err();
    });
    assert!(seen.len() >= 4, "{seen:#?}");
    assert!(
        !seen.iter().any(|line| line.contains("c4n4ry")),
        "{seen:#?}"
    );
}

/// A store that loses the answers to all creations.
#[derive(Debug)]
struct Deaf;

impl Script for Deaf {
    fn fate(&self, verb: Verb, _path: &str) -> BoxFuture<'_, Fate> {
        let fate = match verb {
            Verb::Create => Fate::AnswerLost,
            _ => Fate::Happens,
        };
        ready(fate).boxed()
    }
}

#[test]
fn an_unknown_outcome_is_told_as_unclear() {
    let store = open("memory://events/deaf").scripted(Arc::new(Deaf));
    let seen = events(|| {
        now(store.create("k", "x".into())).unwrap_err();
    });
    expect(
        &seen,
        Level::DEBUG,
        &["pilum::store::publish ", "\"unclear\"", "may or may not"],
    );
}
