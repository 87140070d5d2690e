//! Locks of files: one holder on this machine, released when the holder ends, however it ends.

use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

use super::LocalFolder;
use super::failed::failed;
use crate::error::{Error, Result};
use crate::object::ObjectLock;

const OPERATION: &str = "lock the file";

impl LocalFolder {
    /// Takes the lock of the file `path`, which is made if it is missing; `None` if another holds it.
    ///
    /// The file stays when the lock is released: if it were removed, two processes could hold locks of different files of one
    /// name.
    pub(super) fn try_lock_now(&self, path: &str) -> Result<Option<ObjectLock>> {
        let target = self.target(path)?;
        let found = self.find_folder(target.folder(), &target.shown)?;
        let folder = self.ready_folder(&target, found)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let opened = openat(folder.fd(), target.name(), flags, mode);
        let file = opened.map_err(|errno| failed(&target, OPERATION, errno.into()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(ObjectLock {
                _file: File::from(file),
            })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(Errno::NOTSUP | Errno::NOSYS | Errno::NOLCK) => Err(Error::unsupported(
                "locking a file, which commits need on a file system,",
                target.shown,
            )),
            Err(errno) => Err(failed(&target, OPERATION, io::Error::from(errno))),
        }
    }
}
