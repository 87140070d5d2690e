//! Skiff streams and YSON: formats, decoding from anything with `read`, encoding to anything with `write`.
//!
//! Bytes are decoded and encoded without the GIL; it is taken for each call of the Python object that reads or writes, which
//! moves some hundred kilobytes.

use std::io::{self, Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::Schema as ArrowSchema;
use pilum_skiff::yson::Style;
use pilum_skiff::{
    DecodeOptions, Decoder, EncodeOptions, Encoder, Error, Format, Reader, Strings, Tags,
};
use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::batch::{Batch, Schema};
use crate::errors::{Ended, Failure, guarded};
use crate::ffi::{import, import_schema};

pub(crate) fn failure(error: Error) -> Failure {
    error.into()
}

fn strings(name: &str) -> Result<Strings, Failure> {
    match name {
        "binary" => Ok(Strings::Binary),
        "text" => Ok(Strings::Text),
        _ => Err(Failure::invalid(format!(
            "strings={name:?}: \"binary\" or \"text\" is expected"
        ))),
    }
}

pub(crate) fn style(is_binary: bool) -> Style {
    if is_binary {
        Style::Binary
    } else {
        Style::Text
    }
}

/// The schemas of the tables of a stream.
#[derive(Debug, PartialEq)]
#[pyclass(frozen, eq, module = "pilum._pilum")]
pub(crate) struct SkiffFormat(Format);

#[pymethods]
impl SkiffFormat {
    #[staticmethod]
    fn from_json(text: &str, strings: &str) -> PyResult<Self> {
        let strings = self::strings(strings)?;
        guarded(|| Ok(Self(Format::from_json(text, strings).map_err(failure)?)))
    }

    #[staticmethod]
    fn from_yson(node: &[u8], strings: &str) -> PyResult<Self> {
        let strings = self::strings(strings)?;
        guarded(|| Ok(Self(Format::from_yson(node, strings).map_err(failure)?)))
    }

    #[staticmethod]
    fn from_arrow(schemas: Vec<Bound<'_, PyAny>>) -> PyResult<Self> {
        let schemas = schemas.into_iter().map(|schema| schema_of(&schema));
        let schemas: Vec<_> = schemas.collect::<PyResult<_>>()?;
        let schemas: Vec<_> = schemas.iter().collect();
        guarded(|| Ok(Self(Format::from_arrow(&schemas).map_err(failure)?)))
    }

    #[staticmethod]
    fn from_table_schema(columns: &[u8]) -> PyResult<Self> {
        guarded(|| Ok(Self(Format::from_table_schema(columns).map_err(failure)?)))
    }

    fn with_schema(&self, table: usize, schema: &Bound<'_, PyAny>) -> PyResult<Self> {
        let schema = schema_of(schema)?;
        let format = self.0.clone();
        guarded(|| Ok(Self(format.with_arrow(table, &schema).map_err(failure)?)))
    }

    fn with_schemas(&self, schemas: Vec<Bound<'_, PyAny>>, numbers: Vec<usize>) -> PyResult<Self> {
        let schemas = schemas.into_iter().map(|schema| schema_of(&schema));
        let schemas: Vec<_> = schemas.collect::<PyResult<_>>()?;
        let schemas: Vec<_> = schemas.iter().collect();
        let format = self.0.clone();
        guarded(|| {
            let changed = format.with_arrow_of_all(&schemas, numbers);
            Ok(Self(changed.map_err(failure)?))
        })
    }

    fn same_schemas(&self) -> Vec<usize> {
        self.0.same_schemas()
    }

    fn schema(&self, table: usize) -> PyResult<Schema> {
        let table = self.0.tables().get(table).ok_or_else(|| {
            let count = self.0.tables().len();
            Failure::invalid(format!("table {table}: the format has {count} tables"))
        })?;
        Ok(Schema(std::sync::Arc::clone(table.arrow())))
    }

    fn to_json(&self) -> String {
        self.0.to_json()
    }

    fn to_yson<'py>(&self, py: Python<'py>, is_binary: bool) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_yson(style(is_binary)))
    }

    fn explain(&self) -> String {
        self.0.explain()
    }

    fn annotate(&self, stream: &[u8], num_more: u64, max_rows: usize) -> PyResult<String> {
        guarded(|| Ok(self.0.annotate_start(stream, num_more, max_rows)))
    }

    fn __len__(&self) -> usize {
        self.0.tables().len()
    }
}

/// The Arrow schema of an object that exports one.
pub(crate) fn schema_of(schema: &Bound<'_, PyAny>) -> PyResult<ArrowSchema> {
    import_schema(&schema.call_method0(intern!(schema.py(), "__arrow_c_schema__"))?)
}

/// A Python object whose `read` gives bytes. What it raises is kept, because an I/O error has no room for an exception.
struct PyInput {
    read: Py<PyAny>,
    raised: std::sync::Arc<Mutex<Option<PyErr>>>,
}

impl Read for PyInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Python::attach(|py| {
            let read = self.read.bind(py).call1((buffer.len(),)).and_then(|given| {
                given.extract::<PyBackedBytes>().map_err(|_| {
                    let kind = given.get_type();
                    let reason =
                        format!("`read` returned {kind}, not bytes: open the file in binary mode");
                    Failure::invalid(reason).into()
                })
            });
            match read {
                Ok(bytes) if bytes.len() <= buffer.len() => {
                    let (to, _) = buffer.split_at_mut(bytes.len());
                    to.copy_from_slice(&bytes);
                    Ok(bytes.len())
                }
                Ok(_) => Err(io::Error::other(
                    "`read` returned more bytes than asked for",
                )),
                Err(error) => Err(keep(&self.raised, error)),
            }
        })
    }
}

/// A Python object whose `write` takes bytes, all or some of them.
struct PyOutput {
    write: Py<PyAny>,
    raised: std::sync::Arc<Mutex<Option<PyErr>>>,
}

impl Write for PyOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Python::attach(|py| {
            let written = self.write.bind(py).call1((PyBytes::new(py, bytes),));
            // Writers of a text protocol's kind return nothing; they have taken everything.
            let count = written.and_then(|count| match count.is_none() {
                true => Ok(bytes.len()),
                false => count.extract::<usize>(),
            });
            match count {
                Ok(count) if count <= bytes.len() => Ok(count),
                Ok(_) => Err(io::Error::other("`write` took more bytes than there were")),
                Err(error) => Err(keep(&self.raised, error)),
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Raised = std::sync::Arc<Mutex<Option<PyErr>>>;

fn keep(raised: &Raised, error: PyErr) -> io::Error {
    if let Ok(mut slot) = raised.lock() {
        *slot = Some(error);
    }
    io::Error::other("an exception of Python")
}

/// What Python raised when it read or wrote, or else the error.
fn ended(raised: &Raised, error: Error) -> Ended {
    let mut slot = raised.lock().ok();
    let raised = slot.as_mut().and_then(|slot| slot.take());
    match raised.filter(|_| matches!(error, Error::Io(_))) {
        Some(raised) => Ended::Raised(raised),
        None => Ended::Failed(error.into()),
    }
}

/// What Python raised and does not wait for rows, such as the exception of Ctrl-C.
fn urgent(raised: &Raised) -> Option<PyErr> {
    let mut slot = raised.lock().ok()?;
    let is_urgent =
        |raised: &mut PyErr| Python::attach(|py| !raised.is_instance_of::<PyException>(py));
    slot.take_if(is_urgent)
}

/// How a stream is decoded.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    batch_rows: usize,
    batch_bytes: usize,
    keeps_order: bool,
    cuts_at_key_switch: bool,
    has_end_of_stream: bool,
    validates_yson: bool,
    special_as_null: bool,
    rejects_duplicates: bool,
    keeps_sparse_order: bool,
    max_row_bytes: usize,
}

impl Options {
    fn resolve(self) -> Result<DecodeOptions, Failure> {
        if self.batch_rows == 0 || self.batch_bytes == 0 || self.max_row_bytes == 0 {
            return Err(Failure::invalid(
                "batch_rows, batch_bytes and max_row_bytes must be 1 or more",
            ));
        }
        let mut options = DecodeOptions::default();
        options.batch_rows = self.batch_rows;
        options.batch_bytes = self.batch_bytes;
        options.keeps_order = self.keeps_order;
        options.cuts_at_key_switch = self.cuts_at_key_switch;
        options.has_end_of_stream = self.has_end_of_stream;
        options.validates_yson = self.validates_yson;
        options.special_as_null = self.special_as_null;
        options.rejects_duplicates = self.rejects_duplicates;
        options.keeps_sparse_order = self.keeps_sparse_order;
        options.max_row_bytes = self.max_row_bytes;
        Ok(options)
    }
}

enum Input {
    Stream(Reader<PyInput>),
    Bytes {
        decoder: Decoder,
        bytes: PyBackedBytes,
        start: usize,
    },
}

impl Input {
    fn num_special_decimals(&self) -> u64 {
        match self {
            Self::Stream(reader) => reader.num_special_decimals(),
            Self::Bytes { decoder, .. } => decoder.num_special_decimals(),
        }
    }

    fn next(&mut self) -> Result<Option<(usize, RecordBatch)>, Error> {
        match self {
            Self::Stream(reader) => reader.next().transpose(),
            Self::Bytes {
                decoder,
                bytes,
                start,
            } => loop {
                if let Some(batch) = decoder.next_batch()? {
                    return Ok(Some(batch));
                }
                if decoder.is_done() && *start == bytes.len() {
                    return Ok(None);
                }
                let rest = bytes.get(*start..).unwrap_or_default();
                *start += decoder.decode(rest, true);
            },
        }
    }
}

/// A running decoder: an iterator of pairs of a table number and a batch.
#[pyclass(frozen, module = "pilum._pilum")]
pub(crate) struct SkiffBatches {
    input: Mutex<Option<Input>>,
    num_special: AtomicU64,
    raised: Raised,
}

#[pymethods]
impl SkiffBatches {
    #[new]
    fn new(source: &Bound<'_, PyAny>, format: &SkiffFormat, options: Options) -> PyResult<Self> {
        let options = options.resolve()?;
        let raised = Raised::default();
        let format = format.0.clone();
        let input = if let Ok(bytes) = source.extract::<PyBackedBytes>() {
            Input::Bytes {
                decoder: Decoder::new(format, options),
                bytes,
                start: 0,
            }
        } else {
            let read = PyInput {
                read: source.clone().unbind(),
                raised: Raised::clone(&raised),
            };
            Input::Stream(Reader::new(read, format, options))
        };
        Ok(Self {
            input: Mutex::new(Some(input)),
            num_special: AtomicU64::new(0),
            raised,
        })
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<(usize, Batch)>> {
        let next = py.detach(|| {
            guarded(|| {
                let Ok(mut slot) = self.input.try_lock() else {
                    return Err(Failure::invalid("two threads pull the same stream at once").into());
                };
                let Some(input) = slot.as_mut() else {
                    return Ok(None);
                };
                let next = input.next();
                let next = match urgent(&self.raised) {
                    Some(raised) => Err(Ended::Raised(raised)),
                    None => next.map_err(|error| ended(&self.raised, error)),
                };
                self.num_special
                    .store(input.num_special_decimals(), Ordering::Relaxed);
                if !matches!(next, Ok(Some(_))) {
                    *slot = None;
                }
                next
            })
        });
        let next: Option<(usize, RecordBatch)> = next.map_err(PyErr::from)?;
        Ok(next.map(|(table, batch)| (table, Batch(batch))))
    }

    /// Decimals that are no numbers and were given as nulls so far.
    #[getter]
    fn num_special_decimals(&self) -> u64 {
        self.num_special.load(Ordering::Relaxed)
    }
}

/// An encoder of one stream.
#[pyclass(frozen, module = "pilum._pilum")]
pub(crate) struct SkiffEncoder {
    encoder: Mutex<(Encoder, Vec<u8>)>,
}

#[pymethods]
impl SkiffEncoder {
    #[new]
    fn new(
        format: &SkiffFormat,
        tags: &str,
        has_end_of_stream: bool,
        validates_yson: bool,
    ) -> PyResult<Self> {
        let mut options = EncodeOptions::default();
        options.tags = match tags {
            "input" => Tags::Input,
            "output" => Tags::Output,
            _ => {
                let reason = format!("tags={tags:?}: \"input\" or \"output\" is expected");
                return Err(Failure::invalid(reason).into());
            }
        };
        options.has_end_of_stream = has_end_of_stream;
        options.validates_yson = validates_yson;
        Ok(Self {
            encoder: Mutex::new((Encoder::new(format.0.clone(), options), Vec::new())),
        })
    }

    /// Writes all rows of an object that exports them; `write` is called with bytes.
    fn encode(
        &self,
        py: Python<'_>,
        table: usize,
        rows: &Bound<'_, PyAny>,
        write: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mut source = import(rows)?;
        while let Some(batch) = source.pull(py)? {
            self.with_output(py, write, |encoder, buffer, output| {
                encoder.write(table, &batch, buffer, output)
            })?;
        }
        Ok(())
    }

    /// Writes what belongs to the end of the stream.
    fn finish(&self, py: Python<'_>, write: &Bound<'_, PyAny>) -> PyResult<()> {
        self.with_output(py, write, |encoder, buffer, output| {
            buffer.clear();
            encoder.finish(buffer);
            if !buffer.is_empty() {
                output.write_all(buffer)?;
            }
            Ok(())
        })
    }

    #[getter]
    fn num_rows(&self, py: Python<'_>) -> PyResult<u64> {
        let num_rows = py.detach(|| self.encoder.lock().ok().map(|slot| slot.0.num_rows()));
        Ok(num_rows.ok_or_else(|| Failure::bug("the encoder was left by a panic"))?)
    }
}

impl SkiffEncoder {
    fn with_output(
        &self,
        py: Python<'_>,
        write: &Bound<'_, PyAny>,
        work: impl FnOnce(&mut Encoder, &mut Vec<u8>, &mut PyOutput) -> Result<(), Error> + Send,
    ) -> PyResult<()> {
        let raised = Raised::default();
        let mut output = PyOutput {
            write: write.clone().unbind(),
            raised: Raised::clone(&raised),
        };
        let done = py.detach(|| {
            guarded(|| {
                let Ok(mut slot) = self.encoder.try_lock() else {
                    return Err(
                        Failure::invalid("two threads write the same stream at once").into(),
                    );
                };
                let (encoder, buffer) = &mut *slot;
                work(encoder, buffer, &mut output).map_err(|error| ended(&raised, error))
            })
        });
        done.map_err(|ended: Ended| PyErr::from(ended))
    }
}
