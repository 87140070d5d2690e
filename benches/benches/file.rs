//! Data files: write, scan, take; with and without verified checksums, by block size.
#![expect(clippy::unwrap_used, reason = "a benchmark")]

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use futures::executor::block_on;
use pilum_file::{FileReader, FileWriter, OpenOptions, Rows, WriteOptions, WrittenFile};
use pilum_format::{Dictionaries, Schema};
use pilum_store::{Durability, StorageOptions, Store};

fn write(
    store: &Store,
    path: &str,
    batch: &RecordBatch,
    options: WriteOptions,
) -> (Arc<Schema>, WrittenFile) {
    let schema = Arc::new(Schema::from_arrow(&batch.schema(), 0).unwrap());
    let written = block_on(async {
        let sink = store.writer(path).await.unwrap();
        let mut writer = FileWriter::new(Arc::clone(&schema), path, sink, options, 0).unwrap();
        writer.write(batch).await.unwrap();
        writer.finish(&Dictionaries::new()).await.unwrap()
    });
    (schema, written)
}

fn open(store: &Store, written: &WrittenFile, verify: bool) -> FileReader {
    block_on(async {
        let file = store.open_file(&written.path, None).await.unwrap();
        let options = OpenOptions {
            field_ids: Some(&written.field_ids),
            metadata_crc32c: None,
            skip_verification: !verify,
            ..OpenOptions::default()
        };
        FileReader::open(file, options).await.unwrap()
    })
}

fn scan(reader: &FileReader, schema: &Schema) -> usize {
    let mut bytes = 0;
    for batch in 0..reader.num_batches() {
        let rows = reader.batch_rows(batch);
        let rows = Rows::all(rows.end - rows.start);
        let arrays =
            block_on(reader.read_batch(&schema.fields, batch, &rows, &Dictionaries::new()))
                .unwrap();
        bytes += arrays
            .iter()
            .map(|array| touch(array.as_ref()))
            .sum::<usize>();
    }
    bytes
}

/// Reads every byte of an array: a decoder may not win by leaving pages untouched.
fn touch(array: &dyn Array) -> usize {
    let mut sum = 0_u64;
    fn walk(data: &arrow_data::ArrayData, sum: &mut u64) {
        for buffer in data.buffers() {
            let (words, _) = buffer.as_slice().as_chunks::<8>();
            *sum = words
                .iter()
                .fold(*sum, |sum, word| sum ^ u64::from_le_bytes(*word));
        }
        data.child_data().iter().for_each(|child| walk(child, sum));
    }
    walk(&array.to_data(), &mut sum);
    array.len() + usize::from(sum == 1)
}

fn tables(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap(), &StorageOptions::new()).unwrap();
    let store = store.with_durability(Durability::None);
    for (name, batch) in [
        ("mixed", pilum_benches::mixed(2_000_000).unwrap()),
        ("vectors", pilum_benches::vectors(100_000).unwrap()),
    ] {
        let mut group = c.benchmark_group(name);
        group
            .sample_size(10)
            .throughput(Throughput::Bytes(batch.get_array_memory_size() as u64));
        let mut count = 0;
        group.bench_function("write", |b| {
            b.iter(|| {
                count += 1;
                let path = format!("data/{name}-{count}.lance");
                write(&store, &path, &batch, WriteOptions::default());
                block_on(store.delete(&path)).unwrap();
            });
        });
        let num_rows = batch.num_rows() as u64;
        let picks =
            Rows::from_sorted_indices((0..1000).map(|row| row * (num_rows / 1000) + row % 7))
                .unwrap();
        for block in [512_usize, 1024, 2048, 4096, 8192] {
            let mut options = WriteOptions::default();
            options.checksum_block = NonZeroUsize::new(block);
            let (schema, written) = write(
                &store,
                &format!("data/{name}-b{block}.lance"),
                &batch,
                options,
            );
            for verify in [true, false] {
                let reader = open(&store, &written, verify);
                let label = if verify {
                    format!("verified by {block}")
                } else {
                    format!("unverified {block}")
                };
                group.bench_function(format!("scan {label}"), |b| {
                    b.iter(|| scan(&reader, &schema))
                });
                group.bench_function(format!("take 1000 {label}"), |b| {
                    b.iter(|| {
                        block_on(reader.read_rows(&schema.fields, &picks, &Dictionaries::new()))
                            .unwrap()
                            .len()
                    });
                });
                if block != 512 && !verify {
                    break;
                }
            }
        }
        let (_, written) = write(
            &store,
            &format!("data/{name}-open.lance"),
            &batch,
            WriteOptions::default(),
        );
        group.bench_function("open", |b| b.iter(|| open(&store, &written, true)));
        group.finish();
    }
}

criterion_group!(benches, tables);
criterion_main!(benches);
