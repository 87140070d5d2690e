//! Updates and compactions of tables larger than their memory limit: what they hold at once, and that the rows are right.
//!
//! Everything is read on the thread of the test, whose allocations are counted. Tables lie in files: what is read of them is
//! mapped, and what is written is not held.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field};
use futures::StreamExt;
use pilum_table::{CompactOptions, ScanOptions, StatementOptions, Store, parse_sql};
use pilum_testing::peak_bytes;

use crate::support::{
    append, batch, block_on, create, delete, expect_no_orphans, local, open, runtime,
};

const LIMIT: usize = 8 << 20;
/// Rows of one of four fragments: 50 MB of text in all.
const LEN: i64 = 60_000;

fn text(id: i64) -> String {
    format!("{id:0200}")
}

fn texts(range: std::ops::Range<i64>) -> RecordBatch {
    let texts = StringArray::from_iter_values(range.clone().map(text));
    let ids = Int64Array::from_iter_values(range.clone());
    let seen = Int64Array::from_iter_values(range.map(|_| 0));
    batch(vec![
        (Field::new("id", DataType::Int64, false), Arc::new(ids)),
        (Field::new("text", DataType::Utf8, true), Arc::new(texts)),
        (Field::new("seen", DataType::Int64, true), Arc::new(seen)),
    ])
}

fn four(store: &Store) {
    create(store, &texts(0..LEN), true);
    for part in 1..4 {
        append(store, &texts(part * LEN..(part + 1) * LEN));
    }
}

fn limited(limit: Option<usize>) -> StatementOptions {
    let mut options = StatementOptions::default();
    options.threads = Some(1);
    options.memory_limit = limit.map(|limit| limit as u64);
    options
}

/// Looks at every row, a few at a time; gives how many there are.
fn each(store: &Store, mut check: impl FnMut(i64, &str, i64)) -> usize {
    let scan = open(store).snapshot().scan(ScanOptions::default()).unwrap();
    let mut batches = scan.batches(runtime().handle());
    let mut len = 0;
    block_on(async {
        while let Some(batch) = batches.next().await {
            let batch = batch.unwrap();
            let ids = batch.column(0).as_primitive::<Int64Type>().values();
            let texts = batch.column(1).as_string::<i32>();
            let seen = batch.column(2).as_primitive::<Int64Type>().values();
            for (row, id) in ids.iter().enumerate() {
                check(*id, texts.value(row), seen[row]);
            }
            len += ids.len();
        }
    });
    len
}

/// Rewrites the rows of two equal tables, freely and under the limit, and returns the latter.
fn rewritten_under_limit(folder: &Path, rewrite: impl Fn(&Store, Option<usize>) -> usize) -> Store {
    let [free, limited] = ["free", "limited"].map(|name| local(&folder.join(name)));
    for store in [&free, &limited] {
        four(store);
        // What is left is copied, not mapped.
        delete(store, "id % 3 = 1");
    }
    let held_freely = rewrite(&free, None);
    assert!(held_freely > LIMIT, "{held_freely} bytes: nothing is shown");
    let held = rewrite(&limited, Some(LIMIT));
    assert!(held < LIMIT, "{held} bytes");
    limited
}

#[test]
fn an_update_of_more_than_fits_into_memory_stays_under_its_limit() {
    let set = [("seen".to_owned(), parse_sql("id + 1").unwrap())];
    let update = |store: &Store, limit| {
        let (options, table) = (limited(limit), open(store));
        let handle = runtime().handle();
        let updated = || block_on(table.update(&set, None, &options, handle)).unwrap();
        let (updated, held) = peak_bytes(updated);
        assert_eq!(updated.num_updated_rows, 160_000);
        held
    };
    let folder = tempfile::tempdir().unwrap();
    let store = rewritten_under_limit(folder.path(), update);
    let len = each(&store, |id, found, seen| {
        assert_eq!(found, text(id));
        assert_eq!(seen, id + 1);
    });
    assert_eq!(len, 160_000);
    expect_no_orphans(&store);
}

#[test]
fn a_compaction_of_more_than_fits_into_memory_stays_under_its_limit() {
    let compact = |store: &Store, limit| {
        let mut options = CompactOptions::default();
        options.statement = limited(limit);
        let (table, handle) = (open(store), runtime().handle());
        let compacted = || block_on(table.compact(&options, handle)).unwrap();
        let (compacted, held) = peak_bytes(compacted);
        assert_eq!(compacted.num_rows, 160_000);
        assert_eq!(compacted.num_added_fragments, 1);
        held
    };
    let folder = tempfile::tempdir().unwrap();
    let store = rewritten_under_limit(folder.path(), compact);
    let mut next = 0;
    let len = each(&store, |id, found, _| {
        assert!(id >= next && id % 3 != 1);
        next = id + 1;
        assert_eq!(found, text(id));
    });
    assert_eq!(len, 160_000);
    expect_no_orphans(&store);
}

#[test]
fn a_delete_in_more_than_fits_into_memory_stays_under_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let store = local(folder.path());
    four(&store);
    let (options, table) = (limited(Some(LIMIT)), open(&store));
    let predicate = parse_sql("text LIKE '%7' OR id < 10").unwrap();
    let deleted = || block_on(table.delete(&predicate, &options, runtime().handle())).unwrap();
    let (deleted, held) = peak_bytes(deleted);
    assert_eq!(deleted.num_deleted_rows, 24_000 + 9);
    assert!(held < LIMIT, "{held} bytes");
    assert_eq!(
        each(&store, |id, _, _| assert!(id > 9 && id % 10 != 7)),
        240_000 - 24_009
    );
    expect_no_orphans(&store);
}
