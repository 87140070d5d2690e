//! The conformance suite: tests of everything that a store promises, for every implementation. It runs on an empty folder and
//! panics at the first promise that is broken.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test suite fails by panicking"
)]

use std::ops::Range;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::error::Error;
use crate::object::Listed;
use crate::store::Store;

/// Runs all tests on the empty folder `store`.
///
/// # Panics
/// When the store breaks a promise.
pub async fn conformance(store: &Store) {
    missing_objects_are_not_found(store).await;
    objects_come_back_as_written(store).await;
    create_takes_a_name_once(store).await;
    put_replaces(store).await;
    replace_takes_the_place_of_what_was_read(store).await;
    listings_are_sorted_and_shallow(store).await;
    writers_publish_at_the_end(store).await;
    abandoned_writers_leave_nothing(store).await;
    ranges_are_exact(store).await;
    paths_stay_inside(store).await;
    deletion_is_idempotent(store).await;
}

async fn missing_objects_are_not_found(store: &Store) {
    for path in ["absent", "no/such/folder/absent"] {
        assert!(store.stat(path).await.unwrap_err().is_not_found());
        assert!(store.read(path, 10).await.unwrap_err().is_not_found());
        let error = store.open_file(path, None).await.unwrap_err();
        let Error::NotFound { path: shown } = &error else {
            panic!("{error}")
        };
        assert_eq!(*shown, format!("{}/{path}", store.uri()));
        assert!(!store.exists(path).await.unwrap());
        store.delete(path).await.unwrap();
    }
    assert!(store.list("").await.unwrap().is_empty());
    assert!(store.list("no/such").await.unwrap().is_empty());
    assert!(store.list_first("no/such", 3).await.unwrap().is_empty());
    assert!(store.list_recursive("").await.unwrap().is_empty());
}

async fn objects_come_back_as_written(store: &Store) {
    let patterned = pattern(70_000);
    for (name, bytes) in [
        ("plain/empty", Bytes::new()),
        ("plain/one", Bytes::from_static(b"x")),
        ("plain/many", patterned),
        ("plain/sp ace % ä 日 #?.x", Bytes::from_static(b"named")),
        ("deep/a/b/c/d/e", Bytes::from_static(b"deep")),
    ] {
        let earliest = SystemTime::now() - Duration::from_secs(120);
        store.create(name, bytes.clone()).await.unwrap();
        let size = bytes.len() as u64;
        let stat = store.stat(name).await.unwrap();
        assert_eq!(stat.size, size);
        assert!(stat.modified > earliest, "{:?}", stat.modified);
        assert_eq!(store.read(name, size).await.unwrap(), bytes);
        for known in [None, Some(size)] {
            let file = store.open_file(name, known).await.unwrap();
            assert_eq!(file.size(), size);
            assert_eq!(file.path(), format!("{}/{name}", store.uri()));
            assert_eq!(file.read_tail(u64::MAX).await.unwrap(), bytes);
            let last = file.read_tail(3).await.unwrap();
            assert_eq!(last, bytes.slice(bytes.len().saturating_sub(3)..));
            assert!(file.read_tail(0).await.unwrap().is_empty());
            assert!(file.mapped().is_none_or(|all| *all == bytes));
        }
        if size > 0 {
            let refused = store.read(name, size - 1).await;
            assert!(matches!(refused, Err(Error::Limit { limit, .. }) if limit == size - 1));
        }
    }
    // A folder is no object.
    assert!(store.read("deep/a", 10).await.unwrap_err().is_not_found());
}

async fn create_takes_a_name_once(store: &Store) {
    store.create("once/key", "first".into()).await.unwrap();
    let again = store.create("once/key", "second".into()).await;
    assert!(
        matches!(again, Err(Error::AlreadyExists { .. })),
        "{again:?}"
    );
    assert_eq!(store.read("once/key", 99).await.unwrap(), "first");
    let empty = store.create("once/key", Bytes::new()).await;
    assert!(
        matches!(empty, Err(Error::AlreadyExists { .. })),
        "{empty:?}"
    );
    assert_eq!(store.list_recursive("once").await.unwrap().len(), 1);
}

async fn put_replaces(store: &Store) {
    store.put("put/key", "a longer first".into()).await.unwrap();
    let before = store.stat("put/key").await.unwrap();
    store.put("put/key", "second".into()).await.unwrap();
    assert_eq!(store.read("put/key", 99).await.unwrap(), "second");
    assert_ne!(store.stat("put/key").await.unwrap().e_tag, before.e_tag);
    assert_eq!(store.list_recursive("put").await.unwrap().len(), 1);
}

async fn replace_takes_the_place_of_what_was_read(store: &Store) {
    store.create("replace/key", "first".into()).await.unwrap();
    let (bytes, first) = store.read_version("replace/key", 99).await.unwrap();
    assert_eq!(bytes, "first");
    let refused = store.read_version("replace/key", 2).await;
    assert!(matches!(refused, Err(Error::Limit { limit: 2, .. })));
    store
        .replace("replace/key", "other".into(), &first)
        .await
        .unwrap();
    let late = store.replace("replace/key", "late".into(), &first).await;
    assert!(matches!(late, Err(Error::Changed { .. })), "{late:?}");
    let (bytes, second) = store.read_version("replace/key", 99).await.unwrap();
    assert_eq!(bytes, "other");
    assert_ne!(first, second);
    store.put("replace/key", "other".into()).await.unwrap();
    store.delete("replace/key").await.unwrap();
    let gone = store.replace("replace/key", "late".into(), &second).await;
    assert!(matches!(gone, Err(Error::Changed { .. })), "{gone:?}");
    assert!(!store.exists("replace/key").await.unwrap());
    let missing = store.read_version("replace/key", 99).await;
    assert!(missing.unwrap_err().is_not_found());

    let path = "replace/p=a%2F..%2Fb%5C/key";
    assert!(store.create(path, "literal".into()).await.is_err());
    let literal = store.clone().with_literal_paths();
    literal.create(path, "literal".into()).await.unwrap();
    assert_eq!(literal.read(path, 99).await.unwrap(), "literal");
    let listed = literal.list_recursive("replace").await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].path, path);
    literal.delete(path).await.unwrap();
    assert!(!literal.exists(path).await.unwrap());

    let lock = store.try_lock("replace/lock");
    if !store.is_local() {
        assert!(matches!(lock, Err(Error::Unsupported { .. })));
        return;
    }
    let held = lock.unwrap();
    assert!(held.is_some());
    assert!(store.try_lock("replace/lock").unwrap().is_none());
    drop(held);
    assert!(store.try_lock("replace/lock").unwrap().is_some());
    store.delete("replace/lock").await.unwrap();
}

async fn listings_are_sorted_and_shallow(store: &Store) {
    for name in [
        "list/b",
        "list/a",
        "list/c/deep",
        "list/B",
        "list/10",
        "list/9",
        "listless",
    ] {
        store.create(name, name.into()).await.unwrap();
    }
    let names =
        |listed: Vec<Listed>| -> Vec<String> { listed.into_iter().map(|one| one.path).collect() };
    let all = ["list/10", "list/9", "list/B", "list/a", "list/b"];
    for count in [2, 5, 6, usize::MAX] {
        let mut found = store.list_names("list", count).await.unwrap();
        found.names.sort_unstable();
        assert!(!found.are_all || found.names == ["10", "9", "B", "a", "b"]);
        assert!(found.are_all || (count < 6 && found.names == ["10", "9", "B", "a", "b"][..count]));
    }
    assert_eq!(names(store.list("list").await.unwrap()), all);
    assert_eq!(names(store.list("list/").await.unwrap()), all);
    for count in 0..7 {
        let expected = &all[..count.min(all.len())];
        assert_eq!(
            names(store.list_first("list", count).await.unwrap()),
            expected
        );
    }
    let deep = [
        "list/10",
        "list/9",
        "list/B",
        "list/a",
        "list/b",
        "list/c/deep",
    ];
    assert_eq!(names(store.list_recursive("list").await.unwrap()), deep);
    let listed = store.list("list").await.unwrap();
    assert_eq!(listed[3].name(), "a");
    assert_eq!(listed[3].size, 6);
    assert_eq!(
        listed[3].modified,
        store.stat("list/a").await.unwrap().modified
    );
}

async fn writers_publish_at_the_end(store: &Store) {
    let chunk = pattern(300_001);
    let mut writer = store.writer("write/big").await.unwrap();
    let mut expected = Vec::new();
    for _ in 0..9 {
        writer.write(chunk.clone()).await.unwrap();
        expected.extend_from_slice(&chunk);
        assert_eq!(writer.position(), expected.len() as u64);
    }
    // More than any buffer at once, then next to nothing.
    let large = pattern(3_000_000);
    for bytes in [large, Bytes::new(), Bytes::from_static(b"end")] {
        writer.write(bytes.clone()).await.unwrap();
        expected.extend_from_slice(&bytes);
    }
    assert_eq!(writer.path(), format!("{}/write/big", store.uri()));
    assert_eq!(writer.finish().await.unwrap(), expected.len() as u64);
    assert!(store.read("write/big", u64::MAX).await.unwrap() == expected);

    let empty = store.writer("write/empty").await.unwrap();
    assert_eq!(empty.finish().await.unwrap(), 0);
    assert_eq!(store.stat("write/empty").await.unwrap().size, 0);

    // A taken name is refused at the start or at the end, and stays what it was.
    let refused = match store.writer("write/empty").await {
        Ok(mut writer) => {
            writer.write("x".into()).await.unwrap();
            writer.finish().await.unwrap_err()
        }
        Err(error) => error,
    };
    assert!(refused.is_already_exists(), "{refused}");
    assert_eq!(store.stat("write/empty").await.unwrap().size, 0);
}

async fn abandoned_writers_leave_nothing(store: &Store) {
    for bytes in [Bytes::new(), pattern(10), pattern(3_000_000)] {
        let mut writer = store.writer("abandon/file").await.unwrap();
        writer.write(bytes).await.unwrap();
        drop(writer);
        assert!(store.list_recursive("abandon").await.unwrap().is_empty());
    }
}

async fn ranges_are_exact(store: &Store) {
    let bytes = pattern(200_000);
    store.create("ranges/file", bytes.clone()).await.unwrap();
    let file = store.open_file("ranges/file", None).await.unwrap();
    let size = file.size();
    let ranges = [
        0..size,
        0..0,
        size..size,
        size - 1..size,
        100_000..100_001,
        5..9,
        5..9,
        7..150_000,
        150_000..150_007,
        1..2,
    ];
    let slice = |range: &Range<u64>| {
        bytes.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap())
    };
    let got = file.read_ranges(&ranges).await.unwrap();
    assert_eq!(got.len(), ranges.len());
    for (range, got) in ranges.iter().zip(&got) {
        assert!(*got == slice(range), "{range:?}");
        file.prefetch(std::slice::from_ref(range)).unwrap();
        if let Some(mapped) = file.read_mapped(range.clone()) {
            assert!(mapped.unwrap() == slice(range), "{range:?}");
        }
        file.release(range.clone());
        let alone = file.read_ranges(std::slice::from_ref(range)).await.unwrap();
        assert!(alone == [slice(range)], "{range:?}");
    }
    assert!(file.read_ranges(&[]).await.unwrap().is_empty());
    let reversed = Range { start: 9, end: 8 };
    for bad in [
        0..size + 1,
        size..size + 1,
        size + 1..size + 1,
        0..u64::MAX,
        reversed,
    ] {
        let refused = file.read_ranges(&[0..1, bad.clone()]).await;
        assert!(matches!(&refused, Err(Error::OutOfRange { range, .. }) if *range == bad));
        assert!(file.prefetch(&[0..1, bad.clone()]).is_err());
        assert!(file.read_mapped(bad).is_none_or(|answer| answer.is_err()));
    }
}

async fn paths_stay_inside(store: &Store) {
    for path in [
        "",
        "..",
        "../x",
        "/x",
        "a/../../x",
        "a//b",
        "a\\b",
        "a\0",
        "%2e%2e/x",
        "C:/x",
    ] {
        let refused = [
            store.read(path, 1).await.err(),
            store.stat(path).await.err(),
            store.exists(path).await.err(),
            store.open_file(path, None).await.err(),
            store.open_file(path, Some(1)).await.err(),
            store.create(path, Bytes::new()).await.err(),
            store.put(path, Bytes::new()).await.err(),
            store.writer(path).await.err(),
            store.delete(path).await.err(),
        ];
        for error in refused {
            assert!(
                matches!(error, Some(Error::OutsideRoot { .. })),
                "{path:?}: {error:?}"
            );
        }
    }
    for folder in ["..", "/", "a/../..", "%2e%2e"] {
        if folder == "/" {
            // Another spelling of the root.
            continue;
        }
        assert!(matches!(
            store.list(folder).await,
            Err(Error::OutsideRoot { .. })
        ));
        assert!(matches!(
            store.list_first(folder, 1).await,
            Err(Error::OutsideRoot { .. })
        ));
        assert!(matches!(
            store.list_recursive(folder).await,
            Err(Error::OutsideRoot { .. })
        ));
    }
}

async fn deletion_is_idempotent(store: &Store) {
    store.create("delete/key", "x".into()).await.unwrap();
    let open = store.open_file("delete/key", None).await.unwrap();
    store.delete("delete/key").await.unwrap();
    store.delete("delete/key").await.unwrap();
    store.sync_folder("delete").await.unwrap();
    store.sync_folder("never/made").await.unwrap();
    assert!(!store.exists("delete/key").await.unwrap());
    if store.is_local() {
        // Readers of an old version keep what they opened.
        assert_eq!(open.read_tail(1).await.unwrap(), "x");
    }
    store.create("delete/key", "y".into()).await.unwrap();
    assert_eq!(store.read("delete/key", 1).await.unwrap(), "y");
}

/// Bytes that differ from their neighbours and from bytes whose distance is a power of two.
fn pattern(byte_len: usize) -> Bytes {
    (0..byte_len)
        .map(|i| u8::try_from((i * 31 + i / 251) % 251).unwrap_or_default())
        .collect()
}
