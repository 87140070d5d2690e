//! The files behind an address: one file, or all files of a folder with the hive keys of their paths.

use percent_encoding::percent_decode_str;
use pilum_store::{StorageOptions, Store};

use crate::error::{Error, Result};

/// A file that was found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) store: Store,
    /// Below the root of the store.
    pub(crate) path: String,
    pub(crate) size: Option<u64>,
    /// Keys and values of the folders below the address, in the order of the path; no value for the null partition.
    pub(crate) keys: Vec<(String, Option<String>)>,
}

/// The name that Hive gives to the partition of null.
const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// The files at `uri`, sorted by path. In a folder, files and folders whose names begin with `_` or `.` are not data.
///
/// # Errors
/// [`Error::Store`] if there is nothing at the address; `CommonError::InvalidInput` for a folder without files.
pub(crate) async fn discover(
    uri: &str,
    storage: &StorageOptions,
    hive: bool,
) -> Result<Vec<Found>> {
    if let Some((store, name)) = open_parent(uri, storage)? {
        match store.stat(&name).await {
            Ok(stat) => {
                return Ok(vec![Found {
                    store,
                    path: name,
                    size: Some(stat.size),
                    keys: Vec::new(),
                }]);
            }
            Err(pilum_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let store = Store::open(uri, storage)?;
    let listed = store.list_recursive("").await?;
    if listed.is_empty() {
        return Err(pilum_store::Error::NotFound {
            path: store.uri().to_owned(),
        }
        .into());
    }
    let is_hidden = |path: &str| path.split('/').any(|part| part.starts_with(['_', '.']));
    let mut found = Vec::new();
    for object in listed.into_iter().filter(|object| !is_hidden(&object.path)) {
        found.push(Found {
            store: store.clone(),
            keys: if hive {
                keys_of(&object.path)
            } else {
                Vec::new()
            },
            path: object.path,
            size: Some(object.size),
        });
    }
    if found.is_empty() {
        return Err(Error::invalid(
            store.uri(),
            "the folder has no data file: names that begin with _ or . are not data",
        ));
    }
    Ok(found)
}

/// The folder that an address lies in, and its name there.
///
/// # Errors
/// [`Error::Store`] for an address that means nothing.
pub(crate) fn open_parent(uri: &str, storage: &StorageOptions) -> Result<Option<(Store, String)>> {
    let (scheme, rest) = match uri.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, uri),
    };
    let Some((folder, name)) = rest.rsplit_once('/').filter(|(_, name)| !name.is_empty()) else {
        return Ok(match (scheme, rest) {
            (None, name) if !name.is_empty() && !name.ends_with('/') => {
                Some((Store::open(".", storage)?, name.to_owned()))
            }
            _ => None,
        });
    };
    let (parent, name) = match scheme {
        // A bucket has no parent.
        Some(scheme) if !scheme.eq_ignore_ascii_case("file") && folder.is_empty() => {
            return Ok(None);
        }
        Some(scheme) => {
            let name = match scheme.eq_ignore_ascii_case("file") {
                true => percent_decode_str(name).decode_utf8_lossy().into_owned(),
                false => name.to_owned(),
            };
            (format!("{scheme}://{folder}/"), name)
        }
        None if folder.is_empty() => ("/".to_owned(), name.to_owned()),
        None => (folder.to_owned(), name.to_owned()),
    };
    Ok(Some((Store::open(&parent, storage)?, name)))
}

fn keys_of(path: &str) -> Vec<(String, Option<String>)> {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let key = |folder: &str| {
        let (key, value) = folder.split_once('=')?;
        let value = (value != NULL_PARTITION).then(|| decoded(value));
        (!key.is_empty()).then(|| (decoded(key), value))
    };
    folders.split('/').filter_map(key).collect()
}

/// The folder name of a partition value.
pub(crate) fn folder_of(key: &str, value: Option<&str>) -> String {
    use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
    /// The characters that Hive writes as `%XX`, so that any value can be a part of a folder name.
    const ESCAPED: &AsciiSet = &CONTROLS
        .add(b'"')
        .add(b'#')
        .add(b'%')
        .add(b'\'')
        .add(b'*')
        .add(b'/')
        .add(b':')
        .add(b'=')
        .add(b'?')
        .add(b'\\')
        .add(b'{')
        .add(b'[')
        .add(b']')
        .add(b'^');
    let encoded = |text: &str| utf8_percent_encode(text, ESCAPED).to_string();
    match value {
        Some(value) => format!("{}={}", encoded(key), encoded(value)),
        None => format!("{}={NULL_PARTITION}", encoded(key)),
    }
}
