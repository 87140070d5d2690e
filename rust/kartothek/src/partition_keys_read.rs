//! Reads the values of the partition keys from the paths of all partitions, typed by the schema.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema};

use crate::error::{Error, Result};
use crate::key_value::parse_keys;
use crate::names::{KeyParts, StrayComponents};
use crate::open::Dataset;
use crate::partition_keys::KeyColumns;

impl Dataset {
    /// The values of the partition keys of all partitions. They come from the paths; no file is read.
    ///
    /// # Errors
    /// `CommonError::Corrupt` for a path without one of the keys, or with a text that is no value of its type.
    pub fn keys(&self) -> Result<Arc<KeyColumns>> {
        if let Some(made) = self.keys.get() {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(self.read_keys()?);
        // Another thread may have made the same columns meanwhile.
        Ok(Arc::clone(self.keys.get_or_init(|| made)))
    }

    fn read_keys(&self) -> Result<KeyColumns> {
        let names = self.partition_keys();
        let schema = match self.tables().first() {
            Some(table) => Arc::clone(self.schema(table)?),
            None => Arc::new(Schema::empty()),
        };
        let types: Vec<DataType> = names
            .iter()
            .map(|name| {
                let found = schema.fields().find(name);
                found.map_or(DataType::Utf8, |(_, field)| field.data_type().clone())
            })
            .collect();
        let mut values: Vec<Vec<(Vec<u8>, &str)>> = vec![Vec::new(); names.len()];
        let mut stray = None;
        if !names.is_empty() {
            for place in 0..self.labels().len() {
                let key = self.files(place).and_then(|it| it.values().next());
                let key = key.map_or("", String::as_str);
                let parts = KeyParts::of(key)?;
                for ((name, data_type), values) in names.iter().zip(&types).zip(&mut values) {
                    let found = parts.keys.iter().position(|(column, _)| column == name);
                    let is_text = matches!(data_type, DataType::Utf8 | DataType::Binary);
                    let mode = match is_text {
                        true => self.options.stray,
                        false => StrayComponents::Ignore,
                    };
                    let value = found.and_then(|it| parts.value(it, mode));
                    let value = value.ok_or_else(|| {
                        Error::corrupt(
                            self.path(),
                            format!("the path {key:?} has no value of partition key `{name}`"),
                        )
                    })?;
                    values.push((value, key));
                    if is_text && stray.is_none() && parts.has_stray() {
                        stray = self.labels().get(place).map(|it| it.to_string());
                    }
                }
            }
        }
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(names.len());
        let mut fields = Vec::with_capacity(names.len());
        for ((name, data_type), values) in names.iter().zip(&types).zip(&values) {
            columns.push(parse_keys(name, data_type, values)?);
            fields.push(Field::new(name, data_type.clone(), true));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.labels().len()));
        let rows =
            RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options);
        Ok(KeyColumns {
            rows: rows
                .map_err(|error| Error::bug(format!("{}: partition keys: {error}", self.path())))?,
            stray,
        })
    }
}
