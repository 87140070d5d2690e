//! Adds columns: computed from the other columns, or with given values.

use std::pin::pin;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{Field as ArrowField, Schema as ArrowSchema, SchemaRef};
use futures::stream::{Stream, StreamExt};
use pilum_expr::{AdaptOptions, Expr, Projection, bind};
use pilum_format::Schema;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::backfill::{NewColumns, Values, WrittenFiles, backfill};
use super::{ColumnsOutcome, tree};
use crate::commit::{Committed, commit_id};
use crate::dataset::Dataset;
use crate::dml::assigned_values::{Refusal, check_computed, copied_field, extension_type, located};
use crate::dml::event;
use crate::dml::outcome::StatementOutcome;
use crate::dml::statement::StatementOptions;
use crate::error::{Error, Result};
use crate::read::options::ScanOptions;
use crate::read::snapshot::Snapshot;
use crate::write::incoming::{IncomingRows, Origin};

impl Dataset {
    /// Adds columns computed from those of the newest version. A column may be null where its expression may be,
    /// and if it is a constant.
    ///
    /// When rows are added or changed meanwhile, the statement is executed again for the fragments that are new.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is taken, an expression that does not fit the columns or cannot be computed for a row;
    /// `Conflict` when another commit forbids this one; see [`commit`](crate::commit()). Unless the error is
    /// `CommitUnknown`, nothing was changed.
    pub async fn add_columns(
        &self,
        columns: &[(String, Expr)],
        options: &StatementOptions,
        handle: &Handle,
    ) -> Result<ColumnsOutcome> {
        let written = Mutex::new(WrittenFiles::default());
        let kept = &written;
        let once = |base| async move {
            let mut written = kept.lock().await;
            add_computed(&base, columns, &mut written, options, handle).await
        };
        let result = options.execute(self, "Merge", once).await;
        written
            .into_inner()
            .remove_unused(self.store(), &result)
            .await;
        result
    }

    /// Adds columns whose values are given: one row for each row of this version, in the order of a scan. The new columns are
    /// those of `schema`, or those of the rows without one.
    ///
    /// They belong to the rows of this version, so nothing may have changed rows since: that is a `Conflict`.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is taken, a value that its column cannot hold, or another number of rows than this
    /// version has, with both counts; else as [`Dataset::add_columns`].
    pub async fn add_columns_from(
        &self,
        batches: impl RecordBatchReader + Send,
        schema: Option<SchemaRef>,
        adapt: AdaptOptions,
        options: &StatementOptions,
    ) -> Result<ColumnsOutcome> {
        let store = self.store().clone().with_durability(options.durability);
        if let Some(done) = commit_id::of(&store, options.commit_id.as_deref()).await? {
            return Ok(ColumnsOutcome::without_rows(Committed::before(done)));
        }
        let base = Snapshot::at_version(&store, self.version()).await?;
        let base = base.with_verification(self.snapshot().verifies_checksums());
        options.check_expected(&base, "Merge").await?;
        let mut written = WrittenFiles::default();
        let schema = schema.unwrap_or_else(|| batches.schema());
        let result = async {
            let given = IncomingRows::new(&batches.schema(), &schema, Origin::Caller(adapt))?;
            let rows = batches.map(|batch| given.fit(&batch.map_err(Error::Source)?));
            let rows = futures::stream::iter(rows);
            let columns = appended(&base, &schema)?;
            if base.num_rows() == 0 {
                return match count(rows).await? {
                    0 => add_nothing(&base, columns, &schema, &mut written, options).await,
                    rows => Err(Error::invalid(
                        "the new columns",
                        format!("have {rows} rows and the table has 0; give no row"),
                    )),
                };
            }
            let values = |_| {
                Ok(Values {
                    schema: Arc::clone(&schema),
                    batches: rows.boxed(),
                })
            };
            backfill(&base, columns, values, &mut written, options).await
        }
        .await;
        written.remove_unused(&store, &result).await;
        event::statement(&store, "Merge", &result);
        result
    }
}

async fn add_computed(
    base: &Snapshot,
    columns: &[(String, Expr)],
    written: &mut WrittenFiles,
    options: &StatementOptions,
    handle: &Handle,
) -> Result<ColumnsOutcome> {
    if columns.is_empty() {
        return Ok(ColumnsOutcome::without_rows(Committed::nothing(
            base.clone(),
        )));
    }
    let scan = |fragments| {
        base.scan(ScanOptions {
            columns: Projection::Expressions(columns.to_vec()),
            fragments: Some(fragments),
            ..options.scan(None)
        })
    };
    let computed = Arc::clone(scan(Vec::new())?.schema());
    let new = appended(base, &stored_fields(base, &computed, columns)?)?;
    let values = |fragments: Vec<u64>| {
        let scan = scan(fragments.clone())?;
        let schema = Arc::clone(scan.schema());
        let computed = scan.batches(handle).map(|batch| valid(batch?));
        Ok(Values {
            schema,
            batches: located(computed, base, fragments).boxed(),
        })
    };
    backfill(base, new, values, written, options).await
}

/// The schema of computed columns, with the extension types of those that are a column or field of the table as it is. A
/// constant is not null now, but that is no promise about later rows: its column may be null.
fn stored_fields(
    base: &Snapshot,
    computed: &ArrowSchema,
    columns: &[(String, Expr)],
) -> Result<ArrowSchema> {
    let mut fields: Vec<ArrowField> = Vec::with_capacity(columns.len());
    for (field, (_, expression)) in computed.fields().iter().zip(columns) {
        let mut field = field.as_ref().clone();
        if let Some(source) = copied_field(base, expression) {
            let mut metadata = field.metadata().clone();
            metadata.extend(extension_type(source));
            field.set_metadata(metadata);
        }
        let bound = bind(expression, &base.schema().to_arrow());
        if bound.is_ok_and(|bound| bound.columns().is_empty()) {
            field.set_nullable(true);
        }
        fields.push(field);
    }
    Ok(ArrowSchema::new(fields))
}

/// Computed columns whose values their types can hold.
fn valid(batch: RecordBatch) -> Result<RecordBatch, Refusal> {
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        check_computed(column, field.name())?;
    }
    Ok(batch)
}

/// A table without rows gets the columns, and no file.
async fn add_nothing(
    base: &Snapshot,
    columns: NewColumns,
    schema: &SchemaRef,
    written: &mut WrittenFiles,
    options: &StatementOptions,
) -> Result<ColumnsOutcome> {
    let values = |_| {
        Ok(Values {
            schema: Arc::clone(schema),
            batches: futures::stream::empty().boxed(),
        })
    };
    backfill(base, columns, values, written, options).await
}

/// The schema of the version with more columns behind the others.
pub(super) fn appended(base: &Snapshot, columns: &ArrowSchema) -> Result<NewColumns> {
    let given: Vec<ArrowField> = columns
        .fields()
        .iter()
        .map(|it| it.as_ref().clone())
        .collect();
    let stored = Schema::from_arrow(&ArrowSchema::new(given), base.manifest().next_field_id())?;
    if stored.fields.is_empty() {
        return Err(Error::invalid(
            "the new columns",
            "have no column; add at least one",
        ));
    }
    let mut schema = base.schema().as_ref().clone();
    for field in &stored.fields {
        tree::check_new_name(&field.name)?;
        schema.fields.push(field.clone());
    }
    tree::check_names(&schema.fields)?;
    Ok(NewColumns {
        stored: Arc::new(stored),
        schema,
        preserves_nullability: true,
    })
}

async fn count(rows: impl Stream<Item = Result<RecordBatch>>) -> Result<u64> {
    let mut rows = pin!(rows);
    let mut count = 0;
    while let Some(batch) = rows.next().await {
        count += batch?.num_rows() as u64;
    }
    Ok(count)
}
