//! Building indices of data that is there already.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{StreamExt, TryStreamExt};

use crate::commit::{Change, Next, pass};
use crate::error::{Error, Result};
use crate::metadata::{DatasetMetadata, IndexReference};
use crate::names::stored_key;
use crate::partitions::Partition;
use crate::state::{Place, State};
use crate::update::{implicit_partitions, partition_keys, type_of, write_index};
use crate::write::inverted::{InvertedIndex, check_index_column, distinct_values, read_columns};

/// Files read at once.
const FILES_AT_ONCE: usize = 8;

/// The building of indices on its way through the attempts of its commit.
#[derive(Debug)]
pub(crate) struct BuildIndices {
    columns: Vec<String>,
    /// The values of each partition that was read, by column. Data files never change, so later attempts read only new ones.
    read: BTreeMap<String, BTreeMap<String, Option<ArrayRef>>>,
}

impl BuildIndices {
    pub(crate) fn of(columns: Vec<String>) -> Self {
        Self {
            columns,
            read: BTreeMap::new(),
        }
    }

    async fn next(&mut self, place: &Place, state: Option<&State>) -> Result<Next> {
        let Some(state) = state else {
            return Err(Error::NotFound {
                path: place.shown(),
                reason: "there is no such dataset".to_owned(),
            });
        };
        let keys = partition_keys(&state.document)?;
        let schemas: BTreeMap<String, SchemaRef> = state
            .schemas
            .iter()
            .map(|(table, it)| (table.clone(), Arc::clone(it.schema.schema())))
            .collect();
        let mut types: BTreeMap<&String, DataType> = BTreeMap::new();
        for column in &self.columns {
            check_index_column(column, &keys)?;
            types.insert(column, type_of(column, &schemas)?);
        }
        let partitions = match &state.document.partitions {
            Some(partitions) => partitions.clone(),
            None => implicit_partitions(place).await?,
        };
        self.read.retain(|label, _| partitions.contains_key(label));
        let missing = partitions.iter().filter(|it| !self.read.contains_key(it.0));
        let (columns, schemas) = (&self.columns, &schemas);
        let read = missing.map(|(label, partition)| async move {
            let values = values_of(place, partition, columns, schemas).await?;
            Ok::<_, Error>((label.clone(), values))
        });
        // The values are collected first: the stream borrows what the map of results is part of.
        let read: Vec<_> = futures::stream::iter(read.collect::<Vec<_>>())
            .buffer_unordered(FILES_AT_ONCE)
            .try_collect()
            .await?;
        self.read.extend(read);
        let mut document = DatasetMetadata::clone(&state.document);
        let mut new_files = Vec::new();
        pass(place, "kartothek.before_indices")?;
        for (column, data_type) in types {
            let added: Vec<(&str, &ArrayRef)> = self
                .read
                .iter()
                .filter_map(|(label, of_label)| {
                    Some((label.as_str(), of_label.get(column)?.as_ref()?))
                })
                .collect();
            let empty = InvertedIndex::empty(column, &data_type)?;
            let index = empty.merged(&HashSet::new(), &added)?.unwrap_or(empty);
            let key = write_index(place, column, &index).await?;
            new_files.push(key.clone());
            document
                .indices
                .insert(column.clone(), IndexReference::File(key));
        }
        Ok(Next {
            document,
            schemas: BTreeMap::new(),
            is_compatible: true,
            new_files,
        })
    }
}

/// The distinct values of some columns in one partition.
async fn values_of(
    place: &Place,
    partition: &Partition,
    columns: &[String],
    schemas: &BTreeMap<String, SchemaRef>,
) -> Result<BTreeMap<String, Option<ArrayRef>>> {
    let mut found: BTreeMap<String, Option<ArrayRef>> = BTreeMap::new();
    for (table, key) in partition.files.iter() {
        let Some(schema) = schemas.get(table) else {
            continue;
        };
        let wanted: Vec<String> = columns
            .iter()
            .filter(|it| schema.column_with_name(it).is_some())
            .cloned()
            .collect();
        if wanted.is_empty() {
            continue;
        }
        let key = stored_key(&place.store, key);
        let rows: RecordBatch = read_columns(&place.store, &key, &wanted, &place.limits).await?;
        for column in wanted {
            let Some(array) = rows.column_by_name(&column) else {
                continue;
            };
            let values = distinct_values(&column, array)?;
            let known = found.entry(column.clone()).or_default();
            *known = match (known.take(), values) {
                (Some(a), Some(b)) => {
                    let both = arrow_select::concat::concat(&[a.as_ref(), b.as_ref()]);
                    let both = both.map_err(|error| Error::invalid(&column, error.to_string()))?;
                    distinct_values(&column, &both)?
                }
                (a, b) => a.or(b),
            };
        }
    }
    Ok(found)
}

impl Change for BuildIndices {
    fn operation(&self) -> &'static str {
        "build_indices"
    }

    fn apply<'a>(
        &'a mut self,
        place: &'a Place,
        state: Option<&'a State>,
    ) -> BoxFuture<'a, Result<Next>> {
        self.next(place, state).boxed()
    }
}
