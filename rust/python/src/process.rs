//! Values that belong to one process: after a fork, the child makes its own and never touches those of its parent.
//!
//! A fork copies memory and the state of locks, but no threads. A runtime, a pool of connections or a running scan cannot
//! work in the child, and even dropping it could block for ever. This module takes no lock, so that a fork at any moment
//! leaves nothing for which the child would wait.

#![expect(unsafe_code, reason = "a lock-free cell needs raw pointers")]

use std::fmt;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use pilum_table::ProcessGeneration;

/// A cell with a value of the current process, made when it is first asked for.
pub(crate) struct PerProcess<T> {
    entry: AtomicPtr<OfProcess<T>>,
    owns: PhantomData<T>,
}

impl<T: Send + Sync> PerProcess<T> {
    /// An empty cell.
    pub(crate) const fn empty() -> Self {
        Self {
            entry: AtomicPtr::new(null_mut()),
            owns: PhantomData,
        }
    }

    /// A cell with the value of this process.
    pub(crate) fn new(value: T) -> Self {
        Self {
            entry: AtomicPtr::new(leaked(value)),
            owns: PhantomData,
        }
    }

    /// The value of this process; `make` makes it when there is none, or only that of a parent.
    pub(crate) fn get_or_try_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let seen = self.entry.load(Ordering::Acquire);
        // SAFETY: what a cell has ever held is not freed before the cell is dropped, which the borrow of `self` excludes.
        if let Some(value) = unsafe { seen.as_ref() }.and_then(OfProcess::get) {
            return Ok(value);
        }
        let made = leaked(make()?);
        let now = match self
            .entry
            .compare_exchange(seen, made, Ordering::AcqRel, Ordering::Acquire)
        {
            // The old value, if there was one, belongs to a parent: it is leaked.
            Ok(_) => made,
            Err(winner) => {
                // Another thread of this process was faster.
                // SAFETY: `made` came from a box and was never shared.
                drop(unsafe { Box::from_raw(made) });
                winner
            }
        };
        // SAFETY: as above; and neither case leaves a null pointer.
        Ok(unsafe { &(*now).value })
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let entry = *self.entry.get_mut();
        // SAFETY: the pointer is null or came from a box that is owned by this cell alone.
        if let Some(entry) = (!entry.is_null()).then(|| unsafe { Box::from_raw(entry) }) {
            drop_if_own(entry);
        }
    }
}

impl<T> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerProcess").finish_non_exhaustive()
    }
}

struct OfProcess<T> {
    made_in: ProcessGeneration,
    value: T,
}

impl<T> OfProcess<T> {
    fn get(&self) -> Option<&T> {
        self.made_in.is_current().then_some(&self.value)
    }
}

fn leaked<T>(value: T) -> *mut OfProcess<T> {
    Box::into_raw(Box::new(OfProcess {
        made_in: ProcessGeneration::current(),
        value,
    }))
}

fn drop_if_own<T>(entry: Box<OfProcess<T>>) {
    if entry.get().is_none() {
        std::mem::forget(entry);
    }
}

/// A value that only the process that made it may use or drop, such as a running scan.
pub(crate) struct OneProcess<T>(Option<Box<OfProcess<T>>>);

impl<T> OneProcess<T> {
    /// A value of this process.
    pub(crate) fn new(value: T) -> Self {
        Self(Some(Box::new(OfProcess {
            made_in: ProcessGeneration::current(),
            value,
        })))
    }

    /// The value, or nothing in another process.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()?.get()
    }

    /// As [`get`](Self::get).
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        let entry = self.0.as_deref_mut()?;
        entry.get().is_some().then_some(&mut entry.value)
    }
}

impl<T> Drop for OneProcess<T> {
    fn drop(&mut self) {
        if let Some(entry) = self.0.take() {
            drop_if_own(entry);
        }
    }
}

impl<T> fmt::Debug for OneProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneProcess").finish_non_exhaustive()
    }
}
