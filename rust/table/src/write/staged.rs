//! Staged fragments: data files that one process wrote and no version names, and their bytes for another process to commit.
//!
//! The bytes are those of a manifest that is not published: schema, dictionaries and fragments, with the checksums and the
//! checks of a manifest.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use pilum_format::{DataFile, Fragment, Manifest, ManifestFile, Schema, WRITER_LIBRARY};
use pilum_store::Store;

use crate::error::{Error, Result};
use crate::versions::durable_put::remove_files;

/// What errors call the bytes.
const STAGED: &str = "written fragments";

/// Data files that no version names yet.
#[derive(Debug, Clone)]
pub struct StagedFragments {
    /// Without ids: the commit assigns them.
    pub fragments: Vec<Fragment>,
    /// The schema that they were written with.
    pub schema: Arc<Schema>,
    /// Values of the dictionary columns, by field id.
    pub dictionaries: BTreeMap<i32, ArrayRef>,
    /// A version that is older than the files, so that it names none of them; 0 if none is known.
    pub read_version: u64,
    /// Rows in the files.
    pub num_rows: u64,
    /// Bytes of the files.
    pub num_bytes: u64,
}

impl StagedFragments {
    /// Paths of the data files, below the table's root.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let files = self.fragments.iter().flat_map(|fragment| &fragment.files);
        files.map(DataFile::full_path).collect()
    }

    /// Removes the data files: for a write that is abandoned before its commit.
    pub async fn discard(&self, store: &Store) {
        remove_files(store, &self.paths()).await;
    }

    /// The bytes with which another process commits the fragments.
    ///
    /// # Errors
    /// `CommonError::Unsupported` for a schema that no manifest can hold.
    pub fn encode(&self) -> Result<Bytes> {
        let metadata = self.schema.metadata_protos().into_iter();
        let numbered = (0..).zip(&self.fragments).map(|(id, fragment)| Fragment {
            id,
            ..fragment.clone()
        });
        let manifest = Manifest {
            version: self.read_version.saturating_add(1),
            fields: self.schema.to_protos()?,
            schema_metadata: metadata.map(|(key, value)| (key, value.into())).collect(),
            dictionaries: self.dictionaries.clone(),
            fragments: numbered.collect(),
            writer: Some((
                WRITER_LIBRARY.to_owned(),
                env!("CARGO_PKG_VERSION").to_owned(),
            )),
            ..Manifest::empty(DateTime::<Utc>::UNIX_EPOCH)
        };
        let transaction = None;
        let file = ManifestFile {
            manifest,
            transaction,
        };
        Ok(file.encode()?)
    }

    /// Reads what [`encode`](Self::encode) returned.
    ///
    /// # Errors
    /// `CommonError::Corrupt` for other bytes.
    pub fn decode(bytes: impl Into<Bytes>) -> Result<Self> {
        let manifest = ManifestFile::decode(&bytes.into(), STAGED)?.manifest;
        let other = |reason: &str| Error::corrupt(reason).at(STAGED);
        if !manifest.is_checksummed {
            return Err(other(
                "they have no checksum, or are the manifest of a version",
            ));
        }
        let is_new = |fragment: &Fragment| {
            fragment.files.len() == 1 && fragment.deletion.is_none() && fragment.physical_rows > 0
        };
        if !manifest.fragments.iter().all(is_new) {
            return Err(other(
                "they have a fragment that is part of a version already",
            ));
        }
        let metadata = manifest.schema_metadata.into_iter();
        let metadata = metadata.map(|(key, value)| (key, value.to_vec())).collect();
        let schema = Schema::from_protos(STAGED, &manifest.fields, &metadata)?;
        let (mut num_rows, mut num_bytes) = (0_u64, 0_u64);
        for fragment in &manifest.fragments {
            num_rows = num_rows.saturating_add(fragment.physical_rows);
            let sizes = fragment.files.iter().map(|file| file.byte_len);
            num_bytes = sizes.fold(num_bytes, u64::saturating_add);
        }
        Ok(Self {
            num_rows,
            num_bytes,
            schema: Arc::new(schema),
            dictionaries: manifest.dictionaries,
            read_version: manifest.version.saturating_sub(1),
            fragments: manifest
                .fragments
                .into_iter()
                .map(|fragment| Fragment { id: 0, ..fragment })
                .collect(),
        })
    }
}
