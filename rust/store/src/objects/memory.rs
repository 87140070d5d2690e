//! The stores of `memory://name/...`: one per name, which lives as long as the process.
//!
//! A forked child has a copy of each store as it was at the fork.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use object_store::memory::InMemory;

use crate::error::{Error, Result};

static STORES: Mutex<BTreeMap<String, Arc<InMemory>>> = Mutex::new(BTreeMap::new());

/// Far longer than a thread holds the lock to look up a name.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The store called `authority`, made at its first use.
pub(super) fn named(authority: &str) -> Result<Arc<InMemory>> {
    let begun = Instant::now();
    loop {
        // The lock is not waited for without a limit: a thread that held it at a fork does not exist in the child.
        let mut stores = match STORES.try_lock() {
            Ok(stores) => stores,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if begun.elapsed() < MAX_WAIT => {
                std::thread::yield_now();
                continue;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Io {
                    path: format!("memory://{authority}"),
                    operation: "find the store: the process was forked while another thread looked up a name",
                    source: io::ErrorKind::WouldBlock.into(),
                });
            }
        };
        return Ok(Arc::clone(stores.entry(authority.to_owned()).or_default()));
    }
}
