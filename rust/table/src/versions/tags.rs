//! Reading tags from a store.

use pilum_format::{Tag, tag_path};
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
