//! First writes that make no table: nothing is left of them on the disk.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, DataType, Field};
use futures::FutureExt;
use futures::future::BoxFuture;
use pilum_store::testing::{Fate, Script, Verb};
use pilum_table::{Compat, Store, WriteOptions, write};

use crate::support::{batch, block_on, create, local, open, reader, rows};

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

/// Ten rows, then an error.
fn fails_in_the_middle() -> impl arrow_array::RecordBatchReader {
    let first = rows(0, 10);
    let schema = first.schema();
    let error = ArrowError::ComputeError("the source broke".to_owned());
    RecordBatchIterator::new([Ok(first), Err(error)], schema)
}

/// Rows of which only the last one is a null, which Lance v1 cannot hold.
fn null_at_the_end() -> RecordBatch {
    let values: Int64Array = (0..20_000).map(|it| (it < 19_999).then_some(it)).collect();
    let values: ArrayRef = Arc::new(values);
    batch(vec![(Field::new("x", DataType::Int64, true), values)])
}

#[test]
fn a_first_write_that_fails_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let store = local(&folder.path().join("above/table"));
    let error = block_on(write(
        &store,
        fails_in_the_middle(),
        &WriteOptions::default(),
    ));
    assert!(error.unwrap_err().to_string().contains("the source broke"));
    assert!(is_empty(folder.path()));
    let mut options = WriteOptions::default();
    options.compat = Some(Compat::Lance);
    options.max_rows_per_file = 5_000;
    let error = block_on(write(&store, reader(&[null_at_the_end()]), &options)).unwrap_err();
    assert_eq!(error.kind(), "invalid_input", "{error}");
    assert!(is_empty(folder.path()));
    // The handle of the store works on.
    create(&store, &rows(0, 3), false);
    assert_eq!(open(&store).num_rows(), 3);
}

#[test]
fn folders_that_were_there_before_stay() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("table");
    fs::create_dir_all(root.join("data")).unwrap();
    let store = local(&root);
    block_on(write(
        &store,
        fails_in_the_middle(),
        &WriteOptions::default(),
    ))
    .unwrap_err();
    let left: Vec<_> = fs::read_dir(&root).unwrap().collect();
    assert_eq!(left.len(), 1);
    assert!(is_empty(&root.join("data")));
    // A write that fails in a table leaves the table alone.
    create(&store, &rows(0, 3), false);
    let mut append = WriteOptions::default();
    append.mode = pilum_table::WriteMode::Append;
    block_on(write(&store, fails_in_the_middle(), &append)).unwrap_err();
    assert_eq!(open(&store).num_rows(), 3);
}

/// A data file is never finished.
#[derive(Debug)]
struct Hangs;

impl Script for Hangs {
    fn fate(&self, verb: Verb, _: &str) -> BoxFuture<'_, Fate> {
        match verb {
            Verb::Finish => futures::future::pending().boxed(),
            _ => std::future::ready(Fate::Happens).boxed(),
        }
    }
}

#[test]
fn a_first_write_that_is_interrupted_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("table");
    let store: Store = local(&root).scripted(Arc::new(Hangs));
    let options = WriteOptions::default();
    let write = write(&store, reader(&[rows(0, 10)]), &options);
    assert!(write.boxed_local().now_or_never().is_none());
    assert!(is_empty(folder.path()));
}

/// The first data file is finished, the second one never is.
#[derive(Debug, Default)]
struct HangsLater(std::sync::atomic::AtomicU32);

impl Script for HangsLater {
    fn fate(&self, verb: Verb, _: &str) -> BoxFuture<'_, Fate> {
        let is_finish = verb == Verb::Finish;
        if is_finish && self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0 {
            return futures::future::pending().boxed();
        }
        std::future::ready(Fate::Happens).boxed()
    }
}

#[test]
fn a_write_that_is_interrupted_removes_the_files_that_it_had_finished() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("table");
    let mut options = WriteOptions::default();
    options.max_rows_per_file = 10;
    let interrupted = |options: &WriteOptions| {
        let store: Store = local(&root).scripted(Arc::new(HangsLater::default()));
        let source = reader(&[rows(0, 10), rows(10, 10), rows(20, 10)]);
        let write = write(&store, source, options);
        assert!(write.boxed_local().now_or_never().is_none());
    };
    interrupted(&options);
    assert!(is_empty(folder.path()), "a first write");
    create(&local(&root), &rows(0, 3), false);
    let before = crate::support::files(&local(&root));
    options.mode = pilum_table::WriteMode::Append;
    interrupted(&options);
    assert_eq!(crate::support::files(&local(&root)), before, "an append");
}
