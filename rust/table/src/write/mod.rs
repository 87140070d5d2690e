//! Writing rows: batches into data files, and one commit that makes them part of the table.
//!
//! Data files are complete and durable before the commit names them. Whatever fails before leaves the table as
//! it was, and the files are removed; only when nobody knows whether the commit happened do they stay.
//!
//! ```text
//! batches ── files ──> StagedFragments ── encode ──> bytes ── another process ──> decode ┐
//!                           │                                                         │
//!                           └────────> commit <── join: one dictionary per column <───┘
//! ```

mod commit_staged;
pub(crate) mod dictionary_builder;
mod files;
mod join;
mod options;
pub(crate) mod schema_adapter;
mod staged;

use arrow_array::RecordBatchReader;
use pilum_store::Store;

pub use self::commit_staged::{commit_fragments, commit_pieces};
pub(crate) use self::files::{write_files_of, write_stream};
pub use self::options::{WriteMode, WriteOptions, Written};
pub use self::staged::StagedFragments;
use crate::commit::commit_id;
use crate::commit::precondition::Precondition;
use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;

/// Writes the rows of `batches` and commits them.
///
/// # Errors
/// [`Error::InvalidInput`] lists how the data do not fit the table. Whatever the error, unless it is
/// [`Error::CommitUnknown`], the table is as it was.
pub async fn write(
    store: &Store,
    batches: impl RecordBatchReader,
    options: &WriteOptions,
) -> Result<Written> {
    let store = store.clone().with_durability(options.durability);
    let base = Snapshot::try_newest(&store).await?;
    if let Some(snapshot) = commit_id::of(&store, options.commit_id.as_deref()).await? {
        return Ok(Written::before(snapshot));
    }
    match &base {
        Some(base) => check_base(base, options)?,
        None if options.must_exist => {
            return Err(Error::NotFound {
                what: format!("the table at {}", store.uri()),
                hint: "it was removed since it was opened: create it again".to_owned(),
            });
        }
        None => {}
    }
    // What costs nothing to know is told before a file is written; the commit checks it all.
    if let Some(expected @ Precondition::Version(_)) = &options.expect {
        expected.check(&store, base.as_ref(), "write").await?;
    }
    let appends_to = base.as_ref().filter(|_| options.mode == WriteMode::Append);
    let new = write_fragments(&store, appends_to, batches, options).await?;
    let pieces = std::slice::from_ref(&new);
    let written =
        commit_staged::publish(&store, base.as_ref(), base.clone(), pieces, options).await;
    let is_unused = match &written {
        Ok(written) => written.was_committed_before,
        Err(Error::CommitUnknown { .. }) => false,
        Err(_) => true,
    };
    if is_unused {
        new.discard(&store).await;
    }
    written
}

fn check_base(base: &Snapshot, options: &WriteOptions) -> Result<()> {
    if options.mode == WriteMode::Create {
        return Err(exists(base.uri()));
    }
    if options.stable_row_ids && !base.manifest().has_stable_row_ids() {
        return Err(Error::invalid(
            "stable_row_ids",
            format!(
                "cannot be switched on in the table at {}, which was created without; write a new table",
                base.uri()
            ),
        ));
    }
    crate::commit::apply::check_writable(base.manifest()).map_err(|error| error.at(base.uri()))
}

fn exists(uri: &str) -> Error {
    Error::AlreadyExists {
        what: format!("a table at {uri}"),
        hint: "append to it, overwrite it, or choose another address".to_owned(),
    }
}

/// Writes data files without a commit: for rows to be appended to `appends_to`, or for a new schema.
///
/// # Errors
/// As [`write()`]; the files written so far are removed.
pub async fn write_fragments(
    store: &Store,
    appends_to: Option<&Snapshot>,
    batches: impl RecordBatchReader,
    options: &WriteOptions,
) -> Result<StagedFragments> {
    let schema = batches.schema();
    let batches = futures::stream::iter(batches.map(|batch| batch.map_err(Error::Source)));
    write_stream(store, appends_to, &schema, batches, options).await
}
