//! Memory mapped files.
//!
//! A mapped page costs no copy, and a page that nobody touches costs nothing. The price: bytes that can
//! no longer be read (the file was cut short, the disk failed) arrive as a signal and not as an error.
//! Two habits keep that rare: only files of local file systems are mapped, and every large range is
//! brought in by [`Map::prefetch`], which does report.
#![expect(
    unsafe_code,
    reason = "mapping a file is unsafe: other processes may change it"
)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use memmap2::{Mmap, MmapOptions};

/// Below this a page fault or two are cheaper than the system call.
const PREFETCH_MIN_BYTES: usize = 128 << 10;

/// Slices below this are not released one by one: the kernel call would cost more than the memory.
const RELEASE_MIN_BYTES: u64 = 64 << 10;

/// A whole file in the address space, read-only.
#[derive(Debug)]
pub(crate) struct Map(Mmap);

impl Map {
    /// Map the first `byte_len` bytes of `file`, which has at least so many; not zero, which the kernel
    /// refuses.
    pub(crate) fn open(file: &File, byte_len: usize) -> io::Result<Self> {
        // SAFETY: the bytes must not change while the map lives. Files of a table are written once under a
        // unique name, published complete and never touched again; replacing one by rename leaves the
        // mapped file as it was. A process that breaks this by writing into the file can change values that
        // are being read: decoders treat mapped bytes as untrusted and check what they copied, so they
        // give wrong values or `Corrupt`, as for any damaged file. Cutting the file short raises SIGBUS on
        // touch, see `prefetch`.
        let map = unsafe { MmapOptions::new().len(byte_len).map(file)? };
        Ok(Self(map))
    }

    /// Read `range` into memory if it is large; an unreadable byte in it is an error.
    pub(crate) fn prefetch(&self, range: &Range<u64>) -> io::Result<()> {
        let Some((start, byte_len)) = self.within(range) else {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        };
        if byte_len < PREFETCH_MIN_BYTES {
            return Ok(());
        }
        self.populate(start, byte_len)
    }

    #[cfg(target_os = "linux")]
    fn populate(&self, start: usize, byte_len: usize) -> io::Result<()> {
        match self
            .0
            .advise_range(memmap2::Advice::PopulateRead, start, byte_len)
        {
            // A kernel older than 5.14 does not know the advice: pages come at first touch.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            other => other,
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn populate(&self, start: usize, byte_len: usize) -> io::Result<()> {
        self.0
            .advise_range(memmap2::Advice::WillNeed, start, byte_len)
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
        let last = if end == self.0.len() {
            end
        } else {
            end - end % page
        };
        if first >= last {
            return;
        }
        // SAFETY: DONTNEED on a shared, file-backed, never written mapping loses nothing: the next touch
        // maps the same bytes of the same file again, also through slices still alive.
        let _ = unsafe {
            self.0
                .unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, first, last - first)
        };
    }

    /// `range` as start and length inside the map.
    fn within(&self, range: &Range<u64>) -> Option<(usize, usize)> {
        let start = usize::try_from(range.start).ok()?;
        let end = usize::try_from(range.end).ok()?;
        (start <= end && end <= self.0.len()).then(|| (start, end - start))
    }
}

/// The whole map as bytes whose slices keep it alive.
pub(crate) fn whole(map: &Arc<Map>) -> Bytes {
    Bytes::from_owner(Whole(Arc::clone(map)))
}

struct Whole(Arc<Map>);

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        &self.0.0
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
            .0
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
