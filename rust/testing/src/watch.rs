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

/// What refusing an input should take at most.
const MARK: Duration = Duration::from_millis(100);

/// The slowest of many cases. It is told, not asserted: a machine may be busy.
#[derive(Debug, Default)]
pub struct Slowest {
    cases: usize,
    over_the_mark: usize,
    took: Duration,
    name: String,
}

impl Slowest {
    /// Runs a case.
    pub fn time<T>(&mut self, name: &str, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = run();
        let took = start.elapsed();
        self.cases += 1;
        self.over_the_mark += usize::from(took > MARK);
        if took >= self.took {
            self.took = took;
            self.name = name.chars().take(80).collect();
        }
        result
    }
}

impl Drop for Slowest {
    fn drop(&mut self) {
        let millis = self.took.as_secs_f64() * 1000.0;
        let slow = self.over_the_mark;
        eprintln!(
            "{slow} took longer than {MARK:?}; the slowest of {} cases took {millis:.1} ms: {:?}",
            self.cases, self.name
        );
    }
}
