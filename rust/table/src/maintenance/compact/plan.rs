//! Which fragments a compaction rewrites: pure, from what the manifest says.

use pilum_format::Fragment;

/// What a fragment should be like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) rows: u64,
    pub(super) bytes: Option<u64>,
    pub(super) max_deleted_fraction: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Candidate {
    /// Too many of its rows are deleted: rewritten in any case.
    Itself,
    /// Too small: rewritten if a neighbour is.
    WithNeighbours,
}

fn candidate(fragment: &Fragment, target: Target) -> Option<Candidate> {
    let physical = fragment.physical_rows;
    let deleted = fragment
        .deletion
        .as_ref()
        .map_or(0, |deletion| deletion.num_deleted_rows);
    #[expect(
        clippy::cast_precision_loss,
        reason = "a share of rows needs no exact count"
    )]
    let share = deleted as f64 / physical.max(1) as f64;
    if share > target.max_deleted_fraction {
        return Some(Candidate::Itself);
    }
    // Unknown sizes count as small; the rows decide.
    let bytes: u64 = fragment.files.iter().map(|file| file.byte_len).sum();
    let is_small = physical < target.rows && target.bytes.is_none_or(|most| bytes < most);
    is_small.then_some(Candidate::WithNeighbours)
}

fn live(fragment: &Fragment) -> u64 {
    fragment.num_rows().unwrap_or(fragment.physical_rows)
}

/// The bins of neighbouring fragments, each to be rewritten on its own. `kin` tells which fragments may be joined:
/// those for which it gives the same answer.
pub(super) fn plan<K: PartialEq>(
    fragments: &[Fragment],
    target: Target,
    kin: impl Fn(&Fragment) -> K,
) -> Vec<Vec<Fragment>> {
    let mut bins: Vec<(K, Vec<(Candidate, &Fragment)>)> = Vec::new();
    let mut is_open = false;
    for fragment in fragments {
        let Some(candidate) = candidate(fragment, target) else {
            is_open = false;
            continue;
        };
        let kin = kin(fragment);
        match bins.last_mut() {
            Some((of, bin)) if is_open && *of == kin => bin.push((candidate, fragment)),
            _ => bins.push((kin, vec![(candidate, fragment)])),
        }
        is_open = true;
    }
    let bins = bins.into_iter().map(|(_, bin)| bin);
    let worth = |bin: &Vec<(Candidate, &Fragment)>| {
        !matches!(bin.as_slice(), [(Candidate::WithNeighbours, _)])
    };
    let bins = bins.filter(worth);
    bins.flat_map(|bin| split(bin.into_iter().map(|(_, it)| it), target.rows))
        .collect()
}

/// Cuts a bin where the target is reached, unless the rest would not reach it.
fn split<'a>(bin: impl Iterator<Item = &'a Fragment>, target_rows: u64) -> Vec<Vec<Fragment>> {
    let bin: Vec<&Fragment> = bin.collect();
    let mut left: u64 = bin.iter().map(|fragment| live(fragment)).sum();
    let mut bins = vec![Vec::new()];
    let mut rows = 0;
    for fragment in bin {
        if rows >= target_rows && left >= target_rows {
            bins.push(Vec::new());
            rows = 0;
        }
        rows += live(fragment);
        left -= live(fragment);
        if let Some(last) = bins.last_mut() {
            last.push(fragment.clone());
        }
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilum_format::{DataFile, DeletionFile, DeletionFileKind};

    fn fragment(id: u64, physical_rows: u64, deleted: u64) -> Fragment {
        let deletion = DeletionFile {
            kind: DeletionFileKind::Bitmap,
            read_version: 1,
            id: 1,
            num_deleted_rows: deleted,
            crc32c: None,
        };
        let file = DataFile {
            byte_len: physical_rows * 8,
            ..DataFile::default()
        };
        Fragment {
            id,
            files: vec![file],
            physical_rows,
            deletion: (deleted > 0).then_some(deletion),
            ..Fragment::default()
        }
    }

    fn planned(fragments: &[(u64, u64)], bytes: Option<u64>) -> Vec<Vec<u64>> {
        let target = Target {
            rows: 100,
            bytes,
            max_deleted_fraction: 0.1,
        };
        let fragments: Vec<Fragment> = (0..)
            .zip(fragments)
            .map(|(id, (rows, deleted))| fragment(id, *rows, *deleted))
            .collect();
        let bins = plan(&fragments, target, |fragment| fragment.id >= 1000);
        let ids = |bin: Vec<Fragment>| bin.iter().map(|fragment| fragment.id).collect();
        bins.into_iter().map(ids).collect()
    }

    #[test]
    fn what_is_good_stays() {
        let none: Vec<Vec<u64>> = Vec::new();
        assert_eq!(planned(&[], None), none);
        assert_eq!(planned(&[(100, 0), (200, 20)], None), none);
        // One small fragment between good ones has nobody to join.
        assert_eq!(planned(&[(100, 0), (5, 0), (100, 0), (7, 0)], None), none);
        assert_eq!(planned(&[(50, 0), (50, 0)], Some(400)), none);
    }

    #[test]
    fn small_neighbours_join_and_a_good_one_parts_them() {
        let fragments = [(5, 0), (6, 0), (100, 0), (7, 0), (8, 0), (9, 0)];
        assert_eq!(planned(&fragments, None), [vec![0, 1], vec![3, 4, 5]]);
        assert_eq!(planned(&[(50, 0), (50, 0)], Some(401)), [vec![0, 1]]);
    }

    #[test]
    fn many_deleted_rows_are_reason_enough() {
        assert_eq!(planned(&[(100, 10), (1000, 101)], None), [vec![1]]);
        assert_eq!(
            planned(&[(5, 0), (1000, 101), (100, 0)], None),
            [vec![0, 1]]
        );
    }

    #[test]
    fn a_bin_is_cut_at_the_target_if_the_rest_reaches_it() {
        let fragments = [(60, 0), (60, 0), (60, 0), (60, 0), (60, 0)];
        assert_eq!(planned(&fragments, None), [vec![0, 1], vec![2, 3, 4]]);
    }

    #[test]
    fn only_kin_is_joined() {
        let fragments = [
            fragment(998, 5, 0),
            fragment(999, 5, 0),
            fragment(1000, 5, 0),
        ];
        let target = Target {
            rows: 100,
            bytes: None,
            max_deleted_fraction: 0.1,
        };
        let bins = plan(&fragments, target, |fragment| fragment.id >= 1000);
        assert_eq!(bins, [fragments[..2].to_vec()]);
    }
}
