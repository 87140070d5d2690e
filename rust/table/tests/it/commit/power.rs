//! Power cuts: everything that the disk was told during a history of operations is recorded, then cut at every moment,
//! in every way that a disk may lose what it was not told to keep. Whatever is left must hold what was acknowledged,
//! all else wholly or not at all, and nothing that a cleanup does not take away.
//!
//! `PILUM_TEST_SCALE=20` plays twenty times as many histories.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use pilum_format::parse_manifest_name;
use pilum_store::failpoint::arm;
use pilum_store::testing::power::{Cuts, Remains};
use pilum_store::testing::record::{Change, Record};
use pilum_table::{Durability, Snapshot, Store};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use tempfile::TempDir;

use crate::acts::{ACTS, Act, View, clean, expect_whole, look};
use crate::support::{append, block_on, create, expect_no_orphans, local, open, rows, scale};

/// What was told when an operation was acknowledged.
#[derive(Debug, Clone, Default)]
struct Told {
    act: &'static str,
    view: Option<View>,
    versions: BTreeSet<u64>,
}

impl Told {
    fn by(store: &Store, act: &'static str) -> Self {
        Self {
            act,
            view: look(store),
            versions: versions(store),
        }
    }
}

fn versions(store: &Store) -> BTreeSet<u64> {
    let listed = block_on(store.list("_versions")).unwrap();
    let numbers = listed
        .iter()
        .filter_map(|it| parse_manifest_name(it.name()));
    numbers.map(|(_, version)| version).collect()
}

/// One history: what the disk was told, and what the caller was told after each operation, the first of none.
struct History {
    changes: Vec<Change>,
    told: Vec<Told>,
}

/// The store of the table in `root`, whose changes of the disk are recorded.
fn recorded(record: &Record, root: &Path) -> Store {
    record.open(root.join("table").to_str().unwrap()).unwrap()
}

/// Operations one after the other, each acknowledged before the next.
fn history(root: &Path, acts: &[&Act]) -> History {
    let record = Record::of(root);
    let store = recorded(&record, root);
    let mut told = vec![Told::default()];
    for (number, act) in (1..).zip(acts) {
        (act.run)(&store).unwrap();
        record.answer(number);
        told.push(Told::by(&store, act.name));
    }
    let changes = record.changes();
    History { changes, told }
}

fn named(name: &str) -> &'static Act {
    ACTS.iter().find(|act| act.name == name).unwrap()
}

/// All the operations in an order drawn from the seed, as far as they do not need one.
fn shuffled(seed: u64) -> Vec<&'static Act> {
    let free = [
        "append",
        "append once",
        "append",
        "overwrite",
        "delete",
        "update",
        "compact",
        "config",
        "reserve ids",
        "restore",
        "append once",
    ];
    let mut acts = free.map(named).to_vec();
    acts.shuffle(&mut StdRng::seed_from_u64(seed));
    let mut all = vec![named("create"), named("append"), named("create tag")];
    all.append(&mut acts);
    let last = ["cleanup", "delete", "compact", "cleanup", "rename column"];
    all.extend(last.map(named));
    all
}

impl History {
    /// Reopens what a cut left, and holds it against what the caller was told.
    fn check(&self, root: &Path, remains: &Remains) {
        let folder = in_memory();
        remains.lay_out(root, folder.path()).unwrap();
        // Nobody cuts this disk.
        let store = local(&folder.path().join("table")).with_durability(Durability::None);
        let acknowledged = remains.answers.last().copied().unwrap_or_default();
        let before = &self.told[usize::try_from(acknowledged).unwrap()];
        let after = self.told.get(before_next(acknowledged)).unwrap_or(before);
        let moment = remains.moment;
        let place = format!(
            "cut after change {moment}, {:?} acknowledged, {:?} under way",
            before.act, after.act
        );

        let found = look(&store);
        let is_told = found == before.view || found == after.view;
        assert!(is_told, "{place}: {found:?} is not {:?}", before.view);
        let listed = versions(&store);
        let kept: BTreeSet<u64> = before
            .versions
            .intersection(&after.versions)
            .copied()
            .collect();
        assert!(listed.is_superset(&kept), "{place}: {listed:?} of {kept:?}");
        expect_whole(&store, &place);
        for version in listed {
            let snapshot = block_on(Snapshot::at_version(&store, version)).unwrap();
            let name = &snapshot.manifest().transaction_file;
            let there = block_on(store.exists(&format!("_transactions/{name}"))).unwrap();
            assert!(
                there,
                "{place}: the transaction of version {version} is lost"
            );
        }
        if acknowledged + 1 == self.told.len() as u64 && before.act == "cleanup" {
            // What was removed stays so.
            expect_no_orphans(&store);
        }
        if found.is_none() {
            // No table: making one works, over whatever lies there.
            (named("create").run)(&store).unwrap();
            assert_eq!(look(&store), self.told[1].view, "{place}");
            return;
        }
        // A cleanup without grace forgets what was committed once.
        let since = self.told[..before_next(acknowledged)].rsplit(|it| it.act == "cleanup");
        let was_once = since.take(1).flatten().any(|it| it.act == "append once");
        if after.act == "append once" || was_once && after.act != "cleanup" {
            (named("append once").run)(&store).unwrap();
            let expected = if was_once { &found } else { &after.view };
            assert_eq!(look(&store), *expected, "{place}: once means once");
        }
        let found = look(&store);
        clean(&store).unwrap();
        expect_no_orphans(&store);
        assert_eq!(look(&store), found, "{place}: cleaned up");
    }

    /// Cuts at every moment. Gives the number of states.
    fn expect_recovery(&self, root: &Path, seed: u64) -> usize {
        let ways = 48;
        let changes = &self.changes;
        let cuts = Cuts {
            changes,
            ways,
            seed,
        };
        cuts.each(|remains| {
            self.check(root, remains);
            true
        })
    }

    /// Whether some cut breaks what was promised.
    fn is_broken(&self, root: &Path) -> bool {
        let (ways, seed) = (48, 0);
        let changes = &self.changes;
        let mut is_broken = false;
        Cuts {
            changes,
            ways,
            seed,
        }
        .each(|remains| {
            let checked = catch_unwind(AssertUnwindSafe(|| self.check(root, remains)));
            is_broken = checked.is_err();
            !is_broken
        });
        is_broken
    }
}

/// A folder that costs no disk, where there is such a place.
fn in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn before_next(acknowledged: u64) -> usize {
    usize::try_from(acknowledged).unwrap() + 1
}

#[test]
fn power_may_fail_at_any_moment() {
    let mut states = 0;
    for seed in 0..3 * scale() {
        let folder = tempfile::tempdir().unwrap();
        let history = history(folder.path(), &shuffled(seed));
        states += history.expect_recovery(folder.path(), seed);
    }
    assert!(states >= 2000, "{states}");
}

/// A flush may fail after a version got its name, and the version is found by looking: it is acknowledged only when its
/// name is as stable as that of any other.
#[test]
fn what_is_found_after_a_flush_failed_is_stable_too() {
    for once in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let record = Record::of(root);
        let store = recorded(&record, root);
        let mut told = vec![Told::default()];
        (named("create").run)(&store).unwrap();
        record.answer(1);
        told.push(Told::by(&store, "create"));
        let only = format!("{}/table/_versions", root.to_str().unwrap());
        let act = named(if once { "append once" } else { "append" });
        let name_is_lost = arm("create.before_folder_fsync=error", &only);
        if once {
            // Nothing can be flushed, so nobody can say.
            let found_is_lost = arm("names.before_fsync=error", &only);
            let error = (act.run)(&store).unwrap_err();
            assert_eq!(error.kind(), "commit_unknown", "{error}");
            drop(found_is_lost);
        }
        // It is there, by this call or the one before.
        (act.run)(&store).unwrap();
        record.answer(2);
        drop(name_is_lost);
        told.push(Told::by(&store, act.name));
        assert_eq!(open(&store).version(), 2);
        let changes = record.changes();
        let history = History { changes, told };
        assert!(history.expect_recovery(root, 7) > 20);
    }
}

/// Every flush is there for a reason: without it, some cut breaks what was promised.
#[test]
fn no_flush_can_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let acts = [
        "create",
        "append once",
        "delete",
        "create tag",
        "config",
        "cleanup",
    ];
    let mut history = history(root, &acts.map(named));
    let complete = history.changes.clone();
    assert!(!history.is_broken(root));
    let (mut flushes, mut needless) = (0, Vec::new());
    for (at, change) in complete.iter().enumerate() {
        if matches!(change, Change::Flush(..) | Change::FlushFolder(..)) {
            flushes += 1;
            history.changes = complete.clone();
            history.changes.remove(at);
            if !history.is_broken(root) {
                needless.push(change);
            }
        }
    }
    // Of those few it is known. The folder of the table gets its names one after the other before the first answer, and
    // the last flush is for all of them. What a marker became, and that a marker is gone, is told for convenience.
    let (table, markers) = (root.join("table"), root.join("table/_refs/commits"));
    let is_known = |change: &&Change| matches!(change, Change::FlushFolder(it, _) if *it == table || *it == markers);
    assert!(needless.iter().all(is_known), "{needless:#?}");
    assert!(
        needless.len() <= 4 && flushes >= 30,
        "{flushes}: {needless:#?}"
    );
}

/// Writers of one process, whose flushes overlap and who build upon versions whose names are not stable yet.
#[test]
fn writers_that_flush_together_lose_nothing_either() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let record = Record::of(root);
    let store = recorded(&record, root);
    create(&store, &rows(0, 2), false);
    record.answer(0);
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (store, record) = (&store, &record);
            scope.spawn(move || {
                for number in [writer * 2 + 1, writer * 2 + 2] {
                    append(store, &rows(number * 2, 2));
                    record.answer(number.unsigned_abs());
                }
            });
        }
    });
    let changes = &record.changes();
    let (ways, seed) = (12, 0);
    let states = Cuts {
        changes,
        ways,
        seed,
    }
    .each(|remains| {
        let folder = in_memory();
        remains.lay_out(root, folder.path()).unwrap();
        let store = local(&folder.path().join("table")).with_durability(Durability::None);
        let place = format!("cut after change {}", remains.moment);
        let found = look(&store).map_or_else(Vec::new, |view| view.rows);
        for number in 0..7 {
            let of = |id: &&(i64, Option<String>)| id.0 / 2 == number;
            let count = found.iter().filter(of).count();
            let is_acknowledged = remains.answers.contains(&number.unsigned_abs());
            let is_fine = count == 2 || count == 0 && !is_acknowledged;
            assert!(is_fine, "{place}: append {number}: {count} of 2 rows");
        }
        expect_whole(&store, &place);
        if !found.is_empty() {
            clean(&store).unwrap();
            expect_no_orphans(&store);
            append(&store, &rows(100, 2));
        }
        true
    });
    // How many flushes the writers share, and so how many changes there are to cut between, is up to their threads.
    assert!(states > changes.len(), "{states} of {}", changes.len());
    assert!(states > 100, "{states}");
}
