//! Tables on file systems of this machine, by system calls: a write is durable only by the order of its steps, so no
//! library lies between these steps and their proof.
//!
//! Every future here is complete at its first poll: the calls block.

mod beneath;
mod disk;
mod failed;
mod list;
mod lock;
mod publish;
mod read;
mod ready;
mod replace;
mod stream;
mod writeback;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use rustix::fs::{AtFlags, FileType, Stat, fstat, statat};
use rustix::io::Errno;

use crate::counters::Tally;
use crate::error::{Error, Result};
use crate::event;
use crate::failpoint::hit;
use crate::folder::{Folder, OnNamed};
use crate::object::{
    Durability, Listed, Names, ObjectLock, ObjectStat, ObjectVersion, ObjectWriter,
};
use crate::path::{PathRule, RelativePath, resolve};
use crate::read_at::ReadAt;

pub(crate) use beneath::OpenFolder;
use beneath::{LOOK, Refused, TO_NOWHERE};
pub(crate) use disk::{Disk, SystemDisk};

/// The root folder of a table.
#[derive(Debug, Clone)]
pub(crate) struct LocalFolder {
    root: PathBuf,
    /// The address of the root in messages.
    uri: String,
    /// Map files where that is known to be safe.
    may_map: bool,
    rule: PathRule,
    durability: Durability,
    disk: Arc<dyn Disk>,
    tally: Arc<Tally>,
    /// Folders whose names, and those of all folders above them, are known to be durable.
    durable_folders: Arc<Mutex<HashSet<PathBuf>>>,
}

/// A checked place under the root.
#[derive(Debug, Clone)]
struct Target {
    relative: RelativePath,
    /// Where the object is, unless links lead elsewhere.
    full: PathBuf,
    /// The address of the object in messages.
    shown: String,
}

impl Target {
    /// The folder of the object, relative to the root.
    fn folder(&self) -> &str {
        self.relative
            .as_str()
            .rsplit_once('/')
            .map_or("", |it| it.0)
    }

    /// The name of the object in its folder.
    fn name(&self) -> &str {
        let path = self.relative.as_str();
        path.rsplit_once('/').map_or(path, |it| it.1)
    }
}

impl LocalFolder {
    pub(crate) fn new(
        root: PathBuf,
        uri: String,
        may_map: bool,
        disk: Arc<dyn Disk>,
        tally: Arc<Tally>,
    ) -> Self {
        Self {
            root,
            uri,
            may_map,
            rule: PathRule::Decoded,
            durability: Durability::Full,
            disk,
            tally,
            durable_folders: Arc::default(),
        }
    }

    fn target(&self, path: &str) -> Result<Target> {
        let relative = resolve(path, self.rule)?;
        let mut full = self.root.clone();
        full.extend(relative.components());
        Ok(Target {
            full,
            shown: self.shown(&relative),
            relative,
        })
    }

    fn shown(&self, relative: &RelativePath) -> String {
        if relative.as_str().is_empty() {
            return self.uri.clone();
        }
        format!("{}/{}", self.uri.trim_end_matches('/'), relative.as_str())
    }

    fn open_root(&self) -> std::result::Result<OpenFolder, Refused> {
        Ok(OpenFolder::at(&self.root)?)
    }

    /// The folder `relative` beneath the root; `None` if it does not exist. `shown` stands in errors.
    fn find_folder(&self, relative: &str, shown: &str) -> Result<Option<OpenFolder>> {
        match self.open_root().and_then(|root| root.folder(relative)) {
            Ok(folder) => Ok(Some(folder)),
            Err(refused) if refused.is_not_found() => Ok(None),
            Err(refused) => Err(refused.into_error(shown, "open the folder")),
        }
    }

    /// Whether the name of `target` is taken in its folder. An error if a link has that name and leads to a place outside of the
    /// root, or to none.
    fn is_taken(&self, folder: &OpenFolder, target: &Target) -> Result<bool> {
        let failed = |errno: Errno| Error::io(&target.shown, "look for the file", errno.into());
        let found = match statat(folder.fd(), target.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(failed(errno)),
        };
        if file_type(&found) != FileType::Symlink {
            return Ok(true);
        }
        let opened = self
            .open_root()
            .and_then(|root| root.open(target.relative.as_str(), LOOK));
        match opened {
            Ok(_) => Ok(true),
            Err(refused) if refused.is_not_found() => {
                let outside = Refused::Outside(TO_NOWHERE);
                Err(outside.into_error(&target.shown, "look for the file"))
            }
            Err(refused) => Err(refused.into_error(&target.shown, "look for the file")),
        }
    }

    fn stat_now(&self, path: &str) -> Result<ObjectStat> {
        let target = self.target(path)?;
        self.tally.stat();
        let failed = |refused: Refused| refused.into_error(&target.shown, "read the file's size");
        let opened = self
            .open_root()
            .and_then(|root| root.open(target.relative.as_str(), LOOK));
        let file = opened.map_err(failed)?;
        let stat = fstat(file).map_err(|errno| failed(errno.into()))?;
        if file_type(&stat) != FileType::RegularFile {
            return Err(Error::NotFound { path: target.shown });
        }
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        Ok(ObjectStat {
            size,
            modified: modified(&stat),
            e_tag: Some(e_tag(&stat)),
        })
    }

    fn delete_now(&self, path: &str) -> Result<()> {
        let target = self.target(path)?;
        self.tally.delete();
        let Some(folder) = self.find_folder(target.folder(), &target.shown)? else {
            return Ok(());
        };
        if !self.is_taken(&folder, &target)? {
            return Ok(());
        }
        let removed = hit("delete.before", &target.shown).and_then(|()| {
            match self.disk.remove(&folder, target.name()) {
                // Removed by another process since.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
                Ok(()) => hit("delete.after", &target.shown),
            }
        });
        removed.map_err(|source| Error::io(target.shown, "delete the file", source))
    }

    /// Removes a file that this store made and that nothing refers to. A failure is no error of the caller: the file is left for
    /// cleanup.
    fn discard(&self, folder: &OpenFolder, name: &str) {
        if let Err(error) = self.disk.remove(folder, name) {
            tracing::warn!(
                target: event::CLEANUP,
                path = %folder.path().join(name).display(),
                %error,
                "an unfinished file was not removed"
            );
        }
    }
}

impl Folder for LocalFolder {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn is_local(&self) -> bool {
        true
    }

    fn open<'a>(
        &'a self,
        path: &'a str,
        _size: Option<u64>,
    ) -> BoxFuture<'a, Result<Arc<dyn ReadAt>>> {
        async move { self.open_now(path) }.boxed()
    }

    fn read<'a>(&'a self, path: &'a str, limit: u64) -> BoxFuture<'a, Result<Bytes>> {
        async move { self.read_now(path, limit) }.boxed()
    }

    fn stat<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<ObjectStat>> {
        async move { self.stat_now(path) }.boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str, count: usize) -> BoxFuture<'a, Result<Vec<Listed>>> {
        async move { self.list_now(prefix, count) }.boxed()
    }

    /// All names: the file system has no order, and no file is asked for its size.
    fn list_names<'a>(&'a self, prefix: &'a str, _count: usize) -> BoxFuture<'a, Result<Names>> {
        async move { self.list_names_now(prefix) }.boxed()
    }

    fn list_recursive<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Listed>>> {
        async move { self.list_recursive_now(prefix) }.boxed()
    }

    fn create<'a>(
        &'a self,
        path: &'a str,
        bytes: Bytes,
        on_named: OnNamed<'a>,
    ) -> BoxFuture<'a, Result<()>> {
        async move { self.create_now(path, &bytes, on_named) }.boxed()
    }

    fn put<'a>(&'a self, path: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<()>> {
        async move { self.put_now(path, &bytes) }.boxed()
    }

    fn read_version<'a>(
        &'a self,
        path: &'a str,
        limit: u64,
    ) -> BoxFuture<'a, Result<(Bytes, ObjectVersion)>> {
        async move { self.read_version_now(path, limit) }.boxed()
    }

    fn replace<'a>(
        &'a self,
        path: &'a str,
        bytes: Bytes,
        expected: &'a ObjectVersion,
    ) -> BoxFuture<'a, Result<()>> {
        async move { self.replace_now(path, &bytes, expected) }.boxed()
    }

    fn try_lock(&self, path: &str) -> Result<Option<ObjectLock>> {
        self.try_lock_now(path)
    }

    fn with_literal_paths(&self) -> Arc<dyn Folder> {
        Arc::new(Self {
            rule: PathRule::Literal,
            ..self.clone()
        })
    }

    fn writer<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Box<dyn ObjectWriter>>> {
        async move { self.writer_now(path) }.boxed()
    }

    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        async move { self.delete_now(path) }.boxed()
    }

    fn sync<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<()>> {
        async move { self.sync_now(prefix) }.boxed()
    }

    fn with_durability(&self, durability: Durability) -> Option<Arc<dyn Folder>> {
        Some(Arc::new(Self {
            durability,
            ..self.clone()
        }))
    }

    fn missing_folders(&self, below: &[&str]) -> Vec<PathBuf> {
        let below = below.iter().map(|relative| self.root.join(relative));
        let mut missing: Vec<PathBuf> = below.filter(|folder| !folder.exists()).collect();
        // A path is longer than those of the folders above it.
        missing.sort_unstable_by_key(|folder| std::cmp::Reverse(folder.as_os_str().len()));
        let levels = self.root.ancestors().take_while(|level| !level.exists());
        missing.extend(levels.map(Path::to_path_buf));
        missing
    }

    fn remove_files_now(&self, paths: &[String]) {
        for path in paths {
            if let Err(error) = self.delete_now(path) {
                tracing::warn!(target: event::CLEANUP, path, %error, "a file was not removed");
            }
        }
    }

    fn remove_empty_folders(&self, folders: &[PathBuf]) {
        for folder in folders {
            match fs::remove_dir(folder) {
                Ok(()) => {}
                // Not made, or in use by now.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
                    ) => {}
                Err(error) => tracing::warn!(
                    target: event::CLEANUP,
                    path = %folder.display(),
                    %error,
                    "an empty folder was not removed"
                ),
            }
        }
        self.forget_durable_folders();
    }
}

/// Replacing a file gives a new inode; writing in place a new time.
fn e_tag(stat: &Stat) -> String {
    format!(
        "{:x}-{:x}-{:x}-{:x}",
        stat.st_ino, stat.st_mtime, stat.st_mtime_nsec, stat.st_size
    )
}

fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// When the file was written. Times before 1970 become 1970.
fn modified(stat: &Stat) -> SystemTime {
    // Widened, because the types of the fields differ between machines.
    let nanos = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
    let nanos = u64::try_from(nanos).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos)
}
