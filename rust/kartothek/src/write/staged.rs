//! Partitions whose files are written and that no metadata document names yet. They travel as text between processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Float64Type, Int64Type, TimestampMicrosecondType, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Float64Array, Int64Array, StringArray,
    TimestampMicrosecondArray, UInt64Array,
};
use arrow_schema::{DataType, SchemaRef, TimeUnit};
use pilum_common::type_name;
use serde::{Deserialize, Serialize};

use super::schema_file::{schema_bytes, schema_of_bytes};
use crate::error::{Error, Result};
use crate::names::shortened;

/// A partition that is written and not committed.
#[derive(Debug, Clone)]
pub struct StagedPartition {
    /// The label; empty if there are no files, because there were no rows to divide: then only the schemas count.
    pub label: String,
    /// Keys of data files by table.
    pub files: BTreeMap<String, String>,
    /// The schema of the rows of each table, with the partition keys, in the normalised form.
    pub schemas: BTreeMap<String, SchemaRef>,
    /// Distinct values of the indexed columns; none for a column without a value, whose type is unknown.
    pub(crate) indices: BTreeMap<String, Option<ArrayRef>>,
    /// The columns by which the rows were divided.
    pub partition_keys: Vec<String>,
    /// The marker that tells garbage collection of this write.
    pub(crate) marker: String,
    /// Rows of all tables.
    pub num_rows: u64,
    /// Bytes of the files.
    pub num_bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct Message {
    label: String,
    files: BTreeMap<String, String>,
    schemas: BTreeMap<String, String>,
    indices: BTreeMap<String, Option<Values>>,
    partition_keys: Vec<String>,
    marker: String,
    num_rows: u64,
    num_bytes: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Values {
    Int(Vec<i64>),
    Uint(Vec<u64>),
    /// By their bits.
    Float(Vec<u64>),
    Bool(Vec<bool>),
    Text(Vec<String>),
    /// In hexadecimal digits.
    Bytes(Vec<String>),
    Date(Vec<i32>),
    /// Microseconds, and the zone.
    Time(Vec<i64>, Option<String>),
}

impl StagedPartition {
    /// The partition as text.
    ///
    /// # Errors
    /// `CommonError::Bug` only.
    pub fn to_text(&self) -> Result<String> {
        let mut schemas = BTreeMap::new();
        for (table, schema) in &self.schemas {
            schemas.insert(table.clone(), hex(&schema_bytes(schema)?));
        }
        let mut indices = BTreeMap::new();
        for (column, values) in &self.indices {
            let values = values
                .as_ref()
                .map(|it| to_values(column, it))
                .transpose()?;
            indices.insert(column.clone(), values);
        }
        let message = Message {
            label: self.label.clone(),
            files: self.files.clone(),
            schemas,
            indices,
            partition_keys: self.partition_keys.clone(),
            marker: self.marker.clone(),
            num_rows: self.num_rows,
            num_bytes: self.num_bytes,
        };
        serde_json::to_string(&message).map_err(|error| Error::bug(error.to_string()))
    }

    /// The partition that a text describes.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` for a text that [`to_text`](Self::to_text) did not make.
    pub fn from_text(text: &str) -> Result<Self> {
        let wrong = |reason: String| {
            Error::invalid(
                format!("staged partition {:?}", shortened(text)),
                format!("{reason}; pass what the write of the partition returned"),
            )
        };
        let message: Message =
            serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let mut schemas = BTreeMap::new();
        for (table, digits) in &message.schemas {
            let bytes = unhex(digits).ok_or_else(|| wrong("the schema is damaged".to_owned()))?;
            let read = schema_of_bytes(&bytes.into(), "a staged partition")?;
            schemas.insert(table.clone(), Arc::clone(read.schema()));
        }
        let mut indices = BTreeMap::new();
        for (column, values) in message.indices {
            let damaged = || wrong(format!("the values of `{column}` are damaged"));
            let values = match values {
                Some(values) => Some(from_values(values).ok_or_else(damaged)?),
                None => None,
            };
            indices.insert(column, values);
        }
        Ok(Self {
            label: message.label,
            files: message.files,
            schemas,
            indices,
            partition_keys: message.partition_keys,
            marker: message.marker,
            num_rows: message.num_rows,
            num_bytes: message.num_bytes,
        })
    }
}

fn to_values(column: &str, array: &ArrayRef) -> Result<Values> {
    Ok(match array.data_type() {
        DataType::Int64 => Values::Int(array.as_primitive::<Int64Type>().values().to_vec()),
        DataType::UInt64 => Values::Uint(array.as_primitive::<UInt64Type>().values().to_vec()),
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>().values();
            Values::Float(values.iter().map(|it| it.to_bits()).collect())
        }
        DataType::Boolean => Values::Bool(array.as_boolean().values().iter().collect()),
        DataType::Utf8 => {
            let values = array.as_string::<i32>();
            Values::Text(values.iter().flatten().map(str::to_owned).collect())
        }
        DataType::Binary => {
            let values = array.as_binary::<i32>();
            Values::Bytes(values.iter().flatten().map(hex).collect())
        }
        DataType::Date32 => Values::Date(array.as_primitive::<Date32Type>().values().to_vec()),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => Values::Time(
            array
                .as_primitive::<TimestampMicrosecondType>()
                .values()
                .to_vec(),
            zone.as_ref().map(ToString::to_string),
        ),
        other => {
            return Err(Error::unsupported(
                format!("index on `{column}`"),
                format!("the type {}", type_name(other)),
                "use a column of numbers, booleans, texts, bytes, dates or timestamps",
            ));
        }
    })
}

fn from_values(values: Values) -> Option<ArrayRef> {
    Some(match values {
        Values::Int(values) => Arc::new(Int64Array::from(values)),
        Values::Uint(values) => Arc::new(UInt64Array::from(values)),
        Values::Float(values) => Arc::new(Float64Array::from_iter_values(
            values.into_iter().map(f64::from_bits),
        )),
        Values::Bool(values) => Arc::new(BooleanArray::from(values)),
        Values::Text(values) => Arc::new(StringArray::from(values)),
        Values::Bytes(values) => {
            let values: Option<Vec<Vec<u8>>> = values.iter().map(|it| unhex(it)).collect();
            Arc::new(BinaryArray::from_iter_values(values?))
        }
        Values::Date(values) => Arc::new(Date32Array::from(values)),
        Values::Time(values, zone) => {
            Arc::new(TimestampMicrosecondArray::from(values).with_timezone_opt(zone))
        }
    })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |four: u8| char::from(DIGITS[usize::from(four & 15)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|it| u8::try_from(it).ok())
    };
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use arrow_schema::{Field, Schema};

    #[test]
    fn a_staged_partition_survives_as_text() {
        let schema = Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new(
                "t",
                DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into())),
                true,
            ),
        ]);
        let values: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX]))),
            ("b", Arc::new(UInt64Array::from(vec![u64::MAX]))),
            ("c", Arc::new(Float64Array::from(vec![0.1, f64::INFINITY]))),
            ("d", Arc::new(BooleanArray::from(vec![true]))),
            ("e", Arc::new(StringArray::from(vec!["", "ä\""]))),
            ("f", Arc::new(BinaryArray::from_iter_values([[0_u8, 255]]))),
            ("g", Arc::new(Date32Array::from(vec![-1]))),
            (
                "h",
                Arc::new(TimestampMicrosecondArray::from(vec![5]).with_timezone("UTC")),
            ),
        ];
        let mut indices: BTreeMap<String, Option<ArrayRef>> = values
            .into_iter()
            .map(|(name, values)| (name.to_owned(), Some(values)))
            .collect();
        indices.insert("n".to_owned(), None);
        let staged = StagedPartition {
            label: "p=1/x".to_owned(),
            files: BTreeMap::from([("table".to_owned(), "d/table/p=1/x.parquet".to_owned())]),
            schemas: BTreeMap::from([("table".to_owned(), Arc::new(schema))]),
            indices,
            partition_keys: vec!["p".to_owned()],
            marker: "m".to_owned(),
            num_rows: 2,
            num_bytes: 9,
        };
        let again = StagedPartition::from_text(&staged.to_text().unwrap()).unwrap();
        assert_eq!(again.indices, staged.indices);
        assert_eq!(
            again.schemas["table"].fields(),
            staged.schemas["table"].fields()
        );
        assert_eq!((again.label, again.files), (staged.label, staged.files));
        for bad in ["", "{}", "[1]"] {
            assert!(StagedPartition::from_text(bad).is_err());
        }
    }
}
