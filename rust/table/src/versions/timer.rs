//! Time for pauses and for patience, whatever runtime the caller has: one without timers, or none at all.
//!
//! Tokio does not tell whether a runtime has timers before it panics for the want of them. So these are our own: a runtime of
//! one thread that does nothing but wake others, made when somebody waits for the first time.

use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use pilum_store::ProcessGeneration;
use tokio::runtime::{Builder, Handle};
use tokio::time::{Sleep, Timeout};

/// With the process that made it: a child of a fork has none of its parent's threads.
static CLOCK: Mutex<Option<(ProcessGeneration, Handle)>> = Mutex::new(None);

/// Ends after so long; `None` where there is no clock.
pub(crate) fn sleep(pause: Duration) -> Option<Sleep> {
    let clock = clock()?;
    let _entered = clock.enter();
    Some(tokio::time::sleep(pause))
}

/// Ends with `work`, or with an error after so long; `None` where there is no clock.
pub(crate) fn timeout<F: Future>(patience: Duration, work: F) -> Option<Timeout<F>> {
    let clock = clock()?;
    let _entered = clock.enter();
    Some(tokio::time::timeout(patience, work))
}

fn clock() -> Option<Handle> {
    // Never waited for: a lock that another thread held at a fork stays locked in the child for good.
    let mut clock = match CLOCK.try_lock() {
        Ok(clock) => clock,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    let process = ProcessGeneration::current();
    if let Some((_, handle)) = clock.as_ref().filter(|(of, _)| *of == process) {
        return Some(handle.clone());
    }
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).thread_name("pilum-clock");
    let runtime = runtime.enable_time().build().ok()?;
    let handle = runtime.handle().clone();
    *clock = Some((process, handle.clone()));
    // As long as the process lives: a runtime may not even be dropped where others are awaited.
    std::mem::forget(runtime);
    Some(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some<T>(make: impl Fn() -> Option<T>) -> T {
        // Other tests may hold the lock for an instant.
        std::iter::repeat_with(make).find_map(|it| it).unwrap()
    }

    #[test]
    fn time_passes_without_a_runtime_and_on_one_without_timers() {
        let work = async || {
            some(|| sleep(Duration::from_millis(1))).await;
            let never = || timeout(Duration::from_millis(1), std::future::pending::<()>());
            assert!(some(never).await.is_err());
            let at_once = || timeout(Duration::MAX, std::future::ready(7));
            assert_eq!(some(at_once).await, Ok(7));
        };
        futures::executor::block_on(work());
        Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(work());
        let several = Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        several.block_on(work());
    }
}
