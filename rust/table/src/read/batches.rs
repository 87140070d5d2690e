//! Making record batches, and taking columns out of them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;

use crate::error::{Error, Result};

/// As a count of this machine; as large as possible where it does not fit.
pub(crate) fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// A batch of so many rows, also without a column.
pub(crate) fn record_batch(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: u64,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(to_usize(rows)));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::corrupt(format!("columns do not fit together: {error}")))
}

/// The values of `_rowid` or `_rowaddr`.
pub(crate) fn integers<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a [u64]> {
    let column = batch.column_by_name(name);
    let column = column.and_then(|it| it.as_primitive_opt::<UInt64Type>());
    let column = column.ok_or_else(|| Error::corrupt(format!("a scan without {name}")))?;
    Ok(column.values())
}
