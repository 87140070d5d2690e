//! Tables whose versions are decided by a register beside the store: the process may die at every step, and every answer
//! may be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use pilum_store::failpoint;
use pilum_store::{ManifestRegister, RegisterEntry};
use pilum_table::{
    CleanupOptions, CommonError, Error, StorageOptions, Store, VersionRef, WriteMode, WriteOptions,
    write,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::{
    append, block_on, create, delete, expect_no_orphans, files, ids, memory, open, reader, rows,
};

fn registered(root: &Path, register: &Path) -> Store {
    let options =
        StorageOptions::new().with("manifest_store", format!("sqlite:{}", register.display()));
    Store::open(root.to_str().unwrap(), &options).unwrap()
}

/// A table on disk, its register beside it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("table")
    }

    fn store(&self) -> Store {
        registered(&self.root(), &self.folder.path().join("versions.db"))
    }
}

/// Names in `_versions` that are no manifests.
fn unfinished(store: &Store) -> Vec<String> {
    let is_unfinished =
        |path: &String| path.starts_with("_versions/") && !path.ends_with(".manifest");
    files(store).into_iter().filter(is_unfinished).collect()
}

fn row(store: &Store, version: u64) -> Option<RegisterEntry> {
    block_on(store.register().unwrap().get(version)).unwrap()
}

#[test]
fn a_table_with_a_register_needs_no_atomic_creation() {
    let place = Place::new();
    let store = place.store();
    let root = place.root();
    // Links and create-if-absent fail, as on a file system that has neither.
    let armed = failpoint::arm("create.before_link=error", root.to_str().unwrap());
    create(&store, &rows(0, 10), false);
    append(&store, &rows(10, 10));
    delete(&store, "id % 2 = 0");
    drop(armed);
    let newest = open(&store);
    assert_eq!(newest.version(), 3);
    assert_eq!(
        ids(newest.snapshot()),
        (0..20).filter(|id| id % 2 == 1).collect::<Vec<_>>()
    );
    assert_eq!(block_on(newest.versions()).unwrap().len(), 3);
    assert_eq!(ids(open_at(&store, 1).snapshot()).len(), 10);
    assert_eq!(unfinished(&store), Vec::<String>::new());
    expect_no_orphans(&store);
    // The files are those of any other table.
    let plain = Store::open(root.to_str().unwrap(), &StorageOptions::new()).unwrap();
    assert_eq!(open(&plain).version(), 3);
}

fn open_at(store: &Store, version: u64) -> pilum_table::Dataset {
    block_on(pilum_table::Dataset::open_in(
        store,
        &VersionRef::Number(version),
    ))
    .unwrap()
}

#[test]
fn a_table_may_move_to_a_register() {
    let place = Place::new();
    let plain = Store::open(place.root().to_str().unwrap(), &StorageOptions::new()).unwrap();
    create(&plain, &rows(0, 3), false);
    append(&plain, &rows(3, 3));
    let store = place.store();
    assert_eq!(open(&store).version(), 2);
    append(&store, &rows(6, 3));
    assert_eq!(open(&store).version(), 3);
    assert_eq!(
        row(&store, 3).unwrap().path,
        "_versions/18446744073709551612.manifest"
    );
    assert_eq!(block_on(open(&store).versions()).unwrap().len(), 3);
}

#[test]
fn a_commit_id_counts_once_with_a_register() {
    let store = Place::new();
    let store = store.store();
    create(&store, &rows(0, 1), false);
    let mut options = WriteOptions::default();
    options.mode = WriteMode::Append;
    options.commit_id = Some("once".to_owned());
    for was_before in [false, true] {
        let written = block_on(write(&store, reader(&[rows(1, 1)]), &options)).unwrap();
        assert_eq!(
            (written.snapshot.version(), written.was_committed_before),
            (2, was_before)
        );
    }
}

#[test]
fn racing_writers_all_commit() {
    let place = Place::new();
    create(&place.store(), &rows(0, 1), false);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let store = place.store();
            scope.spawn(move || {
                for number in 0..5 {
                    append(&store, &rows(1 + writer * 5 + number, 1));
                }
            });
        }
    });
    let store = place.store();
    assert_eq!(open(&store).version(), 21);
    let found = ids(open(&store).snapshot());
    assert_eq!(found.len(), 21);
    assert_eq!(
        found.into_iter().collect::<BTreeSet<_>>(),
        (0..21).collect()
    );
    assert_eq!(unfinished(&store), Vec::<String>::new());
    for version in 1..=21 {
        assert!(row(&store, version).unwrap().path.ends_with(".manifest"));
    }
}

/// The steps of a commit, and whether the version is there when the writer dies at it.
const STEPS: [(&str, bool); 8] = [
    ("external.before_stage", false),
    ("external.after_stage", false),
    ("register.before_insert", false),
    ("register.after_insert", true),
    ("external.after_insert", true),
    ("external.after_final", true),
    ("external.after_update", true),
    ("external.after_delete", true),
];

#[test]
fn opening_a_version_finishes_its_publication() {
    for (step, is_there) in STEPS {
        let place = Place::new();
        let store = place.store();
        create(&store, &rows(0, 2), false);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "versions::external::dying_child"])
            .env("PILUM_FAILPOINT", format!("{step}=abort"))
            .env("PILUM_TEST_DYING_ROOT", place.folder.path())
            .output()
            .unwrap();
        assert!(!child.status.success(), "{step} was not reached");
        let newest = open(&store);
        let (expected, count) = if is_there { (2, 2) } else { (1, 1) };
        assert_eq!(newest.version(), expected, "{step}");
        assert_eq!(block_on(newest.versions()).unwrap().len(), count, "{step}");
        assert_eq!(ids(newest.snapshot()).len(), 2 * count);
        if is_there {
            // Opening the version was enough, except for a staged file that the register does not name any more.
            let row = row(&store, 2).unwrap();
            let is_final = row.path.ends_with(".manifest");
            assert!(
                is_final || step == "external.after_final",
                "{step}: {row:?}"
            );
        }
        append(&store, &rows(100, 1));
        assert_eq!(open(&store).version(), expected + 1, "{step}");
        // Cleanup removes the rest.
        let mut options = CleanupOptions::default();
        options.unverified_older_than = std::time::Duration::ZERO;
        block_on(open(&store).cleanup(&options)).unwrap();
        assert_eq!(unfinished(&store), Vec::<String>::new(), "{step}");
        expect_no_orphans(&store);
        let plain = Store::open(place.root().to_str().unwrap(), &StorageOptions::new()).unwrap();
        assert_eq!(
            ids(open(&plain).snapshot()),
            ids(open(&store).snapshot()),
            "{step}"
        );
    }
}

/// The child process of the test above, which dies at an armed step. Does nothing when `PILUM_TEST_DYING_ROOT` is not set.
#[test]
fn dying_child() {
    let Ok(folder) = std::env::var("PILUM_TEST_DYING_ROOT") else {
        return;
    };
    let folder = Path::new(&folder);
    append(
        &registered(&folder.join("table"), &folder.join("versions.db")),
        &rows(2, 2),
    );
}

#[test]
fn a_write_fails_if_a_step_before_the_register_fails_and_succeeds_if_a_later_one_does() {
    for (step, commits) in STEPS {
        let place = Place::new();
        let store = place.store();
        create(&store, &rows(0, 2), false);
        let before = files(&store);
        let only = place.folder.path().to_str().unwrap();
        let armed = failpoint::arm(&format!("{step}=error"), only);
        let mut options = WriteOptions::default();
        options.mode = WriteMode::Append;
        let outcome = block_on(write(&store, reader(&[rows(2, 2)]), &options));
        drop(armed);
        match outcome {
            Ok(written) => {
                assert!(commits, "{step}");
                assert_eq!(written.snapshot.version(), 2, "{step}");
            }
            Err(error) => {
                assert!(!commits, "{step}: {error}");
                assert_eq!(error.kind(), "store", "{step}: {error}");
                assert_eq!(files(&store), before, "{step}: nothing is left");
            }
        }
        assert_eq!(
            ids(open(&store).snapshot()).len(),
            if commits { 4 } else { 2 },
            "{step}"
        );
    }
}

#[test]
fn a_reader_that_may_not_write_reads_a_staged_version() {
    let place = Place::new();
    let store = place.store();
    create(&store, &rows(0, 2), false);
    let only = place.folder.path().to_str().unwrap().to_owned();
    let armed = failpoint::arm("external.after_insert=error", &only);
    append(&store, &rows(2, 2));
    let newest = open(&store);
    assert_eq!((newest.version(), ids(newest.snapshot()).len()), (2, 4));
    let staged = row(&store, 2).unwrap();
    assert!(!staged.path.ends_with(".manifest"), "{staged:?}");
    drop(armed);
    assert_eq!(open(&store).version(), 2);
    assert!(row(&store, 2).unwrap().path.ends_with(".manifest"));
    assert_eq!(unfinished(&store), Vec::<String>::new());
}

#[test]
fn malformed_rows_of_the_register_are_damage() {
    let place = Place::new();
    let store = place.store();
    create(&store, &rows(0, 2), false);
    let register = Arc::clone(store.register().unwrap());
    for path in [
        "_versions/18446744073709551613.manifest-x",
        "../_versions/18446744073709551612.manifest",
        "/etc/passwd",
        "_versions/x",
        "_versions/1.manifest-a/../../..",
        "_versions/18446744073709551613.manifest/../18446744073709551612.manifest-a",
        "",
    ] {
        let entry = RegisterEntry {
            version: 3,
            path: path.to_owned(),
            size: None,
        };
        let _ = block_on(register.insert(entry.clone()));
        block_on(register.update(entry)).unwrap();
        let error =
            block_on(pilum_table::Dataset::open_in(&store, &VersionRef::Latest)).unwrap_err();
        assert_eq!(error.kind(), "corrupt", "{path}: {error}");
    }
    // A staged file that is gone, with nothing at the final name.
    let staged = "_versions/18446744073709551612.manifest-gone";
    let entry = |size| RegisterEntry {
        version: 3,
        path: staged.to_owned(),
        size,
    };
    block_on(register.update(entry(None))).unwrap();
    let error = block_on(pilum_table::Dataset::open_in(&store, &VersionRef::Latest)).unwrap_err();
    assert!(
        matches!(&error, Error::Common(CommonError::Corrupt { reason, .. }) if reason.contains("gone")),
        "{error}"
    );
    // And one of another size than the register says.
    block_on(store.put(staged, "short".into())).unwrap();
    block_on(register.update(entry(Some(6)))).unwrap();
    let error = block_on(pilum_table::Dataset::open_in(&store, &VersionRef::Latest)).unwrap_err();
    assert!(
        error.to_string().contains("5 bytes, the register says 6"),
        "{error}"
    );
}

#[test]
fn each_table_has_a_register_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let register = folder.path().join("versions.db");
    let first = registered(&folder.path().join("a"), &register);
    create(&first, &rows(0, 1), false);
    let second = registered(&folder.path().join("b"), &register);
    let refused = block_on(write(
        &second,
        reader(&[rows(0, 1)]),
        &WriteOptions::default(),
    ));
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), "invalid_input");
    assert!(error.to_string().contains("/a"), "{error}");
    assert_eq!(files(&second), Vec::<String>::new());
    // A file that is no SQLite database is refused as a register, and its content stays.
    let foreign = folder.path().join("foreign.db");
    std::fs::write(
        &foreign,
        "no database at all, but long enough to be read as one",
    )
    .unwrap();
    let store = registered(&folder.path().join("c"), &foreign);
    let refused = block_on(write(
        &store,
        reader(&[rows(0, 1)]),
        &WriteOptions::default(),
    ));
    assert_eq!(refused.unwrap_err().kind(), "store");
    let kept = std::fs::read_to_string(&foreign).unwrap();
    assert!(kept.starts_with("no database"));
}

/// A register in memory that loses answers, before and after the effect.
#[derive(Debug)]
struct Faulty {
    rows: Mutex<BTreeMap<u64, RegisterEntry>>,
    dice: Mutex<StdRng>,
}

impl Faulty {
    fn is_hit(&self, chance: f64) -> bool {
        self.dice.lock().unwrap().random_bool(chance)
    }

    fn lost<T>(&self) -> pilum_store::Result<T> {
        Err(pilum_store::Error::Unclear {
            path: "faulty".to_owned(),
            source: std::io::ErrorKind::TimedOut.into(),
        })
    }

    fn failed<T>(&self) -> pilum_store::Result<T> {
        Err(pilum_store::Error::Io {
            path: "faulty".to_owned(),
            operation: "answer",
            source: std::io::ErrorKind::TimedOut.into(),
        })
    }

    fn do_insert(&self, entry: RegisterEntry) -> pilum_store::Result<()> {
        if self.is_hit(0.15) {
            return self.lost();
        }
        let mut rows = self.rows.lock().unwrap();
        if rows.contains_key(&entry.version) {
            let path = entry.path;
            return Err(pilum_store::Error::AlreadyExists { path });
        }
        rows.insert(entry.version, entry);
        drop(rows);
        if self.is_hit(0.15) {
            self.lost()
        } else {
            Ok(())
        }
    }

    fn do_update(&self, entry: RegisterEntry) -> pilum_store::Result<()> {
        if self.is_hit(0.3) {
            return self.failed();
        }
        self.rows.lock().unwrap().insert(entry.version, entry);
        Ok(())
    }
}

impl ManifestRegister for Faulty {
    fn uri(&self) -> &str {
        "faulty"
    }

    fn newest(&self) -> BoxFuture<'_, pilum_store::Result<Option<RegisterEntry>>> {
        let newest = self.rows.lock().unwrap().values().next_back().cloned();
        ready(Ok(newest)).boxed()
    }

    fn get(&self, version: u64) -> BoxFuture<'_, pilum_store::Result<Option<RegisterEntry>>> {
        if self.is_hit(0.1) {
            return ready(self.failed()).boxed();
        }
        ready(Ok(self.rows.lock().unwrap().get(&version).cloned())).boxed()
    }

    fn insert(&self, entry: RegisterEntry) -> BoxFuture<'_, pilum_store::Result<()>> {
        ready(self.do_insert(entry)).boxed()
    }

    fn update(&self, entry: RegisterEntry) -> BoxFuture<'_, pilum_store::Result<()>> {
        ready(self.do_update(entry)).boxed()
    }

    fn try_row<'a>(&'a self, _word: &'a str) -> BoxFuture<'a, pilum_store::Result<()>> {
        ready(Ok(())).boxed()
    }

    fn forget_row<'a>(&'a self, _word: &'a str) -> BoxFuture<'a, pilum_store::Result<()>> {
        ready(Ok(())).boxed()
    }
}

#[test]
fn lost_answers_of_the_register_neither_lose_nor_repeat_rows() {
    let scale = std::env::var("PILUM_TEST_SCALE")
        .ok()
        .and_then(|it| it.parse().ok());
    let (mut unknown, mut clear) = (0, 0);
    for seed in 0..40 * scale.unwrap_or(1u64) {
        let faulty = Faulty {
            rows: Mutex::default(),
            dice: Mutex::new(StdRng::seed_from_u64(seed)),
        };
        let plain = memory();
        create(&plain, &rows(0, 1), false);
        let store = plain.with_register(Arc::new(faulty));
        let outcomes: Vec<(i64, pilum_table::Result<u64>)> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    let store = store.clone();
                    scope.spawn(move || {
                        let mut options = WriteOptions::default();
                        options.mode = WriteMode::Append;
                        let write_one = |id| {
                            let written = block_on(write(&store, reader(&[rows(id, 1)]), &options));
                            (id, written.map(|it| it.snapshot.version()))
                        };
                        (0..4)
                            .map(|number| write_one(1 + writer * 4 + number))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            writers
                .into_iter()
                .flat_map(|it| it.join().unwrap())
                .collect()
        });
        // A request of this reader to the register may fail too: opening the table then fails, so try again.
        let newest = (0..100)
            .find_map(|_| block_on(pilum_table::Dataset::open_in(&store, &VersionRef::Latest)).ok())
            .unwrap();
        let found = ids(newest.snapshot());
        for (id, outcome) in outcomes {
            let count = found.iter().filter(|it| **it == id).count();
            match outcome {
                Ok(_) => {
                    clear += 1;
                    assert_eq!(count, 1, "seed {seed}: acknowledged row {id}");
                }
                Err(Error::CommitUnknown { .. }) => {
                    unknown += 1;
                    assert!(count <= 1, "seed {seed}: row {id}");
                }
                Err(error) => assert_eq!(count, 0, "seed {seed}: row {id} after {error}"),
            }
        }
    }
    assert!(clear > 100, "{clear} clear, {unknown} unknown");
}
