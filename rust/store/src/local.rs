//! Tables on file systems of this machine, with `std::fs`: the order of the steps that make a write
//! durable is ours to choose and to prove, so no library stands between.
//!
//! Every future above this module is complete at its first poll: the calls here block.

mod disk;
mod list;
mod publish;
mod read;
mod stream;
mod writeback;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use crate::counters::Tally;
use crate::error::{Error, Result};
use crate::object::{Durability, ObjectStat};
use crate::path::{RelativePath, resolve, resolve_folder};

/// Names with this prefix are unfinished writes: listings do not show them, cleanup removes old ones.
pub(crate) const STAGED_PREFIX: &str = ".tmp-";

/// The root folder of a table.
#[derive(Debug, Clone)]
pub(crate) struct LocalFolder {
    root: PathBuf,
    /// The root for people.
    uri: String,
    /// Map files where that is known to be safe.
    may_map: bool,
    pub(crate) durability: Durability,
    tally: Arc<Tally>,
    /// Folders whose names are known to be on stable storage, all the way up.
    settled: Arc<Mutex<HashSet<PathBuf>>>,
}

/// A checked place under the root.
#[derive(Debug)]
struct Target {
    full: PathBuf,
    folder: PathBuf,
    /// For people.
    shown: String,
}

impl LocalFolder {
    pub(crate) fn new(root: PathBuf, uri: String, may_map: bool, tally: Arc<Tally>) -> Self {
        Self {
            root,
            uri,
            may_map,
            durability: Durability::Full,
            tally,
            settled: Arc::default(),
        }
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// The place of the object `path`, refused when a symbolic link leads out of the root.
    fn target(&self, path: &str) -> Result<Target> {
        let relative = resolve(path)?;
        let full = self.full(&relative);
        let shown = self.shown(&relative);
        self.check_inside(&full, &shown)?;
        let folder = full.parent().unwrap_or(&self.root).to_path_buf();
        Ok(Target {
            full,
            folder,
            shown,
        })
    }

    /// The place of the folder `prefix`, as [`Self::target`].
    fn target_folder(&self, prefix: &str) -> Result<(RelativePath, PathBuf, String)> {
        let relative = resolve_folder(prefix)?;
        let full = self.full(&relative);
        let shown = self.shown(&relative);
        self.check_inside(&full, &shown)?;
        Ok((relative, full, shown))
    }

    fn full(&self, relative: &RelativePath) -> PathBuf {
        let mut full = self.root.clone();
        full.extend(relative.components());
        full
    }

    fn shown(&self, relative: &RelativePath) -> String {
        if relative.as_str().is_empty() {
            return self.uri.clone();
        }
        format!("{}/{}", self.uri.trim_end_matches('/'), relative.as_str())
    }

    /// Follow the symbolic links of as much of `full` as exists; the end must lie inside the root.
    fn check_inside(&self, full: &Path, shown: &str) -> Result<()> {
        let outside = |reason| Error::OutsideRoot {
            path: shown.to_owned(),
            reason,
        };
        let mut probe = full;
        let real = loop {
            match fs::canonicalize(probe) {
                Ok(real) => break real,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // Something else than a link may have appeared just now: then its folder decides.
                    if fs::symlink_metadata(probe).is_ok_and(|found| found.is_symlink()) {
                        return Err(outside("it is a symbolic link to nowhere"));
                    }
                }
                Err(source) => return Err(Error::io(shown, "resolve the path", source)),
            }
            match probe.parent() {
                Some(parent) if probe != self.root => probe = parent,
                // The root does not exist yet, so nothing in it can be a link.
                _ => return Ok(()),
            }
        };
        let root = fs::canonicalize(&self.root)
            .map_err(|source| Error::io(shown, "resolve the folder of the table", source))?;
        if real.starts_with(&root) {
            Ok(())
        } else {
            Err(outside(
                "a symbolic link leads out of the folder of the table",
            ))
        }
    }

    /// The root and the folders above it that are not there, the deepest first.
    pub(crate) fn missing(&self) -> Vec<PathBuf> {
        let levels = self.root.ancestors().take_while(|level| !level.exists());
        levels.map(Path::to_path_buf).collect()
    }

    /// Removes those of the folders in which nothing is.
    pub(crate) fn remove_empty(&self, folders: &[PathBuf]) {
        for folder in folders {
            // Not empty is the other answer, and a fine one.
            let _ = fs::remove_dir(folder);
        }
        // Only tried, as everywhere: who cannot forget what is settled must not count on it.
        if let Ok(mut settled) = self.settled.try_lock() {
            settled.clear();
        }
    }

    pub(crate) fn stat(&self, path: &str) -> Result<ObjectStat> {
        let target = self.target(path)?;
        self.tally.stat();
        let metadata = fs::metadata(&target.full)
            .map_err(|source| Error::io(&target.shown, "read the file's size", source))?;
        if !metadata.is_file() {
            return Err(Error::NotFound { path: target.shown });
        }
        Ok(ObjectStat {
            size: metadata.len(),
            modified: modified(&metadata),
            // Replacing gives a new inode; writing in place a new time.
            e_tag: Some(format!(
                "{:x}-{:x}-{:x}-{:x}",
                metadata.ino(),
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.len()
            )),
        })
    }

    pub(crate) fn delete(&self, path: &str) -> Result<()> {
        let target = self.target(path)?;
        self.tally.delete();
        crate::failpoint::hit("delete.before", &target.shown)
            .map_err(|source| Error::io(&target.shown, "delete the file", source))?;
        match disk::remove(&target.full) {
            Ok(()) => crate::failpoint::hit("delete.after", &target.shown)
                .map_err(|source| Error::io(&target.shown, "delete the file", source)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(Error::io(target.shown, "delete the file", source)),
        }
    }
}

/// When the file was written; the epoch on file systems that keep no time.
fn modified(metadata: &fs::Metadata) -> SystemTime {
    metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH)
}
