//! Files that were written for a commit and that the committed version does not name.

use std::collections::BTreeSet;

use pilum_store::Store;

use super::options::Committed;
use crate::error::{Error, Result};
use crate::failpoints::pass;
use crate::versions::durable_put::remove_files;

/// Removes, of files that were written for a commit, those that its version does not name: all of them if there is none,
/// and no one if nobody knows whether there is.
pub(crate) async fn remove_unused(
    store: &Store,
    mut files: Vec<String>,
    result: Result<&Committed, &Error>,
) {
    let used = match result {
        Ok(committed) => committed.snapshot.manifest().files(),
        Err(Error::CommitUnknown { .. }) => return,
        Err(_) => BTreeSet::new(),
    };
    files.retain(|file| !used.contains(file));
    if !files.is_empty() {
        // Only a test stops here, and then by ending the process.
        let _ = pass(store, "commit.before_removal");
    }
    // Nothing refers to them. What stays, cleanup takes.
    remove_files(store, &files).await;
}
