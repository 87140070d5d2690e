//! Commits beside cleanups that keep nothing but the newest version, request by request in an order drawn from a seed:
//! writers have every kind of bad luck and die, cleanups die. What was acknowledged is there, what has an id is there
//! once.
//!
//! The rules are those that `model` explores; here it is the code that follows them. `PILUM_TEST_SCALE=20` plays twenty
//! times as many schedules, `PILUM_TEST_SEED=n` only the one of a failure.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use pilum_store::testing::{Fate, Late, Script, Verb};
use pilum_table::{
    CleanupOptions, CommitOptions, Dataset, Error, Operation, Snapshot, Store, Transaction,
    VersionRef, commit,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::commit::schedules::{Steps, Weather, first_version, play};
use crate::support::{block_on, fabricated, memory, scale};

const SCHEDULES: u64 = 8_000;

/// The script of a cleanup: it takes its turns, and its requests simply happen. What a store says must be true for one
/// that removes things, as it is of all stores that are supported.
#[derive(Debug)]
struct Fair(Steps);

impl Script for Fair {
    fn fate(&self, verb: Verb, path: &str) -> BoxFuture<'_, Fate> {
        self.0.fate(verb, path).map(|_| Fate::Happens).boxed()
    }

    fn later(&self, request: Late) {
        self.0.later(request);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Acknowledged,
    Before,
    Refused,
    /// Nobody knows: the writer says so, or it died.
    Unknown,
}

/// An append that was tried.
#[derive(Debug)]
struct Tried {
    name: String,
    id: Option<String>,
    end: End,
}

/// What all take part in.
#[derive(Debug, Default)]
struct Told {
    tried: Mutex<Vec<Tried>>,
    removed: Mutex<u64>,
}

async fn write(store: Store, writer: usize, seed: u64, told: Arc<Told>) {
    let mut random = StdRng::seed_from_u64(seed ^ (writer as u64 + 1) << 48);
    for number in 0..random.random_range(1..4) {
        let Ok(base) = Snapshot::newest(&store).await else {
            continue;
        };
        let name = format!("{writer}-{number}");
        let fragments = vec![fabricated(&name)];
        let transaction = Transaction::new(base.version(), Operation::Append { fragments });
        let mut options = CommitOptions::default();
        let has_id = random.random_bool(0.5);
        options.commit_id = has_id.then(|| format!("id {}", random.random_range(0..2)));
        let index = {
            let mut tried = told.tried.lock().unwrap();
            tried.push(Tried {
                name,
                id: options.commit_id.clone(),
                end: End::Unknown,
            });
            tried.len() - 1
        };
        let end = match commit(&store, Some(&base), transaction, &options).await {
            Ok(committed) if committed.was_committed_before => End::Before,
            Ok(_) => End::Acknowledged,
            Err(Error::CommitUnknown { .. }) => End::Unknown,
            Err(_) => End::Refused,
        };
        told.tried.lock().unwrap()[index].end = end;
    }
}

async fn clean(store: Store, times: usize, told: Arc<Told>) {
    let mut options = CleanupOptions::default();
    options.older_than = Duration::ZERO;
    for _ in 0..times {
        let Ok(table) = Dataset::open_in(&store, &VersionRef::Latest).await else {
            continue;
        };
        if let Ok(cleaned) = table.cleanup(&options).await {
            *told.removed.lock().unwrap() += cleaned.removed_versions.len() as u64;
        }
    }
}

fn check(store: &Store, tried: &[Tried]) {
    let newest = block_on(Snapshot::newest(store)).unwrap();
    let fragments = newest.fragments().iter();
    let names: Vec<&str> = fragments
        .filter_map(|it| it.files[0].path.strip_suffix(".lance"))
        .collect();
    let times = |name: &str| names.iter().filter(|it| **it == name).count();
    for one in tried {
        let same = |it: &&Tried| it.name == one.name || it.id.is_some() && it.id == one.id;
        let of_id: usize = tried.iter().filter(same).map(|it| times(&it.name)).sum();
        assert!(of_id <= 1, "{one:?} is there {of_id} times: {names:?}");
        match one.end {
            End::Acknowledged => assert_eq!(times(&one.name), 1, "{one:?}: {names:?}"),
            End::Before => assert_eq!(of_id, 1, "{one:?}: {names:?}"),
            End::Refused => assert_eq!(times(&one.name), 0, "{one:?}: {names:?}"),
            End::Unknown => {}
        }
    }
}

/// Plays the schedule of one seed on `store`, which it leaves empty.
fn schedule(store: &Store, seed: u64, first: &[(String, bytes::Bytes)]) -> Told {
    for (path, bytes) in first {
        block_on(store.put(path, bytes.clone())).unwrap();
    }
    let weather = Arc::new(Mutex::new(Weather::new(seed)));
    let (writers, cleanups, deaths) = {
        let mut weather = weather.lock().unwrap();
        weather.bad_per_mille = weather.bad_per_mille.min(150);
        let random = &mut weather.random;
        let deaths = [0, 0, 5, 20][random.random_range(0..4)];
        (random.random_range(2..5), random.random_range(1..3), deaths)
    };
    let told = Arc::new(Told::default());
    let steps = |writer| Steps {
        writer,
        weather: Arc::clone(&weather),
    };
    let mut all = Vec::new();
    for writer in 0..writers {
        let store = store.scripted(Arc::new(steps(writer))).without_pauses();
        all.push(write(store, writer, seed, Arc::clone(&told)).boxed());
    }
    for cleanup in 0..cleanups {
        let script = Fair(steps(writers + cleanup));
        let store = store.scripted(Arc::new(script)).without_pauses();
        all.push(clean(store, 3, Arc::clone(&told)).boxed());
    }
    play(&weather, all, deaths);
    check(store, &told.tried.lock().unwrap());
    for listed in block_on(store.list_recursive("")).unwrap() {
        block_on(store.delete(&listed.path)).unwrap();
    }
    Arc::into_inner(told).unwrap()
}

#[test]
fn cleanups_beside_commits_lose_nothing_and_nothing_is_committed_twice() {
    let (store, first) = (memory(), first_version());
    let one: Option<u64> = std::env::var("PILUM_TEST_SEED")
        .ok()
        .map(|seed| seed.parse().unwrap());
    let seeds = one.map_or(0..SCHEDULES * scale(), |seed| seed..seed + 1);
    let (mut removed, mut ends) = (0, Vec::new());
    for seed in seeds {
        let play = std::panic::AssertUnwindSafe(|| schedule(&store, seed, &first));
        let Ok(told) = std::panic::catch_unwind(play) else {
            panic!("PILUM_TEST_SEED={seed} shows it again");
        };
        removed += told.removed.into_inner().unwrap();
        let tried = told.tried.into_inner().unwrap();
        ends.extend(tried.iter().map(|it| it.end));
    }
    if one.is_none() {
        let count = |end| ends.iter().filter(|it| **it == end).count() as u64;
        assert!(removed > SCHEDULES, "{removed}");
        assert!(count(End::Acknowledged) > SCHEDULES);
        assert!(count(End::Before) > SCHEDULES / 10 && count(End::Unknown) > SCHEDULES / 100);
    }
}
