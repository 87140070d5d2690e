//! The lists of fail points are what stands in the sources of their crates.

use std::collections::BTreeSet;
use std::path::Path;

use pilum_store::failpoint::PLACES;
use pilum_table::FAIL_POINTS;

/// The fail points of the store and of this crate.
pub(crate) fn all_fail_points() -> impl Iterator<Item = &'static str> {
    PLACES.into_iter().chain(FAIL_POINTS)
}

/// The files that list fail points.
const LISTS: [&str; 3] = ["failpoint.rs", "failpoints.rs", "places.rs"];

/// Names in calls of `hit` and `pass` in the sources below a folder.
fn in_sources(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            in_sources(&path, found);
            continue;
        }
        let is_list = LISTS.iter().any(|list| path.ends_with(list));
        if is_list || path.extension().is_none_or(|it| it != "rs") {
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
            if looks_so {
                found.insert(quoted.to_owned());
            }
        }
    }
}

#[test]
fn every_place_is_listed_in_its_crate_and_every_listed_place_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let of = |crates: &[&str]| {
        let mut found = BTreeSet::new();
        for one in crates {
            in_sources(&root.join(one).join("src"), &mut found);
        }
        found
    };
    let listed = |list: &[&str]| -> BTreeSet<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    };
    assert_eq!(of(&["store"]), listed(&PLACES));
    assert_eq!(of(&["file", "format", "table"]), listed(&FAIL_POINTS));
    assert_eq!(all_fail_points().count(), PLACES.len() + FAIL_POINTS.len());
}
