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
pub(crate) mod schema_adapter;
mod staged;

use std::collections::BTreeMap;

use arrow_array::RecordBatchReader;
use arrow_schema::ArrowError;
use pilum_file::Compat;
use pilum_store::{Durability, Store};

pub use self::commit_staged::{commit_fragments, commit_pieces};
pub(crate) use self::files::{write_files_of, write_stream};
pub use self::staged::StagedFragments;
use crate::commit::precondition::Precondition;
use crate::commit::{DEFAULT_RETRIES, commit_id};
use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;

/// What to do with a table that exists, or does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum WriteMode {
    /// Make a new table; fail if there is one.
    #[default]
    Create,
    /// Add rows; make the table if there is none.
    Append,
    /// Replace rows and schema; make the table if there is none.
    Overwrite,
}

/// How to write rows.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WriteOptions {
    /// What to do with a table that exists, or does not.
    pub mode: WriteMode,
    /// What happens to values that version 1 cannot hold.
    pub compat: Compat,
    /// A data file is closed when it has so many rows.
    pub max_rows_per_file: u64,
    /// A data file is closed when it has about so many bytes.
    pub max_bytes_per_file: u64,
    /// Rows per page; `None` chooses by the width of a row.
    pub max_rows_per_page: Option<u64>,
    /// Give the rows of a new table ids that stay theirs.
    pub stable_row_ids: bool,
    /// What an acknowledged write promises.
    pub durability: Durability,
    /// The caller's words about the commit.
    pub properties: BTreeMap<String, String>,
    /// The caller's id for the commit: the same id commits once.
    pub commit_id: Option<String>,
    /// What must hold of the version that the write's follows.
    pub expect: Option<Precondition>,
    /// Attempts to commit after the first one.
    pub retries: u32,
    /// Layout of the data files: page alignment and checksums.
    pub layout: pilum_file::WriteOptions,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            mode: WriteMode::Create,
            compat: Compat::Lossless,
            max_rows_per_file: 1 << 20,
            max_bytes_per_file: 90 << 30,
            max_rows_per_page: None,
            stable_row_ids: false,
            durability: Durability::Full,
            properties: BTreeMap::new(),
            commit_id: None,
            expect: None,
            retries: DEFAULT_RETRIES,
            layout: pilum_file::WriteOptions::default(),
        }
    }
}

/// What a write did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Written {
    /// The version that has the rows.
    pub snapshot: Snapshot,
    /// Rows written by this call.
    pub num_rows: u64,
    /// Bytes of the data files written by this call.
    pub num_bytes: u64,
    /// Attempts to commit; 0 if the commit id was committed before.
    pub attempts: u32,
    /// An earlier call with the same commit id did it all; this one wrote nothing.
    pub was_committed_before: bool,
}

impl Written {
    /// An earlier call did it.
    fn before(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            num_rows: 0,
            num_bytes: 0,
            attempts: 0,
            was_committed_before: true,
        }
    }
}

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
    if let Some(base) = &base {
        check_base(base, options)?;
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

/// The error of a source of batches, for readers made of fallible iterators.
impl From<Error> for ArrowError {
    fn from(error: Error) -> Self {
        Self::ExternalError(Box::new(error))
    }
}
