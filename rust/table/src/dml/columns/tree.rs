//! Finds fields by path, and builds schemas of some fields or without some fields.

use std::collections::BTreeSet;

use arrow_schema::DataType;
use pilum_expr::similar;
use pilum_format::{Field, FieldId, Schema};

use crate::error::{Error, Result};
use crate::read::options::{ROW_ADDRESS, ROW_ID};

/// The ids from a column of the table down to the field that `path` names; `a.b` is member `b` of struct `a`, or the item
/// `b` of list `a`.
pub(super) fn find(schema: &Schema, path: &str) -> Result<Vec<FieldId>> {
    let mut ids = Vec::new();
    if descend(&schema.fields, path, &mut ids) {
        return Ok(ids);
    }
    let mut paths = Vec::new();
    add_paths(&schema.fields, "", &mut paths);
    Err(pilum_expr::Error::UnknownColumn {
        name: path.to_owned(),
        similar: similar(path, paths.iter().map(String::as_str)),
    }
    .into())
}

/// Adds every path that `find` accepts.
fn add_paths(fields: &[Field], above: &str, paths: &mut Vec<String>) {
    for field in fields {
        let path = format!("{above}{}", field.name);
        add_paths(&field.children, &format!("{path}."), paths);
        paths.push(path);
    }
}

fn no_column(path: &str) -> Error {
    Error::invalid(format!("column `{path}`"), "does not exist")
}

/// The whole path as a name first, then each way to cut it at a dot.
fn descend(fields: &[Field], path: &str, ids: &mut Vec<FieldId>) -> bool {
    if let Some(field) = fields.iter().find(|field| field.name == path) {
        ids.push(field.id);
        return true;
    }
    path.match_indices('.').any(|(dot, _)| {
        let Some(parent) = fields.iter().find(|field| field.name == path[..dot]) else {
            return false;
        };
        ids.push(parent.id);
        let is_found = descend(&parent.children, &path[dot + 1..], ids);
        if !is_found {
            ids.pop();
        }
        is_found
    })
}

/// The field with this id, and the names down to it.
pub(super) fn path_of(schema: &Schema, id: FieldId) -> Result<(Vec<&str>, &Field)> {
    fn walk<'a>(fields: &'a [Field], id: FieldId, names: &mut Vec<&'a str>) -> Option<&'a Field> {
        for field in fields {
            names.push(&field.name);
            if field.id == id {
                return Some(field);
            }
            if let Some(found) = walk(&field.children, id, names) {
                return Some(found);
            }
            names.pop();
        }
        None
    }
    let mut names = Vec::new();
    let field = walk(&schema.fields, id, &mut names);
    let field = field.ok_or_else(|| no_column(&id.to_string()))?;
    Ok((names, field))
}

/// True for the one kind of node whose members may lie in different files.
pub(super) fn is_struct(field: &Field) -> bool {
    matches!(field.data_type, DataType::Struct(_))
}

/// The schema of these fields alone: each whole, with the structs above it.
pub(super) fn only(schema: &Schema, ids: &BTreeSet<FieldId>) -> Schema {
    fn keep(field: &Field, ids: &BTreeSet<FieldId>) -> Option<Field> {
        if ids.contains(&field.id) {
            return Some(field.clone());
        }
        let children: Vec<Field> = field
            .children
            .iter()
            .filter_map(|child| keep(child, ids))
            .collect();
        (is_struct(field) && !children.is_empty()).then(|| field.with_children(children))
    }
    let fields = schema.fields.iter().filter_map(|field| keep(field, ids));
    Schema {
        fields: fields.collect(),
        ..Schema::default()
    }
}

/// The schema without these fields, and without structs that lose their last member.
pub(super) fn without(schema: &Schema, ids: &BTreeSet<FieldId>) -> Schema {
    fn keep(field: &Field, ids: &BTreeSet<FieldId>) -> Option<Field> {
        if ids.contains(&field.id) {
            return None;
        }
        if !is_struct(field) || field.children.is_empty() {
            return Some(field.clone());
        }
        let children: Vec<Field> = field
            .children
            .iter()
            .filter_map(|child| keep(child, ids))
            .collect();
        (!children.is_empty()).then(|| field.with_children(children))
    }
    let fields = schema.fields.iter().filter_map(|field| keep(field, ids));
    Schema {
        fields: fields.collect(),
        metadata: schema.metadata.clone(),
    }
}

/// The schema with each field as `change` makes it, from the leaves up.
pub(super) fn map(schema: &Schema, change: &dyn Fn(Field) -> Field) -> Schema {
    fn each(field: &Field, change: &dyn Fn(Field) -> Field) -> Field {
        let children: Vec<Field> = field
            .children
            .iter()
            .map(|child| each(child, change))
            .collect();
        // Without children there is nothing to rebuild the type from.
        let field = match children.is_empty() {
            true => field.clone(),
            false => field.with_children(children),
        };
        change(field)
    }
    Schema {
        fields: schema.fields.iter().map(|it| each(it, change)).collect(),
        metadata: schema.metadata.clone(),
    }
}

/// Gives a field and those below it the next ids, depth first.
pub(super) fn renumber(field: &mut Field, next_id: &mut FieldId) -> Result<()> {
    field.id = *next_id;
    *next_id = next_id
        .checked_add(1)
        .ok_or_else(|| Error::limit("the table", "more than 2^31 field ids", "2^31"))?;
    for child in &mut field.children {
        renumber(child, next_id)?;
    }
    Ok(())
}

/// Refuses names that come twice.
pub(super) fn check_names(fields: &[Field]) -> Result<()> {
    check_siblings(fields, "")
}

fn check_siblings(fields: &[Field], above: &str) -> Result<()> {
    let mut seen = BTreeSet::new();
    for field in fields {
        let path = format!("{above}{}", field.name);
        if !seen.insert(&field.name) {
            let reason = "exists already; choose another name, or drop or rename the old one first";
            return Err(Error::invalid(format!("column `{path}`"), reason));
        }
        check_siblings(&field.children, &format!("{path}."))?;
    }
    Ok(())
}

/// Refuses a new name that could not be selected.
pub(super) fn check_new_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains('.') {
        let reason = "a name has at least one character and no \".\"; choose another one";
        return Err(Error::invalid(format!("column `{name}`"), reason));
    }
    if name == ROW_ID || name == ROW_ADDRESS {
        let reason = "is the name of a column that every table has; choose another one";
        return Err(Error::invalid(format!("column `{name}`"), reason));
    }
    Ok(())
}
