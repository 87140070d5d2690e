//! Damaged documents, templates and Parquet references: no panic, memory within bounds.

use std::path::Path;

use bytes::Bytes;
use futures::executor::block_on;
use pilum_references::{
    DocumentOptions, Mode, ParquetSet, Reference, ReferenceSet, StorageOptions, read_document,
    write_parquet,
};
use pilum_store::Store;
use pilum_testing::{CountingAllocator, Random, Target, attack, fuzz, mutate};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn kept() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn read(bytes: &[u8], mode: Mode) -> bool {
    let mut options = DocumentOptions::default();
    options.mode = mode;
    // Few bytes may make many references: the tests allow little.
    options.max_references = Some(1000);
    read_document("fuzz", || Ok(Box::new(bytes)), &options).is_ok()
}

fn documents() -> Vec<Vec<u8>> {
    let table: serde_json::Value =
        serde_json::from_str(include_str!("../fixtures/documents.json")).unwrap();
    let documents = table.as_object().unwrap().values();
    documents.map(|it| it.to_string().into_bytes()).collect()
}

fn expressions() -> Vec<Vec<u8>> {
    let table: serde_json::Value =
        serde_json::from_str(include_str!("../fixtures/expressions.json")).unwrap();
    let cases = table["expressions"].as_array().unwrap();
    cases
        .iter()
        .map(|it| it["expr"].as_str().unwrap().as_bytes().to_vec())
        .collect()
}

fn run(name: &str, corpus: Vec<Vec<u8>>, decode: &dyn Fn(&[u8], &mut Random) -> bool) {
    let target = Target {
        name,
        corpus,
        damage: &|bytes, random| mutate(bytes, random),
        mend: &|_| {},
        decode,
    };
    fuzz(&target, &kept(), 2000);
}

#[test]
fn fuzz_references_documents() {
    run("references-documents", documents(), &|bytes, random| {
        let mode = [Mode::Union, Mode::Simple, Mode::Full][random.below(3)];
        let what = || String::from_utf8_lossy(bytes).into_owned();
        attack(bytes.len() + (1 << 20), &what, || read(bytes, mode)).0
    });
}

#[test]
fn fuzz_references_templates() {
    run("references-templates", expressions(), &|bytes, random| {
        let mode = [Mode::Union, Mode::Simple, Mode::Full][random.below(3)];
        let url = String::from_utf8_lossy(bytes).into_owned();
        let document = serde_json::json!({"version": 1, "templates": {"u": "memory://b", "n": "5", "f": "{{c}}"},
            "gen": [{"key": "k{{i}}", "url": url, "dimensions": {"i": [1, "a", null]}}], "refs": {"k": [url]}});
        let text = document.to_string();
        attack(text.len() + (1 << 20), &|| text.clone(), || {
            read(text.as_bytes(), mode)
        })
        .0
    });
}

fn parquet_files() -> Vec<Vec<u8>> {
    let mut set = ReferenceSet::new();
    let metadata = br#"{"zarr_format":2,"shape":[6],"chunks":[1],"dtype":"|u1"}"#;
    set.insert("x/.zarray", &Reference::Inline(metadata.as_slice().into()))
        .unwrap();
    set.insert("x/0", &Reference::Inline(b"raw".as_slice().into()))
        .unwrap();
    for it in 1..5 {
        let url = Some(format!("s3://bucket/{}", it % 2).into());
        set.insert(
            &format!("x/{it}"),
            &Reference::Range {
                url,
                offset: it,
                size: 3,
            },
        )
        .unwrap();
    }
    let store = Store::open("memory://references-fuzz/made", &StorageOptions::new()).unwrap();
    block_on(write_parquet(&set, &store, 6)).unwrap();
    let file = block_on(store.read("x/refs.0.parq", 1 << 20)).unwrap();
    vec![file.to_vec()]
}

#[test]
fn fuzz_references_parquet() {
    let metadata = r#"{"metadata":{"x/.zarray":{"shape":[6],"chunks":[1]}},"record_size":6}"#;
    let store = Store::open("memory://references-fuzz/read", &StorageOptions::new()).unwrap();
    block_on(store.put(".zmetadata", metadata.into())).unwrap();
    run("references-parquet", parquet_files(), &|bytes, _| {
        block_on(store.put("x/refs.0.parq", Bytes::copy_from_slice(bytes))).unwrap();
        let set = block_on(ParquetSet::open(store.clone(), None)).unwrap();
        // The library that reads Parquet allocates pages of the size that a header names, at most 2 GiB; only panics count here.
        block_on(set.load("")).is_ok()
    });
}
