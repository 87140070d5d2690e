//! The source of a merge: pulled once, kept for as many turns as the statement takes, in memory or put aside.

use std::collections::hash_map::RandomState;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use pilum_file::Schema;

use super::keys::{KeyTable, Keys, ROW_BYTES};
use super::spill::{Part, Parts, Segment, Spill, held_bytes};
use crate::conform::Conform;
use crate::error::{Error, Result};

/// Most parts that rows are cut into.
const MAX_PARTS: u64 = 4096;

/// Rows of the source whose keys have the same hash, modulo the number of parts.
pub(super) struct Loaded {
    pub(super) batches: Vec<RecordBatch>,
    /// Number of the first row of each batch.
    starts: Vec<usize>,
    pub(super) num_rows: usize,
    pub(super) num_bytes: u64,
    pub(super) table: KeyTable,
}

impl Loaded {
    fn new(
        batches: Vec<RecordBatch>,
        num_bytes: u64,
        on: &[String],
        state: &RandomState,
    ) -> Result<Self> {
        let mut table = KeyTable::default();
        let mut starts = Vec::with_capacity(batches.len());
        let mut num_rows = 0;
        for batch in &batches {
            starts.push(num_rows);
            num_rows += batch.num_rows();
            table.add(&keys_of(batch, on, state)?)?;
        }
        Ok(Self {
            batches,
            starts,
            num_rows,
            num_bytes,
            table,
        })
    }

    /// The batch that a row is in, and its number there.
    pub(super) fn place(&self, row: u32) -> (usize, usize) {
        let row = usize::try_from(row).unwrap_or(usize::MAX);
        let batch = self.starts.partition_point(|start| *start <= row);
        let batch = batch.saturating_sub(1);
        (batch, row - self.starts.get(batch).copied().unwrap_or(0))
    }
}

/// The keys of a batch.
pub(super) fn keys_of(batch: &RecordBatch, on: &[String], state: &RandomState) -> Result<Keys> {
    let columns = on.iter().map(|name| {
        let column = batch.column_by_name(name);
        column.ok_or_else(|| Error::invalid(format!("column `{name}`"), "is not in the source"))
    });
    let columns: Vec<&ArrayRef> = columns.collect::<Result<_>>()?;
    Keys::new(&columns, batch.num_rows(), state)
}

/// The source, kept.
pub(super) struct Source {
    pub(super) schema: SchemaRef,
    pub(super) state: RandomState,
    on: Vec<String>,
    kept: Kept,
}

enum Kept {
    InMemory(Arc<Loaded>),
    Aside { spill: Spill, parts: Vec<Part> },
}

impl Source {
    /// Pulls all rows. More than `most_bytes` of them are put aside, cut into parts by the hash of the key.
    ///
    /// # Errors
    /// `InvalidInput` for columns that do not fit the table, `Limit` for too many rows of one key.
    pub(super) fn pull(
        table: &Schema,
        on: &[String],
        batches: impl RecordBatchReader,
        most_bytes: u64,
    ) -> Result<Self> {
        let casts = Casts::new(table, &batches.schema())?;
        let state = RandomState::new();
        let (mut held, mut held_rows_bytes) = (Vec::new(), 0);
        let mut aside: Option<(Spill, Vec<Segment>)> = None;
        let mut num_bytes = 0;
        for batch in batches {
            let batch = casts.apply(&batch.map_err(Error::Source)?)?;
            if batch.num_rows() == 0 {
                continue;
            }
            let bytes = held_bytes(&batch) + ROW_BYTES * batch.num_rows() as u64;
            num_bytes += bytes;
            held_rows_bytes += bytes;
            held.push(batch);
            if held_rows_bytes > most_bytes {
                if aside.is_none() {
                    aside = Some((Spill::new()?, Vec::new()));
                }
                if let Some((spill, segments)) = &mut aside {
                    for batch in held.drain(..) {
                        segments.push(spill.put(&batch)?);
                    }
                }
                held_rows_bytes = 0;
            }
        }
        let schema = Arc::clone(&casts.schema);
        let kept = match aside {
            None => Kept::InMemory(Arc::new(Loaded::new(held, num_bytes, on, &state)?)),
            Some((spill, mut segments)) => {
                let num_parts = (num_bytes / (most_bytes / 2).max(1) + 1).min(MAX_PARTS);
                let parts = usize::try_from(num_parts).unwrap_or(1);
                let mut parts = Parts::new(&spill, parts, most_bytes / 2);
                for batch in held {
                    segments.push(spill.put(&batch)?);
                }
                for segment in segments {
                    let batch = spill.get(segment)?;
                    let keys = keys_of(&batch, on, &state)?;
                    parts.add(&batch, |row| part_of(&keys, row, num_parts))?;
                }
                let parts = parts.finish()?;
                let most = parts.iter().map(|part| part.num_bytes).max().unwrap_or(0);
                // Parts are about half as large, unless very many rows have one key.
                if most > most_bytes.saturating_mul(2) {
                    return Err(Error::Limit {
                        what: "the largest part of a merge's source, parted by key,".to_owned(),
                        needed: format!("{most} bytes at once"),
                        limit: format!("{most_bytes} bytes, a share of the memory limit"),
                    });
                }
                Kept::Aside { spill, parts }
            }
        };
        Ok(Self {
            schema,
            state,
            on: on.to_vec(),
            kept,
        })
    }

    pub(super) fn num_parts(&self) -> usize {
        match &self.kept {
            Kept::InMemory(_) => 1,
            Kept::Aside { parts, .. } => parts.len(),
        }
    }

    /// The part that the rows of a key are in.
    pub(super) fn part_of(&self, keys: &Keys, row: usize) -> usize {
        part_of(keys, row, self.num_parts() as u64)
    }

    /// All rows, if they are in memory.
    pub(super) fn whole(&self) -> Option<&Arc<Loaded>> {
        match &self.kept {
            Kept::InMemory(loaded) => Some(loaded),
            Kept::Aside { .. } => None,
        }
    }

    /// The rows of a part.
    pub(super) fn load(&self, part: usize) -> Result<Arc<Loaded>> {
        match &self.kept {
            Kept::InMemory(loaded) => Ok(Arc::clone(loaded)),
            Kept::Aside { spill, parts } => {
                let part = parts.get(part).cloned().unwrap_or_default();
                let batches = part.segments.iter().map(|segment| spill.get(*segment));
                let batches = batches.collect::<Result<_>>()?;
                Loaded::new(batches, part.num_bytes, &self.on, &self.state).map(Arc::new)
            }
        }
    }
}

fn part_of(keys: &Keys, row: usize, num_parts: u64) -> usize {
    // Rows without a key that could be equal to another are spread.
    let hash = keys.get(row).map_or(row as u64, |(_, hash)| hash);
    usize::try_from(hash % num_parts.max(1)).unwrap_or(0)
}

/// Brings columns to the types of the table, where those hold the same.
struct Casts {
    schema: SchemaRef,
}

impl Casts {
    fn new(table: &Schema, batches: &ArrowSchema) -> Result<Self> {
        let names: Vec<&String> = batches.fields().iter().map(|field| field.name()).collect();
        let fields = table.fields.iter();
        let fields = fields.filter(|field| names.contains(&&field.name));
        let common = Schema {
            fields: fields.cloned().collect(),
            metadata: table.metadata.clone(),
        };
        // Says all that does not fit at once.
        Conform::new(&Arc::new(common), batches)?;
        let field = |field: &Field| {
            let stored = table.fields.iter().find(|it| it.name == *field.name());
            let stored = stored.map_or(field.data_type(), |it| &it.data_type);
            // What is nested is brought to its type by the writer.
            let data_type = if stored.is_nested() {
                field.data_type()
            } else {
                stored
            };
            Field::new(field.name(), data_type.clone(), true)
        };
        let fields: Vec<Field> = batches.fields().iter().map(|it| field(it)).collect();
        Ok(Self {
            schema: Arc::new(ArrowSchema::new(fields)),
        })
    }

    fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        let cast = |(field, column): (&Arc<Field>, &ArrayRef)| -> Result<ArrayRef> {
            if column.data_type() == field.data_type() || is_dictionary(column.data_type()) {
                return Ok(Arc::clone(column));
            }
            cast_with_options(column, field.data_type(), &options).map_err(|error| {
                Error::invalid(format!("column `{}`", field.name()), error.to_string())
            })
        };
        let columns = self.schema.fields().iter().zip(batch.columns()).map(cast);
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows)
            .map_err(|error| Error::invalid("the source", error.to_string()))
    }
}

fn is_dictionary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(..))
}
