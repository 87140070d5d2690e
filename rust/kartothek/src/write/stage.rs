//! From rows in memory to data files under their final keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema, SchemaRef};
use pilum_common::Error as CommonError;
use pilum_parquet::{FileCompression, FileWriter, WriteOptions};
use pilum_store::{Durability, Store};
use tokio::task::JoinSet;

use super::inverted::{bug, check_index_column, distinct_values};
use super::schema_file::{pandas_text, with_pandas};
use super::split::{Buckets, Part, sorted, split};
use super::staged::StagedPartition;
use super::types::StorageAdapter;
use crate::error::{Error, Result};
use crate::history::marker_key;
use crate::names::{check_key, check_table, data_key, new_label};
use crate::schema::{PANDAS, normalized};

/// Files written at once.
const FILES_AT_ONCE: usize = 8;

/// Rows that become one partition, or one for each value of the partition keys.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    /// The name of the partition, which no other has; drawn at random if there is none.
    pub label: Option<String>,
    /// The rows of each table.
    pub tables: BTreeMap<String, RecordBatch>,
}

/// How rows become files.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Columns whose values go into the paths.
    pub partition_on: Vec<String>,
    /// Columns with a secondary index.
    pub indices: Vec<String>,
    /// Rows of each file are sorted by these columns.
    pub sort_by: Vec<String>,
    /// Into how many files the rows of one key go, by the hash of some columns.
    pub buckets: Option<Buckets>,
    /// Compression of the data files.
    pub compression: FileCompression,
    /// Whether only the schemas of the frames count, and no file is written.
    pub schema_only: bool,
    /// The number of rows in a row group. `None`: each file has one row group.
    pub row_group_rows: Option<usize>,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            partition_on: Vec::new(),
            indices: Vec::new(),
            sort_by: Vec::new(),
            buckets: None,
            schema_only: false,
            compression: FileCompression::Snappy,
            row_group_rows: None,
        }
    }
}

/// Writes the files of a frame. Nothing refers to them before a commit does.
pub(crate) async fn stage(
    store: &Store,
    uuid: &str,
    frame: Frame,
    layout: &Layout,
    marker: &str,
) -> Result<Vec<StagedPartition>> {
    check_frame(&frame, layout)?;
    let stem = match frame.label {
        Some(label) => checked_label(label)?,
        None => new_label(),
    };
    let mut plan = Plan::default();
    for (table, rows) in &frame.tables {
        plan.add(uuid, table, rows, &stem, layout)?;
    }
    if plan.partitions.is_empty() || layout.schema_only {
        return Ok(vec![StagedPartition {
            label: String::new(),
            files: BTreeMap::new(),
            schemas: plan.schemas,
            indices: BTreeMap::new(),
            partition_keys: layout.partition_on.clone(),
            marker: marker.to_owned(),
            num_rows: 0,
            num_bytes: 0,
        }]);
    }
    // A table without rows of one key has an empty file in that partition: all partitions list the same tables.
    plan.fill(uuid, layout);
    let marked = store.clone().with_durability(Durability::None);
    marked
        .put(&marker_key(uuid, marker), bytes::Bytes::new())
        .await?;
    let written = match write_files(store, std::mem::take(&mut plan.files), layout).await {
        Ok(written) => written,
        Err(error) => {
            remove(store, &[marker_key(uuid, marker)]).await;
            return Err(error);
        }
    };
    let mut staged = Vec::with_capacity(plan.partitions.len());
    for (label, planned) in plan.partitions {
        let sizes = planned.files.values().filter_map(|key| written.get(key));
        let (num_rows, num_bytes) = sizes.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        staged.push(StagedPartition {
            label,
            files: planned.files,
            schemas: plan.schemas.clone(),
            indices: planned.indices,
            partition_keys: layout.partition_on.clone(),
            marker: marker.to_owned(),
            num_rows,
            num_bytes,
        });
    }
    Ok(staged)
}

fn check_frame(frame: &Frame, layout: &Layout) -> Result<()> {
    if frame.tables.is_empty() {
        return Err(Error::invalid("the frame", "it has no table; pass rows"));
    }
    for table in frame.tables.keys() {
        check_table(table)?;
    }
    for column in &layout.indices {
        check_index_column(column, &layout.partition_on)?;
        let has = |rows: &RecordBatch| rows.schema_ref().column_with_name(column).is_some();
        if !frame.tables.values().any(has) {
            return Err(Error::invalid(
                format!("index on `{column}`"),
                "no table of the rows has this column",
            ));
        }
    }
    let keys: BTreeSet<&String> = layout.partition_on.iter().collect();
    match keys.len() == layout.partition_on.len() {
        true => Ok(()),
        false => Err(Error::invalid("partition_on", "a column is named twice")),
    }
}

fn checked_label(label: String) -> Result<String> {
    let refused = |reason: &str| Error::invalid(format!("label {label:?}"), reason);
    if label.is_empty() || label.starts_with('/') || label.ends_with('/') {
        return Err(refused("it must be a name, without a slash at its ends"));
    }
    if label.split('/').any(|part| part.split('=').count() == 2) {
        return Err(refused(
            "a component with one `=` would be taken for a partition key; choose another label",
        ));
    }
    Ok(label)
}

/// The data files to write, and the partitions that consist of these files.
#[derive(Default)]
struct Plan {
    schemas: BTreeMap<String, SchemaRef>,
    stored: BTreeMap<String, SchemaRef>,
    partitions: BTreeMap<String, Planned>,
    files: Vec<(String, RecordBatch)>,
}

#[derive(Default)]
struct Planned {
    files: BTreeMap<String, String>,
    indices: BTreeMap<String, Option<ArrayRef>>,
}

impl Plan {
    fn add(
        &mut self,
        uuid: &str,
        table: &str,
        rows: &RecordBatch,
        stem: &str,
        layout: &Layout,
    ) -> Result<()> {
        let adapter = StorageAdapter::of(rows.schema_ref())?;
        let schema = normalized(adapter.schema(), &layout.partition_on)
            .map_err(|error| named_table(error, table))?;
        self.schemas.insert(table.to_owned(), schema);
        let rows = sorted(&adapter.convert(rows, 0)?, &layout.sort_by)?;
        let columns = adapter.schema().fields().iter();
        let payload: Vec<_> = columns
            .filter(|it| !layout.partition_on.contains(it.name()))
            .cloned()
            .collect();
        self.stored
            .insert(table.to_owned(), Arc::new(Schema::new(payload)));
        for part in split(&rows, &layout.partition_on, layout.buckets.as_ref())? {
            let label = label_of(&part, stem, layout);
            let key = data_key(uuid, table, &label);
            check_key(&key)?;
            let planned = self.partitions.entry(label).or_default();
            planned.files.insert(table.to_owned(), key.clone());
            for column in &layout.indices {
                let Some(values) = part.rows.column_by_name(column) else {
                    continue;
                };
                let values = distinct_values(column, values)?;
                merge_values(planned.indices.entry(column.clone()).or_default(), values)?;
            }
            self.files.push((key, part.rows));
        }
        Ok(())
    }

    fn fill(&mut self, uuid: &str, layout: &Layout) {
        for (label, planned) in &mut self.partitions {
            for (table, schema) in &self.stored {
                if !planned.files.contains_key(table) {
                    let key = data_key(uuid, table, label);
                    planned.files.insert(table.clone(), key.clone());
                    self.files
                        .push((key, RecordBatch::new_empty(Arc::clone(schema))));
                }
            }
            for column in &layout.indices {
                planned.indices.entry(column.clone()).or_default();
            }
        }
    }
}

/// Joins the values of a column that two tables have.
fn merge_values(known: &mut Option<ArrayRef>, new: Option<ArrayRef>) -> Result<()> {
    *known = match (known.take(), new) {
        (Some(a), Some(b)) => {
            let both = arrow_select::concat::concat(&[a.as_ref(), b.as_ref()]).map_err(bug)?;
            distinct_values("index", &both)?
        }
        (a, b) => a.or(b),
    };
    Ok(())
}

fn named_table(error: Error, table: &str) -> Error {
    match error {
        Error::Common(CommonError::InvalidInput { what, reason }) => {
            Error::invalid(format!("table `{table}`: {what}"), reason)
        }
        other => other,
    }
}

fn label_of(part: &Part, stem: &str, layout: &Layout) -> String {
    let stem = match &layout.buckets {
        Some(buckets) if buckets.count > 1 => format!("{stem}-{}", part.bucket),
        _ => stem.to_owned(),
    };
    match part.path.is_empty() {
        true => stem,
        false => format!("{}/{stem}", part.path),
    }
}

/// Rows and bytes of each file that was written. After an error the files of the call are removed.
async fn write_files(
    store: &Store,
    files: Vec<(String, RecordBatch)>,
    layout: &Layout,
) -> Result<BTreeMap<String, (u64, u64)>> {
    let mut options = WriteOptions::default();
    options.compression = layout.compression;
    options.page_bytes = 1 << 20;
    options.row_group_rows = layout.row_group_rows.unwrap_or(usize::MAX >> 1);
    let options = Arc::new(options);
    let mut waiting = files.into_iter();
    let mut running = JoinSet::new();
    let mut written = BTreeMap::new();
    let mut failed = None;
    loop {
        while running.len() < FILES_AT_ONCE && failed.is_none() {
            let Some((key, rows)) = waiting.next() else {
                break;
            };
            let (store, options) = (store.clone(), Arc::clone(&options));
            running.spawn(async move {
                let sizes = write_file(&store, &key, rows, &options).await;
                (key, sizes)
            });
        }
        match running.join_next().await {
            None => break,
            Some(Ok((key, Ok(sizes)))) => {
                written.insert(key, sizes);
            }
            Some(Ok((_, Err(error)))) => failed = failed.or(Some(error)),
            Some(Err(error)) => {
                let what = error.to_string();
                failed = failed.or(Some(Error::bug(what)));
            }
        }
    }
    match failed {
        None => Ok(written),
        Some(error) => {
            let written: Vec<String> = written.into_keys().collect();
            remove(store, &written).await;
            Err(error)
        }
    }
}

async fn write_file(
    store: &Store,
    key: &str,
    rows: RecordBatch,
    options: &WriteOptions,
) -> Result<(u64, u64)> {
    let fields = rows.schema_ref().fields().iter();
    let fields: Vec<Field> = fields
        .map(|it| it.as_ref().clone().with_nullable(true))
        .collect();
    let schema = with_pandas(&Schema::new(fields));
    let mut options = options.clone();
    options
        .key_value_metadata
        .push((PANDAS.to_owned(), pandas_text(&schema)));
    let mut writer = FileWriter::create(store, key, &schema, &options)
        .await
        .map_err(|error| taken(error, key))?;
    writer.write(&rows).await?;
    let written = writer.finish().await.map_err(|error| taken(error, key))?;
    Ok((written.num_rows, written.num_bytes))
}

/// A label that was used before: its file must not be replaced, because the indices would name rows that are gone.
fn taken(error: pilum_parquet::Error, key: &str) -> Error {
    match error {
        pilum_parquet::Error::Store(pilum_store::Error::AlreadyExists { path }) => {
            Error::AlreadyExists {
                path,
                reason: format!(
                    "the file of this label is there already; choose another label than that of {key}"
                ),
            }
        }
        other => other.into(),
    }
}

/// Removes files that nothing refers to. A failure is told in an event, and the file is left for garbage collection.
pub(crate) async fn remove(store: &Store, keys: &[String]) {
    for key in keys {
        if let Err(error) = store.delete(key).await {
            tracing::warn!(target: "pilum::kartothek::cleanup", key, %error, "an unused file was not removed");
        }
    }
}
