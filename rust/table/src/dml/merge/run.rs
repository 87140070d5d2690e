//! One execution of a merge on one version: rows matched and written, then one commit.

use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::channel::mpsc::channel;
use futures::{SinkExt, join};
use tokio::runtime::Handle;

use super::matching::{Merge, SCAN_SHARE};
use super::options::{MergeOptions, MergeOutcome, WhenNotMatched, WhenNotMatchedBySource};
use super::source::{Source, keys_of};
use crate::commit::Committed;
use crate::commit::read_set::{NewRows, ReadSet};
use crate::dml::outcome::StatementOutcome;
use crate::dml::rewritten_files::RewrittenFiles;
use crate::error::Result;
use crate::read::snapshot::Snapshot;
use crate::write::incoming::Origin;
use crate::write::write_stream;

pub(super) async fn merge(
    base: &Snapshot,
    on: &[String],
    source: &Source,
    options: &MergeOptions,
    files: &mut RewrittenFiles,
    handle: &Handle,
) -> Result<MergeOutcome> {
    let mut merge = Merge::new(base, on, source, options).await?;
    merge.reuse(files, handle).await?;
    let schema = Arc::clone(&merge.output);
    let (mut sender, receiver) = channel(1);
    let produced = async {
        if let Err(error) = merge.run(&mut sender, handle).await {
            // The writer ends with this error and removes its files. A writer that is gone ended with an error of its own,
            // which is returned.
            if sender.send(Err(error)).await.is_err() {
                return;
            }
        }
        drop(sender);
    };
    let layout = options.statement.files();
    let written = write_stream(
        base.store(),
        Some(base),
        (&schema, Origin::Table),
        receiver,
        &layout,
    );
    let ((), written) = join!(produced, written);
    let written = written?;
    let found = merge.found;
    files
        .add(written, found.made_of)
        .map_err(|error| error.at(base.uri()))?;
    if found.removed.is_empty() && files.is_empty() {
        return Ok(MergeOutcome::without_rows(Committed::nothing(base.clone())));
    }
    let has_key = |batch: &RecordBatch| has_key(on, source, batch);
    let read_set = ReadSet {
        kept: &found.kept,
        new_rows: new_rows(source, options, on, handle, &has_key),
    };
    let statement = &options.statement;
    let committed = files.commit(base, &found.removed, Some(&read_set), statement);
    let committed = committed.await?;
    if committed.was_committed_before {
        return Ok(MergeOutcome::without_rows(committed));
    }
    Ok(MergeOutcome {
        committed,
        num_inserted_rows: found.num_inserted,
        num_updated_rows: found.num_updated,
        num_deleted_rows: found.num_deleted,
        num_bytes: files.num_bytes(),
    })
}

/// What rows that others add meanwhile mean for this merge.
fn new_rows<'a>(
    source: &Source,
    options: &MergeOptions,
    on: &'a [String],
    handle: &'a Handle,
    has_key: &'a (dyn Fn(&RecordBatch) -> Result<bool> + Sync),
) -> NewRows<'a> {
    let deletes_others = options.when_not_matched_by_source != WhenNotMatchedBySource::Keep;
    if deletes_others {
        return NewRows::Forbidden;
    }
    match (source.whole(), options.when_not_matched) {
        (Some(_), _) => NewRows::Unless {
            columns: on,
            forbids: has_key,
            memory_limit: options
                .statement
                .memory_limit
                .map(|limit| limit / SCAN_SHARE),
            handle,
        },
        (None, WhenNotMatched::Insert) => NewRows::Forbidden,
        // As with any update, rows that come meanwhile come afterwards.
        (None, WhenNotMatched::Ignore) => NewRows::Allowed,
    }
}

/// Whether a row of the batch has the key of a source row that is in memory.
fn has_key(on: &[String], source: &Source, batch: &RecordBatch) -> Result<bool> {
    let Some(loaded) = source.whole() else {
        return Ok(true);
    };
    let keys = keys_of(batch, on, &source.state)?;
    Ok((0..keys.len()).any(|row| {
        keys.get(row)
            .is_some_and(|(key, hash)| loaded.table.find(key, hash).next().is_some())
    }))
}
