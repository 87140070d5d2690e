//! The states that a power cut may leave, for records so short that every state is listed by hand.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pilum_store::testing::power::Cuts;
use pilum_store::testing::record::Change;

/// The states that cuts leave, as lists of "name=bytes", a folder as its name alone.
fn states(changes: &[Change]) -> BTreeSet<Vec<String>> {
    let cuts = Cuts {
        changes,
        ways: 10_000,
        seed: 0,
    };
    let mut states = BTreeSet::new();
    cuts.each(|remains| {
        let folder = tempfile::tempdir().unwrap();
        remains.lay_out(Path::new("/t"), folder.path()).unwrap();
        let mut found = Vec::new();
        list(folder.path(), "", &mut found);
        found.sort();
        states.insert(found);
        true
    });
    states
}

fn list(folder: &Path, prefix: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            list(&entry.path(), &format!("{name}/"), found);
            found.push(name);
        } else {
            let bytes = std::fs::read(entry.path()).unwrap();
            found.push(format!("{name}={}", bytes.escape_ascii()));
        }
    }
}

fn of(states: &[&[&str]]) -> BTreeSet<Vec<String>> {
    let owned = |state: &&[&str]| state.iter().map(|it| (*it).to_owned()).collect();
    states.iter().map(owned).collect()
}

fn at(name: &str) -> PathBuf {
    Path::new("/t").join(name)
}

#[test]
fn an_unflushed_file_is_there_in_any_state_or_not_at_all() {
    let changes = [
        Change::Create(at("a")),
        Change::Append(at("a"), b"abcd".to_vec()),
    ];
    assert_eq!(
        states(&changes),
        of(&[
            &[],
            &["a="],
            &["a=abcd"],
            &["a=ab"],
            &["a=ab\\x00\\x00"],
            &["a=\\x00\\x00\\x00\\x00"]
        ])
    );
}

#[test]
fn a_flush_keeps_the_bytes_and_a_flush_of_the_folder_the_name() {
    let mut changes = vec![
        Change::Create(at("a")),
        Change::Append(at("a"), b"ab".to_vec()),
        Change::BeginFlush(7),
        Change::Flush(at("a"), 7),
    ];
    changes.extend([Change::BeginFlush(8), Change::FlushFolder(at(""), 8)]);
    // What follows is not covered by the flushes before.
    changes.extend([
        Change::Link(at("a"), at("b")),
        Change::Remove(at("a")),
        Change::Answer(1),
    ]);
    let cuts = Cuts {
        changes: &changes,
        ways: 100,
        seed: 0,
    };
    let mut last = BTreeSet::new();
    cuts.each(|remains| {
        if remains.answers.contains(&1) {
            let folder = tempfile::tempdir().unwrap();
            remains.lay_out(Path::new("/t"), folder.path()).unwrap();
            let mut found = Vec::new();
            list(folder.path(), "", &mut found);
            found.sort();
            last.insert(found);
        }
        true
    });
    assert_eq!(last, of(&[&[], &["a=ab"], &["b=ab"], &["a=ab", "b=ab"]]));
}

#[test]
fn what_happens_while_a_flush_is_under_way_is_not_covered_by_it() {
    let changes = [
        Change::Create(at("a")),
        Change::BeginFlush(0),
        Change::Create(at("b")),
        Change::FlushFolder(at(""), 0),
    ];
    let expected = of(&[&[], &["a="], &["b="], &["a=", "b="]]);
    assert_eq!(states(&changes), expected);
}

#[test]
fn a_rename_happens_as_a_whole_and_a_lost_folder_takes_all_along() {
    let changes = [
        Change::CreateFolder(at("f")),
        Change::Create(at("f/.tmp")),
        Change::Rename(at("f/.tmp"), at("f/b")),
        Change::BeginFlush(0),
        Change::FlushFolder(at("f"), 0),
    ];
    let expected = of(&[&[], &["f"], &["f", "f/.tmp="], &["f", "f/b="]]);
    assert_eq!(states(&changes), expected);
}
