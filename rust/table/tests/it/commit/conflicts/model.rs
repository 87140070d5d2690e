//! What a table holds, as plain maps, and the same read from a table.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_schema::DataType;
use pilum_table::Snapshot;

use crate::support::content;

/// Values by the name that a column was born with.
pub(super) type Row = BTreeMap<String, Option<String>>;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    /// Its name now.
    pub(super) shown: String,
    pub(super) data_type: DataType,
    pub(super) nullable: bool,
    pub(super) metadata: BTreeMap<String, String>,
}

impl Column {
    pub(super) fn new(shown: &str, data_type: DataType, nullable: bool) -> Self {
        Self {
            shown: shown.to_owned(),
            data_type,
            nullable,
            metadata: BTreeMap::new(),
        }
    }
}

/// A table. Columns go by the name that they were born with, as in files they go by their id.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Model {
    pub(super) columns: BTreeMap<String, Column>,
    pub(super) rows: BTreeMap<i64, Row>,
    pub(super) config: BTreeMap<String, String>,
    pub(super) schema_metadata: BTreeMap<String, String>,
    /// What a restore brings back.
    pub(super) before: Option<Box<Model>>,
}

impl Model {
    /// The ids of the rows that the table was created with in the same fragment.
    pub(super) fn fragment_of(id: i64) -> std::ops::Range<i64> {
        let first = id / 10 * 10;
        first..first + 10
    }

    /// Columns that the row does not name are null in it.
    pub(super) fn insert(&mut self, row: &[(&'static str, Option<String>)]) {
        let mut values: Row = self.columns.keys().map(|it| (it.clone(), None)).collect();
        for (column, value) in row {
            if let Some(place) = values.get_mut(*column) {
                place.clone_from(value);
            }
        }
        let id = values["id"].as_ref().unwrap().parse().unwrap();
        let twin = self.rows.insert(id, values);
        assert_eq!(twin, None, "row {id} comes twice");
    }

    /// Nothing if there is no such row or column.
    pub(super) fn set(&mut self, id: i64, column: &str, value: Option<String>) {
        let row = self.rows.get_mut(&id);
        if let Some(place) = row.and_then(|row| row.get_mut(column)) {
            *place = value;
        }
    }

    pub(super) fn add_column(
        &mut self,
        name: &str,
        data_type: DataType,
        value: impl Fn(&Row) -> Option<String>,
    ) {
        let column = Column::new(name, data_type, true);
        self.columns.insert(name.to_owned(), column);
        for row in self.rows.values_mut() {
            let value = value(row);
            row.insert(name.to_owned(), value);
        }
    }

    /// What a reader sees.
    pub(super) fn view(&self) -> View {
        let shown = |row: &Row| -> Row {
            let columns = self.columns.iter();
            let value =
                |(born, column): (&String, &Column)| (column.shown.clone(), row[born].clone());
            columns.map(value).collect()
        };
        View {
            columns: self
                .columns
                .values()
                .map(|it| (it.shown.clone(), it.clone()))
                .collect(),
            rows: self
                .rows
                .iter()
                .map(|(id, row)| (*id, shown(row)))
                .collect(),
            config: self.config.clone(),
            schema_metadata: self.schema_metadata.clone(),
        }
    }
}

/// What a reader sees of a version, rows by their id.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct View {
    columns: BTreeMap<String, Column>,
    rows: BTreeMap<i64, Row>,
    config: BTreeMap<String, String>,
    schema_metadata: BTreeMap<String, String>,
}

impl View {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let content = content(snapshot);
        let schema = content.schema();
        let mut columns = BTreeMap::new();
        let mut rows = vec![Row::new(); content.num_rows()];
        for (field, values) in schema.fields().iter().zip(content.columns()) {
            let column = Column {
                shown: field.name().clone(),
                data_type: field.data_type().clone(),
                nullable: field.is_nullable(),
                metadata: field.metadata().clone().into_iter().collect(),
            };
            columns.insert(field.name().clone(), column);
            let texts = arrow_cast::cast(values, &DataType::Utf8).unwrap();
            for (row, text) in rows.iter_mut().zip(texts.as_string::<i32>()) {
                row.insert(field.name().clone(), text.map(str::to_owned));
            }
        }
        let num_rows = rows.len();
        let id = |row: &Row| row["id"].as_ref().unwrap().parse::<i64>().unwrap();
        let rows: BTreeMap<i64, Row> = rows.into_iter().map(|row| (id(&row), row)).collect();
        assert_eq!(rows.len(), num_rows, "an id comes twice");
        let manifest = snapshot.manifest();
        let text = |it: &bytes::Bytes| String::from_utf8(it.to_vec()).unwrap();
        View {
            columns,
            rows,
            config: manifest.config.clone(),
            schema_metadata: manifest
                .schema_metadata
                .iter()
                .map(|(key, value)| (key.clone(), text(value)))
                .collect(),
        }
    }
}
