//! Commits: one metadata document takes the place of another, and no writer's change is lost.
//!
//! ```text
//!   1 lock                        on a file system; an object store compares and replaces in one request
//!   2 read the document           or find that there is none
//!   3 apply the change to it      index files of the new state are written; a conflict ends the commit
//!   4 archive what is replaced    if its own commit did not do so, because it failed or because Kartothek wrote it
//!   5 write the schema files      if the change completes them; readers of the old state can read both
//!   6 replace the document        if it is still the one that was read; otherwise begin again at 2
//!   7 archive the new state, write schema files that are not compatible with those of the old one, remove the other form
//! ```
//!
//! A crash before 6 leaves files that nothing refers to. From 6 on the change is committed. Step 7 is repeated by the next
//! commit, except for the archive of a state that Kartothek replaces before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{FieldRef, SchemaRef};
use bytes::Bytes;
use chrono::Utc;
use futures::future::BoxFuture;
use pilum_store::{ObjectLock, failpoint};

use crate::error::{Error, Result};
use crate::history::{
    Bookkeeping, Version, archive, archived, digest, lock_key, now_text, read_archived,
    schema_copy_key,
};
use crate::json_text::JsonText;
use crate::metadata::{CREATION_TIME, DatasetMetadata, IndexReference};
use crate::names::{DocumentForm, schema_key};
use crate::parsed::ParsedDocument;
use crate::schema::{TableSchema, normalized_type};
use crate::state::{Place, SchemaOfTable, State, load};
use crate::write::remove_files;
use crate::write::schema_file::schema_bytes;

/// Attempts of a commit on an object store, where each attempt may find that another writer was faster.
const ATTEMPTS: u32 = 200;
/// Lost answers of the store, after which the outcome stays unknown.
const UNCLEAR_ATTEMPTS: u32 = 5;
/// How long a commit on a file system waits for the lock.
const LOCK_WAIT: Duration = Duration::from_secs(120);
/// The operation of a state that another library wrote.
const FOREIGN: &str = "foreign";
/// The target of events.
const EVENTS: &str = "pilum::kartothek";

/// The fail points of this crate.
pub const FAIL_POINTS: [&str; 6] = [
    "kartothek.before_indices",
    "kartothek.before_schema",
    "kartothek.before_publish",
    "kartothek.after_publish",
    "kartothek.before_archive",
    "kartothek.before_answer",
];

/// Passes the place `name` while working on the dataset `uuid`.
pub(crate) fn pass(place: &Place, name: &'static str) -> Result<()> {
    failpoint::hit(name, &place.shown()).map_err(|source| {
        pilum_store::Error::Io {
            path: place.shown(),
            operation: "go on",
            source,
        }
        .into()
    })
}

/// The state that a change makes of another.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) document: DatasetMetadata,
    /// The schema of each table, in the normalised form. Tables that are missing keep theirs.
    pub(crate) schemas: BTreeMap<String, SchemaRef>,
    /// Whether readers of the state before can read the new schemas.
    pub(crate) is_compatible: bool,
    /// Index files that were written for this attempt.
    pub(crate) new_files: Vec<String>,
}

/// A change that is applied to the newest state, again if another writer committed in between.
pub(crate) trait Change: Send + Sync {
    /// What the change does, for the list of versions.
    fn operation(&self) -> &'static str;

    /// The form of a new document.
    fn form(&self) -> DocumentForm {
        DocumentForm::Json
    }

    /// Makes the next state of the newest one, or of nothing.
    fn apply<'a>(
        &'a mut self,
        place: &'a Place,
        state: Option<&'a State>,
    ) -> BoxFuture<'a, Result<Next>>;
}

/// A change that was committed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Committed {
    /// The document as it is now.
    pub document: Arc<DatasetMetadata>,
    /// The number of the version.
    pub version: u64,
    /// Attempts that it took.
    pub attempts: u32,
}

/// What the attempts of one commit left behind.
#[derive(Debug, Default)]
struct Tried {
    /// The versions that they tried to publish.
    versions: Vec<Version>,
    /// The index files that they wrote.
    files: Vec<String>,
    /// How many answers of the store were lost.
    unclear: u32,
}

/// Commits a change.
pub(crate) async fn commit(place: &Place, change: &mut dyn Change) -> Result<Committed> {
    let commit = crate::names::new_label();
    let mut tried = Tried::default();
    for attempt in 1..=ATTEMPTS {
        let lock = lock(place).await?;
        let state = load(place).await?;
        if let Some((document, version)) =
            already_done(place, state.as_ref(), &commit, &tried).await?
        {
            remove_unused(place, &document, &tried.files).await;
            return Ok(Committed {
                document,
                version,
                attempts: attempt,
            });
        }
        let applied = change.apply(place, state.as_ref()).await;
        let next = match applied {
            Ok(next) => next,
            Err(error) => {
                // No attempt before was published: their index files are unused.
                remove_files(&place.store, &tried.files).await;
                return Err(error);
            }
        };
        tried.files.extend(next.new_files.iter().cloned());
        let published = publish(
            place,
            change,
            state.as_ref(),
            next,
            (commit.as_str(), &mut tried),
        )
        .await;
        drop(lock);
        match published {
            Ok(Some((document, version))) => {
                remove_unused(place, &document, &tried.files).await;
                return Ok(Committed {
                    document,
                    version,
                    attempts: attempt,
                });
            }
            Ok(None) => pause(attempt).await,
            Err(Error::Store(error @ pilum_store::Error::Unclear { .. })) => {
                // The next attempt reads what there is. If that is impossible, the outcome stays unknown.
                tried.unclear += 1;
                if tried.unclear == UNCLEAR_ATTEMPTS || load(place).await.is_err() {
                    return Err(error.into());
                }
                pause(attempt).await;
            }
            // Files of attempts stay: one of them may be published.
            Err(error) => return Err(error),
        }
    }
    Err(Error::Conflict {
        path: place.shown(),
        reason: format!(
            "other writers committed before each of {ATTEMPTS} attempts; try again when there are fewer of them"
        ),
        retryable: true,
    })
}

/// The document and version of an earlier attempt that was published although its answer was lost, whether it is the newest
/// state or was replaced since: who replaces a state archives it before.
async fn already_done(
    place: &Place,
    state: Option<&State>,
    commit: &str,
    tried: &Tried,
) -> Result<Option<(Arc<DatasetMetadata>, u64)>> {
    if tried.versions.is_empty() {
        return Ok(None);
    }
    if let Some(state) = state
        && let Some(book) = &state.document.book
        && book.commit == commit
    {
        return Ok(Some((Arc::clone(state.document.metadata()), book.version)));
    }
    for version in &tried.versions {
        let (bytes, form) = match read_archived(&place.store, version, &place.limits).await {
            Ok(read) => read,
            Err(Error::Store(pilum_store::Error::NotFound { .. })) => continue,
            Err(error) => return Err(error),
        };
        let path = format!("{}/{}", place.store.uri(), version.key);
        let document = DatasetMetadata::parse(&bytes, form, &path, &place.uuid, &place.limits)?;
        if Bookkeeping::of(&document).is_some_and(|it| it.commit == commit) {
            return Ok(Some((Arc::new(document), version.version)));
        }
    }
    Ok(None)
}

/// Removes the index files that attempts wrote and that the committed document does not name.
async fn remove_unused(place: &Place, document: &DatasetMetadata, files: &[String]) {
    let is_used = |key: &String| {
        let mut used = document.indices.values();
        used.any(|it| matches!(it, IndexReference::File(known) if known == key))
    };
    let unused: Vec<String> = files.iter().filter(|it| !is_used(it)).cloned().collect();
    remove_files(&place.store, &unused).await;
}

async fn pause(attempt: u32) {
    // Different pauses in different writers, so that they do not meet again: the label is a random number.
    let random = crate::names::new_label();
    let part = random
        .bytes()
        .fold(0_u64, |sum, byte| (sum * 31 + u64::from(byte)) % 1000);
    let longest = 5_u64 << attempt.min(6);
    tokio::time::sleep(Duration::from_millis(longest * part / 1000)).await;
}

/// Takes the lock of commits on a file system.
pub(crate) async fn lock(place: &Place) -> Result<Option<ObjectLock>> {
    if !place.store.is_local() {
        return Ok(None);
    }
    let key = lock_key(&place.uuid);
    let started = std::time::Instant::now();
    loop {
        if let Some(lock) = place.store.try_lock(&key)? {
            return Ok(Some(lock));
        }
        if started.elapsed() > LOCK_WAIT {
            return Err(Error::Conflict {
                path: place.shown(),
                reason: format!(
                    "another process has held the lock {key} for {} seconds; try again when it has ended",
                    LOCK_WAIT.as_secs()
                ),
                retryable: true,
            });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Steps 4 to 7. None if another writer was faster.
async fn publish(
    place: &Place,
    change: &dyn Change,
    state: Option<&State>,
    next: Next,
    (commit, tried): (&str, &mut Tried),
) -> Result<Option<(Arc<DatasetMetadata>, u64)>> {
    let replaced = match state {
        Some(state) => Some(archive_replaced(place, state).await?),
        None => archived(&place.store, &place.uuid)
            .await?
            .last()
            .map(|it| it.version),
    };
    let version = replaced.map_or(1, |it| it.saturating_add(1));
    let schemas = next_schemas(state, &next)?;
    pass(place, "kartothek.before_schema")?;
    for file in schemas.values() {
        keep_copy(place, state, file).await?;
    }
    let may_come_before = next.is_compatible || state.is_none();
    if may_come_before {
        publish_schemas(place, &schemas).await?;
    }
    let book = Bookkeeping {
        version,
        commit: commit.to_owned(),
        time: now_text(),
        operation: change.operation().to_owned(),
        schemas: schemas
            .iter()
            .map(|(table, it)| (table.clone(), it.digest.clone()))
            .collect(),
        document: String::new(),
    };
    let mut document = next.document;
    if !document.user.contains_key(CREATION_TIME) {
        document.user.insert(
            CREATION_TIME.to_owned(),
            JsonText::of_string(&creation_time()),
        );
    }
    book.clone().put(&mut document)?;
    let form = state.map_or_else(|| change.form(), |it| it.document.form);
    let bytes = Bytes::from(document.to_bytes(form)?);
    pass(place, "kartothek.before_publish")?;
    let version_name = Version::named(
        &place.uuid,
        version,
        book.time().unwrap_or_else(Utc::now),
        change.operation(),
    );
    tried.versions.push(version_name.clone());
    let key = place.document(form);
    let published = match state {
        Some(state) => {
            place
                .store
                .replace(&key, bytes.clone(), &state.version)
                .await
        }
        None => place.store.create(&key, bytes.clone()).await,
    };
    match published {
        Ok(()) => {}
        Err(pilum_store::Error::Changed { .. } | pilum_store::Error::AlreadyExists { .. }) => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    }
    let late_schemas = (!may_come_before).then_some(&schemas);
    match after_publish(place, &version_name, (&bytes, form), late_schemas).await {
        Ok(()) => {
            let committed = ParsedDocument::of_commit(document, bytes, form, &place.limits);
            place.keep(&committed);
            Ok(Some((Arc::clone(committed.metadata()), version)))
        }
        // The change is committed: the next attempt finds it.
        Err(error) => Err(pilum_store::Error::Unclear {
            path: place.shown(),
            source: std::io::Error::other(error.to_string()),
        }
        .into()),
    }
}

/// Naive UTC, as Kartothek writes it.
pub(crate) fn creation_time() -> String {
    Utc::now()
        .naive_utc()
        .format("%Y-%m-%dT%H:%M:%S%.6f")
        .to_string()
}

/// Archives the state that is about to be replaced, if nobody did. Returns its version.
async fn archive_replaced(place: &Place, state: &State) -> Result<u64> {
    if let Some(book) = state.own_book()? {
        let time = book.time().unwrap_or_default();
        let version = Version::named(&place.uuid, book.version, time, &book.operation);
        if !place.store.exists(&version.key).await? {
            archive(
                &place.store,
                &version,
                &state.document.bytes,
                state.document.form,
                &place.limits,
            )
            .await?;
        }
        return Ok(book.version);
    }
    // Another library wrote this state: its time is that of the object, its version follows those that are known.
    let time = state.modified(place).await?;
    let of_archive = archived(&place.store, &place.uuid).await?;
    if let Some(last) = of_archive.last() {
        let same = Version::named(&place.uuid, last.version, time, FOREIGN);
        if same.key == last.key {
            return Ok(last.version);
        }
    }
    let last = of_archive.last().map_or(0, |it| it.version);
    let last = last.max(state.document.book.as_ref().map_or(0, |it| it.version));
    let version = Version::named(&place.uuid, last.saturating_add(1), time, FOREIGN);
    archive(
        &place.store,
        &version,
        &state.document.bytes,
        state.document.form,
        &place.limits,
    )
    .await?;
    Ok(version.version)
}

/// The schema files of the next state.
fn next_schemas(state: Option<&State>, next: &Next) -> Result<BTreeMap<String, SchemaOfTable>> {
    let mut schemas: BTreeMap<String, SchemaOfTable> = match (state, next.is_compatible) {
        (Some(state), true) => state.schemas.clone(),
        _ => BTreeMap::new(),
    };
    for (table, schema) in &next.schemas {
        let is_same = schemas.get(table).is_some_and(|known| {
            known.schema.pandas().is_some() && are_same(known.schema.schema(), schema)
        });
        if is_same {
            continue;
        }
        let bytes = Bytes::from(schema_bytes(schema)?);
        schemas.insert(
            table.clone(),
            SchemaOfTable {
                schema: TableSchema::of_arrow(schema, "the new rows")?,
                digest: digest(&bytes),
                bytes,
                is_published: false,
            },
        );
    }
    Ok(schemas)
}

/// Whether a stored schema is the normalised one, so that its file can stay.
fn are_same(stored: &SchemaRef, schema: &SchemaRef) -> bool {
    let is_same = |(a, b): (&FieldRef, &FieldRef)| {
        a.name() == b.name() && a.is_nullable() && normalized_type(a.data_type()) == *b.data_type()
    };
    let pairs = stored.fields().iter().zip(schema.fields());
    stored.fields().len() == schema.fields().len() && pairs.into_iter().all(is_same)
}

/// Keeps the bytes of a schema under their digest, unless the state before has done so.
async fn keep_copy(place: &Place, state: Option<&State>, file: &SchemaOfTable) -> Result<()> {
    let book = state.and_then(|it| it.document.book.as_ref());
    if book.is_some_and(|it| it.schemas.values().any(|known| *known == file.digest)) {
        return Ok(());
    }
    let key = schema_copy_key(&place.uuid, &file.digest);
    match place.store.create(&key, file.bytes.clone()).await {
        Ok(()) | Err(pilum_store::Error::AlreadyExists { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn publish_schemas(place: &Place, schemas: &BTreeMap<String, SchemaOfTable>) -> Result<()> {
    for (table, file) in schemas {
        if !file.is_published {
            let key = schema_key(&place.uuid, table);
            place.store.put(&key, file.bytes.clone()).await?;
        }
    }
    Ok(())
}

/// What follows a commit and cannot undo it: a failure is told in an event, and the next commit does it again.
async fn after_publish(
    place: &Place,
    version: &Version,
    (bytes, form): (&Bytes, DocumentForm),
    schemas: Option<&BTreeMap<String, SchemaOfTable>>,
) -> Result<()> {
    pass(place, "kartothek.after_publish")?;
    if let Some(schemas) = schemas
        && let Err(error) = publish_schemas(place, schemas).await
    {
        tracing::warn!(target: EVENTS, dataset = place.shown(), %error, "the new schema files were not written; the next commit does it");
    }
    pass(place, "kartothek.before_archive")?;
    if let Err(error) = archive(&place.store, version, bytes, form, &place.limits).await {
        tracing::warn!(target: EVENTS, dataset = place.shown(), %error, "the new version was not archived; the next commit does it");
    }
    // JSON wins over MessagePack, so the other form of a JSON document is stale.
    if form == DocumentForm::Json
        && let Err(error) = place.store.delete(&place.document(form.other())).await
    {
        tracing::warn!(target: EVENTS, dataset = place.shown(), %error, "the stale other form of the document was not removed");
    }
    pass(place, "kartothek.before_answer")
}
