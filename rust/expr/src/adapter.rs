//! The schema adapter: makes batches of one schema fit a table.
//!
//! It is built once from the schema of the incoming batches and the schema of the table, and then applied to each batch.
//! Columns and struct members are matched by name at every level; values are converted by the rules of
//! [`rule`](crate::rule). Columns whose types fit are passed on without a copy.

use std::{fmt, sync::Arc};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{FieldRef, Schema, SchemaRef};

use crate::{
    convert::{AdaptOptions, ConversionError, Member, apply, left_over, member},
    path::similar,
    type_name::type_name,
};

/// Why data does not fit a table.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AdaptError {
    /// The schemas do not go together.
    #[error("the data does not fit the table: {}", list(differences))]
    Schema {
        /// Every difference, each with its column.
        differences: Vec<String>,
    },
    /// A batch contradicts the schema of its stream.
    #[error(
        "batch {batch} contradicts the schema of its stream: {difference}; make every batch as the schema says"
    )]
    Batch {
        /// Number of the batch, counted from 0.
        batch: u64,
        /// What the schema says and what the batch has.
        difference: String,
    },
    /// A value would be lost.
    #[error("batch {batch}, {error}")]
    Value {
        /// Number of the batch, counted from 0.
        batch: u64,
        /// The value, with its row in the batch.
        error: Box<ConversionError>,
    },
}

fn list(differences: &[String]) -> impl fmt::Display {
    differences.join("; ")
}

/// Makes batches of one schema fit a table.
#[derive(Debug)]
pub struct SchemaAdapter {
    incoming: SchemaRef,
    table: SchemaRef,
    columns: Vec<Member>,
}

impl SchemaAdapter {
    /// Matches columns by name and plans the conversion of each.
    ///
    /// # Errors
    /// [`AdaptError::Schema`] with every difference that the options do not allow.
    pub fn new(
        incoming: &SchemaRef,
        table: &SchemaRef,
        options: AdaptOptions,
    ) -> Result<Self, AdaptError> {
        let mut differences = Vec::new();
        let mut columns = Vec::with_capacity(table.fields().len());
        for field in table.fields() {
            match member(incoming.fields(), field, options) {
                Ok(member) => columns.push(member),
                Err(refusal) => {
                    let mut difference = refusal.into_error().to_string();
                    if incoming.fields().find(field.name()).is_none() {
                        difference = missing(field, incoming);
                    }
                    differences.push(difference);
                }
            }
        }
        for (position, field) in incoming.fields().iter().enumerate() {
            let refusal = left_over(incoming.fields(), table.fields(), position, options.extra);
            if let Some(refusal) = refusal {
                differences.push(extra(field, table, &refusal.into_error().reason));
            }
        }
        if differences.is_empty() {
            Ok(Self {
                incoming: Arc::clone(incoming),
                table: Arc::clone(table),
                columns,
            })
        } else {
            Err(AdaptError::Schema { differences })
        }
    }

    /// The schema of the batches that [`SchemaAdapter::adapt`] returns.
    pub fn schema(&self) -> &SchemaRef {
        &self.table
    }

    /// The batch in the order and the types of the table; `number` counts the batches of the stream from 0.
    ///
    /// # Errors
    /// [`AdaptError::Batch`] if the batch has not the schema that the adapter was built for; [`AdaptError::Value`] for the
    /// first value that would be lost.
    pub fn adapt(&self, batch: &RecordBatch, number: u64) -> Result<RecordBatch, AdaptError> {
        if let Some(difference) = contradiction(&self.incoming, batch.schema_ref()) {
            return Err(AdaptError::Batch {
                batch: number,
                difference,
            });
        }
        let rows = batch.num_rows();
        let columns = self.columns.iter().map(|column| self.column(column, batch));
        let columns =
            columns
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| AdaptError::Value {
                    batch: number,
                    error,
                })?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.table), columns, &options).map_err(
            |error| AdaptError::Batch {
                batch: number,
                difference: error.to_string(),
            },
        )
    }

    fn column(
        &self,
        column: &Member,
        batch: &RecordBatch,
    ) -> Result<ArrayRef, Box<ConversionError>> {
        let name = column.step.to.name();
        match column
            .source
            .and_then(|position| batch.columns().get(position))
        {
            Some(array) => {
                apply(&column.step, array, None).map_err(|refusal| refusal.under(name).into_error())
            }
            None => Ok(new_null_array(column.step.to.data_type(), batch.num_rows())),
        }
    }
}

fn missing(field: &FieldRef, incoming: &Schema) -> String {
    let names = incoming.fields().iter().map(|field| field.name().as_str());
    let name = field.name();
    match similar(name, names).first() {
        Some(found) => format!("column `{name}` is missing, did you mean `{found}`?"),
        None if field.is_nullable() => format!("column `{name}` is missing; add it to the data"),
        None => format!("column `{name}` is missing and may not be null; add it to the data"),
    }
}

fn extra(field: &FieldRef, table: &Schema, reason: &str) -> String {
    let names = table.fields().iter().map(|field| field.name().as_str());
    let name = field.name();
    if table.fields().find(name).is_some() {
        return format!("column `{name}`: {reason}; rename or drop one of them");
    }
    match similar(name, names).first() {
        Some(found) => format!("column `{name}` is not in the table, did you mean `{found}`?"),
        None => format!("column `{name}` is not in the table; drop it, or rename it"),
    }
}

/// The first difference between the schema of a stream and that of a batch, with both names or types.
fn contradiction(stream: &SchemaRef, batch: &SchemaRef) -> Option<String> {
    if Arc::ptr_eq(stream, batch) {
        return None;
    }
    for (position, (said, found)) in stream.fields().iter().zip(batch.fields()).enumerate() {
        if said.name() != found.name() {
            return Some(format!(
                "column {position} is `{}` in the schema and `{}` in the batch",
                said.name(),
                found.name()
            ));
        }
        if said.data_type() != found.data_type() {
            return Some(format!(
                "column `{}` is {} in the schema and {} in the batch",
                said.name(),
                type_name(said.data_type()),
                type_name(found.data_type())
            ));
        }
    }
    let (said, found) = (stream.fields().len(), batch.fields().len());
    (said != found).then(|| format!("the schema has {said} columns and the batch {found}"))
}
