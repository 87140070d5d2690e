//! Columns by name: which leaves of a file they are, and the schema that reading them yields.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::schema::types::SchemaDescriptor;
use pilum_expr::{ColumnPath, similar};

use crate::error::{Error, Result};

/// Some columns of a schema, whole or with some members of their structs, in an order of the caller's.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    /// What is read: paths of names, outermost first.
    pub(crate) paths: Vec<Vec<String>>,
    /// The columns that this makes, in the order in which they were asked for.
    pub(crate) schema: SchemaRef,
}

impl Selection {
    pub(crate) fn all(schema: &SchemaRef) -> Self {
        let fields = schema.fields().iter();
        Self {
            paths: fields.map(|field| vec![field.name().clone()]).collect(),
            schema: Arc::clone(schema),
        }
    }

    /// Columns by name; `a.b` is member `b` of the struct `a`, unless a column has that very name.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` for a name that is not in the schema, or is there or asked for twice.
    pub(crate) fn names(schema: &SchemaRef, names: &[impl AsRef<str>]) -> Result<Self> {
        let paths: Result<Vec<_>> = names
            .iter()
            .map(|name| resolve(schema, name.as_ref()))
            .collect();
        Self::of(schema, paths?)
    }

    /// The columns that expressions read.
    pub(crate) fn paths(schema: &SchemaRef, columns: &[ColumnPath]) -> Result<Self> {
        let mut paths: Vec<Vec<String>> =
            columns.iter().map(|path| path.names().to_vec()).collect();
        // A struct and a member of it may both be used: then the struct is read.
        let all = paths.clone();
        paths.retain(|path| {
            !all.iter()
                .any(|other| other.len() < path.len() && path.starts_with(other))
        });
        Self::of(schema, paths)
    }

    fn of(schema: &SchemaRef, paths: Vec<Vec<String>>) -> Result<Self> {
        for (place, path) in paths.iter().enumerate() {
            let is_again = |other: &Vec<String>| other.starts_with(path) || path.starts_with(other);
            if paths.iter().skip(place + 1).any(is_again) {
                return Err(Error::invalid(
                    format!("column `{}`", path.join(".")),
                    "is asked for twice; name it once",
                ));
            }
        }
        let mut fields: Vec<FieldRef> = Vec::new();
        for path in &paths {
            let Some(root) = path.first() else { continue };
            if fields.iter().any(|field| field.name() == root) {
                continue;
            }
            let (_, field) = schema
                .fields()
                .find(root)
                .ok_or_else(|| unknown(schema, root))?;
            let inner: Vec<&[String]> = paths
                .iter()
                .filter(|path| path.first() == Some(root))
                .map(|path| path.get(1..).unwrap_or_default())
                .collect();
            fields.push(pruned(field, &inner));
        }
        Ok(Self {
            paths,
            schema: Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())),
        })
    }

    /// The leaves of a file that hold the columns.
    pub(crate) fn mask(&self, schema: &SchemaDescriptor) -> ProjectionMask {
        let leaves = schema.columns().iter().enumerate();
        let is_wanted = |parts: &[String]| self.paths.iter().any(|path| parts.starts_with(path));
        let wanted = leaves.filter(|(_, leaf)| is_wanted(leaf.path().parts()));
        ProjectionMask::leaves(schema, wanted.map(|(place, _)| place))
    }
}

/// The names of a path as the user writes it.
fn resolve(schema: &Schema, name: &str) -> Result<Vec<String>> {
    let mut path = Vec::new();
    let mut fields = schema.fields();
    let mut rest = name;
    loop {
        if fields.iter().filter(|field| field.name() == rest).count() > 1 {
            return Err(Error::invalid(
                format!("column `{name}`"),
                "there are several columns of that name; rename them in the file",
            ));
        }
        if fields.find(rest).is_some() {
            path.push(rest.to_owned());
            return Ok(path);
        }
        // The longest name that is a struct, because names may contain dots.
        let ends = rest.match_indices('.').map(|(end, _)| end);
        let found = ends.rev().find_map(|end| {
            let (head, tail) = rest.split_at(end);
            let (_, field) = fields.find(head)?;
            match field.data_type() {
                DataType::Struct(inner) => Some((head, inner, &tail[1..])),
                _ => None,
            }
        });
        let (head, inner, tail) = found.ok_or_else(|| unknown(schema, name))?;
        path.push(head.to_owned());
        (fields, rest) = (inner, tail);
    }
}

fn unknown(schema: &Schema, name: &str) -> Error {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let like = similar(name, names.clone());
    let reason = match like.is_empty() {
        true => format!(
            "there is no column of that name; the columns are {}",
            names
                .take(50)
                .map(|it| format!("`{it}`"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
        false => format!(
            "there is no column of that name, did you mean `{}`?",
            like.join("` or `")
        ),
    };
    Error::invalid(format!("column `{name}`"), reason)
}

/// The field with those members of structs that the paths lead to.
fn pruned(field: &FieldRef, paths: &[&[String]]) -> FieldRef {
    let DataType::Struct(members) = field.data_type() else {
        return Arc::clone(field);
    };
    if paths.iter().any(|path| path.is_empty()) {
        return Arc::clone(field);
    }
    let kept = members.iter().filter_map(|member| {
        let inner: Vec<&[String]> = paths
            .iter()
            .filter(|path| path.first() == Some(member.name()))
            .map(|path| path.get(1..).unwrap_or_default())
            .collect();
        (!inner.is_empty()).then(|| pruned(member, &inner))
    });
    let kept: Fields = kept.collect();
    Arc::new(
        field
            .as_ref()
            .clone()
            .with_data_type(DataType::Struct(kept)),
    )
}

/// The field at a path through structs.
pub(crate) fn field_at<'a>(schema: &'a Schema, path: &ColumnPath) -> Option<&'a Field> {
    let mut names = path.names().iter();
    let (_, mut field) = schema.fields().find(names.next()?)?;
    for name in names {
        let DataType::Struct(members) = field.data_type() else {
            return None;
        };
        (_, field) = members.find(name)?;
    }
    Some(field)
}

/// The leaf that holds the column at a path through structs; none for lists and structs.
pub(crate) fn leaf_at(schema: &SchemaDescriptor, path: &ColumnPath) -> Option<usize> {
    let mut found = schema
        .columns()
        .iter()
        .enumerate()
        .filter(|(_, leaf)| leaf.path().parts() == path.names());
    let (place, leaf) = found.next()?;
    (found.next().is_none() && leaf.max_rep_level() == 0).then_some(place)
}
