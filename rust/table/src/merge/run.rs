//! One execution of a merge on one version.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_buffer::bit_util;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::filter::{filter, filter_record_batch, prep_null_mask_filter};
use arrow_select::interleave::interleave;
use futures::channel::mpsc::{Sender, channel};
use futures::stream::{BoxStream, StreamExt};
use futures::{SinkExt, join};
use pilum_expr::{Expr, col};
use tokio::runtime::Handle;

use super::condition::Condition;
use super::keys::shown;
use super::source::{Loaded, Source, keys_of};
use super::spill::{Part, Parts, Spill};
use super::{MergeOptions, MergeOutcome, WhenMatched, WhenNotMatched, WhenNotMatchedBySource};
use crate::commit::{Committed, Work, commit_work, remove_files};
use crate::error::{Error, Result};
use crate::premise::{NewRows, Premise};
use crate::removal::RemovedRows;
use crate::scan::{Projection, ROW_ADDRESS, ROW_ID, ScanOptions};
use crate::snapshot::Snapshot;
use crate::transaction::Operation;
use crate::update::{integers, keep_ids};
use crate::write::{WriteOptions, write_stream};

/// Whether a row without a partner is to be deleted: the scanned column of the condition.
const UNMATCHED: &str = "_unmatched";
/// Pairs that are rewritten at once: at most so many, of at most so many bytes.
const CHUNK_ROWS: u64 = 1 << 16;
const CHUNK_BYTES: u64 = 8 << 20;
/// Keys of the table that wait to be put aside, when nobody says how much memory there is.
const WAITING_BYTES: u64 = 128 << 20;

pub(super) async fn merge(
    base: &Snapshot,
    on: &[String],
    source: &Source,
    options: &MergeOptions,
    handle: &Handle,
) -> Result<MergeOutcome> {
    let mut merge = Merge::new(base, on, source, options)?;
    let schema = Arc::clone(&merge.output);
    let (mut sender, receiver) = channel(1);
    let produced = async {
        if let Err(error) = merge.run(&mut sender, handle).await {
            // The writer ends with this error and removes its files; one that is gone has an error of its own.
            let _ = sender.send(Err(error)).await;
        }
        drop(sender);
    };
    let layout = WriteOptions::default();
    let written = write_stream(base.store(), Some(base), &schema, receiver, &layout);
    let ((), written) = join!(produced, written);
    let mut written = written?;
    let found = merge.found;
    if found.removed.is_empty() && written.fragments.is_empty() {
        return Ok(MergeOutcome::nothing(Committed::nothing(base.clone())));
    }
    let mut files = written.paths();
    let prepared = async {
        if base.manifest().has_stable_row_ids() {
            keep_ids(&mut written, &found.row_ids);
        }
        found.removed.write(base, &mut files).await
    };
    let (updated, removed_ids) = match prepared.await {
        Ok(prepared) => prepared,
        Err(error) => {
            remove_files(base.store(), &files).await;
            return Err(error);
        }
    };
    let operation = Operation::Update {
        removed_ids,
        updated,
        added: written.fragments,
        fields_modified: Vec::new(),
        fields_preserving_index: Vec::new(),
        rewrites_columns: false,
    };
    let has_key = |batch: &RecordBatch| has_key(on, source, batch);
    let premise = Premise {
        kept: &found.kept,
        new_rows: new_rows(source, options, on, handle, &has_key),
    };
    let work = Work {
        transaction: options.statement.transaction(base.version(), operation),
        removed: Some(&found.removed),
        premise: Some(&premise),
        dictionaries: written.dictionaries,
        files,
    };
    let commit = options.statement.commit();
    let committed = commit_work(base.store(), Some(base), work, &commit).await?;
    if committed.was_committed_before {
        return Ok(MergeOutcome::nothing(committed));
    }
    Ok(MergeOutcome {
        committed,
        num_inserted_rows: found.num_inserted,
        num_updated_rows: found.num_updated,
        num_deleted_rows: found.num_deleted,
        num_bytes: written.num_bytes,
    })
}

/// What rows that others add meanwhile mean for this merge.
fn new_rows<'a>(
    source: &Source,
    options: &MergeOptions,
    on: &'a [String],
    handle: &'a Handle,
    has_key: &'a (dyn Fn(&RecordBatch) -> Result<bool> + Sync),
) -> NewRows<'a> {
    let deletes_others = options.when_not_matched_by_source != WhenNotMatchedBySource::Keep;
    if deletes_others {
        return NewRows::Forbidden;
    }
    match (source.whole(), options.when_not_matched) {
        (Some(_), _) => NewRows::Unless {
            columns: on,
            forbids: has_key,
            handle,
        },
        (None, WhenNotMatched::Insert) => NewRows::Forbidden,
        // As with any update, rows that come meanwhile come afterwards.
        (None, WhenNotMatched::Ignore) => NewRows::Allowed,
    }
}

/// Whether a row of the batch has the key of a source row that is in memory.
fn has_key(on: &[String], source: &Source, batch: &RecordBatch) -> Result<bool> {
    let Some(loaded) = source.whole() else {
        return Ok(true);
    };
    let keys = keys_of(batch, on, &source.state)?;
    Ok((0..keys.len()).any(|row| {
        keys.get(row)
            .is_some_and(|(key, hash)| loaded.table.find(key, hash).next().is_some())
    }))
}

/// What a merge found so far.
#[derive(Default)]
struct Found {
    removed: RemovedRows,
    /// Rows that were matched and stay as they are.
    kept: RemovedRows,
    /// The ids of rewritten rows, in the order in which they are written.
    row_ids: Vec<u64>,
    num_inserted: u64,
    num_updated: u64,
    num_deleted: u64,
}

/// Rows of the table with a source row each, waiting to be rewritten together.
#[derive(Default)]
struct Pairs {
    addresses: Vec<u64>,
    row_ids: Vec<u64>,
    source_rows: Vec<u32>,
}

/// One bit for each source row.
struct Bits(Vec<u8>);

impl Bits {
    fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(8)])
    }

    fn get(&self, bit: usize) -> bool {
        bit / 8 < self.0.len() && bit_util::get_bit(&self.0, bit)
    }

    fn set(&mut self, bit: usize) {
        if bit / 8 < self.0.len() {
            bit_util::set_bit(&mut self.0, bit);
        }
    }
}

struct Merge<'a> {
    base: &'a Snapshot,
    on: &'a [String],
    source: &'a Source,
    options: &'a MergeOptions,
    stable: bool,
    condition: Option<Condition>,
    /// The columns that are written: those of the table, in the source's types where it has them.
    output: SchemaRef,
    /// What an update needs of the rows of the table.
    taken: Vec<String>,
    found: Found,
}

fn failed(error: &ArrowError) -> Error {
    Error::invalid("the merge", error.to_string())
}

impl<'a> Merge<'a> {
    fn new(
        base: &'a Snapshot,
        on: &'a [String],
        source: &'a Source,
        options: &'a MergeOptions,
    ) -> Result<Self> {
        let table = base.schema();
        let missing = |name: &String| source.schema.column_with_name(name).is_none();
        let updates = matches!(options.when_matched, WhenMatched::Update(_));
        let mut taken: Vec<String> = Vec::new();
        let mut output = Vec::with_capacity(table.fields.len());
        for field in &table.fields {
            let data_type = match source.schema.column_with_name(&field.name) {
                Some((_, column)) => column.data_type(),
                None => &field.data_type,
            };
            output.push(Field::new(&field.name, data_type.clone(), true));
            if !missing(&field.name) {
                continue;
            }
            if updates {
                taken.push(field.name.clone());
            }
            if !field.nullable && options.when_not_matched == WhenNotMatched::Insert {
                let reason = "is not in the source and may not be null in inserted rows; add it, or insert no \
                              rows: when_not_matched=\"ignore\"";
                return Err(Error::invalid(format!("column `{}`", field.name), reason));
            }
        }
        // Columns may have gone since the source was pulled.
        if let Some(gone) = source
            .schema
            .fields()
            .iter()
            .find(|column| table.fields.iter().all(|it| it.name != *column.name()))
        {
            let reason = "is not in the table any more; do the merge again without it";
            return Err(Error::invalid(format!("column `{}`", gone.name()), reason));
        }
        let condition = match &options.when_matched {
            WhenMatched::Update(Some(condition)) => {
                let condition = Condition::new(condition, &source.schema, &table.to_arrow())?;
                for name in &condition.target {
                    if !taken.contains(name) {
                        taken.push(name.clone());
                    }
                }
                Some(condition)
            }
            _ => None,
        };
        Ok(Self {
            base,
            on,
            source,
            options,
            stable: base.manifest().has_stable_row_ids(),
            condition,
            output: Arc::new(Schema::new(output)),
            taken,
            found: Found::default(),
        })
    }

    async fn run(&mut self, out: &mut Sender<Result<RecordBatch>>, handle: &Handle) -> Result<()> {
        let mut scanned = self.scan(handle)?;
        let inserts = self.options.when_not_matched == WhenNotMatched::Insert;
        let num_parts = self.source.num_parts();
        let mut matched = Vec::with_capacity(num_parts);
        if num_parts == 1 {
            let loaded = self.source.load(0)?;
            let mut seen = Bits::new(loaded.num_rows);
            let mut pairs = Pairs::default();
            while let Some(batch) = scanned.next().await {
                self.probe(&loaded, &batch?, &mut seen, &mut pairs, out)
                    .await?;
            }
            self.rewrite(&loaded, &mut pairs, out).await?;
            matched.push(seen);
        } else {
            let (aside, parts) = self.put_aside(scanned).await?;
            for (number, part) in parts.iter().enumerate() {
                let loaded = self.source.load(number)?;
                let mut seen = Bits::new(loaded.num_rows);
                let mut pairs = Pairs::default();
                for segment in &part.segments {
                    let batch = aside.get(*segment)?;
                    self.probe(&loaded, &batch, &mut seen, &mut pairs, out)
                        .await?;
                }
                self.rewrite(&loaded, &mut pairs, out).await?;
                matched.push(seen);
            }
        }
        // Behind all rewritten rows, which bring their ids.
        if inserts {
            for (number, seen) in matched.iter().enumerate() {
                let loaded = self.source.load(number)?;
                self.insert(&loaded, seen, out).await?;
            }
        }
        Ok(())
    }

    /// Keys, addresses and, where they stay, ids of all rows of the table.
    fn scan(&self, handle: &Handle) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let mut names = self.on.to_vec();
        names.push(ROW_ADDRESS.to_owned());
        if self.stable {
            names.push(ROW_ID.to_owned());
        }
        let columns = match &self.options.when_not_matched_by_source {
            WhenNotMatchedBySource::Delete(Some(condition)) => {
                let columns = names.into_iter().map(|name| {
                    let column = col(&name);
                    (name, column)
                });
                let mut columns: Vec<(String, Expr)> = columns.collect();
                columns.push((UNMATCHED.to_owned(), condition.clone()));
                Projection::Expressions(columns)
            }
            _ => Projection::Names(names),
        };
        let statement = &self.options.statement;
        let scan = self.base.scan(ScanOptions {
            columns,
            memory_limit: statement.memory_limit.map(|limit| limit / 4),
            ..statement.scan(None)
        })?;
        if let Some((_, field)) = scan.schema().column_with_name(UNMATCHED)
            && !matches!(field.data_type(), DataType::Boolean | DataType::Null)
        {
            let reason = format!(
                "its condition is {}, it must be true or false",
                field.data_type()
            );
            return Err(Error::invalid("when_not_matched_by_source", reason));
        }
        Ok(scan.batches(handle))
    }

    /// Cuts the scanned rows into the parts of the source.
    async fn put_aside(
        &self,
        mut scanned: BoxStream<'static, Result<RecordBatch>>,
    ) -> Result<(Spill, Vec<Part>)> {
        let spill = Spill::new()?;
        let limit = self.options.statement.memory_limit;
        let most_waiting = limit.map_or(WAITING_BYTES, |limit| limit / 8);
        let mut parts = Parts::new(&spill, self.source.num_parts(), most_waiting);
        while let Some(batch) = scanned.next().await {
            let batch = batch?;
            let keys = keys_of(&batch, self.on, &self.source.state)?;
            parts.add(&batch, |row| self.source.part_of(&keys, row))?;
        }
        let parts = parts.finish()?;
        Ok((spill, parts))
    }

    /// Finds the partners of rows of the table.
    async fn probe(
        &mut self,
        loaded: &Loaded,
        batch: &RecordBatch,
        seen: &mut Bits,
        pairs: &mut Pairs,
        out: &mut Sender<Result<RecordBatch>>,
    ) -> Result<()> {
        let keys = keys_of(batch, self.on, &self.source.state)?;
        let addresses = integers(batch, ROW_ADDRESS)?;
        let row_ids = if self.stable {
            Some(integers(batch, ROW_ID)?)
        } else {
            None
        };
        let unmatched = self.unmatched(batch);
        let most = most_pairs(loaded);
        for (row, &address) in addresses.iter().enumerate() {
            let key = keys.get(row);
            let mut partners = key
                .into_iter()
                .flat_map(|(key, hash)| loaded.table.find(key, hash));
            let Some(first) = partners.next() else {
                if unmatched.as_ref().is_some_and(|gone| gone.value(row)) {
                    self.found.removed.extend([address]);
                    self.found.num_deleted += 1;
                }
                continue;
            };
            let ambiguous = || {
                let key = shown(self.on, batch, row);
                Error::invalid(
                    "the source",
                    format!(
                        "several rows match the same row of the table ({key}); leave one of them"
                    ),
                )
            };
            match &self.options.when_matched {
                WhenMatched::Keep => {
                    self.found.kept.extend([address]);
                    // Rows of one key are seen together.
                    if !seen.get(first as usize) {
                        seen.set(first as usize);
                        partners.for_each(|partner| seen.set(partner as usize));
                    }
                }
                WhenMatched::Fail => {
                    let key = shown(self.on, batch, row);
                    let reason = format!("a row of the table has the same key ({key})");
                    return Err(Error::invalid("the source", reason));
                }
                WhenMatched::Delete => {
                    if partners.next().is_some() {
                        return Err(ambiguous());
                    }
                    seen.set(first as usize);
                    self.found.removed.extend([address]);
                    self.found.num_deleted += 1;
                }
                WhenMatched::Update(condition) => {
                    let mut partner = Some(first);
                    while let Some(source_row) = partner {
                        seen.set(source_row as usize);
                        pairs.addresses.push(address);
                        pairs.source_rows.push(source_row);
                        pairs.row_ids.extend(row_ids.and_then(|ids| ids.get(row)));
                        partner = partners.next();
                        if partner.is_some() && condition.is_none() {
                            return Err(ambiguous());
                        }
                    }
                    if pairs.addresses.len() >= most {
                        self.rewrite(loaded, pairs, out).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Which rows go when they have no partner.
    fn unmatched(&self, batch: &RecordBatch) -> Option<BooleanArray> {
        let all = || BooleanArray::from(vec![true; batch.num_rows()]);
        match &self.options.when_not_matched_by_source {
            WhenNotMatchedBySource::Keep => None,
            WhenNotMatchedBySource::Delete(None) => Some(all()),
            WhenNotMatchedBySource::Delete(Some(_)) => {
                let column = batch.column_by_name(UNMATCHED)?.as_boolean_opt()?;
                // False where it is null.
                Some(match column.null_count() {
                    0 => column.clone(),
                    _ => prep_null_mask_filter(column),
                })
            }
        }
    }

    /// Writes waiting pairs: the values of the source over those of the table.
    async fn rewrite(
        &mut self,
        loaded: &Loaded,
        pairs: &mut Pairs,
        out: &mut Sender<Result<RecordBatch>>,
    ) -> Result<()> {
        let Pairs {
            mut addresses,
            mut row_ids,
            mut source_rows,
        } = std::mem::take(pairs);
        if addresses.is_empty() {
            return Ok(());
        }
        let mut table = match self.taken.as_slice() {
            [] => None,
            names => {
                let columns = Projection::Names(names.to_vec());
                Some(self.base.take_addresses(&addresses, columns).await?)
            }
        };
        if let Some(condition) = &self.condition {
            let target = condition.target.iter().map(|name| {
                let column = table.as_ref().and_then(|table| table.column_by_name(name));
                column.cloned().ok_or_else(|| no_column(name))
            });
            let target = target.collect::<Result<_>>()?;
            let of_source = gather(loaded, &source_rows, &condition.source)?;
            let mask = condition.mask(of_source, target, addresses.len())?;
            let left = addresses.iter().zip(mask.values().iter());
            let left = left.filter(|(_, passed)| !passed);
            self.found.kept.extend(left.map(|(address, _)| *address));
            addresses = kept(&addresses, &mask);
            source_rows = kept(&source_rows, &mask);
            row_ids = kept(&row_ids, &mask);
            table = match table {
                Some(table) => Some(filter_record_batch(&table, &mask).map_err(|it| failed(&it))?),
                None => None,
            };
            // Partners of one row stand together.
            if let Some(place) = addresses.windows(2).position(|pair| pair[0] == pair[1]) {
                let (batch, row) = loaded.place(source_rows[place]);
                let key = shown(self.on, &loaded.batches[batch], row);
                let reason = format!(
                    "several rows match the same row of the table ({key}) and pass the condition; leave one of them"
                );
                return Err(Error::invalid("the source", reason));
            }
        }
        if addresses.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = self.source_names();
        let mut of_source = gather(loaded, &source_rows, &names)?.into_iter();
        let mut columns = Vec::with_capacity(self.output.fields().len());
        for field in self.output.fields() {
            let column = match names.contains(field.name()) {
                true => of_source.next(),
                false => {
                    let column = table.as_ref();
                    column.and_then(|table| table.column_by_name(field.name()).cloned())
                }
            };
            columns.push(column.ok_or_else(|| no_column(field.name()))?);
        }
        let num_rows = addresses.len();
        self.found.num_updated += num_rows as u64;
        self.found.removed.extend(addresses);
        self.found.row_ids.extend(row_ids);
        self.send(columns, num_rows, out).await
    }

    /// The columns of the source, in the order in which they are written.
    fn source_names(&self) -> Vec<String> {
        let fields = self.output.fields().iter();
        let given = fields.filter(|it| self.source.schema.column_with_name(it.name()).is_some());
        given.map(|field| field.name().clone()).collect()
    }

    /// Writes the source rows that nothing matched.
    async fn insert(
        &mut self,
        loaded: &Loaded,
        seen: &Bits,
        out: &mut Sender<Result<RecordBatch>>,
    ) -> Result<()> {
        let mut first = 0;
        for batch in &loaded.batches {
            let rows = first..first + batch.num_rows();
            first = rows.end;
            let mask: BooleanArray = rows.map(|row| Some(!seen.get(row))).collect();
            let num_rows = mask.true_count();
            if num_rows == 0 {
                continue;
            }
            let mut columns = Vec::with_capacity(self.output.fields().len());
            for field in self.output.fields() {
                columns.push(match batch.column_by_name(field.name()) {
                    Some(column) => filter(column, &mask).map_err(|it| failed(&it))?,
                    None => new_null_array(field.data_type(), num_rows),
                });
            }
            self.found.num_inserted += num_rows as u64;
            self.send(columns, num_rows, out).await?;
        }
        Ok(())
    }

    async fn send(
        &self,
        columns: Vec<ArrayRef>,
        num_rows: usize,
        out: &mut Sender<Result<RecordBatch>>,
    ) -> Result<()> {
        let options = RecordBatchOptions::new().with_row_count(Some(num_rows));
        let schema = Arc::clone(&self.output);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)
            .map_err(|it| failed(&it))?;
        let sent = out.send(Ok(batch)).await;
        sent.map_err(|_| Error::invalid("the merge", "its writer stopped"))
    }
}

fn no_column(name: &str) -> Error {
    Error::corrupt(format!("a merge without column `{name}`"))
}

/// So many pairs are rewritten at once.
fn most_pairs(loaded: &Loaded) -> usize {
    let row_bytes = loaded.num_bytes / (loaded.num_rows as u64).max(1);
    let rows = (CHUNK_BYTES / row_bytes.max(1)).clamp(1, CHUNK_ROWS);
    usize::try_from(rows).unwrap_or(1)
}

/// Columns of some source rows.
fn gather(loaded: &Loaded, rows: &[u32], names: &[String]) -> Result<Vec<ArrayRef>> {
    let places: Vec<(usize, usize)> = rows.iter().map(|row| loaded.place(*row)).collect();
    let gathered = names.iter().map(|name| {
        let columns = loaded.batches.iter().map(|batch| {
            let column = batch.column_by_name(name).map(AsRef::as_ref);
            column.ok_or_else(|| no_column(name))
        });
        let columns: Vec<&dyn Array> = columns.collect::<Result<_>>()?;
        interleave(&columns, &places).map_err(|it| failed(&it))
    });
    gathered.collect()
}

fn kept<T: Copy>(values: &[T], mask: &BooleanArray) -> Vec<T> {
    let kept = values.iter().zip(mask.values().iter());
    kept.filter(|(_, keep)| *keep).map(|(it, _)| *it).collect()
}
