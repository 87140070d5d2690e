//! Files that were written for a commit and that the committed version does not name.

use std::collections::BTreeSet;

use pilum_store::Store;

use super::options::Committed;
use crate::error::{Error, Result};
use crate::failpoints::pass;
use crate::versions::durable_put::remove_files;
use crate::versions::event;

/// Removes those files of a commit that its version does not name. When nothing was committed, removes all of them; when
/// the outcome is unknown, none.
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
        // A fail point: a test may end the process here. The result of the commit is known already, so it is not replaced.
        if let Err(error) = pass(store, "commit.before_removal") {
            event::left_to_others(store, &files.join(", "), &error);
        }
    }
    // No version names these files. Those that cannot be removed now are removed by a cleanup.
    remove_files(store, &files).await;
}
