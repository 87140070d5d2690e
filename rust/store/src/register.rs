//! Registers of manifests: a small, strongly consistent table beside a store that cannot create an object only if it is
//! absent. The register decides which manifest a version has; the store keeps the bytes.
//!
//! A register belongs to one table and has rows of (version, path, size). Only [`insert`](ManifestRegister::insert) decides
//! which manifest a version has:
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

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::error::{Error, Result};
use crate::event;
use crate::options::{MANIFEST_STORE, StorageOptions};

#[cfg(feature = "cloud")]
pub(crate) use dynamodb::DynamoDb;

/// One row: the manifest of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterEntry {
    /// The version.
    pub version: u64,
    /// The path of its manifest relative to the root of the table: a staged name or the final one.
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

/// A register, the requests of which are told to `tracing`.
#[derive(Debug)]
pub(crate) struct ObservedRegister(pub(crate) Arc<dyn ManifestRegister>);

impl ManifestRegister for ObservedRegister {
    fn uri(&self) -> &str {
        self.0.uri()
    }

    fn newest(&self) -> BoxFuture<'_, Result<Option<RegisterEntry>>> {
        event::register("newest", self.uri(), None, self.0.newest()).boxed()
    }

    fn get(&self, version: u64) -> BoxFuture<'_, Result<Option<RegisterEntry>>> {
        event::register("get", self.uri(), Some(version), self.0.get(version)).boxed()
    }

    fn insert(&self, entry: RegisterEntry) -> BoxFuture<'_, Result<()>> {
        let version = entry.version;
        event::register("insert", self.uri(), Some(version), self.0.insert(entry)).boxed()
    }

    fn update(&self, entry: RegisterEntry) -> BoxFuture<'_, Result<()>> {
        let version = entry.version;
        event::register("update", self.uri(), Some(version), self.0.update(entry)).boxed()
    }

    fn blocks(&self) -> bool {
        self.0.blocks()
    }

    fn try_row<'a>(&'a self, word: &'a str) -> BoxFuture<'a, Result<()>> {
        event::register("try_row", self.uri(), None, self.0.try_row(word)).boxed()
    }

    fn forget_row<'a>(&'a self, word: &'a str) -> BoxFuture<'a, Result<()>> {
        event::register("forget_row", self.uri(), None, self.0.forget_row(word)).boxed()
    }
}

/// The register that the options name for the table at `table_uri`; `None` if they name none.
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
