//! What writers at work rely on, by the transaction files that no version names.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use pilum_format::Operation;
use pilum_format::paths::TRANSACTIONS;
use pilum_store::Store;

use super::candidates::{Candidates, age};
use crate::error::{Error, Result};
use crate::versions::log as versions;
use pilum_common::Error as CommonError;

/// What writers at work rely on.
pub(super) struct AtWork {
    /// The oldest version that one of them began with.
    pub(super) oldest_base: u64,
    /// The versions that they may be about to restore.
    pub(super) restored: BTreeSet<u64>,
}

impl AtWork {
    /// Reads the transaction files that are younger than `most_age` and that no version names: neither one whose manifest was
    /// marked, nor one of `published`.
    pub(super) async fn find(
        store: &Store,
        candidates: &Candidates,
        published: &BTreeSet<String>,
        most_age: Duration,
        now: SystemTime,
    ) -> Result<Self> {
        let mut found = Self {
            oldest_base: u64::MAX,
            restored: BTreeSet::new(),
        };
        for file in store.list(TRANSACTIONS).await? {
            let is_named = candidates.is_named(&file.path) || published.contains(file.name());
            if is_named || age(&file, now) >= most_age {
                continue;
            }
            match versions::read_transaction(store, file.name()).await {
                Ok(Some(transaction)) => {
                    found.oldest_base = found.oldest_base.min(transaction.read_version);
                    if let Operation::Restore { version } = transaction.operation {
                        found.restored.insert(version);
                    }
                }
                // Removed meanwhile, or no transaction: a writer's own file is whole as soon as it has its name.
                Ok(None) | Err(Error::Common(CommonError::Corrupt { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}
