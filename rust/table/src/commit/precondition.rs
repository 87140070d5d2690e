//! Preconditions: what the caller demands of the table at the instant of the commit. They prevent write skew: two commits
//! that do not conflict, although each was made only because the other one was not there yet.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use futures::stream::StreamExt;
use pilum_expr::{Expr, Projection};
use pilum_format::Reason;
use tokio::runtime::Handle;

use crate::commit::read_set::added_fragments;
use crate::error::{Error, Result};
use crate::read::options::{ROW_ID, ScanOptions};
use crate::read::snapshot::Snapshot;
use crate::versions::log as versions;

/// Number of rows that an error names when there should be none.
const ROWS_SHOWN: u64 = 5;

/// What must hold of the version that a commit follows. Otherwise the commit conflicts, and a retry cannot help.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Precondition {
    /// The newest version is this one: nothing was committed since. 0 demands that there is no table.
    Version(u64),
    /// The predicate is true for no row.
    NoRows {
        /// The predicate.
        predicate: Expr,
        /// The runtime that scans for such rows.
        handle: Handle,
    },
}

impl Precondition {
    /// Demands that a predicate is true for no row.
    #[must_use]
    pub fn no_rows(predicate: Expr, handle: &Handle) -> Self {
        Self::NoRows {
            predicate,
            handle: handle.clone(),
        }
    }

    /// Checks the version that the work starts from.
    pub(crate) async fn check(
        &self,
        store: &pilum_store::Store,
        base: Option<&Snapshot>,
        ours: &'static str,
    ) -> Result<()> {
        let Some(base) = base else {
            return match self {
                Self::Version(0) | Self::NoRows { .. } => Ok(()),
                Self::Version(_) => Err(versions::no_table(store).await),
            };
        };
        let Some(reason) = self.broken_by(None, base).await? else {
            return Ok(());
        };
        let theirs = base.transaction().await?;
        Err(Error::Conflict {
            uri: base.uri().to_owned(),
            ours,
            theirs: theirs.map_or("unknown operation", |it| it.operation.name()),
            version: base.version(),
            reason,
            retryable: false,
        })
    }

    /// Why `version` breaks the precondition; `before` is a version that kept it.
    pub(crate) async fn broken_by(
        &self,
        before: Option<&Snapshot>,
        version: &Snapshot,
    ) -> Result<Option<Reason>> {
        let (predicate, handle) = match self {
            Self::Version(expected) => {
                let is_other = version.version() != *expected;
                return Ok(is_other.then_some(Reason::NotVersion(*expected)));
            }
            Self::NoRows { predicate, handle } => (predicate, handle),
        };
        let added = added_fragments(before, version);
        if added.is_empty() {
            return Ok(None);
        }
        let scan = version.scan(ScanOptions {
            columns: Projection::Names(vec![ROW_ID.to_owned()]),
            filter: Some(predicate.clone()),
            fragments: Some(added),
            limit: Some(ROWS_SHOWN),
            ..ScanOptions::default()
        })?;
        let mut batches = scan.batches(handle);
        let mut row_ids = Vec::new();
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            let ids = batch.column(0).as_primitive::<UInt64Type>();
            row_ids.extend_from_slice(ids.values());
        }
        Ok((!row_ids.is_empty()).then(|| Reason::Expected {
            predicate: predicate.to_string(),
            row_ids,
        }))
    }
}
