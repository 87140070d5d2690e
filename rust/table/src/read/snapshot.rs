//! A snapshot: one version of a table, pinned. Reads and writes start from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use pilum_format::Dictionaries;
use pilum_format::{
    Fragment, Manifest, ManifestFile, NamingScheme, RowIdSequence, Schema, Transaction,
};
use pilum_store::Store;

use crate::error::{Error, Result};
use crate::read::context::ReadContext;
use crate::read::event;
use crate::versions::log as versions;

/// One version of a table. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Snapshot {
    store: Store,
    manifest: Arc<Manifest>,
    schema: Arc<Schema>,
    transaction: Option<Arc<Transaction>>,
    scheme: NamingScheme,
    manifest_byte_len: u64,
    num_rows: u64,
    /// Shared by all reads of this version.
    context: Arc<ReadContext>,
}

impl Snapshot {
    /// The newest version: one listing and one read.
    ///
    /// # Errors
    /// `NotFound` without a table, `Corrupt` for a damaged manifest, `Unsupported` for a table of a later format.
    pub async fn newest(store: &Store) -> Result<Self> {
        match Self::try_newest(store).await? {
            Some(snapshot) => Ok(snapshot),
            None => Err(versions::no_table(store).await),
        }
    }

    /// The newest version; `None` if there is no table.
    ///
    /// # Errors
    /// As [`newest`](Self::newest).
    pub async fn try_newest(store: &Store) -> Result<Option<Self>> {
        // A version may be cleaned up between the listing and the read: then there is a newer one.
        for _ in 0..3 {
            let Some((scheme, version)) = versions::newest(store).await? else {
                return Ok(None);
            };
            if let Some((file, len)) = versions::read_manifest(store, scheme, version).await? {
                return Self::new(store, file, scheme, len).await.map(Some);
            }
        }
        Err(Error::corrupt("its newest manifest is listed and cannot be found").at(store.uri()))
    }

    /// A version by number.
    ///
    /// # Errors
    /// `NotFound` when it does not exist or was cleaned up; otherwise as [`newest`](Self::newest).
    pub async fn at_version(store: &Store, version: u64) -> Result<Self> {
        for scheme in [NamingScheme::V2, NamingScheme::V1] {
            if version == 0 || version >= 1 << 63 {
                break;
            }
            if let Some((file, len)) = versions::read_manifest(store, scheme, version).await? {
                return Self::new(store, file, scheme, len).await;
            }
        }
        let Some((_, versions)) = versions::all(store).await? else {
            return Err(versions::no_table(store).await);
        };
        let (first, last) = (versions.first().copied(), versions.last().copied());
        Err(Error::NotFound {
            what: format!("version {version} of {}", store.uri()),
            hint: format!(
                "there are {} versions from {} to {}; older ones may have been cleaned up",
                versions.len(),
                first.unwrap_or_default(),
                last.unwrap_or_default()
            ),
        })
    }

    /// # Errors
    /// `Corrupt` for a schema or counts that cannot be; when a file whose counts the manifest leaves out cannot be read.
    pub(crate) async fn new(
        store: &Store,
        file: ManifestFile,
        scheme: NamingScheme,
        manifest_byte_len: u64,
    ) -> Result<Self> {
        let ManifestFile {
            mut manifest,
            transaction,
        } = file;
        let place = format!(
            "{}/{}",
            store.uri(),
            versions::manifest_path(scheme, manifest.version)
        );
        let metadata: BTreeMap<String, Vec<u8>> = manifest
            .schema_metadata
            .iter()
            .map(|(k, v)| (k.clone(), v.to_vec()))
            .collect();
        let schema = Schema::from_protos(&place, &manifest.fields, &metadata)?;
        let dictionaries = Arc::new(manifest.dictionaries.clone());
        let context = Arc::new(ReadContext::new(
            store.clone(),
            dictionaries,
            true,
            &manifest.fragments,
        ));
        fill_counts(&context, &mut manifest).await?;
        let num_rows = manifest.fragments.iter().map(live_rows).sum();
        tracing::debug!(
            target: event::READ,
            uri = store.uri(),
            version = manifest.version,
            fragments = manifest.fragments.len(),
            rows = num_rows,
            bytes = manifest_byte_len,
            "opened a version"
        );
        Ok(Self {
            store: store.clone(),
            manifest: Arc::new(manifest),
            schema: Arc::new(schema),
            transaction: transaction.map(Arc::new),
            scheme,
            manifest_byte_len,
            num_rows,
            context,
        })
    }

    /// The same version, read with or without comparing checksums.
    #[must_use]
    pub fn with_verification(mut self, verifies_checksums: bool) -> Self {
        if verifies_checksums != self.context.verify {
            let dictionaries = Arc::clone(&self.context.dictionaries);
            let context = ReadContext::new(
                self.store.clone(),
                dictionaries,
                verifies_checksums,
                self.fragments(),
            );
            self.context = Arc::new(context.sharing(&self.context));
        }
        self
    }

    /// The same version with the cache of another version of the same table.
    pub(crate) fn sharing(mut self, other: &Self) -> Self {
        let context = ReadContext::new(
            self.store.clone(),
            Arc::clone(&self.context.dictionaries),
            self.context.verify,
            self.fragments(),
        );
        self.context = Arc::new(context.sharing(&other.context));
        self
    }

    /// Where the table is.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The table's address, without secrets.
    #[must_use]
    pub fn uri(&self) -> &str {
        self.store.uri()
    }

    /// The version's number.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.manifest.version
    }

    /// Everything about the version.
    #[must_use]
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// The schema, with field ids.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The dictionary values of the table's columns: the same for all fragments.
    #[must_use]
    pub fn dictionaries(&self) -> &Dictionaries {
        &self.manifest.dictionaries
    }

    /// The fragments, ascending by id.
    #[must_use]
    pub fn fragments(&self) -> &[Fragment] {
        &self.manifest.fragments
    }

    /// Live rows. No request is made: the counts of all fragments are known since the version was opened.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.num_rows
    }

    /// How the table names its manifests.
    #[must_use]
    pub fn naming_scheme(&self) -> NamingScheme {
        self.scheme
    }

    /// Size of the manifest file.
    #[must_use]
    pub(crate) fn manifest_byte_len(&self) -> u64 {
        self.manifest_byte_len
    }

    /// Whether reads compare checksums.
    #[must_use]
    pub fn verifies_checksums(&self) -> bool {
        self.context.verify
    }

    /// What all reads of this version share.
    pub(crate) fn read_context(&self) -> &Arc<ReadContext> {
        &self.context
    }

    /// The copy of the transaction that the manifest holds.
    pub(crate) fn inline_transaction(&self) -> Option<&Arc<Transaction>> {
        self.transaction.as_ref()
    }

    /// The transaction that made the version: the copy in the manifest, or its own file. `None` if neither is there.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub async fn transaction(&self) -> Result<Option<Arc<Transaction>>> {
        if let Some(transaction) = &self.transaction {
            return Ok(Some(Arc::clone(transaction)));
        }
        let name = &self.manifest.transaction_file;
        Ok(versions::read_transaction(&self.store, name)
            .await?
            .map(Arc::new))
    }
}

/// Live rows of a fragment of an open version, whose counts [`fill_counts`] has looked up: here 0 rows are no rows.
pub(crate) fn live_rows(fragment: &Fragment) -> u64 {
    let deletion = fragment.deletion.as_ref();
    let num_deleted = deletion.map_or(0, |deletion| deletion.num_deleted_rows);
    fragment.physical_rows.saturating_sub(num_deleted)
}

/// Looks up the counts that old writers left out or got wrong: manifests without the name of their writer are from that time.
/// Leaves out fragments without a live row.
async fn fill_counts(context: &ReadContext, manifest: &mut Manifest) -> Result<()> {
    let untrusted = manifest.writer.is_none();
    for fragment in &mut manifest.fragments {
        if untrusted {
            fragment.physical_rows = 0;
        }
        fragment.physical_rows = context.physical_rows(fragment).await?;
        let unknown = fragment
            .deletion
            .as_ref()
            .is_some_and(|it| it.num_deleted_rows == 0);
        if fragment.deletion.is_some() && (unknown || untrusted) {
            let deleted = context
                .deleted(fragment)
                .await?
                .map_or(0, |rows| rows.len());
            // A deletion file without any offset deletes nothing: the version does without it.
            fragment.deletion = fragment.deletion.take().filter(|_| deleted > 0);
            if let Some(deletion) = &mut fragment.deletion {
                deletion.num_deleted_rows = deleted;
            }
        }
        let deleted = fragment
            .deletion
            .as_ref()
            .map_or(0, |deletion| deletion.num_deleted_rows);
        if deleted > fragment.physical_rows {
            return Err(Error::corrupt(format!(
                "{deleted} of {} rows of fragment {} are deleted",
                fragment.physical_rows, fragment.id
            ))
            .at(context.store.uri()));
        }
    }
    // Some writers leave fragments without a live row in a version. They hold nothing that a reader could see, and the next
    // commit drops them; their ids stay taken.
    if manifest.fragments.iter().any(is_empty) {
        manifest.max_fragment_id = manifest
            .highest_fragment_id()
            .and_then(|id| u32::try_from(id).ok());
        manifest.fragments.retain(|fragment| !is_empty(fragment));
    }
    Ok(())
}

/// Whether a fragment has no live row. A fragment with damaged row ids counts as not empty: a read of it then reports the damage.
fn is_empty(fragment: &Fragment) -> bool {
    let ids_fit = |ids: &Bytes| {
        RowIdSequence::decode(ids).is_ok_and(|ids| ids.len() == fragment.physical_rows)
    };
    live_rows(fragment) == 0 && fragment.row_ids.as_ref().is_none_or(ids_fit)
}
