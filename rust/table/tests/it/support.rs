//! What the tests share: a runtime, batches, readers of golden tables.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray,
};
use arrow_schema::{DataType, Field, Schema};
use pilum_table::{Dataset, StorageOptions, Store, VersionRef};

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

/// All files below a folder, relative, sorted.
pub(crate) fn files(store: &Store) -> Vec<String> {
    let listed = block_on(store.list_recursive("")).unwrap();
    listed.into_iter().map(|it| it.path).collect()
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
