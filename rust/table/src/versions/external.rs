//! An external manifest store: a table of rows beside the object store decides which manifest a version has. For stores
//! that cannot create an object only if it is absent.
//!
//! ```text
//! 1 put the manifest at _versions/{final name}-{uuid}   a crash leaves a staged file, which cleanup takes
//! 2 insert (version, staged name) into the register     the instant of the commit; fails if the version has a row
//! 3 put the same bytes at the final name                from 2 on the version exists, whichever process dies
//! 4 point the row to the final name
//! 5 delete the staged file
//! ```
//!
//! Any process can do steps 3 to 5. A reader that finds no manifest at the final name asks the register, reads the staged
//! file that the row names, and finishes the steps. So these steps may fail without harm to the commit, and a reader
//! without the right to write can still read the version.
//!
//! A reader that finds an object at a final name does not ask the register: only step 3 writes there, and always the bytes
//! that the row decided.

use bytes::Bytes;
use pilum_format::paths::{VERSIONS, manifest_path};
use pilum_format::{NamingScheme, parse_manifest_name};
use pilum_store::failpoint::hit;
use pilum_store::{Error as StoreError, ManifestRegister, RegisterEntry, Store};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::versions::durable_put::{durable_put, remove_file};
use crate::versions::event;

/// Largest manifest or transaction that is read. The size comes from the store, not from untrusted bytes.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 2 << 30;

/// How often we look for a staged file that another process may be moving to its final name.
const LOOKS: usize = 3;

/// The version that a row is about, and where its manifest is.
struct Row {
    scheme: NamingScheme,
    /// The staged path, while the row does not name the final path.
    staged: Option<String>,
    entry: RegisterEntry,
}

impl Row {
    /// Checks a row, which another program may have written: its path must be a name of this version.
    fn of(entry: RegisterEntry, register: &dyn ManifestRegister) -> Result<Self> {
        let refused = || {
            let path = entry.path.escape_debug();
            let reason = format!(
                "the row of version {} names {path}, which is no manifest of that version",
                entry.version
            );
            Error::corrupt(reason).at(register.uri())
        };
        let folder = format!("{VERSIONS}/");
        let name = entry.path.strip_prefix(&folder).ok_or_else(refused)?;
        if let Some((scheme, version)) = parse_manifest_name(name) {
            if version != entry.version {
                return Err(refused());
            }
            return Ok(Self {
                scheme,
                staged: None,
                entry,
            });
        }
        let (scheme, version) = parse_staged_name(name).ok_or_else(refused)?;
        if version != entry.version {
            return Err(refused());
        }
        Ok(Self {
            scheme,
            staged: Some(entry.path.clone()),
            entry,
        })
    }
}

/// The version whose staged manifest has this name.
pub(crate) fn parse_staged_name(name: &str) -> Option<(NamingScheme, u64)> {
    let end = name.find(".manifest-")? + ".manifest".len();
    let (final_name, suffix) = name.split_at_checked(end)?;
    let is_suffix = suffix.len() > 1
        && suffix
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    parse_manifest_name(final_name).filter(|_| is_suffix)
}

/// Naming scheme and newest version by the register; `None` if it has no row of the table.
pub(crate) async fn newest(register: &dyn ManifestRegister) -> Result<Option<(NamingScheme, u64)>> {
    let Some(entry) = register.newest().await? else {
        return Ok(None);
    };
    let row = Row::of(entry, register)?;
    Ok(Some((row.scheme, row.entry.version)))
}

/// Reads the manifest of a version that is not at its final name, and finishes the steps of its commit.
pub(crate) async fn read_staged(
    store: &Store,
    register: &dyn ManifestRegister,
    scheme: NamingScheme,
    version: u64,
) -> Result<Option<Bytes>> {
    let final_path = manifest_path(scheme, version);
    for _ in 0..LOOKS {
        let Some(entry) = register.get(version).await? else {
            return Ok(None);
        };
        let row = Row::of(entry, register)?;
        if row.scheme != scheme {
            return Ok(None);
        }
        let path = row.staged.as_ref().unwrap_or(&final_path);
        match store.read(path, MAX_MANIFEST_BYTES).await {
            Ok(bytes) => {
                if let Some(size) = row.entry.size
                    && size != bytes.len() as u64
                {
                    let reason = format!("{} bytes, the register says {size}", bytes.len());
                    return Err(Error::corrupt(reason).at(format!("{}/{path}", store.uri())));
                }
                if let Some(staged) = &row.staged {
                    let done = finish(store, register, &final_path, staged, version, &bytes).await;
                    if let Err(error) = done {
                        // The next reader does it.
                        event::left_to_others(store, &final_path, &error);
                    }
                }
                return Ok(Some(bytes));
            }
            // A cleanup removed the version, or it never existed.
            Err(StoreError::NotFound { .. }) if row.staged.is_none() => return Ok(None),
            // Another process finished the steps meanwhile: read the final name, or the row again.
            Err(StoreError::NotFound { .. }) => {
                match store.read(&final_path, MAX_MANIFEST_BYTES).await {
                    Ok(bytes) if row.entry.size.is_none_or(|it| it == bytes.len() as u64) => {
                        // The staged file is deleted last, but a writer of another library may have died before it
                        // updated the row.
                        let pointed = point_to_final(register, &final_path, version, &bytes).await;
                        if let Err(error) = pointed {
                            event::left_to_others(store, &final_path, &error);
                        }
                        return Ok(Some(bytes));
                    }
                    Ok(_) | Err(StoreError::NotFound { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    let reason = format!(
        "the row of version {version} names a staged manifest that is gone, and there is none at the final name"
    );
    Err(Error::corrupt(reason).at(register.uri()))
}

/// Publishes the manifest of `version`: as [`Store::create`], decided by the register.
pub(crate) async fn publish(
    store: &Store,
    register: &dyn ManifestRegister,
    scheme: NamingScheme,
    version: u64,
    bytes: Bytes,
) -> pilum_store::Result<()> {
    let final_path = manifest_path(scheme, version);
    let staged = format!("{final_path}-{}", Uuid::new_v4());
    let place = format!("{}/{staged}", store.uri());
    let failed = |source| StoreError::Io {
        path: place.clone(),
        operation: "stage the manifest",
        source,
    };
    hit("external.before_stage", &place).map_err(failed)?;
    stage(store, &staged, &bytes).await?;
    if let Err(source) = hit("external.after_stage", &place) {
        remove_file(store, &staged).await;
        return Err(failed(source));
    }
    let entry = RegisterEntry {
        version,
        path: staged.clone(),
        size: Some(bytes.len() as u64),
    };
    match register.insert(entry).await {
        Ok(()) => {}
        Err(error @ StoreError::Unclear { .. }) => {
            // A row that names a staged file says which writer won. Without a row, or with one that names the final path,
            // only the manifest says it. Then the staged file stays: a late insert may still name it.
            let entry = match register.get(version).await {
                Ok(entry) => entry.filter(|entry| entry.path != final_path),
                Err(error) => {
                    event::left_to_others(store, &staged, &error);
                    None
                }
            };
            match entry {
                Some(entry) if entry.path == staged => {}
                Some(_) => {
                    remove_file(store, &staged).await;
                    return Err(StoreError::AlreadyExists {
                        path: format!("{}/{final_path}", store.uri()),
                    });
                }
                None => return Err(error),
            }
        }
        Err(error) => {
            remove_file(store, &staged).await;
            return Err(error);
        }
    }
    // The version is committed: a failure from here on is not an error of the commit.
    if let Err(error) = finish(store, register, &final_path, &staged, version, &bytes).await {
        event::left_to_others(store, &final_path, &error);
    }
    Ok(())
}

async fn stage(store: &Store, staged: &str, bytes: &Bytes) -> pilum_store::Result<()> {
    match durable_put(store, staged, bytes, "stage the manifest").await {
        Ok(()) => Ok(()),
        Err(Error::Store(error)) => Err(error),
        Err(error) => Err(StoreError::Io {
            path: format!("{}/{staged}", store.uri()),
            operation: "stage the manifest",
            source: std::io::Error::other(error.to_string()),
        }),
    }
}

/// Steps 3 to 5. Doing one of them twice does no harm.
async fn finish(
    store: &Store,
    register: &dyn ManifestRegister,
    final_path: &str,
    staged: &str,
    version: u64,
    bytes: &Bytes,
) -> Result<()> {
    let place = format!("{}/{final_path}", store.uri());
    let pass = |name| {
        hit(name, &place).map_err(|source| StoreError::Io {
            path: place.clone(),
            operation: "finish the commit",
            source,
        })
    };
    pass("external.after_insert")?;
    durable_put(store, final_path, bytes, "finish the commit").await?;
    pass("external.after_final")?;
    point_to_final(register, final_path, version, bytes).await?;
    pass("external.after_update")?;
    store.delete(staged).await?;
    pass("external.after_delete")?;
    Ok(())
}

async fn point_to_final(
    register: &dyn ManifestRegister,
    final_path: &str,
    version: u64,
    bytes: &Bytes,
) -> pilum_store::Result<()> {
    let entry = RegisterEntry {
        version,
        path: final_path.to_owned(),
        size: Some(bytes.len() as u64),
    };
    register.update(entry).await
}

/// True if the staged file at `path` belongs to no version: its writer lost, or died before the register knew it.
/// A file that a row names is finished instead.
pub(crate) async fn is_abandoned(
    store: &Store,
    register: &dyn ManifestRegister,
    path: &str,
) -> Result<bool> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let Some((scheme, version)) = parse_staged_name(name) else {
        return Ok(false);
    };
    let is_named = match register.get(version).await? {
        Some(entry) => entry.path == path,
        None => false,
    };
    if is_named {
        // The process that finishes the steps deletes the staged file.
        read_staged(store, register, scheme, version).await?;
    }
    Ok(!is_named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staged_names_tell_version_and_scheme() {
        let uuid = Uuid::new_v4();
        for scheme in [NamingScheme::V1, NamingScheme::V2] {
            for version in [1, 9, 10, 1 << 40] {
                let name = format!("{}-{uuid}", scheme.name(version));
                assert_eq!(parse_staged_name(&name), Some((scheme, version)), "{name}");
            }
        }
        for name in [
            "1.manifest",
            "1.manifest-",
            "01.manifest-a",
            "d1.manifest-a",
            "1.manifest-a/b",
            "1.manifest-a b",
            "-1.manifest-a",
            ".manifest-a",
            "x",
        ] {
            assert_eq!(parse_staged_name(name), None, "{name}");
        }
    }
}
