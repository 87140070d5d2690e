//! Data files that no longer need the extension, because the columns that needed it are not in the schema any more.

use std::collections::{BTreeMap, BTreeSet};

use arrow_schema::DataType;
use pilum_format::{Field, FieldId, Schema};

use crate::error::Result;
use crate::read::snapshot::Snapshot;

/// Paths, below `data/`, of files of `base` that are marked as needing the extension, and whose columns in `schema`, a
/// schema with fewer columns, can be read without it. Only marked files that lose a column are opened.
pub(super) async fn plain_files(base: &Snapshot, schema: &Schema) -> Result<BTreeSet<String>> {
    let (before, after): (BTreeSet<FieldId>, BTreeSet<FieldId>) = (
        base.schema().ids().into_iter().collect(),
        schema.ids().into_iter().collect(),
    );
    let mut plain = BTreeSet::new();
    for file in base.fragments().iter().flat_map(|it| &it.files) {
        let loses_a_column = file.has_any(|id| before.contains(&id) && !after.contains(&id));
        if !file.needs_extension || !loses_a_column {
            continue;
        }
        let reader = base.read_context().open(file).await?;
        let left = held_fields(schema, &file.field_ids);
        if !reader.columns_need_extension(&left).await? {
            plain.insert(file.path.clone());
        }
    }
    Ok(plain)
}

/// The part of a schema that a file with these field ids holds.
pub(crate) fn held_fields(schema: &Schema, ids: &[FieldId]) -> Schema {
    Schema {
        fields: schema
            .fields
            .iter()
            .filter_map(|field| held(field, ids))
            .collect(),
        metadata: BTreeMap::new(),
    }
}

/// The part of a field that the file holds: a struct may be spread over several files.
fn held(field: &Field, ids: &[FieldId]) -> Option<Field> {
    if !ids.contains(&field.id) {
        return None;
    }
    if !matches!(field.data_type, DataType::Struct(_)) {
        return Some(field.clone());
    }
    let members: Vec<Field> = (field.children.iter())
        .filter_map(|child| held(child, ids))
        .collect();
    (!members.is_empty()).then(|| field.with_children(members))
}
