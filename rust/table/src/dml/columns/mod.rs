//! Columns: adding, dropping, renaming and converting them without rewriting the others.
//!
//! ```text
//!   new or converted values   one new file per fragment, a row for each physical row    Merge
//!   names, nullability, drops the schema alone                                          Project
//! ```
//!
//! The old values of a dropped or converted column stay in files that hold other columns too; a file without any column of
//! the schema is removed from the version.

mod add;
mod alter;
mod backfill;
pub(crate) mod distributed;
mod drop;
mod fill;
mod inspect;
pub(crate) mod plain_files;
mod retype;
mod tree;

pub use alter::ColumnChange;
use pilum_format::{FieldId, Schema};

use crate::commit::Committed;
use crate::dml::outcome::StatementOutcome;
use crate::error::Result;

/// The id of the field at a path; `a.b` is member `b` of struct `a`, or item `b` of list `a`.
///
/// # Errors
/// `InvalidInput` when there is no such field.
pub fn field_id(schema: &Schema, path: &str) -> Result<FieldId> {
    let ids = tree::find(schema, path)?;
    Ok(ids.last().copied().unwrap_or(-1))
}

/// What a change of columns did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ColumnsOutcome {
    /// The version with the columns: the newest one as it was, with 0 attempts, when nothing was to be done.
    pub committed: Committed,
    /// Live rows for which values were written; 0 when only the schema changed.
    pub num_rows: u64,
    /// Bytes of the files with these values.
    pub num_bytes: u64,
}

impl StatementOutcome for ColumnsOutcome {
    fn without_rows(committed: Committed) -> Self {
        Self {
            committed,
            num_rows: 0,
            num_bytes: 0,
        }
    }

    fn committed(&self) -> &Committed {
        &self.committed
    }
}
