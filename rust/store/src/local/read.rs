//! Open local files: mapped where that is safe, `pread` elsewhere.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use rustix::fs::OFlags;

use super::{LocalFolder, Target};
use crate::counters::Tally;
use crate::error::{Error, Result};
use crate::event;
use crate::map::{self, Map};
use crate::read_at::{Coalesce, ReadAt, check_ranges, slice_of};

impl LocalFolder {
    pub(super) fn open_now(&self, path: &str) -> Result<Arc<dyn ReadAt>> {
        let (file, metadata, target) = self.open_plain(path)?;
        let access = self.access(file, &metadata, &target)?;
        Ok(Arc::new(LocalFile {
            shown: target.shown,
            size: metadata.len(),
            access,
            tally: Arc::clone(&self.tally),
        }))
    }

    /// The whole file, unless it is larger than `limit`.
    pub(super) fn read_now(&self, path: &str, limit: u64) -> Result<Bytes> {
        let (file, metadata, target) = self.open_plain(path)?;
        let size = metadata.len();
        if size > limit {
            return Err(Error::Limit {
                path: target.shown,
                size,
                limit,
            });
        }
        self.tally.read(size);
        pread(&file, &(0..size)).map_err(|source| Error::io(target.shown, "read the file", source))
    }

    /// Opens a regular file for reading. Pipes and devices are no objects; opening one must not block.
    pub(super) fn open_plain(&self, path: &str) -> Result<(File, Metadata, Target)> {
        let target = self.target(path)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = self
            .open_root()
            .and_then(|root| root.open(target.relative.as_str(), flags));
        let file = opened.map_err(|refused| refused.into_error(&target.shown, "open the file"))?;
        let file = File::from(file);
        let metadata = (file.metadata())
            .map_err(|source| Error::io(&target.shown, "read the file's size", source))?;
        if !metadata.is_file() {
            return Err(Error::NotFound { path: target.shown });
        }
        Ok((file, metadata, target))
    }

    fn access(&self, file: File, metadata: &Metadata, target: &Target) -> Result<Access> {
        if metadata.len() == 0 {
            return Ok(Access::Empty(Bytes::new()));
        }
        if !self.may_map || !is_safe_to_map(&file) {
            return Ok(Access::Positioned(file));
        }
        let map = Map::open(&file, target.full.clone(), metadata)
            .map_err(|source| Error::io(&target.shown, "map the file into memory", source))?;
        let Some(map) = map.map(Arc::new) else {
            return Ok(Access::Positioned(file));
        };
        Ok(Access::Mapped {
            whole: map::whole(&map),
            map,
        })
    }
}

/// Whether the file lies on a known local file system, where bytes cannot become unreadable because a network fails. Files on
/// FUSE, NFS, SMB and unknown file systems are read with system calls, which report failures as errors.
#[cfg(target_os = "linux")]
fn is_safe_to_map(file: &File) -> bool {
    let Ok(stat) = rustix::fs::fstatfs(file) else {
        return false;
    };
    // Without a type, because that of `f_type` differs between machines.
    let known = [
        0xEF53,      // ext2, ext3, ext4
        0x5846_5342, // XFS
        0x9123_683E, // Btrfs
        0x0102_1994, // tmpfs
        0x794C_7630, // overlayfs
        0xF2F5_2010, // F2FS
        0x2FC1_2FC1, // ZFS
    ];
    known.contains(&(stat.f_type & 0xFFFF_FFFF))
}

#[cfg(not(target_os = "linux"))]
fn is_safe_to_map(_file: &File) -> bool {
    false
}

#[derive(Debug)]
enum Access {
    /// An empty file, which the kernel does not map.
    Empty(Bytes),
    Mapped {
        whole: Bytes,
        map: Arc<Map>,
    },
    Positioned(File),
}

/// An open file of a table.
#[derive(Debug)]
struct LocalFile {
    shown: String,
    size: u64,
    access: Access,
    tally: Arc<Tally>,
}

impl LocalFile {
    /// The bytes of some ranges, observed as one request.
    fn read_all(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        event::ranges(&self.shown, ranges, || self.read_now(ranges))
    }

    fn read_now(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        check_ranges(&self.shown, self.size, ranges)?;
        let requests = Coalesce::LOCAL.plan(ranges);
        for request in &requests {
            self.tally.read(request.end - request.start);
        }
        match &self.access {
            Access::Empty(whole) => ranges
                .iter()
                .map(|range| slice_of(&self.shown, whole, range))
                .collect(),
            Access::Mapped { whole, .. } => {
                self.prefetch(&requests)?;
                ranges
                    .iter()
                    .map(|range| slice_of(&self.shown, whole, range))
                    .collect()
            }
            Access::Positioned(file) => {
                let answers = requests
                    .iter()
                    .map(|request| pread(file, request).map_err(|source| self.failed(source)))
                    .collect::<Result<Vec<Bytes>>>()?;
                let cut = |range| {
                    Coalesce::cut(range, &requests, &answers)
                        .ok_or_else(|| self.failed(io::ErrorKind::UnexpectedEof.into()))
                };
                ranges.iter().map(cut).collect()
            }
        }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Io {
            path: self.shown.clone(),
            operation: "read the file",
            source,
        }
    }
}

impl ReadAt for LocalFile {
    fn path(&self) -> &str {
        &self.shown
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn mapped(&self) -> Option<&Bytes> {
        match &self.access {
            Access::Empty(whole) | Access::Mapped { whole, .. } => Some(whole),
            Access::Positioned(_) => None,
        }
    }

    fn read_ranges<'a>(&'a self, ranges: &'a [Range<u64>]) -> BoxFuture<'a, Result<Vec<Bytes>>> {
        ready(self.read_all(ranges)).boxed()
    }

    fn read_tail(&self, num_bytes: u64) -> BoxFuture<'_, Result<Bytes>> {
        let range = self.size.saturating_sub(num_bytes)..self.size;
        let tail = self
            .read_all(&[range])
            .map(|mut all| all.pop().unwrap_or_default());
        ready(tail).boxed()
    }

    fn prefetch(&self, ranges: &[Range<u64>]) -> Result<()> {
        check_ranges(&self.shown, self.size, ranges)?;
        match &self.access {
            Access::Mapped { map, .. } => map.prefetch(ranges).map_err(|it| self.failed(it)),
            Access::Empty(_) | Access::Positioned(_) => Ok(()),
        }
    }

    fn release(&self, range: Range<u64>) {
        if let Access::Mapped { map, .. } = &self.access {
            map.release(&range);
        }
    }

    fn read_mapped(&self, range: Range<u64>) -> Option<Result<Bytes>> {
        let (whole, map) = match &self.access {
            Access::Positioned(_) => return None,
            Access::Empty(whole) => (whole, None),
            Access::Mapped { whole, map } => (whole, Some(map)),
        };
        if let Err(error) = self.prefetch(std::slice::from_ref(&range)) {
            return Some(Err(error));
        }
        self.tally.read(range.end - range.start);
        let slice = match map.and_then(|map| map::releasing_slice(map, range.clone())) {
            Some(slice) => Ok(slice),
            None => slice_of(&self.shown, whole, &range),
        };
        Some(slice)
    }
}

/// Reads exactly the bytes of `range`, which the caller compared with the size of the file. Too little memory for them is an
/// error and no abort.
pub(super) fn pread(file: &File, range: &Range<u64>) -> io::Result<Bytes> {
    let byte_len = usize::try_from(range.end.saturating_sub(range.start))
        .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(byte_len)?;
    while bytes.len() < byte_len {
        let position = range.start + bytes.len() as u64;
        match rustix::io::pread(file, rustix::buffer::spare_capacity(&mut bytes), position) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    // The allocator may have reserved more than was asked for, and the read may have filled it.
    bytes.truncate(byte_len);
    Ok(Bytes::from(bytes))
}
