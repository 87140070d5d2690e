//! Reading one task: the columns of the predicate first, then the others for the rows that pass.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use pilum_expr::{evaluate, filter_mask};
use pilum_file::Rows;

use super::metrics::HeldBytes;
use super::plan::{Filter, Output};
use super::planned::Scan;
use super::tasks::{OpenFragment, Task};
use crate::error::{Error, Result};
use crate::read::batches::{row_addresses, to_batch};
use crate::read::fragment::FragmentReader;

/// A task that was read.
pub(super) struct TaskOutput {
    pub(super) task: Task,
    /// None when no row passed.
    pub(super) batch: Option<RecordBatch>,
    /// The batch in the scan's count of memory, until the consumer is done with it.
    pub(super) held: Option<HeldBytes>,
}

/// The rows of a task that pass the predicate, with the batch of the predicate's columns and the mask that selects them.
struct Passed {
    rows: Rows,
    filtered: Option<(RecordBatch, BooleanArray)>,
}

impl Scan {
    /// Reads one task.
    pub(super) async fn read(&self, task: Task) -> Result<TaskOutput> {
        let batch = self.passing_rows(&task).await?;
        let held = batch.as_ref();
        let held = held.map(|batch| HeldBytes::of(batch, &self.counters));
        Ok(TaskOutput { task, batch, held })
    }

    async fn passing_rows(&self, task: &Task) -> Result<Option<RecordBatch>> {
        let counters = &self.counters;
        counters.tasks.fetch_add(1, Ordering::Relaxed);
        let num_rows = task.rows.len();
        counters.rows_scanned.fetch_add(num_rows, Ordering::Relaxed);
        let fragment = &task.fragment;
        let passed = match (&self.plan.filter, &fragment.filter) {
            (Some(filter), Some(reader)) => self.filtered(task, filter, reader).await?,
            _ => Some(Passed {
                rows: task.rows.clone(),
                filtered: None,
            }),
        };
        let Some(passed) = passed else {
            return Ok(None);
        };
        let rest = fragment.rest.read(&passed.rows).await?;
        let columns = self.output_columns(fragment, &passed, &rest)?;
        let uri = self.context.store.uri();
        to_batch(&self.plan.output_schema, columns, passed.rows.len(), uri).map(Some)
    }

    /// Evaluates the predicate; none when no row passes.
    async fn filtered(
        &self,
        task: &Task,
        filter: &Filter,
        reader: &FragmentReader,
    ) -> Result<Option<Passed>> {
        let mut arrays = reader.read(&task.rows).await?;
        if filter.uses_row_columns {
            arrays.push(row_ids(&task.fragment, &task.rows)?);
            arrays.push(addresses(&task.fragment, &task.rows));
        }
        let uri = self.context.store.uri();
        let batch = to_batch(&filter.schema, arrays, task.rows.len(), uri)?;
        let mask = filter_mask(&filter.predicate, &batch)?;
        let rows = selected(&task.rows, &mask)?;
        Ok(rows.map(|rows| Passed {
            rows,
            filtered: Some((batch, mask)),
        }))
    }

    /// The columns of the output, computed ones included.
    fn output_columns(
        &self,
        fragment: &OpenFragment,
        passed: &Passed,
        rest: &[ArrayRef],
    ) -> Result<Vec<ArrayRef>> {
        let rows = &passed.rows;
        let mut inputs = Vec::with_capacity(self.plan.inputs.len());
        for input in &self.plan.inputs {
            inputs.push(match (input, &passed.filtered) {
                (Output::Rest(index), _) => Arc::clone(&rest[*index]),
                (Output::Filtered(index), Some((batch, mask))) => {
                    let column = batch.column(*index);
                    if rows.len() == column.len() as u64 {
                        Arc::clone(column)
                    } else {
                        arrow_select::filter::filter(column, mask)
                            .map_err(|error| Error::bug(format!("selecting rows: {error}")))?
                    }
                }
                (Output::Filtered(_), None) => {
                    let what = "a scan without a filter takes a column from the filter";
                    return Err(Error::bug(what));
                }
                (Output::RowId, _) => row_ids(fragment, rows)?,
                (Output::RowAddress, _) => addresses(fragment, rows),
            });
        }
        let Some(computed) = &self.plan.computed else {
            return Ok(inputs);
        };
        let uri = self.context.store.uri();
        let batch = to_batch(&computed.schema, inputs, rows.len(), uri)?;
        let expressions = computed.expressions.iter();
        expressions
            .map(|expression| Ok(evaluate(expression, &batch)?))
            .collect()
    }
}

/// The rows that a mask keeps; none when it keeps none.
fn selected(rows: &Rows, mask: &BooleanArray) -> Result<Option<Rows>> {
    let kept = mask.true_count();
    if kept == 0 {
        return Ok(None);
    }
    if kept == mask.len() {
        return Ok(Some(rows.clone()));
    }
    let bits = match mask.nulls() {
        Some(nulls) => mask.values() & nulls.inner(),
        None => mask.values().clone(),
    };
    let selected = match rows.ranges() {
        [only] => {
            let start = only.start;
            Rows::from_ranges(
                bits.set_slices()
                    .map(|(from, to)| start + from as u64..start + to as u64),
            )
        }
        _ => Rows::from_sorted_indices(
            rows.iter()
                .zip(bits.iter())
                .filter_map(|(row, keep)| keep.then_some(row)),
        ),
    };
    let out_of_order = |error| Error::bug(format!("rows of a mask: {error}"));
    selected.map(Some).map_err(out_of_order)
}

fn addresses(fragment: &OpenFragment, rows: &Rows) -> ArrayRef {
    row_addresses(fragment.rest.id, rows)
}

fn row_ids(fragment: &OpenFragment, rows: &Rows) -> Result<ArrayRef> {
    match &fragment.row_ids {
        None => Ok(addresses(fragment, rows)),
        Some(ids) => Ok(Arc::new(UInt64Array::from(ids.select(rows)?))),
    }
}
