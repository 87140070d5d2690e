//! Events for `tracing` of cleanups. `docs/design.md`, section "Observability", lists them.

use crate::error::Error;

/// How much a cleanup removed.
pub(super) struct Removed {
    pub(super) versions: usize,
    pub(super) files: usize,
    pub(super) bytes: u64,
}

/// Removal of old versions and of files that nothing refers to.
const CLEANUP: &str = "pilum::table::cleanup";

/// The end of a cleanup.
pub(super) fn cleanup(uri: &str, dry_run: bool, result: Result<&Removed, &Error>) {
    match result {
        Ok(Removed {
            versions,
            files,
            bytes,
        }) => {
            tracing::info!(target: CLEANUP, uri, dry_run, versions, files, bytes, outcome = "ok", "cleanup");
        }
        Err(error) => {
            tracing::debug!(target: CLEANUP, uri, dry_run, outcome = "failed", %error, "cleanup");
        }
    }
}

/// A cleanup after a commit failed: the commit stands, and its caller asked for no cleanup.
pub(in crate::commit) fn auto_cleanup_failed(uri: &str, version: u64, error: &Error) {
    tracing::warn!(target: CLEANUP, uri, version, %error, "an automatic cleanup failed");
}
