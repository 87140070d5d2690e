//! [`DatasetWriter`]: everything that changes a dataset.

use std::collections::{BTreeMap, BTreeSet};

use arrow_schema::SchemaRef;
use chrono::{DateTime, Utc};
use pilum_store::{Durability, StorageOptions, Store};

use crate::commit::{Committed, commit};
use crate::error::Result;
use crate::garbage_collect::{Garbage, Retention, collect, copy, delete};
use crate::history::{Version, marker_key};
use crate::index_build::BuildIndices;
use crate::json_text::JsonText;
use crate::limits::Limits;
use crate::metadata::DatasetMetadata;
use crate::names::{check_uuid, new_label};
use crate::restore::{Restore, open_version, version_at, versions};
use crate::scope::{DeleteScope, in_scope};
use crate::state::{Place, load};
use crate::update::{PendingUpdate, Update, check_columns, partition_keys};
use crate::write::{Frame, Layout, StagedPartition, remove_files, stage_frame};

/// A dataset, which need not exist yet, and what changes it. Each change is one commit: it happens completely or not at all,
/// survives a power failure once it is acknowledged, and is applied again to the newest state if another writer was faster.
///
/// A writer keeps the document that it read or committed last. While it lives, [`Dataset::open`](crate::Dataset::open) of the
/// same document does not parse it again.
#[derive(Debug, Clone)]
pub struct DatasetWriter {
    place: Place,
}

/// The columns of a dataset, as new rows have to follow them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LayoutOfDataset {
    /// Partition keys, in order.
    pub partition_keys: Vec<String>,
    /// Columns with a secondary index.
    pub indices: Vec<String>,
    /// The schema of each table.
    pub schemas: BTreeMap<String, SchemaRef>,
}

impl DatasetWriter {
    /// A writer for the dataset `uuid` of a store. Sends no request to the store.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` if `uuid` is not a valid name of a dataset; [`Error::Store`](crate::Error::Store) if
    /// `store_uri` is not the address of a store.
    pub fn open(store_uri: &str, storage: &StorageOptions, uuid: &str) -> Result<Self> {
        Self::new(Store::open(store_uri, storage)?, uuid)
    }

    /// The dataset `uuid` of an open store.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn new(store: Store, uuid: &str) -> Result<Self> {
        check_uuid(uuid)?;
        Ok(Self {
            place: Place::new(store.with_literal_paths(), uuid, Limits::default()),
        })
    }

    /// The store of the dataset.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.place.store
    }

    /// A name for a write, under which garbage collection spares its files until it is committed or given up.
    #[must_use]
    pub fn new_marker() -> String {
        new_label()
    }

    /// What new rows have to follow. None if there is no dataset.
    ///
    /// # Errors
    /// The errors of reading the document and the schemas.
    pub async fn layout(&self) -> Result<Option<LayoutOfDataset>> {
        let Some(state) = load(&self.place).await? else {
            return Ok(None);
        };
        let schemas = state
            .schemas
            .iter()
            .map(|(table, it)| (table.clone(), SchemaRef::clone(it.schema.schema())));
        Ok(Some(LayoutOfDataset {
            partition_keys: partition_keys(&state.document)?,
            indices: state.document.indices.keys().cloned().collect(),
            schemas: schemas.collect(),
        }))
    }

    /// Writes the files of one frame. Nothing refers to them before a commit does.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` and `CommonError::Unsupported` for rows that
    /// Kartothek could not read, with the column; the errors of the store. Files that the call wrote are removed.
    pub async fn stage(
        &self,
        frame: Frame,
        layout: &Layout,
        marker: &str,
    ) -> Result<Vec<StagedPartition>> {
        stage_frame(&self.place.store, &self.place.uuid, frame, layout, marker).await
    }

    /// Checks that the columns of written partitions are those of the dataset, without committing them.
    ///
    /// # Errors
    /// [`Error::Schema`](crate::Error::Schema) with each difference.
    pub async fn check(&self, staged: &[StagedPartition]) -> Result<()> {
        check_columns(&self.place, staged).await
    }

    /// Removes the files of partitions that are not committed.
    pub async fn discard(&self, staged: &[StagedPartition]) {
        let mut keys = Vec::new();
        for partition in staged {
            keys.extend(partition.files.values().cloned());
        }
        remove_files(&self.place.store, &keys).await;
        self.end_writes(staged).await;
    }

    /// The labels of the partitions that a scope means now, for [`Update::removed`].
    ///
    /// # Errors
    /// `CommonError::InvalidInput` for a scope without a column, with a column that is no key and has no
    /// index, or with a value of another type.
    pub async fn in_scope(&self, scope: &DeleteScope) -> Result<BTreeSet<String>> {
        in_scope(&self.place, scope).await
    }

    /// Adds and removes partitions in one commit.
    ///
    /// # Errors
    /// [`Error::Schema`](crate::Error::Schema) for rows that do not fit, [`Error::Conflict`](crate::Error::Conflict) if another
    /// writer removed a partition that this update removes. The files of the new partitions stay.
    pub async fn update(&self, update: Update) -> Result<Committed> {
        let staged = update.added.clone();
        let done = commit(&self.place, &mut PendingUpdate::new(update)).await?;
        self.end_writes(&staged).await;
        Ok(done)
    }

    /// Builds indices of what is there, or builds them again.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` for a column that cannot have an index; the errors of reading.
    pub async fn build_indices(&self, columns: Vec<String>) -> Result<Committed> {
        commit(&self.place, &mut BuildIndices::of(columns)).await
    }

    /// The states that can be opened, oldest first.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) without a dataset.
    pub async fn versions(&self) -> Result<Vec<Version>> {
        versions(&self.place).await
    }

    /// The newest version that is not after a time.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) if all are newer.
    pub async fn version_at(&self, time: DateTime<Utc>) -> Result<Version> {
        version_at(&self.place, time).await
    }

    /// The document of a version, and the schemas of its tables.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) for a version that is not kept.
    pub async fn open_version(
        &self,
        version: u64,
    ) -> Result<(DatasetMetadata, BTreeMap<String, SchemaRef>)> {
        open_version(&self.place, version).await
    }

    /// Makes an earlier version the newest.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) for a version that is not kept, or one of whose files is gone.
    pub async fn restore(&self, version: u64) -> Result<Committed> {
        commit(&self.place, &mut Restore(version)).await
    }

    /// Removes files that nothing refers to.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn collect_garbage(&self, retention: &Retention) -> Result<Garbage> {
        collect(&self.place, retention).await
    }

    /// Removes the dataset with all its files and versions. Returns the keys.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) without a dataset; the errors of the store.
    pub async fn delete(&self) -> Result<Vec<String>> {
        delete(&self.place).await
    }

    /// Copies the newest state to a dataset that does not exist.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`](crate::Error::AlreadyExists) if it does; the errors of the stores.
    pub async fn copy_to(
        &self,
        target: &Self,
        user: &BTreeMap<String, JsonText>,
    ) -> Result<DatasetMetadata> {
        copy(&self.place, &target.place, user).await
    }

    /// Removes the markers of writes that ended.
    async fn end_writes(&self, staged: &[StagedPartition]) {
        let mut markers = Vec::new();
        for partition in staged.iter().filter(|it| !it.files.is_empty()) {
            let key = marker_key(&self.place.uuid, &partition.marker);
            if markers.last() != Some(&key) {
                markers.push(key);
            }
        }
        let store = self.place.store.clone().with_durability(Durability::None);
        remove_files(&store, &markers).await;
    }
}
