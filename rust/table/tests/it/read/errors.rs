//! Scans that end in an error: rows before it are handed out first, and no memory stays counted.

use arrow_array::RecordBatch;
use futures::StreamExt;
use pilum_table::{Error, ScanOptions, Store, parse_sql};

use crate::support::{append, block_on, create, local, memory, open, rows, runtime};

/// A table of three fragments of ten rows, without the data file of the last one.
fn without_last_file(store: &Store) {
    create(store, &rows(0, 10), false);
    append(store, &rows(10, 10));
    append(store, &rows(20, 10));
    let last = open(store).snapshot().fragments()[2].files[0].full_path();
    block_on(store.delete(&last)).unwrap();
}

/// The rows before the first error, and the error.
fn drain(store: &Store, options: ScanOptions) -> (usize, Option<Error>) {
    let scan = open(store).snapshot().scan(options).unwrap();
    let mut batches = scan.batches(runtime().handle());
    let mut num_rows = 0;
    runtime().block_on(async {
        while let Some(batch) = batches.next().await {
            match batch {
                Ok(batch) => num_rows += batch.num_rows(),
                Err(error) => {
                    assert!(batches.next().await.is_none(), "an error is the end");
                    return (num_rows, Some(error));
                }
            }
        }
        (num_rows, None)
    })
}

#[test]
fn rows_before_a_damaged_fragment_are_handed_out_before_the_error() {
    let folder = tempfile::tempdir().unwrap();
    for store in [memory(), local(&folder.path().join("table"))] {
        without_last_file(&store);
        for threads in [1, 2, 4] {
            for unordered in [false, true] {
                for filter in [None, Some("id >= 0")] {
                    let mut options = ScanOptions::default();
                    options.threads = Some(threads);
                    options.unordered = unordered;
                    options.filter = filter.map(|filter| parse_sql(filter).unwrap());
                    let (num_rows, error) = drain(&store, options);
                    let case = format!("{threads} threads, unordered {unordered}, {filter:?}");
                    assert_eq!(num_rows, 20, "{case}");
                    assert_eq!(error.unwrap().kind(), "not_found", "{case}");
                }
            }
        }
        // Rows that suffice are no reason to look further.
        let mut options = ScanOptions::default();
        (options.limit, options.threads) = (Some(20), Some(1));
        let (num_rows, error) = drain(&store, options);
        assert_eq!(num_rows, 20);
        assert!(error.is_none(), "{error:?}");
    }
}

#[test]
fn a_scan_that_is_given_up_leaves_no_memory_counted() {
    let store = memory();
    create(&store, &rows(0, 10_000), false);
    let scan = |store: &Store| {
        let mut options = ScanOptions::default();
        options.threads = Some(1);
        open(store).snapshot().scan(options).unwrap()
    };
    let whole = scan(&store);
    let read_all = |scan: &std::sync::Arc<pilum_table::Scan>| {
        let batches: Vec<RecordBatch> = block_on(async {
            let batches = scan.batches(runtime().handle());
            batches.map(Result::unwrap).collect().await
        });
        assert!(!batches.is_empty());
    };
    read_all(&whole);
    let most = whole.metrics().peak_bytes;
    assert!(most > 0);
    let given_up = scan(&store);
    for _ in 0..10 {
        let mut batches = given_up.batches(runtime().handle());
        block_on(batches.next()).unwrap().unwrap();
    }
    read_all(&given_up);
    assert_eq!(given_up.metrics().peak_bytes, most);
}

#[test]
fn a_scan_run_again_counts_from_zero() {
    let store = memory();
    create(&store, &rows(0, 100), false);
    let first = open(&store)
        .snapshot()
        .scan(ScanOptions::default())
        .unwrap();
    for scan in [first.again(), first.again(), first] {
        let batches = scan.batches(runtime().handle());
        let num_rows = block_on(batches.fold(0, |sum, batch| async move {
            sum + batch.unwrap().num_rows() as u64
        }));
        assert_eq!((num_rows, scan.metrics().rows_returned), (100, 100));
    }
}
