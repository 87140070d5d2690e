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
//!
//! A listing may be old. What is known to exist (the base, a name that was taken) is looked at by its name.
//! ```
//!
//! Step 4 is retried under the same name as long as the name is free, so a create that lands late either is
//! the one that counts or finds its name taken. Giving up while a create is unaccounted for is
//! [`Error::CommitUnknown`], and then nothing is cleaned up.
//!
//! A commit that only removes rows may share fragments with others that do: between 2 and 3 its deletion files
//! are written again over theirs, with a transaction file of their own (`rebase`).

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
use crate::versions::durable_put::{put_certainly, remove_files};
use crate::versions::log as versions;

/// How often a create without an answer is followed up before nobody can say. Such turns are no attempts: they ask
/// what became of one.
const MOST_UNANSWERED: u32 = 8;

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
    /// What else it relies on.
    pub(crate) premise: Option<&'a ReadSet<'a>>,
    /// The dictionaries of what was written, by field id.
    pub(crate) dictionaries: BTreeMap<i32, ArrayRef>,
    /// Files that were written for it. Those that the committed version does not name are removed, all of them
    /// when nothing was committed.
    pub(crate) files: Vec<String>,
}

impl Work<'_> {
    /// Nothing beside the transaction.
    pub(crate) fn of(transaction: Transaction) -> Self {
        Self {
            transaction,
            removed: None,
            premise: None,
            dictionaries: BTreeMap::new(),
            files: Vec::new(),
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
        unclear: None,
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
    if let Ok(committed) = &result
        && committed.attempts > 0
    {
        auto_cleanup::after(&committed.snapshot).await;
    }
    remove_unused(store, attempt.work.files, result.as_ref()).await;
    result
}

/// How an attempt ended.
enum Turn {
    /// As this version; `true` if an earlier call had committed it.
    Committed(Snapshot, bool),
    /// Another writer took the name.
    Lost,
    /// Nobody knows.
    Unanswered,
}

struct Attempt<'a> {
    store: &'a Store,
    /// The version that the work was done on, and its number.
    base: Option<&'a Snapshot>,
    base_version: u64,
    work: Work<'a>,
    options: &'a CommitOptions,
    /// Every version up to this one goes together with ours.
    checked: u64,
    /// This version exists by the word of the store, whatever a listing says.
    known: u64,
    /// The newest version known.
    current: Option<Snapshot>,
    /// Fragments whose deletion files others replaced since ours were written.
    shared: BTreeSet<u64>,
    /// Attempts so far, and how many of them found their name taken.
    attempts: u32,
    lost: u32,
    /// A create of which it is not known whether it happened: its version and what the store said.
    unclear: Option<(u64, pilum_store::Error)>,
}

impl Attempt<'_> {
    async fn prepare_and_run(&mut self) -> Result<Committed> {
        if let Some(base) = self.base {
            check_writable(base.manifest()).map_err(|error| error.at(self.store.uri()))?;
        }
        if let Some(id) = &self.options.commit_id {
            let found = commit_id::find_since(self.store, id, self.base_version).await?;
            if let Some(snapshot) = found {
                return Ok(Committed::before(snapshot));
            }
            pass(self.store, "commit.before_marker")?;
            commit_id::announce(self.store, id, self.base_version).await?;
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
        put_certainly(self.store, &file, &bytes, "write the transaction").await?;
        pass(self.store, "commit.after_transaction")
    }

    async fn run(&mut self) -> Result<Committed> {
        let mut backoff = Backoff::new(self.store);
        let mut unanswered = 0;
        loop {
            let met = self.checked;
            match self.once().await {
                Ok(Turn::Committed(snapshot, was_committed_before)) => {
                    return Ok(Committed {
                        snapshot,
                        attempts: self.attempts,
                        was_committed_before,
                    });
                }
                Ok(Turn::Lost) => {}
                // While a create is unaccounted for, trouble with the store is no answer either.
                Ok(Turn::Unanswered) | Err(Error::Store(_))
                    if self.unclear.is_some() && unanswered < MOST_UNANSWERED =>
                {
                    unanswered += 1;
                }
                Ok(Turn::Unanswered) => {
                    let contention = self.contention();
                    return Err(self.failed(contention));
                }
                Err(error) => return Err(self.failed(error)),
            }
            backoff.wait(self.checked.saturating_sub(met)).await;
        }
    }

    /// The error to report: an unaccounted create outweighs every other.
    fn failed(&mut self, error: Error) -> Error {
        match self.unclear.take() {
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
    async fn once(&mut self) -> Result<Turn> {
        self.attempts += 1;
        let turn = group_commit::take(self.store).await;
        let (scheme, newest) = self.newest().await?;
        if let Some(found) = self.check_since(scheme, newest).await? {
            // Whoever gave it its name, we or a writer that died, may not have come to flushing that.
            self.store.sync_folder(VERSIONS).await?;
            return Ok(found);
        }
        // Said only now: who has the name that was taken is known.
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
        // Made before the version is published: afterwards nothing may fail.
        let snapshot = Snapshot::new(self.store, file, scheme, bytes.len() as u64).await?;
        pass(self.store, "commit.before_manifest")?;
        // The next one goes on as soon as it can see this one; both names are flushed together.
        let named = move || drop(turn);
        match versions::publish(self.store, scheme, version, bytes, named).await {
            Ok(()) => {
                self.unclear = None;
                // The version is there: only the end of the process can come between.
                let _ = pass(self.store, "commit.before_answer");
                Ok(Turn::Committed(snapshot, false))
            }
            // Somebody has the name: we, if this request arrived twice.
            Err(error @ pilum_store::Error::AlreadyExists { .. }) => {
                self.known = self.known.max(version);
                self.lost += 1;
                self.unclear = Some((version, error));
                Ok(Turn::Lost)
            }
            Err(error @ pilum_store::Error::Unclear { .. }) => {
                self.unclear = Some((version, error));
                Ok(Turn::Unanswered)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Naming scheme and newest version. A listing that does not show what is known to exist is old, unless the
    /// table is gone.
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
            // Object stores call a name taken that somebody was about to take, and then did not.
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

    /// Checks the versions that came since, oldest first. Finds our own commit among them, if it is there.
    async fn check_since(&mut self, scheme: NamingScheme, newest: u64) -> Result<Option<Turn>> {
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
            }
            self.current = Some(theirs);
        }
        Ok(None)
    }

    async fn load(&self, scheme: NamingScheme, version: u64) -> Result<Snapshot> {
        match versions::read_manifest(self.store, scheme, version).await? {
            Some((file, len)) => Snapshot::new(self.store, file, scheme, len).await,
            None if self.options.must_create => Err(self.exists()),
            // Cleaned up already: what it did cannot be known, and is seen by work that is done on what came of it.
            None => Err(self.unknown(version, true)),
        }
    }

    /// Another version: our own commit, or one that ours must go together with.
    async fn meet(&mut self, snapshot: &Snapshot) -> Result<Option<Turn>> {
        let version = snapshot.version();
        let ours = format!("-{}.txn", self.work.transaction.uuid);
        if snapshot.manifest().transaction_file.ends_with(&ours) {
            return Ok(Some(Turn::Committed(snapshot.clone(), false)));
        }
        // The name of an unclear create is somebody else's, so that create did not happen and never will.
        self.unclear.take_if(|(unclear, _)| *unclear <= version);
        let Some(transaction) = snapshot.transaction().await? else {
            if self.options.must_create {
                return Err(self.exists());
            }
            return Err(self.unknown(version, false));
        };
        if self.options.commit_id.is_some()
            && transaction.properties.get(COMMIT_ID) == self.options.commit_id.as_ref()
        {
            return Ok(Some(Turn::Committed(snapshot.clone(), true)));
        }
        if self.options.must_create {
            return Err(self.exists());
        }
        let theirs = &transaction.operation;
        let ours = &self.work.transaction.operation;
        if self.options.retries == 0 && matches!(ours, Operation::Overwrite { .. }) {
            return Err(self.conflict(version, theirs.name(), Reason::NotNewest, true));
        }
        match check(ours, theirs) {
            Outcome::Ok => {}
            // An overwrite of all rows was worked out on nothing: doing it again is committing it again.
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
        self.check_premises(theirs, snapshot).await?;
        Ok(None)
    }

    /// Why ours does not go together with the other commit, unless that only took other rows out of these fragments.
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

    /// The column whose dictionary another commit gave other new values than ours: our keys mean others there.
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

    /// What the work relies on, and what the caller expects, must hold after the other commit too.
    async fn check_premises(&self, theirs: &Operation, after: &Snapshot) -> Result<()> {
        let before = self.current.as_ref();
        let broken = |reason, retryable| {
            Err(self.conflict(after.version(), theirs.name(), reason, retryable))
        };
        if let Some(expected) = &self.options.expect {
            // Rows may be back, and names may mean other columns, in files that were there before.
            let is_other = matches!(
                theirs,
                Operation::Restore { .. } | Operation::Project { .. }
            );
            let known = before.filter(|_| !is_other);
            if let Some(reason) = expected.broken_by(known, after).await? {
                return broken(reason, false);
            }
        }
        if let Some(premise) = self.work.premise
            && let Some(reason) = premise.broken_by(before, theirs, after).await?
        {
            return broken(reason, true);
        }
        Ok(())
    }

    /// Writes the deletion files of shared fragments again, over the newest version.
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
        // Whatever named them was offered under names that others have: however many races are lost, files do not pile up.
        // While a create is unaccounted for, its files stay.
        if self.unclear.is_none() {
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
        apply(&self.work.transaction, current, &around).map_err(|error| error.at(self.store.uri()))
    }
}

fn now() -> DateTime<Utc> {
    Utc::now()
}
