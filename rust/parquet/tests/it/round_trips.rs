//! Rows written are the rows read, whole, by predicate and by position.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, Int64Array, UInt64Array};
use arrow_schema::{DataType, Field};
use arrow_select::take::take_record_batch;
use pilum_expr::{ColumnPath, bind, parse_sql};
use pilum_parquet::{
    CommonError, Dataset, Error, FileCompression, Projection, ReadLimits, ScanOptions,
    WriteOptions, inspect,
};

use crate::support::{dataset, open, read, rows, runtime, written};

fn small() -> WriteOptions {
    let mut options = WriteOptions::default();
    (options.row_group_rows, options.page_rows) = (300, 40);
    options
}

fn filtered(sql: &str) -> ScanOptions {
    let mut options = ScanOptions::default();
    options.filter = Some(parse_sql(sql).unwrap());
    options
}

#[test]
fn rows_come_back_with_every_option() {
    let (batch, runtime) = (rows(0, 1000), runtime());
    for compression in [
        FileCompression::Uncompressed,
        FileCompression::Snappy,
        FileCompression::Lz4,
        FileCompression::Zstd(Some(3)),
        FileCompression::Gzip(None),
        FileCompression::Brotli(None),
    ] {
        for flags in 0..16 {
            let mut options = small();
            options.compression = compression;
            options.dictionary = flags & 1 != 0;
            options.page_index = flags & 2 != 0;
            options.page_checksums = flags & 4 != 0;
            options.data_page_v2 = flags & 8 != 0;
            let dataset = dataset(written(&batch, &options));
            let mut scan = ScanOptions::default();
            scan.batch_rows = Some(64);
            let got = read(&dataset, scan, &runtime);
            assert_eq!(format!("{got:?}"), format!("{batch:?}"), "{options:?}");
        }
    }
}

#[test]
fn every_page_has_a_right_checksum() {
    let file = open(written(&rows(0, 1000), &small()), &ReadLimits::default()).unwrap();
    let found = futures::executor::block_on(inspect(&file, true)).unwrap();
    let mut pages = 0;
    for group in found["row_groups"].as_array().unwrap() {
        for chunk in group["columns"].as_array().unwrap() {
            let data = chunk["pages"].as_array().unwrap().iter();
            let data = data.filter(|page| page["kind"] == "data");
            assert_eq!(chunk["indexed_pages"], data.count());
            for page in chunk["pages"].as_array().unwrap() {
                assert_eq!(page["checksum"], "right");
                pages += 1;
            }
        }
    }
    assert!(pages > 100, "{pages}");
}

#[test]
fn predicates_leave_out_row_groups_and_pages() {
    let (batch, runtime) = (rows(0, 1000), runtime());
    let dataset = dataset(written(&batch, &small()));
    for (sql, most) in [
        ("x = 615", 1),
        ("y > 990", 10),
        ("f < 3 AND x < 100", 10),
        ("st.n = 7", 1),
    ] {
        let scan = dataset.scan(filtered(sql)).unwrap();
        let got = read(&dataset, filtered(sql), &runtime);
        assert!(
            got.num_rows() >= 1 && got.num_rows() <= most,
            "{sql}: {}",
            got.num_rows()
        );
        let batches = scan.batches(runtime.handle());
        runtime
            .block_on(futures::TryStreamExt::try_collect::<Vec<_>>(batches))
            .unwrap();
        let metrics = scan.metrics();
        assert_eq!(metrics.row_groups, 4, "{sql}");
        assert_eq!(metrics.row_groups_pruned, 3, "{sql}");
        assert!(
            metrics.pages_pruned > 0 && metrics.rows_scanned <= 80,
            "{sql}: {metrics:?}"
        );
    }
}

#[test]
fn statistics_are_arrow_arrays_and_prune_row_groups() {
    let file = open(written(&rows(0, 1000), &small()), &ReadLimits::default()).unwrap();
    let of = |name: &str| {
        let path = ColumnPath::new([name.to_owned()]);
        file.row_group_statistics(&path).unwrap()
    };
    let x = of("x").unwrap();
    assert_eq!(
        x.min.as_primitive::<Int64Type>().values(),
        &[0, 300, 600, 900]
    );
    assert_eq!(
        x.max.as_primitive::<Int64Type>().values(),
        &[299, 599, 899, 999]
    );
    assert_eq!(x.null_count, UInt64Array::from(vec![0; 4]));
    assert!(of("l").is_none() && of("st").is_none() && of("missing").is_none());
    let predicate = bind(&parse_sql("x BETWEEN 310 AND 620").unwrap(), file.schema()).unwrap();
    assert_eq!(
        file.prune_row_groups(&predicate, &HashMap::new()).unwrap(),
        [1, 2]
    );
}

#[test]
fn positions_give_their_rows_in_their_order() {
    let (batch, runtime) = (rows(0, 1000), runtime());
    for page_index in [true, false] {
        let mut options = small();
        options.page_index = page_index;
        let file = open(written(&batch, &options), &ReadLimits::default()).unwrap();
        let key = Arc::new(Field::new("k", DataType::Int64, true));
        let one = |value: i64| {
            HashMap::from([("k".to_owned(), Arc::new(Int64Array::from(vec![value])) as _)])
        };
        let files = vec![(Arc::clone(&file), one(1)), (file, one(2))];
        let dataset = Arc::new(Dataset::of_files(files, &[key]).unwrap());
        let positions = [1999, 0, 5, 5, 1000, 299, 300, 301, 1300];
        let taken = runtime
            .block_on(dataset.take(&positions, Projection::All, runtime.handle()))
            .unwrap();
        let places: UInt64Array = positions.map(|it| it % 1000).to_vec().into();
        let want = take_record_batch(&batch, &places).unwrap();
        let columns: Vec<usize> = (0..6).collect();
        assert_eq!(
            format!("{:?}", taken.project(&columns).unwrap().columns()),
            format!("{:?}", want.columns())
        );
        let keys = taken.column(6).as_primitive::<Int64Type>();
        assert_eq!(keys.values(), &[2, 1, 1, 1, 2, 1, 1, 1, 2]);
        let error = runtime.block_on(dataset.take(&[2000], Projection::All, runtime.handle()));
        assert!(
            matches!(error, Err(Error::Common(CommonError::InvalidInput { .. }))),
            "{error:?}"
        );
    }
}

#[test]
fn columns_come_in_the_order_asked_for_with_members_of_structs() {
    let (batch, runtime) = (rows(0, 100), runtime());
    let dataset = dataset(written(&batch, &small()));
    let mut options = ScanOptions::default();
    options.columns = Projection::Names(vec!["st.n".to_owned(), "x".to_owned()]);
    options.limit = Some(3);
    options.offset = 50;
    let got = read(&dataset, options, &runtime);
    assert_eq!(got.schema().field(0).name(), "st");
    assert_eq!(
        got.column(1).as_primitive::<Int64Type>().values(),
        &[50, 51, 52]
    );
    assert_eq!(got.column(0).as_struct().num_columns(), 1);
}

#[test]
fn a_file_without_rows_keeps_its_columns() {
    let (batch, runtime) = (rows(0, 0), runtime());
    let dataset = dataset(written(&batch, &small()));
    assert_eq!(dataset.num_rows(), 0);
    let got = read(&dataset, ScanOptions::default(), &runtime);
    assert_eq!((got.num_rows(), got.schema().fields().len()), (0, 6));
    assert!(got.column(0).is_empty());
}
