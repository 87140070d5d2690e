//! Whole objects: created if absent, or replaced, with every step that a power cut could expose in order.
//!
//! ```text
//! 1 write .tmp-x, in the folder of the final name    a crash leaves .tmp-x, which nobody reads
//! 2 fsync .tmp-x                                     before it has a name, its bytes are stable
//! 3 link .tmp-x to the final name                    the instant of publication; fails if taken
//! 4 unlink .tmp-x
//! 5 fsync the folder                                 the name is stable: only now acknowledged
//! ```
//!
//! Before 3 every failure leaves nothing. From 3 on the object is visible to others, so a failure is
//! [`Error::Unclear`]: it may or may not survive, and must not be taken for absent.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use rustix::io::Errno;

use super::{LocalFolder, STAGED_PREFIX, Target, disk};
use crate::error::{Error, Result};
use crate::failpoint::hit;
use crate::object::Durability;
use crate::path::unique_name;

/// How the attempt to give a staged file its final name ended.
enum Published {
    Yes,
    /// Somebody else has the name.
    Taken,
    /// Certainly not, for this reason.
    No(io::Error),
    /// The file system has no such operation.
    Impossible,
    /// It said no, in a way that cannot be trusted.
    Unclear(io::Error),
}

impl LocalFolder {
    /// Create `path` with `bytes` unless it exists; calls `named` after step 3.
    pub(crate) fn create(&self, path: &str, bytes: &[u8], named: impl FnOnce()) -> Result<()> {
        let target = self.target(path)?;
        // Most losers of a race are late enough to be told without writing anything.
        if fs::symlink_metadata(&target.full).is_ok() {
            return Err(Error::AlreadyExists { path: target.shown });
        }
        self.ready_folder(&target)?;
        let mut staged = self.stage(&target, bytes)?;
        hit("create.before_link", &target.shown)
            .map_err(|source| failed(&target, "publish the file", source))?;
        match publish(&mut staged, &target.full) {
            Published::Yes => {}
            Published::Taken => return Err(Error::AlreadyExists { path: target.shown }),
            Published::No(source) => return Err(failed(&target, "publish the file", source)),
            Published::Impossible => {
                return Err(Error::unsupported(
                    "creating a file only if it is absent, which needs hard links or a rename that \
                     does not replace: this file system has neither, and",
                    target.shown,
                ));
            }
            Published::Unclear(source) => return Err(unclear(target, source)),
        }
        let settled = hit("create.after_link", &target.shown).and_then(|()| {
            named();
            drop(staged);
            hit("create.before_folder_fsync", &target.shown)?;
            self.sync_folder_of(&target)?;
            hit("create.after_folder_fsync", &target.shown)
        });
        settled.map_err(|source| unclear(target, source))
    }

    /// Create or replace `path` with `bytes`: readers see the old bytes or the new, never a mixture.
    pub(crate) fn put(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let target = self.target(path)?;
        self.ready_folder(&target)?;
        let mut staged = self.stage(&target, bytes)?;
        hit("put.before_rename", &target.shown)
            .and_then(|()| disk::rename(&staged.path, &target.full))
            .map_err(|source| failed(&target, "replace the file", source))?;
        staged.is_gone = true;
        let settled = hit("put.after_rename", &target.shown).and_then(|()| {
            hit("put.before_folder_fsync", &target.shown)?;
            self.sync_folder_of(&target)?;
            hit("put.after_folder_fsync", &target.shown)
        });
        settled.map_err(|source| unclear(target, source))
    }

    /// Make the names in `prefix` durable: after deletions that must not come back.
    pub(crate) fn sync_folder(&self, prefix: &str) -> Result<()> {
        let (_, folder, shown) = self.target_folder(prefix)?;
        let flushed = hit("names.before_fsync", &shown)
            .and_then(|()| self.sync_names(&folder))
            .and_then(|()| hit("names.after_fsync", &shown));
        match flushed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(Error::io(shown, "flush the folder", source)),
            Ok(()) => Ok(()),
        }
    }

    /// Steps 1 and 2: a complete, stable file without its name. It goes away when dropped.
    fn stage(&self, target: &Target, bytes: &[u8]) -> Result<Staged> {
        self.stage_bytes(target, bytes)
            .map_err(|source| failed(target, "write a new file", source))
    }

    fn stage_bytes(&self, target: &Target, bytes: &[u8]) -> io::Result<Staged> {
        hit("stage.before_create", &target.shown)?;
        let path = target.folder.join(unique_name(STAGED_PREFIX)?);
        let file = disk::create(&path)?;
        let staged = Staged {
            path,
            file,
            is_gone: false,
        };
        hit("stage.before_write", &target.shown)?;
        disk::append(&staged.file, &staged.path, [bytes, &[]])?;
        self.tally.write(bytes.len());
        hit("stage.before_fsync", &target.shown)?;
        self.sync_file(&staged.file, &staged.path)?;
        hit("stage.after_fsync", &target.shown)?;
        Ok(staged)
    }

    /// The folder of `target`, made if missing, with its name and those above it on stable storage.
    ///
    /// Also folders found existing are flushed once: whoever made them may have died before doing so.
    pub(super) fn ready_folder(&self, target: &Target) -> Result<()> {
        let folder = target.folder.as_path();
        if folder.is_dir() && (self.durability == Durability::None || self.is_settled(folder)) {
            return Ok(());
        }
        let missing = folder
            .ancestors()
            .take_while(|level| !level.is_dir())
            .count();
        let made: Vec<&Path> = folder.ancestors().take(missing).collect();
        for level in made.iter().rev() {
            hit("folder.before_create", &target.shown)
                .and_then(|()| create_folder(level))
                .map_err(|source| self.folder_failed(target, source))?;
        }
        if self.durability == Durability::None {
            return Ok(());
        }
        let below_root = folder
            .ancestors()
            .take_while(|level| level.starts_with(&self.root))
            .count();
        let levels: Vec<&Path> = folder.ancestors().take(missing.max(below_root)).collect();
        for level in levels.iter().rev() {
            let Some(parent) = level.parent() else {
                continue;
            };
            if self.is_settled(level) && !made.contains(level) {
                continue;
            }
            let flushed =
                hit("folder.before_fsync", &target.shown).and_then(|()| self.sync_names(parent));
            match flushed {
                // The folder above an existing table may be closed to us, and is not ours to vouch for.
                Err(error)
                    if error.kind() == io::ErrorKind::PermissionDenied && !made.contains(level) => {
                }
                other => other.map_err(|source| self.folder_failed(target, source))?,
            }
            self.settle(level);
        }
        hit("folder.after_fsync", &target.shown)
            .map_err(|source| self.folder_failed(target, source))
    }

    /// Not [`Error::io`]: "not found" of a folder we wanted to make is no missing object.
    fn folder_failed(&self, target: &Target, source: io::Error) -> Error {
        Error::Io {
            path: target.shown.clone(),
            operation: "make the folder of the file",
            source,
        }
    }

    /// Only ever tried, never waited for: a lock held by another thread at a fork stays locked in the
    /// child for good. Not knowing a folder is settled costs one more flush.
    fn is_settled(&self, folder: &Path) -> bool {
        match self.settled.try_lock() {
            Ok(settled) => settled.contains(folder),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => {
                PoisonError::into_inner(poisoned).contains(folder)
            }
            Err(std::sync::TryLockError::WouldBlock) => false,
        }
    }

    fn settle(&self, folder: &Path) {
        if let Ok(mut settled) = self.settled.try_lock() {
            settled.insert(folder.to_path_buf());
        }
    }

    pub(super) fn sync_file(&self, file: &File, path: &Path) -> io::Result<()> {
        if self.durability == Durability::Full {
            disk::flush(file, path)?;
            self.tally.fsync();
        }
        Ok(())
    }

    pub(super) fn sync_folder_of(&self, target: &Target) -> io::Result<()> {
        self.sync_names(&target.folder)
    }

    fn sync_names(&self, folder: &Path) -> io::Result<()> {
        if self.durability == Durability::None {
            return Ok(());
        }
        self.tally.fsync();
        match disk::flush_folder(folder) {
            // Some file systems write names through and have no such call for folders.
            Err(error) if is_one_of(&error, &[Errno::INVAL, Errno::NOTSUP]) => Ok(()),
            other => other,
        }
    }
}

/// A complete file under a temporary name, removed when dropped.
#[derive(Debug)]
struct Staged {
    path: PathBuf,
    file: File,
    /// Renamed away: nothing to remove.
    is_gone: bool,
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_gone {
            // Nobody reads such names; one that stays is garbage for cleanup, not an error.
            let _ = disk::remove(&self.path);
        }
    }
}

/// Step 3.
fn publish(staged: &mut Staged, name: &Path) -> Published {
    // A link may happen while its answer is lost, on network file systems above all: two names of our own
    // file tell.
    let linked = disk::link(&staged.path, name).or_else(|error| {
        if link_count(staged) >= 2 {
            disk::linked(&staged.path, name);
            Ok(())
        } else {
            Err(error)
        }
    });
    match linked {
        Ok(()) => Published::Yes,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Published::Taken,
        Err(error)
            if is_one_of(
                &error,
                &[Errno::PERM, Errno::NOTSUP, Errno::NOSYS, Errno::MLINK],
            ) =>
        {
            rename_without_replacing(staged, name)
        }
        Err(error) => refused(error),
    }
}

fn link_count(staged: &Staged) -> u64 {
    staged
        .file
        .metadata()
        .map_or(0, |metadata| metadata.nlink())
}

/// Kernels answer some questions before touching the disk: then nothing happened.
fn refused(error: io::Error) -> Published {
    let certain = [
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::ACCESS,
        Errno::ROFS,
        Errno::NOENT,
        Errno::NOTDIR,
        Errno::NAMETOOLONG,
    ];
    if is_one_of(&error, &certain) {
        Published::No(error)
    } else {
        Published::Unclear(error)
    }
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn rename_without_replacing(staged: &mut Staged, name: &Path) -> Published {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, &staged.path, CWD, name, RenameFlags::NOREPLACE) {
        Ok(()) => {
            disk::renamed(&staged.path, name);
            staged.is_gone = true;
            Published::Yes
        }
        Err(Errno::EXIST) => Published::Taken,
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Published::Impossible,
        Err(errno) => refused(errno.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn rename_without_replacing(_staged: &mut Staged, _name: &Path) -> Published {
    Published::Impossible
}

/// Make one folder; fine if somebody else just did.
fn create_folder(folder: &Path) -> io::Result<()> {
    match disk::create_folder(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(io::ErrorKind::NotADirectory.into())
        }
        other => other,
    }
}

fn is_one_of(error: &io::Error, errnos: &[Errno]) -> bool {
    error
        .raw_os_error()
        .is_some_and(|raw| errnos.iter().any(|errno| errno.raw_os_error() == raw))
}

/// A write that certainly left nothing. Never `NotFound`: that is about objects somebody looks for.
pub(super) fn failed(target: &Target, operation: &'static str, source: io::Error) -> Error {
    Error::Io {
        path: target.shown.clone(),
        operation,
        source,
    }
}

fn unclear(target: Target, source: io::Error) -> Error {
    Error::Unclear {
        path: target.shown,
        source,
    }
}
