//! [`examine`]: tests whether a store keeps the rules that commits, readers and cleanup rely on.
//!
//! The documentation of a store may promise a rule that a gateway, a mount or a cache in front of it breaks. So the requests
//! of commits, readers and cleanup are sent to the store, beside the table and under names of their own:
//!
//! | check | rule | needed by |
//! |---|---|---|
//! | `write` | an object is read back as it was written | all |
//! | `replace` | after an object was replaced, its old bytes and size are never seen again | tags |
//! | `create` | creating an object that exists fails, and does not change the object | commits |
//! | `race` | of several writers that create one object at the same time, one succeeds, and the object holds its bytes | commits |
//! | `list` | a listing shows objects that were just written, in order, with their sizes | readers |
//! | `delete` | a deleted object cannot be read and is not listed | cleanup |
//! | `clock` | the clocks of the store and of this machine agree | cleanup |
//! | `register` | where a register decides versions: of several writers that add one row, one succeeds | commits |

use std::io;
use std::sync::Barrier;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::future::join_all;

use crate::error::{Error, Result};
use crate::event;
use crate::path::unique_name;
use crate::store::Store;

/// The names of the checks, in their order.
const CHECKS: [&str; 8] = [
    "write", "replace", "create", "race", "list", "delete", "clock", "register",
];

/// The objects that an examination creates, beside one for each round of the race.
const NAMES: [&str; 6] = [
    "written", "replaced", "created", "listed-a", "listed-b", "timed",
];

/// Writers in each round of a race.
const RACERS: usize = 4;

/// The largest accepted difference of the clocks: far less than any age that cleanup compares.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(300);

/// The largest object of an examination.
const MAX_BYTES: u64 = 1 << 16;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// The name of the check; the module lists them.
    pub name: &'static str,
    /// The store kept the rule, or the rule is not needed here.
    pub is_ok: bool,
    /// The observation, as a sentence.
    pub finding: String,
}

/// The result of [`examine`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Examination {
    /// The root of the store, without secrets.
    pub uri: String,
    /// All checks, in their order.
    pub checks: Vec<Check>,
}

impl Examination {
    /// Whether the store kept every rule, so that tables are safe here.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.checks.iter().all(|check| check.is_ok)
    }
}

/// The finding of a check that was passed, or of one that failed.
type Finding = std::result::Result<String, String>;

/// Tests the rules that tables need in the folder of `store`, with `rounds` races. A table in the folder is not touched. All
/// objects are removed afterwards; only the file of a register stays, without a table in it.
///
/// # Errors
/// When the system gives no random numbers for names. A rule that the store breaks is a finding and no error.
pub async fn examine(store: &Store, rounds: u32) -> Result<Examination> {
    let prefix =
        unique_name("_doctor").map_err(|error| Error::io(store.uri(), "choose a name", error))?;
    let scratch = Scratch {
        store,
        prefix,
        rounds: rounds.max(1),
    };
    let missing = store.missing_folders(&[]);
    let checks = scratch.run().await;
    scratch.tidy().await;
    store.remove_empty_folders(&missing);
    Ok(Examination {
        uri: store.uri().to_owned(),
        checks,
    })
}

/// The objects of one examination: names with a prefix that is used once.
struct Scratch<'a> {
    store: &'a Store,
    prefix: String,
    rounds: u32,
}

impl Scratch<'_> {
    fn path(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    async fn run(&self) -> Vec<Check> {
        let written = self.write().await;
        let mut checks = Vec::with_capacity(CHECKS.len());
        let mut add = |finding: Finding| {
            let name = CHECKS.get(checks.len()).copied().unwrap_or_default();
            let (is_ok, finding) = match finding {
                Ok(finding) => (true, finding),
                Err(finding) => (false, finding),
            };
            checks.push(Check {
                name,
                is_ok,
                finding,
            });
        };
        if written.is_err() {
            add(written);
            for _ in 1..CHECKS.len() {
                add(Err(
                    "not tested, because the store cannot be written".to_owned()
                ));
            }
            return checks;
        }
        add(written);
        add(self.replace().await);
        add(self.create().await);
        add(self.race().await);
        add(self.list().await);
        add(self.delete().await);
        add(self.clock().await);
        add(self.register().await);
        checks
    }

    async fn put(&self, name: &str, text: &str) -> Result<()> {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        self.store.put(&self.path(name), bytes).await
    }

    async fn make(&self, name: &str, text: &str) -> Result<()> {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        self.store.create(&self.path(name), bytes).await
    }

    /// The text of an object; `None` if there is none.
    async fn text(&self, name: &str) -> std::result::Result<Option<String>, String> {
        match self.store.read(&self.path(name), MAX_BYTES).await {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn expect(&self, name: &str, text: &str) -> std::result::Result<(), String> {
        match self.text(name).await? {
            Some(found) if found == text => Ok(()),
            Some(_) => {
                Err("an object was read with other bytes than those written last".to_owned())
            }
            None => Err("an object that was just written was not found".to_owned()),
        }
    }

    async fn write(&self) -> Finding {
        if !self.store.is_writable() {
            return Err(
                "the store is read only: tables can be read here and not written".to_owned(),
            );
        }
        self.put("written", "as it was written")
            .await
            .map_err(text_of)?;
        self.expect("written", "as it was written").await?;
        Ok("an object was read back as it was written".to_owned())
    }

    async fn replace(&self) -> Finding {
        for text in ["a first text", "another, longer text", "third"] {
            self.put("replaced", text).await.map_err(text_of)?;
            self.expect("replaced", text).await?;
            let path = self.path("replaced");
            let size = self.store.stat(&path).await.map_err(text_of)?.size;
            if size != text.len() as u64 {
                return Err(format!(
                    "the store told a size of {size} bytes for a replaced object of {} bytes",
                    text.len()
                ));
            }
        }
        Ok("a replaced object was read with its new bytes and size".to_owned())
    }

    async fn create(&self) -> Finding {
        if self.store.register().is_some() {
            return Ok("not needed: a register decides versions".to_owned());
        }
        self.make("created", "the first").await.map_err(text_of)?;
        match self.make("created", "the second").await {
            Err(Error::AlreadyExists { .. }) => {}
            Ok(()) => {
                let reason = "creating an object that exists succeeded: the store ignores the condition, so \
                              that writers would overwrite each other's versions; use an external manifest store";
                return Err(reason.to_owned());
            }
            Err(error) => return Err(error.to_string()),
        }
        self.expect("created", "the first").await?;
        Ok("creating an object that exists was refused and did not change the object".to_owned())
    }

    async fn race(&self) -> Finding {
        if self.store.register().is_some() {
            return Ok("not needed: a register decides versions".to_owned());
        }
        let mut won = 0;
        for round in 0..self.rounds {
            let name = format!("race-{round}");
            let texts: Vec<String> = (0..RACERS)
                .map(|racer| format!("writer {racer} of round {round}"))
                .collect();
            let outcomes = race(self.store.is_local(), &texts, |text| self.make(&name, text)).await;
            let winner = winner_of(&outcomes, &texts)?;
            let found = self.text(&name).await?;
            match (winner, found) {
                (Some(text), Some(found)) if *text == found => won += 1,
                (Some(_), Some(_)) => {
                    let reason = "the store told a writer that its object was created, and held the object of another";
                    return Err(reason.to_owned());
                }
                (Some(_), None) => {
                    return Err("an object that was created in a race was not found".to_owned());
                }
                (None, Some(found)) if !texts.contains(&found) => {
                    return Err("an object was read with bytes that no writer wrote".to_owned());
                }
                // A store may ask all writers to try again, and the answer to the winner may be lost.
                (None, _) => {}
            }
        }
        let rounds = self.rounds;
        if won == 0 {
            return Err(format!(
                "in {rounds} rounds of {RACERS} writers no writer was told that it created the object"
            ));
        }
        Ok(format!(
            "in each of {rounds} rounds of {RACERS} writers, one created the object"
        ))
    }

    async fn list(&self) -> Finding {
        for name in ["listed-b", "listed-a"] {
            self.put(name, name).await.map_err(text_of)?;
        }
        let expected = [self.path("listed-a"), self.path("listed-b")];
        let listed = self.store.list("").await.map_err(text_of)?;
        let own = listed.iter().filter(|it| expected.contains(&it.path));
        let found: Vec<(&str, u64)> = own.map(|it| (it.path.as_str(), it.size)).collect();
        let size = "listed-a".len() as u64;
        if found.len() < expected.len() {
            return Err("a listing did not show an object that was just written".to_owned());
        }
        if found
            != expected
                .each_ref()
                .map(|path| (path.as_str(), size))
                .to_vec()
        {
            return Err("a listing showed objects with wrong names or sizes".to_owned());
        }
        Ok("a listing showed the objects that were just written".to_owned())
    }

    async fn delete(&self) -> Finding {
        let path = self.path("listed-a");
        // Deleting a missing object is no error.
        for _ in 0..2 {
            self.store.delete(&path).await.map_err(text_of)?;
        }
        if self.text("listed-a").await?.is_some() {
            return Err("a deleted object was read".to_owned());
        }
        let listed = self.store.list("").await.map_err(text_of)?;
        if listed.iter().any(|it| it.path == path) {
            return Err("a listing showed a deleted object".to_owned());
        }
        Ok("a deleted object was neither read nor listed".to_owned())
    }

    async fn clock(&self) -> Finding {
        let before = SystemTime::now();
        self.put("timed", "x").await.map_err(text_of)?;
        let stat = self.store.stat(&self.path("timed")).await;
        let theirs = stat.map_err(text_of)?.modified;
        let apart = theirs
            .duration_since(before)
            .unwrap_or_else(|error| error.duration());
        if apart > CLOCK_TOLERANCE {
            return Err(format!(
                "the clock of the store differs by {} s from that of this machine: correct it, because cleanup compares the age of files",
                apart.as_secs()
            ));
        }
        Ok("the clocks of the store and of this machine agree".to_owned())
    }

    async fn register(&self) -> Finding {
        let Some(register) = self.store.register() else {
            return Ok("not needed: the store itself decides versions".to_owned());
        };
        register.newest().await.map_err(text_of)?;
        for round in 0..self.rounds {
            let word = self.path(&format!("race-{round}"));
            let words = vec![word.clone(); RACERS];
            let outcomes = race(register.blocks(), &words, |word| register.try_row(word)).await;
            let winner = winner_of(&outcomes, &words);
            register.forget_row(&word).await.map_err(text_of)?;
            if winner?.is_none() {
                return Err("no writer was told that it added the row".to_owned());
            }
        }
        Ok(format!(
            "{}: in each of {} rounds of {RACERS} writers, one added the row",
            register.uri(),
            self.rounds
        ))
    }

    /// Deletes all objects of the examination. A store that cannot delete was a finding of the check `delete`.
    async fn tidy(&self) {
        let races = (0..self.rounds).map(|round| format!("race-{round}"));
        // By their names, because listings may not work.
        for name in NAMES.into_iter().map(str::to_owned).chain(races) {
            if let Err(error) = self.store.delete(&self.path(&name)).await {
                tracing::warn!(target: event::CLEANUP, %error, "an object of the examination was not removed");
            }
        }
    }
}

/// Writes all texts at the same time: on threads if calls block, else as concurrent futures.
async fn race<'a, F>(
    blocks: bool,
    texts: &'a [String],
    write: impl Fn(&'a str) -> F + Send + Sync,
) -> Vec<Result<()>>
where
    F: Future<Output = Result<()>>,
{
    if !blocks {
        return join_all(texts.iter().map(|text| write(text))).await;
    }
    let start = Barrier::new(texts.len());
    std::thread::scope(|scope| {
        let racers: Vec<_> = texts
            .iter()
            .map(|text| {
                scope.spawn(|| {
                    start.wait();
                    futures::executor::block_on(write(text))
                })
            })
            .collect();
        racers
            .into_iter()
            .map(|racer| {
                racer.join().unwrap_or_else(|_| {
                    let source = io::Error::other("a thread of the race ended early");
                    Err(Error::io("race", "run", source))
                })
            })
            .collect()
    })
}

/// The text of the writer that succeeded. A finding if several did, or if one got an unexpected error.
fn winner_of<'a>(
    outcomes: &[Result<()>],
    texts: &'a [String],
) -> std::result::Result<Option<&'a String>, String> {
    let mut winner = None;
    for (outcome, text) in outcomes.iter().zip(texts) {
        match outcome {
            Ok(()) if winner.is_some() => {
                let reason = "two writers that created one object at the same time were both told that they succeeded: \
                              commits would be lost; use an external manifest store";
                return Err(reason.to_owned());
            }
            Ok(()) => winner = Some(text),
            Err(Error::AlreadyExists { .. } | Error::Unclear { .. }) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(winner)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err asks for"
)]
fn text_of(error: Error) -> String {
    error.to_string()
}
