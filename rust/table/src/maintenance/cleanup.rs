//! Cleanup: removing versions that nobody needs any more, and the files that only they had.
//!
//! Three steps, each durable before the next, so that a crash leaves no version without its files:
//!
//! 1. files that no version names go, when they are so old that no writer can still be about to name them;
//! 2. manifests of old versions go, oldest first, once it is written down which commit ids they had;
//! 3. files that only those manifests named go. What a crash leaves of them is step 1 of a later cleanup.
//!
//! A manifest's name is free again when it goes, and a slow writer must not take it: it would publish a version in the past.
//! So versions that came after one that a writer at work began with stay. Its transaction file tells: it is written before
//! the writer looks which version is the newest, and read here after the versions were listed. A writer whose file is not
//! seen here looks later, and finds a newest version that stays.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use pilum_format::paths::{MARKERS, TRANSACTIONS, VERSIONS};
use pilum_format::{COMMIT_ID, Manifest, Operation};
use pilum_store::{Listed, Store};
use uuid::Uuid;

use crate::commit::commit_id;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::failpoints::pass;
use crate::versions::{external, log as versions};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const INDICES: &str = "_indices";

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
    /// Tell what would go, and change nothing.
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

/// The files that some versions consist of.
#[derive(Default)]
struct Named {
    files: BTreeSet<String>,
    indices: BTreeSet<String>,
}

impl Named {
    fn add(&mut self, manifest: &Manifest) -> Result<()> {
        self.files.extend(manifest.files());
        for index in manifest.indices()? {
            let uuid = index.uuid.as_ref().map(|it| Uuid::from_slice(&it.uuid));
            let uuid = uuid
                .and_then(Result::ok)
                .ok_or_else(|| Error::corrupt(format!("index {:?} has no uuid", index.name)))?;
            self.indices.insert(uuid.to_string());
        }
        Ok(())
    }

    fn has(&self, path: &str) -> bool {
        let index = path
            .strip_prefix(INDICES)
            .and_then(|it| it.split('/').nth(1));
        self.files.contains(path) || index.is_some_and(|index| self.indices.contains(index))
    }
}

impl Dataset {
    /// Removes old versions and the files that only they had, and files that writers left behind.
    ///
    /// Rows of versions that stay are never touched; a reader that still has an old version open loses it.
    ///
    /// # Errors
    /// When a manifest or tag cannot be read: then nothing was removed, because nobody knows what it needs.
    pub async fn cleanup(&self, options: &CleanupOptions) -> Result<CleanupOutcome> {
        let store = self.store();
        let now = SystemTime::now();
        // Listed before the manifests are read: what is named by then is seen to be named.
        let files = candidates(store).await?;
        let Some((scheme, versions)) = versions::all(store).await? else {
            return Err(versions::no_table(store).await);
        };
        let (mut manifests, mut commit_ids) = (BTreeMap::new(), BTreeMap::new());
        for version in versions {
            // Removed by another cleanup meanwhile.
            if let Some((file, _)) = versions::read_manifest(store, scheme, version).await? {
                let id = file
                    .transaction
                    .and_then(|mut it| it.properties.remove(COMMIT_ID));
                commit_ids.extend(id.map(|id| (version, id)));
                manifests.insert(version, file.manifest);
            }
        }
        let at_work = AtWork::find(store, &manifests, options, now).await?;
        let mut removed = self.removable(&manifests, options, now).await?;
        removed.retain(|version| *version <= at_work.oldest_base);
        let (mut kept, mut old) = (Named::default(), Named::default());
        for (version, manifest) in &manifests {
            let named = if removed.contains(version) {
                &mut old
            } else {
                &mut kept
            };
            named.add(manifest).map_err(|error| error.at(store.uri()))?;
        }
        let grace = |file: &Listed| match is_marker(file) {
            // As long as its version may be asked for.
            true => options.older_than.max(options.unverified_older_than),
            false => options.unverified_older_than,
        };
        let (mut orphans, mut unneeded) = (Vec::new(), Vec::new());
        for file in files {
            if kept.has(&file.path) {
                continue;
            }
            if old.has(&file.path) {
                unneeded.push(file);
            } else if age(&file, now) >= grace(&file) {
                orphans.push(file);
            }
        }
        if at_work
            .restored
            .iter()
            .any(|version| !manifests.contains_key(version))
        {
            // Another cleanup took the manifest, so nobody knows which of the orphans the restore will name.
            orphans.clear();
        }
        let listed = store.list(VERSIONS).await?;
        let by_path: BTreeMap<&str, &Listed> =
            listed.iter().map(|it| (it.path.as_str(), it)).collect();
        let path = |version: &u64| versions::manifest_path(scheme, *version);
        let old_manifests: Vec<Listed> = removed
            .iter()
            .filter_map(|version| by_path.get(path(version).as_str()).copied().cloned())
            .collect();
        commit_ids.retain(|version, _| removed.contains(version));
        let mut outcome = CleanupOutcome {
            removed_versions: removed.into_iter().collect(),
            ..CleanupOutcome::default()
        };
        orphans.iter().for_each(|file| outcome.add(file));
        old_manifests.iter().for_each(|file| outcome.add(file));
        if !options.dry_run {
            pass(store, "cleanup.before_orphans")?;
            remove(store, &orphans).await?;
            pass(store, "cleanup.before_manifests")?;
            for (version, id) in &commit_ids {
                commit_id::remember(store, id, *version).await?;
            }
            remove(store, &old_manifests).await?;
        }
        // A version restored while we looked needs its files again. Who is about to restore one wrote so before reading
        // its manifest: either the manifest was gone by then, or it is seen here.
        let mut restored = named_since(store, &manifests).await?;
        let at_work = AtWork::find(store, &manifests, options, now).await?;
        for version in at_work.restored {
            if let Some(manifest) = manifests.get(&version) {
                restored.add(manifest)?;
            }
        }
        unneeded.retain(|file| !restored.has(&file.path));
        unneeded.iter().for_each(|file| outcome.add(file));
        if !options.dry_run {
            pass(store, "cleanup.before_unneeded")?;
            remove(store, &unneeded).await?;
            pass(store, "cleanup.before_answer")?;
        }
        Ok(outcome)
    }

    /// The versions that go.
    async fn removable(
        &self,
        manifests: &BTreeMap<u64, Manifest>,
        options: &CleanupOptions,
        now: SystemTime,
    ) -> Result<BTreeSet<u64>> {
        let newest = manifests.keys().next_back().copied().unwrap_or_default();
        let first_kept = newest.min(self.version());
        let tagged: BTreeSet<u64> = self.tags().await?.values().map(|tag| tag.version).collect();
        let keep = usize::try_from(options.keep_versions.unwrap_or(1)).unwrap_or(usize::MAX);
        let now = DateTime::<Utc>::from(now);
        let is_old = |manifest: &Manifest| {
            let age = now.signed_duration_since(manifest.timestamp).to_std();
            // A version of the future is none that is old.
            age.is_ok_and(|age| age >= options.older_than)
        };
        Ok(manifests
            .iter()
            .rev()
            .skip(keep)
            .filter(|(version, manifest)| {
                **version < first_kept && !tagged.contains(version) && is_old(manifest)
            })
            .map(|(version, _)| *version)
            .collect())
    }
}

/// The files of versions that came since `known` was read.
async fn named_since(store: &Store, known: &BTreeMap<u64, Manifest>) -> Result<Named> {
    let mut named = Named::default();
    let last = known.keys().next_back().copied().unwrap_or_default();
    if let Some((scheme, versions)) = versions::all(store).await? {
        for version in versions.into_iter().filter(|version| *version > last) {
            if let Some((file, _)) = versions::read_manifest(store, scheme, version).await? {
                named.add(&file.manifest)?;
            }
        }
    }
    Ok(named)
}

/// What writers at work rely on, by the transactions that no version names.
struct AtWork {
    /// The oldest version that one of them began with.
    oldest_base: u64,
    /// The versions that they may be about to restore.
    restored: BTreeSet<u64>,
}

impl AtWork {
    async fn find(
        store: &Store,
        manifests: &BTreeMap<u64, Manifest>,
        options: &CleanupOptions,
        now: SystemTime,
    ) -> Result<Self> {
        let named: BTreeSet<&str> = manifests
            .values()
            .map(|manifest| manifest.transaction_file.as_str())
            .collect();
        let mut found = Self {
            oldest_base: u64::MAX,
            restored: BTreeSet::new(),
        };
        for file in store.list(TRANSACTIONS).await? {
            if named.contains(file.name()) || age(&file, now) >= options.unverified_older_than {
                continue;
            }
            match versions::read_transaction(store, file.name()).await {
                Ok(Some(transaction)) => {
                    found.oldest_base = found.oldest_base.min(transaction.read_version);
                    if let Operation::Restore { version } = transaction.operation {
                        found.restored.insert(version);
                    }
                }
                // Gone meanwhile, or nobody's: a writer's own is whole as soon as it has its name.
                Ok(None) | Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}

/// Zero for a file that claims to come from the future.
fn age(file: &Listed, now: SystemTime) -> Duration {
    now.duration_since(file.modified).unwrap_or_default()
}

fn is_marker(file: &Listed) -> bool {
    file.path.starts_with(MARKERS)
}

/// The files that a cleanup may remove if no version that stays names them. Anything else in the folder is not ours.
async fn candidates(store: &Store) -> Result<Vec<Listed>> {
    let mut found = Vec::new();
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
            let ends = |extension: &str| file.name().ends_with(extension);
            let is_ours = match folder {
                "data" => ends(".lance"),
                "_deletions" => ends(".arrow") || ends(".bin"),
                TRANSACTIONS => ends(".txn"),
                INDICES => true,
                MARKERS => ends(".json"),
                _ => false,
            };
            let is_staged =
                folder == VERSIONS && external::parse_staged_name(file.name()).is_some();
            let is_abandoned = match store.register() {
                Some(register) if is_staged => {
                    external::is_abandoned(store, register.as_ref(), &file.path).await?
                }
                // Without its register nobody can say.
                _ => false,
            };
            if is_ours || is_abandoned || file.name().starts_with(".tmp") {
                found.push(file);
            }
        }
    }
    Ok(found)
}

/// Removes files in their order, and makes that last.
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
