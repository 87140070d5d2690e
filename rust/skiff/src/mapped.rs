//! Tables whose rows are decoded to Arrow types that a caller chose: the mapping is checked before it is used.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow_schema::Schema;

use crate::decode::check_mapping;
use crate::error::{Error, Result};
use crate::schema::{
    Format, Strings, TableSchema, WireNode, columns_of_table, decodable, root_of_arrow,
};
use crate::yson::{Limits, json_node, parse};

impl TableSchema {
    /// The same table, decoded to other Arrow types. Fields are matched by name; columns that `wanted` does not name keep
    /// their types. Control columns keep theirs always.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] with the column whose wire type does not map to the type wanted, or that the table does not have.
    pub fn with_arrow(&self, wanted: &Schema) -> Result<Self> {
        let changed = self.replace_fields(wanted)?;
        check_mapping(&changed)?;
        Ok(changed)
    }
}

impl Format {
    /// One table per Arrow schema; the table decodes to this schema, with plain layouts for dictionaries, views and lists of a
    /// fixed size.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] with the column that Skiff cannot carry.
    pub fn from_arrow(schemas: &[&Schema]) -> Result<Self> {
        let table = |schema: &&Schema| {
            let root = Arc::new(root_of_arrow(schema)?);
            let fields = schema.fields().iter().map(|field| decodable(field));
            let wanted = Schema::new(fields.collect::<Vec<_>>());
            TableSchema::try_new(root, Strings::Binary)?.with_arrow(&wanted)
        };
        Ok(Self::new(schemas.iter().map(table).collect::<Result<_>>()?))
    }

    /// One table for the schema of a YTsaurus table: a list of columns with `name`, `type` and `required`, or `type_v3`, and the
    /// attribute `strict`. JSON and YSON are both read.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] with the column that does not map.
    pub fn from_table_schema(text: &[u8]) -> Result<Self> {
        // JSON begins with the same brackets: what is no JSON is read as YSON, and the error is that of the likelier one.
        let limits = Limits::default();
        let node = match std::str::from_utf8(text).map(|text| json_node(text, limits)) {
            Ok(Ok(node)) => node,
            Ok(Err(error)) => parse(text, limits).map_err(|other| match looks_like_json(text) {
                true => error,
                false => other,
            })?,
            Err(_) => parse(text, limits)?,
        };
        let (root, fields) = columns_of_table(&node)?;
        let table = TableSchema::try_new(Arc::new(root), Strings::Binary)?;
        Ok(Self::new(vec![table.with_arrow(&Schema::new(fields))?]))
    }

    /// Replaces the Arrow types of all tables: table `n` is decoded to `schemas[numbers[n]]`. Tables that share both schemas
    /// share the result.
    ///
    /// # Errors
    ///
    /// As [`TableSchema::with_arrow`]; [`Error::Schema`] when there is not one number of a schema per table.
    pub fn with_arrow_of_all(self, schemas: &[&Schema], numbers: Vec<usize>) -> Result<Self> {
        let wrong = |reason: String| Error::schema("the Arrow schemas", reason);
        if numbers.len() != self.tables().len() {
            let (found, count) = (numbers.len(), self.tables().len());
            return Err(wrong(format!(
                "{found} numbers of schemas for {count} tables"
            )));
        }
        let mut made: HashMap<(*const WireNode, usize), TableSchema> = HashMap::new();
        let mut tables = Vec::with_capacity(numbers.len());
        for (table, number) in self.tables().iter().zip(numbers) {
            let Some(schema) = schemas.get(number) else {
                return Err(wrong(format!("schema {number} of {}", schemas.len())));
            };
            let changed = match made.entry((Arc::as_ptr(table.root()), number)) {
                Entry::Occupied(entry) => entry.get().clone(),
                Entry::Vacant(entry) => entry.insert(table.with_arrow(schema)?).clone(),
            };
            tables.push(changed);
        }
        Ok(Self::new(tables))
    }

    /// For every table the number of the first table whose Arrow schema is the same in memory.
    #[must_use]
    pub fn same_schemas(&self) -> Vec<usize> {
        let mut firsts: HashMap<*const Schema, usize> = HashMap::new();
        let tables = self.tables().iter().enumerate();
        let first = tables
            .map(|(number, table)| *firsts.entry(Arc::as_ptr(table.arrow())).or_insert(number));
        first.collect()
    }

    /// Replaces the Arrow types of a table; see [`TableSchema::with_arrow`].
    ///
    /// # Errors
    ///
    /// As [`TableSchema::with_arrow`].
    pub fn with_arrow(mut self, table: usize, wanted: &Schema) -> Result<Self> {
        let number = self.tables().len();
        let Some(schema) = self.tables().get(table) else {
            return Err(Error::schema(
                format!("table {table}"),
                format!("the format has {number} tables"),
            ));
        };
        let changed = schema.with_arrow(wanted)?;
        self.replace_table(table, changed);
        Ok(self)
    }
}

/// True for a text whose first bracket is followed by what begins a value of JSON, and not one of YSON.
fn looks_like_json(text: &[u8]) -> bool {
    let tokens: Vec<u8> = text
        .iter()
        .copied()
        .filter(|byte| !byte.is_ascii_whitespace())
        .take(3)
        .collect();
    matches!(tokens.as_slice(), [b'[', b'{', b'"'] | [b'{', b'"', ..])
}
