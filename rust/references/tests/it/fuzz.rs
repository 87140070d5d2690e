//! Damaged documents, templates and Parquet files: an error or a set, never a panic, a stall or much memory.

use std::path::Path;

use futures::executor::block_on;
use pilum_references::{
    DocumentOptions, DocumentVersion, Mode, ParquetSet, Reference, ReferenceSet, StorageOptions,
    read_document, write_document, write_parquet,
};
use pilum_store::Store;
use pilum_testing::{CountingAllocator, Random, Target, fuzz, mutate};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const CASES: u64 = 4_000;

/// A reference that `gen` makes may take 64 KiB: so many stay within the memory that a case may take.
const MOST_REFERENCES: u64 = 200;

fn run(target: &Target<'_>, cases: u64) {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    fuzz(target, &kept, cases);
}

fn fixture(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Documents of both versions and of every member.
fn documents() -> Vec<Vec<u8>> {
    let documents = fixture(include_str!("../fixtures/documents.json"));
    let documents = documents.as_object().unwrap().values();
    documents.map(|it| it.to_string().into_bytes()).collect()
}

fn read(input: &[u8], random: &mut Random) -> bool {
    let mut options = DocumentOptions::default();
    options.mode = [Mode::Union, Mode::Simple, Mode::Full][random.below(3)];
    options.max_references = Some(MOST_REFERENCES);
    let Ok(set) = read_document("set.json", || Ok(Box::new(input)), &options) else {
        return false;
    };
    // Whatever was read can be written, and is read again as the same set. A value without a meaning has no form to write.
    let has_meaning =
        |(_, value): (&str, Reference<'_>)| !matches!(value, Reference::Malformed { .. });
    if set.iter().all(has_meaning) {
        for version in [DocumentVersion::Zero, DocumentVersion::One] {
            let mut out = Vec::new();
            if write_document(&set, version, &mut out).is_err() {
                continue;
            }
            let mut options = DocumentOptions::default();
            options.mode = Mode::Full;
            let again = read_document("again.json", || Ok(Box::new(&out[..])), &options).unwrap();
            assert!(
                set.iter().eq(again.iter()),
                "{}",
                String::from_utf8_lossy(&out)
            );
        }
    }
    true
}

#[test]
fn fuzz_references_documents() {
    run(
        &Target {
            name: "references-document",
            corpus: documents(),
            damage: &|input, random| mutate(input, random),
            mend: &|_| {},
            decode: &read,
        },
        CASES,
    );
}

/// What occurs in expressions; joined at random they reach every rule of the language.
const PIECES: [&str; 48] = [
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    " if ",
    " else ",
    "{% for x in range(9) %}",
    "{% endfor %}",
    "{% set y = ",
    "{% raw %}",
    "{% endraw %}",
    "f(c=",
    "u",
    "i",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "'",
    "\\\\",
    "|int",
    "|format(",
    "|round(",
    "|replace(",
    "|join(",
    "'%0999d'",
    "'{:>99999}'",
    ".format(",
    ".zfill(",
    "~",
    "*",
    "**",
    "//",
    "%",
    "-",
    " in ",
    " not ",
    "0x7fffffffffffffff",
    "9999999999999999999999999999",
    "1e308",
    "1_0",
    ":",
    ",",
    "|urlencode",
];

fn templates() -> Vec<Vec<u8>> {
    let table = fixture(include_str!("../fixtures/expressions.json"));
    let cases = table["expressions"].as_array().unwrap().iter();
    cases
        .map(|case| case["expr"].as_str().unwrap().as_bytes().to_vec())
        .collect()
}

#[test]
fn fuzz_references_templates() {
    let table = fixture(include_str!("../fixtures/expressions.json"));
    let decode = |input: &[u8], random: &mut Random| {
        let text = String::from_utf8_lossy(input);
        let document = if random.one_in(2) {
            json!({"version": 1, "templates": table["templates"], "refs": {"k": [text]}})
        } else {
            json!({"version": 1, "templates": table["templates"], "gen": [
                {"key": "k{{i}}", "url": text, "offset": text, "length": "1", "dimensions": {"i": [1, "a", null, 1.5]}}
            ]})
        };
        read(document.to_string().as_bytes(), random)
    };
    let damage = |input: &mut Vec<u8>, random: &mut Random| {
        for _ in 0..=random.below(4) {
            let piece = PIECES[random.below(PIECES.len())].as_bytes();
            let times = if random.one_in(50) {
                1 + random.below(2_000)
            } else {
                1
            };
            let at = random.below(input.len() + 1);
            input.splice(at..at, piece.repeat(times));
        }
        if random.one_in(3) {
            mutate(input, random);
        }
    };
    run(
        &Target {
            name: "references-template",
            corpus: templates(),
            damage: &damage,
            mend: &|_| {},
            decode: &decode,
        },
        CASES,
    );
}

/// The files of a folder in one input: for each its name, the number of its bytes in four, its bytes.
fn packed(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (_, bytes) in files {
        out.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
        out.extend(bytes);
    }
    out
}

fn unpacked(mut input: &[u8]) -> Vec<&[u8]> {
    let mut files = Vec::new();
    while let Some((length, rest)) = input.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap();
        let (file, rest) = rest.split_at(length.min(rest.len()));
        files.push(file);
        input = rest;
    }
    files
}

const NAMES: [&str; 3] = [".zmetadata", "x/refs.0.parq", "x/refs.1.parq"];

#[test]
fn fuzz_references_parquet() {
    let store = |name: &str| {
        let uri = format!("memory://references-fuzz/{name}");
        Store::open(&uri, &StorageOptions::new()).unwrap()
    };
    let mut set = ReferenceSet::new();
    let metadata = r#"{"zarr_format":2,"shape":[40],"chunks":[4],"dtype":"|u1"}"#;
    let inline = |text: &'static str| Reference::Inline(text.as_bytes().into());
    set.insert("x/.zarray", &inline(metadata)).unwrap();
    set.insert("x/1", &inline("inline")).unwrap();
    for chunk in [2_i64, 3, 5, 7, 9] {
        let url = Some(format!("s3://bucket/{}", chunk % 2).into());
        let value = Reference::Range {
            url,
            offset: chunk * 10,
            size: 4,
        };
        set.insert(&format!("x/{chunk}"), &value).unwrap();
    }
    let sound = store("sound");
    block_on(write_parquet(&set, &sound, 5)).unwrap();
    let files = NAMES.map(|name| (name, block_on(sound.read(name, 1 << 20)).unwrap().to_vec()));
    let damaged = store("damaged");
    let decode = |input: &[u8], _: &mut Random| {
        for (name, bytes) in NAMES.iter().zip(unpacked(input)) {
            block_on(damaged.put(name, bytes.to_vec().into())).unwrap();
        }
        let Ok(opened) = block_on(ParquetSet::open(damaged.clone(), None)) else {
            return false;
        };
        let keys = ["x/0", "x/5", "x/9", "x/.zarray", "x/99999999999"].map(str::to_owned);
        block_on(opened.locate(&keys)).is_ok()
    };
    let damage = |input: &mut Vec<u8>, random: &mut Random| {
        let mut files: Vec<_> = unpacked(input).into_iter().map(<[u8]>::to_vec).collect();
        if !files.is_empty() {
            let at = random.below(files.len());
            mutate(&mut files[at], random);
        }
        let named: Vec<_> = NAMES.into_iter().zip(files).collect();
        *input = packed(&named);
    };
    run(
        &Target {
            name: "references-parquet",
            corpus: vec![packed(&files)],
            damage: &damage,
            mend: &|_| {},
            decode: &decode,
        },
        1_000,
    );
}
