//! The manifests that operations make of the manifest before them.

use std::collections::BTreeMap;

use pilum_format::proto::file::Field;
use pilum_format::proto::table as proto;
use pilum_format::{
    ConfigUpdate, DataFile, DeletionFile, DeletionFileKind, Fragment, MapUpdate, Operation,
    RewriteGroup, RowIdSequence, RowVersions,
};
use roaring::RoaringBitmap;

use super::*;
use crate::commit::conflict::covered_fragments;

fn field(id: i32) -> Field {
    Field {
        id,
        name: format!("c{id}"),
        parent_id: -1,
        logical_type: "int64".to_owned(),
        ..Field::default()
    }
}

fn file(ids: &[i32]) -> DataFile {
    DataFile {
        path: format!("{ids:?}.lance"),
        field_ids: ids.to_vec(),
        file_version: (0, 2),
        ..DataFile::default()
    }
}

fn rows(physical_rows: u64) -> Fragment {
    Fragment {
        files: vec![file(&[0, 1])],
        physical_rows,
        ..Fragment::default()
    }
}

fn deletion(num_deleted_rows: u64) -> Option<DeletionFile> {
    let kind = DeletionFileKind::Arrow;
    Some(DeletionFile {
        kind,
        read_version: 1,
        id: 1,
        num_deleted_rows,
        crc32c: None,
    })
}

fn overwrite(fragments: Vec<Fragment>) -> Operation {
    Operation::Overwrite {
        fragments,
        fields: vec![field(0), field(1)],
        schema_metadata: BTreeMap::new(),
        config_upserts: [("a".to_owned(), "1".to_owned())].into(),
    }
}

fn step(current: Option<&Manifest>, operation: Operation) -> Result<Manifest> {
    let read_version = current.map_or(0, |manifest| manifest.version);
    let around = Surroundings {
        stable_row_ids: true,
        ..Surroundings::default()
    };
    apply(&Transaction::new(read_version, operation), current, &around)
}

fn ids(manifest: &Manifest) -> Vec<u64> {
    manifest
        .fragments
        .iter()
        .map(|fragment| fragment.id)
        .collect()
}

fn row_ids(manifest: &Manifest, id: u64) -> Vec<u64> {
    manifest
        .fragment(id)
        .unwrap()
        .row_ids()
        .unwrap()
        .unwrap()
        .iter()
        .collect()
}

#[test]
fn append_and_overwrite_number_fragments_and_rows_on() {
    let one = step(None, overwrite(vec![rows(2), rows(3)])).unwrap();
    assert_eq!(
        (one.version, ids(&one), one.max_fragment_id),
        (1, vec![0, 1], Some(1))
    );
    assert_eq!(row_ids(&one, 1), [2, 3, 4]);
    assert_eq!((one.reader_flags, one.writer_flags), (2, 2 | 8));
    let two = step(
        Some(&one),
        Operation::Append {
            fragments: vec![rows(1)],
        },
    )
    .unwrap();
    assert_eq!(
        (two.version, ids(&two), row_ids(&two, 2)),
        (2, vec![0, 1, 2], vec![5])
    );
    let created = two.fragments[2].created_at().unwrap().unwrap();
    assert_eq!(created, RowVersions::uniform(1, 2));
    let three = step(Some(&two), overwrite(vec![rows(2)])).unwrap();
    assert_eq!(
        (ids(&three), row_ids(&three, 3), three.next_row_id),
        (vec![3], vec![6, 7], 8)
    );
    let empty = step(Some(&three), overwrite(vec![])).unwrap();
    assert_eq!((ids(&empty), empty.max_fragment_id), (vec![], Some(3)));
}

#[test]
fn a_table_without_fragments_has_no_highest_id() {
    let one = step(None, overwrite(vec![])).unwrap();
    assert_eq!(one.max_fragment_id, None);
    let two = step(
        Some(&one),
        Operation::Append {
            fragments: vec![rows(1)],
        },
    )
    .unwrap();
    assert_eq!((ids(&two), two.max_fragment_id), (vec![0], Some(0)));
}

#[test]
fn delete_replaces_and_removes() {
    let one = step(None, overwrite(vec![rows(2), rows(3), rows(4)])).unwrap();
    let with = |id: usize, deleted| Fragment {
        deletion: deletion(deleted),
        ..one.fragments[id].clone()
    };
    let delete = |updated, removed_ids| Operation::Delete {
        updated,
        removed_ids,
        predicate: String::new(),
    };
    let two = step(Some(&one), delete(vec![with(1, 1)], vec![0])).unwrap();
    assert_eq!((ids(&two), two.num_rows()), (vec![1, 2], Some(6)));
    assert_eq!((two.reader_flags, two.writer_flags), (1 | 2, 1 | 2 | 8));
    assert_eq!(two.max_fragment_id, Some(2));
    // A fragment whose last row goes is dropped, even if the writer only marked it.
    let three = step(Some(&two), delete(vec![with(2, 4)], vec![])).unwrap();
    assert_eq!(ids(&three), [1]);
    let gone = step(Some(&three), delete(vec![], vec![0])).unwrap_err();
    assert_eq!(gone.kind(), "invalid_input");
}

#[test]
fn update_keeps_the_ids_of_rewritten_rows() {
    let one = step(None, overwrite(vec![rows(4)])).unwrap();
    let added = Fragment {
        row_ids: Some(RowIdSequence::from_values(&[3, 1]).encode()),
        created_at: Some(RowVersions::uniform(2, 1).encode()),
        ..rows(3)
    };
    let update = Operation::Update {
        removed_ids: vec![],
        updated: vec![Fragment {
            deletion: deletion(2),
            ..one.fragments[0].clone()
        }],
        added: vec![added],
        fields_modified: vec![],
        fields_preserving_index: vec![],
        rewrites_columns: false,
    };
    let two = step(Some(&one), update).unwrap();
    assert_eq!(row_ids(&two, 1), [3, 1, 4]);
    assert_eq!(two.next_row_id, 5);
    let created = two.fragments[1].created_at().unwrap().unwrap();
    assert_eq!(created.runs().collect::<Vec<_>>(), [(2, 1), (1, 2)]);
    assert_eq!(
        two.fragments[1].last_updated_at().unwrap().unwrap(),
        RowVersions::uniform(3, 2)
    );
}

#[test]
fn restore_never_goes_back_with_ids() {
    let one = step(None, overwrite(vec![rows(2)])).unwrap();
    let two = step(
        Some(&one),
        Operation::Append {
            fragments: vec![rows(5)],
        },
    )
    .unwrap();
    let around = Surroundings {
        restored: Some(&one),
        ..Surroundings::default()
    };
    let restore = Transaction::new(2, Operation::Restore { version: 1 });
    let three = apply(&restore, Some(&two), &around).unwrap();
    assert_eq!((three.version, ids(&three)), (3, vec![0]));
    assert_eq!((three.max_fragment_id, three.next_row_id), (Some(1), 7));
    assert_eq!(three.transaction_file, restore.file_name());
}

#[test]
fn rewrite_takes_reserved_ids() {
    let one = step(None, overwrite(vec![rows(2), rows(3), rows(4)])).unwrap();
    let two = step(Some(&one), Operation::ReserveFragments { num_fragments: 2 }).unwrap();
    assert_eq!((ids(&two), two.max_fragment_id), (vec![0, 1, 2], Some(4)));
    let group = RewriteGroup {
        old: two.fragments[..2].to_vec(),
        new: vec![Fragment { id: 3, ..rows(5) }],
    };
    let rewrite = |group| Operation::Rewrite {
        groups: vec![group],
        rewritten_indices: vec![],
    };
    let three = step(Some(&two), rewrite(group.clone())).unwrap();
    assert_eq!((ids(&three), three.max_fragment_id), (vec![2, 3], Some(4)));
    let taken = RewriteGroup {
        old: vec![],
        new: vec![Fragment { id: 2, ..rows(5) }],
    };
    assert_eq!(
        step(Some(&three), rewrite(taken)).unwrap_err().kind(),
        "invalid_input"
    );
}

#[test]
fn an_index_over_rewritten_fragments_is_remapped_or_dropped() {
    let one = step(None, overwrite(vec![rows(2), rows(3), rows(4)])).unwrap();
    let index = |name: &str, uuid: u8, covers: &[u32]| {
        let mut bitmap = Vec::new();
        covers
            .iter()
            .collect::<RoaringBitmap>()
            .serialize_into(&mut bitmap)
            .unwrap();
        proto::IndexMetadata {
            uuid: Some(proto::Uuid {
                uuid: vec![uuid; 16].into(),
            }),
            name: name.to_owned(),
            fragment_bitmap: bitmap.into(),
            ..Default::default()
        }
    };
    let added = vec![
        index("a", 1, &[0, 1]),
        index("b", 2, &[2]),
        index("c", 3, &[0, 1, 2]),
    ];
    let two = step(
        Some(&one),
        Operation::CreateIndex {
            added,
            removed: vec![],
        },
    )
    .unwrap();
    let group = RewriteGroup {
        old: two.fragments[..2].to_vec(),
        new: vec![Fragment { id: 7, ..rows(5) }],
    };
    let remapped = proto::transaction::rewrite::RewrittenIndex {
        old_id: Some(proto::Uuid {
            uuid: vec![3; 16].into(),
        }),
        new_id: Some(proto::Uuid {
            uuid: vec![9; 16].into(),
        }),
        ..Default::default()
    };
    let rewrite = Operation::Rewrite {
        groups: vec![group],
        rewritten_indices: vec![remapped],
    };
    let three = step(Some(&two), rewrite).unwrap();
    let kept = three.indices().unwrap();
    let names: Vec<&str> = kept.iter().map(|index| index.name.as_str()).collect();
    assert_eq!(names, ["b", "c"]);
    assert_eq!(kept[1].uuid.as_ref().unwrap().uuid[0], 9);
    assert_eq!(
        covered_fragments(&kept[1]).unwrap(),
        [2, 7].into_iter().collect()
    );
    let removed = vec![index("b", 2, &[])];
    let four = step(
        Some(&three),
        Operation::CreateIndex {
            added: vec![],
            removed,
        },
    )
    .unwrap();
    assert_eq!(four.indices().unwrap().len(), 1);
}

#[test]
fn an_index_on_a_column_that_was_dropped_meanwhile_is_not_listed() {
    let one = step(None, overwrite(vec![rows(2)])).unwrap();
    let live = one.fields[0].id;
    let index = |name: &str, field: i32| proto::IndexMetadata {
        name: name.to_owned(),
        fields: vec![field],
        ..Default::default()
    };
    let create = Operation::CreateIndex {
        added: vec![index("live", live), index("dead", live + 99)],
        removed: vec![],
    };
    let two = step(Some(&one), create).unwrap();
    let left = two.indices().unwrap();
    let names: Vec<&str> = left.iter().map(|index| index.name.as_str()).collect();
    assert_eq!(names, ["live"]);
}

#[test]
fn project_drops_files_without_a_live_column() {
    let two_files = Fragment {
        files: vec![file(&[0]), file(&[1])],
        ..rows(2)
    };
    let one = step(None, overwrite(vec![two_files])).unwrap();
    let fields = vec![field(0)];
    let project = Operation::Project {
        fields,
        preserves_nullability: true,
    };
    let two = step(Some(&one), project).unwrap();
    assert_eq!(two.fragments[0].files, [file(&[0])]);
    assert_eq!(one.next_field_id(), 2);
    assert_eq!(two.next_field_id(), 1);
}

#[test]
fn merge_and_replacement_change_files() {
    let one = step(None, overwrite(vec![rows(2)])).unwrap();
    let mut fragment = one.fragments[0].clone();
    fragment.files.push(file(&[2]));
    let merge = |fragments| Operation::Merge {
        fragments,
        fields: vec![field(0), field(1), field(2)],
        schema_metadata: BTreeMap::new(),
        preserves_nullability: true,
    };
    assert_eq!(
        step(Some(&one), merge(vec![one.fragments[0].clone()]))
            .unwrap_err()
            .kind(),
        "invalid_input"
    );
    let two = step(Some(&one), merge(vec![fragment])).unwrap();
    assert_eq!(two.fields.len(), 3);
    let new = DataFile {
        path: "new.lance".to_owned(),
        ..file(&[2])
    };
    let swap = |file| Operation::DataReplacement {
        replacements: vec![(0, file)],
    };
    let three = step(Some(&two), swap(new.clone())).unwrap();
    assert_eq!(three.fragments[0].files[1], new);
    let added = step(Some(&two), swap(file(&[5]))).unwrap();
    assert_eq!(added.fragments[0].files.len(), 3);
    assert_eq!(
        step(Some(&two), swap(file(&[1, 2]))).unwrap_err().kind(),
        "invalid_input"
    );
}

#[test]
fn config_updates_set_delete_and_clear() {
    let one = step(None, overwrite(vec![])).unwrap();
    let map = |replace, entries: &[(&str, Option<&str>)]| MapUpdate {
        replace,
        entries: entries
            .iter()
            .map(|(k, v)| ((*k).to_owned(), v.map(str::to_owned)))
            .collect(),
    };
    let update = |config, field| {
        let field_metadata = [(field, map(false, &[("unit", Some("m"))]))].into();
        Operation::UpdateConfig(ConfigUpdate {
            config,
            field_metadata,
            ..ConfigUpdate::default()
        })
    };
    let two = step(
        Some(&one),
        update(map(false, &[("a", None), ("b", Some("2"))]), 1),
    )
    .unwrap();
    assert_eq!(two.config, [("b".to_owned(), "2".to_owned())].into());
    assert_eq!(two.fields[1].metadata["unit"], b"m");
    let three = step(Some(&two), update(map(true, &[]), 1)).unwrap();
    assert!(three.config.is_empty());
    assert_eq!(three.writer_flags & 8, 0);
    assert_eq!(
        step(Some(&two), update(map(true, &[]), 9))
            .unwrap_err()
            .kind(),
        "invalid_input"
    );
}

#[test]
fn a_new_fragment_has_every_column() {
    let bare = Fragment {
        files: vec![file(&[0])],
        ..rows(2)
    };
    assert_eq!(
        step(None, overwrite(vec![bare.clone()]))
            .unwrap_err()
            .kind(),
        "invalid_input"
    );
    let one = step(None, overwrite(vec![rows(1)])).unwrap();
    let append = Operation::Append {
        fragments: vec![bare],
    };
    assert_eq!(
        step(Some(&one), append).unwrap_err().kind(),
        "invalid_input"
    );
}

#[test]
fn the_extension_flag_follows_the_files() {
    let extended = DataFile {
        needs_extension: true,
        ..file(&[0, 1])
    };
    let extended = Fragment {
        files: vec![extended],
        ..rows(2)
    };
    let one = step(None, overwrite(vec![extended])).unwrap();
    assert_eq!(one.reader_flags, 2 | 1 << 56);
    assert_eq!(one.writer_flags, 2 | 8 | 1 << 56);
    let two = step(Some(&one), overwrite(vec![rows(1)])).unwrap();
    assert_eq!(two.reader_flags, 2);
}

#[test]
fn some_tables_are_not_written_to() {
    let one = step(None, overwrite(vec![rows(1)])).unwrap();
    let append = || Operation::Append {
        fragments: vec![rows(1)],
    };
    let flagged = Manifest {
        writer_flags: 1 << 30,
        ..one.clone()
    };
    assert_eq!(
        step(Some(&flagged), append()).unwrap_err().kind(),
        "unsupported"
    );
    let mut twice = one.clone();
    twice.fragments[0].files.push(file(&[1]));
    assert_eq!(
        step(Some(&twice), append()).unwrap_err().kind(),
        "unsupported"
    );
    let mut renumbered = one;
    renumbered.fields.push(field(1));
    assert_eq!(
        step(Some(&renumbered), append()).unwrap_err().kind(),
        "unsupported"
    );
}
