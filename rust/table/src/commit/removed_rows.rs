//! Rows that a statement removes from fragments: collected by address, then written as deletion files.

use std::collections::BTreeMap;

use bytes::Bytes;
use pilum_format::{
    DeletionFile, DeletionFileKind, Fragment, crc32c, deletion_file_kind, encode_deletions,
};
use roaring::RoaringBitmap;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;
use crate::versions::durable_put::durable_put;

/// The rows that a statement removes, by fragment.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct RemovedRows {
    rows: BTreeMap<u64, RoaringBitmap>,
}

impl RemovedRows {
    /// Adds rows by address.
    pub(crate) fn extend(&mut self, addresses: impl IntoIterator<Item = u64>) {
        let mut run: Option<(u64, Vec<u32>)> = None;
        for address in addresses {
            let (id, offset) = (address >> 32, (address & 0xFFFF_FFFF) as u32);
            match &mut run {
                Some((current, offsets)) if *current == id => offsets.push(offset),
                _ => {
                    self.add_run(run.take());
                    run = Some((id, vec![offset]));
                }
            }
        }
        self.add_run(run);
    }

    fn add_run(&mut self, run: Option<(u64, Vec<u32>)>) {
        if let Some((id, offsets)) = run {
            self.rows.entry(id).or_default().extend(offsets);
        }
    }

    /// Adds rows of one fragment.
    pub(crate) fn add(&mut self, fragment_id: u64, rows: &RoaringBitmap) {
        *self.rows.entry(fragment_id).or_default() |= rows;
    }

    /// True for the address of one of the rows.
    pub(crate) fn contains(&self, address: u64) -> bool {
        let rows = self.rows.get(&(address >> 32));
        rows.is_some_and(|rows| rows.contains((address & 0xFFFF_FFFF) as u32))
    }

    /// The rows by fragment.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &RoaringBitmap)> {
        self.rows.iter().map(|(id, rows)| (*id, rows))
    }

    /// How many rows.
    pub(crate) fn len(&self) -> u64 {
        self.rows.values().map(RoaringBitmap::len).sum()
    }

    /// True without any row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows of one fragment.
    pub(crate) fn of(&self, fragment_id: u64) -> Option<&RoaringBitmap> {
        self.rows.get(&fragment_id)
    }

    /// Writes the deletion files for the fragments of `base`. Returns the fragments that keep rows, and the ids of those that
    /// keep none. Adds the paths of the files to `files`, also of those that could not be written.
    pub(crate) async fn write(
        &self,
        base: &Snapshot,
        files: &mut Vec<String>,
    ) -> Result<(Vec<Fragment>, Vec<u64>)> {
        let (mut updated, mut removed_ids) = (Vec::new(), Vec::new());
        for (id, rows) in &self.rows {
            let fragment = base.manifest().fragment(*id).ok_or_else(|| {
                Error::corrupt(format!("rows of fragment {id}, which is not there")).at(base.uri())
            })?;
            let grown_from = fragment.deletion.as_ref().map(|deletion| deletion.kind);
            let kind = |len| deletion_file_kind(len, grown_from);
            match without(base, fragment, rows, kind, files).await? {
                Some(fragment) => updated.push(fragment),
                None => removed_ids.push(*id),
            }
        }
        Ok((updated, removed_ids))
    }
}

/// A fragment of `base` with `rows` deleted in addition to the rows that are deleted already; `None` if no row is left.
pub(crate) async fn without(
    base: &Snapshot,
    fragment: &Fragment,
    rows: &RoaringBitmap,
    kind: impl FnOnce(u64) -> DeletionFileKind,
    files: &mut Vec<String>,
) -> Result<Option<Fragment>> {
    let deleted = base.read_context().deleted(fragment).await?;
    let deleted = deleted.map_or_else(|| rows.clone(), |deleted| &*deleted | rows);
    if deleted.len() >= fragment.physical_rows {
        return Ok(None);
    }
    let kind = kind(deleted.len());
    let bytes: Bytes = encode_deletions(&deleted, kind)?;
    let file = DeletionFile {
        kind,
        read_version: base.version(),
        // Random bytes of the kernel: after a fork, parent and child would get the same numbers from a generator in memory.
        id: Uuid::new_v4().as_u64_pair().1,
        num_deleted_rows: deleted.len(),
        crc32c: Some(crc32c(&bytes)),
    };
    let path = file.path(fragment.id);
    files.push(path.clone());
    durable_put(base.store(), &path, &bytes, "write deleted rows").await?;
    Ok(Some(Fragment {
        deletion: Some(file),
        ..fragment.clone()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_any_order_fall_into_their_fragments() {
        let mut rows = RemovedRows::default();
        assert!(rows.is_empty());
        rows.extend([
            3 << 32 | 7,
            1 << 32,
            3 << 32 | 7,
            3 << 32 | u64::from(u32::MAX),
        ]);
        rows.extend([1 << 32 | 5]);
        assert_eq!(rows.len(), 4);
        assert_eq!(rows.of(3), Some(&[7, u32::MAX].into_iter().collect()));
        assert_eq!(rows.of(1), Some(&[0, 5].into_iter().collect()));
        assert_eq!(rows.of(0), None);
    }
}
