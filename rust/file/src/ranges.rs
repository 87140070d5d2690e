//! Joining byte ranges that are to be read together.

use std::ops::Range;

/// Ranges with a gap below this are read as one; for a mapped file they cost one system call.
const MAX_GAP: u64 = 4096;

/// Sorts ranges and joins those that overlap or lie close together. Empty ranges are left out.
pub(crate) fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(MAX_GAP) => {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::{MAX_GAP, joined};

    #[test]
    fn ranges_that_overlap_or_lie_close_are_read_as_one() {
        let far = 100 + MAX_GAP + 1;
        let ranges = vec![far..far + 1, 50..100, 7..7, 0..60, 10..20];
        assert_eq!(joined(ranges), [0..100, far..far + 1]);
        assert_eq!(joined(vec![0..1, 1 + MAX_GAP..9000]), vec![0..9000]);
    }
}
