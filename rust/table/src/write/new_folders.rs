//! The folders that the first write of a table makes on a disk: removed again if no table comes of the write.

use std::path::PathBuf;

use pilum_store::Store;

/// The folders of a table, each before the one that it lies in.
const FOLDERS: [&str; 6] = [
    "data",
    "_deletions",
    "_transactions",
    "_versions",
    "_refs/commits",
    "_refs",
];

/// Folders that were missing before the first write. Dropped by a write that failed or was interrupted, it removes those of
/// them that are empty; a folder in which another process has put a file stays.
#[derive(Debug)]
pub(super) struct NewFolders {
    store: Store,
    missing: Vec<PathBuf>,
}

impl NewFolders {
    /// Looks which folders are missing.
    pub(super) fn missing_in(store: &Store) -> Self {
        Self {
            store: store.clone(),
            missing: store.missing_folders(&FOLDERS),
        }
    }

    /// The write made a table, or may have made one: its folders stay.
    pub(super) fn keep(mut self) {
        self.missing.clear();
    }
}

impl Drop for NewFolders {
    fn drop(&mut self) {
        if !self.missing.is_empty() {
            self.store.remove_empty_folders(&self.missing);
        }
    }
}
