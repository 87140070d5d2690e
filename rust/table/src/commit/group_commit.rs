//! Group commit: writers of one process publish to a local table one after the other, in the order in which they asked.
//!
//! A commit has two phases. In the first, many writers write and flush their data files and transactions at the same time,
//! and the disk combines the flushes. In the second, a writer reads the newest version and publishes the next one. Without
//! a queue, all writers that read the same newest version write and flush a manifest, and all but one lose their attempt.
//! With the queue every attempt wins against the writers of its own process. A writer leaves the queue as soon as its
//! manifest has its name: while it waits for the flush of the folder, the next writer writes its manifest.
//!
//! The queue is an optimization. Writers of other processes are not in it, so the commit never relies on it for correctness.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use pilum_store::{ProcessGeneration, Store};
use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

use crate::versions::timer;

/// By table and process: after a fork the child has none of the threads that wait in its parent.
type Queues = BTreeMap<(String, ProcessGeneration), Arc<Queue<()>>>;

/// Longest wait in the queue. The writer before us may wait for its disk; it may also wait for us, when we are a signal
/// handler that commits to the table whose commit it interrupted.
const MAX_WAIT: Duration = Duration::from_secs(5);

static QUEUES: Mutex<Queues> = Mutex::new(BTreeMap::new());

/// Waits for the place of this writer in the queue of the table in `store`. The guard is held while the writer reads the
/// newest version and publishes the next one; `None` for remote tables, and after a wait of [`MAX_WAIT`].
pub(crate) async fn take(store: &Store) -> Option<OwnedMutexGuard<()>> {
    take_within(store, MAX_WAIT).await
}

async fn take_within(store: &Store, patience: Duration) -> Option<OwnedMutexGuard<()>> {
    if !store.is_local() {
        // The answer of a remote store takes longer than a lost attempt costs.
        return None;
    }
    let queue = queue(store.uri())?;
    if let Ok(turn) = Arc::clone(&queue).try_lock_owned() {
        return Some(turn);
    }
    timer::timeout(patience, queue.lock_owned())?.await.ok()
}

fn queue(uri: &str) -> Option<Arc<Queue<()>>> {
    // Only `try_lock`: a lock that another thread held at a fork stays locked in the child for ever.
    let mut queues = match QUEUES.try_lock() {
        Ok(queues) => queues,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    // Drop the queues that no writer waits in.
    queues.retain(|_, queue| Arc::strong_count(queue) > 1);
    let key = (uri.to_owned(), ProcessGeneration::current());
    Some(Arc::clone(queues.entry(key).or_default()))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use pilum_store::StorageOptions;

    use super::*;

    #[test]
    fn one_writer_of_a_table_at_a_time_and_the_next_when_it_is_done() {
        let open = |uri: &str| Store::open(uri, &StorageOptions::new()).unwrap();
        let (one, other) = (open("/nowhere/a"), open("/nowhere/b"));
        // Other tests may hold the map for an instant.
        let first = std::iter::repeat_with(|| take(&one).now_or_never())
            .find_map(Option::flatten)
            .unwrap();
        let second = open("/nowhere/a");
        let mut waiting = std::iter::repeat_with(|| Box::pin(take(&second)))
            .find_map(|mut turn| turn.as_mut().now_or_never().is_none().then_some(turn))
            .unwrap();
        assert!(take(&other).now_or_never().is_some(), "another table");
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(first);
        assert!(waiting.now_or_never().flatten().is_some());
        let memory = open("memory://tests/group_commit");
        assert!(take(&memory).now_or_never().unwrap().is_none());
    }

    #[test]
    fn nobody_waits_for_ever() {
        // Whoever calls: a runtime without timers, or none.
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.unwrap();
        let store = Store::open("/nowhere/c", &StorageOptions::new()).unwrap();
        let first = std::iter::repeat_with(|| runtime.block_on(take(&store)))
            .find_map(|turn| turn)
            .unwrap();
        // The one that is next has been interrupted by the last one.
        let mut next = Box::pin(take_within(&store, Duration::MAX));
        while next.as_mut().now_or_never().is_some() {
            next = Box::pin(take_within(&store, Duration::MAX));
        }
        drop(first);
        let last = || take_within(&store, Duration::from_millis(1));
        assert!(runtime.block_on(last()).is_none());
        assert!(futures::executor::block_on(last()).is_none());
        assert!(runtime.block_on(next).is_some());
    }
}
