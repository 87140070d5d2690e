//! Writers killed at random times, alone and in company: what they had been told is there, once, and what they were
//! about to do is there wholly or not at all.
//!
//! `PILUM_TEST_SCALE=20` kills twenty times as many.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use pilum_table::{
    Durability, Error, StatementOptions, Store, WriteMode, WriteOptions, parse_sql, write,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::acts::{clean, expect_whole, look};
use crate::support::{
    block_on, create, expect_no_orphans, local, open, reader, rows, runtime, scale,
};

const TABLE: &str = "PILUM_KILL_TABLE";
const FIRST: &str = "PILUM_KILL_FIRST";

/// The rows of one append.
const PAIR: i64 = 2;

/// One thing that a writer does; the number is that of an append of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Append(i64),
    Once(i64),
    Delete(i64),
    Update(i64),
    Compact,
}

impl Step {
    /// The step of a line of what a writer says.
    fn parse(name: &str, number: &str) -> Self {
        let number = number.parse().unwrap();
        match name {
            "append" => Self::Append(number),
            "once" => Self::Once(number),
            "delete" => Self::Delete(number),
            "update" => Self::Update(number),
            _ => Self::Compact,
        }
    }

    fn words(self) -> String {
        match self {
            Self::Append(number) => format!("append {number}"),
            Self::Once(number) => format!("once {number}"),
            Self::Delete(number) => format!("delete {number}"),
            Self::Update(number) => format!("update {number}"),
            Self::Compact => "compact 0".to_owned(),
        }
    }

    fn run(self, store: &Store, durability: Durability) -> Result<(), Error> {
        let mut statement = StatementOptions::default();
        statement.durability = durability;
        let runtime = runtime();
        let of = |number: i64| {
            let first = number * PAIR;
            parse_sql(&format!("id >= {first} AND id < {}", first + PAIR)).unwrap()
        };
        match self {
            Self::Append(number) | Self::Once(number) => {
                let mut options = WriteOptions::default();
                options.mode = WriteMode::Append;
                options.durability = durability;
                if let Self::Once(_) = self {
                    options.commit_id = Some(format!("pair {number}"));
                }
                let rows = rows(number * PAIR, PAIR);
                block_on(write(store, reader(&[rows]), &options)).map(drop)
            }
            Self::Delete(number) => {
                let (table, filter) = (open(store), of(number));
                let deleted = table.delete(&filter, &statement, runtime.handle());
                runtime.block_on(deleted).map(drop)
            }
            Self::Update(number) => {
                let set = [("name".to_owned(), parse_sql("'changed'").unwrap())];
                let (table, filter) = (open(store), of(number));
                let updated = table.update(&set, Some(&filter), &statement, runtime.handle());
                runtime.block_on(updated).map(drop)
            }
            Self::Compact => {
                let table = open(store);
                let options = pilum_table::CompactOptions::default();
                let compacted = table.compact(&options, runtime.handle());
                runtime.block_on(compacted).map(drop)
            }
        }
    }
}

/// What the writer with numbers from `first` on does: of its own rows alone, so that only it says what becomes of them.
fn steps(first: i64) -> impl Iterator<Item = Step> {
    let mut random = StdRng::seed_from_u64(first.unsigned_abs());
    let (mut next, mut own) = (first, Vec::new());
    std::iter::from_fn(move || {
        let at = random.random_range(0..own.len().max(1));
        let step = match random.random_range(0..8) {
            0 if !own.is_empty() => Step::Delete(own.swap_remove(at)),
            1 if !own.is_empty() => Step::Update(own[at]),
            2 if own.len() > 2 => Step::Compact,
            kind => {
                let number = next;
                next += 1;
                own.push(number);
                if kind > 5 {
                    Step::Once(number)
                } else {
                    Step::Append(number)
                }
            }
        };
        Some(step)
    })
}

/// With the variables this process is a victim, and works until it is killed; without them, it does a little.
#[test]
fn a_writer_says_what_it_begins_and_what_was_acknowledged() {
    let (folder, count) = (tempfile::tempdir().unwrap(), 40);
    let (table, first, count) = match (std::env::var(TABLE), std::env::var(FIRST)) {
        (Ok(table), Ok(first)) => (table.into(), first.parse().unwrap(), usize::MAX),
        _ => (folder.path().join("t"), 1, count),
    };
    let store = local(&table);
    if count < usize::MAX {
        create(&store, &rows(-1, 1), false);
    }
    let durability = match first % 2 {
        0 => Durability::Full,
        _ => Durability::None,
    };
    let mut known = Known::default();
    let mut say = |line: String| {
        known.hear(&line);
        if count == usize::MAX {
            // Past the capture of the test's output.
            std::io::stdout()
                .write_all(format!("~{line}\n").as_bytes())
                .unwrap();
        }
    };
    say("ready".to_owned());
    for step in steps(first).take(count) {
        let words = step.words();
        say(format!("begin {words}"));
        let end = match step.run(&store, durability) {
            Ok(()) => "done",
            Err(Error::Conflict { .. } | Error::Contention { .. }) => "refused",
            Err(error) => panic!("{words}: {error}"),
        };
        say(format!("{end} {words}"));
    }
    assert!(known.pairs.len() >= 10 && known.begun.is_none());
    known.expect(&store, "nobody was killed");
}

/// What is known of one append from what its writer said.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Pair {
    may_be_there: bool,
    may_be_missing: bool,
    may_be_changed: bool,
    may_be_unchanged: bool,
}

#[derive(Debug, Clone, Default)]
struct Known {
    pairs: BTreeMap<i64, Pair>,
    /// What was begun and not answered.
    begun: Option<(Step, Option<Pair>)>,
}

impl Known {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let [verb, name, number] = words[..] else {
            return;
        };
        let step = Step::parse(name, number);
        let number: i64 = number.parse().unwrap();
        if verb == "begin" {
            let before = self.pairs.get(&number).copied();
            self.begun = Some((step, before));
        }
        let before = self.begun.and_then(|(_, before)| before);
        let old = before.unwrap_or_default();
        let pair = match (verb, step) {
            (_, Step::Compact) => None,
            ("begin", Step::Append(_) | Step::Once(_)) => Some(Pair {
                may_be_there: true,
                may_be_missing: true,
                may_be_changed: false,
                may_be_unchanged: true,
            }),
            ("done", Step::Append(_) | Step::Once(_)) => Some(Pair {
                may_be_there: true,
                may_be_unchanged: true,
                ..Pair::default()
            }),
            ("begin", Step::Delete(_)) => Some(Pair {
                may_be_missing: true,
                ..old
            }),
            ("done", Step::Delete(_)) => Some(Pair {
                may_be_missing: true,
                ..Pair::default()
            }),
            ("begin", Step::Update(_)) => Some(Pair {
                may_be_changed: true,
                ..old
            }),
            ("done", Step::Update(_)) => Some(Pair {
                may_be_changed: true,
                may_be_unchanged: false,
                ..old
            }),
            // Nothing happened.
            _ => Some(before.unwrap_or(Pair {
                may_be_missing: true,
                ..Pair::default()
            })),
        };
        self.pairs.extend(pair.map(|pair| (number, pair)));
        if verb != "begin" {
            self.begun = None;
        }
    }

    /// Holds the table against it. What was open is known from then on.
    fn expect(&mut self, store: &Store, place: &str) {
        let mut found: BTreeMap<i64, Vec<(i64, bool)>> = BTreeMap::new();
        for (id, name) in look(store).unwrap().rows {
            let is_changed = name.as_deref() == Some("changed");
            let pair = found.entry(id.div_euclid(PAIR)).or_default();
            pair.push((id, is_changed));
        }
        for (number, pair) in &mut self.pairs {
            let first = number * PAIR;
            let is = |changed| [(first, changed), (first + 1, changed)];
            let rows = found.get(number).map(Vec::as_slice).unwrap_or_default();
            let as_now = Pair {
                may_be_there: !rows.is_empty(),
                may_be_missing: rows.is_empty(),
                may_be_changed: rows == is(true),
                may_be_unchanged: rows == is(false),
            };
            let is_fine = match rows {
                [] => pair.may_be_missing,
                rows if rows == is(true) => pair.may_be_there && pair.may_be_changed,
                rows if rows == is(false) => pair.may_be_there && pair.may_be_unchanged,
                _ => false,
            };
            assert!(is_fine, "{place}: append {number}: {rows:?}, {pair:?}");
            *pair = as_now;
        }
        self.begun = None;
    }
}

struct Victim {
    child: Child,
    said: BufReader<ChildStdout>,
    known: Known,
}

impl Victim {
    /// A writer that is at work.
    fn new(table: &Path, first: i64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "commit::kills::a_writer_says_what_it_begins_and_what_was_acknowledged",
                "--test-threads=1",
            ])
            .env(TABLE, table)
            .env(FIRST, first.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.ends_with("~ready\n") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "it never began");
        }
        let known = Known::default();
        Self { child, said, known }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), None, "it ended by itself");
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        // A line without its end was not said.
        let complete = said.rsplit_once('\n').map_or("", |(complete, _)| complete);
        for line in complete.lines().filter_map(|line| line.strip_prefix('~')) {
            self.known.hear(line);
        }
    }
}

/// Kills writers on one table, `together` at a time. Gives how many were amid each kind of step.
fn kill_writers(seed: u64, rounds: u64, together: usize) -> BTreeMap<&'static str, u64> {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let store = local(&table).with_durability(Durability::None);
    create(&store, &rows(-1, 1), seed.is_multiple_of(2));
    let mut random = StdRng::seed_from_u64(seed);
    let (mut all, mut amid, mut first) = (Known::default(), BTreeMap::new(), 1);
    for round in 0..rounds {
        let place = format!("seed {seed}, {together} writers, round {round}");
        let mut victims: Vec<Victim> = (0..together)
            .map(|_| {
                first += 10_001;
                Victim::new(&table, first)
            })
            .collect();
        for victim in &mut victims {
            std::thread::sleep(Duration::from_micros(random.random_range(0..25_000)));
            victim.kill();
        }
        let mut once = BTreeSet::new();
        for victim in &victims {
            all.pairs.extend(&victim.known.pairs);
            let step = victim.known.begun.map(|(step, _)| step);
            let name = match step {
                None => "nothing",
                Some(Step::Append(_)) => "append",
                Some(Step::Once(_)) => "append once",
                Some(Step::Delete(_)) => "delete",
                Some(Step::Update(_)) => "update",
                Some(Step::Compact) => "compact",
            };
            *amid.entry(name).or_default() += 1;
            if let Some(Step::Once(number)) = step {
                once.insert(number);
            }
        }
        all.clone().expect(&store, &place);
        expect_whole(&store, &place);
        for number in once {
            // Asked for again, it is there, whether or not it was before.
            Step::Once(number).run(&store, Durability::None).unwrap();
            all.hear(&format!("done once {number}"));
        }
        all.expect(&store, &place);
        clean(&store).unwrap();
        expect_no_orphans(&store);
        all.expect(&store, &place);
    }
    amid
}

#[test]
fn two_hundred_writers_are_killed_at_random_times() {
    let mut amid: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..5 * scale() {
        for (rounds, together) in [(20, 1), (5, 4)] {
            for (name, count) in kill_writers(seed, rounds, together) {
                *amid.entry(name).or_default() += count;
            }
        }
    }
    assert_eq!(amid.values().sum::<u64>(), 200 * scale());
    assert!(
        amid.len() >= 5,
        "all kinds of steps are interrupted: {amid:?}"
    );
}
