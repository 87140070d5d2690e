//! Rows that come from Python.

use std::ffi::CStr;

use arrow_array::ffi::from_ffi_and_data_type;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{Array, RecordBatch, RecordBatchOptions, StructArray};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pyo3::exceptions::PyBaseException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::errors::{Ended, Failure};

/// Record batches of one schema, pulled one at a time.
///
/// Pulling may run Python code and is done without the GIL: whoever made the stream takes it where it needs it. The
/// interface asks that of producers, and a producer that waits for its own threads could not work otherwise.
pub(crate) struct Source {
    schema: SchemaRef,
    exporter: Py<PyAny>,
    batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>,
}

impl Source {
    /// The columns of every batch.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Why the rows failed: the exception that the exporter kept in `failure`, since a C stream has room for its words
    /// only.
    pub(crate) fn reason(&self, py: Python<'_>, failure: Failure) -> Ended {
        let kept = self.exporter.bind(py).getattr_opt(intern!(py, "failure"));
        match kept.map(|kept| kept.map(Bound::cast_into::<PyBaseException>)) {
            Ok(Some(Ok(exception))) => Ended::Raised(PyErr::from_value(exception.into_any())),
            _ => Ended::Failed(failure),
        }
    }
}

impl Iterator for Source {
    type Item = Result<RecordBatch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        Some(batch.and_then(checked).map_err(|error| failure(&error)))
    }
}

/// Takes over the rows of any object that exports them.
pub(crate) fn import(rows: &Bound<'_, PyAny>) -> PyResult<Source> {
    let py = rows.py();
    if let Some(export) = rows.getattr_opt(intern!(py, "__arrow_c_stream__"))? {
        let capsule = export.call0()?;
        // SAFETY: the name of the capsule is the promise that it holds a stream.
        let stream =
            unsafe { FFI_ArrowArrayStream::from_raw(content(&capsule, c"arrow_array_stream")?) };
        let reader = py.detach(|| RecordBatchStreamReader::try_new(stream));
        let reader = reader.map_err(|error| failure(&error))?;
        let schema = arrow_array::RecordBatchReader::schema(&reader);
        return Ok(Source {
            schema,
            exporter: rows.clone().unbind(),
            batches: Box::new(reader),
        });
    }
    if let Some(export) = rows.getattr_opt(intern!(py, "__arrow_c_array__"))? {
        let pair = export.call0()?.cast_into::<PyTuple>()?;
        let (schema, array) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        // SAFETY: the names of the capsules are the promise of what they hold; the array goes with the schema.
        let batch = unsafe {
            let schema = FFI_ArrowSchema::from_raw(content(&schema, c"arrow_schema")?);
            let array = FFI_ArrowArray::from_raw(content(&array, c"arrow_array")?);
            record_batch(array, &schema)
        };
        let batch = batch.map_err(|error| failure(&error))?;
        let (schema, exporter) = (batch.schema(), rows.clone().unbind());
        return Ok(Source {
            schema,
            exporter,
            batches: Box::new(std::iter::once(Ok(batch))),
        });
    }
    let class = rows.get_type().fully_qualified_name()?;
    Err(Failure::invalid(format!(
        "cannot take rows of a {class}: pass a table, frame, reader or record batch that exports Arrow"
    ))
    .into())
}

/// The schema of an `arrow_schema` capsule.
pub(super) fn schema(capsule: &Bound<'_, PyAny>) -> PyResult<Schema> {
    // SAFETY: the name of the capsule is the promise that it holds a schema.
    let schema = unsafe { FFI_ArrowSchema::from_raw(content(capsule, c"arrow_schema")?) };
    Schema::try_from(&schema).map_err(|error| failure(&error).into())
}

/// The structure in a capsule, to be moved out of it.
fn content<T>(capsule: &Bound<'_, PyAny>, name: &'static CStr) -> PyResult<*mut T> {
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| {
        Failure::invalid(format!(
            "the exporter returned no capsule of the name {}",
            name.to_string_lossy()
        ))
    })?;
    Ok(capsule.pointer_checked(Some(name))?.as_ptr().cast())
}

/// # Safety
/// `array` is an array of the type that `schema` describes.
unsafe fn record_batch(
    array: FFI_ArrowArray,
    schema: &FFI_ArrowSchema,
) -> Result<RecordBatch, ArrowError> {
    let schema = Schema::try_from(schema)?;
    // SAFETY: as the caller says.
    let data = unsafe { from_ffi_and_data_type(array, DataType::Struct(schema.fields().clone())) }?;
    let rows = StructArray::from(data);
    if rows.null_count() > 0 {
        let message = "a record batch cannot be missing as a whole, but some of its rows are";
        return Err(ArrowError::CDataInterface(message.to_owned()));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema.into(), rows.into_parts().1, &options)
}

/// What Arrow calls valid and what it would take on trust: text that is no UTF-8 must not reach a file.
fn checked(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        column.to_data().validate_full().map_err(|error| {
            ArrowError::InvalidArgumentError(format!("column `{}`: {error}", field.name()))
        })?;
    }
    Ok(batch)
}

fn failure(error: &ArrowError) -> Failure {
    match error {
        ArrowError::NotYetImplemented(message) => Failure::unsupported(format!(
            "the rows cannot be taken: {message}; cast the column first"
        )),
        ArrowError::CDataInterface(message) | ArrowError::InvalidArgumentError(message) => {
            Failure::invalid(format!("the rows cannot be taken: {message}"))
        }
        error => Failure::invalid(format!("the rows cannot be taken: {error}")),
    }
}
