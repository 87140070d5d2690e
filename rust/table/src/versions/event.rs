//! Events for `tracing` of steps that fail while the call that made them goes on. `docs/design.md`, section "Observability",
//! lists them.

use std::fmt::Display;

use pilum_store::Store;

/// Files that no version names.
const CLEANUP: &str = "pilum::table::cleanup";
/// Publishing a version, and what follows it.
const COMMIT: &str = "pilum::table::commit";

/// A file that no version names was not removed; a later cleanup removes it.
pub(crate) fn left_behind(store: &Store, path: &str, error: &dyn Display) {
    let path = format!("{}/{path}", store.uri());
    tracing::warn!(target: CLEANUP, path, %error, "a file that no version names was not removed");
}

/// A step behind the commit failed: the version stands, and a later reader or writer does the step.
pub(crate) fn left_to_others(store: &Store, path: &str, error: &dyn Display) {
    let path = format!("{}/{path}", store.uri());
    tracing::warn!(target: COMMIT, path, %error, "a step behind the commit was not done");
}
