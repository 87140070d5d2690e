//! A manifest while the next version is made of it: the steps that the operations are composed of.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

use arrow_array::ArrayRef;
use chrono::{DateTime, Utc};
use pilum_format::proto::file::Field;
use pilum_format::proto::table as proto;
use pilum_format::{
    Compat, DataFile, Fragment, Manifest, REPLACED_FIELD, RewriteGroup, RowIdSequence, RowVersions,
    Transaction, WRITER_LIBRARY, longer,
};
use roaring::RoaringBitmap;

use crate::commit::conflict::covered_fragments;
use crate::error::{Error, Result};
use crate::versions::created_versions::CreatedVersions;

/// What an operation needs to know beside the transaction and the current version.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings<'a> {
    /// The manifest that a `Restore` brings back.
    pub(crate) restored: Option<&'a Manifest>,
    /// Dictionary values of the columns of a new schema, and of columns whose dictionary grew: the transaction does not
    /// hold them.
    pub(crate) dictionaries: BTreeMap<i32, ArrayRef>,
    /// Whether a new table gets stable row ids; an existing one keeps what it has.
    pub(crate) stable_row_ids: bool,
    /// The compat to record; `None` leaves what is recorded.
    pub(crate) compat: Option<Compat>,
    /// The time of the commit.
    pub(crate) now: DateTime<Utc>,
}

/// Structs, and structs that are the items of lists, own no page.
pub(super) fn has_pages(field: &Field) -> bool {
    field.logical_type != "struct"
}

/// The ids of the fields that the files of a fragment hold.
fn held(fragment: &Fragment) -> BTreeSet<i32> {
    let ids = |file: &DataFile| file.field_ids.clone();
    fragment.files.iter().flat_map(ids).collect()
}

/// Every column with pages must be in every new fragment, because version 1 readers cannot fill in others. An exception are
/// the `absent` columns: the rows lacked them in the current version already, as other writers may leave them.
pub(super) fn check_columns(
    fragments: &[Fragment],
    fields: &[Field],
    absent: impl Fn(&Fragment, i32) -> bool,
) -> Result<()> {
    for fragment in fragments {
        let present = held(fragment);
        let mut stored = fields.iter().filter(|field| has_pages(field));
        let is_missing =
            |field: &&Field| !present.contains(&field.id) && !absent(fragment, field.id);
        if let Some(missing) = stored.find(is_missing) {
            return Err(Error::invalid(
                format!("column `{}`", missing.name),
                "is missing in a new fragment; write every column of the schema",
            ));
        }
    }
    Ok(())
}

pub(super) fn max_id(id: Option<u64>) -> Result<Option<u32>> {
    id.map(u32::try_from)
        .transpose()
        .map_err(|_| Error::limit("the table", "more than 2^32 fragment ids", "2^32"))
}

fn no_fragment(id: u64) -> Error {
    Error::invalid(
        format!("fragment {id}"),
        "is not in the newest version of the table; read it again and redo the work",
    )
}

/// The next version while an operation makes it of the current one.
pub(super) struct NextVersion {
    manifest: Manifest,
    /// Whether the table gives its rows stable ids.
    pub(super) stable_row_ids: bool,
}

impl Deref for NextVersion {
    type Target = Manifest;

    fn deref(&self) -> &Manifest {
        &self.manifest
    }
}

impl DerefMut for NextVersion {
    fn deref_mut(&mut self) -> &mut Manifest {
        &mut self.manifest
    }
}

impl NextVersion {
    /// The version after `current` (`None`: the first one), before the operation of `transaction` is applied.
    pub(super) fn after(
        current: Option<&Manifest>,
        transaction: &Transaction,
        around: &Surroundings<'_>,
    ) -> Result<Self> {
        let mut next = Self {
            manifest: current.map_or_else(|| Manifest::empty(around.now), Manifest::clone),
            stable_row_ids: current.map_or(around.stable_row_ids, Manifest::has_stable_row_ids),
        };
        next.version += 1;
        next.timestamp = next.timestamp.max(around.now);
        next.max_fragment_id = max_id(next.highest_fragment_id())?;
        next.transaction_file = transaction.file_name();
        next.writer = Some((
            WRITER_LIBRARY.to_owned(),
            env!("CARGO_PKG_VERSION").to_owned(),
        ));
        next.data_format.get_or_insert_with(|| "0.1".to_owned());
        next.is_checksummed = true;
        Ok(next)
    }

    /// The manifest, once the operation is applied.
    pub(super) fn finish(mut self) -> Manifest {
        // These are positions in a data file; the manifest's own are set when it is encoded.
        for field in &mut self.manifest.fields {
            field.dictionary = None;
        }
        // A fragment without a live row holds nothing that a reader could see.
        let fragments = &mut self.manifest.fragments;
        fragments.retain(|fragment| fragment.num_rows() != Some(0));
        fragments.sort_by_key(|fragment| fragment.id);
        self.manifest.recompute_flags(self.stable_row_ids);
        self.manifest
    }

    /// Adds fragments with the next ids, in order, and gives their rows ids and versions. Rows that bring an id
    /// were rewritten from `sources`.
    pub(super) fn add(&mut self, fragments: &[Fragment], sources: &[Fragment]) -> Result<()> {
        let stable = self.stable_row_ids;
        check_columns(fragments, &self.fields, |_, _| false)?;
        let bring_ids = |it: &Fragment| it.row_ids.is_some() && it.created_at.is_none();
        let created = match stable && fragments.iter().any(bring_ids) {
            true => CreatedVersions::of(sources)?,
            false => CreatedVersions::default(),
        };
        for fragment in fragments {
            let mut fragment = fragment.clone();
            fragment.id = self.max_fragment_id.map_or(0, |id| u64::from(id) + 1);
            self.max_fragment_id = max_id(Some(fragment.id))?;
            if stable {
                self.assign_row_ids(&mut fragment, &created)?;
            } else {
                fragment.row_ids = None;
                fragment.created_at = None;
                fragment.last_updated_at = None;
            }
            self.fragments.push(fragment);
        }
        Ok(())
    }

    fn assign_row_ids(&mut self, fragment: &mut Fragment, before: &CreatedVersions) -> Result<()> {
        let rows = fragment.physical_rows;
        let mut ids = match &fragment.row_ids {
            Some(encoded) => RowIdSequence::decode(encoded)?,
            None => RowIdSequence::default(),
        };
        // Rewritten rows bring their ids; the rest of the fragment is new.
        let new = rows.checked_sub(ids.len()).ok_or_else(|| {
            Error::corrupt(format!(
                "{} row ids for {rows} rows of a new fragment",
                ids.len()
            ))
        })?;
        let end = self
            .next_row_id
            .checked_add(new)
            .ok_or_else(|| Error::limit("the table", "more than 2^64 row ids", "2^64"))?;
        let mut created = match &fragment.created_at {
            Some(encoded) => RowVersions::decode(encoded)?,
            None => before.versions(&ids),
        };
        created.extend(&RowVersions::uniform(new, self.version));
        ids.extend(&RowIdSequence::from_range(self.next_row_id..end));
        self.next_row_id = end;
        fragment.row_ids = Some(ids.encode());
        fragment.created_at = Some(created.encode());
        fragment.last_updated_at = Some(RowVersions::uniform(rows, self.version).encode());
        Ok(())
    }

    fn position(&self, id: u64) -> Result<usize> {
        self.fragments
            .iter()
            .position(|fragment| fragment.id == id)
            .ok_or_else(|| no_fragment(id))
    }

    /// Whether the fragment is in the current version, and lacks a column of the current version.
    pub(super) fn lacks(&self, fragment: &Fragment, id: i32) -> bool {
        let before = self.fragments.iter().find(|it| it.id == fragment.id);
        self.live_ids().contains(&id) && before.is_some_and(|before| !held(before).contains(&id))
    }

    pub(super) fn replace(&mut self, updated: &[Fragment]) -> Result<()> {
        for fragment in updated {
            let index = self.position(fragment.id)?;
            self.fragments[index] = fragment.clone();
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, removed_ids: &[u64]) -> Result<()> {
        for id in removed_ids {
            let index = self.position(*id)?;
            self.fragments.remove(index);
        }
        Ok(())
    }

    pub(super) fn rewrite(&mut self, groups: &[RewriteGroup]) -> Result<()> {
        for group in groups {
            let before: BTreeSet<i32> = group.old.iter().flat_map(held).collect();
            check_columns(&group.new, &self.fields, |_, id| !before.contains(&id))?;
            let old: Vec<u64> = group.old.iter().map(|fragment| fragment.id).collect();
            self.remove(&old)?;
            for fragment in &group.new {
                if self
                    .fragments
                    .iter()
                    .any(|present| present.id == fragment.id)
                {
                    return Err(Error::invalid(
                        format!("fragment {}", fragment.id),
                        "is there already; reserve ids for rewritten fragments",
                    ));
                }
                self.fragments.push(fragment.clone());
            }
        }
        self.max_fragment_id = max_id(self.highest_fragment_id())?;
        Ok(())
    }

    pub(super) fn restore(&mut self, restored: &Manifest) {
        let highest = self.max_fragment_id.max(restored.max_fragment_id);
        self.manifest = Manifest {
            // Ids given out since then stay taken.
            max_fragment_id: highest,
            next_row_id: self.next_row_id.max(restored.next_row_id),
            version: self.version,
            timestamp: self.timestamp,
            transaction_file: std::mem::take(&mut self.transaction_file),
            writer: self.writer.take(),
            data_format: self.data_format.take(),
            is_checksummed: self.is_checksummed,
            // The table keeps its compat, as in an overwrite.
            recorded_compat: self.recorded_compat,
            ..restored.clone()
        };
    }

    fn live_ids(&self) -> BTreeSet<i32> {
        self.fields.iter().map(|field| field.id).collect()
    }

    pub(super) fn drop_dead_files(&mut self) {
        let live = self.live_ids();
        for fragment in &mut self.fragments {
            fragment
                .files
                .retain(|file| file.has_any(|id| live.contains(&id)));
        }
    }

    /// Rows that got new values in some columns were updated by this version.
    pub(super) fn stamp_new_files(&mut self, before: &[Fragment]) {
        let stable = self.stable_row_ids;
        let known: BTreeSet<&str> = before
            .iter()
            .flat_map(|fragment| &fragment.files)
            .map(|file| file.path.as_str())
            .collect();
        let version = self.version;
        for fragment in self.fragments.iter_mut().filter(|_| stable) {
            let mut paths = fragment.files.iter().map(|file| file.path.as_str());
            if paths.any(|path| !known.contains(path)) {
                let versions = RowVersions::uniform(fragment.physical_rows, version);
                fragment.last_updated_at = Some(versions.encode());
            }
        }
    }

    /// An index on a column that is gone goes with it.
    pub(super) fn drop_dead_indices(&mut self) -> Result<()> {
        if self.index_section.is_none() {
            return Ok(());
        }
        let live = self.live_ids();
        let indices = self.indices()?;
        let is_live =
            |index: &proto::IndexMetadata| index.fields.iter().all(|id| live.contains(id));
        if !indices.iter().all(is_live) {
            self.set_indices(indices.into_iter().filter(is_live).collect());
        }
        Ok(())
    }

    /// Dictionaries of columns that are still there, and those of new ones.
    pub(super) fn keep_dictionaries(&mut self, new: &BTreeMap<i32, ArrayRef>) {
        let live = self.live_ids();
        self.dictionaries.extend(
            new.iter()
                .map(|(id, values)| (*id, ArrayRef::clone(values))),
        );
        self.dictionaries.retain(|id, _| live.contains(id));
    }

    /// Dictionaries with the values that new rows brought. The commit sees to it that one continues the other.
    pub(super) fn grow_dictionaries(&mut self, grown: &BTreeMap<i32, ArrayRef>) -> Result<()> {
        let live = self.live_ids();
        for (id, values) in grown.iter().filter(|(id, _)| live.contains(id)) {
            let longer = match self.dictionaries.get(id) {
                Some(have) => longer(have, values).ok_or_else(|| {
                    Error::invalid(
                        format!("the dictionary of field {id}"),
                        "does not continue that of the table; write the rows again",
                    )
                })?,
                None => ArrayRef::clone(values),
            };
            self.dictionaries.insert(*id, longer);
        }
        Ok(())
    }

    pub(super) fn swap_files(&mut self, replacements: &[(u64, DataFile)]) -> Result<()> {
        for (fragment_id, new) in replacements {
            let index = self.position(*fragment_id)?;
            let files = &mut self.fragments[index].files;
            if let Some(same) = files
                .iter_mut()
                .find(|file| file.field_ids == new.field_ids)
            {
                *same = new.clone();
                continue;
            }
            let is_new = |id: i32| id != REPLACED_FIELD && new.field_ids.contains(&id);
            if files.iter().any(|file| file.has_any(is_new)) {
                return Err(Error::invalid(
                    format!("fragment {fragment_id}"),
                    "has these columns in files with others; replace whole files",
                ));
            }
            files.push(new.clone());
        }
        Ok(())
    }

    /// An index over rewritten fragments is remapped by its owner, or dropped: its addresses are gone.
    pub(super) fn remap_indices(
        &mut self,
        groups: &[RewriteGroup],
        rewritten: &[proto::transaction::rewrite::RewrittenIndex],
    ) -> Result<()> {
        if self.index_section.is_none() {
            return Ok(());
        }
        let ids = |fragments: &[Fragment]| -> RoaringBitmap {
            fragments
                .iter()
                .filter_map(|fragment| u32::try_from(fragment.id).ok())
                .collect()
        };
        let mut kept = Vec::new();
        for mut index in self.indices()? {
            let covered = covered_fragments(&index);
            let remapped = rewritten.iter().find(|it| it.old_id == index.uuid);
            let touched = groups.iter().any(|group| match &covered {
                Some(covered) => !covered.is_disjoint(&ids(&group.old)),
                None => true,
            });
            match (remapped, covered) {
                (Some(remapped), Some(mut covered)) => {
                    for group in groups {
                        if ids(&group.old).is_subset(&covered) {
                            covered |= ids(&group.new);
                        }
                    }
                    for group in groups {
                        covered -= ids(&group.old);
                    }
                    let mut bitmap = Vec::new();
                    covered
                        .serialize_into(&mut bitmap)
                        .map_err(|error| Error::invalid("index", error.to_string()))?;
                    index.fragment_bitmap = bitmap.into();
                    index.uuid = remapped.new_id.clone();
                    index.index_details = remapped.new_index_details.clone();
                    index.index_version = i32::try_from(remapped.new_index_version).ok();
                    index.files = remapped.new_index_files.clone();
                    kept.push(index);
                }
                _ if touched => {}
                _ => kept.push(index),
            }
        }
        self.set_indices(kept);
        Ok(())
    }
}
