//! Benchmarks of pages without files: encode, decode, statistics, checksums.
#![expect(clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;

use arrow_array::Array;
use arrow_buffer::Buffer;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pilum_encoding::{Page, Rows, Segments, StatisticsBuilder, crc32c, decode_page, encode_page};

fn pages(c: &mut Criterion) {
    let rows = 65_536;
    let batch = pilum_benches::mixed(rows).unwrap();
    for column in ["id", "x", "ok", "key"] {
        let array = batch.column_by_name(column).unwrap();
        let field = batch.schema().field_with_name(column).unwrap().clone();
        let mut group = c.benchmark_group(format!("page/{column}"));
        let encoded = encode_page(array, true, None, 0).unwrap();
        group.throughput(Throughput::Bytes(encoded.byte_len));
        group.bench_function("encode", |b| {
            b.iter(|| encode_page(black_box(array), true, None, 0).unwrap())
        });
        if pilum_encoding::has_statistics(array.data_type()) {
            group.bench_function("statistics", |b| {
                b.iter(|| {
                    let mut statistics = StatisticsBuilder::new(array.data_type()).unwrap();
                    statistics.push_page(array, None).unwrap();
                    statistics.finish()
                });
            });
        }
        let bytes: Vec<u8> = encoded
            .buffers
            .iter()
            .flat_map(|buffer| buffer.as_slice())
            .copied()
            .collect();
        let page = Page {
            position: encoded.pointer,
            length: encoded.length,
        };
        let source = Segments::new([(0, Buffer::from_vec(bytes))]);
        let all = Rows::all(rows as u64);
        group.bench_function("decode", |b| {
            b.iter(|| {
                decode_page(&field, &page, rows as u64, &[], black_box(&all), &source).unwrap()
            });
        });
        let some = Rows::from_sorted_indices((0..1000).map(|row| row * 65)).unwrap();
        group.throughput(Throughput::Elements(1000));
        group.bench_function("take 1000", |b| {
            b.iter(|| {
                decode_page(&field, &page, rows as u64, &[], black_box(&some), &source).unwrap()
            });
        });
        group.finish();
    }
}

fn checksums(c: &mut Criterion) {
    let bytes = vec![7_u8; 1 << 20];
    let mut group = c.benchmark_group("crc32c");
    for block in [512, 1024, 2048, 4096, 8192] {
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(format!("blocks of {block}"), |b| {
            b.iter(|| {
                bytes
                    .chunks(block)
                    .fold(0, |all, block| all ^ crc32c(black_box(block)))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, pages, checksums);
criterion_main!(benches);
