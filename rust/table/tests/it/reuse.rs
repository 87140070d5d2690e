//! Statements that have to be executed again, and what of their files they use again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field};
use futures::FutureExt;
use futures::future::BoxFuture;
use pilum_store::testing::{Fate, Script, Verb};
use pilum_table::{
    CompactOptions, MergeOptions, Projection, ROW_ID, ScanOptions, Snapshot, StatementOptions,
    Store, WhenMatched, WhenNotMatched, parse_sql,
};

use crate::support::{
    append, batch, block_on, compact, create, delete, expect_no_orphans, memory, open, reader,
    runtime,
};

/// Rows of a data file of an update or merge.
const FILE: i64 = 1 << 20;

/// What somebody else does.
type Act = fn(&Store);

/// Counts data files that are begun, and lets others act before the first version is published.
struct Watched {
    begun: Mutex<u64>,
    act: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} data files", self.begun.lock().unwrap())
    }
}

impl Script for Watched {
    fn fate(&self, verb: Verb, path: &str) -> BoxFuture<'_, Fate> {
        if verb == Verb::Begin && path.starts_with("data/") {
            *self.begun.lock().unwrap() += 1;
        }
        if verb == Verb::Create && path.starts_with("_versions/") {
            let act = self.act.lock().unwrap().pop();
            if let Some(act) = act {
                std::thread::spawn(act).join().unwrap();
            }
        }
        std::future::ready(Fate::Happens).boxed()
    }
}

/// The store with others that act before the first, the second, ... attempt to publish.
fn watched(store: &Store, acts: Vec<Act>) -> (Store, Arc<Watched>) {
    let acts = acts
        .into_iter()
        .rev()
        .map(|act| -> Box<dyn FnOnce() + Send> {
            let theirs = store.clone();
            Box::new(move || act(&theirs))
        });
    let watched = Arc::new(Watched {
        begun: Mutex::new(0),
        act: Mutex::new(acts.collect()),
    });
    (store.scripted(Arc::<Watched>::clone(&watched)), watched)
}

fn begun(watched: &Watched) -> u64 {
    *watched.begun.lock().unwrap()
}

fn numbers(first: i64, len: i64) -> RecordBatch {
    let column = |values: Int64Array| -> ArrayRef { Arc::new(values) };
    let ids = Int64Array::from_iter_values(first..first + len);
    let values = Int64Array::from_iter_values((first..first + len).map(|id| id * 3));
    batch(vec![
        (Field::new("id", DataType::Int64, false), column(ids)),
        (Field::new("n", DataType::Int64, true), column(values)),
    ])
}

fn update_of(store: &Store, set: &str, filter: &str) -> (u64, u32) {
    let (runtime, table) = (runtime(), open(store));
    let set = [("n".to_owned(), parse_sql(set).unwrap())];
    let filter = parse_sql(filter).unwrap();
    let options = StatementOptions::default();
    let updated = table.update(&set, Some(&filter), &options, runtime.handle());
    let updated = runtime.block_on(updated).unwrap();
    (updated.num_updated_rows, updated.committed.attempts)
}

fn merge_of(store: &Store, source: &RecordBatch) -> (u64, u64) {
    let mut options = MergeOptions::default();
    options.when_matched = WhenMatched::Update(None);
    options.when_not_matched = WhenNotMatched::Insert;
    let (runtime, table) = (runtime(), open(store));
    let source = reader(std::slice::from_ref(source));
    let on = ["id".to_owned()];
    let merged = table.merge_insert(&on, source, &options, runtime.handle());
    let merged = runtime.block_on(merged).unwrap();
    (merged.num_updated_rows, merged.num_inserted_rows)
}

/// `id` and `n` of all rows.
fn pairs(snapshot: &Snapshot) -> BTreeMap<i64, Option<i64>> {
    let content = crate::support::content(snapshot);
    let column = |place: usize| content.column(place).as_primitive::<Int64Type>();
    let ids = column(0).values().iter().copied();
    let pairs: BTreeMap<i64, Option<i64>> = ids.zip(column(1)).collect();
    assert_eq!(pairs.len(), content.num_rows(), "no row twice");
    pairs
}

/// The stable id of each row, by the column `id`.
fn row_ids(snapshot: &Snapshot) -> BTreeMap<i64, u64> {
    let mut options = ScanOptions::default();
    options.columns = Projection::Names(vec!["id".to_owned(), ROW_ID.to_owned()]);
    let scan = snapshot.scan(options).unwrap();
    let (runtime, mut all) = (runtime(), BTreeMap::new());
    let batches: Vec<_> =
        runtime.block_on(futures::StreamExt::collect(scan.batches(runtime.handle())));
    for batch in batches {
        let batch = batch.unwrap();
        let ids = batch.column(0).as_primitive::<Int64Type>().values();
        let row_ids = batch.column(1).as_primitive::<UInt64Type>().values();
        all.extend(ids.iter().copied().zip(row_ids.iter().copied()));
    }
    all
}

/// Two files and a bit, in three fragments.
fn three(stable: bool) -> Store {
    let store = memory();
    create(&store, &numbers(0, FILE), stable);
    append(&store, &numbers(FILE, FILE));
    append(&store, &numbers(2 * FILE, 1000));
    store
}

#[test]
fn an_update_writes_only_the_file_again_whose_rows_others_changed() {
    for stable in [false, true] {
        let store = three(stable);
        let before = stable.then(|| row_ids(open(&store).snapshot()));
        // A row of the second file, and new rows that the update has to see.
        let act = |store: &Store| {
            update_of(store, "id * 100", &format!("id = {}", FILE + 5));
            append(store, &numbers(3 * FILE, 10));
        };
        let (watching, watched) = watched(&store, vec![act]);
        let (updated, _) = update_of(&watching, "n + 1", "id >= 0");
        assert_eq!(updated, u64::try_from(2 * FILE + 1010).unwrap());
        // Three files at first; then the rows of the second and the new ones, which are more than one file takes.
        assert_eq!(begun(&watched), 3 + 2);
        let table = open(&store);
        let all = pairs(table.snapshot());
        assert_eq!(all.len(), usize::try_from(2 * FILE + 1010).unwrap());
        for (id, n) in &all {
            let old = if *id == FILE + 5 { id * 100 } else { id * 3 };
            assert_eq!(*n, Some(old + 1), "id {id}");
        }
        if let Some(before) = before {
            let after = row_ids(table.snapshot());
            assert!(before.iter().all(|(id, row_id)| after[id] == *row_id));
        }
        expect_no_orphans(&store);
    }
}

#[test]
fn files_outlive_several_conflicts() {
    let store = three(true);
    let acts: Vec<Act> = vec![
        |store| drop(delete(store, "id = 2097153")),
        |store| drop(delete(store, "id = 2097154")),
        |store| drop(delete(store, "id = 7")),
    ];
    let (watching, watched) = watched(&store, acts);
    let (updated, _) = update_of(&watching, "n + 1", "id >= 0");
    assert_eq!(updated, u64::try_from(2 * FILE + 997).unwrap());
    // The third file twice, and the first one once; its rows are one file again.
    assert_eq!(begun(&watched), 3 + 1 + 1 + 1);
    let all = pairs(open(&store).snapshot());
    assert!(all.iter().all(|(id, n)| *n == Some(id * 3 + 1)));
    assert_eq!(all.len(), usize::try_from(2 * FILE + 997).unwrap());
    assert!(
        [7, 2_097_153, 2_097_154]
            .iter()
            .all(|id| !all.contains_key(id))
    );
    expect_no_orphans(&store);
}

/// Rows that moved to other fragments, or columns that are others, are written again.
#[test]
fn nothing_is_used_again_where_fragments_or_columns_are_others() {
    let rename = |store: &Store| {
        let dropped = ["n".to_owned()];
        let options = StatementOptions::default();
        block_on(open(store).drop_columns(&dropped, &options)).unwrap();
        let columns = [("n".to_owned(), parse_sql("id * 7").unwrap())];
        let (runtime, table) = (runtime(), open(store));
        runtime
            .block_on(table.add_columns(&columns, &options, runtime.handle()))
            .unwrap();
    };
    let acts: [(Act, i64); 2] = [(|store| drop(compact(store, 100)), 3), (rename, 7)];
    for (act, factor) in acts {
        let store = memory();
        create(&store, &numbers(0, 30), true);
        append(&store, &numbers(30, 30));
        let (watching, watched) = watched(&store, vec![act]);
        assert_eq!(update_of(&watching, "n + 1", "id < 50").0, 50);
        assert_eq!(begun(&watched), 2);
        let all = pairs(open(&store).snapshot());
        let n = |id: i64| Some(id * factor + i64::from(id < 50));
        assert!(all.iter().all(|(id, found)| *found == n(*id)), "{all:?}");
        assert_eq!(all.len(), 60);
        expect_no_orphans(&store);
    }
}

#[test]
fn a_merge_writes_only_the_files_again_that_others_touched() {
    for stable in [false, true] {
        // Rewritten: 0 to 2 FILE; inserted: the next FILE and a half.
        let source = |len: i64| {
            let rows = numbers(0, len);
            let n = Int64Array::from_iter_values((0..len).map(|id| id * 5));
            RecordBatch::try_new(rows.schema(), vec![Arc::clone(rows.column(0)), Arc::new(n)])
                .unwrap()
        };
        let len = 3 * FILE + FILE / 2;
        let table = || {
            let store = memory();
            create(&store, &numbers(0, FILE), stable);
            append(&store, &numbers(FILE, FILE));
            store
        };
        // A row that was matched is gone, so it is inserted; a key that was inserted is there, and gets the value.
        let acts: [(Act, u64); 3] = [
            (|store| append(store, &numbers(2 * FILE + 3, 1)), 1),
            (|store| drop(delete(store, "id = 3")), 1),
            (
                |store| assert_eq!(update_of(store, "0", "id = 1048577").0, 1),
                1,
            ),
        ];
        for (act, again) in acts {
            let store = table();
            let (watching, watched) = watched(&store, vec![act]);
            let (updated, inserted) = merge_of(&watching, &source(len));
            assert_eq!(updated + inserted, u64::try_from(len).unwrap());
            assert_eq!(begun(&watched), 4 + again);
            let all = pairs(open(&store).snapshot());
            assert!(all.iter().all(|(id, n)| *n == Some(id * 5)));
            assert_eq!(all.len(), usize::try_from(len).unwrap());
            expect_no_orphans(&store);
        }
    }
}

#[test]
fn a_compaction_rewrites_only_what_others_changed() {
    let store = memory();
    create(&store, &numbers(0, 40), true);
    for first in [40, 80, 120] {
        append(&store, &numbers(first, 40));
    }
    let before = row_ids(open(&store).snapshot());
    let act = |store: &Store| drop(delete(store, "id = 150"));
    let (watching, watched) = watched(&store, vec![act]);
    let mut options = CompactOptions::default();
    options.target_rows = 70;
    let (runtime, table) = (runtime(), open(&watching));
    let compacted = table.compact(&options, runtime.handle());
    let compacted = runtime.block_on(compacted).unwrap();
    assert_eq!(compacted.num_removed_fragments, 4);
    assert_eq!(compacted.num_rows, 159);
    // Two files for each pair of fragments, and then for the second pair.
    assert_eq!(begun(&watched), 4 + 2);
    let table = open(&store);
    let all = pairs(table.snapshot());
    assert!(all.iter().all(|(id, n)| *n == Some(id * 3)));
    assert_eq!(all.len(), 159);
    let after = row_ids(table.snapshot());
    assert!(after.iter().all(|(id, row_id)| before[id] == *row_id));
    expect_no_orphans(&store);
}
