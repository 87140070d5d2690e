//! Verification of a table finds each claim of a manifest that its files do not bear out, also where the checksums of the
//! manifest are right.

use std::collections::BTreeMap;
use std::path::PathBuf;

use futures::TryStreamExt;
use pilum_format::{DeletionFileKind, ManifestFile, RowIdSequence, RowVersions, encode_deletions};
use pilum_table::{
    Check, Compat, FileLayout, ScanOptions, Store, VerifyReport, WriteOptions, write,
};
use roaring::RoaringBitmap;

use crate::support::{
    append, block_on, copy, create, delete, files, golden, local, open, reader, rows, runtime,
};

/// A local table: two fragments of 10 rows, of the first of which rows 0 to 2 are deleted.
struct Table {
    folder: tempfile::TempDir,
    store: Store,
}

impl Table {
    fn new(stable_row_ids: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = local(folder.path());
        create(&store, &rows(0, 10), stable_row_ids);
        append(&store, &rows(10, 10));
        delete(&store, "id < 3");
        Self { folder, store }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn only(&self, folder: &str) -> String {
        let all = files(&self.store);
        let mut found = all.iter().filter(|path| path.starts_with(folder));
        let first = found.next().unwrap().clone();
        assert_eq!(found.next(), None);
        first
    }

    /// Rewrites the newest manifest, checksums and all.
    fn edit(&self, change: impl FnOnce(&mut ManifestFile)) {
        let snapshot = open(&self.store).snapshot().clone();
        let path = format!(
            "_versions/{}",
            snapshot.naming_scheme().name(snapshot.version())
        );
        let path = self.path(&path);
        let bytes = std::fs::read(&path).unwrap().into();
        let mut file = ManifestFile::decode(&bytes, "the manifest").unwrap();
        change(&mut file);
        std::fs::write(&path, file.encode().unwrap()).unwrap();
    }

    fn verify(&self) -> VerifyReport {
        // A store of its own: nothing may be known from before.
        block_on(open(&local(self.folder.path())).snapshot().verify()).unwrap()
    }

    /// Expects one problem.
    fn expect(&self, check: Check, path: &str, reason: &str) {
        let report = self.verify();
        assert_eq!(report.problems.len(), 1, "{reason}: {:?}", report.problems);
        let problem = &report.problems[0];
        assert!(
            problem.check == check
                && problem.path.starts_with(path)
                && problem.reason.contains(reason),
            "{problem:?} instead of {check:?} {path} {reason}"
        );
    }
}

#[test]
fn a_sound_table_is_sound() {
    for stable_row_ids in [false, true] {
        let table = Table::new(stable_row_ids);
        let report = table.verify();
        assert_eq!(report.problems, []);
        assert_eq!(report.uncovered, []);
        assert_eq!(report.orphans, [""; 0]);
        assert_eq!(
            (report.num_files, report.num_rows, report.version),
            (2, 17, 3)
        );
    }
}

#[test]
fn a_report_is_json_with_stable_names() {
    let table = Table::new(false);
    table.edit(|file| file.manifest.fragments[1].physical_rows = 11);
    std::fs::write(table.path("data/left.lance"), b"").unwrap();
    let report = serde_json::to_value(table.verify()).unwrap();
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    let names = [
        "num_files",
        "num_rows",
        "orphans",
        "problems",
        "uncovered",
        "version",
    ];
    assert_eq!(keys, names);
    assert_eq!(report["problems"][0]["check"], "counts");
    assert_eq!(report["orphans"][0], "data/left.lance");
    for check in [Check::Manifest, Check::RowIds, Check::Counts, Check::Tags] {
        assert_eq!(serde_json::to_value(check).unwrap(), check.name());
    }
}

#[test]
fn a_count_of_rows_that_the_files_do_not_have() {
    let table = Table::new(false);
    table.edit(|file| file.manifest.fragments[1].physical_rows = 9);
    let reason = "holds 10 rows, the manifest says that fragment 1 has 9";
    table.expect(Check::Counts, "data/", reason);
}

#[test]
fn a_count_of_deleted_rows_that_the_file_does_not_have() {
    let table = Table::new(false);
    table.edit(|file| {
        let deletion = file.manifest.fragments[0].deletion.as_mut();
        deletion.unwrap().num_deleted_rows = 4;
    });
    let reason = "the manifest says that 4 rows are deleted, the file names 3";
    table.expect(Check::Counts, "_deletions/", reason);
    // A read needs the file too: it must not count or skip other rows than it shows.
    let table = open(&local(table.folder.path()));
    let scan = table.snapshot().scan(ScanOptions::default()).unwrap();
    let read: Result<Vec<_>, _> =
        runtime().block_on(scan.batches(runtime().handle()).try_collect());
    let error = read.unwrap_err();
    assert_eq!(error.kind(), "corrupt", "{error}");
    assert!(error.to_string().contains(reason), "{error}");
}

#[test]
fn a_size_that_the_file_does_not_have() {
    let table = Table::new(false);
    table.edit(|file| file.manifest.fragments[0].files[0].byte_len += 1);
    table.expect(Check::Counts, "data/", "bytes, the manifest says");
}

#[test]
fn a_deleted_row_that_does_not_exist() {
    for kind in [DeletionFileKind::Arrow, DeletionFileKind::Bitmap] {
        let table = Table::new(false);
        let deleted: RoaringBitmap = [1, 2, 10].into_iter().collect();
        let bytes = encode_deletions(&deleted, kind).unwrap();
        let mut path = String::new();
        table.edit(|file| {
            let fragment = &mut file.manifest.fragments[0];
            let deletion = fragment.deletion.as_mut().unwrap();
            deletion.kind = kind;
            deletion.crc32c = Some(pilum_format::crc32c(&bytes));
            path = deletion.path(fragment.id);
        });
        std::fs::write(table.path(&path), &bytes).unwrap();
        table.expect(
            Check::Deletions,
            &path,
            "row 10 is deleted from a fragment of 10",
        );
    }
}

#[test]
fn a_deletion_file_that_is_damaged_or_gone() {
    let table = Table::new(false);
    let path = table.only("_deletions/");
    let mut bytes = std::fs::read(table.path(&path)).unwrap();
    bytes[100] ^= 1;
    std::fs::write(table.path(&path), &bytes).unwrap();
    table.expect(
        Check::Deletions,
        &path,
        "the deletion file fails its checksum",
    );
    std::fs::remove_file(table.path(&path)).unwrap();
    table.expect(Check::Deletions, &path, "");
}

#[test]
fn a_data_file_that_is_damaged_gone_or_another() {
    let table = Table::new(false);
    let snapshot = open(&table.store);
    let names: Vec<PathBuf> = (0..2)
        .map(|at| table.path(&snapshot.fragments()[at].files[0].full_path()))
        .collect();
    let sound = std::fs::read(&names[0]).unwrap();
    let mut bytes = sound.clone();
    bytes[3] ^= 1;
    std::fs::write(&names[0], &bytes).unwrap();
    table.expect(Check::Pages, "data/", "fail their checksum");
    // The other file is as sound in itself, but it is not the one that was written here.
    std::fs::copy(&names[1], &names[0]).unwrap();
    table.expect(Check::Pages, "data/", "");
    std::fs::remove_file(&names[0]).unwrap();
    table.expect(Check::Pages, "data/", "");
    std::fs::write(&names[0], &sound).unwrap();
    assert_eq!(table.verify().problems, []);
}

#[test]
fn row_ids_that_stand_twice_or_were_never_given_out() {
    let ids = |table: &Table, at: usize, ids: RowIdSequence| {
        table.edit(|file| file.manifest.fragments[at].row_ids = Some(ids.encode()));
    };
    let table = Table::new(true);
    // Rows 0 to 2 of the first fragment are deleted: their ids may live on.
    ids(
        &table,
        1,
        RowIdSequence::from_values(&[0, 1, 2, 13, 14, 15, 16, 17, 18, 19]),
    );
    assert_eq!(table.verify().problems, []);
    ids(&table, 1, RowIdSequence::from_range(5..15));
    let reason = "row id 5 stands twice in the table, and 4 more";
    table.expect(Check::RowIds, "fragment 1", reason);
    ids(&table, 1, RowIdSequence::from_range(11..21));
    table.expect(Check::RowIds, "fragment 1", "row id 20 was never given out");
    ids(&table, 1, RowIdSequence::from_range(10..19));
    table.expect(Check::RowIds, "fragment 1", "");
    table.edit(|file| {
        file.manifest.fragments[1].row_ids = Some(vec![0xff, 1].into());
    });
    table.expect(Check::RowIds, "fragment 1", "");
}

#[test]
fn row_versions_of_the_future_or_of_other_rows() {
    let versions = |table: &Table, versions: RowVersions| {
        table.edit(|file| file.manifest.fragments[0].created_at = Some(versions.encode()));
    };
    let table = Table::new(true);
    versions(&table, RowVersions::uniform(10, 4));
    table.expect(
        Check::RowIds,
        "fragment 0",
        "has rows of version 4, later than version 3",
    );
    versions(&table, RowVersions::uniform(9, 1));
    table.expect(
        Check::RowIds,
        "fragment 0",
        "9 created versions for 10 rows",
    );
}

#[test]
fn flags_that_do_not_say_what_the_fragments_hold() {
    const BOTH: [(u64, &str); 3] = [
        (1, "rows are deleted and no flag says so"),
        (2, "fragments have row ids and no flag says so"),
        (1 << 56, "no flag says so: a peer would misread it"),
    ];
    for (flag, reason) in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let store = local(folder.path());
        // The names have nulls and, with "", what v1 cannot hold.
        let batch = rows(0, 10);
        let nullable = crate::support::batch(vec![(
            arrow_schema::Field::new("id", arrow_schema::DataType::Int64, true),
            std::sync::Arc::new(
                (0..10)
                    .map(|id| (id > 2).then_some(id))
                    .collect::<arrow_array::Int64Array>(),
            ),
        )]);
        create(
            &store,
            if flag == 1 << 56 { &nullable } else { &batch },
            flag == 2,
        );
        if flag == 1 {
            delete(&store, "id < 3");
        }
        let table = Table { folder, store };
        assert_eq!(table.verify().problems, []);
        table.edit(|file| file.manifest.reader_flags &= !flag);
        let path = "_versions/";
        table.expect(Check::Flags, path, reason);
    }
    let table = Table::new(false);
    table.edit(|file| file.manifest.reader_flags |= 1 << 56);
    table.expect(Check::Flags, "_versions/", "is set without need");
}

#[test]
fn a_file_that_needs_the_extension_and_does_not_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = local(folder.path());
    let nullable = crate::support::batch(vec![(
        arrow_schema::Field::new("id", arrow_schema::DataType::Int64, true),
        std::sync::Arc::new(arrow_array::Int64Array::from(vec![Some(1), None])),
    )]);
    create(&store, &nullable, false);
    let table = Table { folder, store };
    table.edit(|file| {
        file.manifest.fragments[0].files[0].needs_extension = false;
        file.manifest.reader_flags = 0;
    });
    table.expect(Check::Flags, "data/", "the manifest does not say so");
}

#[test]
fn ids_of_fragments_fields_and_files_that_do_not_fit() {
    let table = Table::new(false);
    table.edit(|file| file.manifest.max_fragment_id = Some(0));
    let reason = "fragment 1 lies above the highest id ever used, 0";
    table.expect(Check::Ids, "_versions/", reason);

    let table = Table::new(false);
    table.edit(|file| {
        let first = file.manifest.fragments[0].files.clone();
        file.manifest.fragments[1].files = first;
    });
    table.expect(
        Check::Ids,
        "data/",
        "belongs to fragment 0 and to fragment 1",
    );

    let table = Table::new(false);
    table.edit(|file| {
        let mut twice = file.manifest.fragments[0].files[0].clone();
        twice.path = file.manifest.fragments[1].files[0].path.clone();
        file.manifest.fragments[0].files.push(twice);
        file.manifest.fragments.pop();
    });
    let report = table.verify();
    let is_expected = |problem: &pilum_table::Problem| {
        problem.check == Check::Ids && problem.reason.contains("held by two files of a fragment")
    };
    assert!(report.problems.iter().any(is_expected), "{report:?}");

    let table = Table::new(false);
    table.edit(|file| file.manifest.fragments[0].files[0].field_ids = vec![0, 1, 1]);
    let report = table.verify();
    let is_expected = |problem: &pilum_table::Problem| {
        problem.check == Check::Ids && problem.reason.contains("do not ascend")
    };
    assert!(report.problems.iter().any(is_expected), "{report:?}");
}

#[test]
fn a_column_that_the_file_does_not_hold() {
    let table = Table::new(false);
    table.edit(|file| {
        let field = file
            .manifest
            .fields
            .iter_mut()
            .find(|field| field.name == "id");
        field.unwrap().logical_type = "uint64".to_owned();
    });
    let report = table.verify();
    let is_expected = |problem: &pilum_table::Problem| {
        problem.check == Check::Ids
            && problem
                .reason
                .contains("column `id` is uint64 for the table and int64 in the file")
    };
    assert_eq!(
        report.problems.iter().filter(|it| is_expected(it)).count(),
        2,
        "{report:?}"
    );
}

#[test]
fn a_transaction_that_is_damaged_or_another() {
    let table = Table::new(false);
    let path = open(&table.store)
        .snapshot()
        .manifest()
        .transaction_file
        .clone();
    let path = format!("_transactions/{path}");
    let sound = std::fs::read(table.path(&path)).unwrap();
    std::fs::write(table.path(&path), &sound[..sound.len() - 1]).unwrap();
    table.expect(Check::Transaction, &path, "");
    table.edit(|file| {
        file.transaction.as_mut().unwrap().read_version = 1;
    });
    std::fs::write(table.path(&path), &sound).unwrap();
    table.expect(
        Check::Transaction,
        &path,
        "is not the transaction that the manifest holds a copy of",
    );
    // Nobody but a conflict check needs it.
    std::fs::remove_file(table.path(&path)).unwrap();
    assert_eq!(table.verify().problems, []);
}

#[test]
fn other_versions_and_tags_that_cannot_be_opened() {
    let table = Table::new(false);
    block_on(open(&table.store).create_tag("first", Some(1))).unwrap();
    assert_eq!(table.verify().problems, []);
    let scheme = open(&table.store).snapshot().naming_scheme();
    let first = format!("_versions/{}", scheme.name(1));
    let sound = std::fs::read(table.path(&first)).unwrap();
    let mut bytes = sound.clone();
    bytes[20] ^= 1;
    std::fs::write(table.path(&first), bytes).unwrap();
    table.expect(Check::Manifest, &first, "checksum");
    std::fs::remove_file(table.path(&first)).unwrap();
    table.expect(
        Check::Tags,
        "_refs/tags/first.json",
        "names version 1, which does not exist",
    );
    std::fs::write(table.path(&first), sound).unwrap();
    std::fs::write(table.path("_refs/tags/first.json"), b"{").unwrap();
    table.expect(Check::Tags, "_refs/tags/first.json", "no tag");
}

#[test]
fn what_no_version_names_is_listed() {
    let table = Table::new(false);
    let left = [
        "_deletions/0-1-2.arrow",
        "_deletions/0-1-3.bin",
        "_transactions/1-left.txn",
        "_versions/.tmp-left",
        "data/left.lance",
    ];
    for path in left {
        std::fs::write(table.path(path), b"left").unwrap();
    }
    std::fs::write(table.path("data/notes.txt"), b"not ours").unwrap();
    let report = table.verify();
    let mut orphans = report.orphans.clone();
    orphans.sort();
    assert_eq!(orphans, left);
    assert!(report.is_ok());
}

#[test]
fn progress_reaches_all_rows() {
    let table = Table::new(false);
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = std::sync::Arc::clone(&seen);
    let progress: pilum_table::Progress =
        std::sync::Arc::new(move |done, total| told.lock().unwrap().push((done, total)));
    block_on(open(&table.store).snapshot().verify_with(&progress)).unwrap();
    assert_eq!(*seen.lock().unwrap(), [(0, 20), (10, 20), (20, 20)]);
}

#[test]
fn files_without_checksums_are_read_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = local(folder.path());
    let mut options = WriteOptions::default();
    options.compat = Some(Compat::Lance);
    options.layout = FileLayout::pylance();
    let batch = rows(0, 10);
    block_on(write(
        &store,
        reader(std::slice::from_ref(&batch)),
        &options,
    ))
    .unwrap();
    let table = Table { folder, store };
    let report = table.verify();
    assert_eq!(report.problems, []);
    let reason = "no checksums: another library wrote the file";
    assert_eq!(report.uncovered.len(), 1);
    assert_eq!(report.uncovered[0].reason, reason);
    // A wrong minimum is found without them.
    let path = table.path(&table.only("data/"));
    let mut bytes = std::fs::read(&path).unwrap();
    let nine = 9_i64.to_le_bytes();
    let at = bytes.windows(8).rposition(|it| it == nine).unwrap();
    bytes[at] = 8;
    std::fs::write(&path, bytes).unwrap();
    let reason = "a value lies outside of the maximum of the statistics";
    table.expect(Check::Statistics, "data/", reason);
}

/// Tables of the real library are sound, and the report says that nothing covers them.
#[test]
fn tables_of_the_real_library_are_sound_and_uncovered() {
    let mut problems = BTreeMap::new();
    let mut num_tables = 0;
    for entry in std::fs::read_dir(golden()).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            continue;
        }
        let scratch = tempfile::tempdir().unwrap();
        copy(&path.join("dataset.lance"), scratch.path());
        let report = block_on(open(&local(scratch.path())).snapshot().verify()).unwrap();
        let manifests = report
            .uncovered
            .iter()
            .filter(|it| it.path.starts_with("_versions/"));
        assert_eq!(manifests.count(), 1, "{path:?}");
        let data = report
            .uncovered
            .iter()
            .filter(|it| it.path.starts_with("data/"));
        assert_eq!(data.count() as u64, report.num_files, "{path:?}");
        if !report.is_ok() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let texts: Vec<String> = report
                .problems
                .iter()
                .map(|it| format!("{}: {}: {}", it.check.name(), it.path, it.reason))
                .collect();
            problems.insert(name, texts);
        }
        num_tables += 1;
    }
    assert!(num_tables > 50);
    assert_eq!(problems, BTreeMap::new());
}
