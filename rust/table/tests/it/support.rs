//! What the tests share: a runtime, batches, readers of golden tables.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray,
};
use arrow_schema::{DataType, Field, Schema};
use futures::future::BoxFuture;
use futures::{FutureExt, TryStreamExt};
use pilum_format::{Manifest, ManifestFile, NamingScheme};
use pilum_store::testing::{Fate, Script, Verb};
use pilum_table::{
    CompactOptions, CompactOutcome, DataFile, Dataset, DeleteOutcome, Fragment, ScanOptions,
    Snapshot, StatementOptions, StorageOptions, Store, VersionRef, WriteMode, WriteOptions,
    parse_sql, write,
};
use tokio::runtime::{Builder, Runtime};

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    futures::executor::block_on(future)
}

pub(crate) fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/lance")
}

pub(crate) fn local(path: &Path) -> Store {
    Store::open(path.to_str().unwrap(), &StorageOptions::new()).unwrap()
}

/// A store that no other test has.
pub(crate) fn memory() -> Store {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let uri = format!(
        "memory://tests/table-{}",
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    Store::open(&uri, &StorageOptions::new()).unwrap()
}

pub(crate) fn open(store: &Store) -> Dataset {
    block_on(Dataset::open_in(store, &VersionRef::Latest)).unwrap()
}

pub(crate) fn batch(columns: Vec<(Field, ArrayRef)>) -> RecordBatch {
    let (fields, columns): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Two columns, `id` counting from `first`, `name` with nulls.
pub(crate) fn rows(first: i64, len: i64) -> RecordBatch {
    let ids: Vec<i64> = (first..first + len).collect();
    let names: Vec<Option<String>> = ids
        .iter()
        .map(|id| (id % 3 != 0).then(|| format!("name {id}")))
        .collect();
    batch(vec![
        (
            Field::new("id", DataType::Int64, false),
            Arc::new(Int64Array::from(ids)),
        ),
        (
            Field::new("name", DataType::Utf8, true),
            Arc::new(StringArray::from(names)),
        ),
    ])
}

pub(crate) fn reader(batches: &[RecordBatch]) -> impl RecordBatchReader + use<> {
    let schema = batches[0].schema();
    let batches = batches.to_vec();
    RecordBatchIterator::new(batches.into_iter().map(Ok), schema)
}

/// Writes the newest manifest again with changes, as another writer might have written it.
pub(crate) fn change_manifest(store: &Store, change: impl FnOnce(&mut Manifest)) {
    let version = open(store).version();
    let path = format!("_versions/{}", NamingScheme::V2.name(version));
    let bytes = block_on(store.read(&path, 1 << 30)).unwrap();
    let mut file = ManifestFile::decode(&bytes, &path).unwrap();
    change(&mut file.manifest);
    block_on(store.put(&path, file.encode().unwrap())).unwrap();
}

/// All files below a folder, relative, sorted.
pub(crate) fn files(store: &Store) -> Vec<String> {
    let listed = block_on(store.list_recursive("")).unwrap();
    listed.into_iter().map(|it| it.path).collect()
}

/// A fragment whose one file does not exist.
pub(crate) fn fabricated(name: &str) -> Fragment {
    let file = DataFile {
        path: format!("{name}.lance"),
        field_ids: vec![0, 1],
        file_version: (0, 2),
        ..DataFile::default()
    };
    Fragment {
        files: vec![file],
        physical_rows: 10,
        ..Fragment::default()
    }
}

/// Copies a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The runtime that scans of the tests read on.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_multi_thread().enable_all().build().unwrap())
}

pub(crate) fn create(store: &Store, batch: &RecordBatch, stable_row_ids: bool) {
    let mut options = WriteOptions::default();
    options.stable_row_ids = stable_row_ids;
    block_on(write(store, reader(std::slice::from_ref(batch)), &options)).unwrap();
}

pub(crate) fn append(store: &Store, batch: &RecordBatch) {
    let mut options = WriteOptions::default();
    options.mode = WriteMode::Append;
    block_on(write(store, reader(std::slice::from_ref(batch)), &options)).unwrap();
}

pub(crate) fn delete_with(
    store: &Store,
    predicate: &str,
    options: &StatementOptions,
) -> DeleteOutcome {
    let (runtime, predicate) = (runtime(), parse_sql(predicate).unwrap());
    let table = open(store);
    let deleted = table.delete(&predicate, options, runtime.handle());
    runtime.block_on(deleted).unwrap()
}

pub(crate) fn delete(store: &Store, predicate: &str) -> DeleteOutcome {
    delete_with(store, predicate, &StatementOptions::default())
}

pub(crate) fn compact(store: &Store, target_rows: u64) -> CompactOutcome {
    let mut options = CompactOptions::default();
    options.target_rows = target_rows;
    let (runtime, table) = (runtime(), open(store));
    let compacted = table.compact(&options, runtime.handle());
    runtime.block_on(compacted).unwrap()
}

/// All rows of a version, in order.
pub(crate) fn content(snapshot: &Snapshot) -> RecordBatch {
    let runtime = runtime();
    let scan = snapshot.scan(ScanOptions::default()).unwrap();
    let batches: Vec<RecordBatch> = runtime
        .block_on(scan.batches(runtime.handle()).try_collect())
        .unwrap();
    arrow_select::concat::concat_batches(scan.schema(), &batches).unwrap()
}

/// The column `id` of all rows.
pub(crate) fn ids(snapshot: &Snapshot) -> Vec<i64> {
    let content = content(snapshot);
    let ids = content.column_by_name("id").unwrap();
    ids.as_primitive::<Int64Type>().values().to_vec()
}

/// The newest version is sound, and every file in the table belongs to a version.
pub(crate) fn expect_no_orphans(store: &Store) {
    let report = block_on(open(store).snapshot().verify()).unwrap();
    assert!(report.is_ok(), "{:?}", report.problems);
    assert_eq!(report.orphans, Vec::<String>::new());
}

/// What others do at one moment.
struct Meanwhile {
    verb: Verb,
    folder: &'static str,
    act: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "before {:?} in {}", self.verb, self.folder)
    }
}

impl Script for Meanwhile {
    fn fate(&self, verb: Verb, path: &str) -> BoxFuture<'_, Fate> {
        if verb == self.verb && path.starts_with(self.folder) {
            let act = self.act.lock().unwrap().take();
            if let Some(act) = act {
                // On a thread of its own: this one is in the middle of something.
                std::thread::spawn(act).join().unwrap();
            }
        }
        std::future::ready(Fate::Happens).boxed()
    }
}

/// The store, in which others `act` right before the first request of this kind in a folder.
pub(crate) fn before(
    store: &Store,
    verb: Verb,
    folder: &'static str,
    act: impl FnOnce(&Store) + Send + 'static,
) -> Store {
    let theirs = store.clone();
    let act: Box<dyn FnOnce() + Send> = Box::new(move || act(&theirs));
    store.scripted(Arc::new(Meanwhile {
        verb,
        folder,
        act: Mutex::new(Some(act)),
    }))
}

/// The store, in which others `act` right before a version is published.
pub(crate) fn before_publishing(store: &Store, act: impl FnOnce(&Store) + Send + 'static) -> Store {
    before(store, Verb::Create, "_versions/", act)
}

/// How many times more than usual the long tests do.
pub(crate) fn scale() -> u64 {
    let scale = std::env::var("PILUM_TEST_SCALE").ok();
    scale.map_or(1, |scale| scale.parse().unwrap())
}
