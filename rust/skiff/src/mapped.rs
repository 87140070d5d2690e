//! Tables whose rows are decoded to Arrow types that a caller chose: the mapping is checked before it is used.

use std::sync::Arc;

use arrow_schema::Schema;

use crate::decode::check_mapping;
use crate::error::{Error, Result};
use crate::schema::{Format, Strings, TableSchema, columns_of_table, decodable, root_of_arrow};
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
        let node = match std::str::from_utf8(text).map(json_node) {
            Ok(Ok(node)) => node,
            _ => parse(text, Limits::default())?,
        };
        let (root, fields) = columns_of_table(&node)?;
        let table = TableSchema::try_new(Arc::new(root), Strings::Binary)?;
        Ok(Self::new(vec![table.with_arrow(&Schema::new(fields))?]))
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
