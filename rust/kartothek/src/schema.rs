//! Schemas of tables: the files `_common_metadata`, the types that Kartothek stores, and whether rows fit a table.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use pilum_common::type_name;
use pilum_parquet::ParquetFile;
use pilum_store::Store;

use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::names::schema_key;

/// The key of the metadata that pandas leaves in Parquet files.
pub const PANDAS: &str = "pandas";

/// The schema of a table, as its file `_common_metadata` has it.
#[derive(Debug, Clone)]
pub struct TableSchema {
    schema: SchemaRef,
    pandas: Option<String>,
    source: String,
}

impl TableSchema {
    /// Reads the schema of a table.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the file, `CommonError::Corrupt` for a file that is no such schema, [`Error::Store`].
    pub async fn read(store: &Store, uuid: &str, table: &str, limits: &Limits) -> Result<Self> {
        let key = schema_key(uuid, table);
        let file = match ParquetFile::open(store, &key, None, &limits.parquet).await {
            Ok(file) => file,
            Err(pilum_parquet::Error::Store(pilum_store::Error::NotFound { path })) => {
                return Err(Error::NotFound {
                    path,
                    reason: format!("the schema of table `{table}` is missing; restore this file"),
                });
            }
            Err(error) => return Err(error.into()),
        };
        Self::of_arrow(file.schema(), file.path())
    }

    /// A schema as a file or the caller has it. Columns that are an index of pandas are left out. `source` names it in messages.
    ///
    /// # Errors
    /// `CommonError::Corrupt` if two columns have one name, or if the metadata of pandas is not JSON.
    pub fn of_arrow(schema: &Schema, source: &str) -> Result<Self> {
        let pandas = schema.metadata().get(PANDAS).cloned();
        let parsed = parsed_pandas(pandas.as_deref(), source)?;
        let index = index_names(&parsed);
        let mut fields: Vec<FieldRef> = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            if index.contains(&field.name().as_str()) {
                continue;
            }
            if fields.iter().any(|it| it.name() == field.name()) {
                return Err(Error::corrupt(
                    source,
                    format!("two columns have the name `{}`", field.name()),
                ));
            }
            fields.push(match (field.data_type(), zone_of(&parsed, field.name())) {
                // Files of pyarrow lose the zone where the unit in memory was another one.
                (DataType::Timestamp(unit, Some(_)), Some(zone)) => {
                    let data_type = DataType::Timestamp(*unit, Some(zone.into()));
                    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
                }
                _ => Arc::clone(field),
            });
        }
        Ok(Self {
            schema: Arc::new(Schema::new(fields)),
            pandas,
            source: source.to_owned(),
        })
    }

    /// The columns with the types that are stored, without metadata.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The JSON text of pandas, if the file has one.
    #[must_use]
    pub fn pandas(&self) -> Option<&str> {
        self.pandas.as_deref()
    }

    /// What the schema is called in messages: a key, or what the caller passed.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The columns as they are read: all may have nulls, dictionaries are their values, and timestamps without zone are in
    /// `unit`, where Kartothek has nanoseconds.
    #[must_use]
    pub fn read_schema(&self, unit: TimeUnit) -> SchemaRef {
        let read = |field: &FieldRef| {
            let data_type = match field.data_type() {
                DataType::Timestamp(_, None) => DataType::Timestamp(unit, None),
                other => without_dictionary(other),
            };
            Field::new(field.name(), data_type, true)
        };
        let fields: Vec<Field> = self.schema.fields().iter().map(read).collect();
        Arc::new(Schema::new(fields))
    }
}

fn parsed_pandas(pandas: Option<&str>, source: &str) -> Result<serde_json::Value> {
    let Some(text) = pandas else {
        return Ok(serde_json::Value::Null);
    };
    serde_json::from_str(text).map_err(|error| {
        Error::corrupt(source, format!("its pandas metadata is not JSON: {error}"))
    })
}

/// The names of the columns that are an index of pandas.
fn index_names(pandas: &serde_json::Value) -> Vec<&str> {
    let names = pandas.get("index_columns").and_then(|it| it.as_array());
    names
        .into_iter()
        .flatten()
        .filter_map(|it| it.as_str())
        .collect()
}

/// The zone of a column, if pandas recorded one.
fn zone_of<'a>(pandas: &'a serde_json::Value, column: &str) -> Option<&'a str> {
    let columns = pandas.get("columns")?.as_array()?.iter();
    let mut columns =
        columns.filter(|it| it.get("name").and_then(|it| it.as_str()) == Some(column));
    columns.next()?.get("metadata")?.get("timezone")?.as_str()
}

fn without_dictionary(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => without_dictionary(values),
        other => other.clone(),
    }
}

/// The type in which Kartothek stores the schema of a column: the widest integer or float of its class, values in place of
/// dictionaries, lists whose items are called `item`, timestamps in microseconds.
#[must_use]
pub fn normalized_type(data_type: &DataType) -> DataType {
    match data_type {
        it if it.is_signed_integer() => DataType::Int64,
        it if it.is_unsigned_integer() => DataType::UInt64,
        it if it.is_floating() => DataType::Float64,
        DataType::Dictionary(_, values) => normalized_type(values),
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::List(item) | DataType::LargeList(item) => {
            let item = normalized_type(item.data_type());
            DataType::List(Arc::new(Field::new("item", item, true)))
        }
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        other => other.clone(),
    }
}

/// The columns of a table in the order and with the types of `_common_metadata`: partition keys in their order, then all others
/// by name.
///
/// # Errors
/// `CommonError::InvalidInput` for a partition key that is no column, and without a column that is none.
pub fn normalized(schema: &Schema, partition_keys: &[String]) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = Vec::with_capacity(schema.fields().len());
    let stored = |field: &Field| Field::new(field.name(), normalized_type(field.data_type()), true);
    for key in partition_keys {
        let found = schema.fields().find(key);
        let (_, field) = found.ok_or_else(|| {
            Error::invalid(
                format!("partition key `{key}`"),
                "the table has no such column",
            )
        })?;
        fields.push(stored(field));
    }
    let others: BTreeMap<&String, &FieldRef> = schema
        .fields()
        .iter()
        .filter(|it| !partition_keys.contains(it.name()))
        .map(|it| (it.name(), it))
        .collect();
    if others.is_empty() {
        return Err(Error::invalid(
            "partition_on",
            "a table needs at least one column that is no partition key",
        ));
    }
    fields.extend(others.into_values().map(|field| stored(field)));
    Ok(Arc::new(Schema::new(fields)))
}

/// Checks that all schemas are one, and completes it: a column without a value has the type null, which fits every other.
/// Order, unit of timestamps and widths of numbers do not count. The result has the order of the first schema.
///
/// # Errors
/// [`Error::Schema`] with each difference, `CommonError::InvalidInput` without schemas.
pub fn check_compatible(table: &str, schemas: &[&TableSchema]) -> Result<SchemaRef> {
    let Some((first, others)) = schemas.split_first() else {
        return Err(Error::invalid(
            format!("table `{table}`"),
            "there is no schema to compare",
        ));
    };
    let mut fields: Vec<(Field, &str)> = first
        .schema
        .fields()
        .iter()
        .map(|it| (it.as_ref().clone(), first.source.as_str()))
        .collect();
    let mut differences = Vec::new();
    for other in others {
        for (known, source) in &mut fields {
            let Some((_, found)) = other.schema.fields().find(known.name()) else {
                differences.push(format!(
                    "column `{}` is in {source} and not in {}",
                    known.name(),
                    other.source
                ));
                continue;
            };
            if *known.data_type() == DataType::Null {
                known.set_data_type(found.data_type().clone());
                *source = &other.source;
            }
            if !same_type(known.data_type(), found.data_type()) {
                differences.push(format!(
                    "column `{}` is {} in {source} and {} in {}",
                    known.name(),
                    type_name(known.data_type()),
                    type_name(found.data_type()),
                    other.source
                ));
            }
        }
        for found in other.schema.fields() {
            if !fields.iter().any(|(known, _)| known.name() == found.name()) {
                differences.push(format!(
                    "column `{}` is in {} and not in {}",
                    found.name(),
                    other.source,
                    first.source
                ));
            }
        }
    }
    match differences.is_empty() {
        true => {
            let fields: Fields = fields.into_iter().map(|(field, _)| field).collect();
            Ok(Arc::new(Schema::new(fields)))
        }
        false => Err(Error::Schema {
            table: table.to_owned(),
            differences,
        }),
    }
}

/// Checks that a column that several tables have is of one type in all of them.
///
/// # Errors
/// [`Error::Schema`] with each difference.
pub fn check_tables(schemas: &BTreeMap<String, SchemaRef>) -> Result<()> {
    let mut known: BTreeMap<&String, (&str, &DataType)> = BTreeMap::new();
    for (table, schema) in schemas {
        let mut differences = Vec::new();
        for field in schema.fields() {
            if *field.data_type() == DataType::Null {
                continue;
            }
            match known.get(field.name()) {
                Some((other, found)) if !same_type(found, field.data_type()) => {
                    differences.push(format!(
                        "column `{}` is {} in table `{other}` and {} in table `{table}`",
                        field.name(),
                        type_name(found),
                        type_name(field.data_type())
                    ));
                }
                Some(_) => {}
                None => {
                    known.insert(field.name(), (table, field.data_type()));
                }
            }
        }
        if !differences.is_empty() {
            return Err(Error::Schema {
                table: table.clone(),
                differences,
            });
        }
    }
    Ok(())
}

/// Whether two types are one after normalisation, whatever the unit of timestamps and the name of their zone. Null is every type.
pub(crate) fn same_type(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::Null, _) | (_, DataType::Null) => true,
        (DataType::Timestamp(_, a), DataType::Timestamp(_, b)) => a.is_some() == b.is_some(),
        _ => normalized_type(a) == normalized_type(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &[(&str, DataType)], source: &str) -> TableSchema {
        let field =
            |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
        let schema = Schema::new(fields.iter().map(field).collect::<Vec<_>>());
        TableSchema::of_arrow(&schema, source).unwrap()
    }

    #[test]
    fn columns_are_ordered_and_widened() {
        let strings = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let given = schema(
            &[
                ("b", DataType::Int8),
                ("a", strings),
                ("k", DataType::Date32),
            ],
            "rows",
        );
        let found = normalized(given.schema(), &["k".to_owned()]).unwrap();
        let told: Vec<String> = found
            .fields()
            .iter()
            .map(|it| format!("{} {}", it.name(), it.data_type()))
            .collect();
        assert_eq!(told, ["k Date32", "a Utf8", "b Int64"]);
        assert!(normalized(given.schema(), &["x".to_owned()]).is_err());
        let keys = ["a", "b", "k"].map(str::to_owned);
        assert!(normalized(given.schema(), &keys).is_err());
    }

    #[test]
    fn null_columns_are_completed_and_differences_named() {
        let a = schema(&[("x", DataType::Null), ("y", DataType::Int64)], "a");
        let b = schema(&[("y", DataType::Int8), ("x", DataType::Utf8)], "b");
        let all = check_compatible("t", &[&a, &b]).unwrap();
        assert_eq!(all.field(0).data_type(), &DataType::Utf8);
        let c = schema(&[("x", DataType::Int64), ("z", DataType::Int64)], "c");
        let error = check_compatible("t", &[&a, &b, &c])
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "Schema violation in table `t`: column `x` is string in b and int64 in c; \
             column `y` is in a and not in c; column `z` is in c and not in a"
        );
        let both = |b: DataType| {
            BTreeMap::from([
                ("t".to_owned(), Arc::clone(a.schema())),
                (
                    "u".to_owned(),
                    Arc::clone(schema(&[("y", b)], "u").schema()),
                ),
            ])
        };
        check_tables(&both(DataType::Int8)).unwrap();
        assert!(check_tables(&both(DataType::UInt8)).is_err());
    }

    #[test]
    fn index_columns_of_pandas_are_no_columns() {
        let pandas = r#"{"index_columns": ["ii", {"kind": "range"}], "columns": []}"#;
        let fields = vec![
            Field::new("a", DataType::Int64, false),
            Field::new("ii", DataType::Int64, true),
        ];
        let metadata = std::collections::HashMap::from([(PANDAS.to_owned(), pandas.to_owned())]);
        let with = Schema::new_with_metadata(fields, metadata);
        let read = TableSchema::of_arrow(&with, "s").unwrap();
        assert_eq!(read.schema().fields().len(), 1);
        assert!(
            read.read_schema(TimeUnit::Nanosecond)
                .field(0)
                .is_nullable()
        );
        assert_eq!((read.pandas(), read.source()), (Some(pandas), "s"));
    }
}
