//! How to write rows, and what a write did.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use pilum_expr::AdaptOptions;
use pilum_file::Compat;
use pilum_store::Durability;

use crate::commit::DEFAULT_RETRIES;
use crate::commit::precondition::Precondition;
use crate::error::Error;
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
    /// Fail with [`Error::NotFound`](crate::Error::NotFound) if there is no table, whatever the mode.
    pub must_exist: bool,
    /// The columns to write; `None` for those of the rows. An append brings them to the types of the table.
    pub schema: Option<SchemaRef>,
    /// How strictly rows must fit the columns to write.
    pub adapt: AdaptOptions,
    /// Whether values that Lance v1 cannot hold are stored or refused. `None`: as the table has it, and stored in a new table.
    /// A new table and an overwritten one are of the given compat from then on; so is one that is appended to with
    /// [`Compat::Lossless`].
    pub compat: Option<Compat>,
    /// A data file is closed when it has so many rows.
    pub max_rows_per_file: u64,
    /// A data file is closed when it has about so many bytes.
    pub max_bytes_per_file: u64,
    /// Rows per page; `None` chooses by the width of a row.
    pub max_rows_per_page: Option<u64>,
    /// Give the rows of a new table stable ids.
    pub stable_row_ids: bool,
    /// Whether an acknowledged write survives a power cut.
    pub durability: Durability,
    /// Properties of the commit, of the caller's choice.
    pub properties: BTreeMap<String, String>,
    /// The caller's id for the commit: the same id commits once.
    pub commit_id: Option<String>,
    /// What must hold of the version that precedes the write's version.
    pub expect: Option<Precondition>,
    /// Attempts to commit after the first one.
    pub retries: u32,
    /// Layout of the data files: page alignment and checksums.
    pub layout: pilum_file::WriteOptions,
}

impl WriteOptions {
    /// These options for a write to `table`, whose compat holds where none is given.
    pub(super) fn for_table(&self, table: Option<&Snapshot>) -> Self {
        let compat = table.map_or(Compat::Lossless, |table| table.manifest().compat());
        Self {
            compat: Some(self.compat.unwrap_or(compat)),
            ..self.clone()
        }
    }

    /// The compat that the commit gives to a table that exists.
    pub(super) fn new_compat(&self) -> Option<Compat> {
        match self.mode {
            WriteMode::Overwrite => self.compat,
            _ => self.compat.filter(|it| *it == Compat::Lossless),
        }
    }
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            mode: WriteMode::Create,
            must_exist: false,
            schema: None,
            adapt: AdaptOptions::default(),
            compat: None,
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
    /// Why the automatic cleanup after the commit failed, if it did. The version is committed all the same.
    pub cleanup_error: Option<Arc<Error>>,
}

impl Written {
    /// The outcome when an earlier call with the same commit id did it.
    pub(super) fn before(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            num_rows: 0,
            num_bytes: 0,
            attempts: 0,
            was_committed_before: true,
            cleanup_error: None,
        }
    }
}
