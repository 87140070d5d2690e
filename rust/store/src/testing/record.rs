//! A record of the changes that local stores made to a disk, in order, to play power cuts through.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// One change of the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new, empty file.
    Create(PathBuf),
    /// Bytes at its end.
    Append(PathBuf, Vec<u8>),
    /// The flush of this number begins: it makes stable what was there by now. Other threads go on meanwhile.
    BeginFlush(u64),
    /// The bytes of a file, as they were when the flush of this number began, are stable.
    Flush(PathBuf, u64),
    /// A second name, the latter, for the same file.
    Link(PathBuf, PathBuf),
    /// Another name, the latter; what had it before is gone.
    Rename(PathBuf, PathBuf),
    /// A name less.
    Remove(PathBuf),
    /// A new folder.
    CreateFolder(PathBuf),
    /// The names in the folder, as they were when the flush of this number began, are stable.
    FlushFolder(PathBuf, u64),
    /// Not the disk's: the test saw an answer, and gives it this number.
    Answer(u64),
}

/// Everything that happens below one folder while it lives.
#[derive(Debug)]
pub struct Record {
    root: PathBuf,
    changes: Arc<Mutex<Vec<Change>>>,
}

type Running = (PathBuf, Arc<Mutex<Vec<Change>>>);

static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());

impl Record {
    /// Begins a record of what happens at and below `root`.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        let record = Self {
            root: root.to_path_buf(),
            changes: Arc::default(),
        };
        let running = (record.root.clone(), Arc::clone(&record.changes));
        running_records().push(running);
        record
    }

    /// Notes that the operation `number` was acknowledged.
    pub fn answer(&self, number: u64) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.push(Change::Answer(number));
    }

    /// What happened so far.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.clone()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        running_records().retain(|(_, changes)| !Arc::ptr_eq(changes, &self.changes));
    }
}

fn running_records() -> std::sync::MutexGuard<'static, Vec<Running>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a change of `path` to the records it belongs to.
pub(crate) fn note(path: &Path, change: impl Fn() -> Change) {
    for (root, changes) in running_records().iter() {
        if path.starts_with(root) {
            let mut changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
            changes.push(change());
        }
    }
}

/// Notes that a flush of `path` begins, and gives it a number.
pub(crate) fn begin_flush(path: &Path) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    note(path, || Change::BeginFlush(number));
    number
}
