//! Commits under every kind of bad luck, on a store that does as a seed says: writers step at each request in an order
//! drawn from the seed; requests fail, lose their answer, arrive twice or late; listings are old; writers die.
//!
//! One schedule costs less than a millisecond, so each run plays 50,000 of them. `PILUM_TEST_SCALE=20` plays twenty
//! times as many, `PILUM_TEST_SEED=n` only the one of a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures::FutureExt;
use futures::future::BoxFuture;
use pilum_format::{DeletionFile, DeletionFileKind, Manifest, versions_of};
use pilum_store::testing::{Fate, Late, Script, Verb};
use pilum_table::{
    CommitOptions, ConfigUpdate, Error, Fragment, MapUpdate, Operation, Outcome, Snapshot, Store,
    Transaction, check_conflict, commit,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::{block_on, create, fabricated, memory, rows, scale};

const SCHEDULES: u64 = 50_000;

/// What the writers of one schedule share.
#[derive(Debug)]
pub(crate) struct Weather {
    pub(crate) random: StdRng,
    /// Of a thousand requests, so many do not simply happen.
    pub(crate) bad_per_mille: u32,
    late: Vec<Late>,
    /// The writer that is polled came to its next request.
    stepped: bool,
    /// What happened, for a look at a failed schedule, and to show that a seed says it all.
    pub(crate) trace: Vec<(usize, Verb, Fate)>,
}

impl Weather {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let bad_per_mille = [0, 20, 60, 150, 300, 700][random.random_range(0..6)];
        Self {
            random,
            bad_per_mille,
            late: Vec::new(),
            stepped: false,
            trace: Vec::new(),
        }
    }

    fn fate(&mut self, verb: Verb) -> Fate {
        if self.random.random_range(0..1000) >= self.bad_per_mille {
            return Fate::Happens;
        }
        match (verb, self.random.random_range(0..4)) {
            (Verb::List, 0..3) => Fate::Stale(self.random.random_range(1..4)),
            (_, 0) => Fate::Fails,
            (_, 1) => Fate::Twice,
            (Verb::Create | Verb::Put, 2) => Fate::Late,
            (Verb::Read | Verb::Stat | Verb::Open, 1..) => Fate::Happens,
            _ => Fate::AnswerLost,
        }
    }
}

/// The script of one writer.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) writer: usize,
    pub(crate) weather: Arc<Mutex<Weather>>,
}

/// Pending once: the scheduler decides who goes on.
struct Yield<'a> {
    weather: &'a Mutex<Weather>,
    waited: bool,
}

impl Future for Yield<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.waited {
            return Poll::Ready(());
        }
        self.waited = true;
        self.weather.lock().unwrap().stepped = true;
        Poll::Pending
    }
}

impl Script for Steps {
    fn fate(&self, verb: Verb, path: &str) -> BoxFuture<'_, Fate> {
        // Rows are read by threads of their own: they pass, and the order stays that of the seed.
        let is_rows = path.starts_with("data/") || path.starts_with("_deletions/");
        let passes = is_rows && matches!(verb, Verb::Open | Verb::Read | Verb::Stat);
        async move {
            if passes {
                return Fate::Happens;
            }
            let weather = &self.weather;
            let waited = false;
            Yield { weather, waited }.await;
            let mut weather = weather.lock().unwrap();
            let fate = weather.fate(verb);
            weather.trace.push((self.writer, verb, fate));
            fate
        }
        .boxed()
    }

    fn later(&self, request: Late) {
        self.weather.lock().unwrap().late.push(request);
    }
}

/// Steps the writers in an order drawn from the seed until all have ended. Some die on the way: `None`.
pub(crate) fn play<T>(
    weather: &Mutex<Weather>,
    writers: Vec<BoxFuture<'_, T>>,
    deaths_per_mille: u32,
) -> Vec<Option<T>> {
    let mut ended: Vec<Option<T>> = writers.iter().map(|_| None).collect();
    let mut running: Vec<_> = writers.into_iter().enumerate().collect();
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    while !running.is_empty() {
        let draw = |below| weather.lock().unwrap().random.random_range(0..below);
        let chosen = draw(running.len());
        // What is under way arrives at some time.
        let due = {
            let mut weather = weather.lock().unwrap();
            let count = weather.late.len();
            let arrives = count > 0 && weather.random.random_bool(0.15);
            arrives.then(|| {
                let which = weather.random.random_range(0..count);
                weather.late.swap_remove(which)
            })
        };
        if let Some(request) = due {
            block_on(request.deliver());
        }
        if deaths_per_mille > 0 && draw(1000) < deaths_per_mille as usize {
            drop(running.swap_remove(chosen));
            continue;
        }
        weather.lock().unwrap().stepped = false;
        loop {
            match running[chosen].1.as_mut().poll(&mut context) {
                Poll::Ready(output) => {
                    let (writer, _) = running.swap_remove(chosen);
                    ended[writer] = Some(output);
                    break;
                }
                Poll::Pending if weather.lock().unwrap().stepped => break,
                // It waits for a thread that reads rows.
                Poll::Pending => std::thread::park(),
            }
        }
    }
    loop {
        let request = weather.lock().unwrap().late.pop();
        match request {
            Some(request) if draw_once(weather) => block_on(request.deliver()),
            Some(_) => {}
            None => return ended,
        }
    }
}

/// Whether a request that is still under way at the end arrives.
fn draw_once(weather: &Mutex<Weather>) -> bool {
    weather.lock().unwrap().random.random_bool(0.5)
}

struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// How a commit ended, for its caller.
#[derive(Debug)]
enum End {
    Acknowledged {
        version: u64,
        before: bool,
    },
    /// Nothing was committed.
    Refused(Error),
    Unknown,
}

/// A commit that a writer tried.
#[derive(Debug)]
struct Tried {
    uuid: String,
    commit_id: Option<String>,
    end: Option<End>,
}

/// Some operation over `base`.
fn operation(random: &mut StdRng, base: &Snapshot, name: &str) -> Operation {
    let fragments = base.fragments();
    let some = |random: &mut StdRng| {
        let at = random.random_range(0..fragments.len().max(1));
        fragments.get(at).cloned()
    };
    match random.random_range(0..10) {
        0 => {
            let entries = [(
                ["a", "b"][random.random_range(0..2)].to_owned(),
                Some(name.to_owned()),
            )];
            let config = MapUpdate {
                entries: entries.into(),
                replace: false,
            };
            Operation::UpdateConfig(ConfigUpdate {
                config,
                ..ConfigUpdate::default()
            })
        }
        1 => Operation::Overwrite {
            fragments: vec![fabricated(name)],
            fields: base.manifest().fields.clone(),
            schema_metadata: BTreeMap::new(),
            config_upserts: BTreeMap::new(),
        },
        2 => Operation::Restore { version: 1 },
        3 | 4 if let Some(fragment) = some(random) => Operation::Delete {
            updated: vec![],
            removed_ids: vec![fragment.id],
            predicate: name.to_owned(),
        },
        5 | 6 if let Some(mut fragment) = some(random) => {
            fragment.deletion = Some(DeletionFile {
                kind: DeletionFileKind::Arrow,
                read_version: base.version(),
                id: random.random(),
                num_deleted_rows: 1,
                crc32c: None,
            });
            Operation::Delete {
                updated: vec![fragment],
                removed_ids: vec![],
                predicate: name.to_owned(),
            }
        }
        _ => Operation::Append {
            fragments: vec![fabricated(name)],
        },
    }
}

/// One writer: a few commits, one after the other.
async fn write(store: Store, writer: usize, seed: u64, tried: Arc<Mutex<Vec<Tried>>>) {
    let mut random = StdRng::seed_from_u64(seed ^ (writer as u64 + 1) << 48);
    for number in 0..random.random_range(1..4) {
        let Ok(base) = Snapshot::newest(&store).await else {
            continue;
        };
        let operation = operation(&mut random, &base, &format!("{writer}-{number}"));
        let transaction = Transaction::new(base.version(), operation);
        let mut options = CommitOptions::default();
        options.retries = [0, 1, 20][random.random_range(0..3)];
        // Some writers ask for the same thing.
        let shared = random.random_range(0..4) == 0;
        options.commit_id = shared.then(|| format!("id {}", random.random_range(0..2)));
        let index = {
            let mut tried = tried.lock().unwrap();
            tried.push(Tried {
                uuid: transaction.uuid.clone(),
                commit_id: options.commit_id.clone(),
                end: None,
            });
            tried.len() - 1
        };
        let end = match commit(&store, Some(&base), transaction, &options).await {
            Ok(committed) => End::Acknowledged {
                version: committed.snapshot.version(),
                before: committed.was_committed_before,
            },
            Err(Error::CommitUnknown { .. }) => End::Unknown,
            Err(error) => End::Refused(error),
        };
        tried.lock().unwrap()[index].end = Some(end);
    }
}

/// What a version should hold, worked out from the one before by the meaning of its operation alone.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    /// Fragment id, name, id of its deletion file.
    fragments: BTreeMap<u64, (String, Option<u64>)>,
    config: BTreeMap<String, String>,
    max_id: u64,
}

impl Model {
    fn of(manifest: &Manifest) -> Self {
        let fragments = manifest.fragments.iter().map(|fragment| {
            let deletion = fragment.deletion.as_ref().map(|it| it.id);
            (fragment.id, (fragment.files[0].path.clone(), deletion))
        });
        Self {
            fragments: fragments.collect(),
            config: manifest.config.clone(),
            max_id: manifest.max_fragment_id.map_or(0, u64::from),
        }
    }

    fn add(&mut self, fragments: &[Fragment]) {
        for fragment in fragments {
            self.max_id += 1;
            let name = fragment.files[0].path.clone();
            self.fragments.insert(self.max_id, (name, None));
        }
    }

    fn after(&self, operation: &Operation, first: &Self) -> Self {
        let mut next = self.clone();
        match operation {
            Operation::Append { fragments } => next.add(fragments),
            Operation::Overwrite { fragments, .. } => {
                next.fragments.clear();
                next.add(fragments);
            }
            Operation::Delete {
                updated,
                removed_ids,
                ..
            } => {
                for fragment in updated {
                    let deletion = fragment.deletion.as_ref().map(|it| it.id);
                    next.fragments.get_mut(&fragment.id).unwrap().1 = deletion;
                }
                next.fragments.retain(|id, _| !removed_ids.contains(id));
            }
            Operation::UpdateConfig(update) => {
                for (key, value) in &update.config.entries {
                    next.config.insert(key.clone(), value.clone().unwrap());
                }
            }
            Operation::Restore { .. } => {
                let max_id = next.max_id;
                next = first.clone();
                next.max_id = max_id;
            }
            other => unreachable!("{}", other.name()),
        }
        next
    }
}

/// Reads the whole history and holds it against what the writers were told.
fn check(store: &Store, tried: &[Tried]) {
    let listed = block_on(store.list("_versions")).unwrap();
    let (_, versions) = versions_of(listed.iter().map(|it| it.name()))
        .unwrap()
        .unwrap();
    let numbers: Vec<u64> = (1..=versions.len() as u64).collect();
    assert_eq!(versions, numbers, "no number is left out");
    let mut models: Vec<Model> = Vec::new();
    let mut history: Vec<Arc<Transaction>> = Vec::new();
    for version in versions {
        let snapshot = block_on(Snapshot::at_version(store, version)).unwrap();
        let file = format!("_transactions/{}", snapshot.manifest().transaction_file);
        assert!(block_on(store.exists(&file)).unwrap(), "{file} is lost");
        let transaction = block_on(snapshot.transaction()).unwrap().unwrap();
        let found = Model::of(snapshot.manifest());
        if let Some(before) = models.last() {
            let expected = before.after(&transaction.operation, &models[0]);
            assert_eq!(found, expected, "version {version}");
            let since = usize::try_from(transaction.read_version).unwrap()..history.len();
            for (unseen, theirs) in since.clone().zip(&history[since]) {
                let ours = &transaction.operation;
                let outcome = check_conflict(ours, &theirs.operation);
                let both_overwrite = matches!(
                    (ours, &theirs.operation),
                    (Operation::Overwrite { .. }, Operation::Overwrite { .. })
                );
                let is_fine = outcome == Outcome::Ok || both_overwrite;
                assert!(is_fine, "{version} over {}: {outcome:?}", unseen + 1);
            }
        }
        models.push(found);
        history.push(transaction);
    }
    let versions_with = |wanted: &dyn Fn(&Transaction) -> bool| -> Vec<u64> {
        let numbered = history.iter().zip(1..);
        let found = numbered.filter(|(transaction, _)| wanted(transaction));
        found.map(|(_, version)| version).collect()
    };
    for one in tried {
        let is_it = |it: &Transaction| it.uuid == one.uuid;
        let found = versions_with(&is_it);
        match &one.end {
            Some(End::Acknowledged {
                version,
                before: false,
            }) => assert_eq!(found, [*version], "acknowledged, once"),
            Some(End::Acknowledged {
                version,
                before: true,
            }) => {
                assert!(found.is_empty(), "another call had done it");
                let id = history[usize::try_from(*version).unwrap() - 1]
                    .properties
                    .get("pilum.commit_id");
                assert_eq!(id, one.commit_id.as_ref());
            }
            Some(End::Refused(error)) => {
                assert!(found.is_empty(), "refused: {error}, and {found:?}")
            }
            // It died, or nobody could know: there or not, but not twice.
            Some(End::Unknown) | None => assert!(found.len() <= 1, "{found:?}"),
        }
        if let Some(id) = &one.commit_id {
            let has_id = |it: &Transaction| it.properties.get("pilum.commit_id") == Some(id);
            let found = versions_with(&has_id);
            assert!(found.len() <= 1, "{id:?} was committed as {found:?}");
        }
    }
    let uuids: BTreeSet<_> = history.iter().map(|it| &it.uuid).collect();
    assert_eq!(uuids.len(), history.len(), "no transaction twice");
}

/// What kinds of ends the schedules had: a test of nothing would be green too.
#[derive(Debug, Default)]
struct Seen {
    acknowledged: u64,
    before: u64,
    refused: BTreeMap<&'static str, u64>,
    unknown: u64,
    unknown_and_there: u64,
    died: u64,
}

/// Plays the schedule of one seed on `store`, which it leaves empty.
fn schedule(
    store: &Store,
    seed: u64,
    first: &[(String, bytes::Bytes)],
    seen: &mut Seen,
) -> Vec<(usize, Verb, Fate)> {
    for (path, bytes) in first {
        block_on(store.put(path, bytes.clone())).unwrap();
    }
    let weather = Arc::new(Mutex::new(Weather::new(seed)));
    let (count, deaths) = {
        let random = &mut weather.lock().unwrap().random;
        (
            random.random_range(2..5),
            [0, 0, 5][random.random_range(0..3)],
        )
    };
    let tried = Arc::new(Mutex::new(Vec::new()));
    let writers = (0..count).map(|writer| {
        let script = Steps {
            writer,
            weather: Arc::clone(&weather),
        };
        let store = store.scripted(Arc::new(script)).without_pauses();
        write(store, writer, seed, Arc::clone(&tried)).boxed()
    });
    play(&weather, writers.collect(), deaths);
    let tried = tried.lock().unwrap();
    check(store, &tried);
    for one in tried.iter() {
        match &one.end {
            Some(End::Acknowledged { before: true, .. }) => seen.before += 1,
            Some(End::Acknowledged { .. }) => seen.acknowledged += 1,
            Some(End::Refused(error)) => *seen.refused.entry(error.kind()).or_default() += 1,
            Some(End::Unknown) => {
                seen.unknown += 1;
                let file = format!("-{}.txn", one.uuid);
                let newest = block_on(Snapshot::newest(store)).unwrap();
                for version in 1..=newest.version() {
                    let snapshot = block_on(Snapshot::at_version(store, version)).unwrap();
                    let is_it = snapshot.manifest().transaction_file.ends_with(&file);
                    seen.unknown_and_there += u64::from(is_it);
                }
            }
            None => seen.died += 1,
        }
    }
    for listed in block_on(store.list_recursive("")).unwrap() {
        block_on(store.delete(&listed.path)).unwrap();
    }
    std::mem::take(&mut weather.lock().unwrap().trace)
}

/// The objects of a table of one version, to begin each schedule with.
pub(crate) fn first_version() -> Vec<(String, bytes::Bytes)> {
    let store = memory();
    create(&store, &rows(0, 10), false);
    let listed = block_on(store.list_recursive("")).unwrap();
    let objects = listed
        .into_iter()
        .filter(|it| !it.path.starts_with("data/"));
    objects
        .map(|it| {
            let bytes = block_on(store.read(&it.path, u64::MAX)).unwrap();
            (it.path, bytes)
        })
        .collect()
}

#[test]
fn fifty_thousand_schedules_lose_nothing_and_commit_nothing_twice() {
    let (store, first) = (memory(), first_version());
    let one: Option<u64> = std::env::var("PILUM_TEST_SEED")
        .ok()
        .map(|seed| seed.parse().unwrap());
    let seeds = one.map_or(0..SCHEDULES * scale(), |seed| seed..seed + 1);
    let mut seen = Seen::default();
    for seed in seeds {
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            schedule(&store, seed, &first, &mut seen);
        }));
        assert!(played.is_ok(), "PILUM_TEST_SEED={seed} shows it again");
    }
    if one.is_none() {
        assert!(
            seen.acknowledged > SCHEDULES && seen.before > 100,
            "{seen:?}"
        );
        assert!(seen.unknown > 10 && seen.unknown_and_there > 0, "{seen:?}");
        assert!(seen.died > 100 && seen.refused.len() >= 2, "{seen:?}");
    }
}

#[test]
fn a_seed_says_everything_about_its_schedule() {
    let (store, first) = (memory(), first_version());
    for seed in 0..200 {
        let mut seen = Seen::default();
        let once = schedule(&store, seed, &first, &mut seen);
        assert!(!once.is_empty());
        assert_eq!(once, schedule(&store, seed, &first, &mut seen), "{seed}");
    }
}
