//! What opening, appending and looking up cost in requests, however long the table's history is.

use std::path::Path;

use pilum_format::{ManifestFile, NamingScheme};
use pilum_store::Counters;
use pilum_table::{Dataset, Projection, Store, VersionRef, WriteMode, WriteOptions, write};

use crate::support::{append, block_on, create, local, memory, open, reader, rows, runtime};

/// The requests of `work`.
fn cost<T>(store: &Store, work: impl FnOnce() -> T) -> (Counters, T) {
    let before = store.counters();
    let done = work();
    (store.counters().since(&before), done)
}

/// Opening, appending through an open version, and taking one row.
fn expect_few_requests(store: &Store, told: &str) {
    let (opening, table) = cost(store, || open(store));
    assert_eq!(
        (opening.lists, opening.reads),
        (1, 1),
        "{told}: {opening:?}"
    );
    assert_eq!(
        (opening.stats, opening.writes),
        (0, 0),
        "{told}: {opening:?}"
    );

    let mut options = WriteOptions::default();
    options.mode = WriteMode::Append;
    let (appending, _) = cost(store, || {
        block_on(write(store, reader(&[rows(1, 4)]), &options)).unwrap()
    });
    assert_eq!(appending.writes, 3, "{told}: data, transaction, manifest");
    // The newest version is opened, and the listing looked at again before the commit.
    assert_eq!(
        (appending.lists, appending.reads),
        (2, 1),
        "{told}: {appending:?}"
    );
    assert_eq!(
        (appending.stats, appending.deletes),
        (0, 0),
        "{told}: {appending:?}"
    );

    for columns in [vec!["id"], vec!["id", "name"]] {
        // A version opened anew: nothing of the file is known.
        let table = block_on(Dataset::open_in(
            store,
            &VersionRef::Number(table.version()),
        ))
        .unwrap();
        let names = columns.iter().map(|it| (*it).to_owned()).collect();
        let projection = Projection::Names(names);
        let (taking, taken) = cost(store, || {
            let taken = table.snapshot().take(&[0], projection);
            runtime().block_on(taken).unwrap()
        });
        assert_eq!(taken.num_rows(), 1);
        assert!(taking.reads <= 2, "{told}: take {columns:?}: {taking:?}");
        assert_eq!((taking.lists, taking.stats), (0, 0), "{told}: {taking:?}");
    }
}

#[test]
fn the_length_of_the_history_costs_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [memory(), local(&folder.path().join("table"))];
    for store in stores {
        let store = store.with_durability(pilum_table::Durability::None);
        create(&store, &rows(0, 100), false);
        expect_few_requests(&store, "a short history");
        for number in 0..310 {
            append(&store, &rows(number, 1));
        }
        assert!(open(&store).version() > 300);
        expect_few_requests(&store, "a long history");
    }
}

/// A table of `last` versions in either naming scheme, of which only the newest is more than a name.
fn long_history(store: &Store, folder: &Path, scheme: NamingScheme, last: u64) {
    create(store, &rows(0, 10), false);
    let base = open(store).snapshot().clone();
    let mut manifest = base.manifest().as_ref().clone();
    manifest.version = last;
    let file = ManifestFile {
        manifest,
        transaction: None,
    };
    let versions = folder.join("_versions");
    std::fs::remove_dir_all(&versions).unwrap();
    std::fs::create_dir(&versions).unwrap();
    for version in 1..last {
        std::fs::write(versions.join(scheme.name(version)), b"").unwrap();
    }
    std::fs::write(versions.join(scheme.name(last)), file.encode().unwrap()).unwrap();
}

#[test]
fn ten_thousand_versions_are_one_pass_over_their_names() {
    for scheme in [NamingScheme::V1, NamingScheme::V2] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("table");
        let store = local(&root);
        long_history(&store, &root, scheme, 10_000);
        let (opening, table) = cost(&store, || open(&store));
        assert_eq!(table.version(), 10_000);
        assert_eq!(table.num_rows(), 10);
        assert_eq!(table.snapshot().naming_scheme(), scheme);
        // No file but the newest manifest is opened, and none is asked for its size.
        assert_eq!(
            (opening.lists, opening.reads, opening.stats),
            (1, 1, 0),
            "{opening:?}"
        );
        append(&store, &rows(10, 1));
        assert_eq!(open(&store).version(), 10_001);
    }
}
