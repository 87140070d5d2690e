//! Ten million stable row ids: what the index of a version costs to make, and to ask.
//!
//! ```text
//! contiguous   as appended: ten fragments
//! fragmented   after deletes, updates and compactions: every seventh id, and every eleventh, in other places
//! ```
#![expect(clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, RecordBatchIterator};
use arrow_schema::{DataType, Field, Schema};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use futures::StreamExt;
use pilum_table::{
    CompactOptions, Dataset, Durability, Projection, ROW_ID, ScanOptions, Snapshot,
    StatementOptions, StorageOptions, Store, VersionRef, WriteOptions, parse_sql,
};
use tokio::runtime::Runtime;

const ROWS: u64 = 10_000_000;
const ASKED: u64 = 1_000_000;

fn create(runtime: &Runtime, uri: &str) {
    let schema = Schema::new(vec![
        Field::new("n", DataType::Int32, false),
        Field::new("x", DataType::Int32, false),
    ]);
    let schema = Arc::new(schema);
    let rows = i32::try_from(ROWS).unwrap();
    let batches = (0..10).map({
        let schema = Arc::clone(&schema);
        move |piece| {
            let numbers = piece * (rows / 10)..(piece + 1) * (rows / 10);
            let column: ArrayRef = Arc::new(Int32Array::from_iter_values(numbers));
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&column), column])
        }
    });
    let mut options = WriteOptions::default();
    options.durability = Durability::None;
    options.stable_row_ids = true;
    options.max_rows_per_file = ROWS / 10;
    let rows = RecordBatchIterator::new(batches, schema);
    let storage = StorageOptions::new();
    let written = Dataset::write(uri, rows, &options, &storage);
    runtime.block_on(written).unwrap();
}

/// Statements that move rows, with a compaction between and behind them.
fn scatter(runtime: &Runtime, uri: &str) {
    let storage = StorageOptions::new();
    let open = || {
        let opened = Dataset::open(uri, &VersionRef::Latest, &storage);
        runtime.block_on(opened).unwrap()
    };
    let mut statement = StatementOptions::default();
    statement.durability = Durability::None;
    let update = |filter: &str| {
        let set = [("x".to_owned(), parse_sql("x + 1").unwrap())];
        let filter = parse_sql(filter).unwrap();
        let table = open();
        let updated = table.update(&set, Some(&filter), &statement, runtime.handle());
        runtime.block_on(updated).unwrap();
    };
    let compact = || {
        let mut options = CompactOptions::default();
        options.statement = statement.clone();
        let table = open();
        let compacted = table.compact(&options, runtime.handle());
        runtime.block_on(compacted).unwrap();
    };
    update("n % 7 = 3");
    let gone = parse_sql("n % 13 = 5").unwrap();
    let table = open();
    let deleted = table.delete(&gone, &statement, runtime.handle());
    runtime.block_on(deleted).unwrap();
    compact();
    update("n % 11 = 2");
    compact();
}

/// All row ids of a version, as they lie.
fn ids(runtime: &Runtime, snapshot: &Snapshot) -> Vec<u64> {
    let mut options = ScanOptions::default();
    options.columns = Projection::Names(vec![ROW_ID.to_owned()]);
    let scan = snapshot.scan(options).unwrap();
    runtime.block_on(async {
        let mut batches = scan.batches(runtime.handle());
        let mut ids = Vec::new();
        while let Some(batch) = batches.next().await {
            let batch = batch.unwrap();
            let column = batch.column(0).to_data();
            ids.extend_from_slice(column.buffer::<u64>(0).get(..batch.num_rows()).unwrap());
        }
        ids
    })
}

fn row_ids(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let uri = folder.path().join("t").to_str().unwrap().to_owned();
    create(&runtime, &uri);
    let store = Store::open(&uri, &StorageOptions::new()).unwrap();
    for form in ["contiguous", "fragmented"] {
        if form == "fragmented" {
            scatter(&runtime, &uri);
        }
        let open = || runtime.block_on(Snapshot::newest(&store)).unwrap();
        let snapshot = open();
        let mut asked = ids(&runtime, &snapshot);
        // Steps of a large odd number through all of them: an order without order, the same in every run.
        let len = asked.len() as u64;
        let step = |n: u64| usize::try_from(n * 7_368_787 % len).unwrap();
        asked = (0..ASKED).map(|n| asked[step(n)]).collect();
        let mut group = c.benchmark_group(format!("row ids, {form}"));
        group.sample_size(10);
        group.bench_function("open the table", |b| b.iter(open));
        group.bench_function("make the index", |b| {
            b.iter_batched(
                open,
                |snapshot| {
                    runtime
                        .block_on(snapshot.row_addresses(&asked[..1]))
                        .unwrap()
                },
                BatchSize::PerIteration,
            );
        });
        runtime
            .block_on(snapshot.row_addresses(&asked[..1]))
            .unwrap();
        group.throughput(Throughput::Elements(ASKED));
        group.bench_function("ask for a million, shuffled", |b| {
            b.iter(|| {
                runtime
                    .block_on(snapshot.row_addresses(black_box(&asked)))
                    .unwrap()
            });
        });
        group.finish();
    }
}

criterion_group!(benches, row_ids);
criterion_main!(benches);
