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
mod observed;
mod rows;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::options::{MANIFEST_STORE, StorageOptions};

#[cfg(feature = "cloud")]
pub(crate) use dynamodb::DynamoDb;
pub(crate) use observed::ObservedRegister;
pub use rows::{ManifestRegister, RegisterEntry};

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
