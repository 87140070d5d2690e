//! Manifests are written and read back; damaged and foreign ones are refused or read as documented.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use chrono::DateTime;
use proptest::prelude::*;

use super::*;
use crate::compat::Compat;
use crate::fragment::{DataFile, DeletionFile, DeletionFileKind, Fragment};
use crate::proto::file::Field;
use crate::transaction::Operation;

fn fragment() -> impl Strategy<Value = Fragment> {
    let deletion = (any::<bool>(), any::<u64>(), 1u64..9, any::<Option<u32>>()).prop_map(
        |(is_arrow, id, num_deleted_rows, crc32c)| DeletionFile {
            kind: if is_arrow {
                DeletionFileKind::Arrow
            } else {
                DeletionFileKind::Bitmap
            },
            read_version: 7,
            id,
            num_deleted_rows,
            crc32c,
        },
    );
    let file = (
        "[a-z]{1,9}",
        any::<Option<u32>>(),
        any::<bool>(),
        any::<u64>(),
    )
        .prop_map(
            |(name, metadata_crc32c, needs_extension, byte_len)| DataFile {
                path: format!("{name}.lance"),
                field_ids: vec![-2, 0, 1],
                file_version: (0, 2),
                byte_len,
                metadata_crc32c,
                needs_extension,
            },
        );
    let bytes = || proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9));
    (
        proptest::collection::vec(file, 0..3),
        proptest::option::of(deletion),
        0u64..1 << 32,
        bytes(),
        bytes(),
    )
        .prop_map(
            |(files, deletion, physical_rows, row_ids, created_at)| Fragment {
                id: 0,
                files,
                deletion,
                physical_rows,
                row_ids: row_ids.map(Bytes::from),
                last_updated_at: None,
                created_at: created_at.map(Bytes::from),
            },
        )
}

fn words() -> impl Strategy<Value = BTreeMap<String, String>> {
    proptest::collection::btree_map(".{0,5}", ".{0,5}", 0..4)
}

prop_compose! {
    fn manifest()(
        version in 1u64..1 << 63,
        (seconds, nanos) in (-1_000_000_000_000i64..1_000_000_000_000, 0u32..1_000_000_000),
        fragments in proptest::collection::vec(fragment(), 0..5),
        (config, table_metadata, schema_metadata) in (words(), words(), words()),
        max_fragment_id in any::<Option<u32>>(),
        (next_row_id, kept_flags) in (any::<u64>(), any::<u64>()),
        values in proptest::option::of(proptest::collection::vec(proptest::option::of(".{0,3}"), 0..5)),
        recorded_compat in prop::sample::select(vec![None, Some(Compat::Lossless), Some(Compat::Lance)]),
        index_section in proptest::option::of(proptest::collection::vec(any::<u8>(), 1..9)),
        (branch, is_named) in (any::<Option<String>>(), any::<bool>()),
    ) -> Manifest {
        let mut manifest = Manifest::empty(DateTime::from_timestamp(seconds, nanos).unwrap());
        manifest.version = version;
        let dictionary = "dict:string:int8:false".to_owned();
        manifest.fields = vec![
            Field { name: "a".into(), logical_type: dictionary, nullable: true, ..Field::default() },
            Field { name: "b".into(), id: 1, logical_type: "int8".into(), ..Field::default() },
        ];
        if let Some(values) = values {
            manifest.dictionaries.insert(0, Arc::new(StringArray::from(values)) as ArrayRef);
        }
        manifest.fragments = (0u64..).zip(fragments).map(|(id, it)| Fragment { id, ..it }).collect();
        manifest.max_fragment_id = max_fragment_id;
        manifest.next_row_id = next_row_id;
        manifest.writer_flags = kept_flags;
        manifest.config = config;
        manifest.recorded_compat = recorded_compat;
        manifest.table_metadata = table_metadata;
        manifest.schema_metadata = schema_metadata.into_iter().map(|(k, v)| (k, v.into())).collect();
        manifest.index_section = index_section.map(Bytes::from);
        manifest.branch = branch;
        manifest.writer = is_named.then(|| ("pilum".to_owned(), "1.2.3".to_owned()));
        manifest.is_checksummed = true;
        manifest
    }
}

proptest! {
    #[test]
    fn a_manifest_comes_back_as_it_was(manifest in manifest(), has_transaction in any::<bool>()) {
        let operation = Operation::Append { fragments: manifest.fragments.clone() };
        let transaction = has_transaction.then(|| Transaction::new(manifest.version - 1, operation));
        let file = ManifestFile { manifest, transaction };
        let bytes = file.encode().unwrap();
        prop_assert_eq!(ManifestFile::decode(&bytes, "m").unwrap(), file);
    }

    /// Without our checksums nothing stands between damage and the decoder.
    #[test]
    fn damage_of_a_foreign_manifest_never_panics(
        manifest in manifest(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in 0usize..20,
    ) {
        let mut out = Vec::new();
        let mut message = manifest.to_message();
        for field in &mut message.fields {
            let Some(values) = manifest.dictionaries.get(&field.id) else { continue };
            let encoded = encode_dictionary(values, out.len() as u64).unwrap();
            out.extend_from_slice(&encoded.bytes);
            field.dictionary = Some(encoded.position.into());
        }
        let position = wire::put_prefixed(&mut out, &message.encode_to_vec(), "m").unwrap();
        out.extend_from_slice(&position.to_le_bytes());
        out.extend_from_slice(b"\0\0\x02\0LANC");
        for (at, value) in flips {
            let at = at.index(out.len());
            out[at] ^= value;
        }
        out.truncate(out.len() - cut.min(out.len()) / 2);
        if let Ok(file) = ManifestFile::decode(&out.into(), "m") {
            for fragment in &file.manifest.fragments {
                let _ = (fragment.row_ids(), fragment.created_at(), fragment.num_rows());
            }
        }
    }
}
