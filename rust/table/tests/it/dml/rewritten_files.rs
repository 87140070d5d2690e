//! Statements that have to be executed again, and what of their files they use again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, DictionaryArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field};
use futures::FutureExt;
use futures::future::BoxFuture;
use pilum_store::testing::{Fate, Script, Verb};
use pilum_table::{
    CommitOptions, CompactOptions, CompactOutcome, Dataset, MergeOptions, Projection, ROW_ID,
    ScanOptions, Snapshot, StatementOptions, Store, VersionRef, WhenMatched, WhenNotMatched,
    parse_sql,
};

use crate::dml::settings::try_config;
use crate::support::{
    append, batch, block_on, compact, content, create, delete, expect_no_orphans, files, memory,
    open, reader, runtime,
};

/// Rows of a data file of an update or merge.
const FILE: i64 = 1 << 14;

fn short_files() -> StatementOptions {
    let mut options = StatementOptions::default();
    options.max_rows_per_file = u64::try_from(FILE).unwrap();
    options
}

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

/// As [`numbers`] from 0, `n` another multiple.
fn fives(len: i64) -> RecordBatch {
    let rows = numbers(0, len);
    let n = Int64Array::from_iter_values((0..len).map(|id| id * 5));
    RecordBatch::try_new(rows.schema(), vec![Arc::clone(rows.column(0)), Arc::new(n)]).unwrap()
}

fn update_of(store: &Store, set: &str, filter: &str) -> (u64, u32) {
    let (runtime, table) = (runtime(), open(store));
    let set = [("n".to_owned(), parse_sql(set).unwrap())];
    let filter = parse_sql(filter).unwrap();
    let options = short_files();
    let updated = table.update(&set, Some(&filter), &options, runtime.handle());
    let updated = runtime.block_on(updated).unwrap();
    (updated.num_updated_rows, updated.committed.attempts)
}

fn upsert() -> MergeOptions {
    let mut options = MergeOptions::default();
    options.when_matched = WhenMatched::Update(None);
    options.when_not_matched = WhenNotMatched::Insert;
    options.statement = short_files();
    options
}

fn merge_of(store: &Store, source: &RecordBatch, options: &MergeOptions) -> (u64, u64) {
    let (runtime, table) = (runtime(), open(store));
    let source = reader(std::slice::from_ref(source));
    let on = ["id".to_owned()];
    let merged = table.merge_insert(&on, source, options, runtime.handle());
    let merged = runtime.block_on(merged).unwrap();
    (merged.num_updated_rows, merged.num_inserted_rows)
}

/// `id` and `n` of all rows.
fn pairs(snapshot: &Snapshot) -> BTreeMap<i64, Option<i64>> {
    let content = content(snapshot);
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
        |store| drop(delete(store, &format!("id = {}", 2 * FILE + 1))),
        |store| drop(delete(store, &format!("id = {}", 2 * FILE + 2))),
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
        [7, 2 * FILE + 1, 2 * FILE + 2]
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
                |store| assert_eq!(update_of(store, "0", &format!("id = {}", FILE + 1)).0, 1),
                1,
            ),
        ];
        for (act, again) in acts {
            let store = table();
            let (watching, watched) = watched(&store, vec![act]);
            let (updated, inserted) = merge_of(&watching, &fives(len), &upsert());
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
    let (compacted, told) = compact_telling(&watching);
    assert_eq!(compacted.num_removed_fragments, 4);
    assert_eq!(compacted.num_rows, 159);
    // Two files for each pair of fragments, and then for the second pair.
    assert_eq!(begun(&watched), 4 + 2);
    // All rows, and then again those of the second pair but one.
    assert_eq!(told.first().map(|it| it.1), Some(160));
    assert_eq!(told.last(), Some(&(160 + 79, 160 + 79)));
    assert!(
        told.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1),
        "{told:?}"
    );
    let table = open(&store);
    let all = pairs(table.snapshot());
    assert!(all.iter().all(|(id, n)| *n == Some(id * 3)));
    assert_eq!(all.len(), 159);
    let after = row_ids(table.snapshot());
    assert!(after.iter().all(|(id, row_id)| before[id] == *row_id));
    expect_no_orphans(&store);
}

/// Compacts to fragments of 70 rows; gives all that the progress was told.
fn compact_telling(store: &Store) -> (CompactOutcome, Vec<(u64, u64)>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut options = CompactOptions::default();
    options.target_rows = 70;
    let telling = Arc::clone(&told);
    options.progress = Some(Arc::new(move |done, all| {
        telling.lock().unwrap().push((done, all));
    }));
    let (runtime, table) = (runtime(), open(store));
    let compacted = runtime.block_on(table.compact(&options, runtime.handle()));
    let told = told.lock().unwrap().clone();
    (compacted.unwrap(), told)
}

fn restore(store: &Store, version: u64) {
    let old = block_on(Dataset::open_in(store, &VersionRef::Number(version))).unwrap();
    block_on(old.restore(&CommitOptions::default())).unwrap();
}

/// A restore makes a fragment come, go, or have rows again that the first execution did not see.
#[test]
fn a_restore_between_executions_leaves_what_is_right() {
    // Version 3 is that of the statement, or version 4, without a row.
    let acts: [(Act, bool, u64, i64); 3] = [
        (
            |store| {
                delete(store, &format!("id = {}", FILE + 5));
                restore(store, 3);
            },
            false,
            3,
            2 * FILE + 1000,
        ),
        (
            |store| {
                delete(store, &format!("id = {}", FILE + 5));
                restore(store, 2);
            },
            false,
            3,
            2 * FILE,
        ),
        (
            |store| {
                delete(store, &format!("id = {}", FILE + 5));
                restore(store, 3);
            },
            true,
            3 + 3,
            2 * FILE + 1000,
        ),
    ];
    for (act, deletes_before, written, len) in acts {
        let store = three(true);
        let before = row_ids(open(&store).snapshot());
        if deletes_before {
            delete(&store, "id = 9");
        }
        let (watching, watched) = watched(&store, vec![act]);
        let (updated, _) = update_of(&watching, "n + 1", "id >= 0");
        assert_eq!(updated, u64::try_from(len).unwrap());
        assert_eq!(begun(&watched), written);
        let table = open(&store);
        let all = pairs(table.snapshot());
        assert_eq!(all.len(), usize::try_from(len).unwrap());
        assert!(all.iter().all(|(id, n)| *n == Some(id * 3 + 1)));
        let after = row_ids(table.snapshot());
        assert!(after.iter().all(|(id, row_id)| before[id] == *row_id));
        expect_no_orphans(&store);
    }
}

/// Rows whose words cycle.
fn tagged(first: i64, len: i64, words: &[&str]) -> RecordBatch {
    let rows = numbers(first, len);
    let words = words.iter().copied().cycle();
    let tags: DictionaryArray<Int8Type> = words.take(usize::try_from(len).unwrap()).collect();
    let field = Field::new("tag", tags.data_type().clone(), true);
    let schema = rows.schema();
    batch(vec![
        (schema.field(0).clone(), Arc::clone(rows.column(0))),
        (schema.field(1).clone(), Arc::clone(rows.column(1))),
        (field, Arc::new(tags)),
    ])
}

/// The word of each row, by the column `id`.
fn tags(snapshot: &Snapshot) -> BTreeMap<i64, String> {
    let content = content(snapshot);
    let ids = content.column(0).as_primitive::<Int64Type>().values();
    let tags = arrow_cast::cast(content.column(2), &DataType::Utf8).unwrap();
    let tags = tags.as_string::<i32>().iter();
    let tags = tags.map(|tag| tag.unwrap().to_owned());
    ids.iter().copied().zip(tags).collect()
}

/// Keys that were written go on to mean their words; words that both brought are in each other's way.
#[test]
fn a_dictionary_that_others_made_longer_is_met() {
    let act: Act = |store| {
        append(store, &tagged(FILE + 10, 2, &["c", "a"]));
        delete(store, &format!("id = {}", FILE + 1));
    };
    let (again, new_word) = (2 + 1, 2 + 2);
    for (set, written) in [(("n", "n + 1"), again), (("tag", "'z'"), new_word)] {
        let store = memory();
        create(&store, &tagged(0, FILE, &["a", "b"]), false);
        append(&store, &tagged(FILE, 10, &["b"]));
        let (watching, watched) = watched(&store, vec![act]);
        let assignments = [(set.0.to_owned(), parse_sql(set.1).unwrap())];
        let (runtime, table) = (runtime(), open(&watching));
        let options = short_files();
        let updated = table.update(&assignments, None, &options, runtime.handle());
        let updated = runtime.block_on(updated).unwrap();
        assert_eq!(updated.num_updated_rows, u64::try_from(FILE + 11).unwrap());
        assert_eq!(begun(&watched), written, "{}", set.1);
        let table = open(&store);
        let sets_n = set.0 == "n";
        let all = pairs(table.snapshot());
        assert!(
            all.iter()
                .all(|(id, n)| *n == Some(id * 3 + i64::from(sets_n)))
        );
        let tags = tags(table.snapshot());
        assert_eq!(tags.len(), usize::try_from(FILE + 11).unwrap());
        for (id, tag) in tags {
            let old = match id - FILE {
                ..0 => ["a", "b"][usize::try_from(id % 2).unwrap()],
                0..10 => "b",
                10 => "c",
                _ => "a",
            };
            assert_eq!(tag, if sets_n { old } else { "z" }, "id {id}");
        }
        expect_no_orphans(&store);
    }
}

/// The same of a compaction, which brings no words.
#[test]
fn a_compaction_goes_on_with_a_longer_dictionary() {
    let store = memory();
    create(&store, &tagged(0, 40, &["a", "b"]), false);
    for first in [40, 80, 120] {
        append(&store, &tagged(first, 40, &["b", "c"]));
    }
    let act: Act = |store| {
        append(store, &tagged(160, 100, &["d"]));
        delete(store, "id = 150");
    };
    let (watching, watched) = watched(&store, vec![act]);
    let (compacted, told) = compact_telling(&watching);
    assert_eq!(compacted.num_rows, 159);
    assert_eq!(begun(&watched), 4 + 2);
    assert_eq!(told.last(), Some(&(160 + 79, 160 + 79)));
    let words = tags(open(&store).snapshot());
    assert_eq!(words.len(), 259);
    for (id, word) in words {
        let all = match id {
            ..40 => ["a", "b"],
            40..160 => ["b", "c"],
            _ => ["d", "d"],
        };
        assert_eq!(word, all[usize::try_from(id % 2).unwrap()], "id {id}");
    }
    expect_no_orphans(&store);
}

/// Rows that pass the condition no more, and rows that pass it now.
#[test]
fn a_conditional_update_follows_its_condition() {
    for stable in [false, true] {
        let store = three(stable);
        update_of(&store, "-1", "id = 7");
        let act: Act = |store| {
            update_of(store, "-1", &format!("id = {}", FILE + 5));
            update_of(store, "50", "id = 7");
        };
        let (watching, watched) = watched(&store, vec![act]);
        let (updated, _) = update_of(&watching, "n + 1", "n >= 0");
        assert_eq!(updated, u64::try_from(2 * FILE + 999).unwrap());
        assert_eq!(begun(&watched), 3 + 1);
        let all = pairs(open(&store).snapshot());
        assert_eq!(all.len(), usize::try_from(2 * FILE + 1000).unwrap());
        for (id, n) in all {
            let expected = match id - FILE {
                5 => -1,
                _ if id == 7 => 51,
                _ => id * 3 + 1,
            };
            assert_eq!(n, Some(expected), "id {id}");
        }
        expect_no_orphans(&store);
    }
}

/// Of a source that was put aside it is not known which rows a file inserted: such files are written again.
#[test]
fn a_merge_of_a_source_put_aside_keeps_what_it_rewrote() {
    for (inserts, written) in [(false, 2 + 1), (true, 3 + 2)] {
        let store = memory();
        create(&store, &numbers(0, FILE), true);
        append(&store, &numbers(FILE, FILE));
        let (watching, watched) = watched(&store, vec![|store| drop(delete(store, "id = 3"))]);
        let mut options = upsert();
        if !inserts {
            options.when_not_matched = WhenNotMatched::Ignore;
        }
        // 2.5 MB of rows and keys, of which a quarter of this may be in memory.
        options.statement.memory_limit = Some(4 << 20);
        options.statement.threads = Some(1);
        let len = 2 * FILE + FILE / 2;
        let (updated, inserted) = merge_of(&watching, &fives(len), &options);
        assert_eq!(updated, u64::try_from(2 * FILE - 1).unwrap());
        let new = if inserts { FILE / 2 + 1 } else { 0 };
        assert_eq!(inserted, u64::try_from(new).unwrap());
        assert_eq!(begun(&watched), written);
        let all = pairs(open(&store).snapshot());
        assert!(all.iter().all(|(id, n)| *n == Some(id * 5)));
        assert_eq!(all.len(), usize::try_from(2 * FILE - 1 + new).unwrap());
        expect_no_orphans(&store);
    }
}

/// Every commit cleans up all versions but its own, and with them what the first execution was made of.
#[test]
fn a_cleanup_between_executions_takes_nothing_that_is_used_again() {
    for deletes_before in [false, true] {
        let store = three(true);
        if deletes_before {
            delete(&store, &format!("id = {}", FILE + 9));
        }
        let pairs_of_config = [
            ("lance.auto_cleanup.interval", Some("1")),
            ("lance.auto_cleanup.retain_versions", Some("1")),
        ];
        try_config(&store, &pairs_of_config).unwrap();
        let act: Act = |store| {
            delete(store, &format!("id = {}", FILE + 5));
            delete(store, &format!("id = {}", FILE + 6));
        };
        let (watching, watched) = watched(&store, vec![act, act_on_third]);
        let (updated, _) = update_of(&watching, "n + 1", "id >= 0");
        let gone = 3 + i64::from(deletes_before);
        assert_eq!(updated, u64::try_from(2 * FILE + 1000 - gone).unwrap());
        // The second file again; then the third one, whose deletions are others too.
        assert_eq!(begun(&watched), 3 + 1 + 1);
        let table = open(&store);
        let all = pairs(table.snapshot());
        assert!(all.iter().all(|(id, n)| *n == Some(id * 3 + 1)));
        assert_eq!(all.len(), usize::try_from(2 * FILE + 1000 - gone).unwrap());
        let versions = block_on(table.versions()).unwrap();
        assert_eq!(versions.len(), 1, "the last commit cleaned up too");
        expect_no_orphans(&store);
    }
}

fn act_on_third(store: &Store) {
    delete(store, &format!("id = {}", 2 * FILE + 1));
}

/// What a lost attempt wrote goes when the next one is written, however many races are lost.
#[test]
fn files_of_lost_races_do_not_pile_up() {
    const RIVALS: u64 = 12;
    let folders = |store: &Store| {
        let files = files(store);
        let count = |folder| files.iter().filter(|it| it.starts_with(folder)).count() as u64;
        (count("_deletions/"), count("_transactions/"))
    };
    let act: Act = |store| {
        let rivals = open(store).version() - 1;
        let files = files(store);
        let count = |folder| files.iter().filter(|it| it.starts_with(folder)).count() as u64;
        // One of each version, and ours.
        assert_eq!(count("_deletions/"), rivals + 1);
        assert_eq!(count("_transactions/"), rivals + 2);
        delete(store, &format!("id = {}", rivals + 1));
    };
    let store = memory();
    create(&store, &numbers(0, 100), false);
    let (watching, _) = watched(&store, vec![act; usize::try_from(RIVALS).unwrap()]);
    let deleted = delete(&watching, "id = 99");
    assert_eq!(deleted.committed.attempts, 13);
    assert_eq!(folders(&store), (RIVALS + 1, RIVALS + 2));
    assert_eq!(open(&store).num_rows(), 100 - RIVALS - 1);
    expect_no_orphans(&store);
}
