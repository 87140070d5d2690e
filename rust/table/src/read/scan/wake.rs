//! What a scan under a memory limit leaves mapped of large files, given back behind its consumer.
//!
//! Reads of many rows that lie together give their pages back themselves. Scattered rows, and narrow columns, are read where
//! the file is mapped, and the kernel maps up to 2 MiB around each byte that is touched: so after some rows all of a file
//! counts as memory of this process. Which pages those are is not known, so a file is given back as a whole, every so many
//! bytes: whoever reads of it meanwhile faults a few of its pages again.

use std::sync::Arc;

use super::scan::{OpenFragment, Piece};

/// Of a memory limit, one part in so many may stay mapped behind the consumer.
const SHARE: u64 = 8;

/// The fragment that the consumer is in, and how far.
pub(super) struct Wake {
    most_bytes: u64,
    fragment: Option<Arc<OpenFragment>>,
    /// Rows of the fragment up to here are done with.
    end: u64,
    /// Bytes of its files that were passed since they were last given back: no more of them can be mapped.
    num_bytes: u64,
}

impl Wake {
    pub(super) fn new(memory_limit: u64) -> Self {
        Self {
            most_bytes: memory_limit / SHARE,
            fragment: None,
            end: 0,
            num_bytes: 0,
        }
    }

    /// The consumer is done with a piece. Arrays of it that it keeps stay readable.
    pub(super) fn pass(&mut self, piece: &Piece) {
        let known = self.fragment.as_ref();
        if !known.is_some_and(|known| Arc::ptr_eq(known, &piece.fragment)) {
            self.release();
            self.fragment = Some(Arc::clone(&piece.fragment));
            self.end = 0;
        }
        let end = piece.rows.end();
        let passed = end.saturating_sub(self.end);
        self.end = self.end.max(end);
        let num_bytes = piece.fragment.stored_row_bytes().saturating_mul(passed);
        self.num_bytes = self.num_bytes.saturating_add(num_bytes);
        if self.num_bytes >= self.most_bytes {
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

impl Drop for Wake {
    fn drop(&mut self) {
        self.release();
    }
}
