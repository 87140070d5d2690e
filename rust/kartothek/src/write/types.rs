//! The types of data files that Kartothek 5.3.0 reads, and the conversion of rows to them.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use pilum_common::type_name;
use pilum_expr::{AdaptError, AdaptOptions, SchemaAdapter};

use crate::error::{Error, Result};

/// The schema in which rows are stored: plain strings and bytes, timestamps in microseconds, lists whose items are called
/// `item`, and every field optional, because Kartothek refuses to append to a table with required fields.
///
/// # Errors
/// `CommonError::Unsupported` with each column of a type that Kartothek cannot read, `CommonError::InvalidInput` for two columns of one
/// name.
pub(crate) fn stored_schema(schema: &Schema) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        if fields.iter().any(|it| it.name() == field.name()) {
            return Err(Error::invalid(
                format!("column `{}`", field.name()),
                "two columns have this name; rename one of them",
            ));
        }
        fields.push(stored_field(field, field.name())?);
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn stored_field(field: &FieldRef, column: &str) -> Result<Field> {
    let data_type = stored_type(field.data_type(), column)?;
    Ok(Field::new(field.name(), data_type, true))
}

fn stored_type(data_type: &DataType, column: &str) -> Result<DataType> {
    let list = |item: &FieldRef| -> Result<DataType> {
        let item = stored_type(item.data_type(), column)?;
        Ok(DataType::List(Arc::new(Field::new("item", item, true))))
    };
    Ok(match data_type {
        DataType::Null
        | DataType::Boolean
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32 => data_type.clone(),
        it if it.is_integer() => it.clone(),
        DataType::Float16 => DataType::Float32,
        DataType::Date64 => DataType::Date32,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::Dictionary(_, values) => stored_type(values, column)?,
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale)
            if *precision <= 38 && *scale >= 0 =>
        {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => list(item)?,
        DataType::Struct(members) => {
            let members: Result<Vec<Field>> =
                members.iter().map(|it| stored_field(it, column)).collect();
            DataType::Struct(members?.into())
        }
        other => {
            return Err(Error::unsupported(
                format!("column `{column}`"),
                format!("the type {}", type_name(other)),
                "Kartothek 5.3.0 cannot read it; convert the column before it is written",
            ));
        }
    })
}

/// Converts rows to the types in which they are stored, each value exactly or not at all.
#[derive(Debug)]
pub(crate) struct StorageAdapter {
    schema: SchemaRef,
    adapter: Option<SchemaAdapter>,
}

impl StorageAdapter {
    /// Plans the conversion of rows of a schema.
    ///
    /// # Errors
    /// As [`stored_schema`].
    pub(crate) fn of(incoming: &SchemaRef) -> Result<Self> {
        let schema = stored_schema(incoming)?;
        let is_same =
            |(a, b): (&FieldRef, &FieldRef)| a.data_type() == b.data_type() && a.name() == b.name();
        let same = incoming.fields().iter().zip(schema.fields()).all(is_same);
        let adapter = match same {
            true => None,
            false => Some(
                SchemaAdapter::new(incoming, &schema, AdaptOptions::default())
                    .map_err(|error| refused(&error))?,
            ),
        };
        Ok(Self { schema, adapter })
    }

    /// The schema of the converted rows.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Converts a batch; `first_row` counts the rows before it, for messages.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` with the column and the row of a value that has no place, such as a timestamp finer than
    /// microseconds.
    pub(crate) fn convert(&self, batch: &RecordBatch, first_row: u64) -> Result<RecordBatch> {
        match &self.adapter {
            Some(adapter) => adapter
                .adapt(batch, 0, first_row)
                .map_err(|error| refused(&error)),
            None => RecordBatch::try_new_with_options(
                Arc::clone(&self.schema),
                batch.columns().to_vec(),
                &arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
            )
            .map_err(|error| Error::invalid("the rows", error.to_string())),
        }
    }
}

fn refused(error: &AdaptError) -> Error {
    Error::invalid("the rows", error.to_string())
}
