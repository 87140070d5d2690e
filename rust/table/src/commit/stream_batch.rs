//! Batches of streams: each batch is committed once, however often the stream repeats it after a failure.
//!
//! A commit of a stream has three transaction properties: the id of the stream (`pilum.stream.app`), the number of the batch
//! (`pilum.stream.batch`), and the id of this start of the stream (`pilum.stream.run`). The version that it makes records in
//! the config, under `pilum.stream.{id of the stream}`, the highest batch and the runs that committed, newest first:
//! `7 run-b run-a`. So the newest manifest alone says whether a batch was committed, for as long as the table exists.
//!
//! Every attempt to commit compares with the newest version:
//!
//! - a batch that is not higher than the recorded one was committed before: nothing is published;
//! - a run that committed, and was followed by another run, conflicts: two streams with one id are at work, and numbers of
//!   batches no longer say which rows they have.
//!
//! A restarted stream repeats its last batch, which publishes nothing. So it claims the stream first
//! (`pilum.stream.claim`): a commit that records the run, and leaves the batch.

use std::collections::BTreeMap;

use pilum_format::{Reason, Transaction};

use crate::error::{Error, Result};

const APP: &str = "pilum.stream.app";
const BATCH: &str = "pilum.stream.batch";
const RUN: &str = "pilum.stream.run";
const CLAIM: &str = "pilum.stream.claim";

/// Config keys begin so; the id of the stream follows.
const KEY_PREFIX: &str = "pilum.stream.";

/// Runs that are remembered: a run conflicts when at most so many others followed it.
const MAX_RUNS: usize = 8;

/// What an attempt to commit a batch found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The batch is new.
    New,
    /// The batch was committed before.
    Committed,
    /// Another run of the stream followed ours.
    Followed(Reason),
}

/// The batch of a stream that a commit is.
#[derive(Debug)]
pub(crate) struct StreamBatch<'a> {
    app: &'a str,
    batch: u64,
    run: &'a str,
    is_claim: bool,
}

/// What the config of a version says about a stream.
struct Recorded<'a> {
    batch: Option<u64>,
    /// Newest first.
    runs: Vec<&'a str>,
}

impl<'a> StreamBatch<'a> {
    /// The batch that the properties of a transaction name; `None` for a commit of no stream.
    pub(crate) fn of(transaction: &'a Transaction) -> Result<Option<Self>> {
        let properties = &transaction.properties;
        let Some(app) = word(properties, APP)? else {
            return Ok(None);
        };
        let batch = word(properties, BATCH)?.and_then(|it| it.parse().ok());
        match (batch, word(properties, RUN)?) {
            (Some(batch), Some(run)) => Ok(Some(Self {
                app,
                batch,
                run,
                is_claim: properties.contains_key(CLAIM),
            })),
            _ => Err(Error::invalid(
                format!("property {APP:?}"),
                format!("needs {BATCH:?}, an integer from 0 on, and {RUN:?}"),
            )),
        }
    }

    /// Compares the batch with the config of the newest version.
    pub(crate) fn find(&self, config: &BTreeMap<String, String>) -> Result<Found> {
        let recorded = self.recorded(config)?;
        let (newest, older) = match recorded.runs.split_first() {
            Some((newest, older)) => (*newest, older),
            None => return Ok(Found::New),
        };
        if newest != self.run && older.contains(&self.run) {
            return Ok(Found::Followed(Reason::StreamRun(format!(
                "{newest} of stream {}",
                self.app
            ))));
        }
        let is_committed = recorded.batch.is_some_and(|batch| self.batch <= batch);
        Ok(match is_committed && !self.is_claim {
            true => Found::Committed,
            false => Found::New,
        })
    }

    /// Records the batch in the config of the next version; `before` is the config of the current one.
    pub(crate) fn record(
        &self,
        before: Option<&BTreeMap<String, String>>,
        next: &mut BTreeMap<String, String>,
    ) -> Result<()> {
        let nothing = BTreeMap::new();
        let recorded = self.recorded(before.unwrap_or(&nothing))?;
        let claimed = Some(self.batch).filter(|_| !self.is_claim);
        // `-`: a run claimed the stream before any batch was committed.
        let batch = recorded.batch.max(claimed);
        let mut words = vec![batch.map_or_else(|| "-".to_owned(), |batch| batch.to_string())];
        let others = recorded.runs.iter().filter(|run| **run != self.run);
        let runs = std::iter::once(&self.run).chain(others).take(MAX_RUNS);
        words.extend(runs.map(|run| (*run).to_owned()));
        next.insert(self.key(), words.join(" "));
        Ok(())
    }

    fn key(&self) -> String {
        format!("{KEY_PREFIX}{}", self.app)
    }

    fn recorded<'c>(&self, config: &'c BTreeMap<String, String>) -> Result<Recorded<'c>> {
        let Some(text) = config.get(&self.key()) else {
            return Ok(Recorded {
                batch: None,
                runs: Vec::new(),
            });
        };
        let mut words = text.split(' ');
        let batch = match words.next() {
            Some("-") => Some(None),
            Some(number) => number.parse().ok().map(Some),
            None => None,
        };
        let runs: Vec<&str> = words.filter(|run| !run.is_empty()).collect();
        match batch {
            Some(batch) if !runs.is_empty() => Ok(Recorded { batch, runs }),
            _ => Err(Error::invalid(
                format!("config key {:?}", self.key()),
                format!(
                    "has {text:?} instead of a batch and the runs of a stream; delete the key to let the stream begin again"
                ),
            )),
        }
    }
}

/// The value of a property, which must be one word.
fn word<'a>(properties: &'a BTreeMap<String, String>, key: &str) -> Result<Option<&'a str>> {
    let Some(value) = properties.get(key) else {
        return Ok(None);
    };
    if value.is_empty() || value.chars().any(char::is_whitespace) {
        return Err(Error::invalid(
            format!("property {key:?}"),
            format!("is {value:?}; it must be one word without spaces"),
        ));
    }
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use pilum_format::Operation;

    use super::*;

    fn commit(app: &str, batch: &str, run: &str, claim: bool) -> Transaction {
        let mut transaction = Transaction::new(1, Operation::ReserveFragments { num_fragments: 0 });
        let properties = &mut transaction.properties;
        for (key, value) in [(APP, app), (BATCH, batch), (RUN, run)] {
            properties.insert(key.to_owned(), value.to_owned());
        }
        if claim {
            properties.insert(CLAIM.to_owned(), "true".to_owned());
        }
        transaction
    }

    type Config = BTreeMap<String, String>;

    fn tried(config: &mut Config, batch: u64, run: &str, claim: bool) -> Found {
        let transaction = commit("s", &batch.to_string(), run, claim);
        let batch = StreamBatch::of(&transaction).unwrap().unwrap();
        let found = batch.find(config).unwrap();
        if found == Found::New {
            let before = config.clone();
            batch.record(Some(&before), config).unwrap();
        }
        found
    }

    #[test]
    fn a_batch_is_new_once() {
        let mut config = Config::new();
        assert_eq!(tried(&mut config, 0, "a", false), Found::New);
        assert_eq!(tried(&mut config, 0, "a", false), Found::Committed);
        assert_eq!(tried(&mut config, 5, "a", false), Found::New);
        assert_eq!(tried(&mut config, 3, "a", false), Found::Committed);
        assert_eq!(config["pilum.stream.s"], "5 a");
    }

    #[test]
    fn a_run_that_another_one_followed_conflicts() {
        let mut config = Config::new();
        assert_eq!(tried(&mut config, 0, "a", false), Found::New);
        // The restarted stream repeats its batch, and claims the stream.
        assert_eq!(tried(&mut config, 0, "b", false), Found::Committed);
        assert_eq!(tried(&mut config, 0, "b", true), Found::New);
        assert_eq!(config["pilum.stream.s"], "0 b a");
        let followed = Found::Followed(Reason::StreamRun("b of stream s".to_owned()));
        assert_eq!(tried(&mut config, 1, "a", false), followed);
        assert_eq!(tried(&mut config, 1, "b", false), Found::New);
        assert_eq!(tried(&mut config, 1, "a", true), followed);
    }

    #[test]
    fn a_claim_takes_no_batch() {
        let mut config = Config::new();
        assert_eq!(tried(&mut config, 7, "a", true), Found::New);
        assert_eq!(config["pilum.stream.s"], "- a");
        assert_eq!(tried(&mut config, 7, "a", false), Found::New);
        assert_eq!(config["pilum.stream.s"], "7 a");
    }

    #[test]
    fn as_many_runs_are_remembered_as_documented() {
        let mut config = Config::new();
        for run in 0..40 {
            assert_eq!(
                tried(&mut config, run, &format!("r{run}"), false),
                Found::New
            );
        }
        assert_eq!(config["pilum.stream.s"].split(' ').count(), 1 + MAX_RUNS);
    }

    #[test]
    fn properties_and_config_that_say_nothing_are_refused() {
        for (batch, run) in [("x", "a"), ("-1", "a"), ("1", ""), ("1", "a b"), ("", "a")] {
            let transaction = commit("s", batch, run, false);
            assert_eq!(
                StreamBatch::of(&transaction).unwrap_err().kind(),
                "invalid_input"
            );
        }
        let transaction = commit("s", "1", "a", false);
        let batch = StreamBatch::of(&transaction).unwrap().unwrap();
        for text in ["", "7", "x a", "7 "] {
            let config = Config::from([("pilum.stream.s".to_owned(), text.to_owned())]);
            assert_eq!(batch.find(&config).unwrap_err().kind(), "invalid_input");
        }
    }
}
