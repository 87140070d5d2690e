//! Files in memory, and batches to put into them.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, StructArray,
};
use arrow_schema::{DataType, Field};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, TryStreamExt};
use pilum_parquet::{
    Dataset, FileWriter, ParquetFile, ReadLimits, Result, ScanOptions, WriteOptions,
};
use pilum_store::{ReadAt, StorageOptions, Store};
use tokio::runtime::Runtime;

/// The bytes of a file.
#[derive(Debug)]
pub(crate) struct InMemory(pub(crate) Bytes);

impl ReadAt for InMemory {
    fn path(&self) -> &str {
        "memory.parquet"
    }

    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn mapped(&self) -> Option<&Bytes> {
        Some(&self.0)
    }

    fn read_ranges<'a>(
        &'a self,
        ranges: &'a [Range<u64>],
    ) -> BoxFuture<'a, pilum_store::Result<Vec<Bytes>>> {
        async move {
            let one = |range: &Range<u64>| {
                let is_inside = range.start <= range.end && range.end <= self.size();
                is_inside
                    .then(|| self.0.slice(place(range.start)..place(range.end)))
                    .ok_or_else(|| pilum_store::Error::OutOfRange {
                        path: self.path().to_owned(),
                        range: range.clone(),
                        size: self.size(),
                    })
            };
            ranges.iter().map(one).collect()
        }
        .boxed()
    }

    fn read_tail(&self, num_bytes: u64) -> BoxFuture<'_, pilum_store::Result<Bytes>> {
        async move {
            let start = self.size() - num_bytes.min(self.size());
            Ok(self.0.slice(place(start)..))
        }
        .boxed()
    }

    fn prefetch(&self, _ranges: &[Range<u64>]) -> pilum_store::Result<()> {
        Ok(())
    }

    fn release(&self, _range: Range<u64>) {}

    fn read_mapped(&self, range: Range<u64>) -> Option<pilum_store::Result<Bytes>> {
        Some(Ok(self.0.slice(place(range.start)..place(range.end))))
    }
}

fn place(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap()
}

/// Rows with numbers, floats with NaN, texts, structs and lists, every seventh of them null.
pub(crate) fn rows(from: i64, count: i64) -> RecordBatch {
    let numbers = from..from + count;
    let some = |n: &i64| (n % 7 != 3).then_some(*n);
    let x: Int64Array = numbers.clone().map(Some).collect();
    let y: Int64Array = numbers.clone().map(|n| some(&n)).collect();
    let f: Float64Array = numbers
        .clone()
        .map(|n| {
            some(&n).map(|n| {
                if n % 11 == 0 {
                    f64::NAN
                } else {
                    n as f64 / 2.0
                }
            })
        })
        .collect();
    let s: StringArray = numbers
        .clone()
        .map(|n| some(&n).map(|n| format!("text {}", n % 50)))
        .collect();
    let inner: ArrayRef = Arc::new(y.clone());
    let field = Arc::new(Field::new("n", DataType::Int64, true));
    let st = StructArray::new(vec![field].into(), vec![inner], s.nulls().cloned());
    let mut list = ListBuilder::new(Int64Builder::new());
    for n in numbers {
        if n % 5 == 0 {
            list.append_null();
            continue;
        }
        (0..n % 4).for_each(|item| list.values().append_value(item));
        list.append(true);
    }
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("x", Arc::new(x), false),
        ("y", Arc::new(y), true),
        ("f", Arc::new(f), true),
        ("s", Arc::new(s), true),
        ("st", Arc::new(st), true),
        ("l", Arc::new(list.finish()), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// The bytes of a file with a batch.
pub(crate) fn written(batch: &RecordBatch, options: &WriteOptions) -> Vec<u8> {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    futures::executor::block_on(async {
        let store = Store::open(
            &format!("memory://parquet-{number}/"),
            &StorageOptions::new(),
        )
        .unwrap();
        let mut writer = FileWriter::create(&store, "f.parquet", &batch.schema(), options)
            .await
            .unwrap();
        writer.write(batch).await.unwrap();
        let done = writer.finish().await.unwrap();
        assert_eq!(done.num_rows, batch.num_rows() as u64);
        let bytes = store.read("f.parquet", u64::MAX).await.unwrap();
        assert_eq!(done.num_bytes, bytes.len() as u64);
        bytes.to_vec()
    })
}

pub(crate) fn open(bytes: impl Into<Bytes>, limits: &ReadLimits) -> Result<Arc<ParquetFile>> {
    let source = Arc::new(InMemory(bytes.into()));
    futures::executor::block_on(ParquetFile::of_source(source, limits))
}

pub(crate) fn dataset(bytes: impl Into<Bytes>) -> Arc<Dataset> {
    let file = open(bytes, &ReadLimits::default()).unwrap();
    Arc::new(Dataset::of_files(vec![(file, Default::default())], &[]).unwrap())
}

pub(crate) fn read(dataset: &Arc<Dataset>, options: ScanOptions, runtime: &Runtime) -> RecordBatch {
    let scan = dataset.scan(options).unwrap();
    let schema = Arc::clone(scan.schema());
    let batches: Vec<_> = runtime
        .block_on(scan.batches(runtime.handle()).try_collect())
        .unwrap();
    arrow_select::concat::concat_batches(&schema, &batches).unwrap()
}
