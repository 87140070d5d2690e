//! A record of the changes that local stores made to a disk, in order. Power cuts are computed from it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::local::{Disk, OpenFolder, SystemDisk};
use crate::options::StorageOptions;
use crate::store::Store;

/// One change of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new, empty file.
    Create(PathBuf),
    /// Bytes appended to a file.
    Append(PathBuf, Vec<u8>),
    /// The flush with this number begins. It makes durable what was written before; other threads may write meanwhile.
    BeginFlush(u64),
    /// The bytes of a file, as they were when the flush with this number began, are durable.
    Flush(PathBuf, u64),
    /// A second name, the latter, for the same file.
    Link(PathBuf, PathBuf),
    /// Another name, the latter; a file that had it is gone.
    Rename(PathBuf, PathBuf),
    /// A removed name.
    Remove(PathBuf),
    /// A new folder.
    CreateFolder(PathBuf),
    /// The names in the folder, as they were when the flush with this number began, are durable.
    FlushFolder(PathBuf, u64),
    /// No change of the disk: the test received an answer, to which it gives this number.
    Answer(u64),
}

/// Everything that happens at and below one folder, through the stores that [`open`](Self::open) opens.
#[derive(Debug)]
pub struct Record {
    root: PathBuf,
    changes: Changes,
}

type Changes = Arc<Mutex<Vec<Change>>>;

impl Record {
    /// A record of what happens at and below `root`.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            changes: Arc::default(),
        }
    }

    /// The store in the local folder `uri`, all changes of which are recorded.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open(&self, uri: &str) -> Result<Store> {
        let disk = RecordingDisk {
            root: self.root.clone(),
            changes: Arc::clone(&self.changes),
        };
        Store::open_on(Arc::new(disk), uri, &StorageOptions::new())
    }

    /// Notes that the operation `number` was acknowledged.
    pub fn answer(&self, number: u64) {
        lock(&self.changes).push(Change::Answer(number));
    }

    /// The changes so far.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        lock(&self.changes).clone()
    }
}

fn lock(changes: &Changes) -> MutexGuard<'_, Vec<Change>> {
    changes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The disk of this machine, and a note of each call that it carried out.
#[derive(Debug)]
struct RecordingDisk {
    root: PathBuf,
    changes: Changes,
}

impl RecordingDisk {
    fn note(&self, path: &Path, change: impl FnOnce() -> Change) {
        if path.starts_with(&self.root) {
            lock(&self.changes).push(change());
        }
    }

    /// Notes that a flush of `path` begins, and gives it a number.
    fn begin_flush(&self, path: &Path) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.note(path, || Change::BeginFlush(number));
        number
    }
}

impl Disk for RecordingDisk {
    fn create(&self, folder: &OpenFolder, name: &str) -> io::Result<File> {
        let file = SystemDisk.create(folder, name)?;
        let path = folder.path().join(name);
        self.note(&path, || Change::Create(path.clone()));
        Ok(file)
    }

    fn append(&self, file: &File, path: &Path, bytes: [&[u8]; 2]) -> io::Result<()> {
        SystemDisk.append(file, path, bytes)?;
        self.note(path, || Change::Append(path.to_path_buf(), bytes.concat()));
        Ok(())
    }

    fn flush(&self, file: &File, path: &Path) -> io::Result<()> {
        let number = self.begin_flush(path);
        SystemDisk.flush(file, path)?;
        self.note(path, || Change::Flush(path.to_path_buf(), number));
        Ok(())
    }

    fn link(&self, folder: &OpenFolder, file: &File, from: &str, to: &str) -> io::Result<()> {
        SystemDisk.link(folder, file, from, to)?;
        let (from, to) = (folder.path().join(from), folder.path().join(to));
        self.note(&to, || Change::Link(from, to.clone()));
        Ok(())
    }

    fn rename(&self, folder: &OpenFolder, from: &str, to: &str) -> io::Result<()> {
        SystemDisk.rename(folder, from, to)?;
        let (from, to) = (folder.path().join(from), folder.path().join(to));
        self.note(&to, || Change::Rename(from, to.clone()));
        Ok(())
    }

    fn rename_if_free(&self, folder: &OpenFolder, from: &str, to: &str) -> io::Result<()> {
        SystemDisk.rename_if_free(folder, from, to)?;
        let (from, to) = (folder.path().join(from), folder.path().join(to));
        self.note(&to, || Change::Rename(from, to.clone()));
        Ok(())
    }

    fn remove(&self, folder: &OpenFolder, name: &str) -> io::Result<()> {
        SystemDisk.remove(folder, name)?;
        let path = folder.path().join(name);
        self.note(&path, || Change::Remove(path.clone()));
        Ok(())
    }

    fn create_folder(&self, parent: &OpenFolder, name: &str) -> io::Result<()> {
        SystemDisk.create_folder(parent, name)?;
        let path = parent.path().join(name);
        self.note(&path, || Change::CreateFolder(path.clone()));
        Ok(())
    }

    fn flush_folder(&self, folder: &OpenFolder) -> io::Result<()> {
        let path = folder.path();
        let number = self.begin_flush(path);
        SystemDisk.flush_folder(folder)?;
        self.note(path, || Change::FlushFolder(path.to_path_buf(), number));
        Ok(())
    }
}
