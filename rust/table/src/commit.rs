//! The commit: publishing the next version, exactly once or not at all.
//!
//! ```text
//! 1 put _transactions/{read version}-{uuid}.txn    a crash leaves a file that nothing refers to
//! 2 list _versions, read every version since        conflict check, oldest first; our uuid among them = done
//! 3 build the manifest of newest + 1                pure
//! 4 create it if absent                             the instant of the commit
//!     created          done
//!     name taken       back to 2: read who has it; it may be us, when an earlier answer was lost
//!     answer unclear   back to 2: the version is there (then its uuid tells) or it is tried again
//!     failed           certain: nothing was written
//! ```
//!
//! Step 4 is retried under the same name as long as the name is free, so a create that lands late either is
//! the one that counts or finds its name taken. Giving up while a create is unaccounted for is
//! [`Error::CommitUnknown`], and then nothing is cleaned up.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow_array::ArrayRef;
use chrono::{DateTime, Utc};
use pilum_store::Store;
use rand::Rng;

use crate::apply::{Surroundings, apply, check_writable};
use crate::commit_id::{self, COMMIT_ID};
use crate::conflict::{Outcome, Reason, check};
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::manifest_file::ManifestFile;
use crate::naming::NamingScheme;
use crate::snapshot::Snapshot;
use crate::transaction::{Operation, Transaction};
use crate::versions::{self, TRANSACTIONS, manifest_path};

/// How often a commit is tried again after losing a race.
pub const DEFAULT_RETRIES: u32 = 20;

/// First and longest pause between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How to commit.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommitOptions {
    /// Attempts after the first one. 0: an overwrite fails if the table changed since it was read.
    pub retries: u32,
    /// The caller's id: the same id is committed once, however often it is asked for.
    pub commit_id: Option<String>,
    /// Fail if the table exists.
    pub must_create: bool,
    /// Give the rows of a new table stable ids; an existing table keeps what it has.
    pub stable_row_ids: bool,
    /// Dictionary values for the columns of a new schema, by field id.
    pub dictionaries: BTreeMap<i32, ArrayRef>,
}

impl Default for CommitOptions {
    fn default() -> Self {
        Self {
            retries: DEFAULT_RETRIES,
            commit_id: None,
            must_create: false,
            stable_row_ids: false,
            dictionaries: BTreeMap::new(),
        }
    }
}

/// A commit that happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Committed {
    /// The version that it made.
    pub snapshot: Snapshot,
    /// How many attempts it took; 0 if it was committed before.
    pub attempts: u32,
    /// An earlier call with the same commit id had committed already: nothing was written, and what this call
    /// prepared is not part of the table.
    pub was_committed_before: bool,
}

/// Publishes `transaction` as the next version of the table in `store`.
///
/// `base` is the version that the work was done on, `transaction.read_version`; `None` for a table that did
/// not exist.
///
/// # Errors
/// [`Error::Conflict`] when another commit forbids this one, [`Error::AlreadyExists`] under
/// [`CommitOptions::must_create`], [`Error::Contention`] when every attempt lost, [`Error::CommitUnknown`] when
/// nobody can say. After every other error nothing was committed.
pub async fn commit(
    store: &Store,
    base: Option<&Snapshot>,
    mut transaction: Transaction,
    options: &CommitOptions,
) -> Result<Committed> {
    if let Some(base) = base {
        check_writable(base.manifest()).map_err(|error| error.at(store.uri()))?;
    }
    if let Some(id) = &options.commit_id {
        if let Some(snapshot) = commit_id::find(store, id).await? {
            return Ok(Committed {
                snapshot,
                attempts: 0,
                was_committed_before: true,
            });
        }
        commit_id::announce(store, id, base.map_or(0, Snapshot::version)).await?;
        transaction
            .properties
            .insert(COMMIT_ID.to_owned(), id.clone());
    }
    let file = format!("{TRANSACTIONS}/{}", transaction.file_name());
    put_certainly(store, &file, &transaction).await?;
    let mut attempt = Attempt {
        store,
        transaction: &transaction,
        options,
        checked: transaction.read_version,
        current: base
            .filter(|base| base.version() == transaction.read_version)
            .cloned(),
        unclear: None,
    };
    let result = attempt.run().await;
    if let Ok(committed) = &result
        && let Some(id) = &options.commit_id
    {
        commit_id::settle(store, id, committed.snapshot.version()).await;
    }
    let is_unused = match &result {
        Ok(committed) => committed.was_committed_before,
        Err(Error::CommitUnknown { .. }) => false,
        Err(_) => true,
    };
    if is_unused {
        // Nothing refers to it. If it stays, cleanup takes it.
        let _ = store.delete(&file).await;
    }
    result
}

/// Writes the transaction file. Its name is ours alone, so an unclear answer is settled by writing again.
async fn put_certainly(store: &Store, path: &str, transaction: &Transaction) -> Result<()> {
    let bytes = transaction.encode();
    let mut result = store.put(path, bytes.clone()).await;
    for _ in 0..3 {
        if !matches!(result, Err(pilum_store::Error::Unclear { .. })) {
            break;
        }
        result = store.put(path, bytes.clone()).await;
    }
    match result {
        Ok(()) => Ok(()),
        // The version was never offered to anybody, so this is a plain failure.
        Err(pilum_store::Error::Unclear { path, source }) => Err(pilum_store::Error::Io {
            path,
            operation: "write the transaction",
            source,
        }
        .into()),
        Err(error) => Err(error.into()),
    }
}

struct Attempt<'a> {
    store: &'a Store,
    transaction: &'a Transaction,
    options: &'a CommitOptions,
    /// Every version up to this one goes together with ours.
    checked: u64,
    /// The newest version known.
    current: Option<Snapshot>,
    /// A create without an answer: its version and what the store said.
    unclear: Option<(u64, pilum_store::Error)>,
}

impl Attempt<'_> {
    async fn run(&mut self) -> Result<Committed> {
        let most = self.options.retries.saturating_add(1);
        for attempt in 1..=most {
            if attempt > 1 {
                pause(attempt).await;
            }
            match self.once().await {
                Ok(Some((snapshot, was_committed_before))) => {
                    return Ok(Committed {
                        snapshot,
                        attempts: attempt,
                        was_committed_before,
                    });
                }
                Ok(None) => {}
                // While a create is unaccounted for, trouble with the store is no answer either.
                Err(Error::Store(_)) if self.unclear.is_some() && attempt < most => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Err(self.failed(Error::Contention {
            uri: self.store.uri().to_owned(),
            attempts: most,
        }))
    }

    /// The error to report: an unaccounted create outweighs every other.
    fn failed(&mut self, error: Error) -> Error {
        match self.unclear.take() {
            Some((version, source)) => Error::CommitUnknown {
                uri: self.store.uri().to_owned(),
                version,
                transaction: self.transaction.uuid.clone(),
                source,
            },
            None => error,
        }
    }

    /// One attempt. `None`: another writer took the name, or nobody knows.
    async fn once(&mut self) -> Result<Option<(Snapshot, bool)>> {
        let newest = versions::newest(self.store).await?;
        let scheme = newest.map_or(NamingScheme::V2, |(scheme, _)| scheme);
        let newest = newest.map_or(0, |(_, version)| version);
        if newest < self.transaction.read_version {
            return Err(versions::no_table(self.store).await);
        }
        if let Some(found) = self.check_since(scheme, newest).await? {
            return Ok(Some(found));
        }
        let manifest = self.next_manifest().await?;
        let version = manifest.version;
        let file = ManifestFile {
            manifest,
            transaction: Some(self.transaction.clone()),
        };
        let bytes = file.encode().map_err(|error| error.at(self.store.uri()))?;
        // Made before the version is published: afterwards nothing may fail.
        let snapshot = Snapshot::new(self.store, file, scheme, bytes.len() as u64).await?;
        match self
            .store
            .create(&manifest_path(scheme, version), bytes)
            .await
        {
            Ok(()) => {
                self.unclear = None;
                Ok(Some((snapshot, false)))
            }
            Err(pilum_store::Error::AlreadyExists { .. }) => Ok(None),
            Err(error @ pilum_store::Error::Unclear { .. }) => {
                self.unclear = Some((version, error));
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Checks the versions that came since, oldest first. Finds our own commit among them, if it is there.
    async fn check_since(
        &mut self,
        scheme: NamingScheme,
        newest: u64,
    ) -> Result<Option<(Snapshot, bool)>> {
        // The manifest to build on is the newest one, whether or not it is news.
        let is_known = self
            .current
            .as_ref()
            .is_some_and(|current| current.version() == newest);
        let first = if is_known || newest > self.checked {
            self.checked + 1
        } else {
            newest
        };
        for version in first.max(1)..=newest {
            let theirs = self.load(scheme, version).await?;
            if version > self.checked {
                if let Some(found) = self.meet(&theirs).await? {
                    return Ok(Some(found));
                }
                self.checked = version;
                // The name of an unclear create is somebody else's, so that create did not happen.
                self.unclear.take_if(|(unclear, _)| *unclear <= version);
            }
            self.current = Some(theirs);
        }
        Ok(None)
    }

    async fn load(&self, scheme: NamingScheme, version: u64) -> Result<Snapshot> {
        match versions::read_manifest(self.store, scheme, version).await? {
            Some((file, len)) => Snapshot::new(self.store, file, scheme, len).await,
            None if self.options.must_create => Err(self.exists()),
            // Cleaned up already: what it did cannot be known.
            None => Err(self.unknown(version)),
        }
    }

    /// Another version: our own commit, or one that ours must go together with.
    async fn meet(&self, theirs: &Snapshot) -> Result<Option<(Snapshot, bool)>> {
        let version = theirs.version();
        let Some(transaction) = theirs.transaction().await? else {
            if self.options.must_create {
                return Err(self.exists());
            }
            return Err(self.unknown(version));
        };
        if transaction.uuid == self.transaction.uuid {
            return Ok(Some((theirs.clone(), false)));
        }
        if self.options.commit_id.is_some()
            && transaction.properties.get(COMMIT_ID) == self.options.commit_id.as_ref()
        {
            return Ok(Some((theirs.clone(), true)));
        }
        if self.options.must_create {
            return Err(self.exists());
        }
        let theirs = &transaction.operation;
        let ours = &self.transaction.operation;
        if self.options.retries == 0 && matches!(ours, Operation::Overwrite { .. }) {
            return Err(self.conflict(version, theirs.name(), Reason::NotNewest, true));
        }
        match check(ours, theirs) {
            Outcome::Ok => Ok(None),
            // An overwrite of all rows was worked out on nothing: doing it again is committing it again.
            Outcome::Retry(_) if matches!(ours, Operation::Overwrite { .. }) => Ok(None),
            Outcome::Retry(reason) => Err(self.conflict(version, theirs.name(), reason, true)),
            Outcome::Incompatible(reason) => {
                Err(self.conflict(version, theirs.name(), reason, false))
            }
        }
    }

    fn conflict(
        &self,
        version: u64,
        theirs: &'static str,
        reason: Reason,
        retryable: bool,
    ) -> Error {
        Error::Conflict {
            uri: self.store.uri().to_owned(),
            ours: self.transaction.operation.name(),
            theirs,
            version,
            reason,
            retryable,
        }
    }

    fn unknown(&self, version: u64) -> Error {
        self.conflict(
            version,
            "unknown operation",
            Reason::UnknownTransaction,
            false,
        )
    }

    fn exists(&self) -> Error {
        Error::AlreadyExists {
            what: format!("a table at {}", self.store.uri()),
            hint: "append to it, overwrite it, or choose another address".to_owned(),
        }
    }

    async fn next_manifest(&self) -> Result<Manifest> {
        let current = self
            .current
            .as_ref()
            .map(|current| current.manifest().as_ref());
        let restored = match &self.transaction.operation {
            Operation::Restore { version } => {
                Some(Snapshot::at_version(self.store, *version).await?)
            }
            _ => None,
        };
        let around = Surroundings {
            restored: restored
                .as_ref()
                .map(|restored| restored.manifest().as_ref()),
            dictionaries: self.options.dictionaries.clone(),
            stable_row_ids: self.options.stable_row_ids,
            now: current.map_or_else(now, Manifest::time_after),
        };
        apply(self.transaction, current, &around).map_err(|error| error.at(self.store.uri()))
    }
}

fn now() -> DateTime<Utc> {
    Utc::now()
}

/// A random pause, its bound doubling with each attempt: writers that met once should not meet again.
async fn pause(attempt: u32) {
    let bound = FIRST_PAUSE
        .saturating_mul(1 << attempt.min(10))
        .min(LONGEST_PAUSE);
    let pause = rand::rng().random_range(Duration::ZERO..=bound);
    // Local and memory stores work without a runtime, and then so does this.
    if tokio::runtime::Handle::try_current().is_ok() {
        tokio::time::sleep(pause).await;
    } else {
        std::thread::sleep(pause);
    }
}
