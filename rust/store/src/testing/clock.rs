//! Time that stands still for one thread: pauses between attempts cost nothing there, and a test steps on.

use std::cell::Cell;

thread_local! {
    static STANDS_STILL: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, this thread does not sleep between attempts.
#[derive(Debug)]
pub struct StillClock {
    before: bool,
}

/// Lets time stand still for this thread.
#[must_use]
pub fn stand_still() -> StillClock {
    let before = STANDS_STILL.replace(true);
    StillClock { before }
}

impl Drop for StillClock {
    fn drop(&mut self) {
        STANDS_STILL.set(self.before);
    }
}

pub(crate) fn stands_still() -> bool {
    STANDS_STILL.get()
}
