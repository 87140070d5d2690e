//! The worked manifests, transactions and small files of `docs/format.md` are what the code writes.

#[path = "../../../file/tests/it/document.rs"]
mod document;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
use chrono::{DateTime, Utc};
use document::{hexdump, hold};
use futures::executor::block_on;
use pilum_format::proto::file::Field;
use pilum_format::{
    DataFile, DeletionFile, DeletionFileKind, Fragment, Manifest, ManifestFile, Operation,
    RowIdSequence, RowVersions, Schema, Tag, Transaction, encode_deletions,
};
use pilum_store::{StorageOptions, Store};
use roaring::RoaringBitmap;

use crate::commit::apply::{Surroundings, apply};
use crate::commit::commit_id;

fn moment() -> DateTime<Utc> {
    "2026-01-02T03:04:05.000000006Z".parse().unwrap()
}

fn fields(column: &str, data_type: DataType) -> Vec<Field> {
    let field = ArrowField::new(column, data_type, true);
    let schema = Schema::from_arrow(&ArrowSchema::new(vec![field]), 0).unwrap();
    schema.to_protos().unwrap()
}

fn fragment(path: &str, rows: u64) -> Fragment {
    Fragment {
        files: vec![DataFile {
            path: path.to_owned(),
            field_ids: vec![0],
            file_version: (0, 2),
            byte_len: 306,
            metadata_crc32c: Some(0x0403_0201),
            needs_extension: false,
        }],
        physical_rows: rows,
        ..Fragment::default()
    }
}

fn created(fields: Vec<Field>, rows: u64) -> Transaction {
    let operation = Operation::Overwrite {
        fragments: vec![fragment("a.lance", rows)],
        fields,
        schema_metadata: BTreeMap::new(),
        config_upserts: BTreeMap::new(),
    };
    Transaction {
        uuid: "00000000-0000-4000-8000-000000000000".to_owned(),
        ..Transaction::new(0, operation)
    }
}

fn next(
    transaction: Transaction,
    current: Option<&Manifest>,
    dictionaries: BTreeMap<i32, ArrayRef>,
    stable_row_ids: bool,
) -> ManifestFile {
    let around = Surroundings {
        dictionaries,
        stable_row_ids,
        now: moment(),
        ..Surroundings::default()
    };
    let manifest = apply(&transaction, current, &around).unwrap();
    ManifestFile {
        manifest,
        transaction: Some(transaction),
    }
}

/// A table with a dictionary and stable row ids, from which a row is deleted.
fn with_everything(deletions: &[u8]) -> ManifestFile {
    let words = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let values: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", ""]));
    let create = created(fields("d", words), 3);
    let first = next(create, None, BTreeMap::from([(0, values)]), true).manifest;
    let mut updated = first.fragments[0].clone();
    updated.deletion = Some(DeletionFile {
        kind: DeletionFileKind::Arrow,
        read_version: 1,
        id: 7,
        num_deleted_rows: 2,
        crc32c: Some(pilum_format::crc32c(deletions)),
    });
    let operation = Operation::Delete {
        updated: vec![updated],
        removed_ids: Vec::new(),
        predicate: "d = 'b'".to_owned(),
    };
    let delete = Transaction {
        uuid: "00000000-0000-4000-8000-000000000001".to_owned(),
        ..Transaction::new(1, operation)
    };
    next(delete, Some(&first), BTreeMap::new(), true)
}

#[test]
fn the_worked_bytes_are_the_written_ones() {
    let rows: RoaringBitmap = [1, 2].into_iter().collect();
    let arrow = encode_deletions(&rows, DeletionFileKind::Arrow).unwrap();
    let spread: RoaringBitmap = [1, 3, 70_000].into_iter().collect();
    let bitmap = encode_deletions(&spread, DeletionFileKind::Bitmap).unwrap();
    hold("hexdump deletions arrow", &hexdump(&arrow));
    hold("hexdump deletions bitmap", &hexdump(&bitmap));

    let transaction = created(fields("a", DataType::Int32), 2);
    hold("hexdump transaction", &hexdump(&transaction.encode()));
    let smallest = next(transaction, None, BTreeMap::new(), false);
    hold("hexdump manifest", &hexdump(&smallest.encode().unwrap()));
    let full = with_everything(&arrow);
    assert_eq!(full.manifest.reader_flags, 1 << 56 | 2 | 1);
    hold("hexdump manifest full", &hexdump(&full.encode().unwrap()));

    let holes: Vec<u64> = [0, 3, 4, 5].into();
    let scattered: Vec<u64> = [9, 2, 70_000].into();
    hold(
        "hexdump row ids range",
        &hexdump(&RowIdSequence::from_range(4..7).encode()),
    );
    hold(
        "hexdump row ids holes",
        &hexdump(&RowIdSequence::from_values(&holes).encode()),
    );
    hold(
        "hexdump row ids array",
        &hexdump(&RowIdSequence::from_values(&scattered).encode()),
    );
    let mut versions = RowVersions::uniform(3, 1);
    versions.extend(&RowVersions::uniform(2, 4));
    hold("hexdump row versions", &hexdump(&versions.encode()));

    let tag = Tag {
        version: 3,
        branch: None,
        created_at: Some(moment()),
        manifest_byte_len: 1527,
    };
    let json = |bytes: &[u8]| format!("{}\n", String::from_utf8(bytes.to_vec()).unwrap());
    hold("text tag", &json(&tag.encode().unwrap()));
    let store = Store::open("memory://format/document", &StorageOptions::new()).unwrap();
    block_on(commit_id::announce(&store, "job 7", 2)).unwrap();
    let path = "_refs/commits/6a6f622037.json";
    let marker = |()| json(&block_on(store.read(path, 4096)).unwrap());
    hold("text marker", &marker(()));
    block_on(commit_id::record_version(&store, "job 7", 3));
    hold("text settled marker", &marker(()));
}
