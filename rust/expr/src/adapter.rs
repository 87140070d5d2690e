//! The schema adapter: makes batches of one schema fit a table.
//!
//! It is built once from the schema of the incoming batches and the schema of the table, and then applied to each batch.
//! Columns and struct members are matched by name at every level; values are converted by the rules of
//! [`rule`](crate::rule). Columns whose types fit are passed on without a copy.

mod error;
mod stream;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{FieldRef, Schema, SchemaRef};

use crate::{
    convert::{AdaptOptions, CAST_REMEDY, ConversionError, Member, Mode, apply, left_over, member},
    path::similar,
};

pub use error::AdaptError;
pub use stream::in_order_of;

/// Makes batches of one schema fit a table.
#[derive(Debug)]
pub struct SchemaAdapter {
    incoming: SchemaRef,
    table: SchemaRef,
    columns: Vec<Member>,
    cast: Mode,
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
                    let mut error = refusal.into_error();
                    let lossy = AdaptOptions {
                        cast: Mode::Lossy,
                        ..options
                    };
                    if options.cast == Mode::Exact
                        && member(incoming.fields(), field, lossy).is_ok()
                    {
                        error.remedy.push_str(LOSSY_REMEDY);
                    }
                    differences.push(match incoming.fields().find(field.name()) {
                        Some(_) => error.to_string(),
                        None => missing(field, incoming),
                    });
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
                cast: options.cast,
            })
        } else {
            Err(AdaptError::Schema { differences })
        }
    }

    /// The schema of the batches that [`SchemaAdapter::adapt`] returns.
    pub fn schema(&self) -> &SchemaRef {
        &self.table
    }

    /// The batch in the order and the types of the table; `number` counts the batches of the stream from 0, and `first_row`
    /// the rows before this batch.
    ///
    /// # Errors
    /// [`AdaptError::Batch`] if the batch has other columns than the schema that the adapter was built for;
    /// [`AdaptError::Value`] for the first value that would be lost, with its row in the stream.
    pub fn adapt(
        &self,
        batch: &RecordBatch,
        number: u64,
        first_row: u64,
    ) -> Result<RecordBatch, AdaptError> {
        let found = batch.schema_ref().fields();
        let incoming = in_order_of(self.incoming.fields(), found, batch.columns(), number)?;
        let rows = batch.num_rows();
        let columns = self.columns.iter().map(|column| {
            let array = column.source.and_then(|position| incoming.get(position));
            adapted(column, array, rows).map_err(|error| self.told(error, first_row))
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.table), columns, &options).map_err(
            |error| AdaptError::Batch {
                batch: number,
                difference: error.to_string(),
            },
        )
    }

    /// The refusal as the caller of the stream sees it.
    fn told(&self, mut error: Box<ConversionError>, first_row: u64) -> AdaptError {
        let first_row = usize::try_from(first_row).unwrap_or(usize::MAX);
        error.row = error.row.map(|row| row.saturating_add(first_row));
        if self.cast == Mode::Exact && error.remedy == CAST_REMEDY {
            error.remedy.push_str(LOSSY_REMEDY);
        }
        AdaptError::Value(error)
    }
}

/// The end of a refusal: which argument lets the write round or cut values.
const LOSSY_REMEDY: &str = ", or write with cast=\"lossy\"";

fn adapted(
    column: &Member,
    array: Option<&ArrayRef>,
    rows: usize,
) -> Result<ArrayRef, Box<ConversionError>> {
    let step = &column.step;
    match array {
        Some(array) => {
            apply(step, array, None).map_err(|refusal| refusal.under(step.to.name()).into_error())
        }
        None => Ok(new_null_array(step.to.data_type(), rows)),
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
        None => format!(
            "column `{name}` is not in the table; drop it, rename it, or write with extra=\"ignore\""
        ),
    }
}
