//! Scans under a memory limit: what they hold at once, and what they say when it is too little for any scan.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field};
use futures::StreamExt;
use pilum_table::{CommonError, Error, Scan, ScanMetrics, ScanOptions, Store, parse_sql};
use pilum_testing::peak_bytes;

use crate::support::{append, batch, block_on, create, delete, local, memory, open, rows, runtime};

const MIB: usize = 1 << 20;

fn texts(range: std::ops::Range<i64>) -> RecordBatch {
    let texts = range.clone().map(|id| format!("{id:0200}"));
    let texts = StringArray::from_iter_values(texts);
    let ids = Int64Array::from_iter_values(range);
    batch(vec![
        (Field::new("id", DataType::Int64, false), Arc::new(ids)),
        (Field::new("text", DataType::Utf8, true), Arc::new(texts)),
    ])
}

fn scan(store: &Store, threads: usize, memory_limit: Option<u64>) -> Result<Arc<Scan>, Error> {
    let mut options = ScanOptions::default();
    options.threads = Some(threads);
    options.memory_limit = memory_limit;
    open(store).snapshot().scan(options)
}

/// Reads everything, one batch after the other.
fn drain(scan: &Arc<Scan>) -> ScanMetrics {
    let mut batches = scan.batches(runtime().handle());
    block_on(async {
        while let Some(batch) = batches.next().await {
            batch.unwrap();
        }
    });
    scan.metrics()
}

#[test]
fn a_scan_stays_under_its_limit() {
    const LEN: i64 = 100_000;
    let folder = tempfile::tempdir().unwrap();
    let store = local(folder.path());
    create(&store, &texts(0..LEN), false);
    append(&store, &texts(LEN..2 * LEN));
    // Rows between deleted ones are copied together: 28 MB of them.
    delete(&store, "id % 3 = 1");
    let limit = 4 * MIB;
    let limited = scan(&store, 1, Some(limit as u64)).unwrap();
    let (metrics, held) = peak_bytes(|| drain(&limited));
    assert_eq!(metrics.rows_returned, 2 * LEN as u64 - 66_667);
    assert!(held < limit, "{held} bytes");
    let told = usize::try_from(metrics.peak_bytes).unwrap();
    assert!(told > 0 && told <= held, "{told} of {held} bytes");
    // The same with readers on other threads, whose memory the scan counts itself.
    for threads in [2, 4, 16] {
        let metrics = drain(&scan(&store, threads, Some(limit as u64)).unwrap());
        let told = metrics.peak_bytes;
        assert!(told > 0 && told < limit as u64, "{metrics:?}");
    }
    // Without a limit, tasks have their usual size.
    let (metrics, held_freely) = peak_bytes(|| drain(&scan(&store, 1, None).unwrap()));
    assert!(metrics.peak_bytes > told as u64, "{metrics:?}");
    assert!(held_freely > limit, "{held_freely} bytes");
}

#[test]
fn a_scan_whose_filter_reads_less_than_it_lets_through_stays_under_its_limit() {
    const LEN: i64 = 120_000;
    let folder = tempfile::tempdir().unwrap();
    let store = local(folder.path());
    create(&store, &texts(0..LEN), false);
    let filtered = |threads: usize, limit: Option<usize>| {
        let mut options = ScanOptions::default();
        options.threads = Some(threads);
        options.memory_limit = limit.map(|limit| limit as u64);
        options.filter = Some(parse_sql("id % 3 <> 1").unwrap());
        open(&store).snapshot().scan(options).unwrap()
    };
    let limit = 4 * MIB;
    let scan = filtered(1, Some(limit));
    let (metrics, held) = peak_bytes(|| drain(&scan));
    assert_eq!(metrics.rows_returned, 80_000);
    assert!(held < limit, "{held} bytes");
    for threads in [2, 4, 16] {
        let metrics = drain(&filtered(threads, Some(limit)));
        let told = metrics.peak_bytes;
        assert!(told > 0 && told < limit as u64, "{metrics:?}");
    }
    let scan = filtered(1, None);
    let (_, held_freely) = peak_bytes(|| drain(&scan));
    assert!(held_freely > limit, "{held_freely} bytes");
}

#[test]
fn too_little_memory_says_how_much_is_needed() {
    let store = memory();
    create(&store, &rows(0, 10), false);
    for threads in [1, 2, 7] {
        let Err(Error::Common(CommonError::Limit { what, needed, .. })) =
            scan(&store, threads, Some(1))
        else {
            panic!("one byte is not enough");
        };
        assert!(what.contains(&format!("{threads} threads")), "{what}");
        let needed: u64 = needed.trim_end_matches(" bytes").parse().unwrap();
        let refused = scan(&store, threads, Some(needed - 1)).unwrap_err();
        assert_eq!(refused.kind(), "limit");
        let enough = scan(&store, threads, Some(needed)).unwrap();
        assert_eq!(drain(&enough).rows_returned, 10);
    }
}
