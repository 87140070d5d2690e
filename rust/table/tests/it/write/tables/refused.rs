//! Errors of opening and writing: addresses without a table, damaged tables, and tables of other writers.

use pilum_format::{Manifest, ManifestFile, NamingScheme};
use pilum_table::{Dataset, Snapshot, Store, VersionRef, WriteMode, WriteOptions, write};

use super::{kind, mode, put};
use crate::support::{block_on, files, local, memory, open, reader, rows};

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
