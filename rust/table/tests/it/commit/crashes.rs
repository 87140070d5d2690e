//! Processes that end at every place where they could: at each fail point that an operation passes, the first, a
//! middle and the last time that it does. What was acknowledged is there, all else is there or not, and what is left
//! behind goes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pilum_store::failpoint;

use crate::acts::{ACTS, Act, View, clean, expect_whole, look, prepare};
use crate::commit::fail_points::all_fail_points;
use crate::support::{copy, expect_no_orphans, local, open};

const ACT: &str = "PILUM_CRASH_ACT";
const TABLE: &str = "PILUM_CRASH_TABLE";

/// Without the variables, every act runs to its end, here; with them, one does, and this process may be a victim.
#[test]
fn every_act_is_acknowledged_if_nothing_interrupts_it() {
    if let (Ok(name), Ok(table)) = (std::env::var(ACT), std::env::var(TABLE)) {
        let act = ACTS.iter().find(|act| act.name == name).unwrap();
        (act.run)(&local(Path::new(&table))).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for act in &ACTS {
        let store = local(&folder.path().join(act.name));
        if !act.creates {
            prepare(&store);
        }
        let before = look(&store);
        (act.run)(&store).unwrap();
        let is_hidden = ["compact", "cleanup", "reserve ids"].contains(&act.name);
        assert_eq!(look(&store) == before, is_hidden, "{}", act.name);
        expect_whole(&store, act.name);
    }
}

/// Runs the act in a process of its own, in which something happens at a place.
fn run_apart(act: &Act, table: &Path, happening: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "commit::crashes::every_act_is_acknowledged_if_nothing_interrupts_it",
            "--test-threads=1",
        ])
        .env(ACT, act.name)
        .env(TABLE, table)
        .env("PILUM_FAILPOINT", happening)
        .output()
        .unwrap()
}

/// Runs the act in a process that is to end at `place`; true if it was acknowledged before.
fn run_and_kill(act: &Act, table: &Path, place: &str, pass: u64) -> bool {
    let status = run_apart(act, table, &format!("{place}=abort@{pass}")).status;
    let name = act.name;
    assert_eq!(status.code().unwrap_or(0), 0, "{name}: an error, no end");
    status.success()
}

/// How often the act passes each place.
fn passes(act: &Act, template: &Path, folder: &Path) -> BTreeMap<&'static str, u64> {
    let table = folder.join(format!("count {}", act.name));
    copy(template, &table);
    let counting = failpoint::count(table.to_str().unwrap());
    (act.run)(&local(&table)).unwrap();
    counting.passes()
}

#[test]
fn a_process_may_end_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, template) = (folder.path().join("empty"), folder.path().join("template"));
    std::fs::create_dir_all(&empty).unwrap();
    prepare(&local(&template));
    let (mut places, mut pairs, mut ends) = (BTreeSet::new(), 0, 0);
    for act in &ACTS {
        let template = if act.creates { &empty } else { &template };
        let before = look(&local(template));
        let complete = folder.path().join(format!("complete {}", act.name));
        copy(template, &complete);
        (act.run)(&local(&complete)).unwrap();
        let after = look(&local(&complete));
        let passes = passes(act, template, folder.path());
        for (place, count) in passes {
            places.insert(place);
            pairs += 1;
            for pass in BTreeSet::from([1, count.div_ceil(2), count]) {
                ends += 1;
                let told = format!("{} ended at {place}, pass {pass}", act.name);
                let table = folder.path().join(format!("{ends}"));
                copy(template, &table);
                assert!(
                    !run_and_kill(act, &table, place, pass),
                    "{told}: not reached"
                );
                expect_recovered(&table, act, &before, &after, &told);
                std::fs::remove_dir_all(&table).unwrap();
            }
        }
    }
    // Those of object stores and registers are passed by none of these, and one only by commits that are refused.
    let elsewhere = |place: &&str| {
        ["object.", "external.", "register."]
            .iter()
            .any(|room| place.starts_with(room))
    };
    let expected = all_fail_points().filter(|place| !elsewhere(place)).count() - 1;
    assert_eq!(places.len(), expected, "{places:?}");
    assert!(places.len() >= 25 && pairs >= 200, "{pairs}");
    assert!(ends > pairs, "{ends}");
}

/// All files of a folder, also those that a store would not list.
fn all_files(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all_files(&path, found);
        } else {
            found.insert(path);
        }
    }
}

/// A full disk, found at any step: the table is as it was, and nothing is left of the attempt.
#[test]
fn a_step_may_fail_and_nothing_is_left_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("template");
    prepare(&local(&template));
    let before = look(&local(&template));
    let (mut failures, mut unknown) = (0, 0);
    for act in &ACTS {
        // What was removed stays removed.
        if act.creates || ["cleanup", "delete tag"].contains(&act.name) {
            continue;
        }
        for (place, count) in passes(act, &template, folder.path()) {
            for pass in BTreeSet::from([1, count]) {
                let told = format!("{} failed at {place}, pass {pass}", act.name);
                let table = folder.path().join("table");
                copy(&template, &table);
                let mut files = BTreeSet::new();
                all_files(&table, &mut files);
                let done = run_apart(act, &table, &format!("{place}=error@{pass}"));
                let store = local(&table);
                if done.status.success() {
                    expect_no_orphans(&store);
                } else if String::from_utf8_lossy(&done.stdout).contains("CommitUnknown") {
                    unknown += 1;
                } else {
                    failures += 1;
                    assert_eq!(look(&store), before, "{told}");
                    // A compaction may have taken fragment ids.
                    if act.name == "compact" {
                        expect_no_orphans(&store);
                    } else {
                        let mut left = BTreeSet::new();
                        all_files(&table, &mut left);
                        // What a commit id stands for is remembered: the caller may ask again.
                        left.retain(|file| !file.starts_with(table.join("_refs/commits")));
                        assert_eq!(left, files, "{told}");
                    }
                }
                expect_whole(&store, &told);
                std::fs::remove_dir_all(&table).unwrap();
            }
        }
    }
    assert!(failures >= 200, "{failures} failures, {unknown} unknown");
}

fn expect_recovered(
    table: &Path,
    act: &Act,
    before: &Option<View>,
    after: &Option<View>,
    told: &str,
) {
    let store = local(table);
    let found = look(&store);
    assert!(*before == found || *after == found, "{told}: {found:?}");
    expect_whole(&store, told);
    if found.is_none() {
        // No table: doing it again makes one, over whatever lies there.
        (act.run)(&store).unwrap();
        assert!(*after == look(&store), "{told}");
        return;
    }
    if act.name == "append once" {
        (act.run)(&store).unwrap();
        assert!(*after == look(&store), "{told}: once means once");
    }
    let found = look(&store);
    clean(&store).unwrap();
    expect_no_orphans(&store);
    assert_eq!(look(&store), found, "{told}: cleaned up");
    // And life goes on.
    let config = ACTS.iter().find(|act| act.name == "config").unwrap();
    let version = open(&store).version();
    (config.run)(&store).unwrap();
    assert_eq!(open(&store).version(), version + 1, "{told}");
}
