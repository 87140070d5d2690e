//! Tests of reference sets in the Parquet layout: the numbers of the files, lazy reads, and damaged folders that are refused.

use std::borrow::Cow;

use futures::executor::block_on;
use pilum_references::{ParquetSet, Reference, ReferenceSet, StorageOptions, write_parquet};
use pilum_store::Store;

fn range(offset: i64, size: i64) -> Reference<'static> {
    let url = Some(Cow::Borrowed("s3://bucket/file"));
    Reference::Range { url, offset, size }
}

fn inline(text: &str) -> Reference<'_> {
    Reference::Inline(Cow::Borrowed(text.as_bytes()))
}

fn array(set: &mut ReferenceSet, name: &str, shape: &str, chunks: &str) {
    let metadata =
        format!("{{\"zarr_format\":2,\"shape\":{shape},\"chunks\":{chunks},\"dtype\":\"|u1\"}}");
    set.insert(&format!("{name}/.zarray"), &inline(&metadata))
        .unwrap();
}

fn written(name: &str, set: &ReferenceSet, record_size: u64) -> (Store, ParquetSet) {
    let store = Store::open(
        &format!("memory://references-parquet/{name}"),
        &StorageOptions::new(),
    )
    .unwrap();
    block_on(write_parquet(set, &store, record_size)).unwrap();
    let opened = block_on(ParquetSet::open(store.clone(), None)).unwrap();
    (store, opened)
}

#[test]
fn every_value_comes_back_at_every_record_size() {
    let mut set = ReferenceSet::new();
    array(&mut set, "g/x", "[5,11]", "[2,3]");
    array(&mut set, "s", "[]", "[]");
    for i in 0..3 {
        for j in (0..4).filter(|j| i + j != 3) {
            set.insert(&format!("g/x/{i}.{j}"), &range(i * 100 + j, 7))
                .unwrap();
        }
    }
    set.insert("g/x/0.0", &inline("text")).unwrap();
    set.insert(
        "g/x/0.1",
        &Reference::File {
            url: Some("whole".into()),
        },
    )
    .unwrap();
    set.insert("s/0", &range(5, 0)).unwrap();
    for record_size in [1, 3, 5, 12, 1000] {
        let (_, opened) = written(&format!("values{record_size}"), &set, record_size);
        let loaded = block_on(opened.load("")).unwrap();
        for (key, value) in set.iter() {
            assert_eq!(loaded.get(key), Some(value), "{key} at {record_size}");
        }
        assert_eq!(loaded.len(), set.len() + 1, "and .zmetadata");
        let keys =
            ["g/x/2.1", "g/x/2.2", "g/x/1.1", "g/x/9.9", "nothing", "s/0"].map(str::to_owned);
        let found = block_on(opened.locate(&keys)).unwrap();
        let is_found: Vec<bool> = found.iter().map(Option::is_some).collect();
        assert_eq!(is_found, [false, true, true, false, false, true]);
    }
}

#[test]
fn a_lookup_reads_one_file_and_opening_reads_the_metadata_alone() {
    let mut set = ReferenceSet::new();
    array(&mut set, "x", "[100]", "[1]");
    for it in 0..100 {
        set.insert(&format!("x/{it}"), &range(it, 1)).unwrap();
    }
    let (store, _) = written("lazy", &set, 10);
    let before = store.counters().reads;
    let opened = block_on(ParquetSet::open(store.clone(), None)).unwrap();
    assert_eq!(store.counters().reads - before, 1);
    for key in ["x/42", "x/43", "x/49"] {
        assert!(block_on(opened.locate(&[key.to_owned()])).unwrap()[0].is_some());
    }
    assert_eq!(store.counters().reads - before, 2);
}

#[test]
fn an_empty_range_at_the_start_of_a_file_stays_empty() {
    let mut set = ReferenceSet::new();
    array(&mut set, "x", "[3]", "[1]");
    set.insert("x/0", &range(0, 0)).unwrap();
    set.insert("x/1", &inline("base64:YmFzZTY0OllXSmo="))
        .unwrap();
    let (_, opened) = written("empty", &set, 10);
    let found = block_on(opened.locate(&["x/0".to_owned(), "x/1".to_owned()])).unwrap();
    assert_eq!(found[0], Some(inline("")));
    assert_eq!(
        found[1],
        Some(inline("base64:YmFzZTY0OllXSmo=")),
        "wrapped once more: readers decode the column"
    );
}

#[test]
fn what_the_layout_cannot_hold_is_refused_before_anything_is_written() {
    let cases = [
        ("zarr.json", inline("{}")),
        ("loose", inline("text")),
        ("y/0", range(0, 1)),
        ("x/7", range(0, 1)),
        ("x/0", Reference::File { url: None }),
        ("x/0", Reference::Malformed { json: "[1]".into() }),
    ];
    for (key, value) in cases {
        let mut set = ReferenceSet::new();
        array(&mut set, "x", "[3]", "[1]");
        set.insert(key, &value).unwrap();
        let store = Store::open(
            "memory://references-parquet/refused",
            &StorageOptions::new(),
        )
        .unwrap();
        let error = block_on(write_parquet(&set, &store, 10)).unwrap_err();
        assert!(
            matches!(error.kind(), "unsupported" | "invalid_input"),
            "{key}: {error}"
        );
        assert!(error.to_string().contains(key), "{error}");
        assert!(block_on(store.list_recursive("")).unwrap().is_empty());
    }
}
