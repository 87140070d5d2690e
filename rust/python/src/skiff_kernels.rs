//! Kernels over arrays of YSON nodes, and keys of `$other_columns` as columns.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use pilum_skiff::yson::{self, JsonOptions, Limits};
use pilum_skiff::{Conflicts, Error, promote_other_columns};
use pyo3::prelude::*;

use crate::batch::Batch;
use crate::errors::{Failure, guarded};
use crate::ffi::import;
use crate::skiff::{failure, schema_of, style};

/// What a kernel is given beside the values.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    path: String,
    is_binary: bool,
    max_depth: usize,
    max_bytes: usize,
}

fn only_batch(py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let batch = import(rows)?.pull(py)?;
    Ok(batch.ok_or_else(|| Failure::invalid("a batch is expected"))?)
}

/// Applies a YSON kernel to the only column of a batch.
///
/// `kernel` is `to_json`, `to_json_exact`, `from_json`, `get` with a path, or `canonical`.
#[pyfunction]
pub(crate) fn yson_kernel(
    py: Python<'_>,
    kernel: &str,
    column: &Bound<'_, PyAny>,
    options: Options,
) -> PyResult<Batch> {
    let batch = only_batch(py, column)?;
    let [values] = batch.columns() else {
        return Err(Failure::invalid("a batch of one column is expected").into());
    };
    let Options {
        path,
        is_binary,
        max_depth,
        max_bytes,
    } = options;
    let limits = Limits::default()
        .with_max_depth(max_depth)
        .with_max_bytes(max_bytes);
    let style = style(is_binary);
    let made = py.detach(|| {
        guarded(|| {
            let values = values.as_ref();
            let made: Result<ArrayRef, Error> = match kernel {
                "to_json" => {
                    yson::yson_to_json_array(values, JsonOptions::default(), limits).map(wrap)
                }
                "to_json_exact" => {
                    yson::yson_to_json_array(values, JsonOptions::exact(), limits).map(wrap)
                }
                "from_json" => yson::json_to_yson_array(values, style, limits).map(wrap),
                "get" => yson::yson_get_array(values, &path, limits).map(wrap),
                "canonical" => yson::canonical_array(values, style, limits).map(wrap),
                _ => return Err(Failure::bug(format!("no kernel {kernel}"))),
            };
            made.map_err(failure)
        })
    })?;
    let field = Field::new("value", made.data_type().clone(), true);
    let batch = RecordBatch::try_new(Schema::new(vec![field]).into(), vec![made]);
    Ok(Batch(
        batch.map_err(|error| Failure::bug(error.to_string()))?,
    ))
}

fn wrap(array: impl Array + 'static) -> ArrayRef {
    Arc::new(array)
}

/// Makes columns of keys of `$other_columns`. `keeps` leaves values of another type in their map.
#[pyfunction]
pub(crate) fn skiff_promote(
    py: Python<'_>,
    batch: &Bound<'_, PyAny>,
    schema: &Bound<'_, PyAny>,
    keeps: bool,
) -> PyResult<Batch> {
    let wanted = schema_of(schema)?;
    let batch = only_batch(py, batch)?;
    let conflicts = if keeps {
        Conflicts::Keep
    } else {
        Conflicts::Error
    };
    py.detach(|| {
        guarded(|| {
            let made = promote_other_columns(&batch, &wanted, conflicts, Limits::default());
            made.map(Batch).map_err(failure)
        })
    })
    .map_err(PyErr::from)
}
