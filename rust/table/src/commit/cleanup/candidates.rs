//! The files that a cleanup may remove, and whether a version names them.
//!
//! A manifest is marked on this list and then forgotten, so that memory grows with the number of files, and not with the
//! number of versions that name the same ones.

use std::time::{Duration, SystemTime};

use pilum_format::Manifest;
use pilum_format::paths::{MARKERS, TRANSACTIONS, VERSIONS};
use pilum_store::{Listed, Store};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::versions::external;

const INDICES: &str = "_indices";

/// What naming a file means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NamedBy {
    /// A version that stays.
    Kept,
    /// The version of this number, which is old enough to go.
    Removable(u64),
}

#[derive(Debug)]
struct Candidate {
    file: Listed,
    is_kept: bool,
    /// The newest removable version that names the file; 0 for none.
    newest_removable: u64,
}

/// Files that a cleanup may remove if no version that stays names them, ascending by path.
#[derive(Debug)]
pub(super) struct Candidates {
    files: Vec<Candidate>,
}

impl Candidates {
    /// Lists the files. Anything else in the folder of the table is not of this table format, and stays.
    pub(super) async fn list(store: &Store) -> Result<Self> {
        let mut files = Vec::new();
        let folders = [
            "data",
            "_deletions",
            TRANSACTIONS,
            INDICES,
            VERSIONS,
            MARKERS,
        ];
        for folder in folders {
            for file in store.list_recursive(folder).await? {
                if is_candidate(store, folder, &file).await? {
                    files.push(Candidate {
                        file,
                        is_kept: false,
                        newest_removable: 0,
                    });
                }
            }
        }
        files.sort_unstable_by(|a, b| a.file.path.cmp(&b.file.path));
        Ok(Self { files })
    }

    /// Marks the files and indices that a version consists of.
    pub(super) fn mark(&mut self, manifest: &Manifest, by: NamedBy) -> Result<()> {
        for path in manifest.files() {
            if let Some(place) = self.find(&path) {
                self.files[place].mark(by);
            }
        }
        for index in manifest.indices()? {
            let uuid = index.uuid.as_ref().map(|it| Uuid::from_slice(&it.uuid));
            let uuid = uuid
                .and_then(Result::ok)
                .ok_or_else(|| Error::corrupt(format!("index {:?} has no uuid", index.name)))?;
            let folder = format!("{INDICES}/{uuid}/");
            let first = self.files.partition_point(|it| it.file.path < folder);
            let files = self.files.iter_mut().skip(first);
            for candidate in files.take_while(|it| it.file.path.starts_with(&folder)) {
                candidate.mark(by);
            }
        }
        Ok(())
    }

    /// True if the transaction file of a version is listed, or the version has none.
    pub(super) fn has_transaction(&self, manifest: &Manifest) -> bool {
        let name = &manifest.transaction_file;
        name.is_empty() || self.find(&format!("{TRANSACTIONS}/{name}")).is_some()
    }

    /// True if a version whose manifest was marked names the file.
    pub(super) fn is_named(&self, path: &str) -> bool {
        let found = self.find(path).map(|place| &self.files[place]);
        found.is_some_and(Candidate::is_named)
    }

    fn find(&self, path: &str) -> Option<usize> {
        let by_path = |it: &Candidate| it.file.path.as_str().cmp(path);
        self.files.binary_search_by(by_path).ok()
    }

    /// Marks as kept what removable versions above `last` name: they stay.
    pub(super) fn keep_above(&mut self, last: u64) {
        for candidate in &mut self.files {
            candidate.is_kept |= candidate.newest_removable > last;
        }
    }

    /// Files that no version names, and that are so old that no writer can still be about to name them.
    pub(super) fn orphans(&self, grace: Grace, now: SystemTime) -> Vec<Listed> {
        let is_orphan =
            |it: &&Candidate| !it.is_named() && age(&it.file, now) >= grace.of(&it.file);
        let orphans = self.files.iter().filter(is_orphan);
        orphans.map(|it| it.file.clone()).collect()
    }

    /// Files that only removed versions name.
    pub(super) fn unneeded(&self) -> Vec<Listed> {
        let unneeded = self.files.iter();
        let unneeded = unneeded.filter(|it| !it.is_kept && it.newest_removable > 0);
        unneeded.map(|it| it.file.clone()).collect()
    }
}

impl Candidate {
    fn is_named(&self) -> bool {
        self.is_kept || self.newest_removable > 0
    }

    fn mark(&mut self, by: NamedBy) {
        match by {
            NamedBy::Kept => self.is_kept = true,
            NamedBy::Removable(version) => {
                self.newest_removable = self.newest_removable.max(version);
            }
        }
    }
}

/// The age at which a file without a version counts as abandoned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grace {
    pub(super) files: Duration,
    /// Markers of commit ids stay as long as their version may be asked for.
    pub(super) markers: Duration,
}

impl Grace {
    fn of(self, file: &Listed) -> Duration {
        match file.path.starts_with(MARKERS) {
            true => self.markers,
            false => self.files,
        }
    }
}

/// Zero for a file that claims to come from the future.
pub(super) fn age(file: &Listed, now: SystemTime) -> Duration {
    now.duration_since(file.modified).unwrap_or_default()
}

async fn is_candidate(store: &Store, folder: &str, file: &Listed) -> Result<bool> {
    let name = file.name();
    let ends = |extension: &str| name.ends_with(extension);
    let is_ours = match folder {
        "data" => ends(".lance"),
        "_deletions" => ends(".arrow") || ends(".bin"),
        TRANSACTIONS => ends(".txn"),
        INDICES => true,
        MARKERS => ends(".json"),
        _ => false,
    };
    if is_ours || name.starts_with(".tmp") {
        return Ok(true);
    }
    let is_staged = folder == VERSIONS && external::parse_staged_name(name).is_some();
    match store.register() {
        Some(register) if is_staged => {
            external::is_abandoned(store, register.as_ref(), &file.path).await
        }
        // Only the register of the table knows whether a staged manifest is abandoned.
        _ => Ok(false),
    }
}
