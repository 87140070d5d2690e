//! The tasks of a scan in row order: fragments opened as they come up, and cut into rows that are read at once.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt};
use pilum_file::Rows;
use pilum_format::Fragment;

use super::plan::RowIds;
use super::planned::Scan;
use crate::error::Result;
use crate::read::event;
use crate::read::fragment::FragmentReader;

/// A first task of fewer Arrow bytes is ready so soon that cutting it into parts gains nothing.
const MIN_SPLIT_BYTES: u64 = 2 << 20;

/// Rows of one fragment that are read at once.
pub(super) struct Task {
    pub(super) fragment: Arc<OpenFragment>,
    pub(super) rows: Rows,
}

/// The columns of one fragment, by the step that reads them.
pub(super) struct OpenFragment {
    /// The columns of the predicate; none without one.
    pub(super) filter: Option<FragmentReader>,
    /// The rows that may pass the predicate, where statistics leave some out.
    candidates: Option<Rows>,
    /// The other columns that the output needs.
    pub(super) rest: FragmentReader,
    pub(super) row_ids: Option<RowIds>,
}

impl OpenFragment {
    fn readers(&self) -> impl Iterator<Item = &FragmentReader> {
        self.filter.iter().chain([&self.rest])
    }

    /// About how many bytes of its files a row takes, those of columns that are not read included.
    pub(super) fn stored_row_bytes(&self) -> u64 {
        let stored = self.readers().map(FragmentReader::stored_row_bytes);
        stored.fold(0, u64::saturating_add)
    }

    /// Unmaps what reading left mapped of large files.
    pub(super) fn release(&self) {
        self.readers().for_each(FragmentReader::release);
    }
}

/// Where the division into tasks stands.
struct Cursor {
    scan: Arc<Scan>,
    /// Fragments to read, opened ahead on remote stores.
    opened: BoxStream<'static, Result<Option<OpenFragment>>>,
    has_begun: bool,
    /// Ranges of the fragment opened last that are not tasks yet.
    ranges: VecDeque<(Arc<OpenFragment>, Range<u64>)>,
    /// Rows to leave out before the first task.
    skip: u64,
    /// Rows that tasks may still have.
    left: Option<u64>,
}

impl Scan {
    /// The tasks in row order. Without a predicate, offset and limit are applied here; with one they are applied to the rows
    /// that pass it.
    pub(super) fn tasks(self: &Arc<Self>) -> BoxStream<'static, Result<Task>> {
        let fragments = &self.plan.fragments;
        let filter = self.plan.filter.as_ref();
        let of_all = filter.filter(|_| self.options.fragments.is_none());
        let none_passes = of_all.and_then(|it| self.context.prune_all(fragments, it));
        let (mut skip, left) = match filter {
            Some(_) => (0, None),
            None => (self.options.offset, self.options.limit),
        };
        let mut first = 0;
        if let Some(pruned) = none_passes {
            self.counters.add_pruned(pruned, fragments.len() as u64);
            first = fragments.len();
        }
        while let Some(rows) = fragments.get(first).and_then(Fragment::num_rows)
            && rows <= skip
            && skip > 0
        {
            skip -= rows;
            first += 1;
        }
        let scan = Arc::clone(self);
        let opened = (first..fragments.len()).map(move |index| {
            let scan = Arc::clone(&scan);
            async move { scan.open(index).await }
        });
        let cursor = Cursor {
            scan: Arc::clone(self),
            opened: futures::stream::iter(opened)
                .buffered(self.fragments_opened_ahead())
                .boxed(),
            has_begun: false,
            ranges: VecDeque::new(),
            skip,
            left,
        };
        futures::stream::try_unfold(cursor, |mut cursor| async move {
            let task = cursor.next().await?;
            Ok(task.map(|task| (task, cursor)))
        })
        .boxed()
    }

    /// Opens a fragment; none if statistics say that none of its rows passes.
    async fn open(&self, index: usize) -> Result<Option<OpenFragment>> {
        let fragment = &self.plan.fragments[index];
        let context = || Arc::clone(&self.context);
        let (mut filter_reader, mut candidates) = (None, None);
        if let Some(filter) = &self.plan.filter {
            if let Some(pruned) = self.context.prune_fragment(fragment, filter) {
                self.counters.add_pruned(pruned, 1);
                tracing::trace!(target: event::READ, fragment = fragment.id, "pruned a fragment");
                return Ok(None);
            }
            let reader = FragmentReader::open(context(), fragment, &filter.columns).await?;
            let (rows, pruned) = self.context.prune_pages(fragment, &reader, filter).await?;
            let is_empty = rows.as_ref().is_some_and(Rows::is_empty);
            self.counters.add_pruned(pruned, u64::from(is_empty));
            if is_empty {
                tracing::trace!(target: event::READ, fragment = fragment.id, "pruned a fragment");
                return Ok(None);
            }
            (filter_reader, candidates) = (Some(reader), rows);
        }
        let rest = FragmentReader::open(context(), fragment, &self.plan.rest).await?;
        let row_ids = if self.plan.needs_row_ids {
            RowIds::of(fragment, self.plan.stable_row_ids)
                .map_err(|error| error.at(self.context.store.uri()))?
        } else {
            None
        };
        tracing::trace!(target: event::READ, fragment = fragment.id, "opened a fragment");
        Ok(Some(OpenFragment {
            filter: filter_reader,
            candidates,
            rest,
            row_ids,
        }))
    }

    /// Arrow bytes of the columns that are read first, for a task of this fragment.
    fn target_bytes(&self, fragment: &OpenFragment) -> Result<u64> {
        let target = self.task_bytes()?;
        let (Some(_), Some(filter)) = (self.options.memory_limit, &fragment.filter) else {
            return Ok(target);
        };
        // Every row may pass, and then its other columns are read, too.
        let filter_bytes = filter.row_bytes().max(1);
        let row_bytes = filter_bytes.saturating_add(fragment.rest.row_bytes());
        let share = u128::from(target) * u128::from(filter_bytes) / u128::from(row_bytes);
        Ok(u64::try_from(share).unwrap_or(target))
    }
}

impl Cursor {
    async fn next(&mut self) -> Result<Option<Task>> {
        loop {
            if self.left == Some(0) {
                return Ok(None);
            }
            if let Some((fragment, range)) = self.ranges.pop_front() {
                let rows = self.rows_of(&fragment, range)?;
                if !rows.is_empty() {
                    return Ok(Some(Task { fragment, rows }));
                }
                continue;
            }
            match self.opened.next().await.transpose()? {
                Some(Some(fragment)) => self.divide(&Arc::new(fragment))?,
                Some(None) => {}
                None => return Ok(None),
            }
        }
    }

    /// The live rows of a range that may pass the predicate, within offset and limit.
    fn rows_of(&mut self, fragment: &OpenFragment, range: Range<u64>) -> Result<Rows> {
        let mut rows = fragment.rest.live(range)?;
        if let Some(candidates) = &fragment.candidates {
            rows = rows.intersect(candidates);
        }
        let skipped = self.skip.min(rows.len());
        let available = rows.len() - skipped;
        let taken = self.left.map_or(available, |left| left.min(available));
        self.skip -= skipped;
        self.left = self.left.map(|left| left - taken);
        if skipped > 0 || taken < rows.len() {
            rows = rows.slice(skipped, taken);
        }
        Ok(rows)
    }

    /// Cuts a fragment into ranges of rows.
    fn divide(&mut self, fragment: &Arc<OpenFragment>) -> Result<()> {
        let reader = fragment.filter.as_ref().unwrap_or(&fragment.rest);
        let mut ranges = reader.task_ranges(self.scan.target_bytes(fragment)?);
        if !std::mem::replace(&mut self.has_begun, true) && self.scan.is_local() {
            let min_rows = MIN_SPLIT_BYTES / reader.row_bytes().max(1);
            ranges = split_first(ranges, min_rows);
        }
        let ranges = ranges.into_iter();
        self.ranges
            .extend(ranges.map(|range| (Arc::clone(fragment), range)));
        Ok(())
    }
}

/// Cuts the first range into parts, each twice as long as the one before, unless it has at most `min_rows`: the consumer
/// receives a small batch soon, and works on it while the larger ones are read.
fn split_first(mut ranges: Vec<Range<u64>>, min_rows: u64) -> Vec<Range<u64>> {
    let Some(first) = ranges.first().cloned() else {
        return ranges;
    };
    if first.end - first.start <= min_rows {
        return ranges;
    }
    let mut parts = Vec::new();
    // Parts begin at whole words of a bitmap, which can then be shared; other positions need a copy with shifted bits.
    let mut part = ((first.end - first.start) / 32).max(1).next_multiple_of(64);
    let mut start = first.start;
    while start < first.end {
        let end = (start + part).min(first.end);
        parts.push(start..end);
        (start, part) = (end, 2 * part);
    }
    ranges.splice(..1, parts);
    ranges
}

#[cfg(test)]
mod tests {
    use super::split_first;

    #[test]
    fn the_parts_of_a_first_task_are_the_task() {
        for rows in [0, 1, 2, 31, 32, 63, 64, 65, 1000, 1024, 7168, 65_536] {
            for (start, min_rows) in [(0, 0), (5, 0), (4096, 1000)] {
                let ranges = vec![start..start + rows, start + rows..start + rows + 9];
                let parts = split_first(ranges.clone(), min_rows);
                assert_eq!(parts.last(), ranges.last());
                assert_eq!(parts.first().unwrap().start, start);
                assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
                assert_eq!(parts.len() > 2, rows > min_rows.max(64), "{parts:?}");
                assert!(parts.iter().all(|part| !part.is_empty() || rows == 0));
            }
        }
        assert!(split_first(Vec::new(), 0).is_empty());
    }
}
