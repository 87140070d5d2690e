//! Local folders: races, durability, links, counting.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Barrier;

use pilum_store::testing::record::{Change, Record};
use pilum_store::{Durability, Error, Store};
use proptest::prelude::*;

use crate::{folder, now, open, open_unmapped};

#[test]
fn sixteen_creators_have_one_winner_and_leave_no_other_file() {
    let (_keep, path) = folder();
    for round in 0..20 {
        let barrier = Barrier::new(16);
        let key = format!("_versions/{round}");
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..16)
                .map(|racer| {
                    let (barrier, path, key) = (&barrier, path.as_str(), key.as_str());
                    scope.spawn(move || {
                        let store = open(path);
                        barrier.wait();
                        (racer, now(store.create(key, format!("{racer}").into())))
                    })
                })
                .collect();
            racers
                .into_iter()
                .map(|racer| racer.join().unwrap())
                .collect()
        });
        let winners: Vec<_> = outcomes
            .iter()
            .filter(|(_, outcome)| outcome.is_ok())
            .collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        let lost = |o: &Result<(), Error>| matches!(o, Err(Error::AlreadyExists { .. }));
        assert_eq!(
            outcomes.iter().filter(|(_, outcome)| lost(outcome)).count(),
            15
        );
        assert_eq!(
            now(open(&path).read(&key, 99)).unwrap(),
            winners[0].0.to_string()
        );
    }
    assert_eq!(now(open(&path).list_recursive("")).unwrap().len(), 20);
}

#[test]
fn every_durable_write_flushes_its_bytes_and_then_its_name() {
    let (_keep, path) = folder();
    let store = open(&path);
    let fsyncs = |store: &Store| store.counters().fsyncs;
    // The first write into a folder also settles the folder's own name, and the root's.
    now(store.create("data/a", "x".into())).unwrap();
    assert_eq!(fsyncs(&store), 2 + 2);
    now(store.create("data/b", "x".into())).unwrap();
    assert_eq!(fsyncs(&store), 4 + 2);
    assert!(now(store.create("data/b", "x".into())).is_err());
    assert_eq!(fsyncs(&store), 6, "a lost race needs no flush");
    now(store.put("data/b", "y".into())).unwrap();
    assert_eq!(fsyncs(&store), 8);
    let mut writer = now(store.writer("data/c")).unwrap();
    for _ in 0..5 {
        now(writer.write(vec![1; 700_000].into())).unwrap();
    }
    assert_eq!(fsyncs(&store), 8, "flushed once, at the end");
    now(writer.finish()).unwrap();
    assert_eq!(fsyncs(&store), 10);
    // New folders in a known one: their names, and no other.
    now(store.create("data/x/y/z", "x".into())).unwrap();
    assert_eq!(fsyncs(&store), 10 + 2 + 2);
}

#[test]
fn written_piece_by_piece_a_file_grows_by_whole_blocks() {
    const BLOCK: usize = 2 << 20;
    let (_keep, path) = folder();
    let record = Record::of(Path::new(&path));
    let store = record.open(&path).unwrap();
    let sizes = [
        vec![],
        vec![0],
        vec![1, BLOCK - 2, 0, 1],
        vec![BLOCK - 1, 1, 1],
        vec![BLOCK, BLOCK + 1],
        vec![5 * BLOCK + 7, 3, 3 * BLOCK - 10, 0],
        vec![57_344, 7_340_032, 57_344, 7_340_032, 9],
        vec![700_000; 7],
    ];
    for (number, sizes) in sizes.iter().enumerate() {
        let name = format!("data/{number}");
        let mut writer = now(store.writer(&name)).unwrap();
        let mut expected = Vec::new();
        for (seed, &size) in sizes.iter().enumerate() {
            let bytes: Vec<u8> = (0..=250).cycle().skip(seed).take(size).collect();
            expected.extend_from_slice(&bytes);
            now(writer.write(bytes.into())).unwrap();
            assert_eq!(writer.position(), expected.len() as u64);
        }
        assert_eq!(now(writer.finish()).unwrap(), expected.len() as u64);
        let written = fs::read(format!("{path}/{name}")).unwrap();
        assert!(written == expected, "{sizes:?}");
        let file = Path::new(&path).join(&name);
        let appended: Vec<usize> = record
            .changes()
            .into_iter()
            .filter_map(|change| match change {
                Change::Append(path, bytes) if path == file => Some(bytes.len()),
                _ => None,
            })
            .collect();
        let (last, before) = appended.split_last().unwrap_or((&0, &[]));
        assert!(before.iter().all(|size| size % BLOCK == 0), "{appended:?}");
        let ends_within = before.len() + usize::from(*last > 0);
        assert_eq!(appended.len(), ends_within, "nothing is written in vain");
        assert_eq!(appended.iter().sum::<usize>(), expected.len());
    }
}

#[test]
fn scratch_tables_flush_nothing() {
    let (_keep, path) = folder();
    let store = open(&path).with_durability(Durability::None);
    now(store.create("a/b/c", "x".into())).unwrap();
    now(store.put("a/b/c", "y".into())).unwrap();
    now(now(store.writer("a/d")).unwrap().finish()).unwrap();
    now(store.sync_folder("a")).unwrap();
    assert_eq!(store.counters().fsyncs, 0);
    assert_eq!(now(store.read("a/b/c", 9)).unwrap(), "y");
}

#[test]
fn a_folder_deleted_meanwhile_is_made_again() {
    let (_keep, path) = folder();
    let store = open(&path);
    now(store.create("data/a", "x".into())).unwrap();
    assert_eq!(store.counters().fsyncs, 2 + 2);
    fs::remove_dir_all(format!("{path}/data")).unwrap();
    now(store.create("data/a", "y".into())).unwrap();
    assert_eq!(store.counters().fsyncs, 4 + 1 + 2, "its name is new");
    assert_eq!(now(store.read("data/a", 9)).unwrap(), "y");
}

#[test]
fn links_that_leave_the_root_are_refused_by_every_verb() {
    let (_keep, base) = folder();
    let root = format!("{base}/table");
    fs::create_dir_all(format!("{root}/data")).unwrap();
    fs::create_dir(format!("{base}/outside")).unwrap();
    fs::create_dir(format!("{base}/table-2")).unwrap();
    fs::write(format!("{base}/outside/secret"), "s").unwrap();
    symlink("../../outside/secret", format!("{root}/data/file")).unwrap();
    symlink(format!("{base}/outside"), format!("{root}/folder")).unwrap();
    symlink("../table-2", format!("{root}/sibling")).unwrap();
    symlink("../outside/not-yet", format!("{root}/dangling")).unwrap();
    let store = open(&root);
    for path in [
        "data/file",
        "folder/secret",
        "folder/new",
        "sibling/new",
        "folder/a/b",
        "dangling",
    ] {
        let refused = [
            now(store.read(path, 9)).err(),
            now(store.stat(path)).err(),
            now(store.open_file(path, None)).err(),
            now(store.create(path, "x".into())).err(),
            now(store.put(path, "x".into())).err(),
            now(store.writer(path)).err(),
            now(store.delete(path)).err(),
        ];
        for error in refused {
            assert!(
                matches!(error, Some(Error::OutsideRoot { .. })),
                "{path}: {error:?}"
            );
        }
    }
    for prefix in ["folder", "sibling", "folder/a"] {
        assert!(
            matches!(now(store.list(prefix)), Err(Error::OutsideRoot { .. })),
            "{prefix}"
        );
    }
    assert!(
        now(store.list("data")).unwrap().is_empty(),
        "listings show no way out either"
    );
    assert!(now(store.list_recursive("")).unwrap().is_empty());
    assert_eq!(fs::read_dir(format!("{base}/outside")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(format!("{base}/table-2")).unwrap().count(), 0);
}

#[test]
fn a_link_that_changes_while_it_is_opened_never_leads_out() {
    let (_keep, base) = folder();
    let root = format!("{base}/table");
    for (path, text) in [("table/inside", "inside"), ("outside", "secret")] {
        fs::create_dir_all(format!("{base}/{path}")).unwrap();
        fs::write(format!("{base}/{path}/file"), text).unwrap();
    }
    let store = open(&root);
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0.. {
                if ends.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                let to = ["inside", "../outside"][turn % 2];
                symlink(to, format!("{base}/next")).unwrap();
                fs::rename(format!("{base}/next"), format!("{root}/link")).unwrap();
            }
        });
        let (mut inside, mut refused) = (0, 0);
        for _ in 0..20_000 {
            match now(store.read("link/file", 9)) {
                Ok(text) => {
                    assert_eq!(text, "inside");
                    inside += 1;
                }
                Err(_) => refused += 1,
            }
        }
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(
            inside > 0 && refused > 0,
            "{inside} read, {refused} refused"
        );
    });
}

#[test]
fn links_inside_the_root_are_followed() {
    let (_keep, root) = folder();
    let store = open(&root);
    now(store.create("data/real", "x".into())).unwrap();
    symlink("real", format!("{root}/data/link")).unwrap();
    symlink("data", format!("{root}/alias")).unwrap();
    assert_eq!(now(store.read("data/link", 9)).unwrap(), "x");
    assert_eq!(now(store.read("alias/link", 9)).unwrap(), "x");
    assert_eq!(now(store.list("data")).unwrap().len(), 2);
    // A loop of links is an error, not a hang.
    symlink("loop", format!("{root}/loop")).unwrap();
    assert!(now(store.read("loop", 9)).is_err());
    symlink(".", format!("{root}/data/here")).unwrap();
    assert_eq!(now(store.list_recursive("")).unwrap().len(), 2);
}

#[test]
fn pipes_and_folders_are_no_objects_and_nobody_waits_for_them() {
    let (_keep, root) = folder();
    let made = std::process::Command::new("mkfifo")
        .arg(format!("{root}/pipe"))
        .status()
        .unwrap();
    assert!(made.success());
    fs::create_dir(format!("{root}/folder")).unwrap();
    let store = open(&root);
    for path in ["pipe", "folder"] {
        assert!(now(store.open_file(path, None)).unwrap_err().is_not_found());
        assert!(now(store.read(path, 9)).unwrap_err().is_not_found());
        assert!(now(store.stat(path)).unwrap_err().is_not_found());
    }
    assert!(now(store.list("")).unwrap().is_empty());
}

#[test]
fn a_replaced_file_is_still_what_it_was_to_those_who_opened_it() {
    for open in [open, open_unmapped] {
        let (_keep, root) = folder();
        let store = open(&root);
        now(store.create("k", "old bytes".into())).unwrap();
        let file = now(store.open_file("k", None)).unwrap();
        now(store.put("k", "new".into())).unwrap();
        assert_eq!(now(file.read_ranges(&[4..9])).unwrap(), ["bytes"]);
        assert_eq!(file.size(), 9);
    }
}

#[test]
fn a_file_cut_short_while_open_is_an_error_with_system_calls() {
    let (_keep, root) = folder();
    let store = open_unmapped(&root);
    now(store.create("k", vec![1; 10_000].into())).unwrap();
    let file = now(store.open_file("k", None)).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(format!("{root}/k"))
        .unwrap()
        .set_len(100)
        .unwrap();
    assert!(matches!(
        now(file.read_ranges(&[0..10_000])),
        Err(Error::Io { .. })
    ));
    assert_eq!(now(file.read_ranges(&[0..100])).unwrap(), [vec![1; 100]]);
}

#[test]
fn a_mapped_file_cut_short_while_open_is_an_error_of_every_read() {
    let (_keep, root) = folder();
    let store = open(&root);
    now(store.create("k", vec![1; 10_000].into())).unwrap();
    let file = now(store.open_file("k", None)).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(format!("{root}/k"))
        .unwrap()
        .set_len(9_000)
        .unwrap();
    for refused in [
        now(file.read_ranges(&[0..10, 9_500..9_501])).err(),
        now(file.read_tail(10)).err(),
        file.prefetch(&[9_500..9_501]).err(),
        file.read_mapped(9_500..9_501).unwrap().err(),
    ] {
        let Some(Error::Io { path, source, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(path, format!("{root}/k"));
        assert!(source.to_string().contains("cut from 10000 to 9000 bytes"));
    }
}

#[test]
fn near_ranges_cost_one_request_on_every_local_path() {
    for (open, is_mapped) in [(open as fn(&str) -> Store, true), (open_unmapped, false)] {
        let (_keep, root) = folder();
        let store = open(&root);
        now(store.create("k", vec![1; 1 << 20].into())).unwrap();
        let file = now(store.open_file("k", None)).unwrap();
        let start = store.counters();
        now(file.read_ranges(&[0..10, 100..110, 50..60, 5..5])).unwrap();
        let near = store.counters().since(&start);
        assert_eq!((near.reads, near.bytes_read), (1, 110));
        now(file.read_ranges(&[0..10, 1_000_000..1_000_010])).unwrap();
        let far = store.counters().since(&start);
        assert_eq!((far.reads, far.bytes_read), (3, 130));
        now(file.read_ranges(&[7..7])).unwrap();
        assert_eq!(store.counters().since(&start).reads, 3);
        assert_eq!(file.mapped().is_some(), is_mapped);
    }
}

#[test]
fn clones_share_their_counters() {
    let (_keep, root) = folder();
    let store = open(&root);
    let clone = store.clone();
    now(clone.create("k", "abc".into())).unwrap();
    now(clone.read("k", 9)).unwrap();
    now(clone.list("")).unwrap();
    now(clone.delete("k")).unwrap();
    let seen = store.counters();
    assert_eq!((seen.writes, seen.bytes_written), (1, 3));
    assert_eq!(
        (seen.reads, seen.bytes_read, seen.lists, seen.deletes),
        (1, 3, 1, 1)
    );
}

#[test]
fn unfinished_writes_of_others_are_for_cleanup_only() {
    let (_keep, root) = folder();
    let store = open(&root);
    now(store.create("_versions/1", "x".into())).unwrap();
    fs::write(format!("{root}/_versions/.tmp-dead"), "half").unwrap();
    assert_eq!(now(store.list("_versions")).unwrap().len(), 1);
    assert_eq!(
        now(store.list_first("_versions", 1)).unwrap()[0].path,
        "_versions/1"
    );
    let all = now(store.list_recursive("")).unwrap();
    assert_eq!(
        all.iter().map(|one| one.name()).collect::<Vec<_>>(),
        [".tmp-dead", "1"]
    );
}

/// An index into a small file.
fn at(position: u64) -> usize {
    usize::try_from(position).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_ranges_of_any_file_are_the_bytes_written(
        bytes in prop::collection::vec(any::<u8>(), 0..100_000),
        cuts in prop::collection::vec((any::<u32>(), any::<u32>()), 0..20),
    ) {
        let (_keep, root) = folder();
        now(open(&root).with_durability(Durability::None).create("k", bytes.clone().into())).unwrap();
        let size = bytes.len() as u64;
        let ranges: Vec<_> = cuts
            .iter()
            .map(|&(a, b)| (u64::from(a) % (size + 1), u64::from(b) % (size + 1)))
            .map(|(a, b)| a.min(b)..a.max(b))
            .collect();
        for store in [open(&root), open_unmapped(&root)] {
            let file = now(store.open_file("k", None)).unwrap();
            let got = now(file.read_ranges(&ranges)).unwrap();
            prop_assert_eq!(got.len(), ranges.len());
            for (range, got) in ranges.iter().zip(got) {
                prop_assert_eq!(&got[..], &bytes[at(range.start)..at(range.end)]);
            }
        }
    }
}
