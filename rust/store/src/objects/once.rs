//! Values made once per process: sockets and threads do not survive a fork.

use std::sync::Mutex;

use crate::error::Result;

/// The value made last, with the id of the process that made it.
pub(crate) struct OncePerProcess<T>(pub(super) Mutex<Option<(u32, T)>>);

impl<T: Clone> OncePerProcess<T> {
    pub(crate) const fn empty() -> Self {
        Self(Mutex::new(None))
    }

    /// The value of this process. The lock is only ever tried: if another thread has it, or had it at a fork, a
    /// value of our own costs a connection and no deadlock.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let process = std::process::id();
        let Ok(mut made) = self.0.try_lock() else {
            return make();
        };
        if let Some((maker, value)) = made.as_ref()
            && *maker == process
        {
            return Ok(value.clone());
        }
        let value = make()?;
        let parents = made.replace((process, value.clone()));
        // Closing the parent's client here would wait for threads that exist only over there.
        std::mem::forget(parents);
        Ok(value)
    }
}
