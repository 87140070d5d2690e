//! Values that are made once per process, because sockets and threads do not survive a fork.

use std::sync::Mutex;

use crate::error::Result;
use crate::process::ProcessGeneration;

/// The value made last, with the generation of the process that made it.
pub(crate) struct OncePerProcess<T>(pub(super) Mutex<Option<(ProcessGeneration, T)>>);

impl<T: Clone> OncePerProcess<T> {
    pub(crate) const fn empty() -> Self {
        Self(Mutex::new(None))
    }

    /// The value of this process. The lock is tried and never waited for: a thread that holds it may not exist in this
    /// process, if it held it at a fork. Then a second value is made, which costs a connection.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let Ok(mut made) = self.0.try_lock() else {
            return make();
        };
        if let Some((maker, value)) = made.as_ref()
            && maker.is_current()
        {
            return Ok(value.clone());
        }
        let value = make()?;
        let parents = made.replace((ProcessGeneration::current(), value.clone()));
        // Dropping the client of the parent would wait for threads that this process does not have.
        std::mem::forget(parents);
        Ok(value)
    }
}
