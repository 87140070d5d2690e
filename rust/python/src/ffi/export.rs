//! Rows, batches and schemas for Python, as Arrow capsules.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchReader, StructArray};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::detached;
use super::request::Request;
use crate::errors::{Ended, Failure, guarded};

/// A stream of batches, which its consumer may pull from any thread.
///
/// `next` is called with or without the GIL; it ends the stream by `None`.
pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    schema: &SchemaRef,
    next: impl FnMut() -> Result<Option<RecordBatch>, Ended> + Send + 'static,
    requested: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let request = Request::of(requested, schema)?;
    let reader = Pulled {
        request,
        next: Some(next),
    };
    PyCapsule::new_with_value(
        py,
        FFI_ArrowArrayStream::new(Box::new(reader)),
        c"arrow_array_stream",
    )
}

/// One batch as a struct array, with its schema.
pub(crate) fn array_capsules<'py>(
    py: Python<'py>,
    batch: &RecordBatch,
    requested: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let batch = Request::of(requested, batch.schema_ref())?.apply(batch)?;
    let schema = schema_capsule(py, batch.schema_ref())?;
    let array = FFI_ArrowArray::new(&StructArray::from(batch).to_data());
    Ok((
        schema,
        PyCapsule::new_with_value(py, array, c"arrow_array")?,
    ))
}

/// A schema.
pub(crate) fn schema_capsule<'py>(
    py: Python<'py>,
    schema: &Schema,
) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema)
        .map_err(|error| Failure::unsupported(format!("the schema cannot be exported: {error}")))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// The callbacks of a C stream must not unwind, and the stream ends at its first error.
struct Pulled<F: Send> {
    request: Request,
    next: Option<F>,
}

impl<F: Send> Drop for Pulled<F> {
    fn drop(&mut self) {
        if let Some(next) = self.next.take() {
            detached(|| drop(next));
        }
    }
}

impl<F: FnMut() -> Result<Option<RecordBatch>, Ended> + Send> Iterator for Pulled<F> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut next = self.next.take()?;
        let request = &self.request;
        let (pulled, next) = detached(|| {
            let pulled = guarded(|| match next()? {
                Some(batch) => Ok(Some(request.apply(&batch)?)),
                None => Ok(None),
            });
            let goes_on = matches!(pulled, Ok(Some(_)));
            (pulled.map_err(in_words), goes_on.then_some(next))
        });
        self.next = next;
        pulled.transpose()
    }
}

impl<F: FnMut() -> Result<Option<RecordBatch>, Ended> + Send> RecordBatchReader for Pulled<F> {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(self.request.schema())
    }
}

/// The error as a C stream carries it: a code and a text. For `KeyboardInterrupt` the signal is set again, so that Python
/// raises it in the consumer.
fn in_words(ended: Ended) -> ArrowError {
    match ended {
        Ended::Failed(failure) => failure.into_arrow(),
        Ended::Raised(raised) => {
            let words = Python::try_attach(|py| {
                if raised.is_instance_of::<PyKeyboardInterrupt>(py) {
                    // If that fails, the consumer still gets this error.
                    let _ = py
                        .import("_thread")
                        .and_then(|thread| thread.call_method0("interrupt_main"));
                }
                raised.to_string()
            });
            Failure::interrupted(words.unwrap_or_default()).into_arrow()
        }
    }
}
