//! Writing rows: batches into data files, and one commit that makes them part of the table.
//!
//! Data files are complete and durable before the commit names them. A failure before the commit leaves the table as
//! it was, and the files are removed; they stay only while it is unknown whether the commit happened.
//!
//! ```text
//! batches ── files ──> StagedFragments ── encode ──> bytes ── another process ──> decode ┐
//!                           │                                                         │
//!                           └────────> commit <── join: one dictionary per column <───┘
//! ```

mod combine;
mod commit_staged;
pub(crate) mod dictionary_builder;
mod event;
mod files;
mod finished_files;
pub(crate) mod incoming;
mod join;
mod new_folders;
mod options;
pub(crate) mod schema_adapter;
mod staged;

use arrow_array::RecordBatchReader;
use pilum_store::Store;

pub use self::combine::combine_staged;
pub(crate) use self::commit_staged::{check_files, check_staged};
pub use self::commit_staged::{commit_fragments, commit_staged, discard_staged};
pub(crate) use self::files::{write_files_of, write_stream};
pub use self::incoming::check_fits;
use self::incoming::{IncomingRows, Origin};
pub(crate) use self::join::join;
use self::new_folders::NewFolders;
pub use self::options::{WriteMode, WriteOptions, Written};
pub use self::staged::StagedFragments;
use crate::commit::commit_id;
use crate::commit::precondition::Precondition;
use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;

/// Writes the rows of `batches` and commits them.
///
/// # Errors
/// `CommonError::InvalidInput` lists how the data do not fit the table. Whatever the error, unless it is
/// [`Error::CommitUnknown`], the table is as it was.
pub async fn write(
    store: &Store,
    batches: impl RecordBatchReader,
    options: &WriteOptions,
) -> Result<Written> {
    let store = store.clone().with_durability(options.durability);
    let result = write_and_commit(&store, batches, options).await;
    event::write(&store, options.mode, &result);
    result
}

async fn write_and_commit(
    store: &Store,
    batches: impl RecordBatchReader,
    options: &WriteOptions,
) -> Result<Written> {
    let base = Snapshot::try_newest(store).await?;
    if let Some(snapshot) = commit_id::of(store, options.commit_id.as_deref()).await? {
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
    // A precondition that costs no request is checked before a file is written; the commit checks every one.
    if let Some(expected @ Precondition::Version(_)) = &options.expect {
        expected.check(store, base.as_ref(), "write").await?;
    }
    // Dropped last, after the writers of unfinished files, which remove those.
    let new_folders = base.is_none().then(|| NewFolders::missing_in(store));
    let appends_to = base.as_ref().filter(|_| options.mode == WriteMode::Append);
    let files = options.for_table(base.as_ref());
    let new = write_fragments(store, appends_to, batches, &files).await?;
    let staged = std::slice::from_ref(&new);
    let written = commit_staged::publish(store, base.as_ref(), base.clone(), staged, options).await;
    let is_unused = match &written {
        Ok(written) => written.was_committed_before,
        Err(Error::CommitUnknown { .. }) => false,
        Err(_) => true,
    };
    if is_unused {
        new.discard(store).await;
    } else if let Some(new_folders) = new_folders {
        new_folders.keep();
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
    let origin = Origin::Caller(options.adapt);
    let batches = batches.map(|batch| batch.map_err(Error::Source));
    match &options.schema {
        None => {
            let batches = futures::stream::iter(batches);
            write_stream(store, appends_to, (&schema, origin), batches, options).await
        }
        Some(declared) => {
            let rows = IncomingRows::new(&schema, declared, origin)?;
            let batches = futures::stream::iter(batches.map(|batch| rows.fit(&batch?)));
            // The values were looked at when they came.
            let declared = (declared.as_ref(), Origin::Fitted(options.adapt));
            write_stream(store, appends_to, declared, batches, options).await
        }
    }
}
