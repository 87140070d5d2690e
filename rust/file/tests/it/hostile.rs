//! Bytes from anywhere: an error or rows, soon, in little memory.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_schema::DataType;
use futures::executor::block_on;
use pilum_file::proto::{self, pilum};
use pilum_file::{FileReader, OpenOptions, Rows, WriteOptions, crc32c};
use prost::Message;

use crate::memory::{InMemory, peak_bytes};
use crate::tables::{Nulls, batch, leaves_beyond_v1, leaves_of_v1, map_of, scratch, write};

/// Everything that a reader can be asked for.
fn read_all(bytes: &[u8], mapped: bool, verify: bool) -> pilum_file::Result<()> {
    let file = InMemory {
        bytes: bytes.to_vec().into(),
        mapped,
    };
    let options = OpenOptions {
        skip_verification: !verify,
        ..OpenOptions::default()
    };
    let reader = block_on(FileReader::open(Arc::new(file), options))?;
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
fn attack(
    bytes: &[u8],
    mapped: bool,
    verify: bool,
    limit: Duration,
    what: &dyn Fn() -> String,
) -> bool {
    let start = Instant::now();
    let (outcome, peak) = peak_bytes(|| {
        std::panic::catch_unwind(AssertUnwindSafe(|| read_all(bytes, mapped, verify)))
    });
    let took = start.elapsed();
    let outcome = outcome.unwrap_or_else(|_| panic!("panic: {}", what()));
    let most = 4 * bytes.len() + (64 << 20);
    assert!(peak <= most, "{peak} bytes for {}: {}", bytes.len(), what());
    assert!(took < limit, "{took:?}: {}", what());
    outcome.is_ok()
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 8) as usize % limit.max(1)
    }
}

/// Real files: every type, with checksums, without, and in the peer's layout.
fn corpus() -> Vec<Vec<u8>> {
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

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    const WORDS: [u64; 8] = [
        0,
        1,
        1 << 31,
        (1 << 31) - 1,
        1 << 63,
        u64::MAX,
        1 << 40,
        1 << 32,
    ];
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        // Most of a file is values: what steers a reader lies at the end.
        let at = if random.below(2) == 0 {
            at
        } else {
            bytes.len() - 1 - random.below(bytes.len().min(1500))
        };
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => {
                let word = WORDS[random.below(WORDS.len())].to_le_bytes();
                let end = (at + 8).min(bytes.len());
                bytes[at..end].copy_from_slice(&word[..end - at]);
            }
            3 => {
                let end = (at + random.below(40)).min(bytes.len());
                let from = random.below(bytes.len() - (end - at));
                bytes.copy_within(from..from + end - at, at);
            }
            4 => {
                let end = (at + 1 + random.below(9)).min(bytes.len());
                bytes[at..end].fill(0xff);
            }
            _ if random.below(20) == 0 => {
                bytes.truncate(at.max(1));
            }
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
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
        opened += u64::from(attack(
            &bytes,
            mapped,
            verify,
            Duration::from_secs(5),
            &what,
        ));
    }
    assert!(opened > 100 && opened < rounds, "{opened} of {rounds} read");
}

#[test]
fn random_bytes_are_refused() {
    for seed in 0..3_000 {
        let random = &mut Random(seed);
        let mut bytes: Vec<u8> = (0..random.below(600))
            .map(|_| random.next() as u8)
            .collect();
        if seed % 2 == 0 && bytes.len() > 40 {
            // Believable: a footer that points into the file, and a length.
            let at = random.below(bytes.len());
            bytes[at.min(36)..][..4].copy_from_slice(&(random.below(300) as u32).to_le_bytes());
            bytes.extend_from_slice(&(at.min(36) as u64).to_le_bytes());
            bytes.extend_from_slice(b"\0\0\x02\0LANC");
        }
        attack(&bytes, seed % 3 == 0, true, Duration::from_secs(1), &|| {
            format!("seed {seed}")
        });
    }
}

fn field(id: i32, parent_id: i32, logical_type: &str) -> proto::Field {
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

#[test]
fn bombs_are_refused_at_once() {
    let bombs = bombs();
    assert!(bombs.len() > 60);
    for (what, bytes) in &bombs {
        for mapped in [true, false] {
            attack(
                bytes,
                mapped,
                true,
                Duration::from_millis(if cfg!(debug_assertions) { 1000 } else { 100 }),
                &|| what.clone(),
            );
        }
    }
}
