//! What lies between two versions: rows that came, went and changed, and columns.
//!
//! With stable row ids a row is its id, and it was updated if another version than before changed it last: exact, whatever
//! happened between, compaction and restores included. Without them a row is its address: one that was updated or moved by
//! a compaction counts as removed and added, and nothing is said about updates.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pilum_format::{Field, FieldId, Fragment, RowVersions, Schema};
use roaring::{RoaringBitmap, RoaringTreemap};

use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;
use crate::versions::created_versions::FIRST_VERSION;

/// From the older of two versions to the newer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diff {
    /// The older version.
    pub from_version: u64,
    /// The newer version.
    pub to_version: u64,
    /// Rows that only the newer has.
    pub num_added: u64,
    /// Rows that only the older has.
    pub num_removed: u64,
    /// Rows of both that were given new values; none without stable row ids, where they count as removed and added.
    pub num_updated: Option<u64>,
    /// Columns that only the newer has, by path.
    pub added_columns: Vec<String>,
    /// Columns that only the older has, by path.
    pub removed_columns: Vec<String>,
    /// Columns of both with another name, type or nullability, by their new path.
    pub altered_columns: Vec<String>,
}

impl Snapshot {
    /// What lies between this version and `other`, from the older to the newer. The cost is that of the fragments in which
    /// they differ; no data file is read.
    ///
    /// # Errors
    /// When a deletion file cannot be read, or row ids are damaged.
    pub async fn diff(&self, other: &Self) -> Result<Diff> {
        let (old, new) = if self.version() <= other.version() {
            (self, other)
        } else {
            (other, self)
        };
        let mut diff = Diff {
            from_version: old.version(),
            to_version: new.version(),
            ..Diff::default()
        };
        diff.compare_columns(old.schema(), new.schema());
        let stable = |it: &Self| it.manifest().has_stable_row_ids();
        if stable(old) && stable(new) {
            diff.compare_ids(old, new).await?;
        } else {
            diff.compare_addresses(old, new).await?;
        }
        Ok(diff)
    }

    async fn deleted_rows(&self, fragment: &Fragment) -> Result<RoaringBitmap> {
        let deleted = self.read_context().deleted(fragment).await?;
        Ok(deleted.as_deref().cloned().unwrap_or_default())
    }

    /// The live rows of fragments that `other` has not in the same state.
    async fn rows_unlike(&self, other: &Self) -> Result<Rows> {
        let mut rows = Rows::default();
        for fragment in self.fragments() {
            if other.manifest().fragment(fragment.id) == Some(fragment) {
                continue;
            }
            let deleted = self.deleted_rows(fragment).await?;
            let ids = fragment.row_ids()?.ok_or_else(|| {
                Error::corrupt(format!("fragment {} has no row ids", fragment.id)).at(self.uri())
            })?;
            let updated = fragment.last_updated_at()?;
            let updated = updated.unwrap_or_else(|| RowVersions::uniform(ids.len(), FIRST_VERSION));
            let ids = ids.without(&deleted);
            for segment in ids.segments() {
                match segment {
                    pilum_format::Segment::Range(range) if !range.is_empty() => {
                        rows.ids.insert_range(range.clone());
                    }
                    segment => rows.ids.extend(segment.iter()),
                }
            }
            rows.changed.push((ids, updated.without(&deleted)));
        }
        Ok(rows)
    }
}

/// Live rows, and when each was changed last.
#[derive(Default)]
struct Rows {
    ids: RoaringTreemap,
    changed: Vec<(pilum_format::RowIdSequence, RowVersions)>,
}

impl Rows {
    /// The rows among `wanted` with the version that changed them last.
    fn changes<'a>(&'a self, wanted: &'a RoaringTreemap) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.changed.iter().flat_map(move |(ids, versions)| {
            let runs = versions.runs();
            let versions = runs.flat_map(|(rows, version)| (0..rows).map(move |_| version));
            ids.iter()
                .zip(versions)
                .filter(|(id, _)| wanted.contains(*id))
        })
    }
}

impl Diff {
    async fn compare_ids(&mut self, old: &Snapshot, new: &Snapshot) -> Result<()> {
        let before = old.rows_unlike(new).await?;
        let after = new.rows_unlike(old).await?;
        self.num_added = (&after.ids - &before.ids).len();
        self.num_removed = (&before.ids - &after.ids).len();
        let both = &before.ids & &after.ids;
        let known: HashMap<u64, u64> = before.changes(&both).collect();
        let updated = after.changes(&both);
        let updated = updated.filter(|(id, version)| known.get(id) != Some(version));
        self.num_updated = Some(updated.count() as u64);
        Ok(())
    }

    async fn compare_addresses(&mut self, old: &Snapshot, new: &Snapshot) -> Result<()> {
        let newer: BTreeMap<u64, &Fragment> =
            new.fragments().iter().map(|it| (it.id, it)).collect();
        let mut common = BTreeSet::new();
        for fragment in old.fragments() {
            match newer.get(&fragment.id) {
                Some(after) if after.physical_rows == fragment.physical_rows => {
                    common.insert(fragment.id);
                    if after.deletion == fragment.deletion {
                        continue;
                    }
                    let gone_before = old.deleted_rows(fragment).await?;
                    let gone_after = new.deleted_rows(after).await?;
                    self.num_removed += (&gone_after - &gone_before).len();
                    self.num_added += (&gone_before - &gone_after).len();
                }
                _ => self.num_removed += fragment.num_rows().unwrap_or_default(),
            }
        }
        let added = new.fragments().iter().filter(|it| !common.contains(&it.id));
        let added = added.filter_map(Fragment::num_rows);
        self.num_added += added.sum::<u64>();
        Ok(())
    }

    fn compare_columns(&mut self, old: &Schema, new: &Schema) {
        let (before, after) = (paths(old), paths(new));
        for (id, (path, field)) in &after {
            match before.get(id) {
                None => self.added_columns.push(path.clone()),
                Some((old_path, old)) => {
                    let is_same = path == old_path
                        && field.nullable == old.nullable
                        && (is_struct(field) || field.data_type == old.data_type);
                    if !is_same {
                        self.altered_columns.push(path.clone());
                    }
                }
            }
        }
        for (id, (path, _)) in &before {
            if !after.contains_key(id) {
                self.removed_columns.push(path.clone());
            }
        }
        // A column in another type has another id, and is altered all the same.
        let (added, removed) = (&mut self.added_columns, &mut self.removed_columns);
        let retyped: Vec<String> = added
            .iter()
            .filter(|it| removed.contains(it))
            .cloned()
            .collect();
        added.retain(|it| !retyped.contains(it));
        removed.retain(|it| !retyped.contains(it));
        self.altered_columns.extend(retyped);
        for columns in [
            &mut self.added_columns,
            &mut self.removed_columns,
            &mut self.altered_columns,
        ] {
            columns.sort();
        }
    }
}

fn is_struct(field: &Field) -> bool {
    matches!(field.data_type, arrow_schema::DataType::Struct(_))
}

/// Columns and members of structs, by id. What lies in a list is part of the list.
fn paths(schema: &Schema) -> BTreeMap<FieldId, (String, &Field)> {
    fn add<'a>(
        fields: &'a [Field],
        above: &str,
        paths: &mut BTreeMap<FieldId, (String, &'a Field)>,
    ) {
        for field in fields {
            let path = format!("{above}{}", field.name);
            if is_struct(field) {
                add(&field.children, &format!("{path}."), paths);
            }
            paths.insert(field.id, (path, field));
        }
    }
    let mut found = BTreeMap::new();
    add(&schema.fields, "", &mut found);
    found
}
