//! Tables of the real library: every version is what the real library says it is.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use pilum_format::{decode_deletions, deletion_file_kind, encode_deletions};
use pilum_table::{Compat, Dataset, Fragment, Snapshot, VersionRef, WriteOptions};
use serde_json::Value;

use crate::support::{block_on, copy, golden, local, open, reader, rows};

struct Golden {
    name: String,
    dataset: Dataset,
    expected: Value,
}

fn tables() -> Vec<Golden> {
    let mut names: Vec<_> = std::fs::read_dir(golden())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() > 50);
    names
        .into_iter()
        .map(|name| {
            let folder = golden().join(&name);
            let expected = std::fs::read(folder.join("expected.json")).unwrap();
            let dataset = open(&local(&folder.join("dataset.lance")));
            Golden {
                name,
                dataset,
                expected: serde_json::from_slice(&expected).unwrap(),
            }
        })
        .collect()
}

fn deleted(snapshot: &Snapshot, fragment: &Fragment) -> Option<roaring::RoaringBitmap> {
    let deletion = fragment.deletion.as_ref()?;
    let bytes = block_on(snapshot.store().read(&deletion.path(fragment.id), 1 << 20)).unwrap();
    let rows = decode_deletions(&bytes, deletion.kind, fragment.physical_rows).unwrap();
    // Our own files hold the same rows.
    let kind = deletion_file_kind(rows.len(), Some(deletion.kind));
    let again = encode_deletions(&rows, kind).unwrap();
    assert_eq!(
        decode_deletions(&again, kind, fragment.physical_rows).unwrap(),
        rows
    );
    Some(rows)
}

fn check_fragment(snapshot: &Snapshot, fragment: &Fragment, expected: &Value, place: &str) {
    assert_eq!(fragment.id, expected["id"].as_u64().unwrap(), "{place}");
    assert_eq!(
        fragment.physical_rows,
        expected["physical_rows"].as_u64().unwrap(),
        "{place}"
    );
    let deletion_path = fragment
        .deletion
        .as_ref()
        .map(|deletion| deletion.path(fragment.id));
    let deletion_name = deletion_path
        .as_deref()
        .and_then(|path| path.strip_prefix("_deletions/"));
    if !expected["deletion_file"].is_null() {
        assert_eq!(deletion_name, expected["deletion_file"].as_str(), "{place}");
    }
    let deleted = deleted(snapshot, fragment).map_or(0, |rows| rows.len());
    assert_eq!(
        deleted,
        expected["num_deletions"].as_u64().unwrap(),
        "{place}"
    );
    assert_eq!(
        fragment.num_rows(),
        Some(fragment.physical_rows - deleted),
        "{place}"
    );
    let files = expected["files"].as_array().unwrap();
    assert_eq!(fragment.files.len(), files.len(), "{place}");
    for (file, expected) in fragment.files.iter().zip(files) {
        assert_eq!(file.path, expected["path"].as_str().unwrap(), "{place}");
        if let Some(ids) = expected["fields"].as_array() {
            let ids: Vec<i64> = ids.iter().map(|id| id.as_i64().unwrap()).collect();
            let have: Vec<i64> = file.field_ids.iter().map(|id| i64::from(*id)).collect();
            assert_eq!(have, ids, "{place}");
        }
    }
}

#[test]
fn every_version_has_the_rows_fragments_and_files_of_the_real_library() {
    let mut versions = 0;
    for Golden {
        name,
        dataset,
        expected,
    } in tables()
    {
        let latest = expected["latest_version"].as_u64().unwrap();
        assert_eq!(dataset.version(), latest, "{name}");
        assert_eq!(
            block_on(dataset.latest_version()).unwrap(),
            latest,
            "{name}"
        );
        let listed: Vec<u64> = block_on(dataset.versions())
            .unwrap()
            .iter()
            .map(|it| it.version)
            .collect();
        for (version, expected) in expected["versions"].as_object().unwrap() {
            let number: u64 = version.parse().unwrap();
            assert!(listed.contains(&number), "{name}");
            let place = format!("{name} version {version}");
            let then = block_on(dataset.checkout(&VersionRef::Number(number))).unwrap();
            let snapshot = then.snapshot();
            assert_eq!(snapshot.version(), number);
            assert_eq!(
                snapshot.num_rows(),
                expected["num_rows"].as_u64().unwrap(),
                "{place}"
            );
            let fragments = expected["fragments"].as_array().unwrap();
            assert_eq!(snapshot.fragments().len(), fragments.len(), "{place}");
            for (fragment, expected) in snapshot.fragments().iter().zip(fragments) {
                check_fragment(snapshot, fragment, expected, &place);
            }
            versions += 1;
        }
        if let Some(config) = expected["config"].as_object() {
            let have = serde_json::to_value(&dataset.snapshot().manifest().config).unwrap();
            assert_eq!(have.as_object().unwrap(), config, "{name}");
        }
        if let Some(tags) = expected["tags"].as_object() {
            let have: BTreeMap<String, u64> = block_on(dataset.tags())
                .unwrap()
                .into_iter()
                .map(|(name, tag)| (name, tag.version))
                .collect();
            assert_eq!(
                serde_json::to_value(&have).unwrap().as_object().unwrap(),
                tags,
                "{name}"
            );
            for (tag, version) in have {
                let tagged = block_on(dataset.checkout(&VersionRef::Tag(tag))).unwrap();
                assert_eq!(tagged.version(), version, "{name}");
            }
        }
    }
    assert!(versions > 100);
}

/// Row ids and addresses of live rows, from the manifest alone.
#[test]
fn row_ids_are_those_of_the_real_library() {
    let mut checked = 0;
    for Golden { name, dataset, .. } in tables() {
        let Ok(file) = File::open(golden().join(&name).join("expected_rowids.arrow")) else {
            continue;
        };
        let batches = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
        let mut expected: Vec<(u64, u64)> = Vec::new();
        for batch in batches {
            let batch = batch.unwrap();
            let column = |name: &str| {
                batch
                    .column_by_name(name)
                    .unwrap()
                    .as_primitive::<UInt64Type>()
                    .values()
                    .clone()
            };
            expected.extend(
                column("_rowid")
                    .iter()
                    .zip(&column("_rowaddr"))
                    .map(|(a, b)| (*a, *b)),
            );
        }
        let snapshot = dataset.snapshot();
        let mut have = Vec::new();
        for fragment in snapshot.fragments() {
            let gone = deleted(snapshot, fragment).unwrap_or_default();
            let ids = fragment.row_ids().unwrap();
            for row in 0..u32::try_from(fragment.physical_rows).unwrap() {
                if gone.contains(row) {
                    continue;
                }
                let address = fragment.id << 32 | u64::from(row);
                let id = ids
                    .as_ref()
                    .map_or(address, |ids| ids.get(u64::from(row)).unwrap());
                have.push((id, address));
            }
        }
        assert_eq!(have, expected, "{name}");
        checked += 1;
    }
    assert!(checked >= 7);
}

#[test]
fn opening_costs_one_listing_and_one_read() {
    for Golden { name, dataset, .. } in tables() {
        let store = local(&golden().join(&name).join("dataset.lance"));
        let before = store.counters();
        let opened = open(&store);
        let cost = store.counters().since(&before);
        assert_eq!(opened.version(), dataset.version());
        let is_new = dataset.snapshot().naming_scheme() == pilum_format::NamingScheme::V2;
        if is_new {
            assert_eq!((cost.lists, cost.reads), (1, 1), "{name}: {cost:?}");
        }
    }
}

#[test]
fn rows_are_appended_to_a_table_of_the_real_library_in_its_own_scheme() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["naming_v1", "by_0_10_18_basic", "stable_compact"] {
        let path = folder.path().join(name);
        copy(&golden().join(name).join("dataset.lance"), &path);
        let store = local(&path);
        let before = open(&store);
        // Every column of these tables, null where it may be.
        let schema = before.snapshot().schema().to_arrow();
        let columns = schema.fields().iter().map(|field| {
            let nulls = arrow_array::new_null_array(field.data_type(), 3);
            if field.is_nullable() {
                nulls
            } else {
                arrow_array::make_array(nulls.to_data().into_builder().nulls(None).build().unwrap())
            }
        });
        let batch =
            arrow_array::RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap();
        let refused =
            block_on(before.append(reader(std::slice::from_ref(&batch)), &Default::default()));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("compat=\"lossless\""), "{name}: {refused}");
        assert_eq!(open(&store).version(), before.version(), "{name}");
        let mut options = WriteOptions::default();
        options.compat = Some(Compat::Lossless);
        let after = block_on(before.append(reader(&[batch]), &options))
            .unwrap()
            .snapshot;
        assert_eq!(after.version(), before.version() + 1, "{name}");
        assert_eq!(
            after.naming_scheme(),
            before.snapshot().naming_scheme(),
            "{name}"
        );
        assert_eq!(after.num_rows(), before.num_rows() + 3, "{name}");
        assert_eq!(
            after.fragments().len(),
            before.fragments().len() + 1,
            "{name}"
        );
        let last = after.fragments().last().unwrap();
        assert_eq!(
            last.id,
            before.snapshot().manifest().highest_fragment_id().unwrap() + 1
        );
        let is_stable = before.snapshot().manifest().has_stable_row_ids();
        assert_eq!(last.row_ids.is_some(), is_stable);
        assert_eq!(open(&store).version(), after.version());
        // Columns that the rows lack become null; one that the table lacks is refused.
        let ids = Arc::clone(rows(0, 1).column(0));
        let unknown = arrow_array::RecordBatch::try_from_iter([("no such column", ids)]).unwrap();
        let mismatch = block_on(before.append(reader(&[unknown]), &Default::default()));
        assert_eq!(mismatch.unwrap_err().kind(), "invalid_input");
    }
}
