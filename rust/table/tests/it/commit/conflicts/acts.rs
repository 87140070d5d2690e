//! What the two sides do, each as a statement on a table and on the model.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field};
use pilum_format::IndexMetadata;
use pilum_table::{
    AdaptOptions, ColumnChange, CommitOptions, CompactOptions, ConfigUpdate, Dataset, Error,
    MapUpdate, MergeOptions, Operation, StatementOptions, Store, VersionRef, WhenMatched,
    WhenNotMatched, WriteMode, WriteOptions, field_id, parse_sql, write,
};

use super::model::{Column, Model};
use super::{OLD_VERSION, prepare};
use crate::support::{batch, block_on, content, memory, open, reader, runtime};

/// Who acts, on what. Two sides never bring the same names and ids, unless they are told to touch the same.
#[derive(Debug, Clone)]
pub(super) struct Side {
    pub(super) name: &'static str,
    /// The row to change, by its column `id`.
    pub(super) target: i64,
    /// The column to change, and to compute new ones from.
    pub(super) column: &'static str,
    /// The key to set.
    pub(super) key: &'static str,
    /// The first id of rows that come.
    pub(super) first: i64,
    pub(super) stable_row_ids: bool,
}

/// One operation.
pub(super) struct Act {
    pub(super) name: &'static str,
    pub(super) run: fn(&Store, &Side) -> Result<(), Error>,
    pub(super) model: fn(&mut Model, &Side),
    /// Versions, and transactions, that one execution makes.
    pub(super) commits: usize,
}

const fn act(
    name: &'static str,
    run: fn(&Store, &Side) -> Result<(), Error>,
    model: fn(&mut Model, &Side),
) -> Act {
    Act {
        name,
        run,
        model,
        commits: 1,
    }
}

pub(super) static ACTS: [Act; 19] = [
    act("append", append, |model, side| {
        for id in side.first..side.first + 3 {
            model.insert(&given(id, side.name));
        }
    }),
    act("overwrite", overwrite, |model, side| {
        model.columns = Model::first_columns();
        model.rows.clear();
        model.schema_metadata.clear();
        for id in side.first + 10..side.first + 14 {
            model.insert(&given(id, side.name));
        }
    }),
    act("delete", delete, |model, side| {
        model.rows.remove(&side.target);
    }),
    act("update", update, |model, side| {
        model.set(side.target, "name", Some(side.name.to_owned()));
    }),
    act("merge", merge, |model, side| {
        for id in [side.target, side.first + 20] {
            let row = given(id, side.name);
            if model.rows.contains_key(&id) {
                for (column, value) in row {
                    model.set(id, column, value);
                }
            } else {
                model.insert(&row);
            }
        }
    }),
    Act {
        commits: 2,
        ..act("compact", compact, |_, _| {})
    },
    act("restore", restore, |model, _| {
        let before = model.before.clone().unwrap();
        *model = *before.clone();
        model.before = Some(before);
    }),
    act("add column", add_column, |model, side| {
        let plus_one = |it: &str| (it.parse::<i64>().unwrap() + 1).to_string();
        model.add_column(side.name, DataType::Int64, |row| {
            row.get(side.column)?.as_deref().map(plus_one)
        });
    }),
    act("give column", give_column, |model, side| {
        model.add_column(side.name, DataType::Int64, |row| {
            row["id"]
                .as_ref()
                .map(|id| (id.parse::<i64>().unwrap() * 7).to_string())
        });
    }),
    act("convert column", convert, |model, side| {
        if let Some(column) = model.columns.get_mut(side.column) {
            column.data_type = DataType::Int64;
        }
    }),
    act("rename column", rename, |model, side| {
        if let Some(column) = model.columns.get_mut(side.column) {
            column.shown = format!("{} renamed", side.column);
        }
    }),
    act("forbid nulls", forbid_nulls, |model, side| {
        if let Some(column) = model.columns.get_mut(side.column) {
            column.nullable = false;
        }
    }),
    act("drop column", drop_column, |model, side| {
        model.columns.remove(side.column);
    }),
    act("config", config, |model, side| {
        model
            .config
            .insert(side.key.to_owned(), side.name.to_owned());
    }),
    act("schema metadata", schema_metadata, |model, side| {
        model
            .schema_metadata
            .insert(side.key.to_owned(), side.name.to_owned());
    }),
    act("field metadata", field_metadata, |model, side| {
        if let Some(column) = model.columns.get_mut(side.column) {
            column
                .metadata
                .insert(side.key.to_owned(), side.name.to_owned());
        }
    }),
    act("replace data", replace_data, |model, side| {
        let factor = if side.column == "q" { 130 } else { 13 };
        for id in Model::fragment_of(side.target) {
            model.set(id, side.column, Some((id * factor).to_string()));
        }
    }),
    act("index", index, |_, _| {}),
    act("reserve", reserve, |_, _| {}),
];

/// Values of a row that a side brings.
fn given(id: i64, name: &str) -> Vec<(&'static str, Option<String>)> {
    vec![
        ("id", Some(id.to_string())),
        ("name", (id % 3 != 0).then(|| name.to_owned())),
        ("p", Some((id * 10).to_string())),
        ("q", Some((id * 100).to_string())),
    ]
}

/// Rows with the four columns that the table has in its first version.
pub(super) fn first_rows(
    ids: &[i64],
    name: impl Fn(i64) -> Option<String>,
    factor: i64,
) -> RecordBatch {
    let names: Vec<Option<String>> = ids.iter().map(|id| name(*id)).collect();
    let times = |factor: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(
            ids.iter().map(|id| id * factor),
        ))
    };
    let int = |name: &str, nullable| Field::new(name, DataType::Int64, nullable);
    batch(vec![
        (int("id", false), times(1)),
        (
            Field::new("name", DataType::Utf8, true),
            Arc::new(StringArray::from(names)),
        ),
        (int("p", true), times(factor)),
        (int("q", true), times(factor * 10)),
    ])
}

/// The rows that a side brings, for the schema of the first version or, once converted, of the newest.
fn brought(ids: &[i64], side: &Side, converted: bool) -> RecordBatch {
    let rows = first_rows(ids, |id| (id % 3 != 0).then(|| side.name.to_owned()), 10);
    if !converted {
        return rows;
    }
    let schema = rows.schema();
    let columns = schema.fields().iter().zip(rows.columns());
    let columns = columns.map(|(field, column)| match field.name().as_str() {
        "p" | "q" => (
            Field::new(field.name(), DataType::Int32, true),
            arrow_cast::cast(column, &DataType::Int32).unwrap(),
        ),
        _ => (field.as_ref().clone(), Arc::clone(column)),
    });
    batch(columns.collect())
}

fn newest(store: &Store) -> Result<Dataset, Error> {
    block_on(Dataset::open_in(store, &VersionRef::Latest))
}

fn commit(store: &Store, operation: Operation) -> Result<(), Error> {
    let options = CommitOptions::default();
    let table = newest(store)?;
    let committed = table.commit(operation, BTreeMap::new(), &options);
    block_on(committed).map(drop)
}

fn put(store: &Store, side: &Side, mode: WriteMode, ids: &[i64]) -> Result<(), Error> {
    let mut options = WriteOptions::default();
    let converted = mode == WriteMode::Append;
    options.mode = mode;
    block_on(write(
        store,
        reader(&[brought(ids, side, converted)]),
        &options,
    ))
    .map(drop)
}

fn append(store: &Store, side: &Side) -> Result<(), Error> {
    let ids: Vec<i64> = (side.first..side.first + 3).collect();
    put(store, side, WriteMode::Append, &ids)
}

fn overwrite(store: &Store, side: &Side) -> Result<(), Error> {
    let ids: Vec<i64> = (side.first + 10..side.first + 14).collect();
    put(store, side, WriteMode::Overwrite, &ids)
}

fn delete(store: &Store, side: &Side) -> Result<(), Error> {
    let predicate = parse_sql(&format!("id = {}", side.target)).unwrap();
    let (options, runtime, table) = (StatementOptions::default(), runtime(), newest(store)?);
    let deleted = table.delete(&predicate, &options, runtime.handle());
    runtime.block_on(deleted).map(drop)
}

fn update(store: &Store, side: &Side) -> Result<(), Error> {
    let set = [(
        "name".to_owned(),
        parse_sql(&format!("'{}'", side.name)).unwrap(),
    )];
    let filter = parse_sql(&format!("id = {}", side.target)).unwrap();
    let (options, runtime, table) = (StatementOptions::default(), runtime(), newest(store)?);
    let updated = table.update(&set, Some(&filter), &options, runtime.handle());
    runtime.block_on(updated).map(drop)
}

fn merge(store: &Store, side: &Side) -> Result<(), Error> {
    let mut options = MergeOptions::default();
    options.when_matched = WhenMatched::Update(None);
    options.when_not_matched = WhenNotMatched::Insert;
    let source = brought(&[side.target, side.first + 20], side, true);
    let (runtime, table) = (runtime(), newest(store)?);
    let on = ["id".to_owned()];
    let merged = table.merge_insert(&on, reader(&[source]), &options, runtime.handle());
    runtime.block_on(merged).map(drop)
}

/// Rewrites the one fragment of which many rows are deleted.
fn compact(store: &Store, _: &Side) -> Result<(), Error> {
    let mut options = CompactOptions::default();
    options.target_rows = 1;
    options.max_deleted_fraction = 0.25;
    let (runtime, table) = (runtime(), newest(store)?);
    let compacted = table.compact(&options, runtime.handle());
    runtime.block_on(compacted).map(drop)
}

fn restore(store: &Store, _: &Side) -> Result<(), Error> {
    let table = block_on(Dataset::open_in(store, &VersionRef::Number(OLD_VERSION)))?;
    block_on(table.restore(&CommitOptions::default())).map(drop)
}

fn add_column(store: &Store, side: &Side) -> Result<(), Error> {
    let plus_one = parse_sql(&format!("{} + 1", side.column)).unwrap();
    let columns = [(side.name.to_owned(), plus_one)];
    let (options, runtime, table) = (StatementOptions::default(), runtime(), newest(store)?);
    let added = table.add_columns(&columns, &options, runtime.handle());
    runtime.block_on(added).map(drop)
}

fn give_column(store: &Store, side: &Side) -> Result<(), Error> {
    let table = newest(store)?;
    let rows = content(table.snapshot());
    let ids = rows.column(0).as_primitive::<Int64Type>();
    let values = Int64Array::from_iter_values(ids.values().iter().map(|id| id * 7));
    let column = Field::new(side.name, DataType::Int64, true);
    let given = batch(vec![(column, Arc::new(values))]);
    let options = StatementOptions::default();
    block_on(table.add_columns_from(reader(&[given]), None, AdaptOptions::default(), &options))
        .map(drop)
}

fn alter(store: &Store, change: ColumnChange) -> Result<(), Error> {
    let (options, runtime, table) = (StatementOptions::default(), runtime(), newest(store)?);
    let change = [change];
    let altered = table.alter_columns(&change, &options, runtime.handle());
    runtime.block_on(altered).map(drop)
}

fn convert(store: &Store, side: &Side) -> Result<(), Error> {
    convert_to(store, side.column, DataType::Int64)
}

pub(super) fn convert_to(store: &Store, column: &str, data_type: DataType) -> Result<(), Error> {
    let change = ColumnChange {
        path: column.to_owned(),
        field: Some(Field::new("type", data_type, true)),
        ..ColumnChange::default()
    };
    alter(store, change)
}

fn rename(store: &Store, side: &Side) -> Result<(), Error> {
    let change = ColumnChange {
        path: side.column.to_owned(),
        name: Some(format!("{} renamed", side.column)),
        ..ColumnChange::default()
    };
    alter(store, change)
}

fn forbid_nulls(store: &Store, side: &Side) -> Result<(), Error> {
    let change = ColumnChange {
        path: side.column.to_owned(),
        nullable: Some(false),
        ..ColumnChange::default()
    };
    alter(store, change)
}

fn drop_column(store: &Store, side: &Side) -> Result<(), Error> {
    let options = StatementOptions::default();
    let table = newest(store)?;
    block_on(table.drop_columns(&[side.column.to_owned()], &options)).map(drop)
}

fn edit(store: &Store, update: &ConfigUpdate) -> Result<(), Error> {
    let options = StatementOptions::default();
    let table = newest(store)?;
    block_on(table.update_config(update, &options)).map(drop)
}

fn set(side: &Side) -> MapUpdate {
    MapUpdate {
        entries: [(side.key.to_owned(), Some(side.name.to_owned()))].into(),
        replace: false,
    }
}

fn config(store: &Store, side: &Side) -> Result<(), Error> {
    let config = set(side);
    let update = ConfigUpdate {
        config,
        ..ConfigUpdate::default()
    };
    edit(store, &update)
}

fn schema_metadata(store: &Store, side: &Side) -> Result<(), Error> {
    let schema_metadata = set(side);
    let update = ConfigUpdate {
        schema_metadata,
        ..ConfigUpdate::default()
    };
    edit(store, &update)
}

fn field_metadata(store: &Store, side: &Side) -> Result<(), Error> {
    let id = field_id(newest(store)?.snapshot().schema(), side.column)?;
    let update = ConfigUpdate {
        field_metadata: [(id, set(side))].into(),
        ..ConfigUpdate::default()
    };
    edit(store, &update)
}

/// Swaps the file of one column of one fragment for one with other values: that of a table that was made the same way.
fn replace_data(store: &Store, side: &Side) -> Result<(), Error> {
    let other = memory();
    prepare(&other, side.stable_row_ids, 13);
    let table = newest(&other)?;
    let id = field_id(table.snapshot().schema(), side.column)?;
    let number = u64::try_from(side.target / 10).unwrap();
    let fragments = table.snapshot().fragments();
    let fragment = fragments.iter().find(|it| it.id == number).unwrap();
    let files = &fragment.files;
    let file = files.iter().find(|it| it.field_ids == [id]).unwrap();
    let path = format!("data/{}", file.path);
    let bytes = block_on(other.read(&path, 1 << 20))?;
    block_on(store.put(&path, bytes))?;
    let replacements = vec![(number, file.clone())];
    let done = commit(store, Operation::DataReplacement { replacements });
    if done.is_err() {
        // A transaction that is handed over does not own its files.
        block_on(store.delete(&path))?;
    }
    done
}

fn index(store: &Store, side: &Side) -> Result<(), Error> {
    let table = open(store);
    let mut fragments = Vec::new();
    let covered: roaring::RoaringBitmap = [u32::try_from(side.target / 10).unwrap()].into();
    covered.serialize_into(&mut fragments).unwrap();
    let added = IndexMetadata {
        name: format!("by {}", side.column),
        fields: vec![field_id(table.snapshot().schema(), side.column)?],
        fragment_bitmap: fragments.into(),
        dataset_version: table.version(),
        ..IndexMetadata::default()
    };
    let (added, removed) = (vec![added], Vec::new());
    commit(store, Operation::CreateIndex { added, removed })
}

fn reserve(store: &Store, _: &Side) -> Result<(), Error> {
    let num_fragments = 3;
    commit(store, Operation::ReserveFragments { num_fragments })
}

impl Model {
    /// The columns of the first version, which an overwrite brings back.
    pub(super) fn first_columns() -> BTreeMap<String, Column> {
        let column = |name: &str, data_type, nullable| {
            (name.to_owned(), Column::new(name, data_type, nullable))
        };
        [
            column("id", DataType::Int64, false),
            column("name", DataType::Utf8, true),
            column("p", DataType::Int64, true),
            column("q", DataType::Int64, true),
        ]
        .into()
    }
}
