//! The outcome of each pair of operations in a conflict check.

use std::collections::BTreeMap;

use pilum_format::{DataFile, Fragment};

use super::*;

fn fragment(id: u64) -> Fragment {
    Fragment {
        id,
        ..Fragment::default()
    }
}

/// One of each operation, on fragment `id`, with nothing that needs a refinement.
fn plain(name: &str, id: u64) -> Operation {
    match name {
        "Append" => Operation::Append {
            fragments: vec![fragment(0)],
        },
        "Overwrite" => Operation::Overwrite {
            fragments: vec![],
            fields: vec![],
            schema_metadata: BTreeMap::new(),
            config_upserts: BTreeMap::new(),
        },
        "Delete" => delete(&[id], &[]),
        "Update" => Operation::Update {
            removed_ids: vec![id],
            updated: vec![],
            added: vec![],
            fields_modified: vec![],
            fields_preserving_index: vec![],
            rewrites_columns: false,
        },
        "Merge" => Operation::Merge {
            fragments: vec![],
            fields: vec![],
            schema_metadata: BTreeMap::new(),
            preserves_nullability: true,
        },
        "Project" => Operation::Project {
            fields: vec![],
            preserves_nullability: true,
        },
        "Restore" => Operation::Restore { version: 1 },
        "Rewrite" => Operation::Rewrite {
            groups: vec![RewriteGroup {
                old: vec![fragment(id)],
                new: vec![],
            }],
            rewritten_indices: vec![],
        },
        "UpdateConfig" => config("key", Some("value")),
        "DataReplacement" => replacement(id, 1),
        "CreateIndex" => index(id, 7),
        "ReserveFragments" => Operation::ReserveFragments { num_fragments: 1 },
        other => panic!("{other}"),
    }
}

fn delete(updated: &[u64], removed: &[u64]) -> Operation {
    Operation::Delete {
        updated: updated.iter().map(|id| fragment(*id)).collect(),
        removed_ids: removed.to_vec(),
        predicate: String::new(),
    }
}

fn replacement(id: u64, field: i32) -> Operation {
    let file = DataFile {
        field_ids: vec![field],
        ..DataFile::default()
    };
    Operation::DataReplacement {
        replacements: vec![(id, file)],
    }
}

fn index(covers: u64, field: i32) -> Operation {
    let mut bitmap = Vec::new();
    let covered: RoaringBitmap = [u32::try_from(covers).unwrap()].into_iter().collect();
    covered.serialize_into(&mut bitmap).unwrap();
    let added = IndexMetadata {
        name: "idx".to_owned(),
        fields: vec![field],
        fragment_bitmap: bitmap.into(),
        ..Default::default()
    };
    Operation::CreateIndex {
        added: vec![added],
        removed: vec![],
    }
}

fn config(key: &str, value: Option<&str>) -> Operation {
    let entries = [(key.to_owned(), value.map(str::to_owned))].into();
    let config = MapUpdate {
        entries,
        replace: false,
    };
    Operation::UpdateConfig(ConfigUpdate {
        config,
        ..ConfigUpdate::default()
    })
}

fn schema_config(field: Option<i32>) -> Operation {
    let edit = MapUpdate {
        entries: [("k".to_owned(), None)].into(),
        replace: false,
    };
    let mut update = ConfigUpdate::default();
    match field {
        None => update.schema_metadata = edit,
        Some(id) => {
            update.field_metadata.insert(id, edit);
        }
    }
    Operation::UpdateConfig(update)
}

fn letter(outcome: &Outcome) -> char {
    match outcome {
        Outcome::Ok => '.',
        Outcome::Retry(_) => 'R',
        Outcome::Incompatible(_) => 'X',
    }
}

/// The measured matrix, once with both sides on one fragment and once on different ones.
#[test]
fn every_pair_comes_out_as_measured() {
    let same = [
        //   AOdUMPrWCDIv   A Append, O Overwrite, d Delete, U Update, M Merge, P Project, r Restore, W Rewrite,
        ("Append", ".X..R.X....."), // C UpdateConfig, D DataReplacement, I CreateIndex, v ReserveFragments
        ("Overwrite", ".R.........."),
        ("Delete", ".XRRR.XR.R.."),
        ("Update", ".XRRR.XR.R.."),
        ("Merge", "RXRRRXXR.R.."),
        ("Project", ".X..RRX....."),
        ("Restore", "............"),
        ("Rewrite", ".XRRR.XR.RR."),
        ("UpdateConfig", "........X..."),
        ("DataReplacement", ".X.RR.XR.R.."),
        ("CreateIndex", ".X....XR...."),
        ("ReserveFragments", ".X....X....."),
    ];
    let different = [
        ("Append", ".X..R.X....."),
        ("Overwrite", ".R.........."),
        ("Delete", ".X..R.X....."),
        ("Update", ".X..R.X....."),
        ("Merge", "RXRRRXXR.R.."),
        ("Project", ".X..RRX....."),
        ("Restore", "............"),
        ("Rewrite", ".X..R.X....."),
        ("UpdateConfig", "........X..."),
        ("DataReplacement", ".X..R.X....."),
        ("CreateIndex", ".X....X....."),
        ("ReserveFragments", ".X....X....."),
    ];
    for (rows, their_fragment) in [(same, 1), (different, 2)] {
        for (ours, expected) in rows {
            let row: String = OperationKind::ALL
                .iter()
                .map(|theirs| plain(theirs.name(), their_fragment))
                .map(|theirs| letter(&check(&plain(ours, 1), &theirs)))
                .collect();
            assert_eq!(row, expected, "{ours} against fragment {their_fragment}");
        }
    }
}

#[test]
fn a_projection_that_forbids_nulls_needs_the_work_redone() {
    let strict = Operation::Project {
        fields: vec![],
        preserves_nullability: false,
    };
    for name in ["Append", "Update", "DataReplacement"] {
        assert_eq!(
            check(&plain(name, 1), &strict),
            Outcome::Retry(Reason::Nullability),
            "{name}"
        );
        assert_eq!(
            check(&strict, &plain(name, 1)),
            Outcome::Retry(Reason::Nullability),
            "{name}"
        );
    }
    assert_eq!(check(&plain("Delete", 1), &strict), Outcome::Ok);
}

#[test]
fn config_keys_clash_when_one_side_sets() {
    let key = |ours: &Operation, theirs: &Operation| letter(&check(ours, theirs));
    assert_eq!(key(&config("a", Some("1")), &config("b", Some("1"))), '.');
    assert_eq!(key(&config("a", Some("1")), &config("a", None)), 'X');
    assert_eq!(key(&config("a", None), &config("a", None)), '.');
    let overwrite = Operation::Overwrite {
        fragments: vec![],
        fields: vec![],
        schema_metadata: BTreeMap::new(),
        config_upserts: [("a".to_owned(), "1".to_owned())].into(),
    };
    assert_eq!(key(&overwrite, &config("a", None)), 'X');
    assert_eq!(key(&overwrite, &config("b", Some("1"))), '.');
    let clear = Operation::UpdateConfig(ConfigUpdate {
        config: MapUpdate {
            replace: true,
            ..MapUpdate::default()
        },
        ..ConfigUpdate::default()
    });
    assert_eq!(key(&clear, &config("a", Some("1"))), 'X');
    assert_eq!(key(&config("a", Some("1")), &clear), 'X');
    assert_eq!(key(&config("a", None), &clear), '.');
}

#[test]
fn schema_metadata_clashes_with_schemas() {
    let edit = schema_config(None);
    assert_eq!(letter(&check(&edit, &plain("Overwrite", 1))), 'X');
    assert_eq!(letter(&check(&edit, &plain("Restore", 1))), 'X');
    assert_eq!(letter(&check(&plain("Restore", 1), &edit)), 'X');
    assert_eq!(letter(&check(&edit, &plain("Merge", 1))), 'R');
    assert_eq!(letter(&check(&plain("Merge", 1), &edit)), 'R');
    assert_eq!(letter(&check(&edit, &edit)), 'X');
    assert_eq!(
        letter(&check(&schema_config(Some(1)), &schema_config(Some(1)))),
        'X'
    );
    assert_eq!(
        letter(&check(&schema_config(Some(1)), &schema_config(Some(2)))),
        '.'
    );
    assert_eq!(letter(&check(&plain("Append", 1), &edit)), '.');
}

#[test]
fn replacements_look_at_fields_and_removals() {
    assert_eq!(letter(&check(&replacement(1, 1), &replacement(1, 2))), '.');
    assert_eq!(letter(&check(&replacement(1, 1), &replacement(1, 1))), 'R');
    let removed = check(&replacement(1, 1), &delete(&[], &[1]));
    assert_eq!(removed, Outcome::Incompatible(Reason::FragmentRemoved(1)));
    assert_eq!(letter(&check(&replacement(1, 7), &index(1, 7))), 'R');
    assert_eq!(letter(&check(&index(1, 7), &replacement(1, 7))), 'R');
}

#[test]
fn what_is_unknown_fails() {
    let unknown = Operation::Unknown(112);
    for (number, kind) in OperationKind::ALL.into_iter().enumerate() {
        assert_eq!(
            kind as usize, number,
            "rows and columns are found by number"
        );
        assert_eq!(
            check(&plain(kind.name(), 1), &unknown),
            Outcome::Incompatible(Reason::UnknownTransaction)
        );
    }
    let Operation::CreateIndex { mut added, removed } = index(5, 7) else {
        panic!()
    };
    added[0].fragment_bitmap = vec![1, 2].into();
    let damaged = Operation::CreateIndex { added, removed };
    assert_eq!(letter(&check(&plain("Rewrite", 1), &damaged)), 'R');
}
