//! The source of a merge: pulled once, and kept for every execution of the statement, in memory or spilled.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use pilum_expr::{AdaptOptions, Missing};
use pilum_format::{Field, Schema};

use super::keys::{KeyHash, KeyTable, Keys, ROW_BYTES};
use super::spill::{Part, Parts, Segment, Spill};
use crate::error::{Error, Result};
use crate::read::held::held_bytes;
use crate::write::dictionary_builder::DictionaryBuilders;
use crate::write::incoming::Origin;
use crate::write::schema_adapter::SchemaAdapter;

/// Rows are partitioned into at most this many parts.
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
        state: &KeyHash,
    ) -> Result<Self> {
        let all = batches.iter().map(RecordBatch::num_rows).sum();
        let mut table = KeyTable::with_capacity(all, state.clone());
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
pub(super) fn keys_of(batch: &RecordBatch, on: &[String], state: &KeyHash) -> Result<Keys> {
    let columns = on.iter().map(|name| {
        let column = batch.column_by_name(name);
        column.ok_or_else(|| Error::invalid(format!("column `{name}`"), "is not in the source"))
    });
    let columns: Vec<&ArrayRef> = columns.collect::<Result<_>>()?;
    Keys::new(&columns, batch.num_rows(), state)
}

/// The kept source.
pub(super) struct Source {
    /// Its columns, in the order and the types of the table.
    pub(super) schema: SchemaRef,
    pub(super) state: KeyHash,
    on: Vec<String>,
    stored: Stored,
    kept: Kept,
}

enum Kept {
    InMemory(Arc<Loaded>),
    Aside { spill: Spill, parts: Vec<Part> },
}

impl Source {
    /// Pulls all rows. If they take more than `most_bytes`, they are spilled, partitioned by the hash of the key.
    ///
    /// # Errors
    /// `InvalidInput` for columns that do not fit the table, `Limit` for too many rows of one key.
    pub(super) fn pull(
        table: &Schema,
        on: &[String],
        batches: impl RecordBatchReader,
        adapt: AdaptOptions,
        most_bytes: u64,
    ) -> Result<Self> {
        let stored = Stored::new(table, &batches.schema(), adapt)?;
        let state = KeyHash::new();
        let (mut held, mut held_rows_bytes) = (Vec::new(), 0);
        let mut aside: Option<(Spill, Vec<Segment>)> = None;
        let mut num_bytes = 0;
        for batch in batches {
            let batch = batch.map_err(Error::Source)?;
            if batch.num_rows() == 0 {
                continue;
            }
            let batch = stored.keyed(&batch)?;
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
        let kept = match aside {
            None => {
                let held = held.iter().map(|batch| stored.whole(batch));
                let held = held.collect::<Result<_>>()?;
                Kept::InMemory(Arc::new(Loaded::new(held, num_bytes, on, &state)?))
            }
            Some((spill, mut segments)) => {
                let num_parts = (num_bytes / (most_bytes / 2).max(1) + 1).min(MAX_PARTS);
                let parts = usize::try_from(num_parts).unwrap_or(1);
                let mut parts = Parts::new(&spill, parts, most_bytes / 2);
                for batch in held {
                    segments.push(spill.put(&batch)?);
                }
                for segment in segments {
                    let batch = spill.get(segment)?;
                    let keys = keys_of(&stored.whole(&batch)?, on, &state)?;
                    parts.add(&batch, |row| part_of(&keys, row, num_parts))?;
                }
                let parts = parts.finish()?;
                let most = parts.iter().map(|part| part.num_bytes).max().unwrap_or(0);
                // Parts take about half of `most_bytes`, unless very many rows have one key.
                if most > most_bytes.saturating_mul(2) {
                    return Err(Error::limit(
                        "the largest group of rows in a merge's source with the same or similar keys",
                        format!("{most} bytes at once"),
                        format!("{most_bytes} bytes, a share of the memory limit"),
                    ));
                }
                Kept::Aside { spill, parts }
            }
        };
        Ok(Self {
            schema: Arc::clone(stored.adapter.stored_schema()),
            state,
            on: on.to_vec(),
            stored,
            kept,
        })
    }

    pub(super) fn num_parts(&self) -> usize {
        match &self.kept {
            Kept::InMemory(_) => 1,
            Kept::Aside { parts, .. } => parts.len(),
        }
    }

    /// The part that holds the rows of a key.
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
                let segments = part.segments.iter();
                let batches = segments.map(|segment| self.stored.whole(&spill.get(*segment)?));
                let batches = batches.collect::<Result<_>>()?;
                Loaded::new(batches, part.num_bytes, &self.on, &self.state).map(Arc::new)
            }
        }
    }
}

fn part_of(keys: &Keys, row: usize, num_parts: u64) -> usize {
    // The key table of a part uses the lowest bits of the hash. Rows with a null in the key match nothing and go to any part.
    let hash = keys.get(row).map_or(row as u64, |(_, hash)| hash >> 24);
    usize::try_from(hash % num_parts.max(1)).unwrap_or(0)
}

/// Fits batches to the columns and types of the table. Kept rows have plain keys in place of dictionary arrays: each batch of
/// a source may have its own dictionary, which would be spilled with every segment.
struct Stored {
    adapter: SchemaAdapter,
    dictionaries: Mutex<DictionaryBuilders>,
}

impl Stored {
    fn new(table: &Schema, batches: &ArrowSchema, adapt: AdaptOptions) -> Result<Self> {
        // A column that the source lacks keeps its values, unless all columns are asked for.
        let is_merged = |field: &&Field| {
            adapt.missing == Missing::Error || batches.fields().find(&field.name).is_some()
        };
        let fields = table.fields.iter().filter(is_merged);
        let common = Schema {
            fields: fields.cloned().collect(),
            metadata: table.metadata.clone(),
        };
        Ok(Self {
            adapter: SchemaAdapter::new(&Arc::new(common), batches, Origin::Caller(adapt))?,
            // The values of the source alone: which rows are written is not known yet, and so which values the table gets.
            dictionaries: Mutex::default(),
        })
    }

    fn dictionaries(&self) -> MutexGuard<'_, DictionaryBuilders> {
        self.dictionaries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch of the source with plain dictionary keys.
    fn keyed(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.adapter.keyed(batch, &mut self.dictionaries())
    }

    /// The rows of such a batch in the types of the table; all batches share their dictionaries.
    fn whole(&self, keyed: &RecordBatch) -> Result<RecordBatch> {
        let keyed = std::slice::from_ref(keyed);
        self.adapter.stored(keyed, &mut self.dictionaries())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, RecordBatchIterator};
    use arrow_schema::{DataType, Field as ArrowField};

    use super::*;

    const ROWS: i64 = 100_000;

    fn source(most_bytes: u64) -> Source {
        let field = ArrowField::new("id", DataType::Int64, false);
        let schema = Arc::new(ArrowSchema::new(vec![field]));
        let table = Schema::from_arrow(&schema, 0).unwrap();
        let batch = |first: i64| {
            let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 1000));
            RecordBatch::try_new(Arc::clone(&schema), vec![ids])
        };
        let batches = (0..ROWS).step_by(1000).map(batch);
        let batches = RecordBatchIterator::new(batches, Arc::clone(&schema));
        Source::pull(
            &table,
            &["id".to_owned()],
            batches,
            AdaptOptions::default(),
            most_bytes,
        )
        .unwrap()
    }

    #[test]
    fn many_rows_are_cut_into_parts_that_fit() {
        let most_bytes = 200_000;
        assert_eq!(source(u64::MAX).num_parts(), 1);
        let source = source(most_bytes);
        // 56 bytes a row, in parts of half of the limit.
        assert_eq!(source.num_parts(), 57);
        let mut ids: BTreeSet<i64> = BTreeSet::new();
        for part in 0..source.num_parts() {
            let loaded = source.load(part).unwrap();
            assert!(loaded.num_bytes < most_bytes, "{} bytes", loaded.num_bytes);
            for batch in &loaded.batches {
                let keys = keys_of(batch, &source.on, &source.state).unwrap();
                assert!((0..batch.num_rows()).all(|row| source.part_of(&keys, row) == part));
                ids.extend(batch.column(0).as_primitive::<Int64Type>().values());
            }
        }
        assert!(ids.into_iter().eq(0..ROWS));
    }

    /// A key table uses the lowest bits of a hash, and the highest seven.
    #[test]
    fn the_hashes_of_a_part_differ_in_the_bits_that_key_tables_use() {
        let source = source(u64::MAX);
        let loaded = source.load(0).unwrap();
        for num_parts in [64, 4096] {
            let mut lowest: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); 64];
            for batch in &loaded.batches {
                let keys = keys_of(batch, &source.on, &source.state).unwrap();
                for row in 0..keys.len() {
                    let (_, hash) = keys.get(row).unwrap();
                    let part = part_of(&keys, row, num_parts) % 64;
                    lowest[part].insert(hash % 64);
                }
            }
            assert!(lowest.iter().all(|hashes| hashes.len() == 64), "{lowest:?}");
        }
    }
}
