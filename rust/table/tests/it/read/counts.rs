//! Counts of rows where a fragment has none: 0 physical rows in a manifest may mean "unknown" or "none".

use futures::TryStreamExt;
use pilum_table::{DataFile, Fragment, Projection, ScanOptions, Store, parse_sql};
use pilum_testing::Message;

use crate::forge::manifest_file;
use crate::support::{append, block_on, change_manifest, create, memory, open, rows, runtime};

/// A data file of the column `id` without rows, as another writer may leave it.
fn empty_file(store: &Store, name: &str) -> DataFile {
    let metadata = Message::new().bytes(2, [0]).number(3, 0);
    let bytes = manifest_file(&[0; 16], metadata);
    block_on(store.put(&format!("data/{name}"), bytes.into())).unwrap();
    DataFile {
        path: name.to_owned(),
        field_ids: vec![0],
        file_version: (0, 2),
        ..DataFile::default()
    }
}

fn scanned(store: &Store, options: ScanOptions) -> u64 {
    let runtime = runtime();
    let scan = open(store).snapshot().scan(options).unwrap();
    let batches = scan.batches(runtime.handle());
    let batches: Vec<_> = runtime.block_on(batches.try_collect()).unwrap();
    let batches: Vec<arrow_array::RecordBatch> = batches;
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}

#[test]
fn a_fragment_without_rows_does_not_hide_the_rows_of_others() {
    for stable_row_ids in [false, true] {
        let store = memory();
        create(&store, &rows(0, 10), stable_row_ids);
        let file = empty_file(&store, "empty.lance");
        change_manifest(&store, |manifest| {
            let without_file = Fragment {
                id: 1,
                row_ids: stable_row_ids.then(Default::default),
                ..Fragment::default()
            };
            let of_empty_file = Fragment {
                id: 2,
                files: vec![file],
                row_ids: stable_row_ids.then(Default::default),
                ..Fragment::default()
            };
            manifest.fragments.extend([without_file, of_empty_file]);
            manifest.max_fragment_id = Some(2);
        });
        append(&store, &rows(10, 5));
        let snapshot = open(&store).snapshot().clone();
        assert_eq!(snapshot.num_rows(), 15);
        let count = |filter: Option<&str>| {
            let filter = filter.map(|filter| parse_sql(filter).unwrap());
            let runtime = runtime();
            runtime.block_on(snapshot.count_rows(filter, runtime.handle()))
        };
        assert_eq!(count(None).unwrap(), 15);
        assert_eq!(count(Some("id >= 8")).unwrap(), 7);
        assert_eq!(scanned(&store, ScanOptions::default()), 15);
        let mut options = ScanOptions::default();
        (options.offset, options.limit) = (11, Some(100));
        assert_eq!(scanned(&store, options), 4);
        let ids = Projection::Names(vec!["id".to_owned()]);
        let taken = block_on(snapshot.take(&[14, 9, 10], ids)).unwrap();
        assert_eq!(taken.num_rows(), 3);
        let nothing = snapshot.diff(&snapshot);
        assert_eq!(block_on(nothing).unwrap().num_added, 0);
    }
}

#[test]
fn row_ids_of_a_fragment_without_rows_are_damage() {
    let store = memory();
    create(&store, &rows(0, 10), true);
    change_manifest(&store, |manifest| {
        let ids = pilum_format::RowIdSequence::from_range(10..1 << 40);
        manifest.fragments.push(Fragment {
            id: 1,
            row_ids: Some(ids.encode()),
            ..Fragment::default()
        });
        manifest.max_fragment_id = Some(1);
    });
    let snapshot = open(&store).snapshot().clone();
    assert_eq!(snapshot.num_rows(), 10);
    let error = block_on(snapshot.row_addresses(&[20])).unwrap_err();
    assert_eq!(error.kind(), "corrupt");
    assert!(error.to_string().contains("for 0 rows"), "{error}");
}
