//! The exchange of Arrow data with Python, by the C data interface in capsules, without pyarrow.
//!
//! - [`import`] takes what has `__arrow_c_stream__` or `__arrow_c_array__`: frames, tables, readers and batches of
//!   any library;
//! - [`stream_capsule`], [`array_capsules`] and [`schema_capsule`] make the capsules that objects of this module return.
//!
//! All unsafe code of the exchange is in this module.

#![expect(unsafe_code, reason = "C structures are moved through pointers")]

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
