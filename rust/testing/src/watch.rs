//! Tests that end when something hangs.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A case that takes longer is a hang: the process ends and says which.
const HANG: Duration = Duration::from_secs(120);

/// Runs `run`, which stores the number of each case, while somebody watches that the number moves.
pub fn watched<T>(run: impl FnOnce(&AtomicU64) -> T) -> T {
    let (progress, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut last, mut since) = (0, Instant::now());
            while !done.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(200));
                let now = progress.load(Ordering::Relaxed);
                if now != last {
                    (last, since) = (now, Instant::now());
                }
                if since.elapsed() > HANG {
                    // Nobody can take the thread back from a loop without end.
                    eprintln!("case {now} hangs");
                    std::process::abort();
                }
            }
        });
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| run(&progress)));
        done.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
