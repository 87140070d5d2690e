//! Counts of requests and bytes. Tests assert with them that a file is opened with one read; benchmarks divide bytes by rows.

use std::sync::atomic::{AtomicU64, Ordering};

/// The totals of a [`Store`](crate::Store), its clones and their open files at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Requests for bytes, after coalescing.
    pub reads: u64,
    /// Bytes those requests covered, gaps included.
    pub bytes_read: u64,
    /// Objects written, plus parts of streamed ones.
    pub writes: u64,
    /// Bytes handed to the store for writing.
    pub bytes_written: u64,
    /// Listings of a folder.
    pub lists: u64,
    /// Deletions requested.
    pub deletes: u64,
    /// Requests for the size and time of one object.
    pub stats: u64,
    /// Flushes of a file or a folder to stable storage.
    pub fsyncs: u64,
}

impl Counters {
    /// The difference between these totals and `earlier` ones.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            bytes_read: self.bytes_read.saturating_sub(earlier.bytes_read),
            writes: self.writes.saturating_sub(earlier.writes),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
            lists: self.lists.saturating_sub(earlier.lists),
            deletes: self.deletes.saturating_sub(earlier.deletes),
            stats: self.stats.saturating_sub(earlier.stats),
            fsyncs: self.fsyncs.saturating_sub(earlier.fsyncs),
        }
    }
}

/// The running totals, shared by clones of a store and the files opened through it.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    reads: AtomicU64,
    bytes_read: AtomicU64,
    writes: AtomicU64,
    bytes_written: AtomicU64,
    lists: AtomicU64,
    deletes: AtomicU64,
    stats: AtomicU64,
    fsyncs: AtomicU64,
}

impl Tally {
    pub(crate) fn read(&self, byte_len: u64) {
        add(&self.reads, 1);
        add(&self.bytes_read, byte_len);
    }

    pub(crate) fn write(&self, byte_len: usize) {
        add(&self.writes, 1);
        add(&self.bytes_written, byte_len as u64);
    }

    pub(crate) fn list(&self) {
        add(&self.lists, 1);
    }

    pub(crate) fn delete(&self) {
        add(&self.deletes, 1);
    }

    pub(crate) fn stat(&self) {
        add(&self.stats, 1);
    }

    pub(crate) fn fsync(&self) {
        add(&self.fsyncs, 1);
    }

    pub(crate) fn snapshot(&self) -> Counters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            reads: get(&self.reads),
            bytes_read: get(&self.bytes_read),
            writes: get(&self.writes),
            bytes_written: get(&self.bytes_written),
            lists: get(&self.lists),
            deletes: get(&self.deletes),
            stats: get(&self.stats),
            fsyncs: get(&self.fsyncs),
        }
    }
}

/// Relaxed: a total is read after the work that it counts has ended, and orders no other access.
fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}
