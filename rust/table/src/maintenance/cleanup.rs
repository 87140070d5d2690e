//! Cleanup of a table at the request of its user.

use crate::commit::cleanup::{self, CleanupOptions, CleanupOutcome};
use crate::dataset::Dataset;
use crate::error::Result;

impl Dataset {
    /// Removes old versions and the files that only they had, and files that writers left behind.
    ///
    /// Rows of versions that stay are never touched; a reader that still has an old version open loses it. One manifest is
    /// in memory at a time, beside the list of the files of the table.
    ///
    /// # Errors
    /// `Corrupt` when a manifest or tag cannot be read: then nothing was removed, because the files that it needs
    /// are not known. `Store` when the store fails; what was removed by then stays removed, and every version
    /// that stays is whole.
    pub async fn cleanup(&self, options: &CleanupOptions) -> Result<CleanupOutcome> {
        cleanup::cleanup(self.snapshot(), options).await
    }
}
