//! Idempotency tokens: an id that the caller gives to a commit. An id is committed once, however often it is tried.
//!
//! The question whether an id was committed needs an exact answer, at a cost that does not grow with the history of the
//! table. So the id is a property of the transaction, and a small marker file `_refs/commits/{id in hex}.json` must exist
//! before a manifest with this id may be published. The marker names a version V that existed when it was written:
//!
//! - without a marker, the id was never published;
//! - with a marker of V, the id was published after V or not at all, because every writer reads or writes the marker
//!   before it publishes. Only the versions after V are searched;
//! - a marker may also name the version that has the id. It is added after the commit, to save the search.
//!
//! A cleanup that removes a version with an id adds that version to the marker first. So the answer is lost only when a
//! cleanup removes the marker itself, or when a cleanup of another engine removes the version.

use bytes::Bytes;
use pilum_format::paths::VERSIONS;
use pilum_format::{COMMIT_ID, CommitMarker, marker_path};
use pilum_store::Store;

use crate::error::{Error, Result};
use crate::failpoints::pass;
use crate::read::snapshot::Snapshot;
use crate::versions::durable_put::{durable_put, resolve};
use crate::versions::event;
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

/// As [`find`], when the version `known` is known to exist, although a stale listing may not show it.
pub(crate) async fn find_since(
    store: &Store,
    commit_id: &str,
    known: u64,
) -> Result<Option<Snapshot>> {
    let found = search(store, commit_id, known).await?;
    if found.is_some() {
        // The commit is acknowledged now: the writer that published it may have died before it flushed the folder.
        store.sync_folder(VERSIONS).await?;
    }
    Ok(found)
}

async fn search(store: &Store, commit_id: &str, known: u64) -> Result<Option<Snapshot>> {
    match read(store, commit_id).await? {
        Some(marker) => search_after(store, commit_id, marker, known).await,
        None => Ok(None),
    }
}

async fn search_after(
    store: &Store,
    commit_id: &str,
    marker: CommitMarker,
    known: u64,
) -> Result<Option<Snapshot>> {
    if let Some(version) = marker.version {
        return became(store, commit_id, version).await;
    }
    let listed = versions::all(store).await?.map(|(_, versions)| versions);
    let listed = listed.unwrap_or_default();
    let last = listed.last().copied().unwrap_or_default();
    // Versions that a stale listing does not show are read by their numbers.
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
        // A cleanup removed a version, maybe after the marker was read: if it had this id, the marker names it now.
        let marker = read(store, commit_id).await?;
        if let Some(version) = marker.and_then(|marker| marker.version) {
            return became(store, commit_id, version).await;
        }
    }
    Ok(None)
}

/// The version that a marker names.
async fn became(store: &Store, commit_id: &str, version: u64) -> Result<Option<Snapshot>> {
    match Snapshot::at_version(store, version).await {
        Err(Error::NotFound { .. }) => {}
        found => return found.map(Some),
    }
    match Snapshot::try_newest(store).await? {
        // No cleanup removes the newest version: this one was lost, or never existed.
        Some(newest) if newest.version() < version => {
            let reason = format!(
                "the commit marker names version {version}, and the newest is {}: look whether the rows are there, and \
                 commit them with another id if not",
                newest.version()
            );
            Err(Error::corrupt(reason).at(format!("{}/{}", store.uri(), marker_path(commit_id)?)))
        }
        // A cleanup removed it since. It was committed, and the newest version contains it.
        newest => Ok(newest),
    }
}

/// As [`find`]; `None` without an id.
pub(crate) async fn of(store: &Store, commit_id: Option<&str>) -> Result<Option<Snapshot>> {
    match commit_id {
        Some(id) => find(store, id).await,
        None => Ok(None),
    }
}

/// The version to answer instead of `error`, if another call with the same id has committed meanwhile.
pub(crate) async fn instead_of(
    store: &Store,
    commit_id: Option<&str>,
    known: u64,
    error: Error,
) -> Result<Snapshot> {
    match (commit_id, &error) {
        // The outcome of our commit is unknown, so its files must stay.
        (_, Error::CommitUnknown { .. }) | (None, _) => Err(error),
        (Some(id), _) => match find_since(store, id, known).await {
            Ok(Some(snapshot)) => Ok(snapshot),
            _ => Err(error),
        },
    }
}

/// The version that the id was committed as, if it was; else the id is announced: its marker exists from then on, and it
/// may be published. The version `known` exists, whatever a listing says.
pub(crate) async fn find_or_announce(
    store: &Store,
    commit_id: &str,
    known: u64,
) -> Result<Option<Snapshot>> {
    let Some(marker) = read(store, commit_id).await? else {
        pass(store, "commit.before_marker")?;
        announce(store, commit_id, known).await?;
        return Ok(None);
    };
    let found = search_after(store, commit_id, marker, known).await?;
    if found.is_some() {
        // The commit is acknowledged now: the writer that published it may have died before it flushed the folder.
        store.sync_folder(VERSIONS).await?;
    }
    Ok(found)
}

/// Makes the marker of an id that has none.
pub(crate) async fn announce(store: &Store, commit_id: &str, newest: u64) -> Result<()> {
    let marker = CommitMarker::new(commit_id, newest, None).encode()?;
    let (path, marker) = (marker_path(commit_id)?, Bytes::from(marker));
    let operation = "announce the commit";
    match resolve(operation, || store.create(&path, marker.clone())).await {
        // Another call wrote the marker meanwhile, or our own request arrived and its answer was lost: both are as good.
        Ok(()) | Err(pilum_store::Error::AlreadyExists { .. }) => Ok(()),
        // A call that writes the marker at the same time has not committed before we looked, so ours may replace it.
        Err(pilum_store::Error::Unsupported { .. }) if store.register().is_some() => {
            durable_put(store, &path, &marker, operation).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Adds the version to the marker. This only saves a later search, so a failure is a warning in the log and no error.
pub(crate) async fn record_version(store: &Store, commit_id: &str, version: u64) {
    let marker = CommitMarker::new(commit_id, 0, Some(version));
    let recorded = async {
        let path = marker_path(commit_id)?;
        store.put(&path, marker.encode()?.into()).await?;
        Ok::<_, Error>(())
    };
    if let Err(error) = recorded.await {
        let path = marker_path(commit_id).unwrap_or_default();
        event::left_to_others(store, &path, &error);
    }
}

/// Adds the version to the marker if it is not there yet, before a cleanup removes the version: afterwards nothing else
/// says that the id was committed.
pub(crate) async fn remember(store: &Store, commit_id: &str, version: u64) -> Result<()> {
    let is_open = |marker: &CommitMarker| marker.version.is_none();
    if read(store, commit_id).await?.is_none_or(|it| !is_open(&it)) {
        return Ok(());
    }
    let marker = CommitMarker::new(commit_id, 0, Some(version)).encode()?;
    durable_put(
        store,
        &marker_path(commit_id)?,
        &marker.into(),
        "note the commit's version",
    )
    .await
}
