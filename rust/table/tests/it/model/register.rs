//! A register of versions beside the store, its writers and readers.

use std::collections::HashSet;

use crate::commit::fail_points::all_fail_points;

use super::{Set, World, explore, one};

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
    assert!(
        all.iter()
            .all(|step| all_fail_points().any(|it| it == *step)),
        "{all:?}"
    );
}

#[test]
fn each_fault_planted_in_the_register_is_found() {
    for fault in [
        RegisterFault::InsertFirst,
        RegisterFault::FinalFirst,
        RegisterFault::UpdateFirst,
        RegisterFault::DeleteFirst,
        RegisterFault::UnclearIsFailed,
        RegisterFault::NoLook,
    ] {
        let found = explore(Register::new(2, 1, 1, fault));
        assert!(found.is_err(), "{fault:?} was not found: {found:?}");
    }
}
