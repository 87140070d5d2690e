//! Incoming rows: each batch gets the columns and the types of its target, and its values are looked at before they are
//! stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use pilum_expr::{AdaptError, AdaptOptions, InvalidValue, SchemaAdapter, check_ranges};

use crate::error::{Error, Result};

/// Where rows come from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    /// From a caller: values that their own type cannot hold are refused.
    Caller(AdaptOptions),
    /// From a caller, and their values were looked at before.
    Fitted(AdaptOptions),
    /// From the table: they are written again as they were stored.
    Table,
}

/// Fits the batches of one stream to a schema.
#[derive(Debug)]
pub(crate) struct IncomingRows {
    adapter: SchemaAdapter,
    is_checked: bool,
    /// Batches and rows of the stream that were fitted so far: errors tell the place in the stream.
    num_batches: AtomicU64,
    num_rows: AtomicU64,
}

impl IncomingRows {
    /// Matches columns by name and plans the conversion of each.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` lists every difference.
    pub(crate) fn new(incoming: &ArrowSchema, target: &SchemaRef, origin: Origin) -> Result<Self> {
        let (options, is_checked) = match origin {
            Origin::Caller(options) => (options, true),
            Origin::Fitted(options) => (options, false),
            Origin::Table => {
                let options = AdaptOptions {
                    are_stored: true,
                    ..AdaptOptions::default()
                };
                (options, false)
            }
        };
        let incoming = Arc::new(incoming.clone());
        let adapter = SchemaAdapter::new(&incoming, target, options).map_err(refused)?;
        Ok(Self {
            adapter,
            is_checked,
            num_batches: AtomicU64::new(0),
            num_rows: AtomicU64::new(0),
        })
    }

    /// The next batch of the stream, with the columns of the target. Columns that fit are not copied.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` for the first value that its own type or the target cannot hold, and for a batch that
    /// contradicts the schema of its stream.
    pub(crate) fn fit(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows() as u64;
        let number = self.num_batches.fetch_add(1, Ordering::Relaxed);
        let first_row = self.num_rows.fetch_add(rows, Ordering::Relaxed);
        if self.is_checked {
            let target = self.adapter.schema().fields();
            for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
                // A column that is left out may hold anything.
                if target.find(field.name()).is_some() {
                    check_ranges(column, field.name())
                        .map_err(|error| invalid(error, first_row))?;
                }
            }
        }
        self.adapter
            .adapt(batch, number, first_row)
            .map_err(refused)
    }
}

fn invalid(mut error: InvalidValue, first_row: u64) -> Error {
    let first_row = usize::try_from(first_row).unwrap_or(usize::MAX);
    error.row = error.row.map(|row| row.saturating_add(first_row));
    Error::invalid("the data", error.to_string())
}

/// A refusal of the adapter as an error of the caller's data.
fn refused(error: AdaptError) -> Error {
    match error {
        AdaptError::Schema { differences } => {
            Error::invalid("the data do not fit the table", differences.join("; "))
        }
        other => Error::invalid("the data", other.to_string()),
    }
}

/// Checks, before any row is read, that columns can become those of a target.
///
/// # Errors
/// `CommonError::InvalidInput` lists every difference that the options do not allow.
pub fn check_fits(incoming: &SchemaRef, target: &SchemaRef, options: AdaptOptions) -> Result<()> {
    IncomingRows::new(incoming, target, Origin::Caller(options)).map(drop)
}
