//! Opening a dataset: the document, the schemas of its tables, and the partitions of documents that do not list them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use arrow_schema::{SchemaRef, TimeUnit};
use bytes::Bytes;
use pilum_store::Store;
use tokio::sync::OnceCell;

use crate::error::{Error, Result};
use crate::index::Index;
use crate::limits::Limits;
use crate::metadata::DatasetMetadata;
use crate::names::{
    DATA_SUFFIX, DocumentForm, INDICES, KeyParts, SCHEMA_NAME, StrayComponents, check_uuid,
    label_of_key, metadata_key,
};
use crate::parsed::ParsedDocument;
use crate::partition_keys::KeyColumns;
use crate::partitions::{Files, Partition};
use crate::schema::TableSchema;
use crate::state::table_schema;

/// How to open a dataset.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenOptions {
    /// What the dataset may make the reader allocate.
    pub limits: Limits,
    /// How components without `=` in paths are read.
    pub stray: StrayComponents,
    /// The unit of timestamps without zone; Kartothek has nanoseconds.
    pub unit: TimeUnit,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            stray: StrayComponents::default(),
            unit: TimeUnit::Nanosecond,
        }
    }
}

/// A dataset at the state of one document. It never changes; later commits are seen by opening it again.
#[derive(Debug)]
pub struct Dataset {
    pub(crate) store: Store,
    pub(crate) options: OpenOptions,
    pub(crate) metadata: Arc<DatasetMetadata>,
    is_explicit: bool,
    document: Arc<ParsedDocument>,
    labels: Vec<Arc<str>>,
    place_of: OnceLock<HashMap<Arc<str>, u32>>,
    tables: Vec<String>,
    schemas: BTreeMap<String, TableSchema>,
    read_schemas: BTreeMap<String, SchemaRef>,
    pub(crate) keys: OnceLock<Arc<KeyColumns>>,
    pub(crate) indices: BTreeMap<String, OnceCell<Arc<Index>>>,
}

impl Dataset {
    /// Opens a dataset: one request for the document (two if it has the MessagePack form only), one for the schema of each
    /// table, and a listing if the document lists no partition.
    ///
    /// # Errors
    /// [`Error::NotFound`] without a document or a schema, and the errors of [`DatasetMetadata::parse`].
    pub async fn open(store: &Store, uuid: &str, options: OpenOptions) -> Result<Arc<Self>> {
        check_uuid(uuid)?;
        let store = store.clone().with_literal_paths();
        let (form, document) = read_document(&store, uuid, &options.limits).await?;
        Self::of_document(&store, uuid, form, document, options).await
    }

    /// As [`open`](Self::open), for a document that was read already: the current one, or an earlier one.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn of_document(
        store: &Store,
        uuid: &str,
        form: DocumentForm,
        document: Bytes,
        options: OpenOptions,
    ) -> Result<Arc<Self>> {
        let store = store.clone().with_literal_paths();
        let path = format!("{}/{}", store.uri(), metadata_key(uuid, form));
        let document = ParsedDocument::of(document, form, &path, uuid, &options.limits)?;
        let mut metadata = Arc::clone(document.metadata());
        let is_explicit = metadata.partitions.is_some();
        let mut listed_tables = Vec::new();
        if metadata.partitions.as_ref().is_none_or(BTreeMap::is_empty) {
            let (partitions, tables) = listed(&store, uuid, &options.limits).await?;
            listed_tables = tables;
            if !is_explicit {
                Arc::make_mut(&mut metadata).partitions = Some(partitions);
            }
        }
        let tables = match metadata.tables() {
            tables if tables.is_empty() => listed_tables,
            tables => tables,
        };
        check_partitions(&metadata, &tables, &path)?;
        let partitions = metadata.partitions.iter().flat_map(BTreeMap::keys);
        let labels = partitions.map(|it| Arc::from(it.as_str())).collect();
        if metadata.partition_keys.is_none() {
            let keys = keys_of_first(&metadata)?;
            Arc::make_mut(&mut metadata).partition_keys = Some(keys);
        }
        let mut schemas = BTreeMap::new();
        for table in &tables {
            let read = table_schema(&store, table, &metadata, &options.limits).await?;
            for key in metadata.partition_keys.iter().flatten() {
                if read.schema().fields().find(key).is_none() {
                    return Err(Error::corrupt(
                        read.source(),
                        format!("partition key `{key}` is no column of table `{table}`"),
                    ));
                }
            }
            schemas.insert(table.clone(), read);
        }
        let read_schemas = schemas
            .iter()
            .map(|(table, schema)| (table.clone(), schema.read_schema(options.unit)))
            .collect();
        let indices = metadata.indices.keys();
        Ok(Arc::new(Self {
            indices: indices.map(|it| (it.clone(), OnceCell::new())).collect(),
            store,
            options,
            metadata,
            is_explicit,
            document,
            labels,
            place_of: OnceLock::new(),
            tables,
            schemas,
            read_schemas,
            keys: OnceLock::new(),
        }))
    }

    /// The store, whose paths are taken literally.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The document. Partitions and partition keys that it does not list are there nevertheless.
    #[must_use]
    pub fn metadata(&self) -> &DatasetMetadata {
        &self.metadata
    }

    /// The bytes of the metadata document in the store.
    #[must_use]
    pub fn document(&self) -> &Bytes {
        &self.document.bytes
    }

    /// The form of the document.
    #[must_use]
    pub fn form(&self) -> DocumentForm {
        self.document.form
    }

    /// Whether the document lists the partitions.
    #[must_use]
    pub fn is_explicit(&self) -> bool {
        self.is_explicit
    }

    /// The options with which this was opened.
    #[must_use]
    pub fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// The name of the dataset.
    #[must_use]
    pub fn uuid(&self) -> &str {
        &self.metadata.uuid
    }

    /// The address of the document, for messages.
    #[must_use]
    pub fn path(&self) -> String {
        format!(
            "{}/{}",
            self.store.uri(),
            metadata_key(self.uuid(), self.form())
        )
    }

    /// The tables by name.
    #[must_use]
    pub fn tables(&self) -> &[String] {
        &self.tables
    }

    /// The labels of all partitions, in the order in which they are read.
    #[must_use]
    pub fn labels(&self) -> &[Arc<str>] {
        &self.labels
    }

    /// The partition columns, in order.
    #[must_use]
    pub fn partition_keys(&self) -> &[String] {
        self.metadata.partition_keys.as_deref().unwrap_or_default()
    }

    /// The schema of a table as it is stored.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` if the dataset has no such table.
    pub fn table_schema(&self, table: &str) -> Result<&TableSchema> {
        self.schemas.get(table).ok_or_else(|| self.no_table(table))
    }

    /// The columns of a table as they are read.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` if the dataset has no such table.
    pub fn schema(&self, table: &str) -> Result<&SchemaRef> {
        self.read_schemas
            .get(table)
            .ok_or_else(|| self.no_table(table))
    }

    fn no_table(&self, table: &str) -> Error {
        Error::invalid(
            format!("table {table:?}"),
            format!("dataset `{}` has the tables {:?}", self.uuid(), self.tables),
        )
    }

    /// The places of the labels, which indices have.
    pub(crate) fn place_of(&self) -> &HashMap<Arc<str>, u32> {
        let places = || self.labels.iter().cloned().zip(0_u32..).collect();
        self.place_of.get_or_init(places)
    }

    /// The files of the partition at a place among the labels, by table.
    pub(crate) fn files(&self, place: usize) -> Option<&Files> {
        let label = self.labels.get(place)?;
        let partitions = self.metadata.partitions.as_ref()?;
        partitions.get(label.as_ref()).map(|it| &it.files)
    }
}

/// The document that counts: JSON, and MessagePack only where there is no JSON.
///
/// # Errors
/// [`Error::NotFound`] if there is neither.
pub async fn read_document(
    store: &Store,
    uuid: &str,
    limits: &Limits,
) -> Result<(DocumentForm, Bytes)> {
    check_uuid(uuid)?;
    for form in [DocumentForm::Json, DocumentForm::MessagePack] {
        match store
            .read(&metadata_key(uuid, form), limits.document_bytes)
            .await
        {
            Ok(bytes) => return Ok((form, bytes)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::NotFound {
        path: format!("{}/{uuid}", store.uri()),
        reason: "there is no such dataset: neither its .by-dataset-metadata.json nor its \
                 .by-dataset-metadata.msgpack.zstd exists; check the address of the store and the name"
            .to_owned(),
    })
}

/// The partitions that the store has, and the tables that have a schema.
async fn listed(
    store: &Store,
    uuid: &str,
    limits: &Limits,
) -> Result<(BTreeMap<String, Partition>, Vec<String>)> {
    let mut partitions: BTreeMap<String, Partition> = BTreeMap::new();
    let mut tables = Vec::new();
    let mut depth: Option<(usize, String)> = None;
    for object in store.list_recursive(uuid).await? {
        let key = object.path;
        let mut parts = key.split('/').skip(1);
        let table = parts.next().unwrap_or_default();
        if table == INDICES {
            continue;
        }
        if parts.next() == Some(SCHEMA_NAME) && parts.next().is_none() {
            tables.push(table.to_owned());
            continue;
        }
        let Some((table, label)) = label_of_key(uuid, &key) else {
            continue;
        };
        let parts = key.split('/').count();
        match &depth {
            Some((found, other)) if *found != parts => {
                return Err(Error::corrupt(
                    format!("{}/{key}", store.uri()),
                    format!(
                        "the document of dataset `{uuid}` lists no partitions, and this file lies in more or fewer \
                         folders than {other}; move files that are no partition to another place"
                    ),
                ));
            }
            Some(_) => {}
            None => depth = Some((parts, key.clone())),
        }
        if partitions.len() >= limits.entries {
            return Err(Error::limit(
                format!("dataset `{uuid}`: its partitions"),
                format!("more than {} files", limits.entries),
                format!("{} files", limits.entries),
            ));
        }
        let partition = partitions.entry(label.to_owned()).or_default();
        partition.files.insert(table, key.clone());
    }
    Ok((partitions, tables))
}

/// Refuses partitions whose tables are not those of the others, or whose files have a name that is none.
fn check_partitions(metadata: &DatasetMetadata, tables: &[String], path: &str) -> Result<()> {
    for (label, partition) in metadata.partitions.iter().flatten() {
        if !partition.files.tables().eq(tables) {
            let found: Vec<&str> = partition.files.tables().collect();
            return Err(Error::corrupt(
                path,
                format!(
                    "partition {label:?} has the tables {found:?}, and the first one {tables:?}"
                ),
            ));
        }
        if let Some(key) = partition
            .files
            .values()
            .find(|it| !it.ends_with(DATA_SUFFIX))
        {
            return Err(Error::unsupported(
                path,
                format!("the file {key:?} of partition {label:?}"),
                "only Parquet files are read; store the dataset again",
            ));
        }
    }
    if let Some(table) = tables.iter().find(|it| it.contains('/') || it.is_empty()) {
        return Err(Error::corrupt(
            path,
            format!("{table:?} is no name of a table"),
        ));
    }
    Ok(())
}

fn keys_of_first(metadata: &DatasetMetadata) -> Result<Vec<String>> {
    let mut partitions = metadata.partitions.iter().flat_map(BTreeMap::values);
    let first = partitions.next().and_then(|it| it.files.values().next());
    let Some(key) = first else {
        return Ok(Vec::new());
    };
    let parts = KeyParts::of(key)?;
    Ok(parts.keys.into_iter().map(|(column, _)| column).collect())
}
