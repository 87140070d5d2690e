//! Open objects: whole in memory, or far away.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use crate::counters::Tally;
use crate::error::Result;
use crate::read_at::{Coalesce, ReadAt, check_ranges, slice_of};

/// An object of a memory store: its bytes.
#[derive(Debug)]
pub(super) struct MemoryFile {
    shown: String,
    bytes: Bytes,
    tally: Arc<Tally>,
}

impl MemoryFile {
    pub(super) fn new(shown: String, bytes: Bytes, tally: Arc<Tally>) -> Self {
        Self {
            shown,
            bytes,
            tally,
        }
    }

    fn read_all(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        check_ranges(&self.shown, self.size(), ranges)?;
        for request in Coalesce::LOCAL.plan(ranges) {
            self.tally.read(request.end - request.start);
        }
        ranges
            .iter()
            .map(|range| slice_of(&self.shown, &self.bytes, range))
            .collect()
    }
}

impl ReadAt for MemoryFile {
    fn path(&self) -> &str {
        &self.shown
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn mapped(&self) -> Option<&Bytes> {
        Some(&self.bytes)
    }

    fn read_ranges<'a>(&'a self, ranges: &'a [Range<u64>]) -> BoxFuture<'a, Result<Vec<Bytes>>> {
        ready(self.read_all(ranges)).boxed()
    }

    fn read_tail(&self, num_bytes: u64) -> BoxFuture<'_, Result<Bytes>> {
        let range = self.size().saturating_sub(num_bytes)..self.size();
        let tail = self
            .read_all(&[range])
            .map(|mut all| all.pop().unwrap_or_default());
        ready(tail).boxed()
    }

    fn prefetch(&self, range: Range<u64>) -> Result<()> {
        check_ranges(&self.shown, self.size(), std::slice::from_ref(&range))
    }

    fn release(&self, _range: Range<u64>) {}

    fn read_mapped(&self, range: Range<u64>) -> Option<Result<Bytes>> {
        Some(slice_of(&self.shown, &self.bytes, &range).inspect(|bytes| {
            self.tally.read(bytes.len() as u64);
        }))
    }
}

#[cfg(feature = "cloud")]
pub(super) use remote::RemoteFile;

#[cfg(feature = "cloud")]
mod remote {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures::{StreamExt, TryStreamExt, stream};
    use object_store::path::Path as Key;

    use super::*;
    use crate::error::Error;
    use crate::objects::ObjectFolder;
    use crate::read_at::bytes_covered;

    /// Requests of one `read_ranges` in flight at once.
    const MAX_CONCURRENT_REQUESTS: usize = 64;
    /// Bytes that may lie in gaps however little was asked for.
    const LEAST_CREDIT: u64 = 512 << 10;

    /// An object of a remote store, with its tail if opening brought it.
    #[derive(Debug)]
    pub(in crate::objects) struct RemoteFile {
        folder: ObjectFolder,
        key: Key,
        shown: String,
        size: u64,
        tail: Bytes,
        /// Bytes asked for so far, and those fetched along because they lay between them: the latter stay below the
        /// former (or a small constant), so that no reader of a few scattered values fetches the whole file.
        asked: AtomicU64,
        extra: AtomicU64,
    }

    impl RemoteFile {
        pub(in crate::objects) fn new(
            folder: ObjectFolder,
            key: Key,
            shown: String,
            size: u64,
            tail: Bytes,
        ) -> Self {
            Self {
                folder,
                key,
                shown,
                size,
                tail,
                asked: AtomicU64::new(0),
                extra: AtomicU64::new(0),
            }
        }

        /// The requests for some ranges: as few as what was asked for so far allows.
        fn requests(&self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
            let more = bytes_covered(ranges);
            let asked = self.asked.fetch_add(more, Ordering::Relaxed) + more;
            let credit = asked.max(LEAST_CREDIT);
            let credit = credit.saturating_sub(self.extra.load(Ordering::Relaxed));
            let (requests, extra) = Coalesce::REMOTE.plan_within(ranges, credit);
            self.extra.fetch_add(extra, Ordering::Relaxed);
            requests
        }

        /// `range` if the tail has all of it.
        fn cut_tail(&self, range: &Range<u64>) -> Option<Bytes> {
            let tail_start = self.size.checked_sub(self.tail.len() as u64)?;
            let start = usize::try_from(range.start.checked_sub(tail_start)?).ok()?;
            let end = usize::try_from(range.end.checked_sub(tail_start)?).ok()?;
            (start <= end && end <= self.tail.len()).then(|| self.tail.slice(start..end))
        }

        async fn read_all(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
            check_ranges(&self.shown, self.size, ranges)?;
            let far: Vec<Range<u64>> = ranges
                .iter()
                .filter(|range| self.cut_tail(range).is_none())
                .cloned()
                .collect();
            let requests = self.requests(&far);
            let fetches = requests.clone().into_iter().map(|request| async move {
                self.folder.fetch(&self.key, &self.shown, request).await
            });
            let answers: Vec<Bytes> = stream::iter(fetches)
                .buffered(MAX_CONCURRENT_REQUESTS)
                .try_collect()
                .await?;
            let cut = |range: &Range<u64>| {
                self.cut_tail(range)
                    .or_else(|| Coalesce::cut(range, &requests, &answers))
                    .ok_or_else(|| Error::OutOfRange {
                        path: self.shown.clone(),
                        range: range.clone(),
                        size: self.size,
                    })
            };
            ranges.iter().map(cut).collect()
        }
    }

    impl ReadAt for RemoteFile {
        fn path(&self) -> &str {
            &self.shown
        }

        fn size(&self) -> u64 {
            self.size
        }

        fn mapped(&self) -> Option<&Bytes> {
            None
        }

        fn read_ranges<'a>(
            &'a self,
            ranges: &'a [Range<u64>],
        ) -> BoxFuture<'a, Result<Vec<Bytes>>> {
            self.read_all(ranges).boxed()
        }

        fn read_tail(&self, num_bytes: u64) -> BoxFuture<'_, Result<Bytes>> {
            let range = self.size.saturating_sub(num_bytes)..self.size;
            async move {
                let mut all = self.read_all(&[range]).await?;
                Ok(all.pop().unwrap_or_default())
            }
            .boxed()
        }

        fn prefetch(&self, range: Range<u64>) -> Result<()> {
            check_ranges(&self.shown, self.size, std::slice::from_ref(&range))
        }

        fn release(&self, _range: Range<u64>) {}

        fn read_mapped(&self, _range: Range<u64>) -> Option<Result<Bytes>> {
            None
        }
    }
}
