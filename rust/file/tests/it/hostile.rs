//! Bytes from anywhere: an error or rows, soon, in little memory.

use std::sync::Arc;

use arrow_schema::DataType;
use futures::executor::block_on;
use pilum_file::{FileReader, OpenOptions, Rows, WriteOptions};
use pilum_format::crc32c;
use pilum_format::proto::{file as proto, pilum};
use pilum_testing::{Random, mutate};
use prost::Message;

use crate::memory::InMemory;
use crate::tables::{Nulls, batch, leaves_beyond_v1, leaves_of_v1, map_of, scratch, write};

pub(crate) fn open(bytes: &[u8], mapped: bool, verify: bool) -> pilum_file::Result<FileReader> {
    let file = InMemory {
        bytes: bytes.to_vec().into(),
        mapped,
    };
    let options = OpenOptions {
        skip_verification: !verify,
        ..OpenOptions::default()
    };
    block_on(FileReader::open(Arc::new(file), options))
}

/// Everything that a reader can be asked for.
pub(crate) fn read_all(bytes: &[u8], mapped: bool, verify: bool) -> pilum_file::Result<()> {
    let reader = open(bytes, mapped, verify)?;
    let schema = block_on(reader.schema())?;
    let dictionaries = block_on(reader.dictionaries(&schema)).unwrap_or_default();
    let statistics = block_on(reader.statistics(&schema.ids()));
    for field in schema.fields.iter().take(50) {
        for batch in 0..reader.num_batches().min(4) {
            let rows = reader.batch_rows(batch);
            let rows = rows.end - rows.start;
            let some = Rows::from_sorted_indices((0..rows).step_by(3).take(50));
            for rows in [Rows::all(rows), some.unwrap()] {
                let field = std::slice::from_ref(field);
                let _ = block_on(reader.read_batch(field, batch, &rows, &dictionaries));
            }
        }
    }
    // Columns ask for time of their own, one by one.
    let fields = &schema.fields[..schema.fields.len().min(2000)];
    if reader.num_batches() > 0 {
        let rows = reader.batch_rows(0);
        let rows = Rows::all(rows.end - rows.start);
        let _ = block_on(reader.read_batch(fields, 0, &rows, &dictionaries));
    }
    let rows = Rows::all(reader.num_rows().min(1000));
    block_on(reader.read_rows(fields, &rows, &dictionaries))?;
    statistics.map(|_| ())
}

/// Reads within the limits that every input must keep.
fn attack(bytes: &[u8], mapped: bool, verify: bool, what: &dyn Fn() -> String) -> (bool, usize) {
    let (read, peak) = pilum_testing::attack(bytes.len(), what, || read_all(bytes, mapped, verify));
    (read.is_ok(), peak)
}

/// Real files: every type, with checksums, without, and in the peer's layout.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let item = |t: &DataType| Arc::new(arrow_schema::Field::new("item", t.clone(), true));
    let mut files = Vec::new();
    let leaves = [leaves_of_v1(), leaves_beyond_v1()].concat();
    let mut nested: Vec<DataType> = leaves
        .iter()
        .step_by(5)
        .map(|t| DataType::ListView(item(t)))
        .collect();
    nested.extend(
        leaves
            .iter()
            .skip(2)
            .step_by(5)
            .map(|t| DataType::FixedSizeList(item(t), 2)),
    );
    nested.push(map_of(
        DataType::Utf8,
        DataType::List(item(&DataType::Utf8View)),
        false,
    ));
    for types in leaves.chunks(8).chain(nested.chunks(4)) {
        let columns: Vec<_> = types
            .iter()
            .map(|t| (t.clone(), Nulls::Alternating))
            .collect();
        let mut sparse = WriteOptions::default();
        sparse.checksum_block = None;
        for mut options in [WriteOptions::default(), sparse, WriteOptions::pylance()] {
            options.max_rows_per_page = Some(20);
            let (folder, store) = scratch();
            write(&store, "data/a.lance", &[batch(&columns, 50, 3)], options).unwrap();
            files.push(std::fs::read(folder.path().join("data/a.lance")).unwrap());
        }
    }
    files
}

#[test]
fn mutated_files_end_in_an_error_or_in_rows() {
    let files = corpus();
    let (mut opened, rounds) = (0, 20_000);
    for seed in 0..rounds {
        let random = &mut Random(seed);
        let mut bytes = files[random.below(files.len())].clone();
        mutate(&mut bytes, random);
        let (mapped, verify) = (random.below(2) == 0, random.below(2) == 0);
        let what = || format!("seed {seed}, mapped {mapped}, verify {verify}");
        opened += u64::from(attack(&bytes, mapped, verify, &what).0);
    }
    assert!(opened > 100 && opened < rounds, "{opened} of {rounds} read");
}

#[test]
fn random_bytes_are_refused() {
    for seed in 0..3_000 {
        let random = &mut Random(seed);
        let mut bytes: Vec<u8> = (0..random.below(600)).map(|_| random.any() as u8).collect();
        if seed % 2 == 0 && bytes.len() > 40 {
            // Believable: a footer that points into the file, and a length.
            let at = random.below(bytes.len());
            bytes[at.min(36)..][..4].copy_from_slice(&(random.below(300) as u32).to_le_bytes());
            bytes.extend_from_slice(&(at.min(36) as u64).to_le_bytes());
            bytes.extend_from_slice(b"\0\0\x02\0LANC");
        }
        attack(&bytes, seed % 3 == 0, true, &|| format!("seed {seed}"));
    }
}

pub(crate) fn field(id: i32, parent_id: i32, logical_type: &str) -> proto::Field {
    proto::Field {
        name: format!("f{id}"),
        id,
        parent_id,
        logical_type: logical_type.to_owned(),
        nullable: true,
        ..Default::default()
    }
}

/// A file of `pages` (its first bytes), a schema and Metadata, all of which may lie.
fn forge(pages: &[u8], fields: Vec<proto::Field>, mut metadata: proto::Metadata) -> Vec<u8> {
    let mut bytes = pages.to_vec();
    let push = |bytes: &mut Vec<u8>, message: Vec<u8>| {
        let position = bytes.len() as u64;
        bytes.extend_from_slice(&(message.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&message);
        position
    };
    let manifest = proto::EmbeddedManifest {
        fields,
        version: 1,
        ..Default::default()
    };
    metadata.manifest_position = push(&mut bytes, manifest.encode_to_vec());
    let position = push(&mut bytes, metadata.encode_to_vec());
    bytes.extend_from_slice(&position.to_le_bytes());
    bytes.extend_from_slice(b"\0\0\x02\0LANC");
    bytes
}

fn bombs() -> Vec<(String, Vec<u8>)> {
    let mut bombs: Vec<(String, Vec<u8>)> = Vec::new();
    let huge = [
        i64::from(i32::MAX),
        1 << 31,
        1 << 62,
        i64::MAX,
        i64::MIN,
        -1,
    ];
    // One page that declares more than there is.
    for logical in [
        "int32",
        "bool",
        "string",
        "string_view",
        "dict:string:int8:false",
        "null",
        "fixed_size_binary:0",
        "fixed_size_binary:2147483647",
        "fixed_size_list:int8:2147483647",
        "fixed_size_list:bool:2147483647",
        "fixed_size_list:fixed_size_list:fixed_size_list:int8:2147483647:2147483647:2147483647",
        "fixed_size_list:int8:0",
        "struct",
    ] {
        for length in huge {
            for position in [0, 16, i64::MAX] {
                let pages = [position, length, 0, 0].map(i64::to_le_bytes).concat();
                let rows = i32::try_from(length).unwrap_or(i32::MAX);
                let metadata = proto::Metadata {
                    batch_offsets: vec![0, rows],
                    ..Default::default()
                };
                let what = format!("{logical}, {length} at {position}");
                bombs.push((what, forge(&pages, vec![field(0, -1, logical)], metadata)));
            }
        }
    }
    // Lists of lists of nothing: lengths multiply without a byte for them.
    for (outer, inner) in [
        ("fixed_size_list.child:2147483647", "null"),
        ("list", "null"),
        ("list_view", "struct"),
        ("fixed_size_list.child:2147483647", "struct"),
        ("map", "null"),
    ] {
        for solid in [false, true] {
            let pages: Vec<u8> = [0, i64::from(i32::MAX), 0, i64::from(i32::MAX), 0, i64::MAX]
                .map(i64::to_le_bytes)
                .concat();
            let mut items = vec![field(0, -1, outer), field(1, 0, inner)];
            items[1].nullable = solid;
            let metadata = proto::Metadata {
                batch_offsets: vec![0, i32::MAX],
                ..Default::default()
            };
            bombs.push((
                format!("{outer} of {inner}"),
                forge(&pages, items, metadata),
            ));
        }
    }
    let plain = || proto::Metadata {
        batch_offsets: vec![0, 1],
        ..Default::default()
    };
    // Batches without end, and some that turn back.
    let many = proto::Metadata {
        batch_offsets: vec![0; 1_000_000],
        ..Default::default()
    };
    bombs.push((
        "a million batches".into(),
        forge(&[0; 64], vec![field(0, -1, "int8")], many),
    ));
    let back = proto::Metadata {
        batch_offsets: vec![0, 5, 3, i32::MIN],
        ..Default::default()
    };
    bombs.push((
        "batches backwards".into(),
        forge(&[0; 64], vec![field(0, -1, "int8")], back),
    ));
    // Deep, cyclic, orphaned schemas.
    let deep =
        |logical: &str| -> Vec<_> { (0..100_000).map(|id| field(id, id - 1, logical)).collect() };
    for logical in [
        "struct",
        "list",
        "list_view",
        "map",
        "fixed_size_list.child:2",
    ] {
        bombs.push((
            format!("100,000 levels of {logical}"),
            forge(&[0; 64], deep(logical), plain()),
        ));
    }
    bombs.push((
        "own parent".into(),
        forge(&[0; 64], vec![field(3, 3, "struct")], plain()),
    ));
    bombs.push((
        "a cycle".into(),
        forge(
            &[0; 64],
            vec![field(3, 4, "struct"), field(4, 3, "struct")],
            plain(),
        ),
    ));
    let far = (0..10_000)
        .map(|id| field(id, if id < 2 { -1 } else { id % 2 }, "struct"))
        .collect();
    bombs.push(("parents in turn".into(), forge(&[0; 64], far, plain())));
    let late = (0..10_000)
        .map(|id| field(id, if id < 5_000 { -1 } else { 9_999 - id }, "struct"))
        .collect();
    bombs.push(("parents far away".into(), forge(&[0; 64], late, plain())));
    for part in ["fixed_size_list:", "dict:", "list:", "timestamp:"] {
        let name = part.repeat(100_000) + "int8" + &":2".repeat(100_000);
        bombs.push((
            format!("{part} 100,000 times"),
            forge(&[0; 64], vec![field(0, -1, &name)], plain()),
        ));
    }
    // Dictionaries and statistics elsewhere.
    for (offset, length) in [(0, i64::MAX), (i64::MAX, 1), (0, 1 << 31), (-1, -1)] {
        for logical in [
            "dict:string:int8:false",
            "dict:float:int8:false",
            "dict:fixed_size_binary:0:int8:false",
        ] {
            let mut values = field(0, -1, logical);
            values.dictionary = Some(proto::Dictionary { offset, length });
            bombs.push((
                format!("{logical}: {length} values at {offset}"),
                forge(&[0; 64], vec![values], plain()),
            ));
        }
    }
    for page_table_position in [u64::MAX, 1 << 63, 0] {
        let mut minimum = field(i32::MAX, 0, "int64");
        minimum.name = "min_value".into();
        let mut metadata = plain();
        let schema = vec![field(0, -1, "struct"), minimum];
        metadata.statistics = Some(proto::StatisticsMetadata {
            schema,
            fields: vec![0],
            page_table_position,
        });
        metadata.page_table_position = page_table_position;
        bombs.push((
            format!("statistics at {page_table_position}"),
            forge(&[0; 64], vec![field(0, -1, "int8")], metadata),
        ));
    }
    // Extension blocks whose extents leave the file.
    for (position, length) in [
        (0, u64::MAX),
        (u64::MAX, u64::MAX),
        (1 << 63, 1 << 63),
        (0, 64),
    ] {
        let extent = pilum::Extent {
            position,
            length,
            block_crc32c: vec![],
        };
        let extension = pilum::Extension {
            version: 1,
            block_size: 512,
            directory: Some(extent.clone()),
            page_table: Some(extent.clone()),
            statistics: Some(extent.clone()),
            dictionaries: Some(extent.clone()),
            manifest: Some(extent),
            ..Default::default()
        }
        .encode_to_vec();
        let mut pages = (extension.len() as u32).to_le_bytes().to_vec();
        pages.extend_from_slice(&extension);
        let mut metadata = plain();
        metadata.extension = Some(pilum::ExtensionPointer {
            position: 0,
            length: extension.len() as u64,
            crc32c: crc32c(&extension),
        });
        bombs.push((
            format!("extents {length} at {position}"),
            forge(&pages, vec![field(0, -1, "int8")], metadata),
        ));
    }
    // One page, misaligned, as that of a thousand columns.
    let mut pages = vec![0_u8; 1 << 20];
    let pair = [1_i64, 250_000].map(i64::to_le_bytes).concat();
    let page_table_position = pages.len() as u64;
    pages.extend(pair.repeat(1000));
    let metadata = proto::Metadata {
        batch_offsets: vec![0, 250_000],
        page_table_position,
        ..Default::default()
    };
    let shared = (0..1000).map(|id| field(id, -1, "int32")).collect();
    bombs.push(("a shared page".into(), forge(&pages, shared, metadata)));
    // Groups in groups, where Metadata should be; lengths and positions of Metadata itself.
    for (position, length) in [
        (0_u64, 100_000_u32),
        (0, u32::MAX),
        (1 << 63, 1),
        (u64::MAX, 1),
        (u64::MAX - 3, 0),
    ] {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.resize(100_004, 0x0b);
        bytes.extend_from_slice(&position.to_le_bytes());
        bytes.extend_from_slice(b"\0\0\x02\0LANC");
        bombs.push((format!("Metadata of {length} at {position}"), bytes));
    }
    bombs
}

/// Enough for any of them, and more than a clock would tell on a busy machine.
const BOMB_MEMORY: usize = 128 << 20;

/// The name of the file, and more words than that.
fn says_where_and_why(error: &pilum_file::Error) -> bool {
    let text = error.to_string();
    text.contains("memory") && text.len() > 30
}

/// Two thousand million rows of nothing take no byte, and are as many as the file says.
fn is_sound(what: &str) -> bool {
    [
        "null",
        "fixed_size_binary:0",
        "fixed_size_list:int8:0",
        "struct",
    ]
    .iter()
    .any(|it| what.starts_with(&format!("{it}, {} ", i32::MAX)))
}

#[test]
fn bombs_are_refused_in_little_memory() {
    let bombs = bombs();
    assert!(bombs.len() > 60);
    let mut slowest = pilum_testing::Slowest::default();
    let mut wrong = Vec::new();
    pilum_testing::watched(|progress| {
        for (what, bytes) in &bombs {
            progress.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            for mapped in [true, false] {
                let read = || read_all(bytes, mapped, true);
                let attack = || pilum_testing::attack(bytes.len(), &|| what.clone(), read);
                let (read, peak) = slowest.time(what, attack);
                match read {
                    Err(
                        error @ (pilum_file::Error::Corrupt { .. }
                        | pilum_file::Error::Limit { .. }
                        | pilum_file::Error::Unsupported { .. }),
                    ) if says_where_and_why(&error) => {}
                    Ok(()) if is_sound(what) => {}
                    other => wrong.push(format!("{what}: {other:?}")),
                }
                if peak > BOMB_MEMORY {
                    wrong.push(format!("{what}: {peak} bytes"));
                }
            }
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Parts of two bytes each, of every message of a file that has lists.
#[test]
fn tiny_parts_do_not_unpack_to_more_memory_than_there_may_be() {
    use pilum_testing::Message as Raw;
    let plain = || proto::Metadata {
        batch_offsets: vec![0, 1],
        ..Default::default()
    };
    let schema = || vec![field(0, -1, "int8")];
    let limit = |what: &str, bytes: &[u8]| {
        for mapped in [true, false] {
            let read = || read_all(bytes, mapped, true);
            let (read, _) = pilum_testing::attack(bytes.len(), &|| what.to_owned(), read);
            let error = read.expect_err(what);
            assert!(
                matches!(error, pilum_file::Error::Limit { .. }),
                "{what}: {error}"
            );
        }
    };
    const MANY: usize = 4 << 20;
    let tail = |position: u64| [&position.to_le_bytes()[..], b"\0\0\x02\0LANC"].concat();
    let prefixed = |message: Vec<u8>| {
        let len = (message.len() as u32).to_le_bytes();
        [&len[..], &message].concat()
    };
    // The embedded manifest: fields and metadata.
    for (number, what) in [(1, "fields"), (5, "metadata")] {
        let manifest = prefixed(Raw::new().many(number, [], MANY).encode());
        let metadata = proto::Metadata {
            manifest_position: 0,
            ..plain()
        };
        let mut file = vec![0; 64];
        let manifest_position = file.len() as u64;
        file.extend(manifest);
        let position = file.len() as u64;
        let metadata = proto::Metadata {
            manifest_position,
            ..metadata
        };
        file.extend(prefixed(metadata.encode_to_vec()));
        file.extend(tail(position));
        limit(what, &file);
    }
    // Metadata: batches, one byte each.
    let metadata = Raw::new().bytes(2, vec![0; 16 << 20]).encode();
    let mut file = vec![0; 64];
    file.extend(prefixed(metadata));
    file.extend(tail(64));
    limit("batches", &file);
    // Statistics of a column, in fields without end.
    let root = proto::Field {
        name: "0".into(),
        parent_id: -1,
        id: 7,
        ..Default::default()
    };
    let leaf = proto::Field {
        parent_id: 7,
        ..Default::default()
    };
    let statistics = Raw::new()
        .bytes(1, root.encode_to_vec())
        .many(1, leaf.encode_to_vec(), MANY);
    let metadata = Raw::new().bytes(2, [0, 1]).bytes(5, statistics);
    let manifest = proto::EmbeddedManifest {
        fields: schema(),
        ..Default::default()
    };
    // One page of one row, so that nothing else fails.
    let mut file = [0_u64, 1, 0, 0, 0, 0, 0, 0].map(u64::to_le_bytes).concat();
    file.extend(prefixed(manifest.encode_to_vec()));
    let position = file.len() as u64;
    file.extend(prefixed(metadata.number(1, 64).encode()));
    file.extend(tail(position));
    limit("statistics", &file);
    // A record of a column: pages, and levels of validity of one page.
    for (record, what) in [
        (Raw::new().many(1, [], MANY), "pages"),
        (Raw::new().bytes(1, Raw::new().many(5, [], MANY)), "levels"),
    ] {
        let record = record.encode();
        let mut pages = record.clone();
        let directory = [
            &0_u64.to_le_bytes()[..],
            &(record.len() as u32).to_le_bytes(),
            &crc32c(&record).to_le_bytes(),
        ]
        .concat();
        let extent = pilum::Extent {
            position: pages.len() as u64,
            length: 16,
            block_crc32c: vec![crc32c(&directory)],
        };
        pages.extend(&directory);
        let extension = pilum::Extension {
            version: 1,
            block_size: 512,
            directory: Some(extent),
            ..Default::default()
        }
        .encode_to_vec();
        let pointer = pilum::ExtensionPointer {
            position: pages.len() as u64,
            length: extension.len() as u64,
            crc32c: crc32c(&extension),
        };
        pages.extend(prefixed(extension));
        let metadata = proto::Metadata {
            extension: Some(pointer),
            ..plain()
        };
        limit(what, &forge(&pages, schema(), metadata));
    }
}

/// The limits leave room for what is wide and honest.
#[test]
fn twenty_thousand_columns_with_statistics_are_read() {
    const COLUMNS: usize = 20_000;
    let types = vec![(DataType::Int32, Nulls::None); COLUMNS];
    let (folder, store) = scratch();
    let wide = batch(&types, 3, 7);
    let mut options = WriteOptions::default();
    options.max_statistics = COLUMNS;
    write(&store, "data/a.lance", &[wide], options).unwrap();
    let bytes = std::fs::read(folder.path().join("data/a.lance")).unwrap();
    for mapped in [true, false] {
        let read = || {
            let file = InMemory {
                bytes: bytes.clone().into(),
                mapped,
            };
            let options = OpenOptions::default();
            let reader = block_on(FileReader::open(Arc::new(file), options)).unwrap();
            let schema = block_on(reader.schema()).unwrap();
            assert_eq!(schema.fields.len(), COLUMNS);
            let all = block_on(reader.statistics(&schema.ids())).unwrap();
            assert_eq!(all.len(), COLUMNS);
            drop(all);
            let some = block_on(reader.statistics(&[3, 19_999])).unwrap();
            assert_eq!(some.keys().copied().collect::<Vec<_>>(), [3, 19_999]);
            let rows = Rows::all(3);
            let none = pilum_format::Dictionaries::new();
            let columns = block_on(reader.read_rows(&schema.fields, &rows, &none)).unwrap();
            assert_eq!(columns.len(), COLUMNS);
        };
        pilum_testing::attack(bytes.len(), &|| format!("mapped: {mapped}"), read);
    }
}
