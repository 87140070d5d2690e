//! Changes of the rows of a dataset: partitions are added, and whole partitions removed, in one commit.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, SchemaRef};
use futures::FutureExt;
use futures::future::BoxFuture;
use pilum_common::type_name;
use tokio::task::JoinSet;

use crate::commit::{Change, Next, pass};
use crate::error::{Error, Result};
use crate::json_text::JsonText;
use crate::metadata::{DatasetMetadata, IndexReference};
use crate::names::{DocumentForm, KeyParts, index_key, label_of_key};
use crate::partitions::Partition;
use crate::schema::{TableSchema, check_compatible, check_tables, normalized, normalized_type};
use crate::state::{Place, State, index_file, load};
use crate::write::inverted::{InvertedIndex, check_index_column};
use crate::write::{StagedPartition, remove_files};

/// How a dataset is made or changed.
#[derive(Debug, Default)]
pub struct Update {
    /// The partitions to add, whose files are written.
    pub added: Vec<StagedPartition>,
    /// The labels of the partitions to remove, as [`DatasetWriter::in_scope`](crate::DatasetWriter::in_scope) found them when the
    /// update began. If another writer removes one of them meanwhile, the update is a conflict.
    pub removed: BTreeSet<String>,
    /// Members of the user metadata to set, as JSON.
    pub user: BTreeMap<String, JsonText>,
    /// Partition keys of a new dataset; those that an existing one must have.
    pub partition_on: Option<Vec<String>>,
    /// Indices of a new dataset; those that an existing one must have.
    pub indices: Option<Vec<String>>,
    /// Whether there may be a dataset already.
    pub existing: Existing,
    /// The form of a new document.
    pub form: Option<DocumentForm>,
    /// Whether a new document leaves its partitions to a listing of the store.
    pub implicit: bool,
}

/// What an update does if the dataset exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// Changes it.
    #[default]
    Update,
    /// Refuses.
    Refuse,
    /// Replaces all of it.
    Replace,
    /// Changes it, and refuses if there is none.
    Require,
}

/// An update on its way through the attempts of its commit.
#[derive(Debug)]
pub(crate) struct PendingUpdate {
    update: Update,
    /// What the last attempt did.
    operation: &'static str,
}

impl PendingUpdate {
    pub(crate) fn new(update: Update) -> Self {
        Self {
            update,
            operation: "create",
        }
    }

    async fn next(&mut self, place: &Place, state: Option<&State>) -> Result<Next> {
        let state = match (state, self.update.existing) {
            (Some(_), Existing::Refuse) => {
                return Err(Error::AlreadyExists {
                    path: place.shown(),
                    reason: "there is a dataset of this name; update it or overwrite it".to_owned(),
                });
            }
            (None, Existing::Require) => {
                return Err(Error::NotFound {
                    path: place.shown(),
                    reason: "there is no such dataset; write it first".to_owned(),
                });
            }
            (Some(_), Existing::Replace) => {
                self.operation = "overwrite";
                None
            }
            (state, _) => state,
        };
        match state {
            None => self.create(place).await,
            Some(state) => {
                self.operation = "update";
                self.change(place, state).await
            }
        }
    }

    async fn create(&self, place: &Place) -> Result<Next> {
        let update = &self.update;
        if let Some(label) = update.removed.first() {
            return Err(removed_meanwhile(place, label));
        }
        let partition_keys = partition_keys_of(&update.added, update.partition_on.as_ref())?;
        let indexed = match &update.indices {
            Some(indices) => indices.clone(),
            None => indexed_columns(&update.added),
        };
        let schemas = schemas_of(&update.added, &BTreeMap::new(), &partition_keys)?;
        if schemas.is_empty() {
            return Err(Error::invalid(
                "the rows",
                "a new dataset needs at least one frame; pass rows, or rows without values for their schema",
            ));
        }
        let mut document = DatasetMetadata::new(&place.uuid)?;
        document.user.clone_from(&update.user);
        document.partition_keys = Some(partition_keys.clone());
        match update.implicit {
            true => document.partitions = None,
            false => document.partitions = Some(partitions_of(place, &update.added, None)?),
        }
        let mut new_files = Vec::new();
        pass(place, "kartothek.before_indices")?;
        for column in &indexed {
            check_index_column(column, &partition_keys)?;
            let data_type = type_of(column, &schemas)?;
            let index = InvertedIndex::empty(column, &data_type)?;
            let added = values_of(column, &data_type, &update.added)?;
            let index = index
                .merged(&HashSet::new(), &borrowed(&added))?
                .unwrap_or(index);
            let key = write_index(place, column, &index).await?;
            new_files.push(key.clone());
            document
                .indices
                .insert(column.clone(), IndexReference::File(key));
        }
        Ok(Next {
            document,
            schemas,
            is_compatible: self.operation == "create",
            new_files,
        })
    }

    async fn change(&mut self, place: &Place, state: &State) -> Result<Next> {
        let partition_keys = partition_keys(&state.document)?;
        self.check_layout(place, state, &partition_keys)?;
        let known: BTreeMap<String, TableSchema> = state
            .schemas
            .iter()
            .map(|(table, it)| (table.clone(), it.schema.clone()))
            .collect();
        let schemas = schemas_of(&self.update.added, &known, &partition_keys)?;
        check_added_tables(&self.update.added, &known)?;
        let mut document = DatasetMetadata::clone(&state.document);
        let partitions = match document.partitions.take() {
            Some(partitions) => partitions,
            None => {
                // The listing finds the files of this update, which are written already.
                let mut listed = implicit_partitions(place).await?;
                for staged in &self.update.added {
                    listed.remove(&staged.label);
                }
                listed
            }
        };
        let removed = &self.update.removed;
        let mut next = partitions;
        for label in removed {
            if next.remove(label).is_none() {
                return Err(removed_meanwhile(place, label));
            }
        }
        let next = partitions_of(place, &self.update.added, Some(next))?;
        document.partitions = Some(next);
        document.partition_keys = Some(partition_keys);
        for (name, value) in &self.update.user {
            document.user.insert(name.clone(), value.clone());
        }
        pass(place, "kartothek.before_indices")?;
        let new_indices = self.new_indices(place, &document, &schemas).await?;
        let mut new_files = Vec::with_capacity(new_indices.len());
        for (column, key) in new_indices {
            new_files.push(key.clone());
            document.indices.insert(column, IndexReference::File(key));
        }
        Ok(Next {
            document,
            schemas,
            is_compatible: true,
            new_files,
        })
    }

    /// Writes the indices that the update changes, side by side. Returns column and key of each.
    async fn new_indices(
        &self,
        place: &Place,
        document: &DatasetMetadata,
        schemas: &BTreeMap<String, SchemaRef>,
    ) -> Result<Vec<(String, String)>> {
        let mut changed = Vec::new();
        for column in document.indices.keys() {
            let data_type = type_of(column, schemas)?;
            let added = values_of(column, &data_type, &self.update.added)?;
            if !self.update.removed.is_empty() || added.iter().any(|(_, it)| !it.is_empty()) {
                let key = index_file(place, document, column)?.to_owned();
                changed.push((column.clone(), data_type, added, key));
            }
        }
        let removed = Arc::new(self.update.removed.clone());
        let mut running = JoinSet::new();
        for (column, data_type, added, key) in changed {
            let (place, removed) = (place.clone(), Arc::clone(&removed));
            running.spawn(async move {
                let (store, limits) = (&place.store, &place.limits);
                let index = InvertedIndex::read(store, &key, &column, &data_type, limits).await?;
                let gone: HashSet<&str> = removed.iter().map(String::as_str).collect();
                let merged = index.merged(&gone, &borrowed(&added))?;
                let Some(merged) = merged else {
                    return Ok(None);
                };
                let key = write_index(&place, &column, &merged).await?;
                Ok::<_, Error>(Some((column, key)))
            });
        }
        // All of them end before an error is told, so that no file is written after it.
        let (mut written, mut failed) = (Vec::new(), None);
        while let Some(ended) = running.join_next().await {
            match ended.unwrap_or_else(|error| Err(Error::bug(error.to_string()))) {
                Ok(new) => written.extend(new),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            let files: Vec<String> = written.into_iter().map(|(_, key)| key).collect();
            remove_files(&place.store, &files).await;
            return Err(error);
        }
        Ok(written)
    }

    fn check_layout(&self, place: &Place, state: &State, partition_keys: &[String]) -> Result<()> {
        let given = self.update.partition_on.iter();
        let staged = self.update.added.iter().map(|it| &it.partition_keys);
        for keys in given.chain(staged) {
            if keys != partition_keys {
                return Err(Error::invalid(
                    "partition_on",
                    format!(
                        "the dataset {} is partitioned by {partition_keys:?}, the rows by {keys:?}; use the keys of the dataset",
                        place.shown()
                    ),
                ));
            }
        }
        for column in self.update.indices.iter().flatten() {
            if !state.document.indices.contains_key(column) {
                return Err(Error::invalid(
                    format!("index on `{column}`"),
                    "the dataset has no such index; build it with build_indices",
                ));
            }
        }
        for staged in self.update.added.iter().filter(|it| !it.files.is_empty()) {
            for column in state.document.indices.keys() {
                if !staged.indices.contains_key(column) {
                    return Err(Error::invalid(
                        format!("partition {:?}", staged.label),
                        format!(
                            "it was written without the values of `{column}`, which has an index; write it with `secondary_indices` of the dataset"
                        ),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Two writers removed one partition: what the second one read when it began is not there any more.
fn removed_meanwhile(place: &Place, label: &str) -> Error {
    Error::Conflict {
        path: place.shown(),
        reason: format!(
            "another writer removed the partition {label:?}, which this update removes too; read the dataset again and decide \
             whether the update is still wanted"
        ),
        retryable: false,
    }
}

impl Change for PendingUpdate {
    fn operation(&self) -> &'static str {
        self.operation
    }

    fn form(&self) -> DocumentForm {
        self.update.form.unwrap_or(DocumentForm::Json)
    }

    fn apply<'a>(
        &'a mut self,
        place: &'a Place,
        state: Option<&'a State>,
    ) -> BoxFuture<'a, Result<Next>> {
        self.next(place, state).boxed()
    }
}

/// The partition keys of a document; those of the first path if it does not name them.
pub(crate) fn partition_keys(document: &DatasetMetadata) -> Result<Vec<String>> {
    if let Some(keys) = &document.partition_keys {
        return Ok(keys.clone());
    }
    let first = document.partitions.iter().flat_map(BTreeMap::values).next();
    let Some(key) = first.and_then(|it| it.files.values().next()) else {
        return Ok(Vec::new());
    };
    Ok(KeyParts::of(key)?
        .keys
        .into_iter()
        .map(|(column, _)| column)
        .collect())
}

fn partition_keys_of(
    added: &[StagedPartition],
    given: Option<&Vec<String>>,
) -> Result<Vec<String>> {
    let mut all = added.iter().map(|it| &it.partition_keys).chain(given);
    let first = all.next().cloned().unwrap_or_default();
    match all.all(|it| *it == first) {
        true => Ok(first),
        false => Err(Error::invalid(
            "partition_on",
            "the partitions were written with different keys; write all of them with the same",
        )),
    }
}

fn indexed_columns(added: &[StagedPartition]) -> Vec<String> {
    let columns: BTreeSet<&String> = added.iter().flat_map(|it| it.indices.keys()).collect();
    columns.into_iter().cloned().collect()
}

/// The completed schema of each table.
fn schemas_of(
    added: &[StagedPartition],
    known: &BTreeMap<String, TableSchema>,
    partition_keys: &[String],
) -> Result<BTreeMap<String, SchemaRef>> {
    let mut of_table: BTreeMap<&String, Vec<TableSchema>> = BTreeMap::new();
    for (table, schema) in known {
        of_table.entry(table).or_default().push(schema.clone());
    }
    // Partitions of one frame mostly have one schema: it is compared once, and a difference told once.
    let mut seen: BTreeMap<&String, Vec<&SchemaRef>> = BTreeMap::new();
    for staged in added {
        for (table, schema) in &staged.schemas {
            let compared = seen.entry(table).or_default();
            if compared.contains(&schema) {
                continue;
            }
            compared.push(schema);
            let source = match staged.label.is_empty() {
                true => "the new rows".to_owned(),
                false => format!("the new partition {:?}", staged.label),
            };
            let schema = TableSchema::of_arrow(schema, &source)?;
            of_table.entry(table).or_default().push(schema);
        }
    }
    let mut schemas = BTreeMap::new();
    for (table, of_table) in of_table {
        let all: Vec<&TableSchema> = of_table.iter().collect();
        let completed = check_compatible(table, &all)?;
        schemas.insert(table.clone(), normalized(&completed, partition_keys)?);
    }
    check_tables(&schemas)?;
    Ok(schemas)
}

/// Checks that the columns of written partitions are those of the dataset, if there is one.
pub(crate) async fn check_columns(place: &Place, staged: &[StagedPartition]) -> Result<()> {
    let Some(state) = load(place).await? else {
        return Ok(());
    };
    let known: BTreeMap<String, TableSchema> = state
        .schemas
        .iter()
        .map(|(table, it)| (table.clone(), it.schema.clone()))
        .collect();
    let keys = partition_keys(&state.document)?;
    schemas_of(staged, &known, &keys)?;
    check_added_tables(staged, &known)
}

fn check_added_tables(
    added: &[StagedPartition],
    known: &BTreeMap<String, TableSchema>,
) -> Result<()> {
    for staged in added {
        let tables: Vec<&String> = staged.schemas.keys().collect();
        if !known.is_empty() && tables != known.keys().collect::<Vec<_>>() {
            return Err(Error::invalid(
                "the rows",
                format!(
                    "they have the tables {tables:?}, and the dataset {:?}; pass rows for each table",
                    known.keys().collect::<Vec<_>>()
                ),
            ));
        }
    }
    Ok(())
}

/// The partitions of a document with those that were staged.
fn partitions_of(
    place: &Place,
    added: &[StagedPartition],
    known: Option<BTreeMap<String, Partition>>,
) -> Result<BTreeMap<String, Partition>> {
    let mut partitions = known.unwrap_or_default();
    for staged in added.iter().filter(|it| !it.files.is_empty()) {
        let partition = Partition {
            files: staged.files.clone().into_iter().collect(),
            others: BTreeMap::new(),
        };
        if partitions.insert(staged.label.clone(), partition).is_some() {
            return Err(Error::AlreadyExists {
                path: place.shown(),
                reason: format!(
                    "the dataset has a partition with the label {:?}; choose another label",
                    staged.label
                ),
            });
        }
    }
    Ok(partitions)
}

/// The partitions that a listing of the store finds, for a document without a list.
pub(crate) async fn implicit_partitions(place: &Place) -> Result<BTreeMap<String, Partition>> {
    let mut partitions: BTreeMap<String, Partition> = BTreeMap::new();
    for listed in place.store.list_recursive(&place.uuid).await? {
        let Some((table, label)) = label_of_key(&place.uuid, &listed.path) else {
            continue;
        };
        if table == crate::names::INDICES {
            continue;
        }
        let files = &mut partitions.entry(label.to_owned()).or_default().files;
        files.insert(table, listed.path.clone());
    }
    Ok(partitions)
}

/// The type of a column in the tables that have it.
pub(crate) fn type_of(column: &str, schemas: &BTreeMap<String, SchemaRef>) -> Result<DataType> {
    let mut is_there = false;
    for schema in schemas.values() {
        if let Some((_, field)) = schema.fields().find(column) {
            is_there = true;
            if *field.data_type() != DataType::Null {
                return Ok(normalized_type(field.data_type()));
            }
        }
    }
    Err(Error::invalid(
        format!("index on `{column}`"),
        match is_there {
            true => {
                "the column has no value, so its type is unknown; build the index when it has one"
            }
            false => "there is no such column",
        },
    ))
}

/// The values of an indexed column in each staged partition.
fn values_of(
    column: &str,
    data_type: &DataType,
    added: &[StagedPartition],
) -> Result<Vec<(String, ArrayRef)>> {
    let mut values = Vec::new();
    for staged in added {
        let Some(Some(array)) = staged.indices.get(column) else {
            continue;
        };
        if array.data_type() != data_type {
            return Err(Error::invalid(
                format!("index on `{column}`"),
                format!(
                    "partition {:?} has the type {}, and the dataset {}",
                    staged.label,
                    type_name(array.data_type()),
                    type_name(data_type)
                ),
            ));
        }
        values.push((staged.label.clone(), Arc::clone(array)));
    }
    Ok(values)
}

fn borrowed(values: &[(String, ArrayRef)]) -> Vec<(&str, &ArrayRef)> {
    values
        .iter()
        .map(|(label, it)| (label.as_str(), it))
        .collect()
}

/// Writes an index file under a name that no other has.
pub(crate) async fn write_index(
    place: &Place,
    column: &str,
    index: &InvertedIndex,
) -> Result<String> {
    let mut time = chrono::Utc::now().naive_utc();
    loop {
        let text = time.format("%Y-%m-%dT%H:%M:%S%.6f").to_string();
        let key = index_key(&place.uuid, column, &text);
        match index.write(&place.store, &key).await {
            Ok(()) => return Ok(key),
            Err(Error::Parquet(pilum_parquet::Error::Store(
                pilum_store::Error::AlreadyExists { .. },
            ))) => time += chrono::Duration::microseconds(1),
            Err(error) => return Err(error),
        }
    }
}
