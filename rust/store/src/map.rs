//! Memory mapped files, and the contract of their bytes.
//!
//! A mapped byte is read without a copy, and a page that is never touched costs nothing. The price: an unreadable byte
//! raises the signal SIGBUS at its first touch, where a read with a system call returns an error. The contract between
//! this module and its users is therefore:
//!
//! - **Prefetch, then touch.** [`Map::prefetch`] reads bytes into the page cache and maps them. It returns an error when
//!   the file is shorter than it was when it was mapped, or when the device cannot read a page. Bytes that were never
//!   prefetched, or were [released](Map::release) since, must not be touched.
//! - **What remains.** A file that is cut short between its prefetch and the touch, and a page that the kernel dropped
//!   under memory pressure and cannot read a second time, still raise SIGBUS: no system call can exclude either.
//! - **No writes in place.** Text and dictionary keys are validated where they lie and used there afterwards. A process
//!   that writes into a mapped file can therefore change bytes after they were validated, and then values, text that is
//!   no UTF-8 or an index out of bounds reach the caller. pilum never does this: a file of a table is written once under
//!   a unique name, published when it is complete, and later only deleted or replaced by a rename. Both leave a mapped
//!   file as it was. Where other programs may write into the files of a table, the option `mmap` = `false` reads copies.
//!
//! Only kernels that can report unreadable pages (`MADV_POPULATE_READ`, Linux 5.14) map files at all: see [`Map::open`].
#![expect(
    unsafe_code,
    reason = "mapping a file is unsafe: other processes may change it"
)]

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use memmap2::{Mmap, MmapOptions};

use crate::event;

/// What one bit of [`Map::is_prefetched`] stands for. The kernel maps as much around a touched page by default, so
/// prefetching a whole block costs about as much as prefetching one byte of it.
const BLOCK_BYTES: usize = 64 << 10;

/// Slices below this are not released one by one: the system call would cost more than the memory.
const RELEASE_MIN_BYTES: u64 = 64 << 10;

/// A whole file in the address space, read-only.
#[derive(Debug)]
pub(crate) struct Map {
    bytes: Mmap,
    path: PathBuf,
    /// Device and inode: whether `path` still names the mapped file. An open descriptor would tell this too, but processes
    /// have far fewer descriptors than mappings.
    identity: (u64, u64),
    /// One bit per block that was prefetched and not released since.
    is_prefetched: Box<[AtomicU64]>,
}

impl Map {
    /// Map `file`, opened at `path`, with the size that `metadata` tells, which is not 0. `None` where a mapping is of no
    /// use: the kernel cannot report unreadable pages, or the file exceeds the address space.
    pub(crate) fn open(
        file: &File,
        path: PathBuf,
        metadata: &fs::Metadata,
    ) -> io::Result<Option<Self>> {
        let Ok(byte_len) = usize::try_from(metadata.len()) else {
            return Ok(None);
        };
        // SAFETY: the bytes must not change while the map lives. The contract in the head of this module says that
        // nothing may write into a mapped file, and what happens otherwise.
        let bytes = unsafe { MmapOptions::new().len(byte_len).map(file)? };
        let blocks = byte_len.div_ceil(BLOCK_BYTES);
        let map = Self {
            bytes,
            path,
            identity: (metadata.dev(), metadata.ino()),
            is_prefetched: (0..blocks.div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
        };
        match map.populate(0, 1) {
            Err(error) if is_unknown_advice(&error) => Ok(None),
            Err(error) => Err(error),
            Ok(()) => Ok(Some(map)),
        }
    }

    /// Read `ranges` into memory and map them; blocks that were prefetched before cost no system call.
    ///
    /// # Errors
    /// When a range is out of bounds, when the file is shorter than it was when it was mapped, or when a page cannot be
    /// read.
    pub(crate) fn prefetch(&self, ranges: &[Range<u64>]) -> io::Result<()> {
        let mut is_checked = false;
        for range in ranges {
            let Some((start, byte_len)) = self.within(range) else {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            };
            if byte_len == 0 {
                continue;
            }
            // Populating reports missing pages, but not the end of the file inside of a page: there the kernel shows
            // zeros.
            if !is_checked {
                self.check_size()?;
                is_checked = true;
            }
            self.prefetch_blocks(start, start + byte_len)?;
        }
        Ok(())
    }

    /// An error if the file at `path` is the mapped one and was cut short. A file that was deleted or replaced by
    /// another stays complete for as long as it is mapped.
    fn check_size(&self) -> io::Result<()> {
        let Ok(now) = fs::metadata(&self.path) else {
            return Ok(());
        };
        let mapped = self.bytes.len() as u64;
        if (now.dev(), now.ino()) != self.identity || now.len() >= mapped {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!(
                "the file was cut from {mapped} to {} bytes after it was opened",
                now.len()
            ),
        ))
    }

    /// Prefetch the runs of blocks in `start..end` that were not prefetched yet.
    fn prefetch_blocks(&self, start: usize, end: usize) -> io::Result<()> {
        let is_small = end - start < BLOCK_BYTES;
        let last = (end - 1) / BLOCK_BYTES;
        let mut block = start / BLOCK_BYTES;
        while block <= last {
            if self.has_block(block) {
                block += 1;
                continue;
            }
            let first = block;
            while block <= last && !self.has_block(block) {
                block += 1;
            }
            // For a small range whole blocks are read, because neighbouring ranges are likely to follow. For a large range
            // they are not, because the parts outside of it would stay in memory when it is released.
            let mut run = first * BLOCK_BYTES..(block * BLOCK_BYTES).min(self.bytes.len());
            if !is_small {
                run = run.start.max(start)..run.end.min(end);
            }
            self.populate(run.start, run.end - run.start)?;
            self.mark(&run, true);
        }
        Ok(())
    }

    fn populate(&self, start: usize, byte_len: usize) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        let advice = memmap2::Advice::PopulateRead;
        // Not reached: files are mapped on Linux only.
        #[cfg(not(target_os = "linux"))]
        let advice = memmap2::Advice::WillNeed;
        self.bytes.advise_range(advice, start, byte_len)
    }

    fn has_block(&self, block: usize) -> bool {
        let word = self.is_prefetched.get(block / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (block % 64) & 1 == 1)
    }

    /// Notes for the blocks wholly inside `run` that they were prefetched, or for all that it touches that they were
    /// released. Relaxed: a bit orders nothing, the kernel does.
    fn mark(&self, run: &Range<usize>, prefetched: bool) {
        let (first, end) = if prefetched {
            let end = match run.end == self.bytes.len() {
                true => run.end.div_ceil(BLOCK_BYTES),
                false => run.end / BLOCK_BYTES,
            };
            (run.start.div_ceil(BLOCK_BYTES), end)
        } else {
            (run.start / BLOCK_BYTES, run.end.div_ceil(BLOCK_BYTES))
        };
        for block in first..end {
            let bit = 1 << (block % 64);
            match self.is_prefetched.get(block / 64) {
                Some(word) if prefetched => word.fetch_or(bit, Ordering::Relaxed),
                Some(word) => word.fetch_and(!bit, Ordering::Relaxed),
                None => return,
            };
        }
    }

    /// Drop the page table entries of the pages wholly inside `range`. They return from the page cache
    /// when touched again, so this is a hint: an error changes nothing and is ignored.
    pub(crate) fn release(&self, range: &Range<u64>) {
        let Some((start, byte_len)) = self.within(range) else {
            return;
        };
        let page = page_bytes();
        let first = start.next_multiple_of(page);
        // The last page may end after the file; it is wholly inside when the range reaches the end.
        let end = start + byte_len;
        let last = if end == self.bytes.len() {
            end
        } else {
            end - end % page
        };
        if first >= last {
            return;
        }
        self.mark(&(first..last), false);
        // SAFETY: DONTNEED on a shared, file-backed, never written mapping loses nothing: the next touch
        // maps the same bytes of the same file again, also through slices still alive.
        let released = unsafe {
            self.bytes.unchecked_advise_range(
                memmap2::UncheckedAdvice::DontNeed,
                first,
                last - first,
            )
        };
        // Once more, for a block that another thread prefetched in between.
        self.mark(&(first..last), false);
        if let Err(error) = released {
            let path = self.path.display();
            tracing::debug!(target: event::REQUEST, %path, %error, "pages were not released");
        }
    }

    /// `range` as start and length inside the map.
    fn within(&self, range: &Range<u64>) -> Option<(usize, usize)> {
        let start = usize::try_from(range.start).ok()?;
        let end = usize::try_from(range.end).ok()?;
        (start <= end && end <= self.bytes.len()).then(|| (start, end - start))
    }
}

/// A kernel older than 5.14, or one that only resembles Linux.
fn is_unknown_advice(error: &io::Error) -> bool {
    [rustix::io::Errno::INVAL, rustix::io::Errno::NOSYS]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// The whole map as bytes whose slices keep it alive.
pub(crate) fn whole(map: &Arc<Map>) -> Bytes {
    Bytes::from_owner(Whole(Arc::clone(map)))
}

struct Whole(Arc<Map>);

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

/// `range` as bytes that release it when the last of them is dropped. Nothing if out of bounds.
pub(crate) fn releasing_slice(map: &Arc<Map>, range: Range<u64>) -> Option<Bytes> {
    let (start, byte_len) = map.within(&range)?;
    if range.end - range.start < RELEASE_MIN_BYTES {
        return Some(whole(map).slice(start..start + byte_len));
    }
    Some(Bytes::from_owner(Releasing {
        map: Arc::clone(map),
        start,
        byte_len,
        range,
    }))
}

struct Releasing {
    map: Arc<Map>,
    start: usize,
    byte_len: usize,
    range: Range<u64>,
}

impl AsRef<[u8]> for Releasing {
    fn as_ref(&self) -> &[u8] {
        self.map
            .bytes
            .get(self.start..self.start + self.byte_len)
            .unwrap_or_default()
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        self.map.release(&self.range);
    }
}

fn page_bytes() -> usize {
    rustix::param::page_size()
}

#[cfg(test)]
mod tests;
