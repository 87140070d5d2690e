//! Cleanup: what goes, what stays, in which order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use pilum_store::testing::{Fate, Script, Verb};
use pilum_table::{
    CleanupOptions, CleanupOutcome, CommitOptions, Dataset, Operation, Snapshot, Store,
    Transaction, VersionRef, WriteMode, WriteOptions, commit, write,
};
use pilum_testing::peak_bytes;

use crate::support::{
    append, before_publishing, block_on, compact, create, delete, expect_no_orphans, fabricated,
    files, ids, local, memory, open, reader, rows,
};

fn at_once() -> CleanupOptions {
    let mut options = CleanupOptions::default();
    options.older_than = Duration::ZERO;
    options
}

fn clean(store: &Store, options: &CleanupOptions) -> CleanupOutcome {
    block_on(open(store).cleanup(options)).unwrap()
}

/// Four versions, of which only the last has the second and third data file joined.
fn history(store: &Store) {
    create(store, &rows(0, 10), false);
    append(store, &rows(10, 10));
    delete(store, "id < 5");
    delete(store, "id < 7");
}

#[test]
fn old_versions_go_with_the_files_that_only_they_had() {
    let folder = tempfile::tempdir().unwrap();
    for store in [memory(), local(folder.path())] {
        history(&store);
        let before = files(&store);
        let mut preview = at_once();
        preview.dry_run = true;
        let previewed = clean(&store, &preview);
        assert_eq!(files(&store), before, "a preview changes nothing");
        let cleaned = clean(&store, &at_once());
        assert_eq!(cleaned, previewed);
        assert_eq!(cleaned.removed_versions, [1, 2, 3]);
        // Three manifests, three transactions, and the first deletion file.
        assert_eq!(cleaned.removed_files.len(), 7);
        assert!(cleaned.num_bytes > 0);
        let left = files(&store);
        assert_eq!(left.len() + 7, before.len());
        assert!(cleaned.removed_files.iter().all(|it| !left.contains(it)));
        assert_eq!(ids(open(&store).snapshot()), (7..20).collect::<Vec<_>>());
        expect_no_orphans(&store);
        assert_eq!(clean(&store, &at_once()), CleanupOutcome::default());
    }
}

#[test]
fn young_tagged_kept_and_newer_versions_stay() {
    let store = memory();
    history(&store);
    let versions = |store: &Store| -> Vec<u64> {
        let versions = block_on(open(store).versions()).unwrap();
        versions.iter().map(|it| it.version).collect()
    };
    let young = CleanupOptions::default();
    assert_eq!(clean(&store, &young), CleanupOutcome::default());
    let second = block_on(open(&store).checkout(&VersionRef::Number(2))).unwrap();
    assert_eq!(
        block_on(second.cleanup(&at_once()))
            .unwrap()
            .removed_versions,
        [1]
    );
    block_on(open(&store).create_tag("good", Some(2))).unwrap();
    let mut keep = at_once();
    keep.keep_versions = Some(2);
    assert_eq!(clean(&store, &keep).removed_versions, Vec::<u64>::new());
    keep.keep_versions = Some(1);
    assert_eq!(clean(&store, &keep).removed_versions, [3]);
    assert_eq!(versions(&store), [2, 4]);
    assert_eq!(ids(second.snapshot()), (0..20).collect::<Vec<_>>());
    block_on(open(&store).delete_tag("good")).unwrap();
    keep.keep_versions = Some(0);
    assert_eq!(clean(&store, &keep).removed_versions, [2]);
    assert_eq!(versions(&store), [4]);
}

#[test]
fn what_no_version_names_goes_after_its_time_and_strangers_stay() {
    let store = memory();
    history(&store);
    let put = |path: &str| block_on(store.put(path, b"x".to_vec().into())).unwrap();
    let ours = [
        "_deletions/0-1-7.arrow",
        "_deletions/0-1-8.bin",
        "_transactions/1-a.txn",
        "_versions/.tmp-1",
        "data/.tmp-2",
        "data/lost.lance",
    ];
    let strangers = [
        "README.md",
        "data/notes.txt",
        "_versions/junk",
        "other/a.lance",
    ];
    ours.iter().chain(&strangers).for_each(|path| put(path));
    let before = files(&store);
    let mut options = CleanupOptions::default();
    clean(&store, &options);
    assert_eq!(files(&store), before, "a writer may still be at work");
    options.unverified_older_than = Duration::ZERO;
    let mut cleaned = clean(&store, &options);
    cleaned.removed_files.sort();
    assert_eq!(cleaned.removed_files, ours);
    assert_eq!(cleaned.removed_versions, Vec::<u64>::new());
    for path in strangers {
        assert!(files(&store).contains(&path.to_owned()), "{path}");
    }
    expect_no_orphans(&store);
}

#[test]
fn a_compacted_table_loses_its_old_files() {
    let store = memory();
    history(&store);
    compact(&store, 100);
    clean(&store, &at_once());
    let data: Vec<_> = files(&store)
        .into_iter()
        .filter(|it| it.starts_with("data/"))
        .collect();
    assert_eq!(data.len(), 1);
    assert!(
        files(&store)
            .iter()
            .all(|it| !it.starts_with("_deletions/"))
    );
    assert_eq!(ids(open(&store).snapshot()), (7..20).collect::<Vec<_>>());
}

#[test]
fn an_unreadable_manifest_stops_everything() {
    let store = memory();
    history(&store);
    let manifest = files(&store)
        .into_iter()
        .find(|it| it.starts_with("_versions/"));
    let last = files(&store)
        .into_iter()
        .rfind(|it| it.starts_with("_versions/"))
        .unwrap();
    assert_ne!(manifest.as_ref(), Some(&last));
    block_on(store.put(&last, b"damaged".to_vec().into())).unwrap();
    let before = files(&store);
    let error = block_on(open(&store).cleanup(&at_once())).unwrap_err();
    assert_eq!(error.kind(), "corrupt");
    assert_eq!(files(&store), before);
}

/// A slow writer, which decided on a number that others took since: it is not free again, though the version is old.
#[test]
fn a_number_that_a_slow_writer_may_take_is_not_freed() {
    let store = memory();
    create(&store, &rows(0, 5), false);
    append(&store, &rows(5, 5));
    let slow = before_publishing(&store, |store| {
        append(store, &rows(20, 5));
        append(store, &rows(30, 5));
        let cleaned = clean(store, &at_once());
        assert_eq!(cleaned.removed_versions, [1, 2], "it began with 2");
    });
    let mut options = WriteOptions::default();
    options.mode = WriteMode::Append;
    let written = block_on(write(&slow, reader(&[rows(10, 5)]), &options)).unwrap();
    assert_eq!(written.snapshot.version(), 5);
    let mut found = ids(open(&store).snapshot());
    found.sort_unstable();
    let wanted: Vec<i64> = (0..15).chain(20..25).chain(30..35).collect();
    assert_eq!(found, wanted);
    assert_eq!(clean(&store, &at_once()).removed_versions, [3, 4]);
    expect_no_orphans(&store);
}

/// A writer that died does not hold versions back for ever.
#[test]
fn a_transaction_that_is_too_old_counts_no_more() {
    let store = memory();
    history(&store);
    let base = open(&store).snapshot().clone();
    let dead = Transaction::new(2, Operation::ReserveFragments { num_fragments: 1 });
    let path = format!("_transactions/{}", dead.file_name());
    block_on(store.put(&path, dead.encode())).unwrap();
    assert_eq!(clean(&store, &at_once()).removed_versions, [1, 2]);
    let mut all = at_once();
    all.unverified_older_than = Duration::ZERO;
    assert_eq!(clean(&store, &all).removed_versions, [3]);
    assert_eq!(open(&store).version(), base.version());
    expect_no_orphans(&store);
}

/// Appends with a commit id; true if that was committed before.
fn append_once(store: &Store, first: i64) -> bool {
    let mut options = WriteOptions::default();
    options.mode = WriteMode::Append;
    options.commit_id = Some("once".to_owned());
    let written = block_on(write(store, reader(&[rows(first, 5)]), &options)).unwrap();
    written.was_committed_before
}

/// Fails every write of a marker that maps a commit id to its version, as if the writer died before it.
#[derive(Debug)]
struct MarkersFail;

impl Script for MarkersFail {
    fn fate(&self, verb: Verb, path: &str) -> BoxFuture<'_, Fate> {
        let fails = verb == Verb::Put && path.starts_with("_refs/commits/");
        let fate = if fails { Fate::Fails } else { Fate::Happens };
        std::future::ready(fate).boxed()
    }
}

#[test]
fn a_commit_id_is_remembered_when_its_version_goes() {
    let folder = tempfile::tempdir().unwrap();
    for store in [memory(), local(folder.path())] {
        create(&store, &rows(0, 5), false);
        assert!(!append_once(&store.scripted(Arc::new(MarkersFail)), 5));
        append(&store, &rows(10, 5));
        assert_eq!(clean(&store, &at_once()).removed_versions, [1, 2]);
        assert!(append_once(&store, 5));
        assert_eq!(ids(open(&store).snapshot()), (0..15).collect::<Vec<_>>());
        expect_no_orphans(&store);
    }
}

/// The question is asked before the version goes, and looked for after.
#[test]
fn a_commit_id_is_remembered_when_its_version_goes_while_it_is_looked_for() {
    let store = memory();
    create(&store, &rows(0, 5), false);
    assert!(!append_once(&store.scripted(Arc::new(MarkersFail)), 5));
    append(&store, &rows(10, 5));
    let scripted = store.scripted(Arc::new(AfterMarker::of(&store)));
    assert!(append_once(&scripted, 5));
    assert_eq!(ids(open(&store).snapshot()), (0..15).collect::<Vec<_>>());
    assert_eq!(block_on(open(&store).versions()).unwrap().len(), 1);
}

/// Others clean up right after a marker was read.
#[derive(Debug)]
struct AfterMarker {
    store: Store,
    was_read: AtomicBool,
    is_done: AtomicBool,
}

impl AfterMarker {
    fn of(store: &Store) -> Self {
        Self {
            store: store.clone(),
            was_read: AtomicBool::new(false),
            is_done: AtomicBool::new(false),
        }
    }
}

impl Script for AfterMarker {
    fn fate(&self, verb: Verb, path: &str) -> BoxFuture<'_, Fate> {
        let is_next = verb == Verb::List && path.starts_with("_versions");
        if verb == Verb::Read && path.starts_with("_refs/commits/") {
            self.was_read.store(true, Ordering::Relaxed);
        }
        let is_now = is_next && self.was_read.load(Ordering::Relaxed);
        if is_now && !self.is_done.swap(true, Ordering::Relaxed) {
            let store = self.store.clone();
            let cleaned = std::thread::spawn(move || clean(&store, &at_once()));
            assert_eq!(cleaned.join().unwrap().removed_versions, [1, 2]);
        }
        std::future::ready(Fate::Happens).boxed()
    }
}

/// Before a manifest is published, others clean up.
#[derive(Debug)]
struct OthersCleanUp {
    store: Store,
    times: usize,
}

impl Script for OthersCleanUp {
    fn fate(&self, verb: Verb, path: &str) -> BoxFuture<'_, Fate> {
        let is_publishing = verb == Verb::Create && path.starts_with("_versions/");
        async move {
            for _ in 0..self.times * usize::from(is_publishing) {
                let table = Dataset::open_in(&self.store, &VersionRef::Latest).await;
                table.unwrap().cleanup(&at_once()).await.unwrap();
            }
            Fate::Happens
        }
        .boxed()
    }
}

#[test]
fn a_version_being_restored_keeps_its_files_though_its_manifest_goes() {
    let folder = tempfile::tempdir().unwrap();
    for (round, times) in [1, 2, 3].into_iter().enumerate() {
        for store in [memory(), local(&folder.path().join(format!("{round}")))] {
            create(&store, &rows(0, 10), false);
            let mut options = WriteOptions::default();
            options.mode = WriteMode::Overwrite;
            block_on(write(&store, reader(&[rows(50, 10)]), &options)).unwrap();
            let base = open(&store).snapshot().clone();
            let script = OthersCleanUp {
                store: store.clone(),
                times,
            };
            let restore = Transaction::new(2, Operation::Restore { version: 1 });
            let scripted = store.scripted(Arc::new(script));
            let options = CommitOptions::default();
            let committed = commit(&scripted, Some(&base), restore, &options);
            assert_eq!(block_on(committed).unwrap().snapshot.version(), 3);
            assert_eq!(ids(open(&store).snapshot()), (0..10).collect::<Vec<_>>());
            let mut all = at_once();
            all.unverified_older_than = Duration::ZERO;
            clean(&store, &all);
            expect_no_orphans(&store);
        }
    }
}

/// `num_versions` versions with the same thousand fragments.
fn long_history(num_versions: u64) -> Store {
    let store = memory();
    create(&store, &rows(0, 10), false);
    let mut base = open(&store).snapshot().clone();
    let fragments = (0..1000).map(|number| fabricated(&format!("{number:0>60}")));
    let many = Operation::Append {
        fragments: fragments.collect(),
    };
    let commit_next = |base: &Snapshot, operation| {
        let transaction = Transaction::new(base.version(), operation);
        let options = CommitOptions::default();
        let committed = commit(&store, Some(base), transaction, &options);
        block_on(committed).unwrap().snapshot
    };
    base = commit_next(&base, many);
    while base.version() < num_versions {
        base = commit_next(&base, Operation::ReserveFragments { num_fragments: 1 });
    }
    store
}

/// A hundred versions of a thousand fragments, and ten: memory goes by the number of files, and one manifest.
#[test]
fn memory_of_a_cleanup_does_not_grow_with_the_versions_that_name_the_same_files() {
    let peak = |num_versions| {
        let store = long_history(num_versions);
        let (cleaned, peak) = peak_bytes(|| clean(&store, &at_once()));
        assert_eq!(cleaned.removed_versions.len() as u64, num_versions - 1);
        peak
    };
    let (short, long) = (peak(10), peak(100));
    // A version adds its manifest and its transaction to the list of files: some hundred bytes, and not its fragments.
    let most = short + 90 * 4096;
    assert!(long < most, "{long} bytes for 100 versions, {short} for 10");
}
