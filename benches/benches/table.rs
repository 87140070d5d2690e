//! Tables: open, scan, filter, take; what a reader of `pilum.dataset(uri)` pays above the file.
#![expect(clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;

use arrow_array::RecordBatchIterator;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use futures::StreamExt;
use pilum_table::{
    Dataset, Durability, Projection, ScanOptions, Snapshot, StorageOptions, Store, VersionRef,
    WriteOptions,
};

fn tables(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let uri = folder.path().join("mixed").to_str().unwrap().to_owned();
    let storage = StorageOptions::new();
    let batch = pilum_benches::mixed(2_000_000).unwrap();
    let bytes = batch.get_array_memory_size() as u64;
    let mut options = WriteOptions::default();
    options.durability = Durability::None;
    let rows = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
    runtime
        .block_on(Dataset::write(&uri, rows, &options, &storage))
        .unwrap();

    let mut group = c.benchmark_group("table");
    group.sample_size(10);
    group.bench_function("open", |b| {
        b.iter(|| {
            runtime
                .block_on(Dataset::open(&uri, &VersionRef::Latest, &storage))
                .unwrap()
        });
    });
    let store = Store::open(&uri, &storage).unwrap();
    let snapshot = runtime.block_on(Snapshot::newest(&store)).unwrap();
    for count in [1_u64, 10, 1000, 10_000] {
        let positions: Vec<u64> = (0..count)
            .map(|i| i * 1_999_993 / count % 2_000_000)
            .collect();
        group.bench_function(format!("take {count}"), |b| {
            b.iter(|| {
                runtime
                    .block_on(snapshot.take(black_box(&positions), Projection::All))
                    .unwrap()
                    .num_rows()
            });
        });
    }
    group.throughput(Throughput::Bytes(bytes));
    let scan = |columns: Projection, filter: Option<&str>| {
        let mut options = ScanOptions::default();
        options.columns = columns;
        options.filter = filter.map(|text| pilum_table::parse_sql(text).unwrap());
        let scan = snapshot.scan(options).unwrap();
        runtime.block_on(async {
            let mut batches = scan.batches(runtime.handle());
            let mut rows = 0;
            while let Some(batch) = batches.next().await {
                rows += batch.unwrap().num_rows();
            }
            rows
        })
    };
    group.bench_function("scan", |b| b.iter(|| scan(Projection::All, None)));
    let two = || Projection::Names(vec!["id".to_owned(), "x".to_owned()]);
    group.bench_function("scan two columns", |b| b.iter(|| scan(two(), None)));
    group.bench_function("filter one row by order", |b| {
        b.iter(|| scan(Projection::All, Some("id = 1234567")))
    });
    group.bench_function("filter one in a thousand", |b| {
        b.iter(|| scan(Projection::All, Some("\"group\" = 7")))
    });
    group.finish();
}

criterion_group!(benches, tables);
criterion_main!(benches);
