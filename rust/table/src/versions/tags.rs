//! Reading tags from a store.

use std::collections::BTreeMap;

use pilum_format::paths::TAGS;
use pilum_format::{Tag, tag_name, tag_path};
use pilum_store::Store;

use crate::error::Result;

/// Largest tag file.
const MAX_TAG_BYTES: u64 = 64 << 10;

/// Reads a tag; `None` if there is none of the name.
pub(crate) async fn read_tag(store: &Store, name: &str) -> Result<Option<Tag>> {
    let path = tag_path(name)?;
    match store.read(&path, MAX_TAG_BYTES).await {
        Ok(bytes) => {
            let place = format!("{}/{path}", store.uri());
            Ok(Some(Tag::decode(&bytes).map_err(|error| error.at(place))?))
        }
        Err(pilum_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// All tags of a table, by their names.
pub(crate) async fn all_tags(store: &Store) -> Result<BTreeMap<String, Tag>> {
    let mut tags = BTreeMap::new();
    for listed in store.list_recursive(TAGS).await? {
        if let Some(name) = tag_name(&listed.path)
            && let Some(tag) = read_tag(store, name).await?
        {
            tags.insert(name.to_owned(), tag);
        }
    }
    Ok(tags)
}
