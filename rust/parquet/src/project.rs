//! Makes batches of a file fit the schema of its dataset: hive keys are added, types converted, members of structs selected.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, SchemaRef};
use pilum_expr::SchemaAdapter;

use crate::decode::{batch_of, repeated};
use crate::error::{Error, Result};
use crate::prune::Constants;

/// Converts the batches of one file.
#[derive(Debug)]
pub(crate) struct Fit {
    /// Converts the columns of the file; none if they are as they should be.
    pub(crate) adapter: Option<SchemaAdapter>,
    pub(crate) constants: Arc<Constants>,
    /// The columns of the result: those of the file and of its partition, in an order of the caller's.
    pub(crate) schema: SchemaRef,
}

impl Fit {
    /// A batch of the file at `path` with the columns of `schema`. `number` counts the batches.
    pub(crate) fn apply(
        &self,
        path: &str,
        batch: &RecordBatch,
        number: u64,
    ) -> Result<RecordBatch> {
        let adapted = match &self.adapter {
            Some(adapter) => Some(
                adapter
                    .adapt(batch, number, 0)
                    .map_err(|error| Error::invalid(path, error.to_string()))?,
            ),
            None => None,
        };
        let read = adapted.as_ref().unwrap_or(batch);
        let rows = batch.num_rows();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for field in self.schema.fields() {
            let column = match self.constants.get(field.name()) {
                Some(value) => repeated(value, rows)
                    .map_err(|error| Error::bug(format!("{path}: {}: {error}", field.name())))?,
                None => {
                    let column = read.column_by_name(field.name());
                    let column = column.ok_or_else(|| {
                        Error::bug(format!("{path}: column `{}` was not read", field.name()))
                    })?;
                    member(column, field)
                }
            };
            columns.push(column);
        }
        batch_of(path, &self.schema, columns, rows)
    }
}

/// The members of a struct that a field names; other columns as they are.
pub(crate) fn member(column: &ArrayRef, field: &Field) -> ArrayRef {
    let (DataType::Struct(wanted), Some(found)) = (field.data_type(), column.as_struct_opt())
    else {
        return Arc::clone(column);
    };
    if column.data_type() == field.data_type() || wanted.is_empty() {
        return Arc::clone(column);
    }
    let members: Option<Vec<ArrayRef>> = wanted
        .iter()
        .map(|field| Some(member(found.column_by_name(field.name())?, field)))
        .collect();
    let made = members.and_then(|members| {
        StructArray::try_new(wanted.clone(), members, found.nulls().cloned()).ok()
    });
    // A column of another type than its field is reported where the batch is made.
    made.map_or_else(|| Arc::clone(column), |made| Arc::new(made) as ArrayRef)
}
