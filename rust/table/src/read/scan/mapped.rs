//! Unmapping of large files behind the consumer of a scan under a memory limit.
//!
//! Reads of many rows that lie together unmap their pages themselves. Scattered rows, and narrow columns, are read where the
//! file is mapped, and the kernel maps up to 2 MiB around each byte that is touched: so after some rows all of a file counts
//! as memory of this process. Which pages are mapped is not known, so a file is unmapped as a whole, once for so many bytes
//! that the consumer has passed. A thread that reads from the file at that time faults a few of its pages again.

use std::sync::Arc;

use super::tasks::{OpenFragment, Task};

/// This fraction of a memory limit may stay mapped behind the consumer.
const FRACTION: u64 = 8;

/// The fragment that the consumer reads, and how far it has come.
pub(super) struct MappedRelease {
    max_bytes: u64,
    fragment: Option<Arc<OpenFragment>>,
    /// The row of the fragment behind the last one consumed.
    end: u64,
    /// Bytes of the fragment's files that the consumer has passed since they were last unmapped: an upper bound of what is
    /// mapped.
    num_bytes: u64,
}

impl MappedRelease {
    pub(super) fn new(memory_limit: u64) -> Self {
        Self {
            max_bytes: memory_limit / FRACTION,
            fragment: None,
            end: 0,
            num_bytes: 0,
        }
    }

    /// The consumer is done with a task. Arrays of it that the consumer keeps stay readable.
    pub(super) fn pass(&mut self, task: &Task) {
        let known = self.fragment.as_ref();
        if !known.is_some_and(|known| Arc::ptr_eq(known, &task.fragment)) {
            self.release();
            self.fragment = Some(Arc::clone(&task.fragment));
            self.end = 0;
        }
        let end = task.rows.end();
        let passed = end.saturating_sub(self.end);
        self.end = self.end.max(end);
        let num_bytes = task.fragment.stored_row_bytes().saturating_mul(passed);
        self.num_bytes = self.num_bytes.saturating_add(num_bytes);
        if self.num_bytes >= self.max_bytes {
            self.release();
        }
    }

    fn release(&mut self) {
        if let Some(fragment) = &self.fragment {
            fragment.release();
        }
        self.num_bytes = 0;
    }
}

impl Drop for MappedRelease {
    fn drop(&mut self) {
        self.release();
    }
}
