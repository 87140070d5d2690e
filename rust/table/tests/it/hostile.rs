//! Files of a table that unpack to more than they may: refused, in little memory.

use arrow_ipc::CompressionType;
use bytes::Bytes;
use futures::TryStreamExt;
use pilum_format::{DeletionFileKind, ManifestFile, RowIdSequence, RowVersions, decode_deletions};
use pilum_table::{Dataset, Projection, Result, ScanOptions, Store, Transaction, VersionRef};
use pilum_testing::{Message, Slowest, attack, most_bytes};

use crate::forge::{
    TOP, bare, behind_length, compressed_offsets, data_file, field, fragment, id_field,
    manifest_file, plain,
};
use crate::support::{block_on, create, files, ids, memory, open, reader, rows, runtime};

#[global_allocator]
static ALLOCATOR: pilum_testing::CountingAllocator = pilum_testing::CountingAllocator;

/// What a small bomb may take.
const BOMB_MEMORY: usize = 128 << 20;
/// Parts of a list.
const MANY: usize = 4 << 20;

/// Bytes, and who is to decode them.
struct Bomb {
    name: &'static str,
    bytes: Vec<u8>,
    decode: fn(&Bytes) -> Result<()>,
}

fn manifest(bytes: &Bytes) -> Result<()> {
    Ok(ManifestFile::decode(bytes, "a manifest").map(drop)?)
}

fn transaction(bytes: &Bytes) -> Result<()> {
    Ok(Transaction::decode(bytes).map(drop)?)
}

fn row_ids(bytes: &Bytes) -> Result<()> {
    Ok(RowIdSequence::decode(bytes).map(drop)?)
}

fn row_versions(bytes: &Bytes) -> Result<()> {
    Ok(RowVersions::decode(bytes).map(drop)?)
}

fn arrow_deletions(bytes: &Bytes) -> Result<()> {
    Ok(decode_deletions(bytes, DeletionFileKind::Arrow, 1 << 32).map(drop)?)
}

fn bitmap_deletions(bytes: &Bytes) -> Result<()> {
    Ok(decode_deletions(bytes, DeletionFileKind::Bitmap, 1 << 32).map(drop)?)
}

fn tag(bytes: &Bytes) -> Result<()> {
    let store = memory();
    create(&store, &rows(0, 1), false);
    block_on(store.put("_refs/tags/a.json", bytes.clone())).unwrap();
    block_on(Dataset::open_in(&store, &VersionRef::Tag("a".to_owned()))).map(drop)
}

/// A marker of the commit `a`; whether it was committed is asked before anything is written.
fn marker(bytes: &Bytes) -> Result<()> {
    let store = memory();
    create(&store, &rows(0, 1), false);
    block_on(store.put("_refs/commits/61.json", bytes.clone())).unwrap();
    let mut options = pilum_table::WriteOptions::default();
    options.mode = pilum_table::WriteMode::Append;
    options.commit_id = Some("a".to_owned());
    let before = files(&store);
    let written = block_on(pilum_table::write(&store, reader(&[rows(0, 1)]), &options));
    assert_eq!(files(&store), before, "something was written");
    written.map(drop)
}

/// Markers that are well written and lie: no rows are lost by them, and none are written twice.
#[test]
fn hostile_markers_never_say_that_rows_are_there() {
    let refused = |text: &str, reason: &str| {
        let error = marker(&Bytes::from(text.to_owned())).unwrap_err();
        assert_eq!(error.kind(), "corrupt", "{text}: {error}");
        let told = error.to_string();
        assert!(told.contains("_refs/commits/61.json"), "{told}");
        assert!(told.contains(reason), "{reason}: {told}");
    };
    refused("{}", "no commit marker");
    refused(
        r#"{"commit_id":"a","after_version":-1}"#,
        "no commit marker",
    );
    refused(
        r#"{"commit_id":"a","after_version":0,"crc32c":7}"#,
        "fails its checksum",
    );
    refused(r#"{"commit_id":"b","after_version":0}"#, "that of \"b\"");
    for version in [2, u64::MAX] {
        let text = format!(r#"{{"commit_id":"a","after_version":0,"version":{version}}}"#);
        refused(&text, &format!("names version {version}"));
    }
    // A marker that only claims to be from the future hides no version that is to come: the rows are written once.
    for after in [0, 1, 2, u64::MAX] {
        let store = memory();
        create(&store, &rows(0, 1), false);
        let text = format!(r#"{{"commit_id":"a","after_version":{after}}}"#);
        block_on(store.put("_refs/commits/61.json", text.into())).unwrap();
        let mut options = pilum_table::WriteOptions::default();
        options.mode = pilum_table::WriteMode::Append;
        options.commit_id = Some("a".to_owned());
        let write = || {
            let rows = reader(&[rows(1, 1)]);
            block_on(pilum_table::write(&store, rows, &options)).unwrap()
        };
        assert!(!write().was_committed_before, "{after}");
        assert!(write().was_committed_before, "{after}");
        assert_eq!(ids(open(&store).snapshot()), [0, 1]);
    }
    for id in [String::new(), "x".repeat(101)] {
        let mut options = pilum_table::WriteOptions::default();
        options.commit_id = Some(id);
        let rows = reader(&[rows(1, 1)]);
        let error = block_on(pilum_table::write(&memory(), rows, &options)).unwrap_err();
        assert_eq!(error.kind(), "invalid_input", "{error}");
    }
}

/// The newest manifest of a table of one data file of four rows: read everything.
fn table(manifest: &Bytes) -> Result<()> {
    let store = memory();
    create(&store, &rows(0, 4), false);
    let listed = files(&store);
    let data = listed.iter().find(|path| path.starts_with("data/"));
    let bytes = block_on(store.read(data.unwrap(), 1 << 20)).unwrap();
    block_on(store.put("data/a.lance", bytes)).unwrap();
    let path = listed.iter().find(|path| path.starts_with("_versions"));
    block_on(store.put(path.unwrap(), manifest.clone())).unwrap();
    read_everything(&store)
}

fn read_everything(store: &Store) -> Result<()> {
    let table = block_on(Dataset::open_in(store, &VersionRef::Latest))?;
    let snapshot = table.snapshot();
    let mut options = ScanOptions::default();
    options.threads = Some(1);
    options.with_row_id = true;
    let scan = snapshot.scan(options)?;
    let scanned = block_on(scan.batches(runtime().handle()).try_collect::<Vec<_>>());
    let taken = block_on(snapshot.take(&[0, 3, 1 << 31], Projection::All));
    let report = block_on(snapshot.verify())?;
    assert!(!report.is_ok(), "a bomb that is sound");
    // The manifest promises rows that the file does not have.
    assert!(taken.is_err(), "a row that is not there");
    scanned.map(drop)
}

fn bomb(name: &'static str, bytes: Vec<u8>, decode: fn(&Bytes) -> Result<()>) -> Bomb {
    Bomb {
        name,
        bytes,
        decode,
    }
}

/// A list of parts of two bytes each in a manifest.
fn manifest_list(number: u64) -> Vec<u8> {
    manifest_file(&[], plain().many(number, [], MANY))
}

/// A list of parts of two bytes each in an operation of a transaction.
fn operation_list(operation: u64, number: u64) -> Vec<u8> {
    let list = Message::new().many(number, [], MANY);
    Message::new().bytes(operation, list).encode()
}

fn dictionary_field(id: u64, logical_type: &str, offset: u64, len: u64) -> Message {
    let place = Message::new().number(1, offset).number(2, len);
    field(&format!("d{id}"), id, TOP, logical_type).bytes(8, place)
}

fn dictionary(logical_type: &str, offset: u64, len: u64) -> Vec<u8> {
    let field = dictionary_field(0, logical_type, offset, len);
    manifest_file(&[7; 64], bare().bytes(1, field))
}

fn range(start: u64, end: u64) -> Message {
    Message::new().number(1, start).number(2, end)
}

fn segment(number: u64, content: Message) -> Vec<u8> {
    let segment = Message::new().bytes(number, content);
    Message::new().bytes(1, segment).encode()
}

/// A table whose one fragment says something of its own.
fn table_of(fragment: Message, change: impl FnOnce(Message) -> Message) -> Vec<u8> {
    let name = field("name", 1, TOP, "string");
    let message = bare().bytes(1, id_field()).bytes(1, name);
    manifest_file(&[], change(message.bytes(2, fragment).number(11, 7)))
}

#[rustfmt::skip]
fn bombs() -> Vec<Bomb> {
    let many_files = Message::new().many(2, [], MANY);
    let many_ids = data_file("a.lance").bytes(2, vec![0; 16 << 20]);
    let shared: Message = (0..2_000).fold(bare(), |message, id| {
        message.bytes(1, dictionary_field(id, "dict:int8:int8:false", 0, 1 << 20))
    });
    let deep = |logical_type: &str| (0..100_000).fold(bare(), |message, id: u64| {
        message.bytes(1, field("a", id, id.wrapping_sub(1), logical_type))
    });
    let group = Message::new().many(1, [], MANY);
    let index = Message::new().many(10, [], MANY);
    let edits = Message::new().many(1, [], MANY);
    let far = |number: u64, position: u64| manifest_file(&[0; 64], plain().number(number, position));
    let with_length = |len: u32| {
        let mut bytes = manifest_file(&[], plain());
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes
    };
    let with_position = |position: u64| {
        let mut bytes = manifest_file(&[], plain());
        let at = bytes.len() - 16;
        bytes[at..at + 8].copy_from_slice(&position.to_le_bytes());
        bytes
    };
    let runs = |size: u32| {
        // Every container a run of all its values, as far as the bytes go.
        let mut bytes = (12_347 | (size - 1) << 16).to_le_bytes().to_vec();
        bytes.resize(4 + size.div_ceil(8) as usize, 0xff);
        bytes.extend((0..size).flat_map(|key| (key | 0xffff << 16).to_le_bytes()));
        bytes
    };
    let with_size = |cookie: u32, size: u32| [cookie.to_le_bytes(), size.to_le_bytes()].concat();
    let ids = |content: Vec<u8>| table_of(fragment(0, 4, "a.lance").bytes(5, content), |it| it.number(9, 2).number(14, 4));
    vec![
        // Lists of parts that are larger in memory.
        bomb("fields", manifest_list(1), manifest),
        bomb("fragments", manifest_list(2), manifest),
        bomb("schema metadata", manifest_list(5), manifest),
        bomb("config", manifest_list(16), manifest),
        bomb("base paths", manifest_list(18), manifest),
        bomb("table metadata", manifest_list(19), manifest),
        bomb("dictionary bitmaps", manifest_file(&[], plain().bytes(1001, Message::new().many(5, [], MANY))), manifest),
        bomb("files of a fragment", manifest_file(&[], plain().bytes(2, many_files)), manifest),
        bomb("field ids of a file", manifest_file(&[], plain().bytes(2, Message::new().bytes(2, many_ids))), manifest),
        bomb("overlays of a fragment", manifest_file(&[], plain().bytes(2, Message::new().many(11, [], MANY))), manifest),
        bomb("fragments to append", operation_list(100, 1), transaction),
        bomb("fragments to delete from", operation_list(101, 1), transaction),
        bomb("removed fragments", Message::new().bytes(101, Message::new().bytes(2, vec![0; 16 << 20])).encode(), transaction),
        bomb("fragments to overwrite with", operation_list(102, 1), transaction),
        bomb("fields to overwrite with", operation_list(102, 2), transaction),
        bomb("bases to overwrite with", operation_list(102, 5), transaction),
        bomb("new indices", operation_list(103, 1), transaction),
        bomb("files of an index", Message::new().bytes(103, Message::new().bytes(2, index)).encode(), transaction),
        bomb("old fragments", operation_list(104, 1), transaction),
        bomb("groups of a rewrite", operation_list(104, 3), transaction),
        bomb("fragments of a group", Message::new().bytes(104, Message::new().bytes(3, group)).encode(), transaction),
        bomb("rewritten indices", operation_list(104, 4), transaction),
        bomb("merged fields", operation_list(105, 2), transaction),
        bomb("updated fragments", operation_list(108, 2), transaction),
        bomb("projected fields", operation_list(109, 1), transaction),
        bomb("deleted keys", operation_list(110, 2), transaction),
        bomb("edits of the config", Message::new().bytes(110, Message::new().bytes(6, edits)).encode(), transaction),
        bomb("edits of fields", operation_list(110, 9), transaction),
        bomb("replaced files", operation_list(111, 1), transaction),
        bomb("properties", Message::new().many(4, [], MANY).encode(), transaction),
        bomb("transaction in a manifest", manifest_file(&behind_length(&operation_list(100, 1)), plain().number(23, 0)), manifest),
        bomb("segments of row ids", Message::new().many(1, [], MANY).encode(), row_ids),
        // Positions and lengths beyond the file.
        bomb("a message of 4 GiB", with_length(u32::MAX), manifest),
        bomb("a message at 2^63", with_position(1 << 63), manifest),
        bomb("a message at 2^64 - 1", with_position(u64::MAX), manifest),
        bomb("an index section at 2^64 - 1", far(6, u64::MAX), manifest),
        bomb("an index section of 4 GiB", manifest_file(&[0xff; 64], plain().number(6, 0)), manifest),
        bomb("indices", manifest_file(&behind_length(&Message::new().many(1, [], MANY).encode()), plain().number(6, 0)), cleaned),
        bomb("files of an index of a version", manifest_file(&behind_length(&Message::new().bytes(1, Message::new().many(10, [], MANY)).encode()), plain().number(6, 0)), cleaned),
        bomb("a transaction at 2^63", far(23, 1 << 63), manifest),
        bomb("an old transaction at 2^64 - 4", far(21, u64::MAX - 3), manifest),
        // Dictionaries.
        bomb("2^62 strings", dictionary("dict:string:int8:false", 0, 1 << 62), manifest),
        bomb("strings at 2^63 - 1", dictionary("dict:string:int8:false", (1 << 63) - 1, 1), manifest),
        bomb("-1 numbers", dictionary("dict:int64:int8:false", 0, u64::MAX), manifest),
        bomb("2^40 bits", dictionary("dict:bool:int8:false", 0, 1 << 40), manifest),
        bomb("2,000 dictionaries in one MiB", manifest_file(&vec![0; 1 << 20], shared), manifest),
        // Nesting.
        bomb("100,000 structs", manifest_file(&[], deep("struct")), open_only),
        bomb("100,000 lists", manifest_file(&[], deep("list")), open_only),
        bomb("a type of 100,000 parts", manifest_file(&[], bare().bytes(1, field("a", 0, TOP, &"fixed_size_list:".repeat(100_000)))), open_only),
        bomb("groups in groups", manifest_file(&[], vec![0x0b; 1 << 20]), manifest),
        bomb("a tag of 30,000 lists", "[".repeat(30_000).into_bytes(), tag),
        bomb("a tag of a MiB", vec![b' '; 1 << 20], tag),
        bomb("a tag of version 2^64", br#"{"version":18446744073709551616}"#.to_vec(), tag),
        bomb("a marker of 4,000 lists", "[".repeat(4_000).into_bytes(), marker),
        bomb("a marker of a MiB", vec![b' '; 1 << 20], marker),
        // Rows that are not there.
        bomb("2^32 rows of four", table_of(fragment(0, 1 << 32, "a.lance"), |it| it), table),
        bomb("2^32 + 1 rows", table_of(fragment(0, (1 << 32) + 1, "a.lance"), |it| it), table),
        bomb("2^63 row ids", ids(segment(1, range(0, 1 << 63))), table),
        bomb("row ids backwards", ids(segment(1, range(5, 1))), table),
        bomb("a version of 2^63 rows", row_versions_of(&range(0, 1 << 63)), row_versions),
        bomb("row ids in too few bits", segment(3, range(0, 1 << 60).bytes(3, [0xff; 64])), row_ids),
        bomb("holes outside", segment(2, range(0, 5).bytes(3, Message::new().bytes(3, Message::new().bytes(2, [0xff; 64])))), row_ids),
        bomb("offsets beyond 2^64", segment(5, Message::new().bytes(1, Message::new().number(1, u64::MAX).bytes(2, [0xff; 64]))), row_ids),
        // Deletions.
        bomb("zstd: 64 million offsets", compressed_offsets(64 << 20, Some(CompressionType::ZSTD)), arrow_deletions),
        bomb("lz4: 64 million offsets", compressed_offsets(64 << 20, Some(CompressionType::LZ4_FRAME)), arrow_deletions),
        bomb("a footer of 4 GiB", [b"ARROW1\0\0", &[0xff; 4][..], b"ARROW1"].concat(), arrow_deletions),
        bomb("65,536 containers", with_size(12_346, 65_536), bitmap_deletions),
        bomb("2^32 - 1 containers", with_size(12_346, u32::MAX), bitmap_deletions),
        bomb("runs without bytes", runs(65_536), bitmap_deletions),
    ]
}

fn row_versions_of(range: &Message) -> Vec<u8> {
    let run = |version| {
        let span = Message::new().bytes(1, range);
        Message::new().bytes(1, span).number(2, version)
    };
    // The second is one too many for 64 bits.
    let runs = Message::new().bytes(1, run(1)).bytes(1, run(2));
    runs.bytes(1, run(3)).encode()
}

/// Schemas are typed when a version is opened.
fn open_only(manifest: &Bytes) -> Result<()> {
    let store = memory();
    block_on(store.put("_versions/1.manifest", manifest.clone())).unwrap();
    block_on(Dataset::open_in(&store, &VersionRef::Latest)).map(drop)
}

/// Indices are decoded by those who need them: a cleanup keeps their files.
fn cleaned(manifest: &Bytes) -> Result<()> {
    let store = memory();
    block_on(store.put("_versions/1.manifest", manifest.clone())).unwrap();
    let table = block_on(Dataset::open_in(&store, &VersionRef::Latest))?;
    block_on(table.cleanup(&pilum_table::CleanupOptions::default())).map(drop)
}

/// A text without the numbers that stand right behind some words.
fn without_number(text: &str, words: &str) -> String {
    let mut parts = text.split(words);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + words + "…" + part.trim_start_matches(|it: char| it.is_ascii_digit())
    })
}

#[test]
fn bombs_are_refused_in_little_memory() {
    let bombs = bombs();
    assert!(bombs.len() >= 60, "{}", bombs.len());
    let mut slowest = Slowest::default();
    let mut told = String::new();
    let mut wrong = Vec::new();
    pilum_testing::watched(|progress| {
        for Bomb {
            name,
            bytes,
            decode,
        } in bombs
        {
            progress.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let bytes = Bytes::from(bytes);
            let attack = || attack(bytes.len(), &|| name.to_owned(), || decode(&bytes));
            let (outcome, peak) = slowest.time(name, attack);
            let kinds = ["corrupt", "limit", "unsupported"];
            match outcome {
                Err(error) if kinds.contains(&error.kind()) => {
                    told += &format!("{name}: {}: {error}\n", error.kind());
                }
                other => wrong.push(format!("{name}: {other:?}")),
            }
            if peak > BOMB_MEMORY {
                wrong.push(format!("{name}: {peak} bytes"));
            }
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
    // What each is told: kind, place and reason. Tables in memory have names of their own, and what structures take is
    // nobody's promise.
    let told = without_number(&told, "memory://tests/table-");
    let told = without_number(&told, "needs at least ");
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bombs.txt");
    if std::env::var_os("PILUM_BLESS").is_some() {
        std::fs::write(&page, &told).unwrap();
    }
    let known = std::fs::read_to_string(&page).unwrap();
    let mut differ = known.lines().zip(told.lines()).filter(|(a, b)| a != b);
    assert!(
        known == told,
        "tests/bombs.txt says otherwise (PILUM_BLESS=1 writes it anew): {:?}",
        differ.next()
    );
}

/// The limits leave room for what is large and honest.
#[test]
fn a_wide_table_and_one_of_many_fragments_are_opened() {
    let wide = (0..20_000).fold(bare(), |message, id| {
        message.bytes(1, field(&format!("column_{id:05}"), id, TOP, "int64"))
    });
    let path = |id: u64| format!("{id:08x}-0000-4000-8000-000000000000.lance");
    let long = (0..100_000).fold(plain(), |message, id| {
        message.bytes(2, fragment(id, 1000, &path(id)))
    });
    for (message, len) in [(wide, 20_000), (long, 100_000)] {
        let bytes = Bytes::from(manifest_file(&[], message));
        let what = || format!("{len} parts");
        let (_, peak) = attack(bytes.len(), &what, || {
            let file = ManifestFile::decode(&bytes, "a manifest").unwrap();
            let manifest = file.manifest;
            assert_eq!(manifest.fields.len().max(manifest.fragments.len()), len);
        });
        assert!(peak <= most_bytes(bytes.len()) / 2, "{peak} bytes");
    }
}
