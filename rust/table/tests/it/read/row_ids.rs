//! Stable row ids: found again wherever their rows went; which versions made and changed them; what lies between versions.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use pilum_table::{
    CommitOptions, Dataset, Diff, Projection, ROW_ID, ScanOptions, Snapshot, StatementOptions,
    Store, VersionRef, parse_sql,
};

use crate::support::{append, block_on, compact, create, delete, memory, open, rows, runtime};

/// The row id of each row, by its column `id`.
fn row_ids(snapshot: &Snapshot) -> BTreeMap<i64, u64> {
    let mut options = ScanOptions::default();
    options.columns = Projection::Names(vec!["id".to_owned(), ROW_ID.to_owned()]);
    let runtime = runtime();
    let scan = snapshot.scan(options).unwrap();
    let batches = scan.batches(runtime.handle());
    let batches: Vec<_> = runtime
        .block_on(futures::TryStreamExt::try_collect(batches))
        .unwrap();
    let mut found = BTreeMap::new();
    for batch in &batches {
        let batch: &arrow_array::RecordBatch = batch;
        let ids = batch.column(0).as_primitive::<Int64Type>().values();
        let row_ids = batch.column(1).as_primitive::<UInt64Type>().values();
        found.extend(ids.iter().copied().zip(row_ids.iter().copied()));
    }
    assert_eq!(found.len() as u64, snapshot.num_rows());
    found
}

fn rename(store: &Store, filter: &str) {
    let (runtime, table) = (runtime(), open(store));
    let set = [("name".to_owned(), parse_sql("'changed'").unwrap())];
    let filter = parse_sql(filter).unwrap();
    let options = StatementOptions::default();
    let updated = table.update(&set, Some(&filter), &options, runtime.handle());
    runtime.block_on(updated).unwrap();
}

fn at(store: &Store, version: u64) -> Snapshot {
    let table = block_on(Dataset::open_in(store, &VersionRef::Number(version))).unwrap();
    table.snapshot().clone()
}

/// Every id leads to its row, in any order and repeated; those that are gone lead nowhere.
fn expect_found(snapshot: &Snapshot, gone: &[u64]) {
    let known = row_ids(snapshot);
    let wanted: Vec<(i64, u64)> = known
        .iter()
        .rev()
        .chain(known.iter().step_by(3))
        .map(|(id, row_id)| (*id, *row_id))
        .collect();
    let asked: Vec<u64> = wanted.iter().map(|(_, row_id)| *row_id).collect();
    let columns = Projection::Names(vec!["id".to_owned()]);
    let taken = block_on(snapshot.take_rows(&asked, columns)).unwrap();
    let ids = taken.column(0).as_primitive::<Int64Type>().values();
    assert!(ids.iter().eq(wanted.iter().map(|(id, _)| id)));
    for row_id in gone {
        let error = block_on(snapshot.row_addresses(&[*row_id])).unwrap_err();
        assert!(error.to_string().contains(&row_id.to_string()), "{error}");
    }
}

#[test]
fn ids_survive_updates_compaction_and_restore() {
    let store = memory();
    create(&store, &rows(0, 30), true);
    append(&store, &rows(30, 30));
    let first = row_ids(open(&store).snapshot());
    expect_found(open(&store).snapshot(), &[60, u64::MAX]);
    rename(&store, "id % 7 = 2");
    assert_eq!(row_ids(open(&store).snapshot()), first);
    delete(&store, "id % 5 = 0");
    let mut left = first.clone();
    left.retain(|id, _| id % 5 != 0);
    let gone: Vec<u64> = first
        .iter()
        .filter(|(id, _)| *id % 5 == 0)
        .map(|(_, row_id)| *row_id)
        .collect();
    assert_eq!(row_ids(open(&store).snapshot()), left);
    expect_found(open(&store).snapshot(), &gone);
    compact(&store, 1_000);
    assert_eq!(row_ids(open(&store).snapshot()), left);
    expect_found(open(&store).snapshot(), &gone);
    append(&store, &rows(60, 5));
    let old = block_on(Dataset::open_in(&store, &VersionRef::Number(2))).unwrap();
    block_on(old.restore(&CommitOptions::default())).unwrap();
    assert_eq!(row_ids(open(&store).snapshot()), first);
    expect_found(open(&store).snapshot(), &[60, 61, 64]);
    // Ids that were given once are not given again.
    append(&store, &rows(100, 2));
    let newest = row_ids(open(&store).snapshot());
    assert!(newest[&100] > 64 && newest[&101] > 64, "{newest:?}");
}

#[test]
fn a_row_knows_the_versions_that_created_and_last_changed_it() {
    let store = memory();
    create(&store, &rows(0, 10), true); // 1
    append(&store, &rows(10, 10)); // 2
    rename(&store, "id IN (3, 12)"); // 3
    delete(&store, "id = 4"); // 4
    let ids = row_ids(open(&store).snapshot());
    let versions = |id: i64| {
        let found = block_on(open(&store).snapshot().row_versions(&[ids[&id], ids[&0]]));
        let found = found.unwrap();
        assert_eq!(found[1], (1, 1));
        found[0]
    };
    let expect_all = || {
        assert_eq!(versions(5), (1, 1));
        assert_eq!(versions(15), (2, 2));
        assert_eq!(versions(3), (1, 3));
        assert_eq!(versions(12), (2, 3));
    };
    expect_all();
    compact(&store, 1_000);
    expect_all();
    assert!(block_on(open(&store).snapshot().row_versions(&[4])).is_err());
    let other = memory();
    create(&other, &rows(0, 3), false);
    let error = block_on(open(&other).snapshot().row_versions(&[0])).unwrap_err();
    assert!(error.to_string().contains("stable row ids"), "{error}");
}

fn counts(diff: &Diff) -> (u64, u64, Option<u64>) {
    (diff.num_added, diff.num_removed, diff.num_updated)
}

#[test]
fn a_diff_counts_rows_whatever_files_they_went_to() {
    for stable in [true, false] {
        let store = memory();
        create(&store, &rows(0, 30), stable); // 1
        append(&store, &rows(30, 10)); // 2
        delete(&store, "id < 5"); // 3
        rename(&store, "id IN (7, 8, 35)"); // 4
        let diff = |a: u64, b: u64| block_on(at(&store, a).diff(&at(&store, b))).unwrap();
        let updated = |count| stable.then_some(count);
        assert_eq!(counts(&diff(1, 2)), (10, 0, updated(0)));
        assert_eq!(counts(&diff(2, 3)), (0, 5, updated(0)));
        // Without stable ids an updated row is another one.
        let moved = if stable { 0 } else { 3 };
        assert_eq!(counts(&diff(3, 4)), (moved, moved, updated(3)));
        let whole = diff(4, 1);
        assert_eq!((whole.from_version, whole.to_version), (1, 4));
        assert_eq!(whole, diff(1, 4));
        assert_eq!(counts(&diff(4, 4)), (0, 0, updated(0)));
        compact(&store, 1_000);
        let newest = open(&store).version();
        if stable {
            assert_eq!(counts(&diff(4, newest)), (0, 0, Some(0)));
            // 35 came with version 2.
            assert_eq!(counts(&diff(1, newest)), (10, 5, Some(2)));
        }
    }
}
