//! Cleanup: removing versions that nobody needs any more, and the files that only they had.
//!
//! Three steps, each durable before the next, so that a crash leaves no version without its files:
//!
//! 1. files that no version names go, when they are so old that no writer can still be about to name them;
//! 2. manifests of old versions go, oldest first, after markers with their commit ids are written;
//! 3. files that only those manifests named go. If a crash leaves some, step 1 of a later cleanup removes them.
//!
//! When a cleanup deletes a manifest, its name is free again. A slow writer must not use this name: it would publish a version
//! in the past. Therefore a cleanup keeps each version that is newer than the version that a running writer read first. The
//! cleanup finds running writers by their transaction files: a writer creates this file before it looks for the newest version,
//! and the cleanup reads these files after it has listed the versions. A writer that has no file at this time looks for the
//! newest version later, and this version stays.

mod at_work;
mod candidates;
pub(super) mod event;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use pilum_format::paths::VERSIONS;
use pilum_format::{COMMIT_ID, Manifest, NamingScheme, parse_manifest_name};
use pilum_store::{Listed, Store};

use self::at_work::AtWork;
use self::candidates::{Candidates, Grace, NamedBy};
use crate::commit::commit_id;
use crate::error::Result;
use crate::failpoints::pass;
use crate::read::snapshot::Snapshot;
use crate::versions::log as versions;
use crate::versions::tags::all_tags;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a cleanup removes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CleanupOptions {
    /// Versions older than this go. The newest version, those with a tag, and this handle's and newer ones stay; so do
    /// those that came after a version that a writer at work began with.
    pub older_than: Duration,
    /// So many of the newest versions stay, however old they are.
    pub keep_versions: Option<u64>,
    /// Files that no version names go when they are older than this. It must be longer than any write takes: beyond it,
    /// a writer counts as dead, and what it wrote and relies on is not kept for it.
    pub unverified_older_than: Duration,
    /// Report what would be removed, and change nothing.
    pub dry_run: bool,
}

impl Default for CleanupOptions {
    fn default() -> Self {
        Self {
            older_than: 14 * DAY,
            keep_versions: None,
            unverified_older_than: 7 * DAY,
            dry_run: false,
        }
    }
}

/// What a cleanup removed, or would remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CleanupOutcome {
    /// The versions, ascending.
    pub removed_versions: Vec<u64>,
    /// Paths of all removed files below the table's root, manifests among them.
    pub removed_files: Vec<String>,
    /// Bytes of those files.
    pub num_bytes: u64,
}

impl CleanupOutcome {
    fn add(&mut self, file: &Listed) {
        self.removed_files.push(file.path.clone());
        self.num_bytes = self.num_bytes.saturating_add(file.size);
    }
}

/// Removes versions older than that of `snapshot`, and files, as [`Dataset::cleanup`](crate::Dataset::cleanup) says.
///
/// # Errors
/// As `Dataset::cleanup`.
pub(crate) async fn cleanup(
    snapshot: &Snapshot,
    options: &CleanupOptions,
) -> Result<CleanupOutcome> {
    let cleanup = Cleanup {
        store: snapshot.store(),
        version: snapshot.version(),
        options,
    };
    let result = cleanup.remove_old().await;
    let removed = result.as_ref().map(|outcome| event::Removed {
        versions: outcome.removed_versions.len(),
        files: outcome.removed_files.len(),
        bytes: outcome.num_bytes,
    });
    event::cleanup(
        snapshot.uri(),
        options.dry_run,
        removed.as_ref().map_err(|error| *error),
    );
    result
}

/// One cleanup.
struct Cleanup<'a> {
    store: &'a Store,
    /// This version and newer ones stay.
    version: u64,
    options: &'a CleanupOptions,
}

impl Cleanup<'_> {
    async fn remove_old(&self) -> Result<CleanupOutcome> {
        let (store, options) = (self.store, self.options);
        let now = SystemTime::now();
        // Listed before the manifests are read: a file of the list that a version names is seen to be named.
        let mut candidates = Candidates::list(store).await?;
        let Some((scheme, listed)) = versions::all(store).await? else {
            return Err(versions::no_table(store).await);
        };
        let mut history = self
            .read_history(scheme, listed, &mut candidates, now)
            .await?;
        let most_age = options.unverified_older_than;
        let at_work = AtWork::find(store, &candidates, &history.unlisted, most_age, now).await?;
        self.spare(&mut history, &mut candidates, &at_work, scheme)
            .await?;
        let grace = Grace {
            files: most_age,
            markers: options.older_than.max(most_age),
        };
        let mut orphans = candidates.orphans(grace, now);
        if !at_work.restored.is_subset(&history.versions) {
            // Another cleanup removed the manifest, so it is not known which of the orphans the restore will name.
            orphans.clear();
        }
        let old_manifests = manifests_of(store, scheme, &history.removed).await?;
        let mut outcome = CleanupOutcome {
            removed_versions: history.removed.keys().copied().collect(),
            ..CleanupOutcome::default()
        };
        orphans.iter().for_each(|file| outcome.add(file));
        old_manifests.iter().for_each(|file| outcome.add(file));
        if !options.dry_run {
            pass(store, "cleanup.before_orphans")?;
            remove(store, &orphans).await?;
            pass(store, "cleanup.before_manifests")?;
            for (version, id) in &history.removed {
                if let Some(id) = id {
                    commit_id::remember(store, id, *version).await?;
                }
            }
            remove(store, &old_manifests).await?;
        }
        // A version that was restored meanwhile needs its files again. A writer that is about to restore one put its
        // transaction file before it read the manifest: either the manifest was gone by then, or the file is seen here.
        let mut published = keep_new_versions(store, &history, &mut candidates).await?;
        published.append(&mut history.unlisted);
        let at_work = AtWork::find(store, &candidates, &published, most_age, now).await?;
        let mut restored = at_work.restored.iter();
        if restored.any(|version| history.removed.contains_key(version)) {
            // Which files it needs stood in the manifest that is gone: a later cleanup decides about all of them.
            return Ok(outcome);
        }
        let unneeded = candidates.unneeded();
        unneeded.iter().for_each(|file| outcome.add(file));
        if !options.dry_run {
            pass(store, "cleanup.before_unneeded")?;
            remove(store, &unneeded).await?;
            pass(store, "cleanup.before_answer")?;
        }
        Ok(outcome)
    }

    /// Reads every manifest, newest first, and marks the files that it names.
    async fn read_history(
        &self,
        scheme: NamingScheme,
        listed: Vec<u64>,
        candidates: &mut Candidates,
        now: SystemTime,
    ) -> Result<History> {
        let (store, options) = (self.store, self.options);
        let keep = options.keep_versions.unwrap_or(1);
        let mut history = History::default();
        for version in listed.into_iter().rev() {
            // None: removed by another cleanup meanwhile.
            let Some((file, _)) = versions::read_manifest(store, scheme, version).await? else {
                continue;
            };
            let newest = *history.versions.last().unwrap_or(&version);
            let is_removable = history.versions.len() as u64 >= keep
                && version < newest.min(self.version)
                && is_old(&file.manifest, options, now);
            history.versions.insert(version);
            let named_by = match is_removable {
                true => NamedBy::Removable(version),
                false => NamedBy::Kept,
            };
            let marked = candidates.mark(&file.manifest, named_by);
            marked.map_err(|error| error.at(store.uri()))?;
            if !candidates.has_transaction(&file.manifest) {
                history.unlisted.insert(file.manifest.transaction_file);
            }
            if is_removable {
                let transaction = file.transaction;
                let id = transaction.and_then(|mut it| it.properties.remove(COMMIT_ID));
                history.removed.insert(version, id);
            }
        }
        Ok(history)
    }

    /// Takes versions off those to remove that a tag names, or that a writer at work relies on, and marks their files.
    async fn spare(
        &self,
        history: &mut History,
        candidates: &mut Candidates,
        at_work: &AtWork,
        scheme: NamingScheme,
    ) -> Result<()> {
        let store = self.store;
        let tags = all_tags(store).await?;
        let mut spared = at_work.restored.clone();
        spared.extend(tags.values().map(|tag| tag.version));
        history
            .removed
            .retain(|version, _| *version <= at_work.oldest_base);
        candidates.keep_above(at_work.oldest_base);
        for version in spared {
            if !history.removed.contains_key(&version) {
                continue;
            }
            // None: another cleanup was faster. As a removed version it is looked for again before its files go.
            if let Some((file, _)) = versions::read_manifest(store, scheme, version).await? {
                history.removed.remove(&version);
                let marked = candidates.mark(&file.manifest, NamedBy::Kept);
                marked.map_err(|error| error.at(store.uri()))?;
            }
        }
        Ok(())
    }
}

/// What the manifests say, without the manifests.
#[derive(Default)]
struct History {
    /// Every version that there is.
    versions: BTreeSet<u64>,
    /// Versions to remove, with their commit ids.
    removed: BTreeMap<u64, Option<String>>,
    /// Names of transaction files of versions that are not among the candidates: published since those were listed, or
    /// removed by another program.
    unlisted: BTreeSet<String>,
}

fn is_old(manifest: &Manifest, options: &CleanupOptions, now: SystemTime) -> bool {
    let now = DateTime::<Utc>::from(now);
    let age = now.signed_duration_since(manifest.timestamp).to_std();
    // An error: the version claims to come from the future, and is not old.
    age.is_ok_and(|age| age >= options.older_than)
}

/// Marks the files of versions that were published since the history was read. Gives the names of their transactions.
async fn keep_new_versions(
    store: &Store,
    history: &History,
    candidates: &mut Candidates,
) -> Result<BTreeSet<String>> {
    let mut published = BTreeSet::new();
    let last = history.versions.last().copied().unwrap_or_default();
    let Some((scheme, listed)) = versions::all(store).await? else {
        return Ok(published);
    };
    for version in listed.into_iter().filter(|version| *version > last) {
        if let Some((file, _)) = versions::read_manifest(store, scheme, version).await? {
            candidates.mark(&file.manifest, NamedBy::Kept)?;
            published.insert(file.manifest.transaction_file);
        }
    }
    Ok(published)
}

/// The manifest files of versions to remove, oldest first.
async fn manifests_of(
    store: &Store,
    scheme: NamingScheme,
    removed: &BTreeMap<u64, Option<String>>,
) -> Result<Vec<Listed>> {
    let mut manifests = BTreeMap::new();
    for file in store.list(VERSIONS).await? {
        if let Some((of, version)) = parse_manifest_name(file.name())
            && of == scheme
            && removed.contains_key(&version)
        {
            manifests.insert(version, file);
        }
    }
    Ok(manifests.into_values().collect())
}

/// Removes files in their order, and makes that durable.
async fn remove(store: &Store, files: &[Listed]) -> Result<()> {
    let mut folders = BTreeSet::new();
    for file in files {
        store.delete(&file.path).await?;
        folders.insert(file.path.rsplit_once('/').map_or("", |(folder, _)| folder));
    }
    for folder in folders {
        store.sync_folder(folder).await?;
    }
    Ok(())
}
