//! How much memory something held at once.
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

/// What reading `input` bytes may hold at once, whatever the bytes are.
#[must_use]
pub fn most_bytes(input: usize) -> usize {
    4 * input + (64 << 20)
}

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static UNTOLD: Cell<isize> = const { Cell::new(0) };
    static CASE: Cell<u64> = const { Cell::new(0) };
}

/// What all threads hold. One thread's own count is no measure of that: it drifts for ever where one thread allocates and
/// another frees.
static HELD: AtomicIsize = AtomicIsize::new(0);

/// More than any test needs: who takes more would take the machine with it.
const RUNAWAY: isize = 4 << 30;

/// A thread tells [`HELD`] of its changes by so many bytes at a time.
const TOLD: isize = 64 << 10;

/// Tells which case runs on this thread, for the last words of a runaway.
pub(crate) fn set_case(case: u64) {
    CASE.set(case);
}

/// Runs something on this thread and returns the most bytes that it held at once. Only counts under a
/// [`CountingAllocator`].
pub fn peak_bytes<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = run();
    (result, usize::try_from(PEAK.get() - before).unwrap_or(0))
}

fn count(change: isize) {
    let live = LIVE.get().wrapping_add(change);
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
    let untold = UNTOLD.get().wrapping_add(change);
    if untold.abs() < TOLD {
        UNTOLD.set(untold);
        return;
    }
    UNTOLD.set(0);
    let held = HELD
        .fetch_add(untold, Ordering::Relaxed)
        .wrapping_add(untold);
    if held > RUNAWAY && untold > 0 {
        // What follows may allocate; it is the end.
        HELD.store(isize::MIN / 2, Ordering::Relaxed);
        let place = std::backtrace::Backtrace::force_capture();
        eprintln!(
            "case {} takes the memory held to {held} bytes\n{place}",
            CASE.get()
        );
        std::process::abort();
    }
}

fn signed(num_bytes: usize) -> isize {
    isize::try_from(num_bytes).unwrap_or(isize::MAX)
}

/// The allocator of the system, counting the bytes of each thread.
#[derive(Debug)]
pub struct CountingAllocator;

// SAFETY: every call goes to the system's allocator as it came. Counting itself allocates nothing: the thread-locals are
// constants without destructors.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(signed(size));
        // SAFETY: the caller's obligations are the same.
        let moved = unsafe { System.realloc(at, layout, size) };
        count(-signed(layout.size()));
        moved
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: the caller's obligations are the same.
        unsafe { System.dealloc(at, layout) }
    }
}
