//! Row ids that are many in a few bytes of a manifest: reading takes the memory of the rows that come out.

use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use futures::StreamExt;
use pilum_format::RowIdSequence;
use pilum_table::{
    Dataset, Fragment, Projection, ROW_ID, ScanOptions, Snapshot, Store, VersionRef,
};
use pilum_testing::peak_bytes;

use crate::support::{append, block_on, change_manifest, create, memory, open, rows, runtime};

/// Rows of the enormous fragment: the most that a fragment can have.
const ROWS: u64 = 1 << 32;
const MIB: usize = 1 << 20;

/// Gives the newest version a fragment of 2^32 rows without any file, whose ids are `ids`.
fn add_enormous_fragment(store: &Store, ids: Range<u64>) {
    change_manifest(store, |manifest| {
        let id = manifest.highest_fragment_id().unwrap_or_default() + 1;
        manifest.fragments.push(Fragment {
            id,
            physical_rows: ids.end - ids.start,
            row_ids: Some(RowIdSequence::from_range(ids).encode()),
            ..Fragment::default()
        });
        manifest.max_fragment_id = Some(u32::try_from(id).unwrap());
        manifest.next_row_id = 1 << 40;
    });
}

fn at(store: &Store, version: u64) -> Snapshot {
    let table = block_on(Dataset::open_in(store, &VersionRef::Number(version))).unwrap();
    table.snapshot().clone()
}

#[test]
fn a_scan_does_not_expand_the_row_ids_of_a_fragment() {
    let store = memory();
    create(&store, &rows(0, 10), true);
    add_enormous_fragment(&store, 100..100 + ROWS);
    let snapshot = open(&store).snapshot().clone();
    assert_eq!(snapshot.num_rows(), 10 + ROWS);
    let mut options = ScanOptions::default();
    options.columns = Projection::Names(vec![ROW_ID.to_owned()]);
    options.threads = Some(1);
    options.offset = 10 + ROWS - 100_000;
    let scan = snapshot.scan(options).unwrap();
    let mut batches = scan.batches(runtime().handle());
    let (ids, peak) = peak_bytes(|| {
        let mut expected = 100 + ROWS - 100_000;
        while let Some(batch) = block_on(batches.next()) {
            let batch: RecordBatch = batch.unwrap();
            for id in batch.column(0).as_primitive::<UInt64Type>().values() {
                assert_eq!(*id, expected);
                expected += 1;
            }
        }
        expected
    });
    assert_eq!(ids, 100 + ROWS);
    assert!(peak < 32 * MIB, "{peak} bytes");
}

#[test]
fn a_row_is_found_among_enormous_row_ids() {
    let store = memory();
    create(&store, &rows(0, 10), true);
    add_enormous_fragment(&store, 100..100 + ROWS);
    let snapshot = open(&store).snapshot().clone();
    let asked = [5, 100, 100 + ROWS - 1, 100 + ROWS - 2];
    let (addresses, peak) = peak_bytes(|| block_on(snapshot.row_addresses(&asked)).unwrap());
    let high = 1 << 32;
    assert_eq!(addresses, [5, high, high + ROWS - 1, high + ROWS - 2]);
    assert!(peak < MIB, "{peak} bytes");
}

#[test]
fn a_difference_does_not_expand_row_ids() {
    let store = memory();
    create(&store, &rows(0, 10), true); // 1
    append(&store, &rows(10, 5)); // 2
    add_enormous_fragment(&store, 100..100 + ROWS);
    append(&store, &rows(15, 5)); // 3
    let (diff, peak) = peak_bytes(|| block_on(at(&store, 1).diff(&at(&store, 3))).unwrap());
    assert_eq!((diff.num_added, diff.num_removed), (10 + ROWS, 0));
    assert_eq!(diff.num_updated, Some(0));
    assert!(peak < 4 * MIB, "{peak} bytes");
}
