//! Every decoder of a table's own files, fed with damaged ones whose checksums are right again.
//!
//! `make fuzz` feeds each target for a minute; without `PILUM_FUZZ_SECONDS` some thousands of inputs are enough to see that
//! it works. `PILUM_FUZZ_SEED=n` begins elsewhere.

use std::ops::Range;
use std::path::Path;

use arrow_ipc::CompressionType;
use bytes::Bytes;
use futures::TryStreamExt;
use pilum_format::{RawFields, crc32c};
use pilum_table::{
    Dataset, DeletionFileKind, ManifestFile, Operation, Projection, RowIdSequence, RowVersions,
    ScanOptions, Store, Transaction, VersionRef, decode_deletions, encode_deletions,
};
use pilum_testing::{Message, Random, Target, damage_message, fuzz, mutate};

use crate::every_file::{Sound, sound_tables};
use crate::forge::{TOP, behind_length, data_file, field, fragment};
use crate::hostile::compressed_offsets;
use crate::support::{block_on, golden, memory, runtime};

const CASES: u64 = 4_000;
const FOOTER: usize = 16;

fn feed(target: &Target<'_>, cases: u64) {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    fuzz(target, &kept, cases);
}

fn leave(_: &mut Vec<u8>) {}

// -- manifests ----------------------------------------------------------------------------------------------------------

/// Where the message of a manifest file lies.
fn message_of(bytes: &[u8]) -> Option<Range<usize>> {
    let footer = bytes.len().checked_sub(FOOTER)?;
    let position = u64::from_le_bytes(bytes[footer..footer + 8].try_into().ok()?);
    let start = usize::try_from(position).ok()?.checked_add(4)?;
    (start <= footer).then_some(start..footer)
}

fn with_message(bytes: &[u8], old: &Range<usize>, message: &[u8]) -> Vec<u8> {
    let footer = &bytes[bytes.len() - FOOTER..];
    [&bytes[..old.start - 4], &behind_length(message), footer].concat()
}

fn damage_manifest(bytes: &mut Vec<u8>, random: &mut Random) {
    let Some(message) = message_of(bytes) else {
        return;
    };
    // Dictionaries and sections lie before the message.
    if random.one_in(4) && message.start > 4 {
        let mut before = bytes[..message.start - 4].to_vec();
        mutate(&mut before, random);
        before.resize(message.start - 4, 0);
        bytes[..message.start - 4].copy_from_slice(&before);
        return;
    }
    let damaged = damage_message(&bytes[message.clone()], random);
    *bytes = with_message(bytes, &message, &damaged);
}

fn varint(bytes: &[u8]) -> u64 {
    let digits = bytes.iter().take(10).rev();
    digits.fold(0, |sum, byte| sum << 7 | u64::from(byte & 0x7f))
}

fn of_number(message: &[u8], number: u64) -> Option<Range<usize>> {
    let fields = RawFields::new(message).flatten();
    fields
        .filter(|it| it.number == number)
        .last()
        .map(|it| it.value)
}

/// The bytes of a section with its length, at the position that a field of the message says.
fn section<'a>(bytes: &'a [u8], message: &[u8], number: u64) -> Option<&'a [u8]> {
    let start = usize::try_from(varint(&message[of_number(message, number)?])).ok()?;
    let len = u32::from_le_bytes(bytes.get(start..start.checked_add(4)?)?.try_into().ok()?);
    bytes.get(start..start.checked_add(4)?.checked_add(len as usize)?)
}

fn seal_manifest(bytes: &mut [u8]) {
    let Some(at) = message_of(bytes) else {
        return;
    };
    let mut message = bytes[at.clone()].to_vec();
    if let Some(extension) = of_number(&message, 1001) {
        let inner = message[extension.clone()].to_vec();
        let len = of_number(&inner, 1).map_or(0, |it| varint(&inner[it]));
        let dictionaries = usize::try_from(len).ok().and_then(|len| bytes.get(..len));
        let transaction = section(bytes, &message, 23).or(section(bytes, &message, 21));
        let index = section(bytes, &message, 6);
        for (number, covered) in [(2, dictionaries), (3, transaction), (4, index)] {
            if let (Some(place), Some(covered)) = (of_number(&inner, number), covered)
                && place.len() == 4
            {
                let place = extension.start + place.start..extension.start + place.end;
                message[place].copy_from_slice(&crc32c(covered).to_le_bytes());
            }
        }
    }
    if let Some(place) = of_number(&message, 1000).filter(|it| it.len() == 4) {
        message[place.clone()].fill(0);
        let crc = crc32c(&message);
        message[place].copy_from_slice(&crc.to_le_bytes());
    }
    bytes[at].copy_from_slice(&message);
}

fn decode_manifest(bytes: &[u8], _: &mut Random) -> bool {
    let bytes = Bytes::copy_from_slice(bytes);
    let Ok(file) = ManifestFile::decode(&bytes, "a manifest") else {
        return false;
    };
    let mut sound = true;
    for fragment in file.manifest.fragments.iter().take(100) {
        let ids = fragment.row_ids();
        sound &= ids.is_ok();
        if let Ok(Some(ids)) = ids {
            assert_eq!(ids.iter().take(100).count() as u64, ids.len().min(100));
        }
        sound &= fragment.last_updated_at().is_ok() && fragment.created_at().is_ok();
    }
    sound
}

/// Manifests of tables of ours and of a peer.
fn manifests(tables: &[Sound]) -> Vec<Vec<u8>> {
    let ours = tables.iter().flat_map(|table| &table.files);
    let ours = ours.filter(|(path, _)| path.starts_with("_versions/"));
    let mut manifests: Vec<Vec<u8>> = ours.map(|(_, bytes)| bytes.clone()).collect();
    let mut folders = vec![golden()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "manifest") {
                manifests.push(std::fs::read(path).unwrap());
            }
        }
    }
    manifests.retain(|bytes| bytes.len() < 10_000);
    manifests
}

#[test]
fn fuzz_manifest() {
    let target = Target {
        name: "manifest",
        corpus: manifests(&sound_tables()),
        damage: &damage_manifest,
        mend: &|bytes| seal_manifest(bytes),
        decode: &decode_manifest,
    };
    feed(&target, CASES);
}

#[test]
fn a_sealed_manifest_is_as_it_was() {
    for bytes in manifests(&sound_tables()) {
        let mut sealed = bytes.clone();
        seal_manifest(&mut sealed);
        assert!(sealed == bytes, "an unchanged manifest was changed");
    }
}

// -- transactions -------------------------------------------------------------------------------------------------------

/// A transaction of every operation.
fn transactions(tables: &[Sound]) -> Vec<Vec<u8>> {
    let files = tables.iter().flat_map(|table| &table.files);
    let files = files.filter(|(path, _)| path.starts_with("_transactions/"));
    let mut transactions: Vec<Vec<u8>> = files.map(|(_, bytes)| bytes.clone()).collect();
    let some = || fragment(3, 10, "a.lance").bytes(3, Message::new().number(2, 1).number(3, 5));
    let schema = || field("a", 0, TOP, "int64");
    let pair = || Message::new().bytes(1, "key").bytes(2, "value");
    let index = || {
        let uuid = Message::new().bytes(1, [7; 16]);
        let files = Message::new().bytes(1, "f").number(2, 9);
        let index = Message::new()
            .bytes(1, uuid)
            .bytes(2, [0, 1])
            .bytes(3, "index");
        index.bytes(5, [0; 8]).bytes(10, files)
    };
    let edits = || Message::new().bytes(1, pair()).number(2, 1);
    let group = Message::new().bytes(1, some()).bytes(2, some());
    let rewritten = Message::new()
        .bytes(1, Message::new().bytes(1, [7; 16]))
        .number(4, 1);
    let replaced = Message::new().number(1, 3).bytes(2, data_file("b.lance"));
    let config = Message::new()
        .bytes(1, pair())
        .bytes(2, "key")
        .bytes(6, edits());
    let config = config.bytes(7, edits()).bytes(8, edits());
    let of_field = Message::new().number(1, 3).bytes(2, edits());
    for (operation, content) in [
        (100, Message::new().bytes(1, some()).bytes(1, some())),
        (
            101,
            Message::new()
                .bytes(1, some())
                .bytes(2, [1, 2])
                .bytes(3, "a > 1"),
        ),
        (
            102,
            Message::new()
                .bytes(1, some())
                .bytes(2, schema())
                .bytes(3, pair())
                .bytes(4, pair()),
        ),
        (103, Message::new().bytes(1, index()).bytes(2, index())),
        (104, Message::new().bytes(3, group).bytes(4, rewritten)),
        (104, Message::new().bytes(1, some()).bytes(2, some())),
        (
            105,
            Message::new()
                .bytes(1, some())
                .bytes(2, schema())
                .bytes(3, pair())
                .number(4, 1),
        ),
        (106, Message::new().number(1, 1)),
        (107, Message::new().number(1, 4)),
        (
            108,
            Message::new()
                .bytes(1, [2])
                .bytes(2, some())
                .bytes(3, some())
                .bytes(4, [0])
                .number(7, 1),
        ),
        (109, Message::new().bytes(1, schema()).number(2, 1)),
        (110, config.bytes(9, of_field)),
        (111, Message::new().bytes(1, replaced)),
        (200, Message::new().bytes(1, some())),
    ] {
        let head = Message::new()
            .number(1, 1)
            .bytes(2, "0-uuid")
            .bytes(4, pair());
        transactions.push(head.bytes(operation, content).encode());
    }
    transactions
}

fn decode_transaction(bytes: &[u8], _: &mut Random) -> bool {
    let Ok(read) = Transaction::decode(&Bytes::copy_from_slice(bytes)) else {
        return false;
    };
    // What was understood is written as it was understood.
    if !matches!(read.operation, Operation::Unknown(_)) {
        assert_eq!(Transaction::decode(&read.encode()).unwrap(), read);
    }
    true
}

#[test]
fn fuzz_transaction() {
    let target = Target {
        name: "transaction",
        corpus: transactions(&sound_tables()),
        damage: &|bytes, random| *bytes = damage_message(bytes, random),
        mend: &leave,
        decode: &decode_transaction,
    };
    feed(&target, CASES);
}

#[test]
fn every_operation_is_in_the_corpus() {
    let mut names: Vec<&str> = transactions(&sound_tables())
        .iter()
        .map(|bytes| Transaction::decode(&Bytes::copy_from_slice(bytes)).unwrap())
        .map(|transaction| transaction.operation.name())
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), pilum_table::OPERATIONS.len() + 1, "{names:?}");
}

// -- deletion files -----------------------------------------------------------------------------------------------------

fn decode_deletion_file(bytes: &[u8], random: &mut Random) -> bool {
    let kind = if bytes.starts_with(b"ARROW1") {
        DeletionFileKind::Arrow
    } else {
        DeletionFileKind::Bitmap
    };
    let physical_rows = *random.pick(&[0, 10, 20_000, 1 << 20, 1 << 32]);
    let Ok(deleted) = decode_deletions(&Bytes::copy_from_slice(bytes), kind, physical_rows) else {
        return false;
    };
    assert!(
        physical_rows == 0
            || deleted
                .max()
                .is_none_or(|row| u64::from(row) < physical_rows)
    );
    assert_eq!(
        deleted.iter().take(10_000).count() as u64,
        deleted.len().min(10_000)
    );
    true
}

/// Sets a number where a number is: both formats align them to two or four bytes.
fn damage_numbers(bytes: &mut [u8], random: &mut Random) {
    let at = random.below(bytes.len().max(4) / 4) * 4;
    let width = *random.pick(&[2, 4, 8]);
    let word = random.edge().to_le_bytes();
    if let Some(place) = bytes.get_mut(at..at + width) {
        place.copy_from_slice(&word[..width]);
    }
}

#[test]
fn fuzz_deletions() {
    let sets = [
        (0..20_000).step_by(3).collect(),
        (0..10).collect(),
        [5, 70_000, 1 << 31, u32::MAX].into_iter().collect(),
        (0..200_000).filter(|row| row % 7 != 0).collect(),
    ];
    let mut corpus: Vec<Vec<u8>> = Vec::new();
    for set in &sets {
        corpus.push(
            encode_deletions(set, DeletionFileKind::Bitmap)
                .unwrap()
                .to_vec(),
        );
        let mut runs = Vec::new();
        let mut compressed = set.clone();
        compressed.optimize();
        compressed.serialize_into(&mut runs).unwrap();
        corpus.push(runs);
    }
    for set in &sets[..3] {
        corpus.push(
            encode_deletions(set, DeletionFileKind::Arrow)
                .unwrap()
                .to_vec(),
        );
    }
    for codec in [
        None,
        Some(CompressionType::LZ4_FRAME),
        Some(CompressionType::ZSTD),
    ] {
        corpus.push(compressed_offsets(1000, codec));
    }
    let target = Target {
        name: "deletions",
        corpus,
        damage: &|bytes, random| damage_numbers(bytes, random),
        mend: &leave,
        decode: &decode_deletion_file,
    };
    feed(&target, CASES);
}

// -- row ids and versions -----------------------------------------------------------------------------------------------

fn decode_rows(bytes: &[u8], random: &mut Random) -> bool {
    let versions = RowVersions::decode(bytes);
    if let Ok(versions) = &versions {
        let at = random.edge();
        assert_eq!(versions.get(at).is_some(), at < versions.len());
        let some = versions.slice(at, 100);
        assert_eq!(some.len(), versions.len().saturating_sub(at).min(100));
    }
    let ids = RowIdSequence::decode(bytes);
    if let Ok(ids) = &ids {
        assert_eq!(ids.iter().take(1000).count() as u64, ids.len().min(1000));
        let at = random.edge();
        assert_eq!(ids.get(at).is_some(), at < ids.len());
        if ids.len() < 100_000 {
            let all: Vec<u64> = ids.iter().collect();
            let again = RowIdSequence::from_values(&all);
            assert!(again.iter().eq(ids.iter()));
            assert!(
                RowIdSequence::decode(&again.encode())
                    .unwrap()
                    .iter()
                    .eq(all)
            );
            let gone = (0..1000).step_by(3).collect();
            assert!(ids.without(&gone).len() <= ids.len());
        }
    }
    ids.is_ok() || versions.is_ok()
}

#[test]
fn fuzz_rows() {
    let mut corpus: Vec<Vec<u8>> = Vec::new();
    let far = 1 << 40;
    for values in [
        (0..1000).collect::<Vec<u64>>(),
        (0..1000).filter(|id| id % 50 != 3).collect(),
        (0..1000).filter(|id| id % 3 != 1).collect(),
        (0..50).map(|id| id * 1000).collect(),
        (0..50).map(|id| id * far).collect(),
        (0..50).rev().map(|id| id * 70_000).collect(),
        vec![u64::MAX, 0, 7],
    ] {
        let ids = RowIdSequence::from_values(&values);
        corpus.push(ids.encode().to_vec());
        let mut longer = RowIdSequence::from_range(far..far + 5);
        longer.extend(&ids);
        corpus.push(longer.encode().to_vec());
    }
    let mut versions = RowVersions::uniform(5, 1);
    versions.extend(&RowVersions::uniform(7, 3));
    corpus.push(versions.encode().to_vec());
    let target = Target {
        name: "rows",
        corpus,
        damage: &|bytes, random| *bytes = damage_message(bytes, random),
        mend: &leave,
        decode: &decode_rows,
    };
    feed(&target, CASES);
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
