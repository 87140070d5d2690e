//! The steps of a cleanup: what it lists, what it reads, and what it takes in which order.

use super::{At, BASE, Fault, Job, OLD_FILE, Table, VERSIONS};
use crate::model::{Set, last_of, one};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Cleaning {
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

impl Table {
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

    pub(super) fn clean(&self, number: usize, to: &mut Vec<(&'static str, Self)>) {
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
