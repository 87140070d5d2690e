//! The fail points of this crate, and passing them: see [`pilum_store::failpoint`].

use pilum_store::{Store, failpoint};

use crate::error::Result;

/// The fail points of this crate, by the operation that they lie in. Those of the store are
/// [`pilum_store::failpoint::PLACES`]; a test compares both lists with the sources.
pub const FAIL_POINTS: [&str; 19] = [
    // The commit loop.
    "commit.before_marker",
    "commit.before_transaction",
    "commit.after_transaction",
    "commit.before_manifest",
    "commit.before_answer",
    "commit.before_removal",
    // Compaction.
    "compact.before_rewrite",
    // Staged fragments that are written once more before they are committed.
    "staged.before_rewrite",
    "staged.before_removal",
    // Cleanup.
    "cleanup.before_orphans",
    "cleanup.before_manifests",
    "cleanup.before_unneeded",
    "cleanup.before_answer",
    // A version that an external manifest store decides.
    "external.before_stage",
    "external.after_stage",
    "external.after_insert",
    "external.after_final",
    "external.after_update",
    "external.after_delete",
];

/// Passes the place `name` while working on the table in `store`.
pub(crate) fn pass(store: &Store, name: &'static str) -> Result<()> {
    failpoint::hit(name, store.uri()).map_err(|source| {
        pilum_store::Error::Io {
            path: store.uri().to_owned(),
            operation: "go on",
            source,
        }
        .into()
    })
}
