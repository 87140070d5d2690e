//! The loop of a commit: look which versions there are, build the next one, publish it, until it is published or cannot be.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use pilum_format::paths::{TRANSACTIONS, VERSIONS, manifest_path};
use pilum_format::{COMMIT_ID, Manifest, ManifestFile, NamingScheme, Operation};
use pilum_store::Store;

use crate::commit::apply::{Surroundings, apply, check_writable};
use crate::commit::options::{CommitOptions, Committed};
use crate::commit::retry::Retries;
use crate::commit::work::Work;
use crate::commit::{commit_id, compat, group_commit, rebase};
use crate::error::{Error, Result};
use crate::failpoints::pass;
use crate::read::snapshot::Snapshot;
use crate::versions::durable_put::{durable_put, remove_files};
use crate::versions::event;
use crate::versions::log as versions;

/// How often the outcome of a request is looked for before it counts as unknown. This is not counted as an attempt.
const MAX_LOOKS_FOR_OUTCOME: u32 = 8;

/// How one pass through the loop ended.
pub(super) enum Step {
    /// As this version; `true` if an earlier call had committed it.
    Committed(Snapshot, bool),
    /// Another writer published a version under the name.
    Lost,
    /// The outcome of the request is unknown.
    Unknown,
}

/// How far the commit of one transaction has come.
pub(super) struct Attempt<'a> {
    pub(super) store: &'a Store,
    /// The version that the work was done on, and its number.
    pub(super) base: Option<&'a Snapshot>,
    pub(super) base_version: u64,
    pub(super) work: Work<'a>,
    pub(super) options: &'a CommitOptions,
    /// No version up to this one conflicts with ours.
    pub(super) checked: u64,
    /// The store said that this version exists, although a stale listing may not show it.
    known: u64,
    /// The newest version known.
    pub(super) current: Option<Snapshot>,
    /// Fragments whose deletion files others replaced since ours were written.
    pub(super) shared: BTreeSet<u64>,
    /// Attempts so far; those that found their name taken are lost.
    attempts: u32,
    retries: Retries,
    /// A request to publish whose outcome is unknown: its version and what the store said.
    pub(super) unknown_outcome: Option<(u64, pilum_store::Error)>,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        store: &'a Store,
        base: Option<&'a Snapshot>,
        work: Work<'a>,
        options: &'a CommitOptions,
    ) -> Self {
        let read_version = work.transaction.read_version;
        Self {
            store,
            base,
            base_version: read_version,
            checked: read_version,
            current: base.filter(|base| base.version() == read_version).cloned(),
            work,
            options,
            known: 0,
            attempts: 0,
            retries: Retries::new(store, options.retries),
            shared: BTreeSet::new(),
            unknown_outcome: None,
        }
    }

    pub(super) async fn prepare_and_run(&mut self) -> Result<Committed> {
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
        // An attempt begins here, and not with the files that were written for it.
        self.retries = Retries::new(self.store, self.options.retries);
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
            let rivals = self.checked.saturating_sub(met);
            self.retries.pause(rivals).await;
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
            attempts: self.retries.lost(),
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
        if let Some(found) = self.find_stream_batch()? {
            return Ok(found);
        }
        // Only here is it known which writer took the name.
        if self.retries.are_used_up() {
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
                // The version is published: from here on only the end of the process keeps the result from the caller.
                if let Err(error) = pass(self.store, "commit.before_answer") {
                    event::left_to_others(self.store, &manifest_path(scheme, version), &error);
                }
                Ok(Step::Committed(snapshot, false))
            }
            // The name is taken: by us, if this request arrived twice.
            Err(error @ pilum_store::Error::AlreadyExists { .. }) => {
                self.known = self.known.max(version);
                self.retries.lose();
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
            compat: compat::to_record(current, self.options.compat),
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
        compat::check(self.store, current, &next, self.options.compat).await?;
        Ok(next)
    }
}

fn now() -> DateTime<Utc> {
    Utc::now()
}
