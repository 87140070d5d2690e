//! The file `_common_metadata`: the schema of a table as a Parquet file without rows, with the metadata that pandas expects.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::schema::{PANDAS, TableSchema};

/// The bytes of the schema file of a table; the schema is in the normalised form.
///
/// # Errors
/// `CommonError::Bug` only: types were checked before.
pub(crate) fn schema_bytes(schema: &SchemaRef) -> Result<Vec<u8>> {
    let failed =
        |error: parquet::errors::ParquetError| Error::bug(format!("the schema file: {error}"));
    let schema = with_pandas(schema);
    let pandas = schema.metadata().get(PANDAS).cloned();
    let pandas = KeyValue::new(PANDAS.to_owned(), pandas);
    let properties = WriterProperties::builder()
        .set_created_by(format!("pilum version {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![pandas]))
        .build();
    let writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties));
    writer.map_err(failed)?.into_inner().map_err(failed)
}

/// A schema with the metadata of pandas. Arrow 6 takes the metadata of a file from the schema of Arrow in it, where that is there,
/// so that it has to be in both.
pub(crate) fn with_pandas(schema: &Schema) -> SchemaRef {
    let metadata = HashMap::from([(PANDAS.to_owned(), pandas_text(schema))]);
    Arc::new(schema.clone().with_metadata(metadata))
}

/// What a schema file tells; `source` names it in messages.
///
/// # Errors
/// `CommonError::Corrupt` for bytes that are no such file.
pub(crate) fn schema_of_bytes(bytes: &Bytes, source: &str) -> Result<TableSchema> {
    let read = ArrowReaderMetadata::load(bytes, ArrowReaderOptions::new());
    let read = read.map_err(|error| Error::corrupt(source, error.to_string()))?;
    TableSchema::of_arrow(read.schema(), source)
}

/// The metadata that pandas leaves in a Parquet file with such columns. Kartothek refuses to append to a table without it.
pub(crate) fn pandas_text(schema: &Schema) -> String {
    let columns: Vec<Value> = schema
        .fields()
        .iter()
        .map(|field| {
            let (pandas_type, numpy_type, metadata) = pandas_type(field.data_type());
            json!({
                "name": field.name(),
                "field_name": field.name(),
                "pandas_type": pandas_type,
                "numpy_type": numpy_type,
                "metadata": metadata,
            })
        })
        .collect();
    json!({
        "columns": columns,
        "index_columns": [],
        "column_indexes": [{
            "name": null,
            "field_name": null,
            "pandas_type": "unicode",
            "numpy_type": "object",
            "metadata": {"encoding": "UTF-8"},
        }],
        "creator": {"library": "pilum", "version": env!("CARGO_PKG_VERSION")},
        "pandas_version": "1.3.5",
    })
    .to_string()
}

/// `pandas_type`, `numpy_type` and `metadata` of a column.
fn pandas_type(data_type: &DataType) -> (String, &'static str, Value) {
    let plain = |name: &'static str| (name.to_owned(), name, Value::Null);
    let object = |name: &str| (name.to_owned(), "object", Value::Null);
    match data_type {
        DataType::Boolean => plain("bool"),
        DataType::Int8 => plain("int8"),
        DataType::Int16 => plain("int16"),
        DataType::Int32 => plain("int32"),
        DataType::Int64 => plain("int64"),
        DataType::UInt8 => plain("uint8"),
        DataType::UInt16 => plain("uint16"),
        DataType::UInt32 => plain("uint32"),
        DataType::UInt64 => plain("uint64"),
        DataType::Float32 => plain("float32"),
        DataType::Float64 => plain("float64"),
        DataType::Utf8 => object("unicode"),
        DataType::Binary => object("bytes"),
        DataType::Date32 => object("date"),
        DataType::Time64(_) => object("time"),
        DataType::Null => object("empty"),
        DataType::Timestamp(_, None) => ("datetime".to_owned(), "datetime64[ns]", Value::Null),
        DataType::Timestamp(_, Some(zone)) => (
            "datetimetz".to_owned(),
            "datetime64[ns]",
            json!({"timezone": zone.as_ref()}),
        ),
        DataType::Decimal128(precision, scale) => (
            "decimal".to_owned(),
            "object",
            json!({"precision": precision, "scale": scale}),
        ),
        DataType::List(item) => {
            let (inner, _, _) = pandas_type(item.data_type());
            (format!("list[{inner}]"), "object", Value::Null)
        }
        _ => object("object"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use arrow_schema::{Field, TimeUnit};

    #[test]
    fn a_schema_file_reads_back_and_tells_pandas_the_types() {
        let list = DataType::List(Arc::new(Field::new("item", DataType::Float64, true)));
        let schema = Arc::new(Schema::new(vec![
            Field::new("k", DataType::Date32, true),
            Field::new("a", list, true),
            Field::new(
                "t",
                DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into())),
                true,
            ),
            Field::new("z", DataType::Null, true),
        ]));
        let bytes = Bytes::from(schema_bytes(&schema).unwrap());
        let read = schema_of_bytes(&bytes, "s").unwrap();
        assert_eq!(read.schema().fields(), schema.fields());
        assert!(read.pandas().is_some());
        let text = pandas_text(&schema);
        for part in [
            r#""pandas_type":"list[float64]""#,
            r#""metadata":{"timezone":"Europe/Berlin"}"#,
            r#""pandas_type":"empty""#,
            r#""index_columns":[]"#,
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        for cut in 0..bytes.len() {
            assert!(schema_of_bytes(&bytes.slice(..cut), "s").is_err());
        }
    }
}
