//! Merging rows into a table by key: update those that are there, insert those that are not, delete the rest.
//!
//! ```text
//!   source ── pulled once ──> Source: in memory, or partitioned by the hash of the key and spilled
//!                                │
//!   table ── keys and addresses ─┴─> pairs of rows ──> condition ──> rows to rewrite, rows to remove
//!                                                                        │
//!             source rows without a partner ── inserted ──> new fragments, one commit as of an update
//! ```
//!
//! Only the key columns of the table are scanned. What else an update needs of its rows is taken by address.
//! Rewritten rows come first in the new fragments and bring their ids; inserted ones follow and get new ids.
//!
//! The read set of a merge is larger than the rows that it changes: it has the rows that matched and were left, and the
//! absence of the keys that are inserted. The commit checks both against every version since ([`crate::commit::read_set`]).

mod condition;
mod keys;
mod matching;
mod options;
mod rows;
mod run;
mod source;
mod spill;

use std::sync::atomic::{AtomicU32, Ordering};

use arrow_array::RecordBatchReader;
use keys::can_be_key;
pub use options::{
    MergeOptions, MergeOutcome, WhenMatched, WhenNotMatched, WhenNotMatchedBySource,
};
use pilum_common::type_name;
use source::Source;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::dataset::Dataset;
use crate::dml::rewritten_files::RewrittenFiles;
use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;

/// Bytes of source rows that are kept in memory without a memory limit.
const SOURCE_BYTES: u64 = 512 << 20;

impl Dataset {
    /// Merges the rows of `source` into the newest version: rows with equal values in the columns `on` match.
    ///
    /// A key that holds a null matches nothing, as in SQL; NaN equals NaN and -0.0 equals 0.0, as in expressions.
    /// Several rows of the table may match one source row; a row that is updated or deleted may match only one.
    /// The source may lack columns of the table: they keep their values in updated rows and are null in inserted
    /// ones. Updated and inserted rows stand behind all others.
    ///
    /// Of merges at the same time none inserts a key that another one inserted: the statement is executed again
    /// when rows with a key of the source were added meanwhile, or rows that it found are gone. Files that it wrote are then
    /// used again if all their rows are still right.
    ///
    /// # Errors
    /// `InvalidInput` for columns that do not fit, a row with several partners, the first match where a match is a
    /// failure; `Conflict` when others kept changing the same keys; see [`commit`](crate::commit()). Unless the
    /// error is `CommitUnknown`, nothing was changed.
    pub async fn merge_insert(
        &self,
        on: &[String],
        source: impl RecordBatchReader,
        options: &MergeOptions,
        handle: &Handle,
    ) -> Result<MergeOutcome> {
        if options.when_matched == WhenMatched::Keep
            && options.when_not_matched == WhenNotMatched::Ignore
            && options.when_not_matched_by_source == WhenNotMatchedBySource::Keep
        {
            let reason = "would change nothing whatever the rows; choose what becomes of them";
            return Err(Error::invalid("the merge", reason));
        }
        let statement = &options.statement;
        let most_bytes = statement.memory_limit.map_or(SOURCE_BYTES, |it| it / 4);
        let pulled = Mutex::new((Some(source), None, RewrittenFiles::default()));
        let (executions, shared) = (&AtomicU32::new(0), &pulled);
        let once = |base: Snapshot| async move {
            executions.fetch_add(1, Ordering::Relaxed);
            let (rows, source, files) = &mut *shared.lock().await;
            if let Some(rows) = rows.take() {
                check_keys(&base, on, &rows)?;
                *source = Some(Source::pull(
                    base.schema(),
                    on,
                    rows,
                    options.adapt,
                    most_bytes,
                )?);
            }
            match source {
                Some(source) => run::merge(&base, on, source, options, files, handle).await,
                None => Err(Error::invalid(
                    "the source",
                    "failed, and is read only once",
                )),
            }
        };
        let merged = statement.execute(self, "Update", once);
        let merged = merged.await;
        let (_, _, files) = pulled.into_inner();
        let committed = merged.as_ref().map(|outcome| &outcome.committed);
        files.finish(self.store(), committed).await;
        let mut outcome = merged?;
        if outcome.committed.attempts > 0 {
            outcome.committed.attempts += executions.load(Ordering::Relaxed) - 1;
        }
        Ok(outcome)
    }
}

fn check_keys(base: &Snapshot, on: &[String], source: &impl RecordBatchReader) -> Result<()> {
    if on.is_empty() {
        return Err(Error::invalid("on", "names no column; name the key"));
    }
    let schema = source.schema();
    for (place, name) in on.iter().enumerate() {
        let refused = |reason: &str| Err(Error::invalid(format!("key column `{name}`"), reason));
        if on[..place].contains(name) {
            return refused("is named twice");
        }
        let field = base.schema().fields.iter().find(|it| it.name == *name);
        let Some(field) = field else {
            return refused("is no column of the table; keys are whole columns");
        };
        if schema.column_with_name(name).is_none() {
            return refused("is not in the source");
        }
        if !can_be_key(&field.data_type) {
            let reason = format!(
                "is {}; keys are numbers, texts, bytes, times or booleans",
                type_name(&field.data_type)
            );
            return refused(&reason);
        }
    }
    Ok(())
}
