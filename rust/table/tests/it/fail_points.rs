//! The list of fail points is what stands in the sources.

use std::collections::BTreeMap;
use std::path::Path;

use pilum_store::failpoint::PLACES;

/// Names in calls of `hit` and `pass`, with the files they stand in.
fn in_sources(folder: &Path, found: &mut BTreeMap<String, Vec<String>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            in_sources(&path, found);
            continue;
        }
        if path.extension().is_none_or(|it| it != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for quoted in text.split('"').skip(1) {
            let looks_so = quoted.split_once('.').is_some_and(|(room, step)| {
                let is_word = |it: &str| {
                    !it.is_empty() && it.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
                };
                is_word(room)
                    && is_word(step)
                    && (step.starts_with("before") || step.starts_with("after"))
            });
            if looks_so && !path.ends_with("store/src/failpoint.rs") {
                let files = found.entry(quoted.to_owned()).or_default();
                files.push(path.display().to_string());
            }
        }
    }
}

#[test]
fn every_place_is_listed_and_every_listed_place_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeMap::new();
    for room in ["store", "file", "table"] {
        in_sources(&root.join(room).join("src"), &mut found);
    }
    let mut listed = PLACES.to_vec();
    listed.sort_unstable();
    let found: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(found, listed);
}
