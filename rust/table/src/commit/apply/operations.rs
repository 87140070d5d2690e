//! What each operation makes of a manifest, one function per operation.

use std::collections::BTreeMap;

use arrow_array::ArrayRef;
use bytes::Bytes;
use pilum_format::proto::file::Field;
use pilum_format::{ConfigUpdate, Fragment, MapUpdate, Operation, is_type_declaration};

use super::next_version::{NextVersion, Surroundings, check_columns, max_id};
use crate::commit::conflict::touched_fragments;
use crate::error::{Error, Result};

/// Dictionary values by field id.
type Values = BTreeMap<i32, ArrayRef>;

impl NextVersion {
    /// Applies `operation`.
    pub(super) fn apply(&mut self, operation: &Operation, around: &Surroundings<'_>) -> Result<()> {
        match operation {
            Operation::Append { fragments } => self.append(fragments, &around.dictionaries),
            Operation::Delete {
                updated,
                removed_ids,
                ..
            } => self.delete(updated, removed_ids),
            Operation::Overwrite {
                fragments,
                fields,
                schema_metadata,
                config_upserts,
            } => {
                self.set_schema(fields, schema_metadata);
                self.config.extend(config_upserts.clone());
                self.overwrite(fragments, &around.dictionaries)
            }
            Operation::CreateIndex { added, removed } => {
                let mut indices = self.indices()?;
                indices.retain(|index| removed.iter().all(|gone| gone.uuid != index.uuid));
                indices.extend(added.iter().cloned());
                self.set_indices(indices);
                // The column of an index may have been dropped while the index was made.
                self.drop_dead_indices()
            }
            Operation::Rewrite {
                groups,
                rewritten_indices,
            } => {
                self.rewrite(groups)?;
                self.remap_indices(groups, rewritten_indices)
            }
            Operation::Merge {
                fragments,
                fields,
                schema_metadata,
                ..
            } => {
                check_columns(fragments, fields, |fragment, id| self.lacks(fragment, id))?;
                self.set_schema(fields, schema_metadata);
                self.merge(fragments, &around.dictionaries)
            }
            Operation::Restore { version } => self.bring_back(*version, around),
            Operation::ReserveFragments { num_fragments } => self.reserve(*num_fragments),
            Operation::Update {
                removed_ids,
                updated,
                added,
                ..
            } => {
                let mut sources = self.fragments.clone();
                let touched = touched_fragments(operation);
                sources.retain(|fragment| touched.contains(&fragment.id));
                self.grow_dictionaries(&around.dictionaries)?;
                self.delete(updated, removed_ids)?;
                self.add(added, &sources)
            }
            Operation::Project { fields, .. } => self.project(fields),
            Operation::UpdateConfig(update) => self.update_config(update),
            Operation::DataReplacement { replacements } => self.swap_files(replacements),
            Operation::Unknown(number) => Err(Error::unsupported(
                format!("operation {number} of a transaction"),
                "commit it with the program that made it",
            )),
        }
    }

    fn set_schema(&mut self, fields: &[Field], metadata: &BTreeMap<String, Bytes>) {
        self.fields = fields.to_vec();
        self.schema_metadata.clone_from(metadata);
    }

    fn append(&mut self, fragments: &[Fragment], dictionaries: &Values) -> Result<()> {
        self.grow_dictionaries(dictionaries)?;
        self.add(fragments, &[])
    }

    fn delete(&mut self, updated: &[Fragment], removed_ids: &[u64]) -> Result<()> {
        self.replace(updated)?;
        self.remove(removed_ids)?;
        // `updated` are fragments of the base: a column that was dropped meanwhile stays dropped.
        self.drop_dead_files();
        Ok(())
    }

    fn overwrite(&mut self, fragments: &[Fragment], dictionaries: &Values) -> Result<()> {
        self.fragments.clear();
        self.index_section = None;
        self.dictionaries.clone_from(dictionaries);
        self.add(fragments, &[])
    }

    fn merge(&mut self, fragments: &[Fragment], dictionaries: &Values) -> Result<()> {
        let before = std::mem::replace(&mut self.fragments, fragments.to_vec());
        self.keep_dictionaries(dictionaries);
        self.stamp_new_files(&before);
        self.drop_dead_indices()
    }

    fn bring_back(&mut self, version: u64, around: &Surroundings<'_>) -> Result<()> {
        let restored = around.restored.ok_or_else(|| Error::NotFound {
            what: format!("version {version}"),
            hint: "list the versions that are left".to_owned(),
        })?;
        self.restore(restored);
        Ok(())
    }

    fn reserve(&mut self, num_fragments: u32) -> Result<()> {
        let first = self.highest_fragment_id().map_or(0, |id| id + 1);
        let last = (first + u64::from(num_fragments)).checked_sub(1);
        self.max_fragment_id = max_id(last)?;
        Ok(())
    }

    fn project(&mut self, fields: &[Field]) -> Result<()> {
        let before = std::mem::replace(&mut self.fields, fields.to_vec());
        // A projection edits no metadata: an edit that was committed meanwhile stays.
        for field in &mut self.fields {
            if let Some(same) = before.iter().find(|it| it.id == field.id) {
                let of_type = declared(field);
                field.metadata.clone_from(&same.metadata);
                let logical_type = &field.logical_type;
                field
                    .metadata
                    .retain(|key, _| !is_type_declaration(logical_type, key));
                field.metadata.extend(of_type);
            }
        }
        self.drop_dead_files();
        self.keep_dictionaries(&BTreeMap::new());
        self.drop_dead_indices()
    }

    fn update_config(&mut self, update: &ConfigUpdate) -> Result<()> {
        update.config.apply(&mut self.config);
        update.table_metadata.apply(&mut self.table_metadata);
        update.schema_metadata.apply(&mut self.schema_metadata);
        for (id, edit) in &update.field_metadata {
            let field = self.fields.iter_mut().find(|field| field.id == *id);
            let field = field.ok_or_else(|| {
                Error::invalid(format!("field {id}"), "is not in the schema of the table")
            })?;
            edit_field(field, edit)?;
        }
        Ok(())
    }
}

/// Metadata of a field that is part of its type.
fn declared(field: &Field) -> BTreeMap<String, Vec<u8>> {
    let mut of_type = field.metadata.clone();
    of_type.retain(|key, _| is_type_declaration(&field.logical_type, key));
    of_type
}

/// Edits the metadata of a field. Some keys are part of its type: an edit neither removes nor adds them.
fn edit_field(field: &mut Field, edit: &MapUpdate) -> Result<()> {
    let mut keys = edit.entries.keys();
    if let Some(key) = keys.find(|key| is_type_declaration(&field.logical_type, key)) {
        return Err(Error::invalid(
            format!("metadata `{key}` of column `{}`", field.name),
            "is part of the type, which is not edited as metadata; leave the key out",
        ));
    }
    let of_type = declared(field);
    edit.apply(&mut field.metadata);
    field.metadata.extend(of_type);
    Ok(())
}
