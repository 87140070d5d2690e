//! Which versions a table has: the listing of `_versions/`, and manifests by name.

use std::path::Path;

use bytes::Bytes;
use pilum_common::path_fault;
pub(crate) use pilum_format::paths::{TRANSACTIONS, VERSIONS, manifest_path};
use pilum_format::{
    ManifestFile, NamingScheme, Transaction, newest_of, parse_manifest_name, versions_of,
};
use pilum_store::Store;

use crate::error::{Error, Result};
use crate::versions::external::{self, MAX_MANIFEST_BYTES};

/// Names requested before a whole listing: in a table of the second naming scheme the newest version comes first. A local
/// folder has no order and gives all names at once.
const FIRST_NAMES: usize = 16;

/// Naming scheme and newest version; `None` if there is no manifest.
///
/// A short listing is enough where the newest name comes first; a table of the first naming scheme needs the whole listing.
///
/// With an external manifest store, its newest row is the answer; a table that it does not know is listed.
pub(crate) async fn newest(store: &Store) -> Result<Option<(NamingScheme, u64)>> {
    if let Some(register) = store.register()
        && let Some(newest) = external::newest(register.as_ref()).await?
    {
        return Ok(Some(newest));
    }
    let first = store.list_names(VERSIONS, FIRST_NAMES).await?;
    let names = first.names.iter().map(String::as_str);
    let mut schemes = names.clone().filter_map(parse_manifest_name).peekable();
    if first.are_all || (schemes.peek().is_some() && schemes.all(|(s, _)| s == NamingScheme::V2)) {
        return Ok(newest_of(names).map_err(|error| error.at(place(store)))?);
    }
    let all = all(store).await?;
    Ok(all.and_then(|(scheme, versions)| Some((scheme, *versions.last()?))))
}

/// Naming scheme and all versions, ascending.
pub(crate) async fn all(store: &Store) -> Result<Option<(NamingScheme, Vec<u64>)>> {
    let listed = store.list_names(VERSIONS, usize::MAX).await?;
    let found = versions_of(listed.names.iter().map(String::as_str));
    let found = found.map_err(|e| e.at(place(store)))?;
    let Some(register) = store.register() else {
        return Ok(found);
    };
    // The manifest of the newest version may not have its final name yet.
    let newest = external::newest(register.as_ref()).await?;
    Ok(match (found, newest) {
        (Some((scheme, mut versions)), Some((_, newest))) => {
            if versions.last().is_some_and(|last| *last < newest) {
                versions.push(newest);
            }
            Some((scheme, versions))
        }
        (None, Some((scheme, newest))) => Some((scheme, vec![newest])),
        (found, None) => found,
    })
}

/// Publishes the manifest of a version: creates it under its final name, which fails if the name is taken. Calls `named`
/// as soon as other processes can see the name, which may be before it is durable.
pub(crate) async fn publish(
    store: &Store,
    scheme: NamingScheme,
    version: u64,
    bytes: Bytes,
    named: impl FnOnce() + Send,
) -> pilum_store::Result<()> {
    match store.register() {
        Some(register) => external::publish(store, register.as_ref(), scheme, version, bytes).await,
        None => {
            let path = manifest_path(scheme, version);
            store.create_and_then(&path, bytes, named).await
        }
    }
}

fn place(store: &Store) -> String {
    format!("{}/{VERSIONS}", store.uri())
}

/// Reads the manifest of a version, with its size in bytes; `None` if there is no such file.
pub(crate) async fn read_manifest(
    store: &Store,
    scheme: NamingScheme,
    version: u64,
) -> Result<Option<(ManifestFile, u64)>> {
    let path = manifest_path(scheme, version);
    let bytes = match (
        store.read(&path, MAX_MANIFEST_BYTES).await,
        store.register(),
    ) {
        (Ok(bytes), _) => bytes,
        (Err(pilum_store::Error::NotFound { .. }), Some(register)) => {
            match external::read_staged(store, register.as_ref(), scheme, version).await? {
                Some(bytes) => bytes,
                None => return Ok(None),
            }
        }
        (Err(pilum_store::Error::NotFound { .. }), None) => return Ok(None),
        (Err(error), _) => return Err(error.into()),
    };
    let place = format!("{}/{path}", store.uri());
    let file = ManifestFile::decode(&bytes, &place)?;
    if file.manifest.version != version {
        return Err(
            Error::corrupt(format!("it holds version {}", file.manifest.version)).at(place),
        );
    }
    Ok(Some((file, bytes.len() as u64)))
}

/// Reads a transaction file by its bare name; `None` without one.
pub(crate) async fn read_transaction(store: &Store, name: &str) -> Result<Option<Transaction>> {
    if name.is_empty() || path_fault(name).is_some() || name.contains('/') {
        return Ok(None);
    }
    let path = format!("{TRANSACTIONS}/{name}");
    match store.read(&path, MAX_MANIFEST_BYTES).await {
        Ok(bytes) => {
            let place = format!("{}/{path}", store.uri());
            let transaction = Transaction::decode(&bytes).map_err(|error| error.at(place))?;
            Ok(Some(transaction))
        }
        Err(pilum_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Why there is no table at the store's root.
pub(crate) async fn no_table(store: &Store) -> Error {
    let uri = store.uri();
    let has_files = store
        .list_first("", 1)
        .await
        .is_ok_and(|files| !files.is_empty());
    let path = Path::new(uri);
    let is_folder = store.is_local() && path.is_dir();
    let what = if store.is_local() && path.is_file() {
        format!("a table at {uri} (this is a file)")
    } else if has_files || is_folder {
        format!("a table in {uri} (the folder has no _versions)")
    } else {
        format!("a table at {uri}")
    };
    let hint = "check the address, or create the table by writing to it".to_owned();
    Error::NotFound { what, hint }
}
