//! Cleanup of a table at the request of its user.

use crate::commit::cleanup::{self, CleanupOptions, CleanupOutcome};
use crate::dataset::Dataset;
use crate::error::Result;

impl Dataset {
    /// Removes old versions and the files that only they had, and files that writers left behind.
    ///
    /// Files that a kept version needs are never removed. A reader that still has a removed version open gets `NotFound` when it
    /// reads a removed file. The cleanup holds one manifest in memory at a time, and the list of the files of the table.
    ///
    /// # Errors
    /// `Corrupt` when a manifest or tag cannot be read: then nothing was removed, because the files that it needs
    /// are not known. `Store` when the store fails; what was removed by then stays removed, and every version
    /// that stays is whole.
    pub async fn cleanup(&self, options: &CleanupOptions) -> Result<CleanupOutcome> {
        cleanup::cleanup(self.snapshot(), options).await
    }
}
