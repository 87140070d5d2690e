//! Small tables that have, together, every kind of file that a table may consist of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeListBuilder, Float32Builder, Int32Builder, ListBuilder, MapBuilder, StringBuilder,
};
use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, DictionaryArray, Float64Array,
    Int16Array, Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Schema};
use pilum_format::{DeletionFileKind, ManifestFile, NamingScheme};
use pilum_table::{
    CommitOptions, Compat, ConfigUpdate, Dataset, Operation, StatementOptions, Store, VersionRef,
    WriteMode, WriteOptions, parse_sql, write,
};

use crate::support::{block_on, compact, delete, files, memory, open, reader, runtime};

/// The id of a commit of the first table.
pub(crate) const COMMIT_ID: &str = "load-2026-07-01";

/// A table as bytes, with what is known about it.
pub(crate) struct Sound {
    pub(crate) name: &'static str,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) latest: u64,
    pub(crate) tags: Vec<String>,
    /// The fragments that need a data or deletion file.
    pub(crate) users: BTreeMap<String, BTreeSet<u64>>,
    tagged: BTreeMap<String, u64>,
}

impl Sound {
    /// The version whose manifest lies at `path`.
    pub(crate) fn version_of(&self, path: &str) -> Option<u64> {
        let of = |version: &u64| path == format!("_versions/{}", NamingScheme::V2.name(*version));
        (1..=self.latest).find(of)
    }

    /// The questions that go to a version by a tag.
    pub(crate) fn tags_of(&self, version: u64) -> impl Iterator<Item = String> + '_ {
        let of_it = self
            .tagged
            .iter()
            .filter(move |(_, named)| **named == version);
        of_it.map(|(tag, _)| format!("tag {tag}"))
    }

    fn of(name: &'static str, store: &Store) -> Self {
        let files: BTreeMap<String, Vec<u8>> = files(store)
            .into_iter()
            .map(|path| {
                let bytes = block_on(store.read(&path, 1 << 30)).unwrap();
                (path, bytes.to_vec())
            })
            .collect();
        let table = open(store);
        let mut users: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        for version in 1..=table.version() {
            let then = block_on(Dataset::open_in(store, &VersionRef::Number(version))).unwrap();
            for fragment in then.fragments() {
                let data = fragment.files.iter().map(|file| file.full_path());
                let deletion = fragment.deletion.iter().map(|file| file.path(fragment.id));
                for path in data.chain(deletion) {
                    users.entry(path).or_default().insert(fragment.id);
                }
            }
        }
        let tags = block_on(table.tags()).unwrap();
        let tagged: BTreeMap<String, u64> = tags
            .into_iter()
            .map(|(tag, it)| (tag, it.version))
            .collect();
        Self {
            name,
            files,
            latest: table.version(),
            tags: tagged.keys().cloned().collect(),
            users,
            tagged,
        }
    }
}

fn options(change: impl FnOnce(&mut WriteOptions)) -> WriteOptions {
    let mut options = WriteOptions::default();
    options.max_rows_per_page = Some(8);
    change(&mut options);
    options
}

fn put(store: &Store, batch: &RecordBatch, options: &WriteOptions) {
    block_on(write(store, reader(std::slice::from_ref(batch)), options)).unwrap();
}

fn update(store: &Store, set: (&str, &str), filter: &str) {
    let set = [(set.0.to_owned(), parse_sql(set.1).unwrap())];
    let filter = parse_sql(filter).unwrap();
    let (runtime, table) = (runtime(), open(store));
    let options = StatementOptions::default();
    runtime
        .block_on(table.update(&set, Some(&filter), &options, runtime.handle()))
        .unwrap();
}

/// The tables, each written as its users would.
pub(crate) fn sound_tables() -> Vec<Sound> {
    vec![lossless(), ordinary(), stable(), bitmaps()]
}

/// Every kind of value and null, a commit id, tags, config.
fn lossless() -> Sound {
    let store = memory();
    let first = options(|it| it.commit_id = Some(COMMIT_ID.to_owned()));
    put(&store, &of_every_type(0, 20), &first);
    put(
        &store,
        &of_every_type(20, 11),
        &options(|it| it.mode = WriteMode::Append),
    );
    delete(&store, "id = 3 OR id = 25");
    let table = open(&store);
    let mut update = ConfigUpdate::default();
    let entry = ("owner".to_owned(), Some("the lighthouse".to_owned()));
    update.config.entries = [entry].into();
    let operation = Operation::UpdateConfig(update);
    block_on(table.commit(operation, BTreeMap::new(), &CommitOptions::default())).unwrap();
    block_on(table.create_tag("release/1.0", Some(2))).unwrap();
    block_on(table.create_tag("newest", Some(4))).unwrap();
    Sound::of("lossless", &store)
}

/// What a reader of plain version 1 tables reads as well.
fn ordinary() -> Sound {
    let store = memory();
    let plain = options(|it| it.compat = Some(Compat::Lance));
    put(&store, &of_version_one(0, 30), &plain);
    let more = options(|it| {
        it.compat = Some(Compat::Lance);
        it.mode = WriteMode::Append;
        it.max_rows_per_file = 16;
    });
    put(&store, &of_version_one(30, 30), &more);
    delete(&store, "id % 7 = 2");
    update(&store, ("text", "'changed'"), "id % 10 = 4");
    Sound::of("ordinary", &store)
}

/// Row ids that stay, in every form that statements leave behind.
fn stable() -> Sound {
    let store = memory();
    let new = options(|it| it.stable_row_ids = true);
    put(&store, &of_version_one(0, 20), &new);
    put(
        &store,
        &of_version_one(20, 20),
        &options(|it| it.mode = WriteMode::Append),
    );
    delete(&store, "id % 5 = 1");
    update(&store, ("flag", "true"), "id % 8 = 3");
    compact(&store, 1000);
    put(
        &store,
        &of_version_one(40, 9),
        &options(|it| it.mode = WriteMode::Append),
    );
    Sound::of("stable", &store)
}

/// So many deleted rows that a bitmap holds them.
fn bitmaps() -> Sound {
    let store = memory();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..6_000));
    let field = Field::new("id", DataType::Int64, false);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![ids]).unwrap();
    put(&store, &batch, &WriteOptions::default());
    delete(&store, "id % 11 != 0");
    let table = open(&store);
    let file = table.fragments()[0].deletion.as_ref().unwrap();
    assert_eq!(file.kind, DeletionFileKind::Bitmap);
    assert!(is_inline(&store), "the manifest holds its transaction");
    Sound::of("bitmaps", &store)
}

fn is_inline(store: &Store) -> bool {
    let table = open(store);
    let path = format!("_versions/{}", NamingScheme::V2.name(table.version()));
    let bytes = block_on(store.read(&path, 1 << 20)).unwrap();
    let file = ManifestFile::decode(&bytes, &path).unwrap();
    file.transaction.is_some()
}

fn columns(columns: Vec<(&str, bool, ArrayRef)>) -> RecordBatch {
    let (fields, arrays): (Vec<_>, Vec<_>) = columns
        .into_iter()
        .map(|(name, nullable, array)| {
            (Field::new(name, array.data_type().clone(), nullable), array)
        })
        .unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Values without nulls, but for strings, whose nulls version 1 holds.
fn of_version_one(first: i64, len: i64) -> RecordBatch {
    let ids = first..first + len;
    let text = ids
        .clone()
        .map(|id| (id % 3 != 0).then(|| format!("text {id}")));
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let floats = ids.clone().map(|id| id as f64 / 3.0);
    let flags: Vec<bool> = ids.clone().map(|id| id % 4 == 1).collect();
    columns(vec![
        ("id", false, Arc::new(Int64Array::from_iter_values(ids))),
        ("text", true, Arc::new(StringArray::from_iter(text))),
        (
            "ratio",
            false,
            Arc::new(Float64Array::from_iter_values(floats)),
        ),
        ("flag", false, Arc::new(BooleanArray::from(flags))),
    ])
}

/// One column of each family of pages, nulls in all of them.
fn of_every_type(first: i64, len: i64) -> RecordBatch {
    let ids: Vec<i64> = (first..first + len).collect();
    let some = |id: &i64| (id % 4 != 1).then_some(*id);
    let nulls: NullBuffer = ids.iter().map(|id| id % 5 != 2).collect();
    let small = ids
        .iter()
        .map(|id| some(id).and_then(|id| i16::try_from(id).ok()));
    // Empty strings beside nulls.
    let text = |id: &i64| some(id).map(|id| "lighthouse".repeat(usize::try_from(id % 3).unwrap()));
    let texts: Vec<Option<String>> = ids.iter().map(text).collect();
    let mut lists = ListBuilder::new(StringBuilder::new());
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    let mut vectors = FixedSizeListBuilder::new(Float32Builder::new(), 3);
    for (row, text) in texts.iter().enumerate() {
        let number = i32::try_from(row).unwrap();
        for _ in 0..row % 3 {
            lists.values().append_option(text.as_deref());
            maps.keys().append_value(format!("k{row}"));
            maps.values()
                .append_option((row % 2 == 0).then_some(number));
        }
        lists.append(row % 4 != 3);
        maps.append(row % 6 != 5).unwrap();
        for item in 0..3 {
            vectors
                .values()
                .append_option((item != row % 5).then_some(0.5));
        }
        vectors.append(row % 7 != 6);
    }
    let pair = StructArray::new(
        vec![
            Field::new("a", DataType::Int32, true),
            Field::new("b", DataType::Utf8, true),
        ]
        .into(),
        vec![
            Arc::new(
                ids.iter()
                    .map(|id| some(id).and_then(|id| i32::try_from(id).ok()))
                    .collect::<Int32Array>(),
            ),
            Arc::new(StringArray::from(texts.clone())),
        ],
        Some(nulls),
    );
    let decimals: Decimal128Array = ids.iter().map(|id| some(id).map(i128::from)).collect();
    let decimals = decimals.with_precision_and_scale(10, 2).unwrap();
    let times = TimestampMicrosecondArray::from_iter(ids.iter().map(some)).with_timezone("UTC");
    let words = ids
        .iter()
        .map(|id| some(id).map(|id| ["red", "green", ""][usize::try_from(id % 3).unwrap()]));
    let words: DictionaryArray<Int8Type> = words.collect();
    let bytes: Vec<Option<&[u8]>> = texts
        .iter()
        .map(|it| it.as_ref().map(String::as_bytes))
        .collect();
    columns(vec![
        ("id", false, Arc::new(Int64Array::from(ids.clone()))),
        ("small", true, Arc::new(Int16Array::from_iter(small))),
        ("text", true, Arc::new(StringArray::from(texts.clone()))),
        (
            "view",
            true,
            Arc::new(StringViewArray::from_iter(
                texts.iter().map(Option::as_deref),
            )),
        ),
        ("blob", true, Arc::new(BinaryArray::from(bytes))),
        (
            "flag",
            true,
            Arc::new(
                ids.iter()
                    .map(|id| some(id).map(|id| id % 8 == 0))
                    .collect::<BooleanArray>(),
            ),
        ),
        ("price", true, Arc::new(decimals)),
        ("time", true, Arc::new(times)),
        ("list", true, Arc::new(lists.finish())),
        ("map", true, Arc::new(maps.finish())),
        ("vector", true, Arc::new(vectors.finish())),
        ("pair", true, Arc::new(pair)),
        ("word", true, Arc::new(words)),
    ])
}
