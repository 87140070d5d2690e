//! Tests of writing and combining reference sets: `gen` entries for regular arrays, and the memory that combining takes.

use std::borrow::Cow;
use std::fmt::Write;

use pilum_references::{
    Combiner, Concatenation, DocumentOptions, DocumentVersion, Reference, ReferenceSet,
    read_document, write_document,
};
use pilum_testing::peak_bytes;
use serde_json::Value;

fn written(set: &ReferenceSet, version: DocumentVersion) -> Value {
    let mut out = Vec::new();
    write_document(set, version, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

fn read(document: &Value) -> ReferenceSet {
    let text = document.to_string();
    let open = || Ok(Box::new(text.as_bytes()) as Box<dyn std::io::Read>);
    read_document("set.json", open, &DocumentOptions::default()).unwrap()
}

fn metadata(shape: &[u64], separator: &str) -> String {
    let chunks = vec![1; shape.len()];
    format!(
        r#"{{"zarr_format":2,"shape":{shape:?},"chunks":{chunks:?},"dtype":"<f8","compressor":null,"fill_value":null,"filters":null,"order":"C","dimension_separator":"{separator}"}}"#
    )
}

fn insert_range(set: &mut ReferenceSet, key: &str, url: &str, offset: i64, size: i64) {
    let url = Some(Cow::Borrowed(url));
    set.insert(key, &Reference::Range { url, offset, size })
        .unwrap();
}

fn insert_text(set: &mut ReferenceSet, key: &str, text: &str) {
    let value = Reference::Inline(Cow::Borrowed(text.as_bytes()));
    set.insert(key, &value).unwrap();
}

/// The keys and values of a set, sorted by key: a reader of `gen` entries puts their keys after all others.
fn sorted(set: &ReferenceSet) -> Vec<(String, Reference<'static>)> {
    let mut all: Vec<_> = set
        .iter()
        .map(|(key, value)| (key.to_owned(), value.into_owned()))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

#[test]
fn regular_arrays_are_written_as_gen_entries_and_read_back() {
    let mut set = ReferenceSet::new();
    insert_text(&mut set, ".zgroup", r#"{"zarr_format":2}"#);
    for (name, separator) in [
        ("one", "."),
        ("nested/two", "/"),
        ("files", "."),
        ("broken", "."),
    ] {
        insert_text(
            &mut set,
            &format!("{name}/.zarray"),
            &metadata(&[4, 3, 8], separator),
        );
        for index in 0..96_i64 {
            let (i, j, k) = (index / 24, index / 8 % 3, index % 8);
            let key = format!("{name}/{i}{separator}{j}{separator}{k}");
            // The offset grows by another step along each axis. The chunks of `files` are in one file for each first index. One
            // chunk of `broken` is elsewhere, so no rule describes this array.
            let offset = 4096 + i * 100_000 + j * 9_000 + k * 800;
            match name {
                "files" => {
                    let url = format!("s3://bucket/archive/year-{i}.nc");
                    insert_range(&mut set, &key, &url, 512 + j * 8_000 + k * 1_000, 1_000);
                }
                "broken" if index == 50 => {
                    insert_range(&mut set, &key, "s3://bucket/archive/a.nc", 7, 800);
                }
                _ => insert_range(&mut set, &key, "s3://bucket/archive/a.nc", offset, 800),
            }
        }
    }
    // Arrays that are small, lack a chunk, or have chunks of different sizes get no `gen` entry.
    insert_text(&mut set, "small/.zarray", &metadata(&[5], "."));
    insert_text(&mut set, "holes/.zarray", &metadata(&[30], "."));
    insert_text(&mut set, "sizes/.zarray", &metadata(&[30], "."));
    for k in 0..30 {
        if k < 5 {
            insert_range(
                &mut set,
                &format!("small/{k}"),
                "s3://bucket/archive/b.nc",
                k * 10,
                10,
            );
        }
        if k != 9 {
            insert_range(
                &mut set,
                &format!("holes/{k}"),
                "s3://bucket/archive/b.nc",
                k * 10,
                10,
            );
        }
        insert_range(
            &mut set,
            &format!("sizes/{k}"),
            "s3://bucket/archive/b.nc",
            k * 10,
            k,
        );
    }

    let plain = written(&set, DocumentVersion::One);
    assert!(plain.get("gen").is_none(), "gen is written on request only");
    let document = written(&set, DocumentVersion::Generated);
    let entries = document["gen"].as_array().unwrap();
    let keys: Vec<_> = entries
        .iter()
        .map(|it| it["key"].as_str().unwrap())
        .collect();
    assert_eq!(
        keys,
        [
            "files/0.{{i1}}.{{i2}}",
            "files/1.{{i1}}.{{i2}}",
            "files/2.{{i1}}.{{i2}}",
            "files/3.{{i1}}.{{i2}}",
            "nested/two/{{i0}}/{{i1}}/{{i2}}",
            "one/{{i0}}.{{i1}}.{{i2}}",
        ]
    );
    assert_eq!(entries[5]["offset"], "{{4096+i0*100000+i1*9000+i2*800}}");
    assert_eq!(entries[5]["length"], "800");
    assert_eq!(
        document["refs"].as_object().unwrap().len(),
        8 + 96 + 5 + 29 + 30
    );
    let again = read(&document);
    assert_eq!(sorted(&again), sorted(&set));
    assert_eq!(sorted(&read(&plain)), sorted(&set));
}

#[test]
fn a_set_whose_urls_contain_template_syntax_is_written_without_gen() {
    let mut set = ReferenceSet::new();
    insert_text(&mut set, "a/.zarray", &metadata(&[30], "."));
    for k in 0..30 {
        insert_range(
            &mut set,
            &format!("a/{k}"),
            "s3://bucket/{{x}}.nc",
            k * 10,
            10,
        );
    }
    let document = written(&set, DocumentVersion::Generated);
    assert!(document.get("gen").is_none());
    assert_eq!(sorted(&read(&document)), sorted(&set));
}

/// A reference set for one time step of an array with `count` chunks.
fn step(number: usize, count: usize) -> ReferenceSet {
    let mut set = ReferenceSet::new();
    insert_text(
        &mut set,
        "temperature/.zarray",
        &metadata(&[1, count as u64], "."),
    );
    insert_text(
        &mut set,
        "temperature/.zattrs",
        r#"{"_ARRAY_DIMENSIONS": ["time", "x"]}"#,
    );
    let url = format!("s3://bucket/archive/step-{number:06}.nc");
    let mut key = String::new();
    for (offset, chunk) in (0_i64..).zip(0..count) {
        key.clear();
        let _ = write!(key, "temperature/0.{chunk}");
        insert_range(&mut set, &key, &url, 4096 + 800 * offset, 800);
    }
    set
}

/// Five million references must be combined in less than 1 GiB: 200 bytes for each, including the set that is being added.
/// By default the test combines 50,000, enough to see how memory grows; `PILUM_TEST_SCALE=100` combines five million.
#[test]
fn combining_references_takes_less_than_200_bytes_for_each() {
    let scale = std::env::var("PILUM_TEST_SCALE")
        .ok()
        .and_then(|it| it.parse().ok());
    let num_sets = 25 * scale.unwrap_or(1_usize).clamp(1, 100);
    let per_set = 2_000;
    let (set, peak) = peak_bytes(|| {
        let mut combiner = Combiner::new(Concatenation {
            dimension: "time".to_owned(),
            is_new: false,
            skipped: Vec::new(),
        });
        for number in 0..num_sets {
            combiner.add(&step(number, per_set)).unwrap();
        }
        combiner.finish().unwrap()
    });
    let count = num_sets * per_set;
    assert_eq!(set.len(), count + 2);
    let last = format!("temperature/{}.{}", num_sets - 1, per_set - 1);
    assert!(set.get(&last).is_some());
    assert!(
        set.byte_len() < 100 * count,
        "{} bytes for {count} references",
        set.byte_len()
    );
    assert!(
        peak < 200 * count + (1 << 20),
        "{peak} bytes for {count} references"
    );
}
