//! The committed state of a dataset: its document, and the schema of each table that belongs to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use pilum_store::{ObjectVersion, Store};

use crate::error::{Error, Result};
use crate::history::{Bookkeeping, Version, digest, schema_copy_key};
use crate::limits::Limits;
use crate::metadata::{DatasetMetadata, IndexReference};
use crate::names::{DocumentForm, metadata_key, schema_key};
use crate::parsed::ParsedDocument;
use crate::schema::TableSchema;
use crate::write::schema_file::schema_of_bytes;

/// The largest schema file.
const SCHEMA_BYTES: u64 = 64 << 20;

/// Where a dataset is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) store: Store,
    pub(crate) uuid: String,
    pub(crate) limits: Limits,
    /// The newest document that was read or committed here: while it is kept, the same bytes are not parsed again.
    newest: Arc<Mutex<Option<Arc<ParsedDocument>>>>,
}

impl Place {
    pub(crate) fn new(store: Store, uuid: &str, limits: Limits) -> Self {
        Self {
            store,
            uuid: uuid.to_owned(),
            limits,
            newest: Arc::default(),
        }
    }

    /// Keeps a document that was read or committed.
    pub(crate) fn keep(&self, document: &Arc<ParsedDocument>) {
        // After a fork the lock may be held by a thread that this process does not have.
        if let Ok(mut newest) = self.newest.try_lock() {
            *newest = Some(Arc::clone(document));
        }
    }

    /// The address of the dataset in messages.
    pub(crate) fn shown(&self) -> String {
        format!("{}/{}", self.store.uri().trim_end_matches('/'), self.uuid)
    }

    pub(crate) fn document(&self, form: DocumentForm) -> String {
        metadata_key(&self.uuid, form)
    }
}

/// The committed state that a change is applied to.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) document: Arc<ParsedDocument>,
    pub(crate) schemas: BTreeMap<String, SchemaOfTable>,
    pub(crate) version: ObjectVersion,
}

impl State {
    /// The version of this state. None if another library wrote it.
    pub(crate) async fn current_version(&self, place: &Place) -> Result<Option<Version>> {
        let Some(book) = self.own_book()? else {
            return Ok(None);
        };
        let time = match book.time() {
            Some(time) => time,
            None => self.modified(place).await?,
        };
        Ok(Some(Version::named(
            &place.uuid,
            book.version,
            time,
            &book.operation,
        )))
    }

    /// How the commit that wrote this state describes itself. None if another library wrote the state.
    pub(crate) fn own_book(&self) -> Result<Option<&Bookkeeping>> {
        Ok(match self.document.is_foreign()? {
            true => None,
            false => self.document.book.as_ref(),
        })
    }

    /// When the document was written, by the clock of the store.
    pub(crate) async fn modified(&self, place: &Place) -> Result<DateTime<Utc>> {
        let stat = place
            .store
            .stat(&place.document(self.document.form))
            .await?;
        Ok(DateTime::<Utc>::from(stat.modified))
    }
}

/// The schema of a table, and its file.
#[derive(Debug, Clone)]
pub(crate) struct SchemaOfTable {
    pub(crate) schema: TableSchema,
    /// The bytes that the committed state goes by.
    pub(crate) bytes: Bytes,
    pub(crate) digest: String,
    /// Whether `_common_metadata` has these bytes.
    pub(crate) is_published: bool,
}

impl SchemaOfTable {
    /// The bytes of the schema file.
    pub(crate) fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

/// Reads the newest state. None if there is no dataset.
pub(crate) async fn load(place: &Place) -> Result<Option<State>> {
    for form in [DocumentForm::Json, DocumentForm::MessagePack] {
        let key = place.document(form);
        let read = place
            .store
            .read_version(&key, place.limits.document_bytes)
            .await;
        let (bytes, version) = match read {
            Ok(read) => read,
            Err(pilum_store::Error::NotFound { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let path = format!("{}/{key}", place.store.uri());
        let document = ParsedDocument::of(bytes, form, &path, &place.uuid, &place.limits)?;
        place.keep(&document);
        let schemas = schemas_of(place, &document, document.book.as_ref()).await?;
        return Ok(Some(State {
            document,
            schemas,
            version,
        }));
    }
    Ok(None)
}

/// The tables of a dataset; without partitions those with a schema file.
pub(crate) async fn tables_of(place: &Place, document: &DatasetMetadata) -> Result<Vec<String>> {
    let tables = document.tables();
    if !tables.is_empty() {
        return Ok(tables);
    }
    let listed = place.store.list_recursive(&place.uuid).await?;
    let prefix = format!("{}/", place.uuid);
    let table = |path: &str| {
        let rest = path.strip_prefix(&prefix)?;
        let (table, name) = rest.split_once('/')?;
        (name == crate::names::SCHEMA_NAME).then(|| table.to_owned())
    };
    Ok(listed.iter().filter_map(|it| table(&it.path)).collect())
}

async fn schemas_of(
    place: &Place,
    document: &DatasetMetadata,
    book: Option<&Bookkeeping>,
) -> Result<BTreeMap<String, SchemaOfTable>> {
    let mut schemas = BTreeMap::new();
    for table in tables_of(place, document).await? {
        let expected = book.and_then(|it| it.schemas.get(&table));
        let found = schema_of(place, &table, expected.map(String::as_str)).await?;
        schemas.insert(table, found);
    }
    Ok(schemas)
}

/// The schema of a table in the state that expects a digest.
///
/// The schema file lies beside the document, so the two may come from different commits: after a crash, or because Kartothek
/// completed a column that had no value. The file counts unless the expected copy cannot be read with it.
pub(crate) async fn schema_of(
    place: &Place,
    table: &str,
    expected: Option<&str>,
) -> Result<SchemaOfTable> {
    let key = schema_key(&place.uuid, table);
    let source = format!("{}/{key}", place.store.uri());
    let found = place.store.read(&key, SCHEMA_BYTES).await;
    let copy = match (&found, expected) {
        (Ok(bytes), Some(expected)) if digest(bytes) == expected => None,
        (_, Some(expected)) => copy_of(place, expected).await?,
        (_, None) => None,
    };
    let parsed = |bytes: &Bytes| schema_of_bytes(bytes, &source);
    let of = |bytes: Bytes, is_published: bool| -> Result<SchemaOfTable> {
        Ok(SchemaOfTable {
            schema: parsed(&bytes)?,
            digest: digest(&bytes),
            bytes,
            is_published,
        })
    };
    match (found, copy) {
        (Ok(bytes), None) => of(bytes, true),
        (Ok(bytes), Some(copy)) => {
            let known = parsed(&copy)?;
            let completes = parsed(&bytes)
                .and_then(|it| crate::schema::check_compatible(table, &[&known, &it]));
            match completes {
                Ok(_) => of(bytes, true),
                Err(_) => of(copy, false),
            }
        }
        (Err(pilum_store::Error::NotFound { .. }), Some(copy)) => of(copy, false),
        (Err(pilum_store::Error::NotFound { path }), None) => Err(Error::NotFound {
            path,
            reason: format!("the schema of table `{table}` is missing; restore this file"),
        }),
        (Err(error), _) => Err(error.into()),
    }
}

async fn copy_of(place: &Place, digest: &str) -> Result<Option<Bytes>> {
    let key = schema_copy_key(&place.uuid, digest);
    match place.store.read(&key, SCHEMA_BYTES).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(pilum_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The schema of a table in the state of a document.
///
/// # Errors
/// [`Error::NotFound`] without a schema, `CommonError::Corrupt` for a damaged one.
pub(crate) async fn table_schema(
    store: &Store,
    table: &str,
    document: &DatasetMetadata,
    limits: &Limits,
) -> Result<TableSchema> {
    let place = Place::new(store.clone(), &document.uuid, limits.clone());
    let book = Bookkeeping::of(document);
    let expected = book.as_ref().and_then(|it| it.schemas.get(table));
    Ok(schema_of(&place, table, expected.map(String::as_str))
        .await?
        .schema)
}

/// The key of the index on a column.
pub(crate) fn index_file<'a>(
    place: &Place,
    document: &'a DatasetMetadata,
    column: &str,
) -> Result<&'a str> {
    match document.indices.get(column) {
        Some(IndexReference::File(key)) => Ok(key),
        Some(IndexReference::Embedded(_)) => Err(Error::unsupported(
            place.shown(),
            format!("changing the index on `{column}`, which is embedded in the document,"),
            "build the index again first, which writes an index file",
        )),
        None => Err(Error::bug(format!(
            "{}: no index on `{column}`",
            place.shown()
        ))),
    }
}
