//! Whole objects: created if absent, or replaced, with every step that a power cut could expose in order.
//!
//! ```text
//! 1 write .tmp-x, in the folder of the final name    a crash leaves .tmp-x, which no reader opens
//! 2 fsync .tmp-x                                     before it has a name, its bytes are stable
//! 3 link .tmp-x to the final name                    the instant of publication; fails if taken
//! 4 unlink .tmp-x
//! 5 fsync the folder                                 the name is stable: only now acknowledged
//! ```
//!
//! Before 3 every failure leaves nothing. From 3 on the object is visible to others, so a failure is
//! [`Error::Unclear`]: it may or may not survive, and must not be taken for absent.

use std::fs::File;
use std::io;

use rustix::io::Errno;

use super::beneath::OpenFolder;
use super::failed::{failed, is_one_of, unclear};
use super::{LocalFolder, Target};
use crate::error::{Error, Result};
use crate::failpoint::hit;
use crate::folder::OnNamed;
use crate::object::Durability;
use crate::path::{STAGED_PREFIX, resolve_folder, unique_name};

/// How the attempt to give a staged file its final name ended.
enum Published {
    Yes,
    /// Another object has the name.
    Taken,
    /// Certainly not, for this reason.
    No(io::Error),
    /// The file system has no such operation.
    Impossible,
    /// The call failed, but the name may have been given.
    Unclear(io::Error),
}

/// A complete file under a temporary name, removed when dropped.
#[derive(Debug)]
struct Staged<'a> {
    store: &'a LocalFolder,
    folder: &'a OpenFolder,
    name: String,
    file: File,
    /// Renamed away: nothing to remove.
    is_gone: bool,
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if !self.is_gone {
            self.store.discard(self.folder, &self.name);
        }
    }
}

impl LocalFolder {
    /// Creates `path` with `bytes` unless it exists; calls `on_named` after step 3.
    pub(super) fn create_now(&self, path: &str, bytes: &[u8], on_named: OnNamed<'_>) -> Result<()> {
        let target = self.target(path)?;
        let found = self.find_folder(target.folder(), &target.shown)?;
        // Most losers of a race come late enough to be told without writing anything.
        if let Some(folder) = &found
            && self.is_taken(folder, &target)?
        {
            return Err(Error::AlreadyExists { path: target.shown });
        }
        let folder = self.ready_folder(&target, found)?;
        let mut staged = self.stage(&folder, &target, bytes)?;
        hit("create.before_link", &target.shown)
            .map_err(|source| failed(&target, "publish the file", source))?;
        match staged.publish(target.name()) {
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
        let made_durable = hit("create.after_link", &target.shown).and_then(|()| {
            on_named();
            drop(staged);
            hit("create.before_folder_fsync", &target.shown)?;
            self.sync_names(&folder)?;
            hit("create.after_folder_fsync", &target.shown)
        });
        made_durable.map_err(|source| unclear(target, source))
    }

    /// Creates or replaces `path` with `bytes`: readers see the old bytes or the new, never a mixture.
    pub(super) fn put_now(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let target = self.target(path)?;
        let found = self.find_folder(target.folder(), &target.shown)?;
        if let Some(folder) = &found {
            // For links that lead out of the root, which are refused.
            self.is_taken(folder, &target)?;
        }
        let folder = self.ready_folder(&target, found)?;
        let mut staged = self.stage(&folder, &target, bytes)?;
        hit("put.before_rename", &target.shown)
            .and_then(|()| self.disk.rename(&folder, &staged.name, target.name()))
            .map_err(|source| failed(&target, "replace the file", source))?;
        staged.is_gone = true;
        let made_durable = hit("put.after_rename", &target.shown).and_then(|()| {
            hit("put.before_folder_fsync", &target.shown)?;
            self.sync_names(&folder)?;
            hit("put.after_folder_fsync", &target.shown)
        });
        made_durable.map_err(|source| unclear(target, source))
    }

    /// Makes the names in `prefix` durable: after deletions that must not be undone by a power cut.
    pub(super) fn sync_now(&self, prefix: &str) -> Result<()> {
        let relative = resolve_folder(prefix, self.rule)?;
        let shown = self.shown(&relative);
        let failed = |source| Error::io(&shown, "flush the folder", source);
        hit("names.before_fsync", &shown).map_err(failed)?;
        let Some(folder) = self.find_folder(relative.as_str(), &shown)? else {
            return Ok(());
        };
        self.sync_names(&folder)
            .and_then(|()| hit("names.after_fsync", &shown))
            .map_err(failed)
    }

    /// Steps 1 and 2: a complete, stable file without its name.
    fn stage<'a>(
        &'a self,
        folder: &'a OpenFolder,
        target: &Target,
        bytes: &[u8],
    ) -> Result<Staged<'a>> {
        self.stage_bytes(folder, target, bytes)
            .map_err(|source| failed(target, "write a new file", source))
    }

    fn stage_bytes<'a>(
        &'a self,
        folder: &'a OpenFolder,
        target: &Target,
        bytes: &[u8],
    ) -> io::Result<Staged<'a>> {
        hit("stage.before_create", &target.shown)?;
        let name = unique_name(STAGED_PREFIX)?;
        let file = self.disk.create(folder, &name)?;
        let path = folder.path().join(&name);
        let staged = Staged {
            store: self,
            folder,
            name,
            file,
            is_gone: false,
        };
        hit("stage.before_write", &target.shown)?;
        self.disk.append(&staged.file, &path, [bytes, &[]])?;
        self.tally.write(bytes.len());
        hit("stage.before_fsync", &target.shown)?;
        self.sync_file(&staged.file, &path)?;
        hit("stage.after_fsync", &target.shown)?;
        Ok(staged)
    }

    /// Makes the bytes of a file durable, if this store promises that.
    pub(super) fn sync_file(&self, file: &File, path: &std::path::Path) -> io::Result<()> {
        if self.durability == Durability::Full {
            self.disk.flush(file, path)?;
            self.tally.fsync();
        }
        Ok(())
    }
}

impl Staged<'_> {
    /// Step 3.
    fn publish(&mut self, name: &str) -> Published {
        let disk = &self.store.disk;
        match disk.link(self.folder, &self.file, &self.name, name) {
            Ok(()) => Published::Yes,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Published::Taken,
            Err(error)
                if is_one_of(
                    &error,
                    &[Errno::PERM, Errno::NOTSUP, Errno::NOSYS, Errno::MLINK],
                ) =>
            {
                self.publish_by_rename(name)
            }
            Err(error) => refused(error),
        }
    }

    /// Step 3 where there are no hard links.
    fn publish_by_rename(&mut self, name: &str) -> Published {
        let disk = &self.store.disk;
        match disk.rename_if_free(self.folder, &self.name, name) {
            Ok(()) => {
                self.is_gone = true;
                Published::Yes
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Published::Taken,
            Err(error) if is_one_of(&error, &[Errno::INVAL, Errno::NOSYS, Errno::NOTSUP]) => {
                Published::Impossible
            }
            Err(error) => refused(error),
        }
    }
}

/// These answers the kernel gives before it touches the disk: nothing happened. Others may have come too late.
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
