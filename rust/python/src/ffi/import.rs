//! Rows and schemas from Python, out of Arrow capsules.

use std::ffi::CStr;

use arrow_array::cast::AsArray;
use arrow_array::ffi::from_ffi_and_data_type;
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, ArrayReader, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pilum_table::{AdaptError, in_order_of};
use pyo3::exceptions::PyStopIteration;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::errors::{Ended, Failure};

/// Record batches of one schema, pulled one at a time.
pub(crate) struct Source {
    schema: SchemaRef,
    rows: Rows,
    num_pulled: usize,
    num_batches: u64,
}

enum Rows {
    /// Pulled without the GIL: its producer takes the GIL where it needs it, as the interface demands. A producer that waits
    /// for threads of its own would deadlock otherwise.
    Stream(ArrayStreamReader),
    /// A reader of pyarrow, pulled by its own method. A C stream would carry only the text of an exception that a generator
    /// raises, such as `KeyboardInterrupt`.
    Reader(Py<PyAny>),
    One(Option<ArrayRef>),
}

impl Source {
    /// The columns of every batch.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next batch, or none at the end.
    pub(crate) fn pull(&mut self, py: Python<'_>) -> Result<Option<RecordBatch>, Ended> {
        let (own, rows) = match &mut self.rows {
            Rows::One(rows) => (None, rows.take()),
            Rows::Stream(reader) => {
                let rows = py.detach(|| reader.next()).transpose();
                (None, rows.map_err(|error| failure(&error))?)
            }
            Rows::Reader(reader) => {
                match reader.bind(py).call_method0(intern!(py, "read_next_batch")) {
                    Err(error) if error.is_instance_of::<PyStopIteration>(py) => (None, None),
                    batch => {
                        let (own, rows) = array(&batch?)?;
                        (Some(own), Some(rows))
                    }
                }
            }
        };
        rows.map(|rows| Ok(self.batch(own.as_ref(), &rows)?))
            .transpose()
    }

    /// The rows as a batch of the stream's schema. Its columns are matched by name with those of `own`, the schema that the
    /// batch itself has: a reader takes it on trust that its batches have the columns that it declares.
    ///
    /// The columns are validated here: text that is not UTF-8 must not reach a file.
    fn batch(&mut self, own: Option<&Schema>, rows: &ArrayRef) -> Result<RecordBatch, Failure> {
        let first_row = self.num_pulled;
        let number = self.num_batches;
        self.num_pulled += rows.len();
        self.num_batches += 1;
        let rows = rows
            .as_struct_opt()
            .filter(|rows| rows.null_count() == 0)
            .ok_or_else(|| {
                Failure::invalid(format!(
                    "from row {first_row}: a row cannot be missing as a whole"
                ))
            })?;
        let fields = self.schema.fields();
        let own = own.map_or(fields, Schema::fields);
        for (field, column) in own.iter().zip(rows.columns()) {
            let name = field.name();
            column.to_data().validate_full().map_err(|error| {
                Failure::invalid(format!(
                    "column `{name}`, in {} rows from row {first_row}: {error}",
                    rows.len()
                ))
            })?;
        }
        let columns = in_order_of(fields, own, rows.columns(), number)
            .map_err(|error| contradiction(error, first_row))?;
        for (field, column) in fields.iter().zip(&columns) {
            let name = field.name();
            if !field.is_nullable()
                && let Some(nulls) = column.logical_nulls()
                && let Some(row) = nulls.iter().position(|is_valid| !is_valid)
            {
                let row = first_row + row;
                return Err(Failure::invalid(format!(
                    "column `{name}`, row {row}: a null, in a column declared to have none; fill it, or declare the \
                     column nullable"
                )));
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), columns, &options)
            .map_err(|error| {
                Failure::invalid(format!(
                    "the batch from row {first_row} differs from the others: {error}"
                ))
            })
    }
}

/// Why a batch does not belong to its stream.
fn contradiction(error: AdaptError, first_row: usize) -> Failure {
    match error {
        AdaptError::Value(mut error) => {
            error.row = error.row.map(|row| row.saturating_add(first_row));
            Failure::invalid(format!("the data: {error}"))
        }
        error => Failure::invalid(format!("the data: {error}")),
    }
}

/// Takes over the rows of an object that exports them.
pub(crate) fn import(rows: &Bound<'_, PyAny>) -> PyResult<Source> {
    let py = rows.py();
    let (schema, rows) = if let Some(export) =
        rows.getattr_opt(intern!(py, "__arrow_c_stream__"))?
    {
        if rows.hasattr(intern!(py, "read_next_batch"))? {
            let own = rows
                .getattr(intern!(py, "schema"))?
                .call_method0(intern!(py, "__arrow_c_schema__"))?;
            (schema(&own)?, Rows::Reader(rows.clone().unbind()))
        } else {
            let capsule = export.call0()?;
            // SAFETY: a capsule of this name holds a stream.
            let stream = unsafe {
                FFI_ArrowArrayStream::from_raw(content(&capsule, c"arrow_array_stream")?)
            };
            let reader = py
                .detach(|| ArrayStreamReader::try_new(stream))
                .map_err(|error| failure(&error))?;
            let field = reader.field();
            let DataType::Struct(fields) = field.data_type() else {
                let found = field.data_type();
                return Err(Failure::invalid(format!(
                    "a stream of {found} has no columns: pass a table"
                ))
                .into());
            };
            (
                Schema::new_with_metadata(fields.clone(), field.metadata().clone()),
                Rows::Stream(reader),
            )
        }
    } else if rows.hasattr(intern!(py, "__arrow_c_array__"))? {
        let (schema, rows) = array(rows)?;
        (schema, Rows::One(Some(rows)))
    } else {
        let class = rows.get_type().fully_qualified_name()?;
        return Err(Failure::invalid(format!(
            "cannot take rows of a {class}: pass a table, frame, reader or record batch that exports Arrow"
        ))
        .into());
    };
    Ok(Source {
        schema: schema.into(),
        rows,
        num_pulled: 0,
        num_batches: 0,
    })
}

/// The record batch in a pair of capsules.
fn array(batch: &Bound<'_, PyAny>) -> PyResult<(Schema, ArrayRef)> {
    let pair = batch
        .call_method0(intern!(batch.py(), "__arrow_c_array__"))?
        .cast_into::<PyTuple>()?;
    let schema = schema(&pair.get_item(0)?)?;
    // SAFETY: a capsule of this name holds an array, which belongs to the schema.
    let array = unsafe {
        let array = FFI_ArrowArray::from_raw(content(&pair.get_item(1)?, c"arrow_array")?);
        from_ffi_and_data_type(array, DataType::Struct(schema.fields().clone()))
    };
    Ok((schema, make_array(array.map_err(|error| failure(&error))?)))
}

/// The schema of an `arrow_schema` capsule.
pub(crate) fn schema(capsule: &Bound<'_, PyAny>) -> PyResult<Schema> {
    // SAFETY: a capsule of this name holds a schema.
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
