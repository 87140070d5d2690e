//! Data files that no longer need the extension, because the columns that needed it are not in the schema any more.

use std::collections::BTreeSet;

use pilum_format::{FieldId, Schema};

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
        let left = schema.held_by(&file.field_ids);
        if !reader.columns_need_extension(&left).await? {
            plain.insert(file.path.clone());
        }
    }
    Ok(plain)
}
