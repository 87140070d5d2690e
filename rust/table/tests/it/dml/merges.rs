//! Merges: rows matched by key, updated, inserted, deleted; alone and among others.

use std::collections::BTreeMap;
use std::sync::Barrier;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::ArrowError;
use futures::TryStreamExt;
use pilum_table::{
    Error, MergeOptions, MergeOutcome, ScanOptions, Store, WhenMatched, WhenNotMatched,
    WhenNotMatchedBySource, parse_sql,
};

use crate::support::{
    append, batch, compact, content, create, delete, expect_no_orphans, files, memory, open,
    reader, rows, runtime,
};

fn upsert() -> MergeOptions {
    let mut options = MergeOptions::default();
    options.when_matched = WhenMatched::Update(None);
    options.when_not_matched = WhenNotMatched::Insert;
    options.statement.retries = 100;
    options.statement.commit_retries = 100;
    options
}

fn try_merge(
    store: &Store,
    on: &[&str],
    source: impl RecordBatchReader,
    options: &MergeOptions,
) -> Result<MergeOutcome, Error> {
    let (runtime, table) = (runtime(), open(store));
    let on: Vec<String> = on.iter().map(|name| (*name).to_owned()).collect();
    runtime.block_on(table.merge_insert(&on, source, options, runtime.handle()))
}

fn merge(store: &Store, source: &RecordBatch, options: &MergeOptions) -> MergeOutcome {
    let source = reader(std::slice::from_ref(source));
    try_merge(store, &["id"], source, options).unwrap()
}

/// Rows `(id, name)`.
fn named(rows: &[(i64, &str)]) -> RecordBatch {
    let ids: Vec<i64> = rows.iter().map(|(id, _)| *id).collect();
    let names: Vec<&str> = rows.iter().map(|(_, name)| *name).collect();
    let schema = crate::support::rows(0, 1).schema();
    let ids = arrow_array::Int64Array::from(ids);
    let names = arrow_array::StringArray::from(names);
    RecordBatch::try_new(
        schema,
        vec![std::sync::Arc::new(ids), std::sync::Arc::new(names)],
    )
    .unwrap()
}

/// `id` and `name` of all rows, in order.
fn pairs(store: &Store) -> Vec<(i64, Option<String>)> {
    let content = content(open(store).snapshot());
    let ids = content.column(0).as_primitive::<Int64Type>();
    let names = content.column(1).as_string::<i32>().iter();
    let pairs = ids.values().iter().zip(names);
    pairs
        .map(|(id, name)| (*id, name.map(str::to_owned)))
        .collect()
}

fn expected(rows: &[(i64, &str)]) -> Vec<(i64, Option<String>)> {
    let owned = rows
        .iter()
        .map(|(id, name)| (*id, Some((*name).to_owned())));
    owned.collect()
}

fn counts(outcome: &MergeOutcome) -> (u64, u64, u64, u64) {
    (
        outcome.num_inserted_rows,
        outcome.num_updated_rows,
        outcome.num_deleted_rows,
        outcome.committed.snapshot.version(),
    )
}

/// A source that does something to the table when it is pulled: after the merge has read the newest version.
fn meddling(source: &RecordBatch, meddle: impl FnOnce() + Send) -> impl RecordBatchReader {
    let (schema, source) = (source.schema(), source.clone());
    let mut meddle = Some(meddle);
    let batches = std::iter::once(source).map(move |batch| {
        if let Some(meddle) = meddle.take() {
            // Not inside of the runtime that pulls.
            std::thread::scope(|scope| scope.spawn(meddle).join().unwrap());
        }
        Ok::<_, ArrowError>(batch)
    });
    RecordBatchIterator::new(batches, schema)
}

#[test]
fn updated_rows_come_behind_and_inserted_ones_behind_those() {
    let store = memory();
    create(&store, &named(&[(1, "a"), (2, "b"), (3, "c")]), false);
    append(&store, &named(&[(4, "d"), (5, "e")]));
    delete(&store, "id = 3");
    let source = named(&[(9, "i"), (5, "E"), (3, "C"), (1, "A")]);
    let merged = merge(&store, &source, &upsert());
    assert_eq!(counts(&merged), (2, 2, 0, 4));
    let rows = [(2, "b"), (4, "d"), (1, "A"), (5, "E"), (9, "i"), (3, "C")];
    assert_eq!(pairs(&store), expected(&rows));
    expect_no_orphans(&store);
}

#[test]
fn every_choice_does_what_it_says() {
    let run = |options: &MergeOptions| {
        let store = memory();
        create(&store, &named(&[(1, "a"), (2, "b"), (3, "c")]), true);
        let merged = merge(&store, &named(&[(2, "B"), (3, "0"), (4, "D")]), options);
        expect_no_orphans(&store);
        let mut pairs = pairs(&store);
        pairs.sort();
        (pairs, counts(&merged))
    };
    let mut options = MergeOptions::default();
    options.when_not_matched = WhenNotMatched::Insert;
    let rows = [(1, "a"), (2, "b"), (3, "c"), (4, "D")];
    assert_eq!(run(&options), (expected(&rows), (1, 0, 0, 2)));
    options.when_matched = WhenMatched::Delete;
    assert_eq!(
        run(&options),
        (expected(&[(1, "a"), (4, "D")]), (1, 0, 2, 2))
    );
    options.when_matched = WhenMatched::Update(Some(
        parse_sql("source.name > 'A' AND target.id < 9").unwrap(),
    ));
    let rows = [(1, "a"), (2, "B"), (3, "c"), (4, "D")];
    assert_eq!(run(&options), (expected(&rows), (1, 1, 0, 2)));
    options.when_not_matched_by_source = WhenNotMatchedBySource::Delete(None);
    assert_eq!(run(&options), (expected(&rows[1..]), (1, 1, 1, 2)));
    options.when_not_matched = WhenNotMatched::Ignore;
    let condition = parse_sql("name = 'x'").unwrap();
    options.when_not_matched_by_source = WhenNotMatchedBySource::Delete(Some(condition));
    let rows = [(1, "a"), (2, "B"), (3, "c")];
    assert_eq!(run(&options), (expected(&rows), (0, 1, 0, 2)));
    options.when_matched = WhenMatched::Keep;
    let rows = [(1, "a"), (2, "b"), (3, "c")];
    assert_eq!(run(&options), (expected(&rows), (0, 0, 0, 1)));
}

#[test]
fn rows_keep_their_ids_and_new_ones_get_new() {
    let store = memory();
    create(&store, &rows(0, 6), true);
    append(&store, &rows(6, 4));
    merge(&store, &named(&[(20, "x"), (8, "n"), (1, "n")]), &upsert());
    let table = open(&store);
    let mut options = ScanOptions::default();
    options.with_row_id = true;
    let scan = table.snapshot().scan(options).unwrap();
    let batches = scan.batches(runtime().handle()).try_collect();
    let batches: Vec<RecordBatch> = runtime().block_on(batches).unwrap();
    let mut by_id = BTreeMap::new();
    for batch in &batches {
        let ids = batch.column(0).as_primitive::<Int64Type>().values();
        let row_ids = batch
            .column(2)
            .as_primitive::<arrow_array::types::UInt64Type>();
        by_id.extend(ids.iter().copied().zip(row_ids.values().iter().copied()));
    }
    let mut wanted: BTreeMap<i64, u64> = (0i64..10).map(|id| (id, id.cast_unsigned())).collect();
    wanted.insert(20, 10);
    assert_eq!(by_id, wanted);
    let added = table.fragments().last().unwrap();
    let versions = |it: Option<pilum_format::RowVersions>| it.unwrap().runs().collect::<Vec<_>>();
    // Rewritten: 1 of version 1, 8 of version 2; then the new one.
    assert_eq!(
        versions(added.created_at().unwrap()),
        [(1, 1), (1, 2), (1, 3)]
    );
    assert_eq!(versions(added.last_updated_at().unwrap()), [(3, 3)]);
    expect_no_orphans(&store);
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let store = memory();
    create(&store, &rows(0, 10), false);
    let before = files(&store);
    let refused = |on: &[&str], source: &RecordBatch, options: &MergeOptions, words: &str| {
        let source = reader(std::slice::from_ref(source));
        let error = try_merge(&store, on, source, options).unwrap_err();
        assert_eq!(error.kind(), "invalid_input", "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(files(&store), before);
    };
    let one = named(&[(1, "x")]);
    refused(&[], &one, &upsert(), "names no column");
    refused(&["nothing"], &one, &upsert(), "`nothing`");
    refused(&["id", "id"], &one, &upsert(), "twice");
    let twice = named(&[(11, "x"), (7, "x"), (7, "y")]);
    refused(&["id"], &twice, &upsert(), "id = 7");
    let mut deleting = upsert();
    deleting.when_matched = WhenMatched::Delete;
    refused(&["id"], &twice, &deleting, "id = 7");
    let mut failing = upsert();
    failing.when_matched = WhenMatched::Fail;
    refused(&["id"], &named(&[(12, "x"), (3, "x")]), &failing, "id = 3");
    let mut conditional = upsert();
    for (wrong, words) in [
        ("target.nothing = 1", "unknown column target.nothing"),
        ("source.name", "a condition must be true or false"),
        ("name = 'x'", "write source.name or target.name"),
    ] {
        conditional.when_matched = WhenMatched::Update(Some(parse_sql(wrong).unwrap()));
        refused(&["id"], &one, &conditional, words);
    }
    conditional.when_matched = WhenMatched::Update(Some(parse_sql("source.name > ''").unwrap()));
    refused(&["id"], &twice, &conditional, "id = 7");
    let mut others = upsert();
    let wrong = Some(parse_sql("id + 1").unwrap());
    others.when_not_matched_by_source = WhenNotMatchedBySource::Delete(wrong);
    refused(&["id"], &one, &others, "when_not_matched_by_source");
    refused(&["id"], &one, &MergeOptions::default(), "change nothing");
    let no_key = one.project(&[1]).unwrap();
    refused(&["id"], &no_key, &upsert(), "not in the source");
    refused(&["name"], &no_key, &upsert(), "when_not_matched");
}

#[test]
fn a_source_may_lack_columns_and_twins_without_a_match_are_inserted() {
    let store = memory();
    create(&store, &named(&[(1, "a"), (2, "b")]), false);
    let source = named(&[(2, ""), (7, ""), (7, "")]).project(&[0]).unwrap();
    let merged = merge(&store, &source, &upsert());
    assert_eq!(counts(&merged), (2, 1, 0, 2));
    let mut wanted = expected(&[(1, "a"), (2, "b")]);
    wanted.extend([(7, None), (7, None)]);
    assert_eq!(pairs(&store), wanted);
}

#[test]
fn a_source_larger_than_memory_gives_the_same_rows() {
    let table = || {
        let store = memory();
        create(&store, &rows(0, 30_000), true);
        append(&store, &rows(30_000, 30_000));
        delete(&store, "id % 7 = 3");
        store
    };
    // Every third row, from within the table to behind its end, with the newest values first.
    let source: Vec<RecordBatch> = (0..10)
        .map(|part| {
            let ids: Vec<(i64, String)> = (0..3000)
                .map(|row| 3 * (40_000 - part * 3000 - row))
                .map(|id| (id, format!("merged {id}")))
                .collect();
            named(
                &ids.iter()
                    .map(|(id, name)| (*id, name.as_str()))
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    let mut options = upsert();
    let condition = parse_sql("target.id % 2 = 0 AND source.name <> target.name").unwrap();
    options.when_matched = WhenMatched::Update(Some(condition));
    let others = parse_sql("id % 11 = 5").unwrap();
    options.when_not_matched_by_source = WhenNotMatchedBySource::Delete(Some(others));
    let in_memory = table();
    let whole = try_merge(&in_memory, &["id"], reader(&source), &options).unwrap();
    options.statement.threads = Some(1);
    options.statement.memory_limit = Some(1 << 20);
    let aside = table();
    let parted = try_merge(&aside, &["id"], reader(&source), &options).unwrap();
    assert_eq!(counts(&whole), counts(&parted));
    let sorted = |store: &Store| {
        let mut pairs = pairs(store);
        pairs.sort();
        pairs
    };
    assert_eq!(sorted(&in_memory), sorted(&aside));
    assert!(sorted(&aside).contains(&(120_000, Some("merged 120000".to_owned()))));
    expect_no_orphans(&in_memory);
    expect_no_orphans(&aside);
    // The same again, with a key that meets another row meanwhile: all rows are looked at again.
    let meddled = table();
    let rest = source[1..].to_vec();
    let first = meddling(&source[0], || {
        append(&meddled, &named(&[(500_000, "other")]))
    });
    let schema = first.schema();
    let chained = first.chain(rest.into_iter().map(Ok));
    let again = RecordBatchIterator::new(chained, schema);
    let again = try_merge(&meddled, &["id"], again, &options).unwrap();
    assert!(again.committed.attempts > 1);
    assert_eq!(again.num_inserted_rows, parted.num_inserted_rows);
    expect_no_orphans(&meddled);
}

#[test]
fn a_key_may_have_any_name() {
    let flags = |rows: &[(i64, bool)]| {
        let ids: arrow_array::Int64Array = rows.iter().map(|(id, _)| Some(*id)).collect();
        let flags: arrow_array::BooleanArray = rows.iter().map(|(_, it)| Some(*it)).collect();
        let field = |name: &str, array: &dyn Array| {
            arrow_schema::Field::new(name, array.data_type().clone(), true)
        };
        batch(vec![
            (field("id", &ids), std::sync::Arc::new(ids) as _),
            (field("_unmatched", &flags), std::sync::Arc::new(flags)),
        ])
    };
    let store = memory();
    create(
        &store,
        &flags(&[(1, true), (2, false), (3, true), (4, false)]),
        false,
    );
    let mut options = upsert();
    let condition = parse_sql("id >= 3").unwrap();
    options.when_not_matched_by_source = WhenNotMatchedBySource::Delete(Some(condition));
    let source = flags(&[(4, false)]);
    try_merge(&store, &["_unmatched", "id"], reader(&[source]), &options).unwrap();
    let left = content(open(&store).snapshot());
    // 3 goes by the condition; 1, whose key says true, stays.
    assert_eq!(
        left.column(0).as_primitive::<Int64Type>().values(),
        &[1, 2, 4]
    );
}

#[test]
fn too_many_rows_of_one_key_are_refused_and_nothing_is_left() {
    let store = memory();
    create(&store, &rows(0, 10), false);
    let before = files(&store);
    let twins = named(&vec![(50, "the same key"); 20_000]);
    let mut options = upsert();
    options.statement.threads = Some(1);
    options.statement.memory_limit = Some(1 << 20);
    let error = try_merge(&store, &["id"], reader(&[twins]), &options).unwrap_err();
    assert_eq!(error.kind(), "limit", "{error}");
    assert_eq!(files(&store), before);
}

#[test]
fn what_others_commit_meanwhile_is_seen_where_it_matters() {
    let run = |options: &MergeOptions, stable: bool, meddle: &(dyn Fn(&Store) + Sync)| {
        let store = memory();
        create(&store, &rows(0, 10), stable);
        let source = named(&[(3, "m"), (20, "m")]);
        let source = meddling(&source, || meddle(&store));
        let merged = try_merge(&store, &["id"], source, options).unwrap();
        expect_no_orphans(&store);
        let mut pairs = pairs(&store);
        pairs.retain(|(id, _)| *id == 3 || *id >= 10);
        pairs.sort();
        (merged.committed.attempts, pairs)
    };
    let nothing = |_: &Store| {};
    let other_row = |store: &Store| append(store, &named(&[(30, "o")]));
    let same_row = |store: &Store| append(store, &named(&[(20, "o")]));
    let other_gone = |store: &Store| drop(delete(store, "id = 5"));
    let same_gone = |store: &Store| drop(delete(store, "id = 3"));
    let merged_before =
        |store: &Store| drop(merge(store, &named(&[(20, "o"), (3, "o")]), &upsert()));
    let compacted = |store: &Store| {
        append(store, &named(&[(40, "o")]));
        compact(store, 1000);
    };
    let both = expected(&[(3, "m"), (20, "m")]);
    for stable in [false, true] {
        let upserted = |meddle: &(dyn Fn(&Store) + Sync)| run(&upsert(), stable, meddle);
        assert_eq!(upserted(&nothing), (1, both.clone()));
        // What has nothing to do with the keys is no reason to start again.
        let with_other = expected(&[(3, "m"), (20, "m"), (30, "o")]);
        assert_eq!(upserted(&other_row), (1, with_other));
        assert_eq!(upserted(&other_gone), (1, both.clone()));
        assert_eq!(upserted(&same_row), (2, both.clone()));
        assert_eq!(upserted(&same_gone), (2, both.clone()));
        assert_eq!(upserted(&merged_before), (2, both.clone()));
        let with_other = expected(&[(3, "m"), (20, "m"), (40, "o")]);
        assert_eq!(upserted(&compacted), (2, with_other));
    }
    // Rows that were found and left matter too.
    let mut options = upsert();
    options.when_matched = WhenMatched::Keep;
    let (attempts, rows) = run(&options, false, &same_gone);
    assert_eq!(
        (attempts, rows),
        (2, both.clone()),
        "row 3 is gone, so it is inserted"
    );
    let (attempts, rows) = run(&options, false, &other_gone);
    assert_eq!(attempts, 1);
    assert_eq!(rows.len(), 2);
    // A merge that deletes what is not in the source deletes what came meanwhile.
    options.when_matched = WhenMatched::Update(None);
    options.when_not_matched_by_source = WhenNotMatchedBySource::Delete(None);
    assert_eq!(run(&options, true, &other_row), (2, both));
}

#[test]
fn four_threads_merge_overlapping_keys_and_none_comes_twice_or_gets_lost() {
    let store = memory();
    create(&store, &named(&[(0, "0"), (1, "0")]), true);
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, start) = (&store, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..4 {
                    // Keys 0 and 1 are everybody's, 100 + round comes from all at once, the last is one's own.
                    let name = format!("{thread} {round}");
                    let own = 1000 + thread * 10 + round;
                    let keys = [round % 2, 100 + round, own].map(|id| (id, name.as_str()));
                    merge(store, &named(&keys), &upsert());
                }
            });
        }
    });
    let mut ids: Vec<i64> = pairs(&store).into_iter().map(|(id, _)| id).collect();
    ids.sort_unstable();
    let own = (0..4).flat_map(|thread| (0..4).map(move |round| 1000 + thread * 10 + round));
    let wanted: Vec<i64> = [0, 1].into_iter().chain(100..104).chain(own).collect();
    assert_eq!(ids, wanted);
    assert_eq!(open(&store).version(), 17);
    expect_no_orphans(&store);
}

#[test]
fn a_commit_id_merges_once() {
    let store = memory();
    create(&store, &named(&[(1, "a")]), false);
    let mut options = upsert();
    options.statement.commit_id = Some("merge".to_owned());
    let first = merge(&store, &named(&[(2, "b")]), &options);
    let again = merge(&store, &named(&[(3, "c")]), &options);
    assert_eq!(counts(&first), (1, 0, 0, 2));
    assert_eq!(counts(&again), (0, 0, 0, 2));
    assert!(again.committed.was_committed_before);
    assert_eq!(pairs(&store), expected(&[(1, "a"), (2, "b")]));
}

#[test]
fn nested_and_empty_sources_are_told_what_they_are() {
    let store = memory();
    create(&store, &rows(0, 3), false);
    let empty = rows(0, 3).slice(0, 0);
    assert_eq!(counts(&merge(&store, &empty, &upsert())), (0, 0, 0, 1));
    let mut all = upsert();
    all.when_not_matched_by_source = WhenNotMatchedBySource::Delete(None);
    assert_eq!(counts(&merge(&store, &empty, &all)), (0, 0, 3, 2));
    assert_eq!(open(&store).num_rows(), 0);
    assert_eq!(counts(&merge(&store, &rows(0, 3), &upsert())), (3, 0, 0, 3));
    let member = arrow_schema::Field::new("x", arrow_schema::DataType::Int64, true);
    let ids = std::sync::Arc::clone(rows(0, 1).column(0));
    let point = arrow_array::StructArray::from(vec![(std::sync::Arc::new(member), ids)]);
    let field = arrow_schema::Field::new("p", point.data_type().clone(), true);
    let nested = batch(vec![(field, std::sync::Arc::new(point))]);
    let store = memory();
    create(&store, &nested, false);
    let error = try_merge(&store, &["p"], reader(&[nested]), &upsert()).unwrap_err();
    assert!(error.to_string().contains("struct"), "{error}");
    assert_eq!(error.kind(), "invalid_input");
}
