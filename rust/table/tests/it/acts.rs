//! Every operation that changes a table, each as one act on a prepared table: for tests that interrupt them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch, StringArray, new_null_array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field};
use pilum_table::{
    CleanupOptions, ColumnChange, CommitOptions, CompactOptions, ConfigUpdate, Dataset, Error,
    MapUpdate, MergeOptions, Operation, Snapshot, StatementOptions, Store, VersionRef, WhenMatched,
    WhenNotMatched, WhenNotMatchedBySource, WriteMode, WriteOptions, commit_staged, parse_sql,
    write, write_fragments,
};

use crate::support::{
    append, batch, block_on, content, create, delete, open, reader, rows, runtime,
};

/// An operation. `Ok` is its acknowledgement.
pub(crate) struct Act {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Store) -> Result<(), Error>,
    /// It needs an empty folder.
    pub(crate) creates: bool,
}

const fn act(name: &'static str, run: fn(&Store) -> Result<(), Error>) -> Act {
    let creates = false;
    Act { name, run, creates }
}

pub(crate) const ACTS: [Act; 19] = [
    Act {
        name: "create",
        run: |store| put_rows(store, WriteMode::Create, 0, None),
        creates: true,
    },
    Act {
        name: "create of staged fragments",
        run: |store| {
            // The dictionaries of the staged fragments begin with different values, so the commit has to join them.
            let options = WriteOptions::default();
            let staged = [0, 10, 20].map(|first| {
                let rows = with_dictionary(&rows(first, 10));
                block_on(write_fragments(store, None, reader(&[rows]), &options))
            });
            let staged = staged.into_iter().collect::<Result<Vec<_>, _>>()?;
            block_on(commit_staged(store, None, &staged, &options)).map(drop)
        },
        creates: true,
    },
    act("append", |store| {
        put_rows(store, WriteMode::Append, 100, None)
    }),
    act("append once", |store| {
        put_rows(store, WriteMode::Append, 100, Some("the batch"))
    }),
    act("overwrite", |store| {
        put_rows(store, WriteMode::Overwrite, 200, None)
    }),
    act("delete", |store| {
        let predicate = parse_sql("id < 5 OR id >= 20").unwrap();
        let options = StatementOptions::default();
        let runtime = runtime();
        let table = newest(store)?;
        let deleted = table.delete(&predicate, &options, runtime.handle());
        runtime.block_on(deleted).map(drop)
    }),
    act("update", |store| {
        let set = [("name".to_owned(), parse_sql("'changed'").unwrap())];
        let filter = parse_sql("id >= 8 AND id < 13").unwrap();
        let options = StatementOptions::default();
        let runtime = runtime();
        let table = newest(store)?;
        let updated = table.update(&set, Some(&filter), &options, runtime.handle());
        runtime.block_on(updated).map(drop)
    }),
    act("merge", |store| {
        let mut options = MergeOptions::default();
        options.when_matched = WhenMatched::Update(None);
        options.when_not_matched = WhenNotMatched::Insert;
        let gone = parse_sql("id >= 23").unwrap();
        options.when_not_matched_by_source = WhenNotMatchedBySource::Delete(Some(gone));
        let source = rename(&rows(15, 15).slice(0, 7), "merged");
        let (runtime, table) = (runtime(), newest(store)?);
        let on = ["id".to_owned()];
        let merged = table.merge_insert(&on, reader(&[source]), &options, runtime.handle());
        runtime.block_on(merged).map(drop)
    }),
    act("compact", |store| {
        let runtime = runtime();
        let table = newest(store)?;
        let options = CompactOptions::default();
        let compacted = table.compact(&options, runtime.handle());
        runtime.block_on(compacted).map(drop)
    }),
    act("cleanup", clean),
    act("restore", |store| {
        let table = block_on(Dataset::open_in(store, &VersionRef::Number(1)))?;
        block_on(table.restore(&CommitOptions::default())).map(drop)
    }),
    act("create tag", |store| {
        block_on(newest(store)?.create_tag("new", None))
    }),
    act("delete tag", |store| {
        block_on(newest(store)?.delete_tag("kept"))
    }),
    act("config", |store| {
        let entries = [("key".to_owned(), Some("value".to_owned()))].into();
        let replace = false;
        let update = ConfigUpdate {
            config: MapUpdate { entries, replace },
            ..ConfigUpdate::default()
        };
        change(store, Operation::UpdateConfig(update))
    }),
    act("rename column", |store| {
        let mut fields = newest(store)?.snapshot().manifest().fields.clone();
        fields[1].name = "title".to_owned();
        let preserves_nullability = true;
        let operation = Operation::Project {
            fields,
            preserves_nullability,
        };
        change(store, operation)
    }),
    act("add column", |store| {
        let columns = [("twice".to_owned(), parse_sql("id * 2").unwrap())];
        let (runtime, table) = (runtime(), newest(store)?);
        let options = StatementOptions::default();
        let added = table.add_columns(&columns, &options, runtime.handle());
        runtime.block_on(added).map(drop)
    }),
    act("convert column", |store| {
        let change = [ColumnChange {
            path: "name".to_owned(),
            name: Some("title".to_owned()),
            field: Some(Field::new("type", DataType::LargeUtf8, true)),
            nullable: None,
        }];
        let (runtime, table) = (runtime(), newest(store)?);
        let options = StatementOptions::default();
        let altered = table.alter_columns(&change, &options, runtime.handle());
        runtime.block_on(altered).map(drop)
    }),
    act("drop column", |store| {
        let options = StatementOptions::default();
        let table = newest(store)?;
        block_on(table.drop_columns(&["name".to_owned()], &options)).map(drop)
    }),
    act("reserve ids", |store| {
        let num_fragments = 3;
        change(store, Operation::ReserveFragments { num_fragments })
    }),
];

/// The rows with names from a dictionary.
fn with_dictionary(rows: &RecordBatch) -> RecordBatch {
    let type_ = DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8));
    let names = cast(rows.column(1), &type_).unwrap();
    let id = rows.schema().field(0).clone();
    let name = Field::new("name", type_, true);
    batch(vec![(id, Arc::clone(rows.column(0))), (name, names)])
}

/// The rows with another name.
fn rename(rows: &RecordBatch, name: &str) -> RecordBatch {
    let names = StringArray::from(vec![name; rows.num_rows()]);
    let columns = vec![Arc::clone(rows.column(0)), Arc::new(names) as _];
    RecordBatch::try_new(rows.schema(), columns).unwrap()
}

fn newest(store: &Store) -> Result<Dataset, Error> {
    block_on(Dataset::open_in(store, &VersionRef::Latest))
}

fn change(store: &Store, operation: Operation) -> Result<(), Error> {
    let table = newest(store)?;
    block_on(table.commit(operation, BTreeMap::new(), &CommitOptions::default())).map(drop)
}

fn put_rows(store: &Store, mode: WriteMode, first: i64, id: Option<&str>) -> Result<(), Error> {
    let mut options = WriteOptions::default();
    options.mode = mode;
    options.commit_id = id.map(str::to_owned);
    block_on(write(store, reader(&[rows(first, 10)]), &options)).map(drop)
}

/// Removes everything that is not needed, however young.
pub(crate) fn clean(store: &Store) -> Result<(), Error> {
    let mut options = CleanupOptions::default();
    options.older_than = Duration::ZERO;
    options.unverified_older_than = Duration::ZERO;
    block_on(newest(store)?.cleanup(&options)).map(drop)
}

/// The table that acts work on: three fragments, deleted rows, a tag on an old version.
pub(crate) fn prepare(store: &Store) {
    create(store, &rows(0, 10), true);
    append(store, &rows(10, 10));
    append(store, &rows(20, 5));
    delete(store, "id < 2");
    block_on(open(store).create_tag("kept", Some(2))).unwrap();
}

/// What a user sees of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct View {
    pub(crate) rows: Vec<(i64, Option<String>)>,
    columns: Vec<String>,
    config: BTreeMap<String, String>,
    tags: BTreeMap<String, u64>,
}

pub(crate) fn view(snapshot: &Snapshot) -> View {
    let content = content(snapshot);
    let ids = content.column(0).as_primitive::<Int64Type>();
    // Dropped by one act, and made a longer text by another.
    let names = content
        .columns()
        .get(1)
        .map(|it| cast(it, &DataType::Utf8).unwrap());
    let names = names.unwrap_or_else(|| new_null_array(&DataType::Utf8, ids.len()));
    let pairs = ids.values().iter().zip(names.as_string::<i32>());
    let mut rows: Vec<_> = pairs
        .map(|(id, name)| (*id, name.map(str::to_owned)))
        .collect();
    assert_eq!(ids.null_count(), 0);
    rows.sort();
    let schema = content.schema();
    let tags = block_on(Dataset::from(snapshot.clone()).tags()).unwrap();
    View {
        rows,
        columns: schema.fields().iter().map(|it| it.name().clone()).collect(),
        config: snapshot.manifest().config.clone(),
        tags: tags
            .into_iter()
            .map(|(name, tag)| (name, tag.version))
            .collect(),
    }
}

/// The newest version; nothing if there is no table.
pub(crate) fn look(store: &Store) -> Option<View> {
    let snapshot = block_on(Snapshot::try_newest(store)).unwrap();
    snapshot.map(|snapshot| view(&snapshot))
}

/// Every version that is listed is whole: all its files are there and say what their checksums say.
pub(crate) fn expect_whole(store: &Store, place: &str) {
    for listed in block_on(store.list("_versions")).unwrap() {
        let Some((_, version)) = pilum_format::parse_manifest_name(listed.name()) else {
            continue;
        };
        let snapshot = block_on(Snapshot::at_version(store, version)).unwrap();
        let report = block_on(snapshot.verify()).unwrap();
        assert!(report.is_ok(), "{place}, version {version}: {report:?}");
    }
}
