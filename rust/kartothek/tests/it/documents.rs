//! Documents and schemas of the fixtures: read, written again, compared.

use std::path::PathBuf;

use futures::executor::block_on;
use pilum_kartothek::schema::TableSchema;
use pilum_kartothek::{DatasetMetadata, DocumentForm, Limits, names};
use pilum_store::{StorageOptions, Store};

pub(crate) fn cases() -> Vec<PathBuf> {
    let root = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/fixtures/kartothek"
    );
    let entries = std::fs::read_dir(root)
        .unwrap()
        .map(|it| it.unwrap().path());
    let mut cases: Vec<PathBuf> = entries.filter(|it| it.join("store").is_dir()).collect();
    cases.sort();
    assert_eq!(cases.len(), 20, "fixtures of {root}");
    cases
}

/// UUID and form of each document in a store.
pub(crate) fn documents(case: &std::path::Path) -> Vec<(String, DocumentForm, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(case.join("store")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        for form in [DocumentForm::Json, DocumentForm::MessagePack] {
            if let Some(uuid) = name.strip_suffix(form.suffix()) {
                found.push((uuid.to_owned(), form, std::fs::read(&path).unwrap()));
            }
        }
    }
    found
}

/// The document as a tree of JSON values. User metadata are JSON texts, whose white space MessagePack does not keep, so tests
/// compare trees.
fn json_tree(document: &DatasetMetadata) -> serde_json::Value {
    serde_json::from_slice(&document.to_bytes(DocumentForm::Json).unwrap()).unwrap()
}

#[test]
fn documents_of_kartothek_survive_both_forms() {
    let limits = Limits::default();
    let mut read = 0;
    for case in cases() {
        for (uuid, form, bytes) in documents(&case) {
            let path = case.display().to_string();
            let document = DatasetMetadata::parse(&bytes, form, &path, &uuid, &limits).unwrap();
            assert!(document.others.is_empty());
            for form in [DocumentForm::Json, DocumentForm::MessagePack] {
                let again = document.to_bytes(form).unwrap();
                let again = DatasetMetadata::parse(&again, form, &path, &uuid, &limits).unwrap();
                assert_eq!(json_tree(&again), json_tree(&document), "{path}");
            }
            for (label, partition) in document.partitions.iter().flatten() {
                for (table, key) in partition.files.iter() {
                    names::check_key(key).unwrap();
                    assert_eq!(&names::data_key(&uuid, table, label), key);
                    let parts = names::KeyParts::of(key).unwrap();
                    let columns: Vec<String> = parts.keys.into_iter().map(|(it, _)| it).collect();
                    assert_eq!(Some(columns), document.partition_keys.clone(), "{key}");
                }
            }
            read += 1;
        }
    }
    assert!(read >= 21, "{read} documents");
}

#[test]
fn schemas_of_kartothek_are_their_own_normal_form() {
    let limits = Limits::default();
    for case in cases() {
        let store = case.join("store");
        let opened = Store::open(store.to_str().unwrap(), &StorageOptions::new()).unwrap();
        for (uuid, form, bytes) in documents(&case) {
            let document = DatasetMetadata::parse(&bytes, form, "p", &uuid, &limits).unwrap();
            for table in document.tables() {
                let read = TableSchema::read(&opened, &uuid, &table, &limits);
                let read = block_on(read).unwrap();
                assert!(read.pandas().is_some(), "{}", read.source());
                let keys = document.partition_keys.clone().unwrap_or_default();
                let normal = pilum_kartothek::schema::normalized(read.schema(), &keys).unwrap();
                let names = |it: &arrow_schema::Schema| {
                    let fields = it.fields().iter();
                    fields.map(|it| it.name().clone()).collect::<Vec<_>>()
                };
                assert_eq!(names(&normal), names(read.schema()), "{}", read.source());
                pilum_kartothek::schema::check_compatible(
                    &table,
                    &[&read, &TableSchema::of_arrow(&normal, "normal").unwrap()],
                )
                .unwrap();
            }
        }
    }
}
