//! The row index: from stable row ids to the places of their rows. Built once per version, then a few memory accesses per id.
//!
//! Ids that follow each other in rows that follow each other are one entry, so a table that was only appended to has one entry
//! for each fragment. Deleted rows have none: an updated row lies twice in the files, and once here. An entry takes 20 bytes
//! of memory, or 16 when it is one row.

use std::sync::Arc;

use pilum_format::{Fragment, Segment};
use roaring::RoaringBitmap;

use crate::error::{Error, Result};
use crate::read::row_ids::{live_runs, row_ids_of};

/// Entries per bucket, about: a lookup searches one bucket, which fills two cache lines.
const BUCKET_ENTRIES: u64 = 16;

/// Where the live rows of a version are, by their stable ids.
#[derive(Debug)]
pub(crate) struct RowIndex {
    /// Ids that follow each other.
    runs: Entries,
    num_rows: Vec<u32>,
    /// Ids that stand alone.
    singles: Entries,
}

/// Ids that follow each other, in rows that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    first_id: u64,
    place: u64,
    rows: u32,
}

/// A place: index of the fragment in the version, and offset of the row in it.
fn place(fragment: usize, row: u64) -> u64 {
    (fragment as u64) << 32 | row
}

impl RowIndex {
    /// The index of the live rows of `fragments`; `deleted` holds the deleted rows of each.
    ///
    /// # Errors
    /// `Corrupt` when a fragment has no row ids, or an id belongs to two live rows.
    pub(super) fn of(
        fragments: &[Fragment],
        deleted: &[Option<Arc<RoaringBitmap>>],
    ) -> Result<Self> {
        let mut runs = Vec::new();
        for (index, (fragment, deleted)) in fragments.iter().zip(deleted).enumerate() {
            let ids = row_ids_of(fragment)?;
            let mut first_row = 0;
            for segment in ids.segments() {
                add(&mut runs, segment, index, first_row, deleted.as_deref());
                first_row += segment.len();
            }
        }
        Self::new(runs)
    }

    fn new(mut runs: Vec<Run>) -> Result<Self> {
        if !runs.is_sorted() {
            runs.sort_unstable();
        }
        let twice = runs
            .windows(2)
            .find(|pair| pair[1].first_id - pair[0].first_id < u64::from(pair[0].rows));
        if let Some(pair) = twice {
            let id = pair[1].first_id;
            return Err(Error::corrupt(format!("row id {id} belongs to two rows")));
        }
        let (long, single): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(|run| run.rows > 1);
        Ok(Self {
            num_rows: long.iter().map(|run| run.rows).collect(),
            runs: Entries::new(&long),
            singles: Entries::new(&single),
        })
    }

    /// The fragment, by its index in the version, and the row in it.
    pub(crate) fn get(&self, id: u64) -> Option<(usize, u64)> {
        let place = self.place(id)?;
        Some((usize::try_from(place >> 32).ok()?, place & 0xFFFF_FFFF))
    }

    fn place(&self, id: u64) -> Option<u64> {
        if let Some(index) = self.runs.last_not_after(id) {
            let offset = id - self.runs.first_ids[index];
            if offset < u64::from(self.num_rows[index]) {
                return Some(self.runs.places[index] + offset);
            }
        }
        let index = self.singles.last_not_after(id)?;
        (self.singles.first_ids[index] == id).then(|| self.singles.places[index])
    }
}

/// Adds the live rows of a segment.
fn add(
    runs: &mut Vec<Run>,
    segment: &Segment,
    fragment: usize,
    first_row: u64,
    deleted: Option<&RoaringBitmap>,
) {
    for run in live_runs(segment, first_row, deleted) {
        let (mut first_id, mut row, mut left) = (run.first_id, run.first_row, run.num_rows);
        // 2^32 rows, the most of a fragment, are one more than an entry counts.
        while left > 0 {
            let rows = u32::try_from(left).unwrap_or(u32::MAX);
            runs.push(Run {
                first_id,
                place: place(fragment, row),
                rows,
            });
            (first_id, row) = (first_id.wrapping_add(rows.into()), row + u64::from(rows));
            left -= u64::from(rows);
        }
    }
}

/// Entries by their first id, with a jump table over the range of ids.
#[derive(Debug, Default)]
struct Entries {
    first_ids: Vec<u64>,
    places: Vec<u64>,
    /// For each `1 << shift` ids from the first one: the first entry that is not before them.
    buckets: Vec<u32>,
    shift: u32,
}

impl Entries {
    fn new(runs: &[Run]) -> Self {
        let first_ids: Vec<u64> = runs.iter().map(|run| run.first_id).collect();
        let places = runs.iter().map(|run| run.place).collect();
        let (Some(min), Some(max), Ok(num_entries)) = (
            first_ids.first(),
            first_ids.last(),
            u32::try_from(first_ids.len()),
        ) else {
            return Self {
                first_ids,
                places,
                ..Self::default()
            };
        };
        let span = max - min;
        let wanted = (u64::from(num_entries) / BUCKET_ENTRIES).max(1);
        let mut shift = 0;
        while span.checked_shr(shift).unwrap_or(0) >= wanted && shift < u64::BITS {
            shift += 1;
        }
        let num_buckets = usize::try_from(span.checked_shr(shift).unwrap_or(0)).unwrap_or(0) + 1;
        let mut buckets = Vec::with_capacity(num_buckets + 1);
        for (entry, id) in (0..num_entries).zip(&first_ids) {
            let bucket = (id - min).checked_shr(shift).unwrap_or(0);
            let bucket = usize::try_from(bucket).unwrap_or(usize::MAX);
            // Empty buckets before this one begin at the same entry.
            while buckets.len() <= bucket {
                buckets.push(entry);
            }
        }
        buckets.push(num_entries);
        Self {
            first_ids,
            places,
            buckets,
            shift,
        }
    }

    /// The last entry whose first id is not after `id`.
    fn last_not_after(&self, id: u64) -> Option<usize> {
        let min = self.first_ids.first()?;
        let from_first = id.checked_sub(*min)?;
        let bucket = from_first.checked_shr(self.shift).unwrap_or(0);
        let bucket = usize::try_from(bucket).unwrap_or(usize::MAX);
        let (start, end) = match self.buckets.get(bucket..bucket.saturating_add(2)) {
            Some(&[start, end]) => (start as usize, end as usize),
            _ if self.buckets.is_empty() => (0, self.first_ids.len()),
            // Behind the last bucket.
            _ => return Some(self.first_ids.len() - 1),
        };
        let within = self.first_ids.get(start..end)?;
        (start + within.partition_point(|first| *first <= id)).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilum_format::RowIdSequence;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn index(fragments: &[(Vec<u64>, Vec<u32>)]) -> Result<RowIndex> {
        let mut runs = Vec::new();
        for (fragment, (ids, deleted)) in fragments.iter().enumerate() {
            // Cut in two, as appended and rewritten rows of one fragment are.
            let (head, tail) = ids.split_at(ids.len() / 2);
            let mut sequence = RowIdSequence::from_values(head);
            sequence.extend(&RowIdSequence::from_values(tail));
            let deleted: RoaringBitmap = deleted.iter().copied().collect();
            let mut first_row = 0;
            for segment in sequence.segments() {
                add(&mut runs, segment, fragment, first_row, Some(&deleted));
                first_row += segment.len();
            }
        }
        RowIndex::new(runs)
    }

    #[test]
    fn the_edges_of_the_ids() {
        let none = index(&[]).unwrap();
        assert_eq!((none.get(0), none.get(u64::MAX)), (None, None));
        let far = index(&[(vec![u64::MAX - 1, 0, 1, 2], vec![2])]).unwrap();
        assert_eq!(far.get(u64::MAX - 1), Some((0, 0)));
        assert_eq!(far.get(u64::MAX), None);
        assert_eq!(
            (far.get(0), far.get(1), far.get(2)),
            (Some((0, 1)), None, Some((0, 3)))
        );
        let twice = [(vec![5, 6, 7], vec![]), (vec![1, 6], vec![])];
        assert!(
            index(&twice)
                .unwrap_err()
                .to_string()
                .contains("row id 6 belongs to two rows")
        );
        // Updated: the old row is deleted.
        let updated = [(vec![5, 6, 7], vec![1]), (vec![1, 6], vec![])];
        assert_eq!(index(&updated).unwrap().get(6), Some((1, 1)));
    }

    proptest! {
        #[test]
        fn every_form_agrees_with_a_map(
            ids in proptest::collection::btree_set(prop_oneof![0_u64..300, any::<u64>(), 1 << 40..(1_u64 << 40) + 200], 0..200),
            order in any::<prop::sample::Index>(),
            shuffled in any::<bool>(),
            deleted in proptest::collection::btree_set(0_u32..80, 0..40),
            cuts in proptest::collection::vec(1_usize..80, 1..5),
            asked in proptest::collection::vec(any::<u64>(), 0..20),
        ) {
            let mut ids: Vec<u64> = ids.into_iter().filter(|id| *id != u64::MAX).collect();
            if shuffled && !ids.is_empty() {
                let middle = order.index(ids.len());
                ids.rotate_left(middle);
                ids[..middle].reverse();
            }
            let mut fragments = Vec::new();
            let mut model = BTreeMap::new();
            let mut left = ids.as_slice();
            for cut in cuts.iter().cycle() {
                if left.is_empty() { break; }
                let (here, rest) = left.split_at((*cut).min(left.len()));
                left = rest;
                for (row, id) in (0_u32..).zip(here) {
                    if !deleted.contains(&row) {
                        model.insert(*id, (fragments.len(), u64::from(row)));
                    }
                }
                fragments.push((here.to_vec(), deleted.iter().copied().collect()));
            }
            let index = index(&fragments).unwrap();
            let near = ids.iter().flat_map(|id| [id.wrapping_sub(1), *id, id.wrapping_add(1)]);
            for id in near.chain(asked) {
                prop_assert_eq!(index.get(id), model.get(&id).copied(), "id {}", id);
            }
        }
    }
}
