//! Events for `tracing` of maintenance. `docs/design.md`, section "Observability", lists them.

use crate::dataset::Dataset;
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
pub(super) fn cleanup(table: &Dataset, dry_run: bool, result: Result<&Removed, &Error>) {
    let uri = table.uri();
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
pub(super) fn auto_cleanup_failed(table: &Dataset, error: &Error) {
    let (uri, version) = (table.uri(), table.version());
    tracing::warn!(target: CLEANUP, uri, version, %error, "an automatic cleanup failed");
}
