//! The rooms of the house: a crate may use only the crates below it in the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The plan: for each crate the crates it may name in `[dependencies]`.
const PLAN: &[(&str, &[&str])] = &[
    ("pilum-store", &[]),
    ("pilum-encoding", &[]),
    ("pilum-expr", &[]),
    ("pilum-format", &["pilum-encoding"]),
    (
        "pilum-file",
        &["pilum-encoding", "pilum-format", "pilum-store"],
    ),
    (
        "pilum-table",
        &["pilum-file", "pilum-format", "pilum-expr", "pilum-store"],
    ),
    ("pilum-parquet", &["pilum-expr", "pilum-store"]),
    (
        "pilum-kartothek",
        &["pilum-parquet", "pilum-expr", "pilum-store"],
    ),
    ("pilum-references", &["pilum-table", "pilum-store"]),
    ("pilum-skiff", &[]),
    // Of tests only.
    ("pilum-testing", &[]),
    (
        "pilum-python",
        &[
            "pilum-table",
            "pilum-parquet",
            "pilum-kartothek",
            "pilum-references",
            "pilum-skiff",
        ],
    ),
];

/// Benchmarks look at everything and nothing looks at them.
const ANYTHING: &str = "pilum-benches";

fn edges() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--no-deps",
            "--offline",
            "--manifest-path",
        ])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut edges = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let uses = package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
            .map(|dependency| dependency["name"].as_str().unwrap().to_owned())
            .filter(|name| name.starts_with("pilum"))
            .collect::<BTreeSet<_>>();
        edges.insert(package["name"].as_str().unwrap().to_owned(), uses);
    }
    edges
}

#[test]
fn every_crate_edge_is_in_the_plan() {
    let plan: BTreeMap<&str, &[&str]> = PLAN.iter().copied().collect();
    let edges = edges();
    assert!(
        edges.contains_key("pilum-table"),
        "the metadata lists the workspace"
    );
    assert!(edges["pilum-table"].contains("pilum-file"), "and its edges");
    for (package, uses) in edges {
        if package == ANYTHING {
            continue;
        }
        let allowed = plan.get(package.as_str());
        let allowed = allowed.unwrap_or_else(|| panic!("the plan does not draw {package}"));
        for used in uses {
            assert!(
                allowed.contains(&used.as_str()),
                "{package} -> {used} is not in the plan"
            );
        }
    }
}
