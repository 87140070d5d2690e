//! The columns in which two schemas differ.

use std::collections::BTreeMap;

use pilum_format::{Field, FieldId, Schema};

use super::Diff;

impl Diff {
    pub(super) fn compare_columns(&mut self, old: &Schema, new: &Schema) {
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
        // A column that was given another type has another field id; it still counts as altered.
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

/// Columns and members of structs, by field id. Fields below a list are part of the list.
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
