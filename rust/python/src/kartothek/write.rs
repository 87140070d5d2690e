//! Kartothek datasets: everything that changes one.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use chrono::{DateTime, Utc};
use pilum_kartothek::{
    Buckets, Committed, DatasetWriter, DocumentForm, Existing, Frame, JsonText, Layout, Retention,
    StagedPartition, Update, scope_rows,
};
use pilum_parquet::FileCompression;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments::{self, Count, Pairs};
use crate::batch::Schema;
use crate::errors::{Ended, Failure, guarded};
use crate::ffi::{Source, import};
use crate::runtime::block_on;

/// A dataset, which need not exist yet, and what changes it.
#[derive(Debug)]
#[pyclass(frozen, module = "pilum._pilum")]
pub(crate) struct KartothekWriter(DatasetWriter);

/// Partition keys, indexed columns and the schemas of the tables.
type LayoutOfTables = (Vec<String>, Vec<String>, Vec<(String, Schema)>);

/// Keys, their bytes, versions, and keys that were kept.
type Garbage = (Vec<String>, u64, Vec<u64>, Vec<String>);

#[expect(
    clippy::needless_pass_by_value,
    reason = "PyO3 converts lists of Python to vectors and passes them by value"
)]
#[pymethods]
impl KartothekWriter {
    #[new]
    #[pyo3(signature = (uri, uuid, *, storage_options=None))]
    fn new(uri: &str, uuid: &str, storage_options: Option<Pairs>) -> PyResult<Self> {
        guarded(|| {
            let storage = arguments::storage_options(storage_options);
            let writer = DatasetWriter::open(uri, &storage, uuid);
            Ok(Self(writer.map_err(Failure::from)?))
        })
    }

    /// A name for a write, under which garbage collection spares its files.
    #[staticmethod]
    fn new_marker() -> String {
        DatasetWriter::new_marker()
    }

    fn layout(&self, py: Python<'_>) -> PyResult<Option<LayoutOfTables>> {
        guarded(|| {
            let found = block_on(py, self.0.layout())?.map_err(Failure::from)?;
            Ok(found.map(|it| {
                let schemas = it.schemas.into_iter();
                let schemas = schemas.map(|(table, schema)| (table, Schema(schema)));
                (it.partition_keys, it.indices, schemas.collect())
            }))
        })
    }

    /// Writes the files of some rows, cut into frames of at most `frame_rows` rows if one table without label is given.
    #[pyo3(signature = (
        tables, *, marker, label=None, partition_on, indices, sort_by, num_buckets=None, bucket_by, compression,
        row_group_rows=None, frame_rows, schema_only=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn stage(
        &self,
        py: Python<'_>,
        tables: Vec<(String, Bound<'_, PyAny>)>,
        marker: &str,
        label: Option<String>,
        partition_on: Vec<String>,
        indices: Vec<String>,
        sort_by: Vec<String>,
        num_buckets: Option<Count>,
        bucket_by: Vec<String>,
        compression: &str,
        row_group_rows: Option<Count>,
        frame_rows: Count,
        schema_only: bool,
    ) -> PyResult<Vec<String>> {
        guarded(|| {
            let rows_of = |it: Count| usize::try_from(it.get()).unwrap_or(usize::MAX);
            let layout = Layout {
                partition_on,
                indices,
                sort_by,
                buckets: num_buckets.map(|count| Buckets {
                    count: count.get(),
                    by: bucket_by,
                }),
                compression: compression_of(compression)?,
                schema_only,
                row_group_rows: row_group_rows.map(rows_of),
            };
            let limit = match (tables.len(), &label) {
                (1, None) => rows_of(frame_rows).max(1),
                _ => usize::MAX,
            };
            let mut sources = Vec::with_capacity(tables.len());
            for (table, rows) in &tables {
                sources.push((table.clone(), Rows::of(import(rows)?)));
            }
            let mut done = Vec::new();
            let written = self.stage_frames(
                py,
                &mut sources,
                label.as_deref(),
                &layout,
                (marker, limit),
                &mut done,
            );
            if let Err(ended) = written {
                block_on(py, self.0.discard(&done))?;
                return Err(ended.into());
            }
            let texts: Result<Vec<String>, _> = done.iter().map(StagedPartition::to_text).collect();
            Ok(texts.map_err(Failure::from)?)
        })
    }

    /// Checks that partitions which are written fit the dataset, without committing them.
    fn check(&self, py: Python<'_>, staged: Vec<String>) -> PyResult<()> {
        guarded(|| {
            let staged = parsed(&staged)?;
            Ok(block_on(py, self.0.check(&staged))?.map_err(Failure::from)?)
        })
    }

    /// Removes the files of partitions that are not committed.
    fn discard(&self, py: Python<'_>, staged: Vec<String>) -> PyResult<()> {
        guarded(|| {
            let staged = parsed(&staged)?;
            block_on(py, self.0.discard(&staged))
        })
    }

    /// The labels of the partitions in a scope: each batch has one row, with a value for some columns.
    fn in_scope(
        &self,
        py: Python<'_>,
        delete_scope: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<String>> {
        guarded(|| {
            let mut scope = Vec::new();
            for rows in &delete_scope {
                let mut source = import(rows)?;
                while let Some(batch) = source.pull(py)? {
                    scope.extend(scope_rows(&batch));
                }
            }
            let found = block_on(py, self.0.in_scope(&scope))?;
            Ok(found.map_err(Failure::from)?.into_iter().collect())
        })
    }

    /// Adds and removes partitions in one commit. Returns the number of the version and of the attempts.
    #[pyo3(signature = (
        staged, *, removed, metadata, partition_on=None, indices=None, existing, form=None, implicit=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn update(
        &self,
        py: Python<'_>,
        staged: Vec<String>,
        removed: Vec<String>,
        metadata: Vec<(String, String)>,
        partition_on: Option<Vec<String>>,
        indices: Option<Vec<String>>,
        existing: &str,
        form: Option<&str>,
        implicit: bool,
    ) -> PyResult<(u64, u32)> {
        guarded(|| {
            let existing = match existing {
                "update" => Existing::Update,
                "refuse" => Existing::Refuse,
                "replace" => Existing::Replace,
                "require" => Existing::Require,
                _ => return Err(Failure::bug(format!("existing={existing:?}")).into()),
            };
            let form = match form {
                None => None,
                Some("json") => Some(DocumentForm::Json),
                Some("msgpack") => Some(DocumentForm::MessagePack),
                Some(other) => {
                    return Err(Failure::invalid(format!(
                        "the form of a document is \"json\" or \"msgpack\", not {other:?}"
                    ))
                    .into());
                }
            };
            let update = Update {
                added: parsed(&staged)?,
                removed: removed.into_iter().collect(),
                user: user(metadata)?,
                partition_on,
                indices,
                implicit,
                existing,
                form,
            };
            let done = block_on(py, self.0.update(update))?;
            Ok(told(&done.map_err(Failure::from)?))
        })
    }

    fn build_indices(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<(u64, u32)> {
        guarded(|| {
            let done = block_on(py, self.0.build_indices(columns))?;
            Ok(told(&done.map_err(Failure::from)?))
        })
    }

    /// Number, microseconds since 1970, and operation of each version, oldest first.
    fn versions(&self, py: Python<'_>) -> PyResult<Vec<(u64, i64, String)>> {
        guarded(|| {
            let found = block_on(py, self.0.versions())?.map_err(Failure::from)?;
            Ok(found
                .into_iter()
                .map(|it| (it.version, it.time.timestamp_micros(), it.operation))
                .collect())
        })
    }

    /// The number of the newest version that is not after a time, in microseconds since 1970.
    fn version_at(&self, py: Python<'_>, micros: i64) -> PyResult<u64> {
        guarded(|| {
            let found = block_on(py, self.0.version_at(time_of(micros)?))?;
            Ok(found.map_err(Failure::from)?.version)
        })
    }

    /// The document of a version, as JSON.
    fn document_of<'py>(&self, py: Python<'py>, version: u64) -> PyResult<Bound<'py, PyBytes>> {
        guarded(|| {
            let (document, _) =
                block_on(py, self.0.open_version(version))?.map_err(Failure::from)?;
            let bytes = document
                .to_bytes(DocumentForm::Json)
                .map_err(Failure::from)?;
            Ok(PyBytes::new(py, &bytes))
        })
    }

    fn restore(&self, py: Python<'_>, version: u64) -> PyResult<(u64, u32)> {
        guarded(|| {
            let done = block_on(py, self.0.restore(version))?;
            Ok(told(&done.map_err(Failure::from)?))
        })
    }

    /// Keys, bytes and versions that were removed or would be, and keys that were kept because a write is in progress.
    #[pyo3(signature = (*, keep_versions, newer_than=None, dry_run))]
    fn collect_garbage(
        &self,
        py: Python<'_>,
        keep_versions: Count,
        newer_than: Option<i64>,
        dry_run: bool,
    ) -> PyResult<Garbage> {
        guarded(|| {
            let retention = Retention {
                keep_versions: usize::try_from(keep_versions.get()).unwrap_or(usize::MAX),
                newer_than: newer_than.map(time_of).transpose()?,
                dry_run,
            };
            let found = block_on(py, self.0.collect_garbage(&retention))?;
            let found = found.map_err(Failure::from)?;
            Ok((found.keys, found.num_bytes, found.versions, found.kept))
        })
    }

    fn delete(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        guarded(|| Ok(block_on(py, self.0.delete())?.map_err(Failure::from)?))
    }

    fn copy_to(
        &self,
        py: Python<'_>,
        target: &Self,
        metadata: Vec<(String, String)>,
    ) -> PyResult<()> {
        guarded(|| {
            let metadata = user(metadata)?;
            let copied = block_on(py, self.0.copy_to(&target.0, &metadata))?;
            Ok(copied.map(drop).map_err(Failure::from)?)
        })
    }

    fn __repr__(&self) -> String {
        format!("<pilum._pilum.KartothekWriter in {}>", self.0.store().uri())
    }
}

impl KartothekWriter {
    fn stage_frames(
        &self,
        py: Python<'_>,
        sources: &mut [(String, Rows)],
        label: Option<&str>,
        layout: &Layout,
        (marker, limit): (&str, usize),
        done: &mut Vec<StagedPartition>,
    ) -> Result<(), Ended> {
        let mut is_first = true;
        loop {
            let mut tables = BTreeMap::new();
            for (table, rows) in sources.iter_mut() {
                tables.insert(table.clone(), rows.next(py, limit)?);
            }
            if !is_first && tables.values().all(|rows| rows.num_rows() == 0) {
                return Ok(());
            }
            is_first = false;
            let frame = Frame {
                label: label.map(str::to_owned),
                tables,
            };
            let staged = block_on(py, self.0.stage(frame, layout, marker))?;
            done.extend(staged.map_err(Failure::from)?);
            if limit == usize::MAX {
                return Ok(());
            }
        }
    }
}

/// The rows of one table, and those that were pulled and belong to the next frame.
struct Rows {
    source: Source,
    rest: Option<RecordBatch>,
}

impl Rows {
    fn of(source: Source) -> Self {
        Self { source, rest: None }
    }

    /// The next rows, at most `limit`, as one batch.
    fn next(&mut self, py: Python<'_>, limit: usize) -> Result<RecordBatch, Ended> {
        let schema = SchemaRef::clone(self.source.schema());
        let mut batches = Vec::new();
        let mut count = 0;
        while count < limit {
            let batch = match self.rest.take() {
                Some(batch) => batch,
                None => match self.source.pull(py)? {
                    Some(batch) => batch,
                    None => break,
                },
            };
            let taken = batch.num_rows().min(limit - count);
            if taken < batch.num_rows() {
                self.rest = Some(batch.slice(taken, batch.num_rows() - taken));
            }
            count += taken;
            batches.push(batch.slice(0, taken));
        }
        if let [batch] = batches.as_slice() {
            return Ok(batch.clone());
        }
        let joined = concat_batches(&schema, &batches);
        Ok(joined.map_err(|error| Failure::invalid(error.to_string()))?)
    }
}

fn told(done: &Committed) -> (u64, u32) {
    (done.version, done.attempts)
}

fn parsed(staged: &[String]) -> Result<Vec<StagedPartition>, Failure> {
    let parsed = staged.iter().map(|it| StagedPartition::from_text(it));
    Ok(parsed.collect::<Result<_, _>>()?)
}

fn user(metadata: Vec<(String, String)>) -> Result<BTreeMap<String, JsonText>, Failure> {
    let mut user = BTreeMap::new();
    for (name, text) in metadata {
        let value = JsonText::parse(&text)
            .map_err(|reason| Failure::invalid(format!("metadata {name:?}: {reason}")))?;
        user.insert(name, value);
    }
    Ok(user)
}

fn time_of(micros: i64) -> Result<DateTime<Utc>, Failure> {
    DateTime::from_timestamp_micros(micros)
        .ok_or_else(|| Failure::invalid(format!("{micros} microseconds are no time")))
}

fn compression_of(word: &str) -> Result<FileCompression, Failure> {
    Ok(match word.to_ascii_lowercase().as_str() {
        "none" | "uncompressed" => FileCompression::Uncompressed,
        "snappy" => FileCompression::Snappy,
        "zstd" => FileCompression::Zstd(None),
        "gzip" => FileCompression::Gzip(None),
        "brotli" => FileCompression::Brotli(None),
        _ => {
            return Err(Failure::invalid(format!(
                "compression is \"snappy\", \"zstd\", \"gzip\", \"brotli\" or \"none\", not {word:?}"
            )));
        }
    })
}
