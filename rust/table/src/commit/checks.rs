//! What a commit checks of every version that was committed since its base: whether it is its own, whether the two go together.

use pilum_format::{COMMIT_ID, Operation, Reason, longer};

use crate::commit::attempt::{Attempt, Step};
use crate::commit::conflict::{Outcome, check};
use crate::commit::stream_batch::{Found, StreamBatch};
use crate::commit::{rebase, replaced_files};
use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;

impl Attempt<'_> {
    /// Looks at another version: it is our own commit, or ours is checked against it.
    pub(super) async fn meet(&mut self, snapshot: &Snapshot) -> Result<Option<Step>> {
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

    /// Compares the batch of a stream with what the newest version records of the stream. `None` if the batch is new, or the
    /// commit is of no stream.
    pub(super) fn find_stream_batch(&self) -> Result<Option<Step>> {
        let Some(newest) = &self.current else {
            return Ok(None);
        };
        let Some(batch) = StreamBatch::of(&self.work.transaction)? else {
            return Ok(None);
        };
        match batch.find(&newest.manifest().config)? {
            Found::New => Ok(None),
            Found::Committed => Ok(Some(Step::Committed(newest.clone(), true))),
            Found::Followed(reason) => {
                Err(self.conflict(newest.version(), "commit of another run", reason, false))
            }
        }
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

    pub(super) fn unknown(&self, version: u64, retryable: bool) -> Error {
        self.conflict(
            version,
            "unknown operation",
            Reason::UnknownTransaction,
            retryable,
        )
    }

    pub(super) fn exists(&self) -> Error {
        Error::AlreadyExists {
            what: format!("a table at {}", self.store.uri()),
            hint: "append to it, overwrite it, or choose another address".to_owned(),
        }
    }
}
