//! The real library's history, replayed: its transactions, applied by us, make its manifests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use pilum_format::{ManifestFile, Operation, RowIdSequence, RowVersions, parse_manifest_name};

use super::*;

fn tables() -> Vec<PathBuf> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/lance");
    let folders = std::fs::read_dir(golden)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut tables: Vec<PathBuf> = folders
        .map(|folder| folder.join("dataset.lance"))
        .filter(|it| it.is_dir())
        .collect();
    tables.sort();
    assert!(tables.len() > 50, "the golden tables are checked in");
    tables
}

/// Manifests and transactions by version.
fn history(table: &Path) -> BTreeMap<u64, (Manifest, Option<Transaction>)> {
    let mut history = BTreeMap::new();
    for entry in std::fs::read_dir(table.join("_versions")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some((_, version)) = parse_manifest_name(name) else {
            continue;
        };
        let bytes = Bytes::from(std::fs::read(&path).unwrap());
        let file = ManifestFile::decode(&bytes, name).unwrap();
        let own = table
            .join("_transactions")
            .join(&file.manifest.transaction_file);
        let transaction = file.transaction.or_else(|| {
            let bytes = std::fs::read(own).ok()?;
            Some(Transaction::decode(&bytes.into()).unwrap())
        });
        history.insert(version, (file.manifest, transaction));
    }
    history
}

#[test]
fn every_manifest_and_transaction_survives_being_rewritten() {
    let mut transactions = 0;
    for table in tables() {
        for (version, (manifest, transaction)) in history(&table) {
            let place = format!("{} version {version}", table.display());
            if let Some(transaction) = &transaction {
                assert!(
                    !matches!(transaction.operation, Operation::Unknown(_)),
                    "{place}"
                );
                let read = Transaction::decode(&transaction.encode()).unwrap();
                assert_eq!(read, *transaction, "{place}");
                transactions += 1;
            }
            let file = ManifestFile {
                manifest,
                transaction,
            };
            let bytes = file.encode().unwrap();
            let mut read = ManifestFile::decode(&bytes, "rewritten").unwrap();
            assert!(
                std::mem::replace(&mut read.manifest.is_checksummed, false),
                "{place}"
            );
            assert_eq!(read, file, "{place}");
            for fragment in &file.manifest.fragments {
                // The bytes, not only the values: our choice of forms is the real library's.
                let Some(encoded) = &fragment.row_ids else {
                    continue;
                };
                let ids = fragment.row_ids().unwrap().unwrap();
                assert_eq!(ids.encode(), *encoded, "{place}");
                let values: Vec<u64> = ids.iter().collect();
                let rebuilt = RowIdSequence::from_values(&values);
                assert_eq!(rebuilt.iter().collect::<Vec<_>>(), values);
                for versions in [&fragment.created_at, &fragment.last_updated_at]
                    .into_iter()
                    .flatten()
                {
                    let versions = RowVersions::decode(versions).unwrap();
                    assert_eq!(versions.len(), fragment.physical_rows, "{place}");
                }
            }
        }
    }
    assert!(transactions > 100, "{transactions}");
}

/// Only the length of a span of row versions means anything.
fn normal(mut manifest: Manifest) -> Manifest {
    for fragment in &mut manifest.fragments {
        for versions in [&mut fragment.created_at, &mut fragment.last_updated_at] {
            *versions = versions
                .take()
                .map(|it| RowVersions::decode(&it).unwrap().encode());
        }
    }
    manifest
}

#[test]
fn every_step_of_the_real_library_is_repeated() {
    let mut steps = 0;
    for table in tables() {
        // 1.0.x started again at 0 after an overwrite, and with the restored ids after a restore.
        let is_old = table.to_str().unwrap().contains("/by_");
        let history = history(&table);
        for (version, (expected, transaction)) in &history {
            let Some(transaction) = transaction else {
                continue;
            };
            let before = history.get(&(version - 1)).map(|(manifest, _)| manifest);
            if before.is_none() && *version > 1 {
                continue;
            }
            let restored = match &transaction.operation {
                Operation::Restore { version } => {
                    history.get(version).map(|(manifest, _)| manifest)
                }
                _ => None,
            };
            let around = Surroundings {
                compat: None,
                restored,
                dictionaries: expected.dictionaries.clone(),
                stable_row_ids: expected.has_stable_row_ids(),
                now: expected.timestamp,
            };
            let place = format!(
                "{} version {version}, {}",
                table.display(),
                transaction.operation.name()
            );
            let mut made =
                apply(transaction, before, &around).unwrap_or_else(|e| panic!("{place}: {e}"));
            made.writer.clone_from(&expected.writer);
            made.data_format.clone_from(&expected.data_format);
            made.is_checksummed = false;
            made.transaction_file.clone_from(&expected.transaction_file);
            made.timestamp = expected.timestamp;
            if matches!(
                transaction.operation,
                Operation::Overwrite { .. } | Operation::Merge { .. }
            ) {
                // The real library leaves the schema's metadata out of its transactions.
                made.schema_metadata.clone_from(&expected.schema_metadata);
            }
            if is_old && made.max_fragment_id != expected.max_fragment_id {
                assert_eq!(
                    made.fragments.is_empty(),
                    expected.fragments.is_empty(),
                    "{place}"
                );
                continue;
            }
            let (made, expected) = (normal(made), normal(expected.clone()));
            assert_eq!(made.fragments, expected.fragments, "{place}");
            assert_eq!(made.fields, expected.fields, "{place}");
            assert_eq!(made, expected, "{place}");
            steps += 1;
        }
    }
    assert!(steps > 100, "{steps}");
}

#[test]
fn a_damaged_manifest_is_an_error_and_ours_is_always_noticed() {
    let table = tables()
        .into_iter()
        .find(|it| it.ends_with("dicts/dataset.lance"))
        .unwrap();
    let (manifest, transaction) = history(&table).into_values().next_back().unwrap();
    let bytes = ManifestFile {
        manifest,
        transaction,
    }
    .encode()
    .unwrap();
    for len in 0..bytes.len() {
        assert!(
            ManifestFile::decode(&bytes.slice(..len), "cut").is_err(),
            "cut at {len}"
        );
    }
    let footer = bytes.len() - 16;
    for at in 0..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 0x10;
        let read = ManifestFile::decode(&damaged.into(), "flipped");
        // The numbers of the footer mean nothing; the rest is covered.
        let is_covered = at < footer + 8 || at >= footer + 12;
        assert_eq!(read.is_err(), is_covered, "byte {at} of {}", bytes.len());
    }
}

/// Manifest and transaction files of the tables that our releases wrote.
fn releases() -> Vec<PathBuf> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let folders = |path: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(path).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.is_dir()).collect()
    };
    let is_release = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(|first: char| first.is_ascii_digit())
    };
    let releases = folders(&golden).into_iter().filter(is_release);
    let mut tables: Vec<PathBuf> = releases
        .flat_map(|release| folders(&release))
        .map(|table| table.join("dataset.pilum"))
        .collect();
    tables.sort();
    assert!(tables.len() >= 7, "the golden tables are checked in");
    tables
}

/// What our releases wrote is written again byte for byte: from what is read of it, and from its transactions. What makes each
/// commit its own (names, ids, times, the writer) is taken from what was written.
#[test]
fn manifests_of_our_releases_are_made_again() {
    let mut steps = 0;
    for table in releases() {
        let history = history(&table);
        for entry in std::fs::read_dir(table.join("_versions")).unwrap() {
            let path = entry.unwrap().path();
            let place = path.display();
            let bytes = Bytes::from(std::fs::read(&path).unwrap());
            let file = ManifestFile::decode(&bytes, "golden").unwrap();
            assert_eq!(file.encode().unwrap(), bytes, "{place}");
            let transaction = file.transaction.unwrap();
            let own = table.join("_transactions").join(transaction.file_name());
            let stored = std::fs::read(&own).unwrap();
            assert_eq!(transaction.encode(), stored, "{}", own.display());

            let expected = file.manifest;
            let before = history.get(&(expected.version - 1));
            // Releases before 0.3.0 did not record the compat of a table.
            let recorded = before.and_then(|it| it.0.recorded_compat);
            let around = Surroundings {
                compat: expected.recorded_compat.filter(|it| recorded != Some(*it)),
                restored: None,
                dictionaries: expected.dictionaries.clone(),
                stable_row_ids: expected.has_stable_row_ids(),
                now: expected.timestamp,
            };
            let mut manifest = apply(&transaction, before.map(|it| &it.0), &around).unwrap();
            manifest.writer.clone_from(&expected.writer);
            let transaction = Some(transaction);
            let made = ManifestFile {
                manifest,
                transaction,
            };
            assert_eq!(made.encode().unwrap(), bytes, "{place}");
            steps += 1;
        }
    }
    assert!(steps > 30, "{steps}");
}
