//! Idempotency tokens: a caller's own id for a commit, which commits once however often it is asked for.
//!
//! Whether an id was committed must be answered exactly and at a price that does not grow with the table's
//! history. So the id is a property of the transaction, and before it can be published a small marker object
//! `_refs/commits/{id in hex}.json` must exist that names a version V known at that time. Then:
//!
//! - no marker: the id was never published;
//! - a marker of V: if it was published, then as a version after V, because whoever publishes it sees the
//!   marker, or makes it, first. Only those versions are searched;
//! - a marker that also names the version it became (written after the commit, as a courtesy): that is it.
//!
//! A cleanup that removes the version writes that down first, if nobody did. So the answer is forgotten only when cleanup
//! removes the marker, or when another engine's cleanup removes the version.

use bytes::Bytes;
use pilum_format::paths::VERSIONS;
use pilum_format::{COMMIT_ID, CommitMarker, marker_path};
use pilum_store::Store;

use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;
use crate::versions::durable_put::{insist, put_certainly};
use crate::versions::log as versions;

/// Largest commit marker that is read.
const MAX_MARKER_BYTES: u64 = 4096;

async fn read(store: &Store, commit_id: &str) -> Result<Option<CommitMarker>> {
    let path = marker_path(commit_id)?;
    match store.read(&path, MAX_MARKER_BYTES).await {
        Ok(bytes) => {
            let place = format!("{}/{path}", store.uri());
            let marker = CommitMarker::decode(&bytes, commit_id);
            Ok(Some(marker.map_err(|error| error.at(place))?))
        }
        Err(pilum_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The version that the id was committed as, if it was.
pub(crate) async fn find(store: &Store, commit_id: &str) -> Result<Option<Snapshot>> {
    find_since(store, commit_id, 0).await
}

/// As [`find`], where the version `known` exists, whatever a listing says.
pub(crate) async fn find_since(
    store: &Store,
    commit_id: &str,
    known: u64,
) -> Result<Option<Snapshot>> {
    let found = search(store, commit_id, known).await?;
    if found.is_some() {
        // It is acknowledged now. Whoever gave it its name may have died before he flushed that.
        store.sync_folder(VERSIONS).await?;
    }
    Ok(found)
}

async fn search(store: &Store, commit_id: &str, known: u64) -> Result<Option<Snapshot>> {
    let Some(marker) = read(store, commit_id).await? else {
        return Ok(None);
    };
    if let Some(version) = marker.version {
        return became(store, commit_id, version).await;
    }
    let listed = versions::all(store).await?.map(|(_, versions)| versions);
    let listed = listed.unwrap_or_default();
    let last = listed.last().copied().unwrap_or_default();
    // Versions that an old listing leaves out are asked for by their numbers.
    let unlisted = last.max(marker.after_version).saturating_add(1)..=known;
    let versions = listed
        .into_iter()
        .filter(|version| *version > marker.after_version);
    let mut expected = last.max(known).saturating_sub(marker.after_version);
    for version in versions.chain(unlisted) {
        let snapshot = match Snapshot::at_version(store, version).await {
            Ok(snapshot) => snapshot,
            Err(Error::NotFound { .. }) => continue,
            Err(error) => return Err(error),
        };
        let transaction = snapshot.transaction().await?;
        let is_it = |id: &String| id == commit_id;
        if transaction.is_some_and(|it| it.properties.get(COMMIT_ID).is_some_and(is_it)) {
            return Ok(Some(snapshot));
        }
        expected = expected.saturating_sub(1);
    }
    if expected > 0 {
        // A cleanup took one of them, maybe since the marker was read: if it was this one, the marker says so now.
        let marker = read(store, commit_id).await?;
        if let Some(version) = marker.and_then(|marker| marker.version) {
            return became(store, commit_id, version).await;
        }
    }
    Ok(None)
}

/// A version that the id was committed as.
async fn became(store: &Store, commit_id: &str, version: u64) -> Result<Option<Snapshot>> {
    match Snapshot::at_version(store, version).await {
        Err(Error::NotFound { .. }) => {}
        found => return found.map(Some),
    }
    match Snapshot::try_newest(store).await? {
        // Nobody cleans up the newest version: this one was lost, or never was.
        Some(newest) if newest.version() < version => {
            let reason = format!(
                "the commit marker names version {version}, and the newest is {}: look whether the rows are there, and \
                 commit them with another id if not",
                newest.version()
            );
            Err(Error::corrupt(reason).at(format!("{}/{}", store.uri(), marker_path(commit_id)?)))
        }
        // Cleaned up since; it was committed all the same, and the newest version has it.
        newest => Ok(newest),
    }
}

/// As [`find`], where there may be no id.
pub(crate) async fn of(store: &Store, commit_id: Option<&str>) -> Result<Option<Snapshot>> {
    match commit_id {
        Some(id) => find(store, id).await,
        None => Ok(None),
    }
}

/// What to answer in place of a failure: the version, if another call with the same id committed meanwhile.
pub(crate) async fn instead_of(
    store: &Store,
    commit_id: Option<&str>,
    known: u64,
    error: Error,
) -> Result<Snapshot> {
    match (commit_id, &error) {
        // What became of ours is not known, so its files must stay.
        (_, Error::CommitUnknown { .. }) | (None, _) => Err(error),
        (Some(id), _) => match find_since(store, id, known).await {
            Ok(Some(snapshot)) => Ok(snapshot),
            _ => Err(error),
        },
    }
}

/// Makes the marker if there is none: before the id may be published.
pub(crate) async fn announce(store: &Store, commit_id: &str, newest: u64) -> Result<()> {
    if read(store, commit_id).await?.is_some() {
        return Ok(());
    }
    let marker = CommitMarker::new(commit_id, newest, None).encode()?;
    let (path, marker) = (marker_path(commit_id)?, Bytes::from(marker));
    let operation = "announce the commit";
    match insist(operation, || store.create(&path, marker.clone())).await {
        // Somebody else announced it meanwhile, or we did and nobody said so: as good as ours.
        Ok(()) | Err(pilum_store::Error::AlreadyExists { .. }) => Ok(()),
        // Whoever else announces it now committed nothing before we looked, so replacing its marker is as true.
        Err(pilum_store::Error::Unsupported { .. }) if store.register().is_some() => {
            put_certainly(store, &path, &marker, operation).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes down what the id became. Only a shortcut for later questions: a failure is no failure.
pub(crate) async fn record_version(store: &Store, commit_id: &str, version: u64) {
    let marker = CommitMarker::new(commit_id, 0, Some(version));
    if let (Ok(path), Ok(bytes)) = (marker_path(commit_id), marker.encode()) {
        let _ = store.put(&path, bytes.into()).await;
    }
}

/// Writes down what the id became, if nobody did, before the version goes: from then on nothing else tells.
pub(crate) async fn remember(store: &Store, commit_id: &str, version: u64) -> Result<()> {
    let is_open = |marker: &CommitMarker| marker.version.is_none();
    if read(store, commit_id).await?.is_none_or(|it| !is_open(&it)) {
        return Ok(());
    }
    let marker = CommitMarker::new(commit_id, 0, Some(version)).encode()?;
    put_certainly(
        store,
        &marker_path(commit_id)?,
        &marker.into(),
        "note the commit's version",
    )
    .await
}
