//! The assignments of an update: new values of whole columns, and of members of structs.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field as ArrowField, Fields, Schema, SchemaRef};
use pilum_common::type_name;
use pilum_expr::Expr;
use pilum_format::Field;

use crate::dml::assigned_values::{AssignedValues, Refusal, RefusedValue, masked};
use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;

/// The new values of a batch.
pub(crate) struct Assigned {
    /// The columns of the table. All of them nullable: nulls are looked for in what is assigned, with their row.
    pub(crate) schema: SchemaRef,
    uri: String,
    columns: Vec<Field>,
    changes: Vec<Change>,
}

/// The change of a column, or of a member of a struct.
enum Change {
    Kept,
    Set(Box<AssignedValues>),
    /// The changes of the members of a struct.
    Fields(Vec<Change>),
}

/// The rows that an update reads.
struct Rows<'a> {
    batch: &'a RecordBatch,
    /// The table.
    uri: &'a str,
}

/// The columns were read by the update and the values were converted to their types.
fn failed(error: &ArrowError) -> Error {
    Error::bug(format!(
        "an update made rows that do not fit the table: {error}"
    ))
}

impl Assigned {
    /// Binds expressions over the columns of `scanned` to columns, or to fields by their path.
    ///
    /// # Errors
    /// `InvalidInput` for no assignment, an unknown column, two for one place, an expression or constant that does not fit.
    pub(crate) fn new(
        base: &Snapshot,
        scanned: &Schema,
        assignments: &[(String, Expr)],
    ) -> Result<Self> {
        if assignments.is_empty() {
            return Err(Error::invalid("update", "assigns no column; name one"));
        }
        let columns = base.schema().fields.clone();
        let mut changes = kept(&columns);
        for (path, expression) in assignments {
            let bind = |field: &Field| {
                let values = AssignedValues::new(base, scanned, expression, field, path)?;
                Ok(Box::new(values))
            };
            assign(&columns, &mut changes, path, path, &bind)?;
        }
        let fields = columns.iter().zip(&changes);
        let fields: Fields = fields
            .map(|(field, change)| change.written(field))
            .collect();
        Ok(Self {
            schema: Arc::new(Schema::new(fields)),
            uri: base.uri().to_owned(),
            columns,
            changes,
        })
    }

    /// The rows with their new values.
    ///
    /// # Errors
    /// The first value that its field cannot hold; an expression that cannot be computed.
    pub(crate) fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, Refusal> {
        let rows = Rows {
            batch,
            uri: &self.uri,
        };
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.changes.len());
        let all = self.columns.iter().zip(&self.changes).zip(batch.columns());
        for ((field, change), old) in all {
            let column = change.of(field, &field.name, old, &rows, None)?;
            if matches!(change, Change::Set(_)) && !field.nullable {
                refuse_nulls(&field.name, &column, None)?;
            }
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| failed(&error).into())
    }
}

fn kept(fields: &[Field]) -> Vec<Change> {
    fields.iter().map(|_| Change::Kept).collect()
}

/// Binds the value of the field that `path` names; `rest` is the part of the path below `fields`.
fn assign(
    fields: &[Field],
    changes: &mut [Change],
    path: &str,
    rest: &str,
    bind: &dyn Fn(&Field) -> Result<Box<AssignedValues>>,
) -> Result<()> {
    let refused = |reason: &str| Err(Error::invalid(format!("column `{path}`"), reason));
    let Some((place, rest)) = step(fields, rest) else {
        return refused("is no column of the table, and no field of a struct in it");
    };
    let (field, change) = (&fields[place], &mut changes[place]);
    match (rest, &mut *change) {
        (None, Change::Kept) => *change = Change::Set(bind(field)?),
        (Some(rest), Change::Kept) => {
            let mut inner = kept(&field.children);
            assign(&field.children, &mut inner, path, rest, bind)?;
            *change = Change::Fields(inner);
        }
        (Some(rest), Change::Fields(inner)) => assign(&field.children, inner, path, rest, bind)?,
        (None, _) | (_, Change::Set(_)) => {
            return refused(
                "is assigned twice, by itself or with a struct around it; assign it once",
            );
        }
    }
    Ok(())
}

/// The field that a path leads to or through, and the rest of the path: a whole name first, as in a projection.
fn step<'a>(fields: &[Field], path: &'a str) -> Option<(usize, Option<&'a str>)> {
    let named = |name: &str| fields.iter().position(|field| field.name == name);
    if let Some(place) = named(path) {
        return Some((place, None));
    }
    path.match_indices('.').find_map(|(dot, _)| {
        let place = named(&path[..dot])?;
        let rest = &path[dot + 1..];
        let parent = &fields[place];
        matches!(parent.data_type, DataType::Struct(_)).then_some(())?;
        step(&parent.children, rest)?;
        Some((place, Some(rest)))
    })
}

impl Change {
    /// The field as it is written: nullable, like every changed field.
    fn written(&self, field: &Field) -> ArrowField {
        let data_type = match self {
            Self::Kept | Self::Set(_) => field.data_type.clone(),
            Self::Fields(changes) => DataType::Struct(members(&field.children, changes)),
        };
        ArrowField::new(&field.name, data_type, true)
    }

    /// The values after the change; `old` are those before it, null where a struct above is null. Assigned values are
    /// hidden, and need not fit, in the rows for which `is_hidden` is true.
    fn of(
        &self,
        field: &Field,
        path: &str,
        old: &ArrayRef,
        rows: &Rows<'_>,
        is_hidden: Option<&BooleanArray>,
    ) -> Result<ArrayRef, Refusal> {
        let changes = match self {
            Self::Kept => return Ok(Arc::clone(old)),
            Self::Set(values) => return values.of(rows.batch, is_hidden, rows.uri),
            Self::Fields(changes) => changes,
        };
        let old = old.as_struct_opt().ok_or_else(|| {
            Error::bug(format!(
                "an update of column `{path}` read it as {}, and not as a struct",
                type_name(old.data_type())
            ))
        })?;
        // A null struct has no member to assign to: it stays null, and so do the structs inside of it.
        let nulls = old.nulls().filter(|nulls| nulls.null_count() > 0);
        let is_null = nulls.map(|nulls| BooleanArray::new(!nulls.inner(), None));
        let mut columns = Vec::with_capacity(changes.len());
        for ((member, change), old) in field.children.iter().zip(changes).zip(old.columns()) {
            let old = match &is_null {
                None => Arc::clone(old),
                Some(is_null) => masked(old, is_null)?,
            };
            let path = format!("{path}.{}", member.name);
            columns.push(change.of(member, &path, &old, rows, is_null.as_ref())?);
        }
        for (member, column) in field.children.iter().zip(&columns) {
            if !member.nullable {
                refuse_nulls(&format!("{path}.{}", member.name), column, nulls)?;
            }
        }
        let nulls = nulls.cloned();
        let members = members(&field.children, changes);
        let built = StructArray::try_new_with_length(members, columns, nulls, old.len());
        Ok(Arc::new(built.map_err(|error| failed(&error))?))
    }
}

fn members(fields: &[Field], changes: &[Change]) -> Fields {
    let members = fields.iter().zip(changes);
    members
        .map(|(field, change)| change.written(field))
        .collect()
}

/// Refuses a null in a field that forbids nulls, in rows whose struct is not null.
fn refuse_nulls(path: &str, column: &ArrayRef, parent: Option<&NullBuffer>) -> Result<(), Refusal> {
    let Some(nulls) = column.logical_nulls() else {
        return Ok(());
    };
    let is_there = |row: &usize| parent.is_none_or(|parent| parent.is_valid(*row));
    match (0..nulls.len()).find(|row| nulls.is_null(*row) && is_there(row)) {
        Some(row) => Err(Refusal::Value(RefusedValue::null(path, row))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;

    use super::*;

    /// The scan of the update chose the columns: one of another type is no damage of a file.
    #[test]
    fn a_struct_that_was_read_as_something_else_is_a_fault_of_pilum() {
        let field = ArrowField::new("s", DataType::Int64, true);
        let schema = Arc::new(Schema::new(vec![field]));
        let table = pilum_format::Schema::from_arrow(&schema, 0).unwrap();
        let assigned = Assigned {
            schema: Arc::clone(&schema),
            uri: "memory://t".to_owned(),
            columns: table.fields,
            changes: vec![Change::Fields(vec![Change::Kept])],
        };
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
        match assigned.apply(&batch) {
            Err(Refusal::Error(error)) => {
                assert_eq!(error.kind(), "bug");
                assert!(error.to_string().contains("`s`"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}
