//! Every decoder of this crate, fed with damaged bytes whose checksums are right again.
//!
//! `make fuzz` feeds each target for a minute; without `PILUM_FUZZ_SECONDS` some thousands of inputs are enough to see that
//! it works. `PILUM_FUZZ_SEED=n` begins elsewhere.

use std::path::Path;

use arrow_ipc::CompressionType;
use bytes::Bytes;
use pilum_format::{
    DeletionFileKind, ManifestFile, Operation, OperationKind, RowIdSequence, RowVersions,
    Transaction, decode_deletions, encode_deletions,
};
use pilum_testing::{Message, Random, Target, damage_message, fuzz};

use crate::forge::{TOP, compressed_offsets, data_file, field, fragment};
use crate::manifest_bytes::{damage_manifest, seal_manifest};

#[global_allocator]
static ALLOCATOR: pilum_testing::CountingAllocator = pilum_testing::CountingAllocator;

const CASES: u64 = 4_000;

fn feed(target: &Target<'_>, cases: u64) {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    fuzz(target, &kept, cases);
}

fn leave(_: &mut Vec<u8>) {}

// -- manifests ----------------------------------------------------------------------------------------------------------

/// The files below the golden tables of pilum and of a peer for which `is_wanted` is true.
fn golden(is_wanted: impl Fn(&Path) -> bool) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if is_wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|it| it == extension)
}

/// Manifests of pilum and of a peer.
fn manifests() -> Vec<Vec<u8>> {
    let mut manifests = golden(|path| has_extension(path, "manifest"));
    manifests.retain(|bytes| bytes.len() < 10_000);
    manifests
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

#[test]
fn fuzz_manifest() {
    let target = Target {
        name: "manifest",
        corpus: manifests(),
        damage: &damage_manifest,
        mend: &|bytes| seal_manifest(bytes),
        decode: &decode_manifest,
    };
    feed(&target, CASES);
}

#[test]
fn a_sealed_manifest_is_as_it_was() {
    for bytes in manifests() {
        let mut sealed = bytes.clone();
        seal_manifest(&mut sealed);
        assert!(sealed == bytes, "an unchanged manifest was changed");
    }
}

// -- transactions -------------------------------------------------------------------------------------------------------

/// A transaction of every operation.
fn transactions() -> Vec<Vec<u8>> {
    let mut transactions = golden(|path| has_extension(path, "txn"));
    transactions.truncate(100);
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
        corpus: transactions(),
        damage: &|bytes, random| *bytes = damage_message(bytes, random),
        mend: &leave,
        decode: &decode_transaction,
    };
    feed(&target, CASES);
}

#[test]
fn every_operation_is_in_the_corpus() {
    let mut names: Vec<&str> = transactions()
        .iter()
        .map(|bytes| Transaction::decode(&Bytes::copy_from_slice(bytes)).unwrap())
        .map(|transaction| transaction.operation.name())
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), OperationKind::ALL.len() + 1, "{names:?}");
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
