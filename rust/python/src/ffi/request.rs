//! The schema that a consumer of Arrow data requests.

use arrow_array::RecordBatch;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;

use super::import;
use crate::errors::Failure;

/// The columns of the result: ours, in the requested memory layout if that is another layout of the same values.
///
/// Other requests are ignored, as the interface allows: the consumer decides about casts that change values.
#[derive(Debug)]
pub(crate) struct Request {
    schema: SchemaRef,
    casts: bool,
}

impl Request {
    /// Reads the argument `requested_schema`.
    pub(crate) fn of(requested: Option<&Bound<'_, PyAny>>, ours: &SchemaRef) -> PyResult<Self> {
        let Some(requested) = requested else {
            return Ok(Self {
                schema: SchemaRef::clone(ours),
                casts: false,
            });
        };
        let requested = import::schema(requested)?;
        let names = |schema: &Schema| -> Vec<String> {
            schema
                .fields()
                .iter()
                .map(|field| field.name().clone())
                .collect()
        };
        if names(&requested) != names(ours) {
            return Err(Failure::invalid(format!(
                "the columns are {:?}, and others were asked for: {:?}; select and rename them first",
                names(ours),
                names(&requested)
            ))
            .into());
        }
        let fields: Vec<Field> = ours
            .fields()
            .iter()
            .zip(requested.fields())
            .map(
                |(ours, wish)| match same_values(ours.data_type(), wish.data_type()) {
                    true => ours
                        .as_ref()
                        .clone()
                        .with_data_type(wish.data_type().clone()),
                    false => ours.as_ref().clone(),
                },
            )
            .collect();
        let schema = SchemaRef::new(Schema::new_with_metadata(fields, ours.metadata().clone()));
        Ok(Self {
            casts: schema != *ours,
            schema,
        })
    }

    /// The columns that [`apply`](Self::apply) returns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A batch in the requested layout.
    pub(crate) fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, Failure> {
        if !self.casts {
            return Ok(batch.clone());
        }
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        let columns = batch
            .columns()
            .iter()
            .zip(self.schema.fields())
            .map(|(column, field)| {
                cast_with_options(column, field.data_type(), &options).map_err(|error| {
                    let (name, wish) = (field.name(), field.data_type());
                    Failure::invalid(format!(
                        "column `{name}` cannot be handed out as {wish}: {error}"
                    ))
                })
            });
        let columns = columns.collect::<Result<_, _>>()?;
        RecordBatch::try_new(SchemaRef::clone(&self.schema), columns)
            .map_err(|error| Failure::bug(format!("a cast changed the rows: {error}")))
    }
}

/// True for types that differ in layout alone.
fn same_values(ours: &DataType, wish: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Dictionary, LargeBinary, LargeList, LargeUtf8, List, Utf8, Utf8View,
    };
    match (ours, wish) {
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View)
        | (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => true,
        (List(ours) | LargeList(ours), List(wish) | LargeList(wish)) => {
            same_values(ours.data_type(), wish.data_type())
        }
        (Dictionary(_, values), wish) if !matches!(wish, Dictionary(..)) => {
            same_values(values, wish)
        }
        _ => ours == wish,
    }
}
