//! Tags, commit markers and whole tables with damaged files whose checksums are right again. The tests of `format` feed the
//! decoders of single files.
//!
//! `make fuzz` feeds each target for a minute; without `PILUM_FUZZ_SECONDS` some thousands of inputs are enough to see that
//! it works. `PILUM_FUZZ_SEED=n` begins elsewhere.

use std::path::Path;

use bytes::Bytes;
use futures::TryStreamExt;
use pilum_table::{Dataset, Projection, ScanOptions, Store, VersionRef};
use pilum_testing::{Random, Target, fuzz};

use crate::every_file::{Sound, sound_tables};
use crate::manifest_bytes::{damage_manifest, seal_manifest};
use crate::support::{block_on, memory, runtime};

const CASES: u64 = 4_000;

fn feed(target: &Target<'_>, cases: u64) {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    fuzz(target, &kept, cases);
}

// -- tags and markers ---------------------------------------------------------------------------------------------------

/// A file without its checksum is one of a peer.
fn without_checksum(bytes: &mut Vec<u8>) {
    if let Ok(serde_json::Value::Object(mut object)) = serde_json::from_slice(bytes)
        && object.remove("crc32c").is_some()
    {
        *bytes = serde_json::to_vec(&object).unwrap();
    }
}

/// Sets a key to a value of any kind.
fn damage_json(bytes: &mut Vec<u8>, random: &mut Random) {
    let Ok(serde_json::Value::Object(mut object)) = serde_json::from_slice(bytes) else {
        return;
    };
    let keys: Vec<String> = object.keys().cloned().collect();
    let Some(key) = keys.get(random.below(keys.len())) else {
        return;
    };
    let number = random.edge();
    let value = match random.below(8) {
        0 => serde_json::Value::Null,
        1 => serde_json::json!(-1),
        2 => serde_json::json!(0.5),
        3 => serde_json::json!("2026-13-41T99:99:99.999999999999999999Z"),
        4 => serde_json::json!("9".repeat(random.below(2000))),
        5 => serde_json::json!({"a": [[[]]]}),
        _ => serde_json::json!(number),
    };
    object.insert(key.clone(), value);
    *bytes = serde_json::to_vec(&object).unwrap();
}

#[test]
fn fuzz_names() {
    let tables = sound_tables();
    let table = &tables[0];
    let store = memory();
    for (path, bytes) in &table.files {
        block_on(store.put(path, bytes.clone().into())).unwrap();
    }
    let opened = block_on(Dataset::open_in(&store, &VersionRef::Latest)).unwrap();
    let corpus = table
        .files
        .iter()
        .filter(|(path, _)| path.starts_with("_refs/"));
    let corpus: Vec<Vec<u8>> = corpus.map(|(_, bytes)| bytes.clone()).collect();
    assert!(corpus.len() >= 3, "two tags and a marker");
    let marker = table
        .files
        .keys()
        .find(|path| path.contains("commits"))
        .unwrap();
    let mut options = pilum_table::WriteOptions::default();
    options.mode = pilum_table::WriteMode::Append;
    options.commit_id = Some(crate::every_file::COMMIT_ID.to_owned());
    let decode = |bytes: &[u8], _: &mut Random| {
        let bytes = Bytes::copy_from_slice(bytes);
        block_on(store.put("_refs/tags/newest.json", bytes.clone())).unwrap();
        let tagged = block_on(opened.checkout(&VersionRef::Tag("newest".to_owned())));
        let _ = block_on(opened.tags());
        block_on(store.put(marker, bytes)).unwrap();
        let rows = crate::support::reader(&[crate::support::rows(0, 1)]);
        let again = block_on(pilum_table::write(&store, rows, &options));
        // The one commit of that id is found, or the question stays open: nothing is written twice.
        assert!(again.as_ref().is_err() || again.as_ref().unwrap().was_committed_before);
        tagged.is_ok() || again.is_ok()
    };
    let target = Target {
        name: "names",
        corpus,
        damage: &damage_json,
        mend: &without_checksum,
        decode: &decode,
    };
    feed(&target, CASES / 4);
}

// -- whole tables -------------------------------------------------------------------------------------------------------

/// Asks a table for everything, on this thread.
fn ask(store: &Store) -> pilum_table::Result<()> {
    let table = block_on(Dataset::open_in(store, &VersionRef::Latest))?;
    let snapshot = table.snapshot();
    let num_rows = snapshot.num_rows();
    let mut options = ScanOptions::default();
    options.threads = Some(1);
    options.with_row_id = true;
    options.with_row_address = true;
    let scanned = snapshot
        .scan(options)
        .and_then(|scan| block_on(scan.batches(runtime().handle()).try_collect::<Vec<_>>()));
    let some = [0, 1, num_rows / 2, num_rows.saturating_sub(1)];
    let taken = block_on(snapshot.take(&some, Projection::All));
    let report = block_on(snapshot.verify());
    let _ = block_on(table.versions());
    let _ = block_on(snapshot.transaction());
    scanned?;
    taken?;
    report.map(drop)
}

#[test]
fn fuzz_table() {
    let tables = sound_tables();
    let stores: Vec<Store> = tables
        .iter()
        .map(|table| {
            let store = memory();
            for (path, bytes) in &table.files {
                block_on(store.put(path, bytes.clone().into())).unwrap();
            }
            store
        })
        .collect();
    // The first byte says which table the manifest is for.
    let newest = |table: &Sound| {
        let of = |path: &&String| table.version_of(path) == Some(table.latest);
        table.files.keys().find(of).unwrap().clone()
    };
    let corpus: Vec<Vec<u8>> = (0..)
        .zip(&tables)
        .map(|(index, table)| [&[index][..], &table.files[&newest(table)]].concat())
        .collect();
    let behind = |bytes: &mut Vec<u8>, change: &mut dyn FnMut(&mut Vec<u8>)| {
        if let Some((&first, rest)) = bytes.split_first() {
            let mut rest = rest.to_vec();
            change(&mut rest);
            *bytes = [&[first][..], &rest].concat();
        }
    };
    let decode = |bytes: &[u8], _: &mut Random| {
        let Some((&index, manifest)) = bytes.split_first() else {
            return false;
        };
        let index = usize::from(index) % tables.len();
        let path = newest(&tables[index]);
        let manifest = Bytes::copy_from_slice(manifest);
        block_on(stores[index].put(&path, manifest)).unwrap();
        ask(&stores[index]).is_ok()
    };
    let target = Target {
        name: "table",
        corpus,
        damage: &|bytes, random| behind(bytes, &mut |it| damage_manifest(it, random)),
        mend: &|bytes| behind(bytes, &mut |it| seal_manifest(it)),
        decode: &decode,
    };
    feed(&target, CASES / 4);
}
