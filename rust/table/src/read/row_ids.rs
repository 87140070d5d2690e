//! Live rows of a fragment and their stable row ids, as runs: nothing here expands them to one value per row.

use std::ops::Range;

use pilum_format::{Fragment, RowIdSequence, Segment};
use roaring::RoaringBitmap;

use crate::error::{Error, Result};

/// The stable row ids of a fragment of an open version, one per physical row.
///
/// # Errors
/// `Corrupt` when it has none, or not as many as rows: an open version knows the count of every fragment, 0 included.
pub(super) fn row_ids_of(fragment: &Fragment) -> Result<RowIdSequence> {
    let id = fragment.id;
    let ids = fragment.row_ids()?.ok_or_else(|| {
        let reason = format!("fragment {id} has no row ids in a table with stable row ids");
        Error::corrupt(reason)
    })?;
    let (num_ids, num_rows) = (ids.len(), fragment.physical_rows);
    if num_ids != num_rows {
        let reason = format!("fragment {id} has {num_ids} row ids for {num_rows} rows");
        return Err(Error::corrupt(reason));
    }
    Ok(ids)
}

/// The ranges of physical rows within `rows` that are not deleted, ascending; none is empty.
pub(super) fn live_ranges(
    deleted: Option<&RoaringBitmap>,
    rows: Range<u64>,
) -> impl Iterator<Item = Range<u64>> + '_ {
    let clamp = |row: u64| u32::try_from(row).unwrap_or(u32::MAX);
    let end = rows.end;
    let last = clamp(end.saturating_sub(1));
    let deleted = deleted.filter(|_| rows.start < end && rows.start <= u64::from(u32::MAX));
    let deleted = deleted.map(|deleted| deleted.range(clamp(rows.start)..=last));
    let mut start = rows.start;
    let deleted = deleted.into_iter().flatten().map(u64::from);
    deleted.chain([end]).filter_map(move |next| {
        let live = start..next;
        start = next.saturating_add(1);
        (!live.is_empty()).then_some(live)
    })
}

/// Live rows that lie together and whose ids follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IdRun {
    pub(super) first_id: u64,
    pub(super) first_row: u64,
    /// Not 0.
    pub(super) num_rows: u64,
}

/// The live rows among those of a segment, which begins at `first_row` of its fragment.
pub(super) fn live_runs<'a>(
    segment: &'a Segment,
    first_row: u64,
    deleted: Option<&'a RoaringBitmap>,
) -> impl Iterator<Item = IdRun> + 'a {
    let mut next_row = first_row;
    segment.runs().flat_map(move |(first_id, num_rows)| {
        let start = next_row;
        next_row = start.saturating_add(num_rows);
        live_ranges(deleted, start..next_row).map(move |live| IdRun {
            first_id: first_id + (live.start - start),
            first_row: live.start,
            num_rows: live.end - live.start,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::live_ranges;
    use roaring::RoaringBitmap;

    #[test]
    fn live_ranges_are_what_deletions_leave() {
        let deleted: RoaringBitmap = [0, 3, 4, 9, u32::MAX].into_iter().collect();
        let live = |rows| live_ranges(Some(&deleted), rows).collect::<Vec<_>>();
        assert_eq!(live(0..10), [1..3, 5..9]);
        assert_eq!(live(1..3), vec![1..3]);
        assert_eq!(live(3..5), []);
        assert_eq!(live(7..7), []);
        let all = 1_u64 << 32;
        assert_eq!(live(0..all), [1..3, 5..9, 10..all - 1]);
        assert_eq!(live_ranges(None, 5..all).collect::<Vec<_>>(), vec![5..all]);
    }
}
