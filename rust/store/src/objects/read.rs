//! Open objects of stores in memory and of remote stores.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use crate::counters::Tally;
use crate::error::Result;
use crate::read_at::{Coalesce, ReadAt, check_ranges, slice_of};

/// An object of a store in memory.
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

    fn prefetch(&self, ranges: &[Range<u64>]) -> Result<()> {
        check_ranges(&self.shown, self.size(), ranges)
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
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use futures::{StreamExt, TryStreamExt, stream};
    use object_store::path::Path as Key;

    use super::*;
    use crate::error::Error;
    use crate::objects::bucket::Bucket;
    use crate::read_at::bytes_covered;

    /// Requests of one `read_ranges` in flight at once.
    const MAX_CONCURRENT_REQUESTS: usize = 64;
    /// Requests of all readers of this process in flight at once. Each takes a file descriptor, of which many systems give a
    /// process 1,024.
    const MAX_REQUESTS: usize = 512;
    /// Requests in flight that a reader may have however many others there are.
    const LEAST_REQUESTS: usize = 4;
    /// Bytes that gaps may take however few bytes were requested.
    const LEAST_CREDIT: u64 = 512 << 10;

    /// The number of requests that one reader may have in flight, counted against [`MAX_REQUESTS`]. No reader waits for
    /// another: in a child that was forked while its parent was reading, the requests of the parent stay counted.
    #[derive(Debug)]
    struct Lanes(usize);

    static IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);

    impl Lanes {
        fn take(wanted: usize) -> Self {
            let wanted = wanted.clamp(1, MAX_CONCURRENT_REQUESTS);
            let others = IN_FLIGHT.fetch_add(wanted, Ordering::Relaxed);
            let free = MAX_REQUESTS.saturating_sub(others).max(LEAST_REQUESTS);
            let granted = wanted.min(free);
            IN_FLIGHT.fetch_sub(wanted - granted, Ordering::Relaxed);
            Self(granted)
        }
    }

    impl Drop for Lanes {
        fn drop(&mut self) {
            IN_FLIGHT.fetch_sub(self.0, Ordering::Relaxed);
        }
    }

    #[cfg(test)]
    #[test]
    fn many_readers_share_the_requests_of_a_process() {
        let all: Vec<Lanes> = (0..20).map(|_| Lanes::take(1000)).collect();
        assert_eq!(all[0].0, MAX_CONCURRENT_REQUESTS);
        assert_eq!(all[19].0, LEAST_REQUESTS);
        let most = MAX_REQUESTS + 20 * LEAST_REQUESTS;
        assert!(all.iter().map(|lanes| lanes.0).sum::<usize>() <= most);
        drop(all);
        assert_eq!(Lanes::take(0).0, 1);
        assert_eq!(Lanes::take(7).0, 7);
    }

    /// An object of a remote store.
    #[derive(Debug)]
    pub(in crate::objects) struct RemoteFile {
        bucket: Bucket,
        key: Key,
        shown: String,
        size: u64,
        /// The end of the object, if opening read it; otherwise empty.
        tail: Bytes,
        /// Bytes that were requested so far, and bytes of the gaps between them that were read along. The latter stay below
        /// the former, or below [`LEAST_CREDIT`], so that reading a few scattered values does not read the whole file.
        asked: AtomicU64,
        extra: AtomicU64,
    }

    impl RemoteFile {
        pub(in crate::objects) fn new(
            bucket: Bucket,
            key: Key,
            shown: String,
            size: u64,
            tail: Bytes,
        ) -> Self {
            Self {
                bucket,
                key,
                shown,
                size,
                tail,
                asked: AtomicU64::new(0),
                extra: AtomicU64::new(0),
            }
        }

        /// The requests for some ranges: the fewest with which the gaps stay within their limit.
        fn requests(&self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
            let more = bytes_covered(ranges);
            let asked = self.asked.fetch_add(more, Ordering::Relaxed) + more;
            let credit = asked.max(LEAST_CREDIT);
            let credit = credit.saturating_sub(self.extra.load(Ordering::Relaxed));
            let (requests, extra) = Coalesce::REMOTE.plan_within(ranges, credit);
            self.extra.fetch_add(extra, Ordering::Relaxed);
            requests
        }

        /// `range`, if the tail contains all of it.
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
                self.bucket.fetch(&self.key, &self.shown, request).await
            });
            let lanes = Lanes::take(requests.len());
            let answers: Vec<Bytes> = stream::iter(fetches)
                .buffered(lanes.0)
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

        fn prefetch(&self, ranges: &[Range<u64>]) -> Result<()> {
            check_ranges(&self.shown, self.size, ranges)
        }

        fn release(&self, _range: Range<u64>) {}

        fn read_mapped(&self, _range: Range<u64>) -> Option<Result<Bytes>> {
            None
        }
    }
}
