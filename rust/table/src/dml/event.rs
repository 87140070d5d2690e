//! Events for `tracing` of statements. `docs/design.md`, section "Observability", lists them.

use pilum_store::Store;

use crate::dml::outcome::StatementOutcome;
use crate::error::{Error, Result};

/// Statements: delete, update, merge, columns, settings, compaction.
pub(crate) const STATEMENT: &str = "pilum::table::statement";

/// The end of a statement.
pub(super) fn statement<T: StatementOutcome>(
    store: &Store,
    operation: &'static str,
    result: &Result<T>,
) {
    let uri = store.uri();
    match result {
        Ok(done) => {
            let (version, attempts) = {
                let committed = done.committed();
                (committed.snapshot.version(), committed.attempts)
            };
            if attempts > 0 {
                tracing::info!(target: STATEMENT, operation, uri, version, attempts, outcome = "ok", "statement");
            } else {
                // Nothing was to be done, or an earlier call did it.
                tracing::debug!(target: STATEMENT, operation, uri, version, attempts, outcome = "ok", "statement");
            }
        }
        Err(error) => {
            let outcome = failure(error);
            tracing::debug!(target: STATEMENT, operation, uri, outcome, %error, "statement");
        }
    }
}

/// One execution failed on `version`; a retry follows if that can help.
pub(super) fn execution_failed(
    store: &Store,
    operation: &'static str,
    version: u64,
    error: &Error,
) {
    let (uri, outcome) = (store.uri(), failure(error));
    tracing::debug!(target: STATEMENT, operation, uri, version, outcome, %error, "execution");
}

/// How a call ended, in one word.
fn failure(error: &Error) -> &'static str {
    match error {
        Error::Conflict { .. } | Error::Contention { .. } => "conflict",
        Error::CommitUnknown { .. } => "unclear",
        _ => "failed",
    }
}

/// A retry on `version` writes all rows again, because it could not be told which of the written ones are still valid.
pub(super) fn not_reused(store: &Store, version: u64, error: &Error) {
    let uri = store.uri();
    tracing::debug!(target: STATEMENT, uri, version, %error, "written files are not reused");
}
