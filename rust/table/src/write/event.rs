//! Events for `tracing` of writes. `docs/design.md`, section "Observability", lists them.

use pilum_store::Store;

use super::options::{WriteMode, Written};
use crate::error::{Error, Result};

/// Writes of rows: data files, and the commit of staged fragments.
const WRITE: &str = "pilum::table::write";

fn operation(mode: WriteMode) -> &'static str {
    match mode {
        WriteMode::Create => "create",
        WriteMode::Append => "append",
        WriteMode::Overwrite => "overwrite",
    }
}

/// The end of a write with its commit.
pub(super) fn write(store: &Store, mode: WriteMode, result: &Result<Written>) {
    let (uri, operation) = (store.uri(), operation(mode));
    match result {
        Ok(done) => {
            let (version, attempts) = (done.snapshot.version(), done.attempts);
            let (rows, bytes) = (done.num_rows, done.num_bytes);
            tracing::info!(
                target: WRITE,
                operation,
                uri,
                version,
                rows,
                bytes,
                attempts,
                was_committed_before = done.was_committed_before,
                outcome = "ok",
                "write"
            );
        }
        Err(error) => {
            let outcome = match error {
                Error::Conflict { .. } | Error::Contention { .. } => "conflict",
                Error::AlreadyExists { .. } => "already_exists",
                Error::CommitUnknown { .. } => "unclear",
                _ => "failed",
            };
            tracing::debug!(target: WRITE, operation, uri, outcome, %error, "write");
        }
    }
}

/// A finished data file.
pub(super) fn file(store: &Store, path: &str, rows: u64, bytes: u64) {
    let uri = store.uri();
    tracing::debug!(target: WRITE, uri, file = path, rows, bytes, "data file");
}

/// A staged fragment was written again, because its dictionaries do not begin those of the table.
pub(super) fn rewritten(store: &Store, rows: u64, bytes: u64) {
    let uri = store.uri();
    tracing::debug!(target: WRITE, uri, rows, bytes, "staged fragments written again with other dictionary keys");
}

/// Files that a commit replaced were left, because a version could not be read that may name them.
pub(super) fn replaced_files_left(store: &Store, version: u64, error: &Error) {
    let uri = store.uri();
    tracing::warn!(
        target: WRITE,
        uri,
        version,
        %error,
        "files of staged fragments that were written again are left for cleanup"
    );
}
