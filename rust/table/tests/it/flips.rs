//! One flipped bit anywhere in any file of a table: the same content or an error, never other content.
//!
//! `PILUM_TEST_SCALE=50` makes 100,000 flips of the 2,000.
#![expect(clippy::panic, reason = "a test speaks by panicking")]

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::Ordering;

use arrow_array::RecordBatch;
use futures::TryStreamExt;
use pilum_format::proto::file::Metadata;
use pilum_table::{
    Dataset, Error, Projection, Result, ScanOptions, Snapshot, Store, VersionRef, WriteMode,
    WriteOptions, parse_sql, write,
};
use pilum_testing::{Random, watched};
use prost::Message;

use crate::every_file::{COMMIT_ID, Sound, sound_tables};
use crate::support::{block_on, local, reader, rows, runtime};

/// Flips of one run of the tests.
const FLIPS: u64 = 2_000;

/// What one question to a table was answered.
#[derive(Debug, PartialEq)]
enum Answer {
    Rows(Vec<RecordBatch>),
    Text(String),
}

/// Questions by name, and their answers.
type Answers = BTreeMap<String, Result<Answer>>;

fn text(value: impl std::fmt::Debug) -> Answer {
    Answer::Text(format!("{value:?}"))
}

fn scan(snapshot: &Snapshot, options: ScanOptions) -> Result<Answer> {
    let scan = snapshot.scan(options)?;
    let batches = scan.batches(runtime().handle()).try_collect();
    Ok(Answer::Rows(block_on(batches)?))
}

fn scan_options(change: impl FnOnce(&mut ScanOptions)) -> ScanOptions {
    let mut options = ScanOptions::default();
    // On this thread, where a panic is caught.
    options.threads = Some(1);
    change(&mut options);
    options
}

/// Asks one version for everything.
fn ask_version(snapshot: &Snapshot, answers: &mut Answers, is_latest: bool) {
    let version = snapshot.version();
    let mut add = |what: &str, answer: Result<Answer>| {
        answers.insert(format!("v{version}/{what}"), answer);
    };
    let all = scan_options(|it| {
        it.with_row_id = true;
        it.with_row_address = true;
    });
    add("scan", scan(snapshot, all));
    let num_rows = snapshot.num_rows();
    let facts = (snapshot.schema(), num_rows, &snapshot.manifest().config);
    add("facts", Ok(text(facts)));
    let some: Vec<u64> = (0..num_rows).step_by(3).collect();
    let taken = block_on(snapshot.take(&some, Projection::All));
    add("take", taken.map(|rows| Answer::Rows(vec![rows])));
    let transaction = block_on(snapshot.transaction());
    add("transaction", transaction.map(text));
    for fragment in snapshot.fragments() {
        let name = |what: &str| format!("fragment {}/{what}", fragment.id);
        let versions = fragment.last_updated_at().map(text);
        add(&name("updated"), versions.map_err(Into::into));
        let created = fragment.created_at().map(text);
        add(&name("created"), created.map_err(Into::into));
        for field in &snapshot.schema().fields {
            if !is_latest {
                break;
            }
            let one = scan_options(|it| {
                it.fragments = Some(vec![fragment.id]);
                it.columns = Projection::Names(vec![field.name.clone()]);
            });
            add(&name(&field.name), scan(snapshot, one));
        }
    }
    // Pages are skipped by their statistics: a wrong bound would lose rows.
    let filter = parse_sql("id >= 10 AND id < 21").unwrap();
    let found = scan_options(|it| {
        it.filter = Some(filter.clone());
        it.columns = Projection::Names(vec!["id".to_owned()]);
    });
    add("filter", scan(snapshot, found));
    let count = block_on(snapshot.count_rows(Some(filter), runtime().handle()));
    add("count", count.map(text));
}

/// Asks for everything that a table can tell.
fn ask(store: &Store, sound: &Sound) -> Answers {
    let mut answers = Answers::new();
    for version in 1..=sound.latest {
        let reference = if version == sound.latest {
            VersionRef::Latest
        } else {
            VersionRef::Number(version)
        };
        let table = match block_on(Dataset::open_in(store, &reference)) {
            Ok(table) => table,
            Err(error) => {
                answers.insert(format!("v{version}/open"), Err(error));
                continue;
            }
        };
        answers.insert(
            format!("v{version}/open"),
            Ok(text((table.version(), sound.latest))),
        );
        ask_version(table.snapshot(), &mut answers, version == sound.latest);
        if version == sound.latest {
            let history = block_on(table.versions()).map(text);
            answers.insert("history".to_owned(), history);
            answers.insert("tags".to_owned(), block_on(table.tags()).map(text));
            for tag in &sound.tags {
                let tagged = block_on(table.checkout(&VersionRef::Tag(tag.clone())));
                let answer = tagged.map(|tagged| text(tagged.version()));
                answers.insert(format!("tag {tag}"), answer);
            }
        }
    }
    answers
}

/// Asks whether a commit happened; when that cannot be told, it must not be made again.
fn ask_commit(store: &Store) -> Result<Answer> {
    let mut options = WriteOptions::default();
    options.mode = WriteMode::Append;
    options.commit_id = Some(COMMIT_ID.to_owned());
    let written = block_on(write(store, reader(&[rows(0, 1)]), &options))?;
    Ok(text((
        written.was_committed_before,
        written.snapshot.version(),
    )))
}

/// Number of problems that the verification of each version finds; an error counts as one.
fn problems(store: &Store, latest: u64) -> usize {
    let verify = |version| -> Result<usize> {
        let table = block_on(Dataset::open_in(store, &VersionRef::Number(version)))?;
        Ok(block_on(table.snapshot().verify())?.problems.len())
    };
    (1..=latest)
        .map(|version| verify(version).unwrap_or(1))
        .sum()
}

/// A table as it was written, and what it answered then.
struct Subject {
    sound: Sound,
    answers: Answers,
    committed: Option<Answer>,
}

/// A copy of a table that is damaged and mended again.
struct Bench<'a> {
    subject: &'a Subject,
    folder: tempfile::TempDir,
    memory: Store,
}

/// How a damaged table answered.
#[derive(Default, Debug, Clone, Copy)]
struct Tally {
    refused: u64,
    unaffected: u64,
}

impl<'a> Bench<'a> {
    fn new(subject: &'a Subject) -> Self {
        let bench = Self {
            subject,
            folder: tempfile::tempdir().unwrap(),
            memory: crate::support::memory(),
        };
        for (path, bytes) in &subject.sound.files {
            bench.set(path, bytes);
        }
        bench
    }

    /// Replaces a file, under a new inode: what an old store has mapped stays what it was.
    fn set(&self, path: &str, bytes: &[u8]) {
        let full = self.folder.path().join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        let staged = self.folder.path().join("staged");
        std::fs::write(&staged, bytes).unwrap();
        std::fs::rename(&staged, &full).unwrap();
        block_on(self.memory.put(path, bytes.to_vec().into())).unwrap();
    }

    /// Damages one file, asks for everything, mends it.
    fn attack(&self, path: &str, bytes: &[u8], in_memory: bool, what: &str) -> bool {
        self.set(path, bytes);
        let store = if in_memory {
            self.memory.clone()
        } else {
            local(self.folder.path())
        };
        let asked = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let mut answers = ask(&store, &self.subject.sound);
            if self.subject.committed.is_some() && path.contains("commits") {
                answers.insert("commit".to_owned(), ask_commit(&store));
            }
            let found = problems(&store, self.subject.sound.latest);
            (answers, found)
        }));
        let (answers, found) = asked.unwrap_or_else(|_| panic!("panic: {what}"));
        self.mend(path);
        let mut refused = Vec::new();
        for (question, answer) in &answers {
            match answer {
                Err(error) => {
                    assert!(
                        matches!(error.kind(), "corrupt" | "unsupported" | "limit"),
                        "{what}: {question}: {error:?}"
                    );
                    assert!(says_where(error), "{what}: {question}: {error}");
                    refused.push(question.as_str());
                }
                Ok(answer) => {
                    let expected = match question.as_str() {
                        "commit" => self.subject.committed.as_ref(),
                        _ => self.subject.answers[question].as_ref().ok(),
                    };
                    assert_eq!(Some(answer), expected, "silently wrong: {what}: {question}");
                }
            }
        }
        self.expect_the_rest(path, bytes, &refused, what);
        let is_used = refused.iter().any(|question| *question != "commit");
        assert!(
            !is_used || found > 0,
            "{what}: reads fail, and verification finds nothing"
        );
        found > 0 || !refused.is_empty()
    }

    fn mend(&self, path: &str) {
        self.set(path, &self.subject.sound.files[path]);
        let extra = crate::support::files(&self.memory)
            .into_iter()
            .filter(|file| !self.subject.sound.files.contains_key(file));
        let extra: Vec<String> = extra.collect();
        assert_eq!(extra, Vec::<String>::new(), "something was committed");
    }

    /// Only what needs the damaged bytes is refused.
    fn expect_the_rest(&self, path: &str, bytes: &[u8], refused: &[&str], what: &str) {
        let latest = self.subject.sound.latest;
        let sound = &self.subject.sound;
        let allowed = |question: &str| -> bool {
            if path.starts_with("_refs/commits") {
                return question == "commit";
            }
            if path.starts_with("_refs/tags") {
                return question.starts_with("tag");
            }
            if path.starts_with("_transactions") {
                return false;
            }
            if let Some(version) = sound.version_of(path) {
                // The newest manifest is the door to the whole history, and to its tags.
                return question.starts_with(&format!("v{version}/"))
                    || question == "history"
                    || sound.tags_of(version).any(|tag| question == tag)
                    || (version == latest && question.starts_with("tag"));
            }
            // A data or deletion file: other fragments do not need it.
            let fragments = &sound.users[path];
            match question.split_once("/fragment ") {
                None => question.starts_with('v'),
                Some((_, rest)) => fragments
                    .iter()
                    .any(|id| rest.starts_with(&format!("{id}/"))),
            }
        };
        for question in refused {
            assert!(allowed(question), "{what}: {question} does not need it");
        }
        // Pages lie before the page table, and each is of one column.
        let Some(pages_end) = pages_end(&self.subject.sound.files[path]) else {
            return;
        };
        let original = &self.subject.sound.files[path];
        let at = original.iter().zip(bytes).position(|(a, b)| a != b);
        if path.starts_with("data/") && at.is_some_and(|at| (at as u64) < pages_end) {
            let columns = refused
                .iter()
                .filter(|it| it.contains("/fragment "))
                .count();
            let fragments = sound.users[path].len();
            assert!(
                columns <= fragments,
                "{what}: one page, and {columns} columns are refused"
            );
        }
    }
}

/// Where the page table of a data file begins.
fn pages_end(file: &[u8]) -> Option<u64> {
    let footer = file.get(file.len().checked_sub(16)?..)?;
    let at = usize::try_from(u64::from_le_bytes(footer[..8].try_into().ok()?)).ok()?;
    let message = file.get(at + 4..file.len() - 16)?;
    Some(Metadata::decode(message).ok()?.page_table_position)
}

/// An error names the file that is damaged.
fn says_where(error: &Error) -> bool {
    let text = error.to_string();
    ["data/", "_versions", "_deletions", "_refs", "_transactions"]
        .iter()
        .any(|folder| text.contains(folder))
}

fn subjects() -> Vec<Subject> {
    sound_tables()
        .into_iter()
        .map(|sound| {
            let store = crate::support::memory();
            for (path, bytes) in &sound.files {
                block_on(store.put(path, bytes.clone().into())).unwrap();
            }
            let answers = ask(&store, &sound);
            for (question, answer) in &answers {
                assert!(answer.is_ok(), "{}: {question}: {answer:?}", sound.name);
            }
            for version in 1..=sound.latest {
                let version = VersionRef::Number(version);
                let table = block_on(Dataset::open_in(&store, &version)).unwrap();
                let report = block_on(table.snapshot().verify()).unwrap();
                assert!(report.is_ok(), "{} {:?}", sound.name, report.problems);
            }
            let committed = sound
                .files
                .keys()
                .any(|path| path.starts_with("_refs/commits"))
                .then(|| ask_commit(&store).unwrap());
            Subject {
                sound,
                answers,
                committed,
            }
        })
        .collect()
}

#[test]
fn one_flipped_bit_in_any_file_is_never_other_content() {
    let scale = std::env::var("PILUM_TEST_SCALE").map_or(1, |it| it.parse().unwrap());
    let subjects = subjects();
    let kinds: std::collections::BTreeSet<&str> = subjects
        .iter()
        .flat_map(|subject| subject.sound.files.keys())
        .map(|path| kind_of(path))
        .collect();
    let every = ["arrow", "bin", "commit", "data", "manifest", "tag", "txn"];
    assert!(kinds.iter().eq(&every), "{kinds:?}");
    let flip = |case: u64, benches: &[Bench<'_>]| {
        let random = &mut Random(case);
        let bench = &benches[random.below(benches.len())];
        let files = &bench.subject.sound.files;
        // By files, so that small ones are hit, and by bytes, so that every byte is.
        let path = if case.is_multiple_of(2) {
            files.keys().nth(random.below(files.len())).unwrap()
        } else {
            let mut at = random.below(files.values().map(Vec::len).sum());
            let hit = files.iter().find(|(_, bytes)| {
                let is_here = at < bytes.len();
                at -= if is_here { 0 } else { bytes.len() };
                is_here
            });
            hit.unwrap().0
        };
        let mut bytes = files[path].clone();
        let bit = random.below(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let name = bench.subject.sound.name;
        let what = format!("seed {case}: table {name}, bit {bit} of {path}");
        let noticed = bench.attack(path, &bytes, random.below(2) == 0, &what);
        (kind_of(path), noticed)
    };
    let total = FLIPS * scale;
    let tallies = std::thread::scope(|scope| {
        let halves = [0, 1].map(|half| {
            let (subjects, flip) = (&subjects, &flip);
            scope.spawn(move || {
                let benches: Vec<_> = subjects.iter().map(Bench::new).collect();
                watched(|progress| {
                    let mut tallies = BTreeMap::<&str, Tally>::new();
                    for case in (half..total).step_by(2) {
                        progress.store(case, Ordering::Relaxed);
                        let (kind, noticed) = flip(case, &benches);
                        let tally = tallies.entry(kind).or_default();
                        tally.refused += u64::from(noticed);
                        tally.unaffected += u64::from(!noticed);
                    }
                    tallies
                })
            })
        });
        halves.map(|half| half.join().unwrap())
    });
    let mut all = BTreeMap::<&str, Tally>::new();
    for (kind, tally) in tallies.into_iter().flatten() {
        let sum = all.entry(kind).or_default();
        sum.refused += tally.refused;
        sum.unaffected += tally.unaffected;
    }
    eprintln!("{total} flips: {all:?}");
    for (kind, tally) in &all {
        // Padding, footers' version numbers and what pylance's own layout leaves free: a small part of each file.
        assert!(
            tally.refused > 2 * tally.unaffected,
            "{kind}: {} of {} flips went unnoticed",
            tally.unaffected,
            tally.unaffected + tally.refused
        );
    }
    assert_eq!(all.len(), every.len(), "{all:?}");
}

fn kind_of(path: &str) -> &'static str {
    let extension = Path::new(path).extension().and_then(|it| it.to_str());
    match (path.split('/').next(), extension) {
        (Some("data"), _) => "data",
        (Some("_versions"), _) => "manifest",
        (Some("_transactions"), _) => "txn",
        (Some("_deletions"), Some("arrow")) => "arrow",
        (Some("_deletions"), _) => "bin",
        _ if path.starts_with("_refs/tags/") => "tag",
        _ => "commit",
    }
}

#[test]
fn a_file_cut_at_any_byte_is_refused_and_the_rest_reads() {
    let subjects = subjects();
    watched(|progress| {
        let mut cuts = 0;
        let mut done = std::collections::BTreeSet::new();
        for subject in &subjects {
            let bench = Bench::new(subject);
            for (path, bytes) in &subject.sound.files {
                // One of each kind and table, small ones at every byte, others at some.
                if !done.insert((subject.sound.name, kind_of(path))) {
                    continue;
                }
                let step = bytes.len().div_ceil(400);
                for len in (0..bytes.len()).step_by(step) {
                    progress.fetch_add(1, Ordering::Relaxed);
                    let what = format!("{}: {len} bytes of {path}", subject.sound.name);
                    let noticed = bench.attack(path, &bytes[..len], len % 2 == 0, &what);
                    assert!(noticed, "{what} pass for all {}", bytes.len());
                    cuts += 1;
                }
            }
        }
        assert!(cuts > 2_000, "{cuts}");
    });
}
