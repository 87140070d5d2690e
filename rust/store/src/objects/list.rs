//! Listing the folders of an object store.

use std::time::SystemTime;

use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};

use super::bucket::Bucket;
use crate::error::Result;
use crate::object::Listed;

impl Bucket {
    pub(super) async fn list_all(&self, prefix: &str) -> Result<Vec<Listed>> {
        let (key, shown) = self.folder_key(prefix)?;
        self.tally.list();
        let answer = self.client()?.list_with_delimiter(key.as_ref()).await;
        let found = answer
            .map_err(|e| self.failed(&shown, "list the folder", e))?
            .objects;
        let mut listed: Vec<Listed> = found.iter().filter_map(|meta| self.listed(meta)).collect();
        listed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(listed)
    }

    /// Stops reading the listing after `count` names, where the store lists in order.
    pub(super) async fn list_first(&self, prefix: &str, count: usize) -> Result<Vec<Listed>> {
        if !self.lists_in_order || count == usize::MAX {
            let mut listed = self.list_all(prefix).await?;
            listed.truncate(count);
            return Ok(listed);
        }
        let (key, shown) = self.folder_key(prefix)?;
        self.tally.list();
        let depth = key.as_ref().map_or(0, |key| key.parts().count()) + 1;
        let found: Vec<ObjectMeta> = self
            .client()?
            .list(key.as_ref())
            .try_filter(|meta| std::future::ready(meta.location.parts().count() == depth))
            .take(count)
            .try_collect()
            .await
            .map_err(|e| self.failed(&shown, "list the folder", e))?;
        Ok(found
            .into_iter()
            .filter_map(|meta| self.listed(&meta))
            .collect())
    }

    pub(super) async fn list_below(&self, prefix: &str) -> Result<Vec<Listed>> {
        let (key, shown) = self.folder_key(prefix)?;
        self.tally.list();
        let found: Vec<ObjectMeta> = self
            .client()?
            .list(key.as_ref())
            .try_collect()
            .await
            .map_err(|e| self.failed(&shown, "list the folder", e))?;
        let mut listed: Vec<Listed> = found.iter().filter_map(|meta| self.listed(meta)).collect();
        listed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(listed)
    }

    fn listed(&self, meta: &ObjectMeta) -> Option<Listed> {
        let path = self.relative(&meta.location)?;
        Some(Listed {
            path,
            size: meta.size,
            modified: SystemTime::from(meta.last_modified),
        })
    }
}
