//! The data files that a write has finished, until its caller knows them.

use std::ops::Deref;

use pilum_store::Store;

/// Paths of finished data files. Dropped by a write that was interrupted, it removes them from the disks of this machine, where
/// that needs no waiting; files in object stores are left to a cleanup.
#[derive(Debug)]
pub(super) struct FinishedFiles {
    store: Store,
    paths: Vec<String>,
}

impl FinishedFiles {
    pub(super) fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            paths: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, path: String) {
        self.paths.push(path);
    }

    /// The caller knows the files, or removed them: they are its concern.
    pub(super) fn release(&mut self) {
        self.paths.clear();
    }
}

impl Deref for FinishedFiles {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.paths
    }
}

impl Drop for FinishedFiles {
    fn drop(&mut self) {
        if !self.paths.is_empty() {
            self.store.remove_files_now(&self.paths);
        }
    }
}
