//! Manifests, data files and the transactions of writers, beside cleanups.

mod cleaning;

use std::collections::HashSet;

use self::cleaning::Cleaning;
use crate::commit::fail_points::all_fail_points;

use super::{Set, World, explore, one};

/// The faults that can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Fault {
    None,
    /// The manifest is put, whether or not its name is taken.
    PutManifest,
    /// A taken name is not looked at: it may be ours.
    TakenIsLost,
    /// A create without an answer is a failure, and its files are removed.
    UnclearIsFailed,
    /// The manifest is published before the data file is complete.
    ManifestFirst,
    /// Cleanup takes files that no version names however young they are.
    NoGrace,
    /// Cleanup takes versions that came after the one that a writer at work began with.
    NoHold,
    /// Cleanup looks for writers at work before it looks which versions there are.
    HoldFirst,
    /// Cleanup removes the files of old versions before their manifests.
    FilesFirst,
    /// Cleanup does not look again for what came meanwhile.
    NoSecondLook,
    /// Cleanup does not look for restores under way.
    NoPins,
}

const VERSIONS: usize = 7;
/// The version that all writers begin with.
const BASE: usize = 2;
/// Files of the first two versions.
const OLD_FILE: usize = 0;
const NEW_FILE: usize = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Manifest {
    /// The writer whose transaction it is; those of before have none.
    by: Option<usize>,
    files: Set,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Job {
    /// Adds its own file.
    Append,
    /// Replaces `NEW_FILE` by its own: refused if that is not there any more.
    Rewrite,
    /// Brings back version 1.
    Restore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    File,
    Transaction,
    Look,
    /// The version to create, over the one before, and its files.
    Create(usize, Set),
    /// The create had no answer.
    Unclear(usize),
    Answer(usize),
    Acknowledged(usize),
    Failed,
    /// It said that nobody knows, and left its files.
    Unknown,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Writer {
    job: Job,
    at: At,
    /// The newest version that it knows of.
    known: usize,
    /// The newest version that it looked at.
    checked: usize,
    /// A create of this version of which nobody knows whether it happened.
    unclear: Option<usize>,
}

impl Writer {
    fn is_at_work(&self) -> bool {
        !matches!(
            self.at,
            At::Acknowledged(_) | At::Failed | At::Unknown | At::Dead
        )
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Table {
    fault: Fault,
    manifests: [Option<Manifest>; VERSIONS],
    /// All that were ever published, also those that cleanup took.
    history: [Option<Manifest>; VERSIONS],
    files: Set,
    /// Files of which a part is missing.
    partial: Set,
    transactions: Set,
    writers: Vec<Writer>,
    cleanups: Vec<Cleaning>,
    crashes: u8,
    overwritten: bool,
}

impl Table {
    fn new(jobs: &[Job], cleanups: usize, crashes: u8, fault: Fault) -> Self {
        let first = |file| {
            Some(Manifest {
                by: None,
                files: one(file),
            })
        };
        let mut manifests = [None; VERSIONS];
        (manifests[1], manifests[2]) = (first(OLD_FILE), first(NEW_FILE));
        let writer = |job: &Job| Writer {
            job: *job,
            at: At::File,
            known: BASE,
            checked: BASE,
            unclear: None,
        };
        Self {
            fault,
            manifests,
            history: manifests,
            files: one(OLD_FILE) | one(NEW_FILE),
            partial: 0,
            transactions: 0,
            writers: jobs.iter().map(writer).collect(),
            cleanups: vec![Cleaning::List; cleanups],
            crashes,
            overwritten: false,
        }
    }

    fn newest(&self) -> usize {
        let newest = self.manifests.iter().rposition(Option::is_some);
        newest.unwrap_or_default()
    }

    /// A writer's own file.
    fn own(number: usize) -> Set {
        one(2 + number)
    }

    fn step(&self, number: usize, to: &mut Vec<(&'static str, Self)>) {
        let writer = self.writers[number];
        let mut go = |step, change: &dyn Fn(&mut Self, &mut At)| {
            let mut next = self.clone();
            let mut at = writer.at;
            change(&mut next, &mut at);
            next.writers[number].at = at;
            to.push((step, next));
        };
        let own = Self::own(number);
        match writer.at {
            At::File if writer.job == Job::Restore => {
                go("commit.before_transaction", &|_, at| *at = At::Transaction);
            }
            At::File => go("writer.before_create", &|it, at| {
                it.files |= own;
                it.partial |= own;
                *at = At::Transaction;
            }),
            At::Transaction => go("commit.before_transaction", &|it, at| {
                if self.fault != Fault::ManifestFirst {
                    it.partial &= !own;
                }
                it.transactions |= one(number);
                *at = At::Look;
            }),
            At::Look => {
                // A listing may be old, but not older than what the writer knows. Beside cleanups it has to be true.
                let oldest = match self.cleanups.is_empty() {
                    true => writer.known,
                    false => self.newest(),
                };
                for newest in oldest..=self.newest() {
                    go("commit.after_transaction", &|it, at| {
                        it.writers[number].known = newest;
                        it.writers[number].checked = newest;
                        // The versions that came are read, oldest first, up to one that cleanup took.
                        let mut since = writer.checked + 1..=newest;
                        let gap = since.find(|version| self.manifests[*version].is_none());
                        let last = gap.map_or(newest, |version| version - 1);
                        // The name of an unclear create is somebody else's: it did not happen, and never will.
                        let unclear = writer.unclear.filter(|version| *version > last);
                        it.writers[number].unclear = unclear;
                        *at = match self.decide(number, last, gap.is_some()) {
                            At::Failed if unclear.is_some() => At::Unknown,
                            decided => decided,
                        };
                    });
                }
            }
            At::Create(version, files) => {
                let is_free = self.manifests[version].is_none();
                if is_free || self.fault == Fault::PutManifest {
                    let publish = |it: &mut Self| {
                        let manifest = Some(Manifest {
                            by: Some(number),
                            files,
                        });
                        // The name of a version that was taken by cleanup is free again, and must not be used.
                        it.overwritten |= it.history[version].is_some();
                        (it.manifests[version], it.history[version]) = (manifest, manifest);
                    };
                    go("create.before_link", &|it, at| {
                        publish(it);
                        *at = At::Answer(version);
                    });
                    go("create.after_link", &|it, at| {
                        publish(it);
                        it.writers[number].unclear = Some(version);
                        *at = At::Unclear(version);
                    });
                    // No answer, and nothing happened.
                    go("create.after_link", &|it, at| {
                        it.writers[number].unclear = Some(version);
                        *at = At::Unclear(version);
                    });
                }
                if !is_free {
                    go("commit.before_manifest", &|it, at| {
                        it.writers[number].known = version.max(writer.known);
                        *at = At::Look;
                    });
                }
            }
            At::Unclear(version) if self.fault == Fault::UnclearIsFailed => {
                go("commit.before_removal", &|it, at| {
                    it.files &= !own;
                    it.writers[number].known = version;
                    *at = At::Failed;
                });
            }
            // Who has the name is read.
            At::Unclear(_) => go("create.before_folder_fsync", &|_, at| *at = At::Look),
            At::Answer(version) => go("commit.before_answer", &|it, at| {
                it.partial &= !own;
                *at = At::Acknowledged(version);
            }),
            At::Acknowledged(_) | At::Failed | At::Unknown | At::Dead => {}
        }
        if writer.is_at_work() && self.crashes > 0 {
            let mut dead = self.clone();
            dead.crashes -= 1;
            dead.writers[number].at = At::Dead;
            to.push(("commit.before_answer", dead));
        }
    }

    /// What a writer makes of the newest version that it could read, which may have a gap behind it.
    fn decide(&self, number: usize, newest: usize, is_gap: bool) -> At {
        let writer = self.writers[number];
        let is_ours = |version: usize| {
            self.manifests[version].is_some_and(|manifest| manifest.by == Some(number))
        };
        if self.fault != Fault::TakenIsLost
            && let Some(version) = (3..=newest).find(|version| is_ours(*version))
        {
            return At::Acknowledged(version);
        }
        // Cleaned up meanwhile: what it did cannot be known, unless it was read before.
        if is_gap {
            return At::Failed;
        }
        let is_held = newest == writer.checked;
        let Some(current) = self.manifests[newest].or(self.history[newest].filter(|_| is_held))
        else {
            return At::Failed;
        };
        let own = Self::own(number);
        let files = match writer.job {
            Job::Append => current.files | own,
            Job::Rewrite if current.files & one(NEW_FILE) == 0 => return At::Failed,
            Job::Rewrite => current.files & !one(NEW_FILE) | own,
            Job::Restore => match self.manifests[1] {
                Some(old) => old.files,
                None => return At::Failed,
            },
        };
        At::Create(newest + 1, files)
    }
}

impl World for Table {
    fn next(&self, to: &mut Vec<(&'static str, Self)>) {
        for number in 0..self.writers.len() {
            self.step(number, to);
        }
        for number in 0..self.cleanups.len() {
            self.clean(number, to);
        }
    }

    fn check(&self) -> Result<(), String> {
        for (version, manifest) in self.manifests.iter().enumerate() {
            if let Some(manifest) = manifest
                && (manifest.files & !self.files != 0 || manifest.files & self.partial != 0)
            {
                return Err(format!("version {version} lacks a file"));
            }
        }
        if self.overwritten {
            return Err("a version was published twice".to_owned());
        }
        for (number, writer) in self.writers.iter().enumerate() {
            let by = |it: &&Option<Manifest>| it.is_some_and(|it| it.by == Some(number));
            let times = self.history.iter().filter(by).count();
            let is_fine = match writer.at {
                At::Acknowledged(version) => {
                    times == 1 && self.history[version].is_some_and(|it| it.by == Some(number))
                }
                At::Failed => times == 0,
                _ => times <= 1,
            };
            if !is_fine {
                return Err(format!(
                    "writer {number} is {:?}, {times} times there",
                    writer.at
                ));
            }
        }
        for version in 3..VERSIONS {
            let (Some(now), Some(before)) = (self.history[version], self.history[version - 1])
            else {
                if self.history[version].is_some() {
                    return Err(format!("version {version} follows none"));
                }
                continue;
            };
            let number = now.by.unwrap_or_default();
            let expected = match self.writers[number].job {
                Job::Append => before.files | Self::own(number),
                Job::Rewrite => before.files & !one(NEW_FILE) | Self::own(number),
                Job::Restore => one(OLD_FILE),
            };
            if now.files != expected {
                return Err(format!(
                    "version {version} is not what its operation makes of the one before"
                ));
            }
        }
        Ok(())
    }
}

#[test]
fn every_order_of_commits_and_cleanups_keeps_every_version_whole() {
    use Job::{Append, Restore, Rewrite};
    let mut all = HashSet::new();
    let mut count = 0;
    for (jobs, cleanups, crashes) in [
        (&[Append, Append, Rewrite][..], 0, 2),
        (&[Append, Rewrite, Rewrite], 1, 1),
        (&[Append, Restore], 2, 2),
        (&[Rewrite, Restore], 2, 1),
        (&[Append, Restore, Rewrite], 1, 0),
    ] {
        let (worlds, steps) = explore(Table::new(jobs, cleanups, crashes, Fault::None)).unwrap();
        count += worlds;
        all.extend(steps);
    }
    assert!(count > 50_000, "{count}");
    assert!(
        all.iter()
            .all(|step| all_fail_points().any(|it| it == *step)),
        "{all:?}"
    );
}

#[test]
fn each_fault_planted_in_the_model_is_found() {
    use Job::{Append, Restore, Rewrite};
    for (fault, jobs, cleanups) in [
        (Fault::PutManifest, &[Append, Append][..], 0),
        (Fault::TakenIsLost, &[Append, Append], 0),
        (Fault::UnclearIsFailed, &[Append, Append], 0),
        (Fault::ManifestFirst, &[Append], 0),
        (Fault::NoGrace, &[Append], 1),
        (Fault::NoHold, &[Append, Append, Append], 1),
        (Fault::HoldFirst, &[Append, Append, Append], 1),
        (Fault::FilesFirst, &[Append], 1),
        (Fault::NoSecondLook, &[Append, Restore], 1),
        (Fault::NoPins, &[Append, Restore], 1),
        (Fault::NoPins, &[Rewrite, Restore], 2),
    ] {
        let found = explore(Table::new(jobs, cleanups, 1, fault));
        assert!(found.is_err(), "{fault:?} was not found: {found:?}");
    }
}
