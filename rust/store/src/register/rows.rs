//! [`ManifestRegister`]: the rows of a register and the requests to it.

use std::fmt;

use futures::future::BoxFuture;

#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;

/// One row: the manifest of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterEntry {
    /// The version.
    pub version: u64,
    /// The path of the version's manifest, relative to the root of the table. It is the staged name of the manifest until the
    /// manifest has been copied to its final name, and the final name from then on.
    pub path: String,
    /// Size of the manifest in bytes, if the writer stored it.
    pub size: Option<u64>,
}

/// Decides once which manifest each version of one table has.
///
/// Every answer reflects all calls that were answered before it (strong consistency).
pub trait ManifestRegister: Send + Sync + fmt::Debug {
    /// The address of the register, without secrets.
    fn uri(&self) -> &str;

    /// The row of the newest version; `None` if there is none.
    ///
    /// # Errors
    /// When the register cannot be read.
    fn newest(&self) -> BoxFuture<'_, Result<Option<RegisterEntry>>>;

    /// The row of `version`; `None` if there is none.
    ///
    /// # Errors
    /// When the register cannot be read.
    fn get(&self, version: u64) -> BoxFuture<'_, Result<Option<RegisterEntry>>>;

    /// Adds a row if its version has none. A commit happens in this request. `Ok` means durable.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] when the version has a row; [`Error::Unclear`] when the row may or may not have been added.
    /// After any other error it was not added.
    fn insert(&self, entry: RegisterEntry) -> BoxFuture<'_, Result<()>>;

    /// Replaces the row of a version that has one.
    ///
    /// # Errors
    /// When the version has no row, or the register fails; another attempt is harmless.
    fn update(&self, entry: RegisterEntry) -> BoxFuture<'_, Result<()>>;

    /// Whether calls block their thread until they are answered.
    fn blocks(&self) -> bool {
        false
    }

    /// Adds a row with this word if there is none. The row belongs to no version and no table; it tests whether the register
    /// adds a row only once.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    fn try_row<'a>(&'a self, word: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Removes a row that [`try_row`](Self::try_row) added; a missing row is no error.
    ///
    /// # Errors
    /// When the register fails.
    fn forget_row<'a>(&'a self, word: &'a str) -> BoxFuture<'a, Result<()>>;
}
