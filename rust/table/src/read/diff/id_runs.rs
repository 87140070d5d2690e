//! Two sets of rows compared by their row ids, in memory that does not grow with the rows.
//!
//! Each side is a list of runs of ids. The ids are compared window by window: a window begins with all ids that are left, and
//! loses its upper half whenever its runs are more than the limit. The caller then fills the next window.

use crate::error::{Error, Result};

/// Runs of both sides in memory at one time: with the growth of the lists about 64 MiB.
pub(super) const MAX_RUNS: usize = 1 << 20;

/// Rows whose ids follow each other and that one version changed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct VersionRun {
    pub(super) first: u64,
    /// The last id itself, so that the highest id of all has a place.
    pub(super) last: u64,
    pub(super) version: u64,
}

/// Which of the two versions a run belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Old,
    New,
}

/// The runs of both sides whose ids lie in `first..=last`.
#[derive(Debug)]
pub(super) struct Window {
    first: u64,
    last: u64,
    max_runs: usize,
    old: Vec<VersionRun>,
    new: Vec<VersionRun>,
}

/// What one window said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Compared {
    pub(super) num_added: u64,
    pub(super) num_removed: u64,
    pub(super) num_updated: u64,
    /// The first id of the next window; none after the last one.
    pub(super) next: Option<u64>,
}

impl Window {
    /// All ids from `first` on, as far as `max_runs` runs reach.
    pub(super) fn starting_at(first: u64, max_runs: usize) -> Self {
        Self {
            first,
            last: u64::MAX,
            max_runs,
            old: Vec::new(),
            new: Vec::new(),
        }
    }

    /// Adds what the window keeps of a run.
    ///
    /// # Errors
    /// `Corrupt` when so many runs hold the same id that no window can be small enough.
    pub(super) fn push(&mut self, side: Side, run: VersionRun) -> Result<()> {
        if run.last < self.first || run.first > self.last {
            return Ok(());
        }
        let runs = match side {
            Side::Old => &mut self.old,
            Side::New => &mut self.new,
        };
        runs.push(VersionRun {
            first: run.first.max(self.first),
            last: run.last.min(self.last),
            version: run.version,
        });
        if self.old.len() + self.new.len() > self.max_runs {
            self.narrow()?;
        }
        Ok(())
    }

    /// Leaves the upper half of the longer side, and what lies above its middle on the other side, to later windows.
    fn narrow(&mut self) -> Result<()> {
        let longer = if self.old.len() > self.new.len() {
            &mut self.old
        } else {
            &mut self.new
        };
        let middle = longer.len() / 2;
        let (_, middle, _) = longer.select_nth_unstable(middle);
        // Of runs with unique ids, at most one begins at the first id of the window.
        if middle.first <= self.first {
            return Err(of_two_rows(middle.first));
        }
        let last = middle.first - 1;
        self.last = last;
        for runs in [&mut self.old, &mut self.new] {
            runs.retain_mut(|run| {
                run.last = run.last.min(last);
                run.first <= last
            });
        }
        Ok(())
    }

    /// Counts the rows of one side only, and those of both that two versions changed last.
    ///
    /// # Errors
    /// `Corrupt` when an id belongs to two live rows of one side.
    pub(super) fn compare(mut self) -> Result<Compared> {
        for runs in [&mut self.old, &mut self.new] {
            runs.sort_unstable();
            if let Some(pair) = runs.windows(2).find(|pair| pair[1].first <= pair[0].last) {
                return Err(of_two_rows(pair[1].first));
            }
        }
        let mut compared = Compared {
            next: self.last.checked_add(1),
            ..Compared::default()
        };
        let (mut old_runs, mut new_runs) = (self.old.into_iter(), self.new.into_iter());
        let (mut old, mut new) = (old_runs.next(), new_runs.next());
        loop {
            match (&mut old, &mut new) {
                (None, None) => return Ok(compared),
                (Some(run), None) => {
                    compared.num_removed += count(run.first, run.last);
                    old = old_runs.next();
                }
                (None, Some(run)) => {
                    compared.num_added += count(run.first, run.last);
                    new = new_runs.next();
                }
                (Some(before), Some(after)) if before.first < after.first => {
                    let last = before.last.min(after.first - 1);
                    compared.num_removed += count(before.first, last);
                    old = rest(before, last).or_else(|| old_runs.next());
                }
                (Some(before), Some(after)) if after.first < before.first => {
                    let last = after.last.min(before.first - 1);
                    compared.num_added += count(after.first, last);
                    new = rest(after, last).or_else(|| new_runs.next());
                }
                (Some(before), Some(after)) => {
                    let last = before.last.min(after.last);
                    if before.version != after.version {
                        compared.num_updated += count(before.first, last);
                    }
                    let rest_of_old = rest(before, last);
                    new = rest(after, last).or_else(|| new_runs.next());
                    old = rest_of_old.or_else(|| old_runs.next());
                }
            }
        }
    }
}

fn of_two_rows(id: u64) -> Error {
    Error::corrupt(format!("row id {id} belongs to two rows"))
}

fn count(first: u64, last: u64) -> u64 {
    (last - first).saturating_add(1)
}

/// What a run has behind `last`.
fn rest(run: &VersionRun, last: u64) -> Option<VersionRun> {
    (run.last > last).then(|| VersionRun {
        first: last + 1,
        ..*run
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Runs = Vec<VersionRun>;

    /// All windows of two sides, each added up.
    fn compare(old: &[VersionRun], new: &[VersionRun], max_runs: usize) -> Result<Compared> {
        let mut total = Compared::default();
        let mut from = Some(0);
        while let Some(first) = from {
            let mut window = Window::starting_at(first, max_runs);
            for (side, runs) in [(Side::Old, old), (Side::New, new)] {
                for run in runs {
                    window.push(side, *run)?;
                    assert!(window.old.len() + window.new.len() <= max_runs);
                }
            }
            let compared = window.compare()?;
            total.num_added += compared.num_added;
            total.num_removed += compared.num_removed;
            total.num_updated += compared.num_updated;
            from = compared.next;
        }
        Ok(total)
    }

    #[test]
    fn enormous_runs_and_the_highest_id_are_counted() {
        let run = |first, last, version| VersionRun {
            first,
            last,
            version,
        };
        let old = [run(0, 1 << 40, 1), run(u64::MAX - 1, u64::MAX, 1)];
        let new = [run(10, 1 << 41, 1), run(u64::MAX, u64::MAX, 2)];
        let compared = compare(&old, &new, 3).unwrap();
        let counts = (compared.num_added, compared.num_removed);
        assert_eq!(counts, ((1 << 41) - (1 << 40), 11));
        assert_eq!(compared.num_updated, 1);
    }

    #[test]
    fn an_id_of_two_rows_is_damage() {
        let run = |first, last| VersionRun {
            first,
            last,
            version: 1,
        };
        let twice = [run(0, 5), run(5, 9)];
        for max_runs in [3, 100] {
            let error = compare(&twice, &[], max_runs).unwrap_err();
            assert!(error.to_string().contains("row id 5 belongs to two rows"));
        }
        let many = vec![run(7, 7); 20];
        assert!(compare(&[], &many, 4).is_err());
    }

    /// Runs of random rows: the rows, cut into runs of `cut` rows at most, out of order.
    fn runs(rows: &BTreeMap<u64, u64>, cut: u64) -> Runs {
        let mut runs: Runs = Vec::new();
        for (&id, &version) in rows {
            match runs.last_mut() {
                Some(run)
                    if run.last + 1 == id && run.version == version && id - run.first < cut =>
                {
                    run.last = id;
                }
                _ => runs.push(VersionRun {
                    first: id,
                    last: id,
                    version,
                }),
            }
        }
        runs.reverse();
        runs
    }

    proptest! {
        #[test]
        fn windows_of_any_size_agree_with_maps(
            old in proptest::collection::btree_map(0_u64..200, 1_u64..3, 0..80),
            new in proptest::collection::btree_map(0_u64..200, 1_u64..3, 0..80),
            max_runs in 3_usize..40,
            cut in 1_u64..20,
        ) {
            let compared = compare(&runs(&old, cut), &runs(&new, cut), max_runs).unwrap();
            let only = |a: &BTreeMap<u64, u64>, b: &BTreeMap<u64, u64>| {
                a.keys().filter(|id| !b.contains_key(id)).count() as u64
            };
            prop_assert_eq!(compared.num_added, only(&new, &old));
            prop_assert_eq!(compared.num_removed, only(&old, &new));
            let updated = old.iter().filter(|(id, version)| {
                new.get(id).is_some_and(|after| after != *version)
            });
            prop_assert_eq!(compared.num_updated, updated.count() as u64);
        }
    }
}
