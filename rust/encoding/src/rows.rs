//! A selection of rows inside one page.

use std::ops::Range;

use crate::error::Error;

/// Rows of ONE page: ranges of row numbers, ascending, apart from each other and never empty.
///
/// A scan is one range and costs no allocation; a `take` is thousands of ranges of length one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    ranges: Ranges,
    len: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Ranges {
    One(Range<u64>),
    Many(Vec<Range<u64>>),
}

impl Rows {
    /// All rows of a page of `n` rows.
    pub fn all(n: u64) -> Self {
        Self::range(0..n)
    }

    /// No row.
    pub fn empty() -> Self {
        Self {
            ranges: Ranges::Many(Vec::new()),
            len: 0,
        }
    }

    /// The rows of one range; no row if its end is not above its start.
    pub fn range(range: Range<u64>) -> Self {
        if range.start >= range.end {
            return Self::empty();
        }
        let len = range.end - range.start;
        Self {
            ranges: Ranges::One(range),
            len,
        }
    }

    /// Rows by ascending number without repetition; neighbours are merged into ranges.
    ///
    /// # Errors
    /// `InvalidInput` for row numbers that descend or repeat.
    pub fn from_sorted_indices(indices: impl IntoIterator<Item = u64>) -> Result<Self, Error> {
        let indices = indices.into_iter();
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(indices.size_hint().0);
        for index in indices {
            let end = index
                .checked_add(1)
                .ok_or_else(|| Error::invalid(format!("row {index} is no row number")))?;
            match ranges.last_mut() {
                Some(last) if last.end == index => last.end = end,
                Some(last) if last.end > index => {
                    return Err(Error::invalid(format!(
                        "rows must ascend without repetition: {index} follows {}",
                        last.end - 1
                    )));
                }
                _ => ranges.push(index..end),
            }
        }
        Ok(Self::from_canonical(ranges))
    }

    /// Rows by ascending ranges that do not overlap; empty ones are dropped, touching ones merged.
    ///
    /// # Errors
    /// `InvalidInput` for ranges that descend or overlap.
    pub fn from_ranges(input: impl IntoIterator<Item = Range<u64>>) -> Result<Self, Error> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for range in input {
            if range.start >= range.end {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                Some(last) if last.end > range.start => {
                    return Err(Error::invalid(format!(
                        "row ranges must ascend without overlap: {range:?} follows {last:?}"
                    )));
                }
                _ => ranges.push(range),
            }
        }
        Ok(Self::from_canonical(ranges))
    }

    /// From ranges that already ascend, do not touch and are not empty.
    pub(crate) fn from_canonical(mut ranges: Vec<Range<u64>>) -> Self {
        if ranges.len() == 1
            && let Some(only) = ranges.pop()
        {
            return Self::range(only);
        }
        // Disjoint ranges of u64 cannot sum past u64::MAX.
        let len = ranges.iter().map(|r| r.end - r.start).sum();
        Self {
            ranges: Ranges::Many(ranges),
            len,
        }
    }

    /// Number of rows.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// No row at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The rows are one contiguous range: the shape that decodes without a copy.
    pub fn is_single_range(&self) -> bool {
        matches!(self.ranges, Ranges::One(_))
    }

    /// The ranges, ascending.
    pub fn ranges(&self) -> &[Range<u64>] {
        match &self.ranges {
            Ranges::One(range) => std::slice::from_ref(range),
            Ranges::Many(ranges) => ranges,
        }
    }

    /// The row numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.ranges().iter().flat_map(Clone::clone)
    }

    /// One past the last row; 0 if there is none.
    pub fn end(&self) -> u64 {
        self.ranges().last().map_or(0, |r| r.end)
    }

    /// The range from first to last row, gaps included; `None` without rows.
    pub fn span(&self) -> Option<Range<u64>> {
        Some(self.ranges().first()?.start..self.ranges().last()?.end)
    }

    /// The first selected row at or after `row`.
    pub fn first_from(&self, row: u64) -> Option<u64> {
        let ranges = self.ranges();
        let range = ranges.get(ranges.partition_point(|r| r.end <= row))?;
        Some(range.start.max(row))
    }

    /// The rows that both selections hold.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let (a, b) = (self.ranges(), other.ranges());
        let (mut i, mut j) = (0, 0);
        let mut ranges = Vec::new();
        while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
            let both = x.start.max(y.start)..x.end.min(y.end);
            if both.start < both.end {
                ranges.push(both);
            }
            if x.end <= y.end {
                i += 1;
            } else {
                j += 1;
            }
        }
        Self::from_canonical(ranges)
    }

    /// `len` selected rows from the `offset`-th on, counted within this selection and not within the page.
    #[must_use]
    pub fn slice(&self, offset: u64, len: u64) -> Self {
        let (mut skip, mut left) = (offset, len);
        let mut ranges = Vec::new();
        for range in self.ranges() {
            if left == 0 {
                break;
            }
            let here = range.end - range.start;
            if skip >= here {
                skip -= here;
                continue;
            }
            let start = range.start + skip;
            let end = range.end.min(start.saturating_add(left));
            ranges.push(start..end);
            left -= end - start;
            skip = 0;
        }
        Self::from_canonical(ranges)
    }

    /// The selected rows that lie in a range, counted from its start.
    #[must_use]
    pub fn within(&self, range: &Range<u64>) -> Self {
        if range.is_empty() {
            return Self::empty();
        }
        let ranges = self.ranges();
        let first = ranges.partition_point(|r| r.end <= range.start);
        let last = ranges.partition_point(|r| r.start < range.end);
        let inside = ranges.get(first..last).unwrap_or_default().iter();
        let counted = |row: u64| row.clamp(range.start, range.end) - range.start;
        Self::from_canonical(inside.map(|r| counted(r.start)..counted(r.end)).collect())
    }

    /// The slots of these rows where each row has `per_row` of them.
    ///
    /// # Errors
    /// `Corrupt` for slot numbers beyond 2^64.
    pub fn times(&self, per_row: u64) -> Result<Self, Error> {
        let times = |row: u64| {
            row.checked_mul(per_row)
                .ok_or_else(|| Error::corrupt(format!("row {row} of {per_row} items each")))
        };
        let ranges = self.ranges().iter();
        let ranges = ranges
            .map(|range| Ok(times(range.start)?..times(range.end)?))
            .collect::<Result<Vec<_>, Error>>()?;
        Self::from_ranges(ranges)
    }

    /// Refuses rows beyond the end of a page of `page_rows` rows.
    pub(crate) fn check_within(&self, page_rows: u64) -> Result<(), Error> {
        if self.end() > page_rows {
            return Err(Error::invalid(format!(
                "row {} of a page of {page_rows} rows",
                self.end() - 1
            )));
        }
        Ok(())
    }
}
