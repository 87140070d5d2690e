//! [`Dataset`]: a table at an address, looked at in one of its versions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatchReader;
use chrono::{DateTime, Utc};
use futures::stream::{StreamExt, TryStreamExt};
use pilum_format::paths::TAGS;
use pilum_format::{Fragment, Manifest, NamingScheme, Operation, Tag, Transaction, tag_path};
use pilum_store::{StorageOptions, Store};

use crate::commit::{CommitOptions, Committed, commit};
use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;
use crate::versions::log as versions;
use crate::versions::tags::{all_tags, read_tag};
use crate::write::{WriteMode, WriteOptions, Written, write};

/// Manifests read at once while versions are listed.
const CONCURRENT_READS: usize = 16;
/// Summaries kept by a handle; a history beyond that is read again.
const MAX_SUMMARIES: usize = 10_000;

/// Which version of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum VersionRef {
    /// The newest one.
    #[default]
    Latest,
    /// By its number.
    Number(u64),
    /// By a name that was given to it.
    Tag(String),
    /// The newest one that is not after a time.
    AsOf(DateTime<Utc>),
}

/// One line of a table's history.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionSummary {
    /// The number.
    pub version: u64,
    /// When it was committed.
    pub timestamp: DateTime<Utc>,
    /// What was done; `None` if the transaction is gone.
    pub operation: Option<&'static str>,
    /// The words of who did it.
    pub properties: BTreeMap<String, String>,
    /// Live rows; `None` where a very old writer did not say.
    pub num_rows: Option<u64>,
}

impl VersionSummary {
    fn of(manifest: &Manifest, transaction: Option<&Transaction>) -> Self {
        Self {
            version: manifest.version,
            timestamp: manifest.timestamp,
            operation: transaction.map(|it| it.operation.name()),
            num_rows: manifest.num_rows().filter(|_| manifest.writer.is_some()),
            properties: transaction
                .map(|it| it.properties.clone())
                .unwrap_or_default(),
        }
    }
}

/// A table, in one of its versions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Dataset {
    snapshot: Snapshot,
    /// Versions never change, so a summary is read once. Taken with `try_lock` only: after a fork nobody waits
    /// for a thread that is not there.
    summaries: Arc<Mutex<BTreeMap<u64, VersionSummary>>>,
}

impl From<Snapshot> for Dataset {
    fn from(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            summaries: Arc::default(),
        }
    }
}

impl Dataset {
    /// Opens the table at `uri`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no table, version or tag; `CommonError::Unsupported` if it is not a version 1
    /// table, or uses features that pilum does not know.
    pub async fn open(uri: &str, version: &VersionRef, options: &StorageOptions) -> Result<Self> {
        Self::open_in(&Store::open(uri, options)?, version).await
    }

    /// Opens the table in `store`.
    ///
    /// # Errors
    /// As [`Dataset::open`].
    pub async fn open_in(store: &Store, version: &VersionRef) -> Result<Self> {
        Ok(find(store, version).await?.into())
    }

    /// Writes rows to the table at `uri` and gives the new version.
    ///
    /// # Errors
    /// As [`write()`](crate::write()).
    pub async fn write(
        uri: &str,
        batches: impl RecordBatchReader,
        options: &WriteOptions,
        storage: &StorageOptions,
    ) -> Result<Written> {
        write(&Store::open(uri, storage)?, batches, options).await
    }

    /// The same table, read with or without comparing checksums.
    #[must_use]
    pub fn with_verification(mut self, verifies_checksums: bool) -> Self {
        self.snapshot = self.snapshot.with_verification(verifies_checksums);
        self
    }

    /// The version that this handle looks at.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The store of the table.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.snapshot.store()
    }

    /// The address, without secrets.
    #[must_use]
    pub fn uri(&self) -> &str {
        self.snapshot.uri()
    }

    /// The number of this version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.snapshot.version()
    }

    /// Live rows of this version, without a request.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.snapshot.num_rows()
    }

    /// The fragments of this version.
    #[must_use]
    pub fn fragments(&self) -> &[Fragment] {
        self.snapshot.fragments()
    }

    /// The number of the newest version, which may be newer than this one.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the table is gone.
    pub async fn latest_version(&self) -> Result<u64> {
        match versions::newest(self.store()).await? {
            Some((_, version)) => Ok(version),
            None => Err(versions::no_table(self.store()).await),
        }
    }

    /// Another version of the same table.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such version or tag.
    pub async fn checkout(&self, version: &VersionRef) -> Result<Self> {
        let snapshot = find(self.store(), version).await?;
        let snapshot = snapshot
            .with_verification(self.snapshot.verifies_checksums())
            .sharing(&self.snapshot);
        Ok(Self {
            snapshot,
            summaries: Arc::clone(&self.summaries),
        })
    }

    /// All versions that are left, ascending.
    ///
    /// # Errors
    /// When a manifest cannot be read.
    pub async fn versions(&self) -> Result<Vec<VersionSummary>> {
        let Some((scheme, versions)) = versions::all(self.store()).await? else {
            return Err(versions::no_table(self.store()).await);
        };
        let known = self
            .summaries
            .try_lock()
            .map(|known| known.clone())
            .unwrap_or_default();
        let read = versions.into_iter().map(|version| {
            let known = known.get(&version).cloned();
            async move {
                match known {
                    Some(known) => Ok(Some(known)),
                    None => summary(self.store(), scheme, version).await,
                }
            }
        });
        let read = futures::stream::iter(read).buffered(CONCURRENT_READS);
        // A version may be cleaned up while the list is made.
        let summaries: Vec<VersionSummary> = read
            .try_filter_map(|it| async { Ok(it) })
            .try_collect()
            .await?;
        if summaries.len() <= MAX_SUMMARIES
            && let Ok(mut known) = self.summaries.try_lock()
        {
            *known = summaries
                .iter()
                .map(|it| (it.version, it.clone()))
                .collect();
        }
        Ok(summaries)
    }

    /// The line of this version in the history.
    ///
    /// # Errors
    /// When its transaction cannot be read.
    pub async fn summary(&self) -> Result<VersionSummary> {
        let manifest = self.snapshot.manifest();
        let transaction = self.snapshot.transaction().await?;
        Ok(VersionSummary::of(manifest, transaction.as_deref()))
    }

    /// Adds rows and gives the new version.
    ///
    /// # Errors
    /// As [`write()`](crate::write()).
    pub async fn append(
        &self,
        batches: impl RecordBatchReader,
        options: &WriteOptions,
    ) -> Result<Written> {
        let options = WriteOptions {
            mode: WriteMode::Append,
            must_exist: true,
            ..options.clone()
        };
        write(self.store(), batches, &options).await
    }

    /// Replaces rows and schema and gives the new version.
    ///
    /// # Errors
    /// As [`write()`](crate::write()).
    pub async fn overwrite(
        &self,
        batches: impl RecordBatchReader,
        options: &WriteOptions,
    ) -> Result<Written> {
        let options = WriteOptions {
            mode: WriteMode::Overwrite,
            must_exist: true,
            ..options.clone()
        };
        write(self.store(), batches, &options).await
    }

    /// Makes the content of this version the newest one.
    ///
    /// # Errors
    /// As [`commit`](crate::commit()).
    pub async fn restore(&self, options: &CommitOptions) -> Result<Committed> {
        self.commit(
            Operation::Restore {
                version: self.version(),
            },
            BTreeMap::new(),
            options,
        )
        .await
    }

    /// Commits any operation over the newest version that needs nothing of an older one.
    ///
    /// # Errors
    /// As [`commit`](crate::commit()).
    pub async fn commit(
        &self,
        operation: Operation,
        properties: BTreeMap<String, String>,
        options: &CommitOptions,
    ) -> Result<Committed> {
        let base = Snapshot::newest(self.store()).await?;
        let transaction = Transaction {
            properties,
            ..Transaction::new(base.version(), operation)
        };
        commit(self.store(), Some(&base), transaction, options).await
    }

    /// The tags of the table: names and versions.
    ///
    /// # Errors
    /// When a tag cannot be read.
    pub async fn tags(&self) -> Result<BTreeMap<String, Tag>> {
        all_tags(self.store()).await
    }

    /// Gives a name to a version (`None`: to this one).
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] if the name is taken, [`Error::NotFound`] if there is no such version.
    pub async fn create_tag(&self, name: &str, version: Option<u64>) -> Result<()> {
        let path = tag_path(name)?;
        let snapshot = match version {
            Some(version) => Snapshot::at_version(self.store(), version).await?,
            None => Snapshot::at_version(self.store(), self.version()).await?,
        };
        let tag = Tag::new(snapshot.version(), snapshot.manifest_byte_len());
        match self.store().create(&path, tag.encode()?).await {
            Err(pilum_store::Error::AlreadyExists { .. }) => Err(Error::AlreadyExists {
                what: format!("tag {name:?} of {}", self.uri()),
                hint: "delete it first, or choose another name".to_owned(),
            }),
            // No other writer may have written the same content under this name, so reading it back resolves the outcome.
            Err(pilum_store::Error::Unclear { .. })
                if read_tag(self.store(), name).await?.as_ref() == Some(&tag) =>
            {
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Takes a name away; the version stays.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such tag.
    pub async fn delete_tag(&self, name: &str) -> Result<()> {
        let path = tag_path(name)?;
        if !self.store().exists(&path).await? {
            return Err(no_tag(self.store(), name));
        }
        self.store().delete(&path).await?;
        Ok(self.store().sync_folder(TAGS).await?)
    }
}

async fn find(store: &Store, version: &VersionRef) -> Result<Snapshot> {
    match version {
        VersionRef::Latest => Snapshot::newest(store).await,
        VersionRef::Number(version) => Snapshot::at_version(store, *version).await,
        VersionRef::Tag(name) => match read_tag(store, name).await? {
            Some(Tag {
                branch: Some(branch),
                ..
            }) => Err(Error::unsupported(
                format!("tag {name:?} on branch {branch:?}"),
                "pilum reads the main line of a table",
            )
            .at(store.uri())),
            Some(tag) => Snapshot::at_version(store, tag.version).await,
            None if versions::newest(store).await?.is_none() => {
                Err(versions::no_table(store).await)
            }
            None => Err(no_tag(store, name)),
        },
        VersionRef::AsOf(time) => as_of(store, *time).await,
    }
}

fn no_tag(store: &Store, name: &str) -> Error {
    Error::NotFound {
        what: format!("tag {name:?} of {}", store.uri()),
        hint: "list the tags to see their names".to_owned(),
    }
}

/// The newest version not after `time`: looked for from the newest one down, because the clocks of other
/// writers may have run backwards.
async fn as_of(store: &Store, time: DateTime<Utc>) -> Result<Snapshot> {
    let Some((scheme, versions)) = versions::all(store).await? else {
        return Err(versions::no_table(store).await);
    };
    for version in versions.into_iter().rev() {
        if let Some((file, len)) = versions::read_manifest(store, scheme, version).await?
            && file.manifest.timestamp <= time
        {
            return Snapshot::new(store, file, scheme, len).await;
        }
    }
    Err(Error::NotFound {
        what: format!("a version of {} from {time} or before", store.uri()),
        hint: "the oldest version that is left is younger".to_owned(),
    })
}

async fn summary(
    store: &Store,
    scheme: NamingScheme,
    version: u64,
) -> Result<Option<VersionSummary>> {
    let Some((file, _)) = versions::read_manifest(store, scheme, version).await? else {
        return Ok(None);
    };
    let manifest = file.manifest;
    let transaction = match file.transaction {
        Some(transaction) => Some(transaction),
        None => versions::read_transaction(store, &manifest.transaction_file).await?,
    };
    Ok(Some(VersionSummary::of(&manifest, transaction.as_ref())))
}
