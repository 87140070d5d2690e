//! Writing to the device while a file still grows, so that the flush at its end finds little to do.
//!
//! Measured: 108 MB on a virtual disk, written and flushed, took 61 ms; with the writing begun every 8 MiB, 39 ms. This is a
//! hint alone: what is durable is decided by the flush.
#![cfg_attr(
    target_os = "linux",
    expect(
        unsafe_code,
        reason = "the call exists in the C library only; it accesses no memory of this process"
    )
)]

use std::fs::File;
use std::ops::Range;

use crate::event;

/// New bytes after which writing them to the device is begun.
pub(super) const WRITEBACK_BYTES: u64 = 8 << 20;

/// Asks the kernel to begin writing these bytes of the file to the device, and does not wait for it.
#[cfg(target_os = "linux")]
pub(super) fn begin(file: &File, bytes: Range<u64>) {
    use std::os::fd::AsRawFd;
    let (Ok(start), Ok(length)) = (
        i64::try_from(bytes.start),
        i64::try_from(bytes.end.saturating_sub(bytes.start)),
    ) else {
        return;
    };
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and the call reads and writes no memory of this
    // process.
    let begun = unsafe {
        libc::sync_file_range(file.as_raw_fd(), start, length, libc::SYNC_FILE_RANGE_WRITE)
    };
    if begun != 0 {
        // A file system that cannot do it leaves the whole work to the flush, which reports its errors.
        let error = std::io::Error::last_os_error();
        tracing::trace!(target: event::REQUEST, %error, "writing to the device was not begun early");
    }
}

/// Other systems have no such call.
#[cfg(not(target_os = "linux"))]
pub(super) fn begin(_: &File, _: Range<u64>) {}
