//! Garbage collection, deletion and copies of a dataset.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::stream::{StreamExt, TryStreamExt};
use pilum_store::Listed;

use crate::commit::{creation_time, lock};
use crate::error::{Error, Result};
use crate::history::{
    BOOKKEEPING, Bookkeeping, Version, marker_folder, private_folder, read_archived,
    schema_copies_folder,
};
use crate::json_text::JsonText;
use crate::metadata::{CREATION_TIME, DatasetMetadata, IndexReference};
use crate::names::{
    DocumentForm, INDICES, SCHEMA_NAME, check_uuid, metadata_key, schema_key, single_slashes,
    stored_key,
};
use crate::restore::versions;
use crate::state::{Place, load, schema_of, tables_of};

/// A write that began before this time has ended, in whatever way.
const LONGEST_WRITE: Duration = Duration::from_secs(24 * 3600);
/// Requests at once.
const AT_ONCE: usize = 16;

/// Which earlier versions garbage collection keeps, with their files.
#[derive(Debug, Clone, Default)]
pub struct Retention {
    /// So many of the newest versions; the current one is always kept.
    pub keep_versions: usize,
    /// Those that were replaced after this time.
    pub newer_than: Option<DateTime<Utc>>,
    /// Only report what would be removed.
    pub dry_run: bool,
}

/// What garbage collection removed, or would remove.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Garbage {
    /// The keys, sorted.
    pub keys: Vec<String>,
    /// Their bytes.
    pub num_bytes: u64,
    /// Numbers of the versions that can no longer be opened.
    pub versions: Vec<u64>,
    /// Keys that nothing refers to, and that were kept because a write is in progress.
    pub kept: Vec<String>,
}

/// Removes files that neither the newest state nor one that is kept refers to.
pub(crate) async fn collect(place: &Place, retention: &Retention) -> Result<Garbage> {
    // On a file system no commit runs meanwhile. Elsewhere the listing comes before the document: what a commit of the time
    // between made is not in the listing, or is newer than the marker of its write.
    let _lock = lock(place).await?;
    let listed = place.store.list_recursive(&place.uuid).await?;
    let all = versions(place).await?;
    let state = load(place).await?.ok_or_else(|| Error::NotFound {
        path: place.shown(),
        reason: "there is no such dataset".to_owned(),
    })?;
    let (kept, expired) = divided(all, retention);
    let mut needed = Needed::default();
    let tables = tables_of(place, &state.document).await?;
    needed.add(&state.document);
    for version in &kept {
        match read_archived(&place.store, version, &place.limits).await {
            Ok((bytes, form)) => {
                let path = format!("{}/{}", place.store.uri(), version.key);
                let document =
                    DatasetMetadata::parse(&bytes, form, &path, &place.uuid, &place.limits)?;
                needed.add(&document);
            }
            // The newest version is archived after its commit.
            Err(Error::Store(pilum_store::Error::NotFound { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    let is_implicit = state.document.partitions.is_none();
    let begun = oldest_write(place, &listed);
    let mut garbage = Garbage::default();
    let expired_keys: HashSet<&str> = expired.iter().map(|it| it.key.as_str()).collect();
    for file in &listed {
        let Some(rest) = file.path.strip_prefix(&format!("{}/", place.uuid)) else {
            continue;
        };
        let (folder, name) = rest.split_once('/').unwrap_or(("", rest));
        let is_of_table = tables.iter().any(|it| it == folder);
        let is_garbage = match folder {
            INDICES => !needed.keys.contains(&file.path),
            _ if is_of_table && name == SCHEMA_NAME => false,
            _ if is_of_table => !is_implicit && !needed.keys.contains(&file.path),
            _ if file.path.starts_with(&schema_copies_folder(&place.uuid)) => !needed
                .schemas
                .contains(file.path.rsplit('/').next().unwrap_or_default()),
            _ if file.path.starts_with(&marker_folder(&place.uuid)) => is_over(file),
            _ => expired_keys.contains(file.path.as_str()),
        };
        if !is_garbage {
            continue;
        }
        let is_private = file.path.starts_with(&private_folder(&place.uuid));
        if !is_private && begun.is_some_and(|begun| file.modified >= begun) {
            garbage.kept.push(file.path.clone());
            continue;
        }
        garbage.num_bytes += file.size;
        garbage.keys.push(file.path.clone());
    }
    garbage.versions = expired.iter().map(|it| it.version).collect();
    if !retention.dry_run {
        // Archives first: a version whose files are going is not offered any more.
        let (archives, files): (Vec<&String>, Vec<&String>) = garbage
            .keys
            .iter()
            .partition(|key| expired_keys.contains(key.as_str()));
        delete_all(place, archives).await?;
        delete_all(place, files).await?;
    }
    Ok(garbage)
}

/// What must stay.
#[derive(Default)]
struct Needed {
    keys: HashSet<String>,
    /// Digests of schema files.
    schemas: HashSet<String>,
}

impl Needed {
    fn add(&mut self, document: &DatasetMetadata) {
        for partition in document.partitions.iter().flat_map(BTreeMap::values) {
            // As the store lists them: a file system has one slash where a key has several.
            for key in partition.files.values() {
                self.keys.insert(single_slashes(key).into_owned());
                self.keys.insert(key.clone());
            }
        }
        for index in document.indices.values() {
            if let IndexReference::File(key) = index {
                self.keys.insert(key.clone());
            }
        }
        if let Some(book) = Bookkeeping::of(document) {
            self.schemas.extend(book.schemas.into_values());
        }
    }
}

/// The versions that are kept, and those that are not. The last one is the newest.
fn divided(all: Vec<Version>, retention: &Retention) -> (Vec<Version>, Vec<Version>) {
    let count = all.len();
    let keep = retention.keep_versions.max(1);
    // A version was in use until the next one took its place.
    let replaced: Vec<Option<DateTime<Utc>>> = (0..count)
        .map(|at| all.get(at + 1).map(|it| it.time))
        .collect();
    let mut kept = Vec::new();
    let mut expired = Vec::new();
    for (at, (version, replaced)) in all.into_iter().zip(replaced).enumerate() {
        let is_young = match (replaced, retention.newer_than) {
            (None, _) => true,
            (Some(replaced), Some(limit)) => replaced >= limit,
            (Some(_), None) => false,
        };
        match is_young || at + keep >= count {
            true => kept.push(version),
            false => expired.push(version),
        }
    }
    (kept, expired)
}

/// When the oldest write began that may still run.
fn oldest_write(place: &Place, listed: &[Listed]) -> Option<SystemTime> {
    let folder = format!("{}/", marker_folder(&place.uuid));
    let markers = listed.iter().filter(|it| it.path.starts_with(&folder));
    markers
        .filter(|it| !is_over(it))
        .map(|it| it.modified)
        .min()
}

fn is_over(marker: &Listed) -> bool {
    let age = SystemTime::now().duration_since(marker.modified);
    age.is_ok_and(|age| age > LONGEST_WRITE)
}

async fn delete_all(place: &Place, keys: Vec<&String>) -> Result<()> {
    let folders: BTreeSet<&str> = keys
        .iter()
        .map(|key| key.rsplit_once('/').map_or("", |it| it.0))
        .collect();
    let deleted = keys.iter().map(|key| place.store.delete(key));
    let deleted = futures::stream::iter(deleted.collect::<Vec<_>>());
    deleted
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    for folder in folders {
        place.store.sync_folder(folder).await?;
    }
    Ok(())
}

/// Removes a dataset: both forms of the document first, so that nobody reads a dataset without files, then everything else.
pub(crate) async fn delete(place: &Place) -> Result<Vec<String>> {
    let lock = lock(place).await?;
    let documents =
        [DocumentForm::Json, DocumentForm::MessagePack].map(|form| metadata_key(&place.uuid, form));
    let mut keys = Vec::new();
    for key in &documents {
        if place.store.exists(key).await? {
            keys.push(key.clone());
        }
    }
    if keys.is_empty() {
        return Err(Error::NotFound {
            path: place.shown(),
            reason: "there is no such dataset".to_owned(),
        });
    }
    delete_all(place, keys.iter().collect()).await?;
    let listed = place.store.list_recursive(&place.uuid).await?;
    let files: Vec<String> = listed.into_iter().map(|it| it.path).collect();
    delete_all(place, files.iter().collect()).await?;
    drop(lock);
    keys.extend(files);
    Ok(keys)
}

/// Copies the newest state to another name or store. Only the prefix of keys is replaced.
pub(crate) async fn copy(
    source: &Place,
    target: &Place,
    user: &BTreeMap<String, JsonText>,
) -> Result<DatasetMetadata> {
    check_uuid(&target.uuid)?;
    if source.shown() == target.shown() {
        return Err(Error::invalid(
            "the target of the copy",
            "it is the dataset itself; choose another name or store",
        ));
    }
    let state = load(source).await?.ok_or_else(|| Error::NotFound {
        path: source.shown(),
        reason: "there is no such dataset".to_owned(),
    })?;
    if load(target).await?.is_some() {
        return Err(Error::AlreadyExists {
            path: target.shown(),
            reason: "there is a dataset of this name; delete it first".to_owned(),
        });
    }
    let mut document = DatasetMetadata::clone(&state.document);
    let mut keys: Vec<(String, String)> = Vec::new();
    let mut moved = |key: &mut String| -> Result<()> {
        let rest = key.strip_prefix(&source.uuid);
        let rest = rest.filter(|it| it.starts_with('/') || it.starts_with('.'));
        let rest = rest.ok_or_else(|| {
            Error::corrupt(
                source.shown(),
                format!("it refers to {key:?}, which is no file of this dataset"),
            )
        })?;
        let new = format!("{}{rest}", target.uuid);
        let from = stored_key(&source.store, key).into_owned();
        let to = stored_key(&target.store, &new).into_owned();
        keys.push((from, to));
        *key = new;
        Ok(())
    };
    for partition in document
        .partitions
        .iter_mut()
        .flat_map(BTreeMap::values_mut)
    {
        partition.files.values_mut().try_for_each(&mut moved)?;
    }
    for index in document.indices.values_mut() {
        if let IndexReference::File(key) = index {
            moved(key)?;
        }
    }
    if document.partitions.is_none() {
        for listed in source.store.list_recursive(&source.uuid).await? {
            if listed.path.ends_with(crate::names::DATA_SUFFIX)
                && !listed
                    .path
                    .starts_with(&format!("{}/{INDICES}/", source.uuid))
            {
                moved(&mut listed.path.clone())?;
            }
        }
    }
    let book = Bookkeeping::of(&document);
    for table in tables_of(source, &document).await? {
        let expected = book.as_ref().and_then(|it| it.schemas.get(&table));
        let found = schema_of(source, &table, expected.map(String::as_str)).await?;
        target
            .store
            .put(&schema_key(&target.uuid, &table), found.into_bytes())
            .await?;
    }
    let copies = keys.into_iter().map(|(from, to)| async move {
        let bytes = source.store.read(&from, u64::MAX).await?;
        match target.store.create(&to, bytes).await {
            // Left by a copy that did not come to its end.
            Err(pilum_store::Error::AlreadyExists { .. }) => {
                let bytes = source.store.read(&from, u64::MAX).await?;
                target.store.put(&to, bytes).await
            }
            done => done,
        }
    });
    let copies = futures::stream::iter(copies.collect::<Vec<_>>());
    copies
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    document.uuid.clone_from(&target.uuid);
    document.user.remove(BOOKKEEPING);
    for (name, value) in user {
        document.user.insert(name.clone(), value.clone());
    }
    document.user.insert(
        CREATION_TIME.to_owned(),
        JsonText::of_string(&creation_time()),
    );
    let bytes = Bytes::from(document.to_bytes(DocumentForm::Json)?);
    let key = metadata_key(&target.uuid, DocumentForm::Json);
    target
        .store
        .create(&key, bytes)
        .await
        .map_err(|error| match error {
            pilum_store::Error::AlreadyExists { path } => Error::AlreadyExists {
                path,
                reason: "another writer made a dataset of this name meanwhile".to_owned(),
            },
            other => other.into(),
        })?;
    Ok(document)
}
