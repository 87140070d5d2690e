//! A small model of the commit protocol, explored to the end: every order in which two or three writers and a cleanup
//! can take their steps, with each of them ending at each step. Steps have the names of the fail points that stand
//! before them in the sources.
//!
//! A world is everything that matters: which manifests, files and rows of the register there are, and how far
//! everybody is. What must hold in every world is in `Table::check` and `Register::check`; a fault planted in one rule is
//! found, which shows that the rules are looked at.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

use pilum_store::failpoint::PLACES;

/// A state with all that may happen next.
trait World: Clone + Eq + Hash + Debug {
    /// Adds what may happen next: the step and what it makes of this world.
    fn next(&self, to: &mut Vec<(&'static str, Self)>);

    /// What is wrong here.
    fn check(&self) -> Result<(), String>;
}

/// Looks at every world that can be reached. Gives their number and the steps that were taken, or the first that is
/// wrong.
fn explore<W: World>(first: W) -> Result<(usize, HashSet<&'static str>), String> {
    let (mut seen, mut steps) = (HashSet::from([first.clone()]), HashSet::new());
    let (mut open, mut next) = (vec![first], Vec::new());
    while let Some(world) = open.pop() {
        world
            .check()
            .map_err(|wrong| format!("{wrong}: {world:?}"))?;
        world.next(&mut next);
        for (step, world) in next.drain(..) {
            steps.insert(step);
            if seen.insert(world.clone()) {
                open.push(world);
            }
        }
    }
    Ok((seen.len(), steps))
}

/// A set of small numbers.
type Set = u8;

const fn one(number: usize) -> Set {
    1 << number
}

/// The largest of them; 0 without any.
const fn last_of(set: Set) -> usize {
    7_usize.saturating_sub(set.leading_zeros() as usize)
}

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

// -- Manifests, files, cleanup --------------------------------------------------------------------------------------------

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Cleaning {
    /// Files are listed before manifests are read.
    List,
    Read {
        listed: Set,
    },
    /// The versions that it saw, and, as soon as that was looked for, whether a writer is at work.
    Hold {
        listed: Set,
        /// Files that were young when they were listed.
        young: Set,
        seen: Option<Set>,
        is_held: Option<bool>,
    },
    Orphans {
        orphans: Set,
        unneeded: Set,
        old: Set,
        seen: Set,
    },
    Manifests {
        unneeded: Set,
        old: Set,
        seen: Set,
    },
    /// Versions and restores that came meanwhile.
    Look {
        unneeded: Set,
        seen: Set,
    },
    Unneeded {
        unneeded: Set,
    },
    Done,
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

    /// Files that some writer may still name: they are young.
    fn young(&self) -> Set {
        let at_work = self
            .writers
            .iter()
            .enumerate()
            .filter(|(_, it)| it.is_at_work());
        at_work.fold(0, |young, (number, _)| young | Self::own(number))
    }

    /// All versions that there are.
    fn present(&self) -> Set {
        let versions = self.manifests.iter().enumerate();
        let present = versions.filter(|(_, manifest)| manifest.is_some());
        present.fold(0, |present, (version, _)| present | one(version))
    }

    /// Whether there is a young transaction of a writer that none of the versions seen names: it is at work, or was.
    fn is_unnamed(&self, number: usize, seen: Set) -> bool {
        let names = |version: &usize| {
            let by = self.history[*version].and_then(|manifest| manifest.by);
            seen & one(*version) != 0 && by == Some(number)
        };
        let is_there =
            self.transactions & one(number) != 0 && self.writers[number].at != At::Failed;
        is_there && !(1..VERSIONS).any(|version| names(&version))
    }

    fn is_held(&self, seen: Set) -> bool {
        (0..self.writers.len()).any(|number| self.is_unnamed(number, seen))
    }

    /// Restores that may be under way.
    fn is_pinned(&self, seen: Set) -> bool {
        let mut writers = self.writers.iter().enumerate();
        self.fault != Fault::NoPins
            && writers.any(|(number, it)| it.job == Job::Restore && self.is_unnamed(number, seen))
    }

    fn clean(&self, number: usize, to: &mut Vec<(&'static str, Self)>) {
        let mut go = |step, change: &dyn Fn(&mut Self, &mut Cleaning)| {
            let mut next = self.clone();
            let mut at = self.cleanups[number];
            change(&mut next, &mut at);
            next.cleanups[number] = at;
            to.push((step, next));
        };
        match self.cleanups[number] {
            Cleaning::List => go("cleanup.before_orphans", &|_, at| {
                *at = Cleaning::Read { listed: self.files }
            }),
            Cleaning::Read { listed } => go("cleanup.before_orphans", &|_, at| {
                let (seen, is_held) = match self.fault {
                    Fault::HoldFirst => (None, Some(self.is_held(self.present()))),
                    _ => (Some(self.present()), None),
                };
                *at = Cleaning::Hold {
                    listed,
                    young: self.young(),
                    seen,
                    is_held,
                };
            }),
            Cleaning::Hold {
                listed,
                young,
                seen,
                is_held,
            } => go("cleanup.before_orphans", &|_, at| {
                let seen = seen.unwrap_or_else(|| self.present());
                let is_held = is_held.unwrap_or_else(|| self.is_held(seen));
                *at = self.plan(listed, young, seen, is_held);
            }),
            Cleaning::Orphans {
                orphans,
                unneeded,
                old,
                seen,
            } => go("cleanup.before_orphans", &|it, at| {
                it.files &= !orphans;
                *at = match self.fault {
                    Fault::FilesFirst => Cleaning::Unneeded { unneeded },
                    _ => Cleaning::Manifests {
                        unneeded,
                        old,
                        seen,
                    },
                };
            }),
            Cleaning::Manifests {
                unneeded,
                old,
                seen,
            } => {
                let first = old.trailing_zeros() as usize;
                go("cleanup.before_manifests", &|it, at| {
                    if old == 0 {
                        *at = Cleaning::Look { unneeded, seen };
                    } else {
                        let gone = it.manifests[first].take();
                        if let Some(by) = gone.and_then(|manifest| manifest.by) {
                            // It goes with the manifest.
                            it.transactions &= !one(by);
                        }
                        let old = old & !one(first);
                        *at = Cleaning::Manifests {
                            unneeded,
                            old,
                            seen,
                        };
                    }
                });
            }
            Cleaning::Look { unneeded, seen } => go("cleanup.before_unneeded", &|_, at| {
                let since = self.manifests[last_of(seen) + 1..].iter().flatten();
                let mut needed = since.fold(0, |needed, manifest| needed | manifest.files);
                if self.is_pinned(seen) {
                    needed |= one(OLD_FILE);
                }
                if self.fault == Fault::NoSecondLook {
                    needed = 0;
                }
                let unneeded = unneeded & !needed;
                *at = Cleaning::Unneeded { unneeded };
            }),
            Cleaning::Unneeded { unneeded } => go("delete.before", &|it, at| {
                // One after the other.
                let rest = unneeded & unneeded.wrapping_sub(1);
                it.files &= !(unneeded & !rest);
                *at = match rest {
                    0 => Cleaning::Done,
                    unneeded => Cleaning::Unneeded { unneeded },
                };
            }),
            Cleaning::Done => {}
        }
        if self.cleanups[number] != Cleaning::Done && self.crashes > 0 {
            let mut dead = self.clone();
            dead.crashes -= 1;
            dead.cleanups[number] = Cleaning::Done;
            to.push(("cleanup.before_answer", dead));
        }
    }

    fn plan(&self, listed: Set, young: Set, seen: Set, is_held: bool) -> Cleaning {
        let seen_version = |version: &usize| seen & one(*version) != 0;
        let newest = last_of(seen);
        let (mut old, mut kept, mut of_old) = (0, 0, 0);
        for version in (1..=newest).filter(seen_version) {
            let Some(manifest) = self.history[version] else {
                continue;
            };
            // All writers began with the same version.
            let is_held = is_held && version > BASE && self.fault != Fault::NoHold;
            if version < newest && !is_held {
                old |= one(version);
                of_old |= manifest.files;
            } else {
                kept |= manifest.files;
            }
        }
        let mut orphans = listed & !kept & !of_old;
        if self.fault != Fault::NoGrace {
            orphans &= !young;
            // Which files a restore under way needs is written nowhere any more.
            if self.is_pinned(seen) && seen & one(1) == 0 {
                orphans = 0;
            }
        }
        Cleaning::Orphans {
            orphans,
            unneeded: listed & of_old & !kept,
            old,
            seen,
        }
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

// -- The register -------------------------------------------------------------------------------------------------------

/// What a row names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Row {
    by: usize,
    is_final: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Publishing {
    Stage,
    Insert,
    /// The insert had no answer.
    Unclear,
    /// What is left to do of the version of this writer, by it or by a reader: 3, 4, 5.
    Finish(usize, u8),
    Acknowledged,
    Failed,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Reading {
    Row,
    /// The row named the staged file of this writer, or the final name.
    File(Row),
    Finish(usize, u8),
    Done,
    Missing,
}

/// One version that several writers want, a register without a store that could decide, readers that repair, and a
/// cleanup of staged files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Register {
    fault: RegisterFault,
    row: Option<Row>,
    /// Whose bytes are at the final name.
    at_final: Option<usize>,
    staged: Set,
    writers: Vec<Publishing>,
    readers: Vec<Reading>,
    /// Staged files that the cleanup still has to look at; `None` before it listed them.
    cleanup: Option<Set>,
    crashes: u8,
    /// Two different manifests stood at the final name.
    changed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RegisterFault {
    None,
    /// The row is added before the manifest is staged.
    InsertFirst,
    /// The manifest is put at its final name before the row decides.
    FinalFirst,
    /// The row is pointed to the final name before the manifest is there.
    UpdateFirst,
    /// The staged file is deleted before the manifest is at its final name.
    DeleteFirst,
    /// An insert without an answer is a failure.
    UnclearIsFailed,
    /// Cleanup deletes staged files without a look at the row.
    NoLook,
}

impl Register {
    fn new(writers: usize, readers: usize, crashes: u8, fault: RegisterFault) -> Self {
        Self {
            fault,
            row: None,
            at_final: None,
            staged: 0,
            writers: vec![Publishing::Stage; writers],
            readers: vec![Reading::Row; readers],
            cleanup: None,
            crashes,
            changed: false,
        }
    }

    fn put_final(&mut self, by: usize) {
        self.changed |= self.at_final.is_some_and(|it| it != by);
        self.at_final = Some(by);
    }

    /// One of the steps that writers and readers share; gives the next one, 0 at the end.
    fn finish(&mut self, by: usize, step: u8) -> u8 {
        let order = match self.fault {
            RegisterFault::UpdateFirst => [4, 3, 5],
            RegisterFault::DeleteFirst => [5, 3, 4],
            _ => [3, 4, 5],
        };
        match order[usize::from(step)] {
            3 => self.put_final(by),
            4 => {
                if let Some(row) = &mut self.row {
                    row.is_final = true;
                }
            }
            _ => self.staged &= !one(by),
        }
        (step + 1) % 3
    }

    fn name(step: u8) -> &'static str {
        [
            "external.after_insert",
            "external.after_final",
            "external.after_update",
        ][usize::from(step)]
    }

    fn publish(&self, number: usize, to: &mut Vec<(&'static str, Self)>) {
        let mut go = |step, change: &dyn Fn(&mut Self) -> Publishing| {
            let mut next = self.clone();
            next.writers[number] = change(&mut next);
            to.push((step, next));
        };
        let row = Some(Row {
            by: number,
            is_final: false,
        });
        match self.writers[number] {
            Publishing::Stage => go("external.before_stage", &|it| {
                if it.fault == RegisterFault::FinalFirst {
                    it.put_final(number);
                }
                if it.fault != RegisterFault::InsertFirst {
                    it.staged |= one(number);
                }
                Publishing::Insert
            }),
            Publishing::Insert if self.row.is_none() => {
                go("register.before_insert", &|it| {
                    it.row = row;
                    Publishing::Finish(number, 0)
                });
                go("register.after_insert", &|it| {
                    it.row = row;
                    Publishing::Unclear
                });
                go("register.after_insert", &|_| Publishing::Unclear);
            }
            Publishing::Insert => go("register.before_insert", &|it| {
                it.staged &= !one(number);
                Publishing::Failed
            }),
            Publishing::Unclear if self.fault == RegisterFault::UnclearIsFailed => {
                go("external.after_stage", &|it| {
                    it.staged &= !one(number);
                    Publishing::Failed
                });
            }
            // The row tells; without one, it is tried again; after it was finished, the manifest tells.
            Publishing::Unclear => go("external.after_stage", &|it| match it.row {
                None => Publishing::Insert,
                Some(row) if row.is_final && it.at_final == Some(number) => {
                    Publishing::Acknowledged
                }
                Some(row) if row.by == number && !row.is_final => Publishing::Finish(number, 0),
                Some(_) => {
                    it.staged &= !one(number);
                    Publishing::Failed
                }
            }),
            Publishing::Finish(by, step) => {
                go(Self::name(step), &|it| {
                    if it.fault == RegisterFault::InsertFirst {
                        it.staged |= one(number);
                    }
                    match it.finish(by, step) {
                        0 => Publishing::Acknowledged,
                        step => Publishing::Finish(by, step),
                    }
                });
                // The commit does not depend on it.
                go("external.after_delete", &|_| Publishing::Acknowledged);
            }
            Publishing::Acknowledged | Publishing::Failed | Publishing::Dead => return,
        }
        if self.crashes > 0 {
            let mut dead = self.clone();
            dead.crashes -= 1;
            dead.writers[number] = Publishing::Dead;
            to.push(("external.after_stage", dead));
        }
    }

    fn read(&self, number: usize, to: &mut Vec<(&'static str, Self)>) {
        let mut next = self.clone();
        next.readers[number] = match self.readers[number] {
            Reading::Row => match self.row {
                Some(row) => Reading::File(row),
                None => Reading::Done,
            },
            Reading::File(row) if !row.is_final && self.staged & one(row.by) != 0 => {
                Reading::Finish(row.by, 0)
            }
            Reading::File(_) if self.at_final.is_some() => Reading::Done,
            // Somebody has finished it meanwhile: then the row tells.
            Reading::File(row) if self.row != Some(row) => Reading::Row,
            Reading::File(_) => Reading::Missing,
            Reading::Finish(by, step) => match next.finish(by, step) {
                0 => Reading::Done,
                step => Reading::Finish(by, step),
            },
            Reading::Done | Reading::Missing => return,
        };
        to.push(("external.after_insert", next));
    }
}

impl World for Register {
    fn next(&self, to: &mut Vec<(&'static str, Self)>) {
        for number in 0..self.writers.len() {
            self.publish(number, to);
        }
        for number in 0..self.readers.len() {
            self.read(number, to);
        }
        let mut next = self.clone();
        match self.cleanup {
            // Those of writers at work are young.
            None => {
                let mut listed = self.staged;
                for (number, writer) in self.writers.iter().enumerate() {
                    if !matches!(
                        writer,
                        Publishing::Acknowledged | Publishing::Failed | Publishing::Dead
                    ) {
                        listed &= !one(number);
                    }
                }
                next.cleanup = Some(listed);
            }
            Some(0) => return,
            Some(listed) => {
                let by = listed.trailing_zeros() as usize;
                let is_named = self.row.is_some_and(|row| row.by == by && !row.is_final);
                if is_named && self.fault != RegisterFault::NoLook {
                    // It is finished instead, like by a reader.
                    let mut step = 0;
                    while {
                        step = next.finish(by, step);
                        step != 0
                    } {}
                } else {
                    next.staged &= !one(by);
                }
                next.cleanup = Some(listed & !one(by));
            }
        }
        to.push(("cleanup.before_orphans", next));
    }

    fn check(&self) -> Result<(), String> {
        if self.changed {
            return Err("a manifest was replaced by another".to_owned());
        }
        if self.readers.contains(&Reading::Missing) {
            return Err("a reader found no manifest".to_owned());
        }
        let Some(row) = self.row else {
            let acknowledged = self.writers.contains(&Publishing::Acknowledged);
            let is_wrong = acknowledged || self.at_final.is_some();
            return if is_wrong {
                Err("a version without a row".to_owned())
            } else {
                Ok(())
            };
        };
        if self.at_final.is_some_and(|by| by != row.by) {
            return Err("the manifest is not the one of the row".to_owned());
        }
        if self.at_final.is_none() && (row.is_final || self.staged & one(row.by) == 0) {
            return Err("the row names no manifest".to_owned());
        }
        for (number, writer) in self.writers.iter().enumerate() {
            match writer {
                Publishing::Acknowledged if row.by != number => {
                    return Err(format!("{number} was acknowledged, {} is there", row.by));
                }
                Publishing::Failed if row.by == number => {
                    return Err(format!("{number} was refused, and is there"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[test]
fn every_order_of_publishing_by_a_register_gives_one_manifest() {
    let (mut count, mut all) = (0, HashSet::new());
    for (writers, readers, crashes) in [(3, 0, 2), (2, 2, 2), (3, 1, 1)] {
        let first = Register::new(writers, readers, crashes, RegisterFault::None);
        let (worlds, steps) = explore(first).unwrap();
        count += worlds;
        all.extend(steps);
    }
    assert!(count > 10_000, "{count}");
    assert!(all.iter().all(|step| PLACES.contains(step)), "{all:?}");
}

#[test]
fn each_fault_planted_in_the_register_is_found() {
    use RegisterFault::{
        DeleteFirst, FinalFirst, InsertFirst, NoLook, UnclearIsFailed, UpdateFirst,
    };
    for fault in [
        InsertFirst,
        FinalFirst,
        UpdateFirst,
        DeleteFirst,
        UnclearIsFailed,
        NoLook,
    ] {
        let found = explore(Register::new(2, 1, 1, fault));
        assert!(found.is_err(), "{fault:?} was not found: {found:?}");
    }
}

// -- Manifests, files and cleanup: the tests ------------------------------------------------------------------------------

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
    assert!(all.iter().all(|step| PLACES.contains(step)), "{all:?}");
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
