//! Registers of manifests: a small, strongly consistent table beside a store that cannot create an object only
//! if it is absent. Which manifest a version has is decided in the register; the store keeps the bytes.
//!
//! A register belongs to one table of ours and knows rows of (version, path, size). Four operations are enough,
//! and only [`insert`](ManifestRegister::insert) decides anything:
//!
//! | where | chosen by |
//! |---|---|
//! | DynamoDB, shared with other libraries | the URI `s3+ddb://bucket/folder?ddbTableName=T` |
//! | a SQLite file | the storage option `manifest_store` = `sqlite:/path/of/file` |

#[cfg(feature = "cloud")]
mod dynamodb;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::error::{Error, Result};
use crate::options::StorageOptions;

#[cfg(feature = "cloud")]
pub(crate) use dynamodb::DynamoDb;

/// The storage option that names a register.
pub(crate) const MANIFEST_STORE: &str = "manifest_store";

/// Options of the DynamoDB client, which mean nothing to the store of the bytes.
#[cfg(feature = "cloud")]
pub(crate) const DYNAMODB_ENDPOINT: &str = "dynamodb_endpoint";

/// One row: the manifest of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterEntry {
    /// The version.
    pub version: u64,
    /// Where its manifest is, relative to the root of the table: a staged name or the final one.
    pub path: String,
    /// Size of the manifest in bytes, where the writer said so.
    pub size: Option<u64>,
}

/// Which manifest each version of one table has, decided once.
///
/// Every answer reflects all calls that were answered before (strong consistency).
pub trait ManifestRegister: Send + Sync + fmt::Debug {
    /// Where the register is, for people, without secrets.
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

    /// Adds a row if its version has none: the instant of a commit. `Ok` means durable.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] when the version has a row; [`Error::Unclear`] when the row may have been added,
    /// or not. After any other error it was not.
    fn insert(&self, entry: RegisterEntry) -> BoxFuture<'_, Result<()>>;

    /// Replaces the row of a version that has one.
    ///
    /// # Errors
    /// When the version has no row, or the register fails; asking again is harmless.
    fn update(&self, entry: RegisterEntry) -> BoxFuture<'_, Result<()>>;

    /// Whether calls block their thread, instead of waiting for an answer.
    fn blocks(&self) -> bool {
        false
    }

    /// Adds a row that belongs to no version, and to no table, if there is none of that word: to see whether the
    /// register keeps its promise.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    fn try_row<'a>(&'a self, word: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Removes such a row; a missing one is fine.
    ///
    /// # Errors
    /// When the register refuses.
    fn forget_row<'a>(&'a self, word: &'a str) -> BoxFuture<'a, Result<()>>;
}

/// The register that the options name for the table at `table_uri`, if they name one.
pub(crate) fn from_options(
    table_uri: &str,
    options: &StorageOptions,
) -> Result<Option<Arc<dyn ManifestRegister>>> {
    let Some(place) = options.get(MANIFEST_STORE) else {
        return Ok(None);
    };
    let what = format!("storage option {MANIFEST_STORE:?}");
    let Some(path) = place
        .strip_prefix("sqlite:")
        .filter(|path| !path.is_empty())
    else {
        return Err(Error::invalid(
            what,
            "write \"sqlite:/path/of/file\"; DynamoDB is chosen by an s3+ddb:// URI",
        ));
    };
    #[cfg(feature = "sqlite")]
    return Ok(Some(Arc::new(sqlite::SqliteRegister::new(
        path, table_uri,
    )?)));
    #[cfg(not(feature = "sqlite"))]
    Err(Error::unsupported(
        format!("a manifest store in {path}, which needs the build feature `sqlite`,"),
        table_uri,
    ))
}
