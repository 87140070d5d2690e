//! Damaged and hostile files: an error, never a panic, a stall or much memory.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use pilum_parquet::{
    CommonError, Dataset, Error, FileCompression, ParquetFile, Projection, ReadLimits, ScanOptions,
    WriteOptions, inspect,
};
use pilum_testing::{Random, Target, fuzz};
use tokio::runtime::Runtime;

use crate::support::{open, rows, runtime, written};

#[global_allocator]
static COUNTING: pilum_testing::CountingAllocator = pilum_testing::CountingAllocator;

const CASES: u64 = 1500;
/// A hostile file may declare any number of rows, which cost nothing until they are read.
const MOST_ROWS: usize = 100_000;

fn limits() -> ReadLimits {
    let mut limits = ReadLimits::default();
    limits.footer_bytes = 1 << 20;
    limits.page_bytes = 4 << 20;
    limits.free_page_bytes = 1 << 20;
    limits.repeated_values = 1 << 18;
    limits
}

/// Reads a file by all ways.
fn read_all(file: &Arc<ParquetFile>, runtime: &Runtime) -> Result<(), Error> {
    let dataset = Arc::new(Dataset::of_files(
        vec![(Arc::clone(file), HashMap::new())],
        &[],
    )?);
    for filter in [None, Some("x > 100 AND s >= 'text 2'")] {
        let mut options = ScanOptions::default();
        options.filter = filter.map(|sql| pilum_expr::parse_sql(sql).unwrap());
        options.batch_rows = Some(1000);
        let mut batches = dataset.scan(options)?.batches(runtime.handle());
        let mut rows = 0;
        while let Some(batch) = runtime.block_on(batches.next()) {
            rows += batch?.num_rows();
            if rows > MOST_ROWS {
                break;
            }
        }
    }
    if file.num_rows() > 0 {
        let last = file.num_rows() - 1;
        runtime.block_on(dataset.take(&[0, last / 2, last], Projection::All, runtime.handle()))?;
    }
    runtime.block_on(inspect(file, true))?;
    Ok(())
}

/// Changes a byte of the footer or of a page header rather than of the values.
fn damage(bytes: &mut [u8], random: &mut Random) {
    let size = bytes.len();
    let footer = bytes[size - 8..size - 4]
        .try_into()
        .map_or(0, u32::from_le_bytes) as usize;
    let start = size.saturating_sub(8 + footer.min(size));
    for _ in 0..=random.below(3) {
        let place = match random.below(3) {
            0 => random.below(size),
            _ => start + random.below(size - start),
        };
        match random.below(3) {
            0 => bytes[place] = u8::try_from(random.below(256)).unwrap(),
            1 => bytes[place] ^= 1 << random.below(8),
            _ => bytes[place] = [0x00, 0x7f, 0x80, 0xff][random.below(4)],
        }
    }
}

#[test]
fn fuzz_parquet_files() {
    let mut corpus = Vec::new();
    for (place, compression) in [
        FileCompression::Uncompressed,
        FileCompression::Snappy,
        FileCompression::Zstd(None),
    ]
    .into_iter()
    .enumerate()
    {
        let mut options = WriteOptions::default();
        (options.row_group_rows, options.page_rows) = (200, 50);
        options.compression = compression;
        // Without checksums damaged values reach the decoders.
        options.page_checksums = place == 1;
        options.dictionary = place != 0;
        options.data_page_v2 = place == 2;
        corpus.push(written(&rows(0, 500), &options));
    }
    let runtime = runtime();
    let target = Target {
        name: "parquet",
        corpus,
        damage: &|bytes, random| damage(bytes, random),
        mend: &|_| {},
        decode: &|bytes, _| {
            let opened = open(Bytes::copy_from_slice(bytes), &limits());
            opened.and_then(|file| read_all(&file, &runtime)).is_ok()
        },
    };
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    // The decoder's panics are contained; their messages would hide those of the test.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fuzz(&target, &kept, CASES)));
    std::panic::set_hook(hook);
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let bytes = written(&rows(0, 50), &WriteOptions::default());
    for len in 0..bytes.len() {
        let error = open(bytes[..len].to_vec(), &ReadLimits::default()).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Common(CommonError::Corrupt { .. } | CommonError::Limit { .. })
            ),
            "{len}: {error}"
        );
    }
}

#[test]
fn bombs_are_refused_before_they_are_unpacked() {
    let batch = {
        let zeros = arrow_array::Int64Array::from(vec![0; 1 << 20]);
        arrow_array::RecordBatch::try_from_iter([("x", Arc::new(zeros) as _)]).unwrap()
    };
    let mut options = WriteOptions::default();
    options.dictionary = false;
    (options.page_bytes, options.page_rows) = (64 << 20, 1 << 20);
    let bytes = written(&batch, &options);
    assert!(bytes.len() < 10_000, "{}", bytes.len());
    let file = open(bytes, &limits()).unwrap();
    let error = read_all(&file, &runtime()).unwrap_err();
    assert!(
        matches!(error, Error::Common(CommonError::Limit { .. })),
        "{error}"
    );
}
