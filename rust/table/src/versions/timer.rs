//! Pauses and time limits for futures, whatever runtime the caller has: one without timers, or none at all.
//!
//! Tokio does not say whether a runtime has timers before it panics because it has none. So a runtime of our own, of one
//! thread, keeps the timers; it is made when a future first waits. No function here blocks the thread of its caller.

use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use pilum_store::ProcessGeneration;
use tokio::runtime::{Builder, Handle};
use tokio::time::{Sleep, Timeout};

/// The handle with the process that made it: after a fork the child has none of the threads of its parent.
static CLOCK: Mutex<Option<(ProcessGeneration, Handle)>> = Mutex::new(None);

/// Waits for `pause`. Where the runtime of the timers cannot be used, a thread of its own waits; where no thread can be
/// started either, the pause is left out.
pub(crate) async fn sleep(pause: Duration) {
    if let Some(sleep) = timed_sleep(pause) {
        return sleep.await;
    }
    sleep_on_thread(pause).await;
}

fn timed_sleep(pause: Duration) -> Option<Sleep> {
    let clock = clock()?;
    let _entered = clock.enter();
    Some(tokio::time::sleep(pause))
}

async fn sleep_on_thread(pause: Duration) {
    let (done, wait) = tokio::sync::oneshot::channel::<()>();
    let sleeper = move || {
        std::thread::sleep(pause);
        // The future may have been dropped.
        let _ = done.send(());
    };
    let thread = std::thread::Builder::new().name("pilum-pause".to_owned());
    if thread.spawn(sleeper).is_ok() {
        let _ = wait.await;
    }
}

/// Ends with `work`, or with an error after `patience`; `None` where the runtime of the timers cannot be used.
pub(crate) fn timeout<F: Future>(patience: Duration, work: F) -> Option<Timeout<F>> {
    let clock = clock()?;
    let _entered = clock.enter();
    Some(tokio::time::timeout(patience, work))
}

fn clock() -> Option<Handle> {
    // Only `try_lock`: a lock that another thread held at a fork stays locked in the child for ever.
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
    // The runtime lives as long as the process: tokio forbids dropping a runtime inside of another one.
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
    fn a_pause_without_the_clock_leaves_the_thread_to_other_futures() {
        use futures::future::{Either, select};
        let pause = std::pin::pin!(sleep_on_thread(Duration::from_secs(600)));
        let other = std::pin::pin!(async { 7 });
        match futures::executor::block_on(select(pause, other)) {
            Either::Right((7, _)) => {}
            _ => panic!("the pause blocked the thread"),
        }
        futures::executor::block_on(sleep_on_thread(Duration::from_millis(1)));
    }

    #[test]
    fn time_passes_without_a_runtime_and_on_one_without_timers() {
        let work = async || {
            sleep(Duration::from_millis(1)).await;
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
