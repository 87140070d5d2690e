//! The commit: publishing the next version, exactly once or not at all.
//!
//! ```text
//! 1 put _transactions/{read version}-{uuid}.txn    a crash leaves a file that nothing refers to
//! 2 list _versions, read every version since        conflict check, oldest first; a version with our uuid: done
//! 3 build the manifest of newest + 1                pure
//! 4 publish it: create it if absent                 the instant of the commit
//!     created          done
//!     name taken       back to 2: read that version; it may be ours, when an earlier response was lost
//!     outcome unknown  back to 2: the version exists (then its uuid says whose it is), or it is published again
//!     failed           nothing was written
//!
//! A listing may be stale. A version that is known to exist (the base, a name that was taken) is read by its name.
//! ```
//!
//! Step 4 is repeated under the same name while the name is free. So a request that arrives late either publishes our
//! version or finds its name taken. When the attempts end while the outcome of a request is unknown, the error is
//! [`Error::CommitUnknown`], and no file is removed.
//!
//! Two commits that only remove rows may change the same fragments: between 2 and 3 the later one writes deletion files
//! with the rows of both, and a new transaction file (`rebase`).

pub(crate) mod apply;
pub(crate) mod commit_id;
pub(crate) mod conflict;
#[cfg(test)]
mod format_document;
mod group_commit;
mod options;
pub(crate) mod precondition;
pub(crate) mod read_set;
mod rebase;
pub(crate) mod removed_rows;
pub(crate) mod replaced_files;
pub(crate) mod retry;
mod unused_files;

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::ArrayRef;
use chrono::{DateTime, Utc};
pub use options::{CommitOptions, Committed, DEFAULT_RETRIES};
use pilum_format::paths::{TRANSACTIONS, VERSIONS, manifest_path};
use pilum_format::{
    COMMIT_ID, Manifest, ManifestFile, NamingScheme, Operation, Reason, Transaction, longer,
};
use pilum_store::Store;
pub(crate) use unused_files::remove_unused;

use crate::commit::apply::{Surroundings, apply, check_writable};
use crate::commit::conflict::{Outcome, check};
use crate::commit::read_set::ReadSet;
use crate::commit::removed_rows::RemovedRows;
use crate::error::{Error, Result};
use crate::failpoints::pass;
use crate::maintenance::auto_cleanup;
use crate::read::snapshot::Snapshot;
use crate::versions::backoff::Backoff;
use crate::versions::durable_put::{durable_put, remove_files};
use crate::versions::log as versions;

/// How often the outcome of a request is looked for before it counts as unknown. This is not counted as an attempt.
const MAX_LOOKS_FOR_OUTCOME: u32 = 8;

/// Publishes `transaction` as the next version of the table in `store`.
///
/// `base` is the version that the work was done on, `transaction.read_version`; `None` for a table that did
/// not exist.
///
/// # Errors
/// [`Error::Conflict`] when another commit forbids this one, [`Error::AlreadyExists`] under
/// [`CommitOptions::must_create`], [`Error::Contention`] when every attempt lost, [`Error::CommitUnknown`] when
/// the store did not say whether the version was published. After every other error nothing was committed.
pub async fn commit(
    store: &Store,
    base: Option<&Snapshot>,
    transaction: Transaction,
    options: &CommitOptions,
) -> Result<Committed> {
    let id = options.commit_id.as_deref();
    if let Some(expected) = &options.expect
        && commit_id::of(store, id).await?.is_none()
        && let Err(error) = expected
            .check(store, base, transaction.operation.name())
            .await
    {
        let before = commit_id::instead_of(store, id, transaction.read_version, error).await;
        return before.map(Committed::before);
    }
    let work = Work {
        dictionaries: options.dictionaries.clone(),
        ..Work::of(transaction)
    };
    commit_work(store, base, work, options).await
}

/// What is committed, with all that was prepared for it.
pub(crate) struct Work<'a> {
    pub(crate) transaction: Transaction,
    /// The rows that a delete or update takes out of the fragments of the base.
    pub(crate) removed: Option<&'a RemovedRows>,
    /// Rows that must still be there, and rows that must not have been added.
    pub(crate) read_set: Option<&'a ReadSet<'a>>,
    /// The dictionaries of what was written, by field id.
    pub(crate) dictionaries: BTreeMap<i32, ArrayRef>,
    /// Files that were written for the commit. Those that the committed version does not name are removed; when nothing
    /// was committed, all of them.
    pub(crate) files: Vec<String>,
    /// Data files, by their path below `data/`, that do not need the extension with the schema of this commit.
    pub(crate) plain_files: BTreeSet<String>,
}

impl Work<'_> {
    /// A transaction alone.
    pub(crate) fn of(transaction: Transaction) -> Self {
        Self {
            transaction,
            removed: None,
            read_set: None,
            dictionaries: BTreeMap::new(),
            files: Vec::new(),
            plain_files: BTreeSet::new(),
        }
    }
}

/// As [`commit`], for work that brings its files, and that may share fragments with other deletes and updates.
pub(crate) async fn commit_work(
    store: &Store,
    base: Option<&Snapshot>,
    work: Work<'_>,
    options: &CommitOptions,
) -> Result<Committed> {
    let mut attempt = Attempt {
        store,
        base,
        base_version: work.transaction.read_version,
        checked: work.transaction.read_version,
        current: base
            .filter(|base| base.version() == work.transaction.read_version)
            .cloned(),
        work,
        options,
        known: 0,
        attempts: 0,
        lost: 0,
        shared: BTreeSet::new(),
        unknown_outcome: None,
    };
    let mut result = attempt.prepare_and_run().await;
    if let Err(error) = result {
        let id = options.commit_id.as_deref();
        let before = commit_id::instead_of(store, id, attempt.checked, error).await;
        result = before.map(Committed::before);
    }
    if let Ok(committed) = &result
        && committed.attempts > 0
        && let Some(id) = &options.commit_id
    {
        commit_id::record_version(store, id, committed.snapshot.version()).await;
    }
    if let Ok(committed) = &mut result
        && committed.attempts > 0
    {
        committed.cleanup_error = auto_cleanup::after(&committed.snapshot).await;
    }
    remove_unused(store, attempt.work.files, result.as_ref()).await;
    result
}

/// How one pass through the loop ended.
enum Step {
    /// As this version; `true` if an earlier call had committed it.
    Committed(Snapshot, bool),
    /// Another writer published a version under the name.
    Lost,
    /// The outcome of the request is unknown.
    Unknown,
}

struct Attempt<'a> {
    store: &'a Store,
    /// The version that the work was done on, and its number.
    base: Option<&'a Snapshot>,
    base_version: u64,
    work: Work<'a>,
    options: &'a CommitOptions,
    /// No version up to this one conflicts with ours.
    checked: u64,
    /// The store said that this version exists, although a stale listing may not show it.
    known: u64,
    /// The newest version known.
    current: Option<Snapshot>,
    /// Fragments whose deletion files others replaced since ours were written.
    shared: BTreeSet<u64>,
    /// Attempts so far, and the number of them that found their name taken.
    attempts: u32,
    lost: u32,
    /// A request to publish whose outcome is unknown: its version and what the store said.
    unknown_outcome: Option<(u64, pilum_store::Error)>,
}

impl Attempt<'_> {
    async fn prepare_and_run(&mut self) -> Result<Committed> {
        if let Some(base) = self.base {
            check_writable(base.manifest()).map_err(|error| error.at(self.store.uri()))?;
        }
        if let Some(id) = &self.options.commit_id {
            let found = commit_id::find_or_announce(self.store, id, self.base_version).await?;
            if let Some(snapshot) = found {
                return Ok(Committed::before(snapshot));
            }
            self.work
                .transaction
                .properties
                .insert(COMMIT_ID.to_owned(), id.clone());
        }
        self.put_transaction().await?;
        self.run().await
    }

    async fn put_transaction(&mut self) -> Result<()> {
        pass(self.store, "commit.before_transaction")?;
        let file = format!("{TRANSACTIONS}/{}", self.work.transaction.file_name());
        self.work.files.push(file.clone());
        let bytes = self.work.transaction.encode();
        durable_put(self.store, &file, &bytes, "write the transaction").await?;
        pass(self.store, "commit.after_transaction")
    }

    async fn run(&mut self) -> Result<Committed> {
        let mut backoff = Backoff::new(self.store);
        let mut looks = 0;
        loop {
            let met = self.checked;
            match self.once().await {
                Ok(Step::Committed(snapshot, was_committed_before)) => {
                    return Ok(Committed {
                        snapshot,
                        attempts: self.attempts,
                        was_committed_before,
                        cleanup_error: None,
                    });
                }
                Ok(Step::Lost) => {}
                // While the outcome of a request is unknown, another error of the store does not resolve it.
                Ok(Step::Unknown) | Err(Error::Store(_))
                    if self.unknown_outcome.is_some() && looks < MAX_LOOKS_FOR_OUTCOME =>
                {
                    looks += 1;
                }
                Ok(Step::Unknown) => {
                    let contention = self.contention();
                    return Err(self.failed(contention));
                }
                Err(error) => return Err(self.failed(error)),
            }
            backoff.wait(self.checked.saturating_sub(met)).await;
        }
    }

    /// The error to report: an unknown outcome comes before every other error.
    fn failed(&mut self, error: Error) -> Error {
        match self.unknown_outcome.take() {
            Some((version, source)) => Error::CommitUnknown {
                uri: self.store.uri().to_owned(),
                version,
                transaction: self.work.transaction.uuid.clone(),
                source,
            },
            None => error,
        }
    }

    fn contention(&self) -> Error {
        Error::Contention {
            uri: self.store.uri().to_owned(),
            attempts: self.lost,
        }
    }

    /// One attempt.
    async fn once(&mut self) -> Result<Step> {
        self.attempts += 1;
        let place = group_commit::take(self.store).await;
        let (scheme, newest) = self.newest().await?;
        if let Some(found) = self.check_since(scheme, newest).await? {
            // The writer that published it, we or another one, may have died before it flushed the folder.
            self.store.sync_folder(VERSIONS).await?;
            return Ok(found);
        }
        // Only here is it known which writer took the name.
        if self.lost > self.options.retries {
            return Err(self.contention());
        }
        self.rebase().await?;
        let manifest = self.next_manifest().await?;
        let version = manifest.version;
        let file = ManifestFile {
            manifest,
            transaction: Some(self.work.transaction.clone()),
        };
        let bytes = file.encode().map_err(|error| error.at(self.store.uri()))?;
        // The snapshot is made before the version is published: afterwards nothing may fail.
        let snapshot = Snapshot::new(self.store, file, scheme, bytes.len() as u64).await?;
        pass(self.store, "commit.before_manifest")?;
        // The next writer continues as soon as it can see this version; both names are flushed together.
        let named = move || drop(place);
        match versions::publish(self.store, scheme, version, bytes, named).await {
            Ok(()) => {
                self.unknown_outcome = None;
                // The version is published: only the end of the process can prevent the answer.
                let _ = pass(self.store, "commit.before_answer");
                Ok(Step::Committed(snapshot, false))
            }
            // The name is taken: by us, if this request arrived twice.
            Err(error @ pilum_store::Error::AlreadyExists { .. }) => {
                self.known = self.known.max(version);
                self.lost += 1;
                self.unknown_outcome = Some((version, error));
                Ok(Step::Lost)
            }
            Err(error @ pilum_store::Error::Unclear { .. }) => {
                self.unknown_outcome = Some((version, error));
                Ok(Step::Unknown)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Naming scheme and newest version. A listing that does not show a version that is known to exist is stale, unless
    /// the table was removed.
    async fn newest(&mut self) -> Result<(NamingScheme, u64)> {
        let listed = versions::newest(self.store).await?;
        let of_base = || self.base.map_or(NamingScheme::V2, Snapshot::naming_scheme);
        let (scheme, newest) = listed.unwrap_or_else(|| (of_base(), 0));
        let certain = self.base_version.max(self.checked);
        if self.known > newest.max(certain) {
            if self
                .store
                .exists(&manifest_path(scheme, self.known))
                .await?
            {
                return Ok((scheme, self.known));
            }
            // An object store may report a name as taken because of a concurrent request that failed afterwards.
            self.known = 0;
        }
        if newest >= certain {
            return Ok((scheme, newest));
        }
        if self.store.exists(&manifest_path(scheme, certain)).await? {
            return Ok((scheme, certain));
        }
        Err(versions::no_table(self.store).await)
    }

    /// Checks the versions committed since, oldest first. Finds our own commit if it is among them.
    async fn check_since(&mut self, scheme: NamingScheme, newest: u64) -> Result<Option<Step>> {
        // The newest manifest is needed to build on, even when it was checked before.
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
            }
            self.current = Some(theirs);
        }
        Ok(None)
    }

    async fn load(&self, scheme: NamingScheme, version: u64) -> Result<Snapshot> {
        match versions::read_manifest(self.store, scheme, version).await? {
            Some((file, len)) => Snapshot::new(self.store, file, scheme, len).await,
            None if self.options.must_create => Err(self.exists()),
            // A cleanup removed it already, so its operation is unknown. Work that is redone on the newest version sees it.
            None => Err(self.unknown(version, true)),
        }
    }

    /// Looks at another version: it is our own commit, or ours is checked against it.
    async fn meet(&mut self, snapshot: &Snapshot) -> Result<Option<Step>> {
        let version = snapshot.version();
        let ours = format!("-{}.txn", self.work.transaction.uuid);
        if snapshot.manifest().transaction_file.ends_with(&ours) {
            return Ok(Some(Step::Committed(snapshot.clone(), false)));
        }
        // Another writer has the name that our request with the unknown outcome was for: that request failed for good.
        self.unknown_outcome
            .take_if(|(unknown_outcome, _)| *unknown_outcome <= version);
        let Some(transaction) = snapshot.transaction().await? else {
            if self.options.must_create {
                return Err(self.exists());
            }
            return Err(self.unknown(version, false));
        };
        if self.options.commit_id.is_some()
            && transaction.properties.get(COMMIT_ID) == self.options.commit_id.as_ref()
        {
            return Ok(Some(Step::Committed(snapshot.clone(), true)));
        }
        if self.options.must_create {
            return Err(self.exists());
        }
        let theirs = &transaction.operation;
        let ours = &self.work.transaction.operation;
        if let Some(path) = replaced_files::named_again(&transaction.properties, ours) {
            let reason = Reason::FileReplaced(path);
            return Err(self.conflict(version, theirs.name(), reason, false));
        }
        if self.options.retries == 0 && matches!(ours, Operation::Overwrite { .. }) {
            return Err(self.conflict(version, theirs.name(), Reason::NotNewest, true));
        }
        match check(ours, theirs) {
            Outcome::Ok => {}
            // An overwrite of all rows depends on no version: redoing it is the same as committing it again.
            Outcome::Retry(_) if matches!(ours, Operation::Overwrite { .. }) => {}
            Outcome::Retry(Reason::Fragments(ids)) => {
                if let Some(reason) = self.shared_rows(theirs, snapshot, &ids).await? {
                    return Err(self.conflict(version, theirs.name(), reason, true));
                }
                self.shared.extend(ids);
            }
            Outcome::Retry(reason) => {
                return Err(self.conflict(version, theirs.name(), reason, true));
            }
            Outcome::Incompatible(reason) => {
                return Err(self.conflict(version, theirs.name(), reason, false));
            }
        }
        if let Some(column) = self.diverged(snapshot) {
            let reason = Reason::Dictionary(column);
            return Err(self.conflict(version, theirs.name(), reason, true));
        }
        self.check_preconditions(theirs, snapshot).await?;
        Ok(None)
    }

    /// Why our commit conflicts with the other one; `None` if that only removed other rows of these fragments.
    async fn shared_rows(
        &self,
        theirs: &Operation,
        after: &Snapshot,
        ids: &[u64],
    ) -> Result<Option<Reason>> {
        match (self.base, self.work.removed) {
            (Some(base), Some(removed)) if rebase::is_removal(theirs) => {
                rebase::shared_rows(base, removed, after, ids).await
            }
            _ => Ok(Some(Reason::Fragments(ids.to_vec()))),
        }
    }

    /// The column whose dictionary got other new values from another commit than from ours, so that our keys would point
    /// at other values there.
    fn diverged(&self, theirs: &Snapshot) -> Option<String> {
        if !matches!(
            self.work.transaction.operation,
            Operation::Append { .. } | Operation::Update { .. }
        ) {
            return None;
        }
        let (id, _) = self.work.dictionaries.iter().find(|(id, ours)| {
            let have = theirs.dictionaries().get(id);
            have.is_some_and(|have| longer(have, ours).is_none())
        })?;
        let field = theirs.schema().field_by_id(*id);
        Some(field.map_or_else(|| format!("field {id}"), |field| field.name.clone()))
    }

    /// Checks that the precondition of the caller and the read set still hold after the other commit.
    async fn check_preconditions(&self, theirs: &Operation, after: &Snapshot) -> Result<()> {
        let before = self.current.as_ref();
        let broken = |reason, retryable| {
            Err(self.conflict(after.version(), theirs.name(), reason, retryable))
        };
        if let Some(expected) = &self.options.expect {
            // A restore can bring rows back, and a projection can rename columns, in files that were there before.
            let is_other = matches!(
                theirs,
                Operation::Restore { .. } | Operation::Project { .. }
            );
            let known = before.filter(|_| !is_other);
            if let Some(reason) = expected.broken_by(known, after).await? {
                return broken(reason, false);
            }
        }
        if let Some(read_set) = self.work.read_set
            && let Some(reason) = read_set.broken_by(before, theirs, after).await?
        {
            return broken(reason, true);
        }
        Ok(())
    }

    /// Writes the deletion files of shared fragments again, with the rows that the newest version has deleted.
    async fn rebase(&mut self) -> Result<()> {
        let (Some(current), Some(removed)) = (&self.current, self.work.removed) else {
            return Ok(());
        };
        if self.shared.is_empty() {
            return Ok(());
        }
        let shared = std::mem::take(&mut self.shared);
        let work = &mut self.work;
        let file = format!("{TRANSACTIONS}/{}", work.transaction.file_name());
        let operation = &mut work.transaction.operation;
        let mut replaced =
            rebase::rebase(current, removed, &shared, operation, &mut work.files).await?;
        work.transaction.read_version = current.version();
        replaced.push(file);
        self.put_transaction().await?;
        // The manifests that named these files lost their attempts, so the files are removed now and do not pile up. While
        // the outcome of a request is unknown, its files stay.
        if self.unknown_outcome.is_none() {
            self.work.files.retain(|file| !replaced.contains(file));
            remove_files(self.store, &replaced).await;
        }
        Ok(())
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
            ours: self.work.transaction.operation.name(),
            theirs,
            version,
            reason,
            retryable,
        }
    }

    fn unknown(&self, version: u64, retryable: bool) -> Error {
        self.conflict(
            version,
            "unknown operation",
            Reason::UnknownTransaction,
            retryable,
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
        let restored = match &self.work.transaction.operation {
            Operation::Restore { version } => {
                Some(Snapshot::at_version(self.store, *version).await?)
            }
            _ => None,
        };
        let around = Surroundings {
            restored: restored
                .as_ref()
                .map(|restored| restored.manifest().as_ref()),
            dictionaries: self.work.dictionaries.clone(),
            stable_row_ids: self.options.stable_row_ids,
            now: current.map_or_else(now, Manifest::time_after),
        };
        let next = apply(&self.work.transaction, current, &around);
        let mut next = next.map_err(|error| error.at(self.store.uri()))?;
        if !self.work.plain_files.is_empty() {
            for file in next.fragments.iter_mut().flat_map(|it| &mut it.files) {
                file.needs_extension &= !self.work.plain_files.contains(&file.path);
            }
            let stable_row_ids = next.has_stable_row_ids();
            next.recompute_flags(stable_row_ids);
        }
        Ok(next)
    }
}

fn now() -> DateTime<Utc> {
    Utc::now()
}
