//! Statistics of the columns of a version, as two batches: facts by column, and minima and maxima in their types.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
};
use arrow_schema::{ArrowError, Field, Schema};
use pilum_table::StatisticsOfColumn;
use pyo3::prelude::*;

use crate::batch::Batch;
use crate::dataset::Dataset;
use crate::errors::{Ended, Failure};
use crate::runtime::{block_on, handle};

/// Statistics of the columns of the version: a batch with a row for each leaf of the schema, and a batch with a column for each
/// leaf, whose first row is the minimum and whose second row is the maximum.
#[pyfunction]
pub(crate) fn statistics(py: Python<'_>, dataset: &Dataset) -> PyResult<(Batch, Batch)> {
    dataset.with(py, |table| {
        let handle = handle()?;
        let found = block_on(py, table.snapshot().statistics(&handle))??;
        let facts = facts(&found).map_err(|error| Failure::bug(error.to_string()))?;
        Ok((Batch(facts), Batch(min_max(&found)?)))
    })
}

fn facts(found: &[StatisticsOfColumn]) -> Result<RecordBatch, ArrowError> {
    let count = |count: Option<u64>| count.and_then(|count| i64::try_from(count).ok());
    let names = found.iter().map(|it| it.path.join("."));
    let types = found.iter().map(|it| &it.data_type);
    let columns: [(&str, ArrayRef); 5] = [
        ("column", Arc::new(StringArray::from_iter_values(names))),
        ("type", Arc::new(StringArray::from_iter_values(types))),
        (
            "null_count",
            Arc::new(Int64Array::from_iter(
                found.iter().map(|it| count(it.null_count)),
            )),
        ),
        (
            "exact",
            Arc::new(BooleanArray::from_iter(
                found.iter().map(|it| Some(it.is_exact)),
            )),
        ),
        (
            "bytes",
            Arc::new(Int64Array::from_iter(
                found.iter().map(|it| count(it.num_bytes)),
            )),
        ),
    ];
    RecordBatch::try_from_iter(columns)
}

fn min_max(found: &[StatisticsOfColumn]) -> Result<RecordBatch, Ended> {
    let mut columns = Vec::with_capacity(found.len());
    for it in found {
        columns.push(it.min_max()?);
    }
    let fields = found
        .iter()
        .zip(&columns)
        .map(|(it, column)| Field::new(it.path.join("."), column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let rows = RecordBatchOptions::new().with_row_count(Some(2));
    let batch = RecordBatch::try_new_with_options(schema, columns, &rows);
    Ok(batch.map_err(|error| Failure::bug(error.to_string()))?)
}
