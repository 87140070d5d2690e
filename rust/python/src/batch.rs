//! Record batches and schemas: Python objects that export themselves as Arrow capsules.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pilum_table::SchemaAdapter;
use pilum_table::expr::{bind, filter_mask};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arguments;
use crate::errors::{Ended, Failure, guarded};
use crate::expr::Given;
use crate::ffi::{array_capsules, import, schema_capsule, stream_capsule};

/// Columns: names, types, metadata.
#[derive(Debug, PartialEq)]
#[pyclass(frozen, eq, module = "pilum._pilum")]
pub(crate) struct Schema(pub(crate) SchemaRef);

#[pymethods]
impl Schema {
    /// The names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.0
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    fn __len__(&self) -> usize {
        self.0.fields().len()
    }

    fn __repr__(&self) -> String {
        let field =
            |field: &arrow_schema::FieldRef| format!("{}: {}", field.name(), field.data_type());
        let fields: Vec<String> = self.0.fields().iter().map(field).collect();
        format!("<pilum._pilum.Schema {}>", fields.join(", "))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        guarded(|| schema_capsule(py, &self.0))
    }
}

/// Rows in memory.
#[derive(Debug)]
#[pyclass(frozen, module = "pilum._pilum")]
pub(crate) struct Batch(pub(crate) RecordBatch);

#[pymethods]
impl Batch {
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    #[getter]
    fn schema(&self) -> Schema {
        Schema(self.0.schema())
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!(
            "<pilum._pilum.Batch of {} rows and {} columns>",
            self.0.num_rows(),
            self.0.num_columns()
        )
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        guarded(|| schema_capsule(py, self.0.schema_ref()))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        guarded(|| array_capsules(py, &self.0, requested_schema))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let mut batch = Some(self.0.clone());
        guarded(|| {
            stream_capsule(
                py,
                self.0.schema_ref(),
                move || Ok(batch.take()),
                requested_schema,
            )
        })
    }
}

/// The rows of a batch in the columns of another schema. `first_row` is the number of the first row, for messages.
#[pyfunction]
#[pyo3(signature = (batch, schema, *, first_row=0, missing="null"))]
pub(crate) fn fit_batch(
    py: Python<'_>,
    batch: &Bound<'_, PyAny>,
    schema: &Bound<'_, PyAny>,
    first_row: u64,
    missing: &str,
) -> PyResult<Batch> {
    guarded(|| {
        let Some(schema) = arguments::schema(Some(schema))? else {
            return Err(Failure::invalid("fit_batch needs a schema").into());
        };
        let adapt = arguments::adapt("exact", missing, "error")?;
        let mut source = import(batch)?;
        let batch = match source.pull(py)? {
            Some(batch) => batch,
            None => RecordBatch::new_empty(SchemaRef::clone(source.schema())),
        };
        let given = batch.schema();
        let fitted = py.detach(|| {
            let adapter = SchemaAdapter::new(&given, &schema, adapt)?;
            adapter.adapt(&batch, 0, first_row)
        });
        let fitted = fitted.map_err(|error| Failure::invalid(error.to_string()))?;
        Ok::<_, Ended>(Batch(fitted))
    })
    .map_err(PyErr::from)
}

/// The number of the first row of a batch that a condition excludes, once the batch has the columns of a table.
#[pyfunction]
#[pyo3(signature = (batch, schema, condition, *, cast="exact", missing="null", extra="error", first_row=0))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn first_excluded(
    py: Python<'_>,
    batch: &Bound<'_, PyAny>,
    schema: &Bound<'_, PyAny>,
    condition: Given,
    cast: &str,
    missing: &str,
    extra: &str,
    first_row: u64,
) -> PyResult<Option<u64>> {
    guarded(|| {
        let adapt = arguments::adapt(cast, missing, extra)?;
        let condition = condition.tree()?;
        let Some(schema) = arguments::schema(Some(schema))? else {
            return Err(Failure::invalid("first_excluded needs a schema").into());
        };
        let mut source = import(batch)?;
        let batch = match source.pull(py)? {
            Some(batch) => batch,
            None => RecordBatch::new_empty(SchemaRef::clone(source.schema())),
        };
        let mask = py.detach(|| {
            let adapter = SchemaAdapter::new(&batch.schema(), &schema, adapt);
            let rows = adapter.and_then(|adapter| adapter.adapt(&batch, 0, first_row));
            let rows = rows.map_err(|error| Failure::invalid(error.to_string()))?;
            let mask = bind(&condition, &schema).and_then(|bound| filter_mask(&bound, &rows));
            mask.map_err(|error| Failure::invalid(error.to_string()))
        })?;
        let row = (0..mask.len()).find(|row| !mask.value(*row));
        Ok::<_, Ended>(row.map(|row| first_row + row as u64))
    })
    .map_err(PyErr::from)
}
