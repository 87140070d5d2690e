//! The exchange of Arrow data with Python, by the C data interface in capsules, without pyarrow.
//!
//! - [`import`] takes what has `__arrow_c_stream__` or `__arrow_c_array__`: frames, tables, readers and batches of
//!   any library;
//! - [`stream_capsule`], [`array_capsules`] and [`schema_capsule`] make the capsules that objects of this module return.
//!
//! All unsafe code of the exchange is in this module.

#![expect(unsafe_code, reason = "C structures are moved through pointers")]

use pyo3::prelude::*;

mod export;
mod import;
mod request;

pub(crate) use export::{array_capsules, schema_capsule, stream_capsule};
pub(crate) use import::{Source, import, schema as import_schema};

/// True for a thread with a state of Python. Only such a thread can hold the GIL.
pub(crate) fn is_python_thread() -> bool {
    // SAFETY: may be called at any time after the interpreter started; a thread without a state gets null.
    !unsafe { pyo3::ffi::PyGILState_GetThisThreadState() }.is_null()
}

/// Runs a callback of a C stream, which its consumer calls with or without the GIL.
///
/// pyo3 counts how often this thread took the GIL. If Rust calls Python, and that calls a consumer that releases the GIL and
/// then pulls from the stream, pyo3 still believes that the GIL is held, and would use objects of Python without it. Here the GIL
/// is taken past pyo3, and then released by it: inside `work`, what pyo3 believes is true.
pub(crate) fn detached<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    // SAFETY: may be called at any time.
    let is_running = unsafe { pyo3::ffi::Py_IsInitialized() } != 0;
    if !is_running || !is_python_thread() {
        return work();
    }
    let _held = Held::new();
    // SAFETY: the line above took the GIL.
    unsafe { Python::assume_attached() }.detach(work)
}

/// The GIL, taken past pyo3.
struct Held(pyo3::ffi::PyGILState_STATE);

impl Held {
    fn new() -> Self {
        // SAFETY: the interpreter runs; a thread that holds the GIL may take it again.
        Self(unsafe { pyo3::ffi::PyGILState_Ensure() })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: this thread took the GIL when the value was made.
        unsafe { pyo3::ffi::PyGILState_Release(self.0) }
    }
}
