//! Columns whose values other processes compute: each writes the files of some fragments, one process commits.

use std::sync::Arc;

use arrow_array::RecordBatchReader;
use arrow_schema::SchemaRef;
use futures::stream::StreamExt;
use pilum_expr::AdaptOptions;
use pilum_format::Fragment;
use pilum_store::Store;

use super::ColumnsOutcome;
use super::add::appended;
use super::backfill::{Values, WrittenFiles, backfill, write};
use crate::commit::{Committed, commit_id};
use crate::dml::event;
use crate::dml::outcome::StatementOutcome;
use crate::dml::statement::StatementOptions;
use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;
use crate::write::incoming::{IncomingRows, Origin};
use crate::write::{StagedFragments, WriteOptions, check_files};

/// Files with the values of new columns, for some fragments of a version.
#[derive(Debug, Clone)]
pub struct ColumnFiles {
    /// The version whose rows the values belong to.
    pub read_version: u64,
    /// The fragments, in the order of the files.
    pub fragments: Vec<u64>,
    /// One file for each.
    pub staged: StagedFragments,
}

/// Writes the values of new columns for all live rows of some fragments, in the order of a scan: one file for each fragment.
///
/// # Errors
/// `CommonError::InvalidInput` for a name that is taken, a fragment that is not in this version, a value that its column cannot
/// hold, or another number of rows than the fragments have.
pub async fn write_column_files(
    base: &Snapshot,
    schema: &SchemaRef,
    fragments: &[u64],
    batches: impl RecordBatchReader + Send,
    adapt: AdaptOptions,
) -> Result<StagedFragments> {
    let columns = appended(base, schema)?;
    let fragments = found(base, fragments)?;
    let given = IncomingRows::new(&batches.schema(), schema, Origin::Caller(adapt))?;
    let rows = batches.map(|batch| given.fit(&batch.map_err(Error::Source)?));
    let values = Values {
        schema: Arc::clone(schema),
        batches: futures::stream::iter(rows).boxed(),
    };
    let mut written = WrittenFiles::default();
    written.prepare(base, &columns);
    let files = WriteOptions {
        compat: Some(base.manifest().compat()),
        ..WriteOptions::default()
    };
    write(base, &columns, &fragments, values, &mut written, &files).await?;
    written.into_staged(&fragments, &columns, base)
}

/// Commits columns whose files [`write_column_files`] wrote, on the newest version: the fragments that changed since need new
/// files.
///
/// # Errors
/// [`Error::Conflict`] that says that a retry helps, if rows were added or changed since; the caller writes the files of
/// those fragments again. Else as [`crate::commit()`]. The files stay after an error.
pub async fn commit_columns(
    store: &Store,
    read_version: u64,
    schema: &SchemaRef,
    files: &[ColumnFiles],
    options: &StatementOptions,
) -> Result<ColumnsOutcome> {
    let store = store.clone().with_durability(options.durability);
    let result = commit_all(&store, read_version, schema, files, options).await;
    event::statement(&store, "Merge", &result);
    result
}

async fn commit_all(
    store: &Store,
    read_version: u64,
    schema: &SchemaRef,
    files: &[ColumnFiles],
    options: &StatementOptions,
) -> Result<ColumnsOutcome> {
    if let Some(done) = commit_id::of(store, options.commit_id.as_deref()).await? {
        return Ok(ColumnsOutcome::without_rows(Committed::before(done)));
    }
    let base = Snapshot::at_version(store, read_version).await?;
    options.check_expected(&base, "Merge").await?;
    let columns = appended(&base, schema)?;
    let mut written = WrittenFiles::default();
    written.prepare(&base, &columns);
    for one in files {
        check_files(store, std::slice::from_ref(&one.staged)).await?;
        let made_of = if one.read_version == read_version {
            base.clone()
        } else {
            Snapshot::at_version(store, one.read_version).await?
        };
        let fragments = found(&made_of, &one.fragments)?;
        written.take(&one.staged, &fragments, &columns)?;
    }
    let missing = written.missing(&base).len();
    if missing > 0 {
        let reason = format!("are missing for {missing} fragments; write them");
        return Err(Error::invalid("the files of the new columns", reason));
    }
    let nothing = |_| {
        Ok(Values {
            schema: Arc::clone(schema),
            batches: futures::stream::empty().boxed(),
        })
    };
    backfill(&base, columns, nothing, &mut written, options).await
}

fn found(base: &Snapshot, ids: &[u64]) -> Result<Vec<Fragment>> {
    let mut fragments = Vec::with_capacity(ids.len());
    for id in ids {
        let fragment = base.manifest().fragment(*id).ok_or_else(|| {
            let reason = format!("is not in version {} of {}", base.version(), base.uri());
            Error::invalid(format!("fragment {id}"), reason)
        })?;
        fragments.push(fragment.clone());
    }
    Ok(fragments)
}
