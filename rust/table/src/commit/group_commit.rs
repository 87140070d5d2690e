//! Group commit: writers of one process that publish to one table on this machine take turns, first come first served.
//!
//! A commit has two halves. Data files and transaction are written and flushed by many writers at once, which the disk
//! does together. Publishing is one after the other by its nature: without turns, all but one of those who looked at the
//! same newest version would write and flush a manifest for nothing, and come back. With turns every attempt wins. A turn
//! ends when the manifest has its name: while one waits for the flush of the names, the next writes its manifest.
//! Writers of other processes are met as always, so a turn decides nothing: it is a courtesy, and may be left out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use pilum_store::{ProcessGeneration, Store};
use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

use crate::versions::timer as clock;

/// By table and process: a child of a fork knows nothing of those who waited in its parent.
type Queues = BTreeMap<(String, ProcessGeneration), Arc<Queue<()>>>;

/// A courtesy has an end: whoever is before us may hang on his disk, or wait for us, if we are a signal handler that
/// commits to the table whose commit it interrupted.
const PATIENCE: Duration = Duration::from_secs(5);

static QUEUES: Mutex<Queues> = Mutex::new(BTreeMap::new());

/// Waits until it is the turn of a commit to the table in `store`, to be held while it looks at the newest version and
/// publishes the next; `None` where there are no turns, or none comes.
pub(crate) async fn take(store: &Store) -> Option<OwnedMutexGuard<()>> {
    take_within(store, PATIENCE).await
}

async fn take_within(store: &Store, patience: Duration) -> Option<OwnedMutexGuard<()>> {
    if !store.is_local() {
        // Elsewhere, answers take longer than attempts cost.
        return None;
    }
    let queue = queue(store.uri())?;
    if let Ok(turn) = Arc::clone(&queue).try_lock_owned() {
        return Some(turn);
    }
    clock::timeout(patience, queue.lock_owned())?.await.ok()
}

fn queue(uri: &str) -> Option<Arc<Queue<()>>> {
    // Never waited for: a lock that another thread held at a fork stays locked in the child for good.
    let mut queues = match QUEUES.try_lock() {
        Ok(queues) => queues,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    // Tables that nobody writes to now.
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
        let memory = open("memory://tests/turns");
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
