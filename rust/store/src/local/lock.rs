//! Locks of files: one holder on this machine, released when the holder ends, however it ends.

use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, openat, statat};
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
            Ok(()) => {
                let file = File::from(file);
                // The file may have been deleted since it was opened: then another one has the name, and another lock.
                let named = statat(folder.fd(), target.name(), AtFlags::SYMLINK_NOFOLLOW);
                let held =
                    fstat(&file).map_err(|errno| failed(&target, OPERATION, errno.into()))?;
                let is_named = named.is_ok_and(|it| it.st_ino == held.st_ino);
                Ok(is_named.then_some(ObjectLock { _file: file }))
            }
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(Errno::NOTSUP | Errno::NOSYS | Errno::NOLCK) => Err(Error::unsupported(
                "locking a file, which commits need on a file system,",
                target.shown,
            )),
            Err(errno) => Err(failed(&target, OPERATION, io::Error::from(errno))),
        }
    }
}
