//! Examinations of stores that keep the rules, and of stores that break one.

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use pilum_store::testing::{Fate, Script, Verb};
use pilum_store::{Examination, RegisterEntry, StorageOptions, Store, examine};

use crate::{folder, now, open};

/// The names of the checks, in their order.
const CHECKS: [&str; 8] = [
    "write", "replace", "create", "race", "list", "delete", "clock", "register",
];

fn failed(found: &Examination) -> Vec<&'static str> {
    assert_eq!(found.checks.len(), CHECKS.len());
    assert!(
        found
            .checks
            .iter()
            .zip(CHECKS)
            .all(|(it, name)| it.name == name)
    );
    assert!(found.checks.iter().all(|it| !it.finding.is_empty()));
    let failed: Vec<_> = found.checks.iter().filter(|it| !it.is_ok).collect();
    assert_eq!(found.is_trusted(), failed.is_empty());
    failed.into_iter().map(|it| it.name).collect()
}

#[test]
fn honest_stores_are_trusted_and_left_as_they_were() {
    let (_keep, path) = folder();
    let local = open(&path);
    now(local.create("_versions/1.manifest", "x".into())).unwrap();
    let memory = open("memory://examined/table");
    for store in [local, memory] {
        let before = now(store.list_recursive("")).unwrap();
        let found = now(examine(&store, 5)).unwrap();
        assert_eq!(failed(&found), Vec::<&str>::new(), "{found:?}");
        assert_eq!(found.uri, store.uri());
        assert_eq!(now(store.list_recursive("")).unwrap(), before);
    }
    // Folders that were not there are not there afterwards, and can still be made.
    let absent = open(&format!("{path}/absent/deep/table"));
    assert!(now(examine(&absent, 1)).unwrap().is_trusted());
    assert!(!Path::new(&path).join("absent").exists());
    now(absent.create("k", "x".into())).unwrap();
}

#[test]
fn a_register_is_raced_too() {
    let (_keep, path) = folder();
    let option = format!("sqlite:{path}/versions.db");
    let options = StorageOptions::new().with("manifest_store", option);
    let store = Store::open(&format!("{path}/table"), &options).unwrap();
    let found = now(examine(&store, 3)).unwrap();
    assert_eq!(failed(&found), Vec::<&str>::new(), "{found:?}");
    assert!(found.checks[7].finding.contains("versions.db"), "{found:?}");
    assert!(found.checks[3].finding.contains("register"), "{found:?}");
    assert!(now(store.register().unwrap().newest()).unwrap().is_none());
    // The register has no owner yet: it can be examined with another table, which may then become its owner.
    for uri in [
        format!("{path}/other"),
        "memory://examined/registered".to_owned(),
    ] {
        let store = Store::open(&uri, &options).unwrap();
        let found = now(examine(&store, 3)).unwrap();
        assert_eq!(failed(&found), Vec::<&str>::new(), "{uri}: {found:?}");
    }
    let other = Store::open(&format!("{path}/other"), &options).unwrap();
    let entry = RegisterEntry {
        version: 1,
        path: "_versions/staged".to_owned(),
        size: None,
    };
    now(other.register().unwrap().insert(entry.clone())).unwrap();
    assert_eq!(
        now(other.register().unwrap().newest()).unwrap(),
        Some(entry)
    );
    // Now it has an owner, and can be examined with no other table.
    assert!(now(examine(&other, 2)).unwrap().is_trusted());
    assert!(!now(examine(&store, 2)).unwrap().is_trusted());
}

#[test]
fn where_nothing_can_be_written_nothing_else_is_tried() {
    let (_keep, path) = folder();
    std::fs::write(format!("{path}/file"), "no folder").unwrap();
    let found = now(examine(&open(&format!("{path}/file")), 1)).unwrap();
    assert_eq!(failed(&found), CHECKS, "{found:?}");
    assert!(found.checks[1].finding.contains("not tested"));
}

/// A store that does one kind of request otherwise than it should.
#[derive(Debug)]
struct Odd(Verb, Fate);

impl Script for Odd {
    fn fate(&self, verb: Verb, _path: &str) -> BoxFuture<'_, Fate> {
        ready(if verb == self.0 {
            self.1
        } else {
            Fate::Happens
        })
        .boxed()
    }
}

#[test]
fn what_a_store_does_wrong_is_named() {
    for (number, (odd, expected)) in [
        (Odd(Verb::List, Fate::Stale(2)), vec!["list"]),
        (Odd(Verb::List, Fate::Fails), vec!["list", "delete"]),
        // Of requests that arrive twice, the answer to the second says that the name is taken.
        (Odd(Verb::Create, Fate::Twice), vec!["create", "race"]),
        (Odd(Verb::Create, Fate::AnswerLost), vec!["create", "race"]),
        (Odd(Verb::Stat, Fate::Fails), vec!["replace", "clock"]),
        (Odd(Verb::Delete, Fate::Fails), vec!["delete"]),
        (Odd(Verb::Read, Fate::Fails), CHECKS.to_vec()),
        (Odd(Verb::Put, Fate::AnswerLost), CHECKS.to_vec()),
    ]
    .into_iter()
    .enumerate()
    {
        let (told, odd_verb) = (format!("{odd:?}"), odd.0);
        let store = open(&format!("memory://examined/odd-{number}"));
        let found = now(examine(&store.scripted(Arc::new(odd)), 2)).unwrap();
        assert_eq!(failed(&found), expected, "{told}: {found:?}");
        if odd_verb != Verb::Delete {
            assert!(now(store.list_recursive("")).unwrap().is_empty(), "{told}");
        }
    }
}
