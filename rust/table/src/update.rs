//! Changing the values of some columns in the rows for which a predicate is true.
//!
//! The changed rows are written to new fragments, whole, and deleted from the old ones, in one commit. In tables
//! with stable row ids they keep their ids.

use std::collections::BTreeSet;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use futures::stream::StreamExt;
use pilum_expr::{BoundExpr, Expr, bind_as, evaluate};
use std::sync::Arc;
use tokio::runtime::Handle;

use crate::commit::{Committed, Work, commit_work, remove_files};
use crate::commit_id;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::removal::RemovedRows;
use crate::row_ids::RowIdSequence;
use crate::scan::{ROW_ADDRESS, ROW_ID, ScanOptions};
use crate::snapshot::Snapshot;
use crate::statement::{StatementOptions, Turns};
use crate::transaction::Operation;
use crate::write::{NewFragments, WriteOptions, write_stream};

/// What an update did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UpdateOutcome {
    /// The version with the new values: the newest one as it was, with 0 attempts, when no row matched.
    pub committed: Committed,
    /// Rows that this call changed.
    pub num_updated_rows: u64,
    /// Bytes of the data files with the changed rows.
    pub num_bytes: u64,
}

impl UpdateOutcome {
    fn nothing(committed: Committed) -> Self {
        Self {
            committed,
            num_updated_rows: 0,
            num_bytes: 0,
        }
    }
}

impl Dataset {
    /// Sets columns to new values in the rows of the newest version for which `filter` is true; in all rows without
    /// one. Expressions see the old values, and their results must fit the columns' types.
    ///
    /// Other deletes and updates may be committed meanwhile, as with [`Dataset::delete`]. Changed rows stand behind
    /// all others.
    ///
    /// # Errors
    /// `InvalidInput` for an unknown column, one that is assigned twice, an expression or value that does not fit;
    /// `Conflict` when another commit forbids this one; see [`commit`](crate::commit()). Unless the error is
    /// `CommitUnknown`, nothing was changed.
    pub async fn update(
        &self,
        assignments: &[(String, Expr)],
        filter: Option<&Expr>,
        options: &StatementOptions,
        handle: &Handle,
    ) -> Result<UpdateOutcome> {
        let store = self.store().clone().with_durability(options.durability);
        let mut turns = Turns::new(options.retries);
        loop {
            if let Some(id) = &options.commit_id
                && let Some(snapshot) = commit_id::find(&store, id).await?
            {
                return Ok(UpdateOutcome::nothing(Committed::before(snapshot)));
            }
            let base = Snapshot::newest(&store).await?;
            let base = base.with_verification(self.snapshot().verifies_checksums());
            options.check_expected(&base, "Update").await?;
            match update(&base, assignments, filter, options, handle).await {
                Err(error) => turns.again(error).await?,
                done => return done,
            }
        }
    }
}

/// One execution of the statement.
async fn update(
    base: &Snapshot,
    assignments: &[(String, Expr)],
    filter: Option<&Expr>,
    options: &StatementOptions,
    handle: &Handle,
) -> Result<UpdateOutcome> {
    let stable = base.manifest().has_stable_row_ids();
    let scan = base.scan(ScanOptions {
        with_row_id: stable,
        with_row_address: true,
        ..options.scan(filter.cloned())
    })?;
    let assigned = Assigned::new(base, scan.schema(), assignments)?;
    let mut removed = RemovedRows::default();
    let mut row_ids = Vec::new();
    let batches = scan.batches(handle).map(|batch| {
        let batch = batch?;
        removed.extend(integers(&batch, ROW_ADDRESS)?.iter().copied());
        if stable {
            row_ids.extend_from_slice(integers(&batch, ROW_ID)?);
        }
        assigned.apply(&batch)
    });
    let layout = WriteOptions::default();
    let written = write_stream(base.store(), Some(base), &assigned.schema, batches, &layout);
    let mut written = written.await?;
    if removed.is_empty() {
        return Ok(UpdateOutcome::nothing(Committed::nothing(base.clone())));
    }
    let mut files = written.paths();
    let prepared = async {
        if stable {
            if written.num_rows != row_ids.len() as u64 {
                return Err(Error::corrupt("other rows were written than read"));
            }
            keep_ids(&mut written, &row_ids);
        }
        removed.write(base, &mut files).await
    };
    let (updated, removed_ids) = match prepared.await {
        Ok(prepared) => prepared,
        Err(error) => {
            remove_files(base.store(), &files).await;
            return Err(error);
        }
    };
    let operation = Operation::Update {
        removed_ids,
        updated,
        added: written.fragments,
        fields_modified: Vec::new(),
        fields_preserving_index: Vec::new(),
        rewrites_columns: false,
    };
    let work = Work {
        transaction: options.transaction(base.version(), operation),
        removed: Some(&removed),
        premise: None,
        dictionaries: written.dictionaries,
        files,
    };
    let committed = commit_work(base.store(), Some(base), work, &options.commit()).await?;
    if committed.was_committed_before {
        return Ok(UpdateOutcome::nothing(committed));
    }
    Ok(UpdateOutcome {
        committed,
        num_updated_rows: removed.len(),
        num_bytes: written.num_bytes,
    })
}

/// The new values of a batch.
struct Assigned {
    /// The columns of the table. All of them nullable: the file writer finds the nulls, with their row.
    schema: SchemaRef,
    /// For each column its new value, if it gets one.
    values: Vec<Option<BoundExpr>>,
}

impl Assigned {
    fn new(base: &Snapshot, scanned: &Schema, assignments: &[(String, Expr)]) -> Result<Self> {
        if assignments.is_empty() {
            return Err(Error::invalid("update", "assigns no column; name one"));
        }
        let fields = &base.schema().fields;
        let mut seen = BTreeSet::new();
        let mut values: Vec<Option<BoundExpr>> = fields.iter().map(|_| None).collect();
        for (name, expression) in assignments {
            if !seen.insert(name) {
                let reason = "is assigned twice; give it one value";
                return Err(Error::invalid(format!("column `{name}`"), reason));
            }
            let place = fields.iter().position(|field| field.name == *name);
            let place = place.ok_or_else(|| {
                let reason = "is no column of the table; only whole columns can be assigned";
                Error::invalid(format!("column `{name}`"), reason)
            })?;
            values[place] = Some(bind_as(expression, scanned, &fields[place].data_type)?);
        }
        let field = |it: &pilum_file::Field| Field::new(&it.name, it.data_type.clone(), true);
        let schema = Arc::new(Schema::new(fields.iter().map(field).collect::<Vec<_>>()));
        Ok(Self { schema, values })
    }

    fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.values.len());
        for (value, old) in self.values.iter().zip(batch.columns()) {
            columns.push(match value {
                Some(value) => evaluate(value, batch)?,
                None => Arc::clone(old),
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::invalid("update", error.to_string()))
    }
}

/// The values of `_rowid` or `_rowaddr`.
pub(crate) fn integers<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a [u64]> {
    let column = batch.column_by_name(name);
    let column = column.and_then(|it| it.as_primitive_opt::<UInt64Type>());
    let column = column.ok_or_else(|| Error::corrupt(format!("a scan without {name}")))?;
    Ok(column.values())
}

/// Gives rewritten rows the ids that they had: the commit then takes their created versions over too. Rows behind
/// them are new, and get new ids.
pub(crate) fn keep_ids(written: &mut NewFragments, row_ids: &[u64]) {
    let mut rest = row_ids;
    for fragment in &mut written.fragments {
        let rows = usize::try_from(fragment.physical_rows).unwrap_or(usize::MAX);
        let (ids, next) = rest.split_at(rows.min(rest.len()));
        fragment.row_ids = Some(RowIdSequence::from_values(ids).encode());
        rest = next;
    }
}
