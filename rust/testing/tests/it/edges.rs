//! Who may use whom: the crates as `README.md` draws them, the rooms of `table`, and no circle of modules in any crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use crate::modules::{Module, edges_of, modules_of};

/// Crates outside of the drawing: benchmarks look at everything, tests share one crate, and nothing of the product uses
/// either.
const BESIDE: [&str; 2] = ["benches", "testing"];

/// Crates that the drawing has and the workspace does not have yet.
const COMING: [&str; 0] = [];

/// The rooms of `table`, from the top: a module may use its own room and those behind it.
const ROOMS: [&str; 7] = [
    "maintenance",
    "dml",
    "dataset",
    "write",
    "commit",
    "read",
    "versions",
];
/// What every room of `table` may use.
const LEAVES: [&str; 2] = ["error", "failpoints"];

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A crate of the workspace: its name without `pilum-`, its library, the crates of the workspace that it uses.
struct Crate {
    name: String,
    library: Option<PathBuf>,
    uses: BTreeSet<String>,
}

fn crates() -> Vec<Crate> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .arg("--manifest-path")
        .arg(root().join("Cargo.toml"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let short = |value: &serde_json::Value| {
        let name = value["name"].as_str().unwrap();
        name.strip_prefix("pilum-").map(str::to_owned)
    };
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            let used = dependencies.filter(|it| it["kind"].as_str() != Some("dev"));
            let is_library = |target: &&serde_json::Value| {
                let kinds = target["kind"].as_array().unwrap().iter();
                kinds
                    .filter_map(|kind| kind.as_str())
                    .any(|it| it == "lib" || it == "cdylib")
            };
            let mut targets = package["targets"].as_array().unwrap().iter();
            let library = targets.find(is_library);
            Crate {
                name: short(package).unwrap(),
                library: library.map(|it| it["src_path"].as_str().unwrap().into()),
                uses: used.filter_map(short).collect(),
            }
        })
        .collect()
}

/// The arrows of the drawing in `README.md`: lines such as `   |     +-- file   what it is`, each below the crate that
/// uses it, `python` at the top.
fn drawing() -> BTreeMap<String, BTreeSet<String>> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let start = readme
        .find("\n python ")
        .expect("the drawing begins with python");
    let end = readme[start..]
        .find("```")
        .expect("and ends with its block");
    let mut path: Vec<(usize, String)> = vec![(0, "python".to_owned())];
    let mut drawn = BTreeMap::from([("python".to_owned(), BTreeSet::new())]);
    for line in readme[start..start + end].lines() {
        let Some(column) = line.find("+-- ") else {
            continue;
        };
        let name = line[column + 4..].split_whitespace().next().unwrap();
        path.retain(|(at, _)| *at < column);
        let (_, above) = path.last().unwrap().clone();
        drawn.entry(above).or_default().insert(name.to_owned());
        drawn.entry(name.to_owned()).or_default();
        path.push((column, name.to_owned()));
    }
    drawn
}

#[test]
fn the_drawing_in_the_readme_is_what_cargo_builds() {
    let mut built: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in crates() {
        let is_beside = BESIDE.contains(&package.name.as_str());
        if !is_beside {
            built.insert(package.name, package.uses);
        }
    }
    assert!(built["table"].contains("file"), "cargo tells the edges");
    let mut drawn = drawing();
    for coming in COMING {
        assert!(
            !built.contains_key(coming),
            "{coming} is here: COMING is over"
        );
        assert!(drawn.remove(coming).is_some(), "{coming} is not drawn");
        drawn.values_mut().for_each(|uses| {
            uses.remove(coming);
        });
    }
    assert_eq!(drawn, built, "left: README.md, right: cargo metadata");
}

/// The first circle among `edges`, as the names on it.
fn circle(edges: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    for start in edges.keys() {
        let mut path = Vec::new();
        if let Some(found) = walk(edges, start, &mut path, &mut done) {
            return Some(found);
        }
    }
    None
}

fn walk(
    edges: &BTreeMap<String, BTreeSet<String>>,
    at: &str,
    path: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(start) = path.iter().position(|it| it == at) {
        return Some(path[start..].to_vec());
    }
    if done.contains(at) {
        return None;
    }
    path.push(at.to_owned());
    for next in edges.get(at).into_iter().flatten() {
        if let Some(found) = walk(edges, next, path, done) {
            return Some(found);
        }
    }
    path.pop();
    done.insert(at.to_owned());
    None
}

fn modules(package: &Crate) -> Option<Vec<Module>> {
    package.library.as_deref().map(modules_of)
}

#[test]
fn no_crate_has_a_circle_of_modules() {
    let mut told = Vec::new();
    for package in crates() {
        let Some(modules) = modules(&package) else {
            continue;
        };
        let mut edges = edges_of(&modules);
        // Modules that prost generates name each other in both directions.
        edges.retain(|module, _| !module.starts_with("proto::"));
        if let Some(circle) = circle(&edges) {
            told.push(format!("{}: {}", package.name, circle.join(" -> ")));
        }
    }
    assert!(told.is_empty(), "circles of modules:\n{}", told.join("\n"));
}

#[test]
fn arrows_between_the_rooms_of_table_point_down() {
    let table = crates().into_iter().find(|it| it.name == "table").unwrap();
    let edges = edges_of(&modules(&table).unwrap());
    let room = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let rooms: BTreeSet<String> = edges.keys().map(|module| room(module)).collect();
    let mut expected: BTreeSet<String> = ROOMS
        .iter()
        .chain(&LEAVES)
        .map(|it| (*it).to_owned())
        .collect();
    // The root only re-exports.
    expected.insert(String::new());
    assert_eq!(rooms, expected, "left: folders and files of table");
    let level = |name: &str| {
        ROOMS
            .iter()
            .position(|it| *it == name)
            .unwrap_or(ROOMS.len())
    };
    let mut climbing = Vec::new();
    for (from, uses) in &edges {
        for to in uses {
            let (above, below) = (room(from), room(to));
            let climbs = !from.is_empty() && above != below && level(&below) <= level(&above);
            let is_leaf = LEAVES.contains(&below.as_str());
            if climbs && !is_leaf {
                climbing.push(format!("{from} -> {to}"));
            }
        }
    }
    assert!(
        climbing.is_empty(),
        "arrows that climb:\n{}",
        climbing.join("\n")
    );
}

#[test]
fn the_design_lists_the_rooms_of_table_in_their_order() {
    let design = std::fs::read_to_string(root().join("docs/design.md")).unwrap();
    let listed: Vec<&str> = design
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .map(|room| room.trim_end_matches('/').trim_end_matches(".rs"))
        .filter(|room| ROOMS.contains(room))
        .collect();
    assert_eq!(listed, ROOMS, "left: docs/design.md");
}

#[test]
fn circles_and_paths_are_found() {
    let edges = |pairs: &[(&str, &str)]| {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in pairs {
            edges
                .entry((*from).to_owned())
                .or_default()
                .insert((*to).to_owned());
        }
        edges
    };
    assert_eq!(circle(&edges(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    let found = circle(&edges(&[("a", "b"), ("b", "c"), ("c", "b")]));
    assert_eq!(found.unwrap(), ["b", "c"]);
}
