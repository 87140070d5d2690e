//! Config and metadata edited by key, and the cleanup that a config asks for.

use std::collections::BTreeMap;

use pilum_table::{Committed, ConfigUpdate, Error, MapUpdate, StatementOptions, Store, field_id};

use crate::support::{append, block_on, create, expect_no_orphans, files, memory, open, rows};

fn edits(pairs: &[(&str, Option<&str>)]) -> MapUpdate {
    let pair = |(key, value): &(&str, Option<&str>)| ((*key).to_owned(), value.map(str::to_owned));
    MapUpdate {
        entries: pairs.iter().map(pair).collect(),
        replace: false,
    }
}

pub(crate) fn try_config(
    store: &Store,
    pairs: &[(&str, Option<&str>)],
) -> Result<Committed, Error> {
    let update = ConfigUpdate {
        config: edits(pairs),
        ..ConfigUpdate::default()
    };
    block_on(open(store).update_config(&update, &StatementOptions::default()))
}

fn config(store: &Store) -> BTreeMap<String, String> {
    open(store).snapshot().manifest().config.clone()
}

fn versions(store: &Store) -> Vec<u64> {
    let versions = block_on(open(store).versions()).unwrap();
    versions.iter().map(|it| it.version).collect()
}

#[test]
fn keys_are_set_and_deleted_and_an_update_that_changes_nothing_makes_no_version() {
    let store = memory();
    create(&store, &rows(0, 3), false);
    try_config(&store, &[("a", Some("1")), ("b", Some("2"))]).unwrap();
    try_config(&store, &[("a", None), ("c", Some("é"))]).unwrap();
    let pairs = [("b", "2"), ("c", "é")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(config(&store), pairs.into());
    assert_eq!(
        try_config(&store, &[("a", None), ("b", Some("2"))])
            .unwrap()
            .attempts,
        0
    );
    assert_eq!(open(&store).version(), 3);
    let id = field_id(open(&store).snapshot().schema(), "name").unwrap();
    let update = ConfigUpdate {
        table_metadata: edits(&[("who", Some("me"))]),
        schema_metadata: edits(&[("unit", Some("s"))]),
        field_metadata: [(id, edits(&[("title", Some("Name"))]))].into(),
        ..ConfigUpdate::default()
    };
    block_on(open(&store).update_config(&update, &StatementOptions::default())).unwrap();
    let snapshot = open(&store).snapshot().clone();
    assert_eq!(snapshot.manifest().table_metadata["who"], "me");
    assert_eq!(&snapshot.manifest().schema_metadata["unit"][..], b"s");
    assert_eq!(snapshot.schema().fields[1].metadata["title"], "Name");
    let missing = ConfigUpdate {
        field_metadata: [(99, edits(&[("title", Some("Name"))]))].into(),
        ..ConfigUpdate::default()
    };
    let before = files(&store);
    let error = block_on(open(&store).update_config(&missing, &StatementOptions::default()));
    assert!(error.unwrap_err().to_string().contains("field 99"));
    assert!(
        field_id(snapshot.schema(), "nmae")
            .unwrap_err()
            .to_string()
            .contains("name")
    );
    for (key, value) in [
        ("lance.auto_cleanup.interval", "0"),
        ("lance.auto_cleanup.older_than", "soon"),
        ("lance.auto_cleanup.retain_versions", "-1"),
    ] {
        let error = try_config(&store, &[(key, Some(value))])
            .unwrap_err()
            .to_string();
        assert!(error.contains(key) && error.contains(value), "{error}");
    }
    assert_eq!(files(&store), before);
    expect_no_orphans(&store);
}

#[test]
fn commits_clean_up_a_table_whose_config_says_so() {
    let store = memory();
    create(&store, &rows(0, 3), false);
    for first in 1..4 {
        append(&store, &rows(first * 10, 3));
    }
    block_on(open(&store).create_tag("kept", Some(2))).unwrap();
    try_config(
        &store,
        &[
            ("lance.auto_cleanup.interval", Some("4")),
            ("lance.auto_cleanup.retain_versions", Some("3")),
        ],
    )
    .unwrap();
    assert_eq!(versions(&store), [1, 2, 3, 4, 5]);
    append(&store, &rows(50, 1));
    append(&store, &rows(60, 1));
    assert_eq!(versions(&store), [1, 2, 3, 4, 5, 6, 7]);
    // Every fourth commit runs a cleanup. The one after version 8 keeps the newest three versions, and version 2, which has a tag.
    append(&store, &rows(70, 1));
    assert_eq!(versions(&store), [2, 6, 7, 8]);
    append(&store, &rows(80, 1));
    assert_eq!(versions(&store), [2, 6, 7, 8, 9]);
    expect_no_orphans(&store);
    // All versions are younger than `older_than`, so the cleanup keeps them.
    try_config(&store, &[("lance.auto_cleanup.older_than", Some("14days"))]).unwrap();
    append(&store, &rows(90, 1));
    append(&store, &rows(95, 1));
    assert_eq!(versions(&store), [2, 6, 7, 8, 9, 10, 11, 12]);
}
