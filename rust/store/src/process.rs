//! The generation of a process: tells a process from the one that it was forked from.
//!
//! A fork copies memory but no threads, and copies locks in the state they are in. A runtime, a connection or a timer is
//! therefore dead in the child, and every value that depends on one remembers the generation that made it. Process ids
//! cannot tell this: the system gives the id of a process that ended to a later one, which may be its grandchild.
#![expect(
    unsafe_code,
    reason = "registering a handler of forks is a call of the C library"
)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Forks between the first process of this program and the current one, counted in the children.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The handler is registered: `FORKS` counts from here on.
static IS_COUNTING: AtomicBool = AtomicBool::new(false);

/// Generations made while the handler could not be registered: each is different from all others.
static UNCOUNTED: AtomicU64 = AtomicU64::new(u64::MAX);

/// Which process of a line of forks a value belongs to.
///
/// Equal in all threads of one process, and different in a process and in every process forked from it, directly or not.
///
/// ```
/// use pilum_store::ProcessGeneration;
///
/// let made_in = ProcessGeneration::current();
/// assert!(made_in.is_current());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessGeneration(u64);

impl ProcessGeneration {
    /// The generation of the calling process.
    ///
    /// Takes no lock, so that a fork at any moment leaves nothing behind that the child would wait for. If the system has
    /// no memory to register the handler of forks, each call returns another generation: no value is reused then, which is
    /// slow and safe.
    #[must_use]
    pub fn current() -> Self {
        if !IS_COUNTING.load(Ordering::Acquire) {
            if !register() {
                return Self(UNCOUNTED.fetch_sub(1, Ordering::Relaxed));
            }
            // Two threads may both have registered: then a fork counts twice, which tells processes apart as well.
            IS_COUNTING.store(true, Ordering::Release);
        }
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether the calling process is the one that this generation was taken in.
    #[must_use]
    pub fn is_current(self) -> bool {
        self == Self::current()
    }
}

#[cfg(all(test, feature = "cloud"))]
impl ProcessGeneration {
    /// A generation that no process of a test has.
    pub(crate) fn other() -> Self {
        Self(u64::MAX / 2)
    }
}

fn register() -> bool {
    // SAFETY: the handler is a function of this program without arguments. It runs in the child after a fork, where only
    // async-signal-safe steps are allowed: one atomic addition is.
    unsafe { libc::pthread_atfork(None, None, Some(count_fork)) == 0 }
}

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `check` says in a child of this process.
    fn in_child(check: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child runs `check`, which only reads atomics, forks and waits, and ends without unwinding.
        match unsafe { libc::fork() } {
            0 => {
                let code = i32::from(!check());
                // SAFETY: ends the child at once; it has nothing to clean up.
                unsafe { libc::_exit(code) }
            }
            child => {
                assert!(child > 0);
                let mut status = 0;
                // SAFETY: `status` outlives the call, and the child is one of this process.
                let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
                waited == child && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
            }
        }
    }

    #[test]
    fn a_process_and_those_forked_from_it_have_different_generations() {
        let parent = ProcessGeneration::current();
        assert!(in_child(|| !parent.is_current()));
        assert!(in_child(|| {
            let child = ProcessGeneration::current();
            // The grandchild may have any process id, also that of an ended ancestor.
            child.is_current() && in_child(|| !child.is_current() && !parent.is_current())
        }));
        assert!(parent.is_current(), "a fork changes nothing in the parent");
        let elsewhere = std::thread::spawn(ProcessGeneration::current);
        assert_eq!(elsewhere.join().unwrap(), parent, "one for all threads");
    }
}
