//! [`ReadAt`]: reading byte ranges of an immutable object, whether it is mapped, read with `pread`, in memory or remote.
//! Ranges near each other are joined to one request here and nowhere else.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::error::{Error, Result};

/// An open object that never changes.
///
/// Futures of local objects and of those in memory are complete at their first poll; those of remote stores need a tokio
/// runtime.
pub trait ReadAt: Send + Sync + fmt::Debug {
    /// The full address of the object, as it stands in errors.
    fn path(&self) -> &str;

    /// The size in bytes.
    fn size(&self) -> u64;

    /// The whole object, when it is memory mapped or in memory: slices of it cost nothing.
    ///
    /// Bytes of a mapped file must be [prefetched](Self::prefetch) before they are touched: the first touch of a page
    /// that cannot be read ends the process with the signal SIGBUS. Slices that [`read_ranges`](Self::read_ranges),
    /// [`read_tail`](Self::read_tail) and [`read_mapped`](Self::read_mapped) return are prefetched.
    fn mapped(&self) -> Option<&Bytes>;

    /// The bytes of `ranges`, in their order; they may overlap, touch or be empty.
    ///
    /// Ranges near each other become one request.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a range beyond the end, before any request is made; [`Error::Io`] when the store fails.
    fn read_ranges<'a>(&'a self, ranges: &'a [Range<u64>]) -> BoxFuture<'a, Result<Vec<Bytes>>>;

    /// The last `min(num_bytes, size)` bytes. A remote object that was opened without a known size holds its tail already.
    ///
    /// # Errors
    /// As [`read_ranges`](Self::read_ranges).
    fn read_tail(&self, num_bytes: u64) -> BoxFuture<'_, Result<Bytes>>;

    /// Read the bytes of `ranges` of a mapped file into memory, so that touching them afterwards is safe: a file that was
    /// cut short since it was opened and a device that cannot read a page are errors here.
    ///
    /// Give all ranges of a batch in one call: the file's size is asked for once per call (about a microsecond), and a
    /// 64 KiB block that was prefetched and not released since costs no system call. Ranges below 64 KiB bring their
    /// whole blocks along. Objects that are not mapped only check that the ranges are in bounds.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a range out of bounds; [`Error::Io`] when the file is shorter than it was when it was
    /// opened, or when bytes cannot be read.
    fn prefetch(&self, ranges: &[Range<u64>]) -> Result<()>;

    /// Give back the memory under `range` of a mapped file. Its contents stay in the page cache and in every slice handed
    /// out, but are to be prefetched again before new slices of [`mapped`](Self::mapped) are touched. Does nothing for
    /// other objects.
    fn release(&self, range: Range<u64>);

    /// `range` without a copy; `None` for objects that are not [mapped](Self::mapped). The bytes are prefetched, and those
    /// of a range of 64 KiB or more released again when the last slice is dropped: the resident memory of a scan follows
    /// the batches that are alive and not the size of the file.
    ///
    /// # Errors
    /// As [`prefetch`](Self::prefetch).
    fn read_mapped(&self, range: Range<u64>) -> Option<Result<Bytes>>;
}

/// Limits for joining ranges to one request, in bytes: the largest gap between two ranges, and the largest request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coalesce {
    pub(crate) max_gap: u64,
    pub(crate) max_request: u64,
}

impl Coalesce {
    /// For system calls: one costs about as much as copying a few tens of KiB.
    pub(crate) const LOCAL: Self = Self {
        max_gap: 16 << 10,
        max_request: 8 << 20,
    };

    /// For object stores: a round trip costs about as much as transferring a MiB, and larger requests are faster in
    /// parallel. `RemoteFile` limits how many bytes all gaps may take.
    #[cfg(feature = "cloud")]
    pub(crate) const REMOTE: Self = Self {
        max_gap: 1 << 20,
        max_request: 16 << 20,
    };

    /// The requests that cover `ranges`, sorted; disjoint unless ranges overlap beyond `max_request`. Empty ranges need
    /// none.
    pub(crate) fn plan(self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        self.plan_within(ranges, u64::MAX).0
    }

    /// As [`plan`](Self::plan), but all gaps together take at most `credit` bytes. The smallest gaps come first, which gives
    /// the fewest requests. Also returns the bytes of the gaps.
    pub(crate) fn plan_within(
        self,
        ranges: &[Range<u64>],
        mut credit: u64,
    ) -> (Vec<Range<u64>>, u64) {
        let wanted = sorted(ranges);
        let gaps = gaps(&wanted);
        let mut by_size: Vec<usize> = (0..gaps.len()).filter(|&at| gaps[at] > 0).collect();
        by_size.sort_by_key(|&at| gaps[at]);
        let mut is_fetched = vec![false; gaps.len()];
        for at in by_size {
            if gaps[at] > self.max_gap || gaps[at] > credit {
                break;
            }
            credit -= gaps[at];
            is_fetched[at] = true;
        }
        let mut requests: Vec<Range<u64>> = Vec::new();
        let mut extra = 0;
        for (at, next) in wanted.into_iter().enumerate() {
            if let Some(last) = requests.last_mut() {
                let covered = next.end <= last.end;
                let near = gaps[at] == 0 || is_fetched[at];
                let small = next.end.saturating_sub(last.start) <= self.max_request;
                if covered || (near && small) {
                    extra += next.start.saturating_sub(last.end);
                    last.end = last.end.max(next.end);
                    continue;
                }
            }
            requests.push(next);
        }
        (requests, extra)
    }

    /// Cuts `range` out of the answers to `requests`; `None` if an answer is shorter than its request.
    pub(crate) fn cut(
        range: &Range<u64>,
        requests: &[Range<u64>],
        answers: &[Bytes],
    ) -> Option<Bytes> {
        if range.start >= range.end {
            return Some(Bytes::new());
        }
        // Starts are sorted: candidates are the requests that start at or before the range.
        let candidates = requests.partition_point(|request| request.start <= range.start);
        let index = requests
            .get(..candidates)?
            .iter()
            .rposition(|request| request.end >= range.end)?;
        let (request, answer) = (requests.get(index)?, answers.get(index)?);
        let start = usize::try_from(range.start - request.start).ok()?;
        let end = usize::try_from(range.end - request.start).ok()?;
        (end <= answer.len()).then(|| answer.slice(start..end))
    }
}

fn sorted(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut wanted: Vec<Range<u64>> = ranges.iter().filter(|r| r.start < r.end).cloned().collect();
    wanted.sort_unstable_by_key(|r| (r.start, r.end));
    wanted
}

/// The gap between each of some sorted ranges and the end of all ranges before it; 0 for the first.
fn gaps(sorted: &[Range<u64>]) -> Vec<u64> {
    let mut end = sorted.first().map_or(0, |first| first.start);
    let gap = |range: &Range<u64>| {
        let gap = range.start.saturating_sub(end);
        end = end.max(range.end);
        gap
    };
    sorted.iter().map(gap).collect()
}

/// The number of bytes that ranges cover, each byte counted once.
#[cfg(any(feature = "cloud", test))]
pub(crate) fn bytes_covered(ranges: &[Range<u64>]) -> u64 {
    let wanted = sorted(ranges);
    let first = wanted.first().map_or(0, |first| first.start);
    let end = wanted.iter().map(|range| range.end).max().unwrap_or(first);
    end - first - gaps(&wanted).iter().sum::<u64>()
}

/// Refuses ranges that are reversed or reach beyond `size`.
pub(crate) fn check_ranges(path: &str, size: u64, ranges: &[Range<u64>]) -> Result<()> {
    for range in ranges {
        if range.start > range.end || range.end > size {
            return Err(Error::OutOfRange {
                path: path.to_owned(),
                range: range.clone(),
                size,
            });
        }
    }
    Ok(())
}

/// A slice of bytes that are in memory.
pub(crate) fn slice_of(path: &str, whole: &Bytes, range: &Range<u64>) -> Result<Bytes> {
    let out_of_range = || Error::OutOfRange {
        path: path.to_owned(),
        range: range.clone(),
        size: whole.len() as u64,
    };
    let start = usize::try_from(range.start).map_err(|_| out_of_range())?;
    let end = usize::try_from(range.end).map_err(|_| out_of_range())?;
    if start > end || end > whole.len() {
        return Err(out_of_range());
    }
    Ok(whole.slice(start..end))
}

#[cfg(test)]
mod tests;
