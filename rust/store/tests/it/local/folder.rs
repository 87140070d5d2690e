//! Writing to local folders: races, durability, counting.

use std::fs;
use std::path::Path;
use std::sync::Barrier;

use pilum_store::testing::record::{Change, Record};
use pilum_store::{Durability, Error, Store};

use crate::{folder, now, open};

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
    // The first write into a folder also makes the names of the folder and of the root durable.
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
fn a_streamed_file_grows_by_whole_blocks() {
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
        assert_eq!(appended.len(), ends_within, "no call writes nothing");
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
