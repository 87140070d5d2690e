//! Metadata documents and index files, fed with damaged bytes.
//!
//! `make fuzz` feeds each target for a minute; without `PILUM_FUZZ_SECONDS` some thousands of inputs are enough to see that it
//! works. `PILUM_FUZZ_SEED=n` begins elsewhere.

use std::path::Path;

use bytes::Bytes;
use pilum_kartothek::{
    Dataset, DatasetMetadata, DocumentForm, IndexReference, Limits, OpenOptions,
};
use pilum_store::{StorageOptions, Store};
use pilum_testing::{Random, Target, fuzz};
use tokio::runtime::Runtime;

use crate::documents::{cases, documents};

#[global_allocator]
static ALLOCATOR: pilum_testing::CountingAllocator = pilum_testing::CountingAllocator;

fn feed(target: &Target<'_>, cases: u64) {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    fuzz(target, &kept, cases);
}

fn leave(_: &mut Vec<u8>) {}

fn no_damage(_: &mut Vec<u8>, _: &mut Random) {}

/// Replaces a piece of a text by another piece of it, or by a piece that matters to parsers.
fn damage_text(bytes: &mut Vec<u8>, random: &mut Random) {
    const PIECES: [&str; 10] = [
        "null",
        "[[[[",
        "{}",
        "-1e999",
        "\"\\ud800\"",
        "18446744073709551616",
        "\"a\":{\"b\":[\"c\"]}",
        "4",
        "\"files\":1",
        "\u{0}",
    ];
    let len = bytes.len();
    if len == 0 {
        return;
    }
    let start = random.below(len);
    let end = (start + random.below(16)).min(bytes.len());
    let piece = random.pick(&PIECES).as_bytes().to_vec();
    bytes.splice(start..end, piece);
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.document_bytes = 1 << 20;
    limits.entries = 1 << 16;
    limits
}

/// Reads a document; what was read is written in both forms and read again.
fn decode(bytes: &[u8], form: DocumentForm) -> bool {
    let limits = limits();
    // The UUID of a damaged document may be any: take the one that it names.
    let uuid = ["colnames", "part_types", "upd", "types-msgpack"];
    let read =
        |bytes: &[u8], form, uuid: &str| DatasetMetadata::parse(bytes, form, "p", uuid, &limits);
    let Some(found) = uuid.iter().find_map(|uuid| read(bytes, form, uuid).ok()) else {
        return false;
    };
    let again = found.to_bytes(DocumentForm::Json).unwrap();
    assert_eq!(
        read(&again, DocumentForm::Json, &found.uuid).unwrap(),
        found
    );
    true
}

fn corpus(wanted: DocumentForm) -> Vec<Vec<u8>> {
    let mut corpus = Vec::new();
    for case in cases() {
        for (uuid, form, bytes) in documents(&case) {
            let limits = limits();
            let is_named =
                ["colnames", "part_types", "upd", "types-msgpack"].contains(&uuid.as_str());
            if is_named && bytes.len() < 20_000 {
                let document = DatasetMetadata::parse(&bytes, form, "p", &uuid, &limits).unwrap();
                corpus.push(document.to_bytes(wanted).unwrap());
            }
        }
    }
    corpus
}

#[test]
fn fuzz_kartothek_json() {
    let target = Target {
        name: "kartothek_json",
        corpus: corpus(DocumentForm::Json),
        damage: &damage_text,
        mend: &leave,
        decode: &|bytes, _| decode(bytes, DocumentForm::Json),
    };
    feed(&target, 3_000);
}

#[test]
fn fuzz_kartothek_message_pack() {
    // The corpus is unpacked MessagePack; each input is compressed before it is read.
    let unpacked = corpus(DocumentForm::MessagePack)
        .iter()
        .map(|it| zstd_unpacked(it))
        .collect();
    let target = Target {
        name: "kartothek_message_pack",
        corpus: unpacked,
        damage: &no_damage,
        mend: &leave,
        decode: &|bytes, random| {
            let mut packed = zstd::bulk::compress(bytes, 1).unwrap();
            if random.one_in(16) {
                pilum_testing::mutate(&mut packed, random);
            }
            decode(&packed, DocumentForm::MessagePack)
        },
    };
    feed(&target, 3_000);
}

fn zstd_unpacked(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::decompress(bytes, 1 << 20).unwrap()
}

/// A dataset in memory whose index has the given bytes.
fn read_index(runtime: &Runtime, store: &Store, document: &Bytes, key: &str, bytes: &[u8]) -> bool {
    runtime.block_on(async {
        store.put(key, Bytes::copy_from_slice(bytes)).await.unwrap();
        let mut options = OpenOptions::default();
        options.limits.index_bytes = 1 << 22;
        options.limits.parquet.page_bytes = 1 << 20;
        options.limits.parquet.footer_bytes = 1 << 20;
        options.limits.parquet.free_page_bytes = 1 << 20;
        options.limits.parquet.repeated_values = 1 << 16;
        let opened =
            Dataset::of_document(store, "upd", DocumentForm::Json, document.clone(), options).await;
        let index = opened.unwrap().index("ix", runtime.handle()).await;
        let Ok(index) = index else {
            return false;
        };
        let entries: usize = (0..index.values().len())
            .map(|it| index.partitions(it).len())
            .sum();
        assert_eq!(entries, index.num_entries());
        true
    })
}

#[test]
fn fuzz_kartothek_index() {
    let runtime = Runtime::new().unwrap();
    let store = Store::open("memory://fuzz-kartothek-index", &StorageOptions::new()).unwrap();
    let store = store.with_literal_paths();
    let case = cases()
        .into_iter()
        .find(|it| it.ends_with("update_delete"))
        .unwrap();
    let (_, _, document) = documents(&case)
        .into_iter()
        .find(|it| it.0 == "upd")
        .unwrap();
    let parsed = DatasetMetadata::parse(
        &document,
        DocumentForm::Json,
        "p",
        "upd",
        &Limits::default(),
    );
    let IndexReference::File(key) = parsed.unwrap().indices["ix"].clone() else {
        panic!("the index is in a file")
    };
    let schema = std::fs::read(case.join("store/upd/table/_common_metadata")).unwrap();
    runtime
        .block_on(store.put("upd/table/_common_metadata", schema.into()))
        .unwrap();
    let index = std::fs::read(case.join("store").join(&key)).unwrap();
    let document = Bytes::from(document);
    let target = Target {
        name: "kartothek_index",
        corpus: vec![index],
        damage: &no_damage,
        mend: &leave,
        decode: &|bytes, _| read_index(&runtime, &store, &document, &key, bytes),
    };
    feed(&target, 400);
}
