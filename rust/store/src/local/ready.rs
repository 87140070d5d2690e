//! The folder of a new object: made if it is missing, with its name and those of the folders above it on stable storage.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, TryLockError};

use rustix::io::Errno;

use super::beneath::{OpenFolder, Refused, TO_NOWHERE};
use super::failed::{failed, is_one_of};
use super::{LocalFolder, Target};
use crate::error::Result;
use crate::failpoint::hit;
use crate::object::Durability;

const OPERATION: &str = "make the folder of the file";

/// A folder on the way to an object.
struct Level {
    full: PathBuf,
    /// Relative to the root; `None` for the root's ancestors and the root, which are found by their paths.
    relative: Option<String>,
    was_made: bool,
}

impl Level {
    fn name(&self) -> Option<&str> {
        self.full.file_name()?.to_str()
    }
}

impl LocalFolder {
    /// The folder of `target`, which is `found` if it exists.
    ///
    /// The names of folders that exist are flushed once as well: the process that made them may have died before it did so.
    pub(super) fn ready_folder(
        &self,
        target: &Target,
        found: Option<OpenFolder>,
    ) -> Result<OpenFolder> {
        let full = target.full.parent().unwrap_or(&self.root);
        if let Some(found) = found
            && (self.durability == Durability::None || self.is_durable(full))
        {
            return Ok(found);
        }
        let levels = self.make_folders(target)?;
        if self.durability == Durability::Full {
            for level in &levels {
                self.flush_name(level, target)?;
            }
            hit("folder.after_fsync", &target.shown)
                .map_err(|source| failed(target, OPERATION, source))?;
        }
        match self.find_folder(target.folder(), &target.shown)? {
            Some(folder) => Ok(folder),
            None => {
                let source = io::Error::other("the folder was removed by another process");
                Err(failed(target, OPERATION, source))
            }
        }
    }

    /// Makes what is missing of the folders from the outermost missing one, or the root, down to that of `target`.
    fn make_folders(&self, target: &Target) -> Result<Vec<Level>> {
        let missing = self.root.ancestors().take_while(|level| !level.is_dir());
        let num_missing = missing.count();
        let mut levels: Vec<Level> = (self.root.ancestors())
            .take(num_missing.max(1))
            .map(|full| Level {
                full: full.to_path_buf(),
                relative: None,
                was_made: num_missing > 0,
            })
            .collect();
        levels.reverse();
        for level in levels.iter().filter(|level| level.was_made) {
            self.make_folder(level, target)?;
        }
        let mut relative = String::new();
        for name in target.folder().split('/').filter(|name| !name.is_empty()) {
            if !relative.is_empty() {
                relative.push('/');
            }
            relative.push_str(name);
            let is_there = self.find_folder(&relative, &target.shown)?.is_some();
            let level = Level {
                full: self.root.join(&relative),
                relative: Some(relative.clone()),
                was_made: !is_there,
            };
            if !is_there {
                self.make_folder(&level, target)?;
            }
            levels.push(level);
        }
        Ok(levels)
    }

    fn make_folder(&self, level: &Level, target: &Target) -> Result<()> {
        let made = hit("folder.before_create", &target.shown).and_then(|()| {
            let name = level.name().ok_or(io::ErrorKind::InvalidInput)?;
            let parent = self.parent_of(level)?;
            self.disk.create_folder(&parent, name)
        });
        match made {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.expect_folder(level, target)
            }
            Err(source) => Err(failed(target, OPERATION, source)),
        }
    }

    /// The name is taken: by a folder that another process made just now, or by something else.
    fn expect_folder(&self, level: &Level, target: &Target) -> Result<()> {
        let not_a_folder = || failed(target, OPERATION, io::ErrorKind::NotADirectory.into());
        let Some(relative) = &level.relative else {
            return match level.full.is_dir() {
                true => Ok(()),
                false => Err(not_a_folder()),
            };
        };
        match self.find_folder(relative, &target.shown)? {
            Some(_) => Ok(()),
            // Only a link has a name and leads to nothing.
            None => Err(Refused::Outside(TO_NOWHERE).into_error(&target.shown, OPERATION)),
        }
    }

    /// The folder in which a level has its name.
    fn parent_of(&self, level: &Level) -> io::Result<OpenFolder> {
        let Some(relative) = &level.relative else {
            return OpenFolder::at(level.full.parent().unwrap_or(&level.full));
        };
        let parent = relative.rsplit_once('/').map_or("", |it| it.0);
        let opened = self.open_root().and_then(|root| root.folder(parent));
        opened.map_err(|refused| match refused {
            Refused::Io(error) => error,
            Refused::Outside(reason) => io::Error::new(io::ErrorKind::PermissionDenied, reason),
        })
    }

    /// Makes the name of a folder durable, unless it is known to be.
    fn flush_name(&self, level: &Level, target: &Target) -> Result<()> {
        if level.full.parent().is_none() || (self.is_durable(&level.full) && !level.was_made) {
            return Ok(());
        }
        let flushed = hit("folder.before_fsync", &target.shown)
            .and_then(|()| self.sync_names(&self.parent_of(level)?));
        match flushed {
            // The folder above an existing one may be closed to this user, and its names are not this store's to flush.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !level.was_made => {}
            other => other.map_err(|source| failed(target, OPERATION, source))?,
        }
        self.note_durable(&level.full);
        Ok(())
    }

    /// The lock is tried and never waited for: a lock held by another thread at a fork stays locked in the child for good.
    /// Not knowing that a folder is durable costs one more flush.
    fn is_durable(&self, folder: &Path) -> bool {
        match self.durable_folders.try_lock() {
            Ok(folders) => folders.contains(folder),
            Err(TryLockError::Poisoned(poisoned)) => {
                PoisonError::into_inner(poisoned).contains(folder)
            }
            Err(TryLockError::WouldBlock) => false,
        }
    }

    fn note_durable(&self, folder: &Path) {
        if let Ok(mut folders) = self.durable_folders.try_lock() {
            folders.insert(folder.to_path_buf());
        }
    }

    /// Folders were removed: the names of those made again are to be flushed again.
    pub(super) fn forget_durable_folders(&self) {
        if let Ok(mut folders) = self.durable_folders.try_lock() {
            folders.clear();
        }
    }

    /// Makes the names in a folder durable, if this store promises that.
    pub(super) fn sync_names(&self, folder: &OpenFolder) -> io::Result<()> {
        if self.durability == Durability::None {
            return Ok(());
        }
        self.tally.fsync();
        match self.disk.flush_folder(folder) {
            // Some file systems write names through and have no such call for folders.
            Err(error) if is_one_of(&error, &[Errno::INVAL, Errno::NOTSUP]) => Ok(()),
            other => other,
        }
    }
}
