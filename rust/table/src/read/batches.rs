//! Record batches of columns that were read, and the row columns in them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::SchemaRef;
use pilum_file::Rows;

use crate::error::{Error, Result};

/// A batch of columns that were read from the table at `uri`.
///
/// # Errors
/// `Corrupt` when a column that may not be null has nulls; `Bug` when a column has another type or length than planned.
pub(super) fn to_batch(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    num_rows: u64,
    uri: &str,
) -> Result<RecordBatch> {
    let len = usize::try_from(num_rows).unwrap_or(usize::MAX);
    let are_as_planned =
        schema.fields().len() == columns.len()
            && schema.fields().iter().zip(&columns).all(|(field, column)| {
                column.len() == len && column.data_type() == field.data_type()
            });
    let options = RecordBatchOptions::new().with_row_count(Some(len));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options);
    batch.map_err(|error| {
        if are_as_planned {
            Error::corrupt(error.to_string()).at(uri)
        } else {
            Error::bug(format!("{uri}: columns that were read do not fit: {error}"))
        }
    })
}

/// The addresses of rows of a fragment: its id in the upper half, the offset of the row in the lower.
pub(super) fn row_addresses(fragment_id: u64, rows: &Rows) -> ArrayRef {
    let high = fragment_id << 32;
    let addresses = rows.iter().map(|row| high | row);
    Arc::new(UInt64Array::from(addresses.collect::<Vec<u64>>()))
}

/// The values of the column `_rowid` or `_rowaddr` of a batch.
///
/// # Errors
/// `Bug` when the scan that made the batch was not asked for it.
pub(crate) fn integers<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a [u64]> {
    let column = batch.column_by_name(name);
    let column = column.and_then(|it| it.as_primitive_opt::<UInt64Type>());
    let column = column.ok_or_else(|| Error::bug(format!("a scan yields no column {name}")))?;
    Ok(column.values())
}
