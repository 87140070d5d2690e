//! Matching: finds the source rows with the key of each row of the table, and decides what happens to that row.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::filter::prep_null_mask_filter;
use futures::channel::mpsc::Sender;
use futures::stream::{BoxStream, StreamExt};
use pilum_common::type_name;
use pilum_expr::{Expr, Projection, col};
use roaring::RoaringBitmap;
use tokio::runtime::Handle;

use super::condition::{Condition, of_target};
use super::keys::{shown, unpacked};
use super::options::{MergeOptions, WhenMatched, WhenNotMatched, WhenNotMatchedBySource};
use super::source::{Loaded, Source, keys_of};
use super::spill::{Part, Parts, Spill};
use crate::commit::removed_rows::RemovedRows;
use crate::dml::rewritten_files::{MadeOf, RewrittenFiles};
use crate::error::{Error, Result};
use crate::read::batches::integers;
use crate::read::options::{ROW_ADDRESS, ROW_ID, ScanOptions};
use crate::read::snapshot::Snapshot;

/// The last of the scanned columns says whether a row without a match is deleted. It is found by its position, because a key
/// column may have the same name.
const UNMATCHED: &str = "_unmatched";
/// The memory limit divided by this number is for scanning.
pub(super) const SCAN_SHARE: u64 = 4;
/// Bytes of keys of the table that wait to be spilled, without a memory limit.
const WAITING_BYTES: u64 = 128 << 20;

/// The result of matching so far.
#[derive(Default)]
pub(super) struct Found {
    pub(super) removed: RemovedRows,
    /// Rows that were matched and stay as they are.
    pub(super) kept: RemovedRows,
    /// The rows that are written.
    pub(super) made_of: MadeOf,
    pub(super) num_inserted: u64,
    pub(super) num_updated: u64,
    pub(super) num_deleted: u64,
}

/// Rows of the table with a source row each, waiting to be rewritten together.
#[derive(Default)]
pub(super) struct Pairs {
    pub(super) addresses: Vec<u64>,
    pub(super) row_ids: Vec<u64>,
    pub(super) source_rows: Vec<u32>,
}

/// One execution of a merge, on one version.
pub(super) struct Merge<'a> {
    pub(super) base: &'a Snapshot,
    pub(super) on: &'a [String],
    pub(super) source: &'a Source,
    pub(super) options: &'a MergeOptions,
    stable: bool,
    pub(super) condition: Option<Condition>,
    /// The columns that are written: those of the table, in the source's types where it has them.
    pub(super) output: SchemaRef,
    /// The columns that an updated row takes from the table.
    pub(super) taken: Vec<String>,
    /// About how many bytes a pair takes beside the columns of the source.
    pub(super) row_bytes: u64,
    /// Rows of the table, and rows of the source, that files of an earlier execution hold.
    reused: RemovedRows,
    pub(super) reused_source: RoaringBitmap,
    pub(super) found: Found,
}

impl<'a> Merge<'a> {
    pub(super) async fn new(
        base: &'a Snapshot,
        on: &'a [String],
        source: &'a Source,
        options: &'a MergeOptions,
    ) -> Result<Self> {
        let table = base.schema();
        let missing = |name: &String| source.schema.column_with_name(name).is_none();
        let updates = matches!(options.when_matched, WhenMatched::Update(_));
        let mut taken: Vec<String> = Vec::new();
        let mut beside: Vec<String> = Vec::new();
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
            beside.push(field.name.clone());
            if updates {
                taken.push(field.name.clone());
            }
            if !field.nullable && options.when_not_matched == WhenNotMatched::Insert {
                let reason = "is not in the source and may not be null in inserted rows; add it, or insert no \
                              rows: when_not_matched=\"ignore\"";
                return Err(Error::invalid(format!("column `{}`", field.name), reason));
            }
        }
        // A column may have been dropped since the source was pulled.
        if let Some(gone) = source
            .schema
            .fields()
            .iter()
            .find(|column| table.fields.iter().all(|it| it.name != *column.name()))
        {
            let reason = "was dropped from the table while the merge ran; merge without it";
            return Err(Error::invalid(format!("column `{}`", gone.name()), reason));
        }
        let condition = match &options.when_matched {
            WhenMatched::Update(Some(condition)) => {
                let condition = Condition::new(condition, &source.schema, &table.to_arrow())?;
                for name in &condition.target {
                    if !beside.contains(name) {
                        beside.push(name.clone());
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
            row_bytes: base.row_bytes(&beside).await?,
            reused: RemovedRows::default(),
            reused_source: RoaringBitmap::new(),
            found: Found::default(),
        })
    }

    /// Takes over those files of an earlier execution whose rows are still valid in this version.
    pub(super) async fn reuse(
        &mut self,
        files: &mut RewrittenFiles,
        handle: &Handle,
    ) -> Result<()> {
        let came = files.carry_to(self.base).await?;
        if let Some(loaded) = self.source.whole() {
            self.found.made_of.inserted = Some(RoaringBitmap::new());
            if !files.inserted().is_empty() {
                let matched = self.matched_by(loaded, came, handle).await?;
                files.forget_inserted(&matched);
                files.remove_unused(self.base.store()).await;
            }
        }
        self.reused = files.rows();
        self.reused_source = files.inserted();
        self.found.removed = self.reused.clone();
        self.found.num_updated = self.reused.len();
        self.found.num_inserted = self.reused_source.len();
        Ok(())
    }

    /// The source rows whose keys occur in these fragments.
    async fn matched_by(
        &self,
        loaded: &Loaded,
        fragments: Vec<u64>,
        handle: &Handle,
    ) -> Result<RoaringBitmap> {
        let scan = self.base.scan(ScanOptions {
            columns: Projection::Names(self.on.to_vec()),
            fragments: Some(fragments),
            ..self.options.statement.scan_with(SCAN_SHARE, None)
        })?;
        let mut matched = RoaringBitmap::new();
        let mut batches = scan.batches(handle);
        while let Some(batch) = batches.next().await {
            let keys = keys_of(&batch?, self.on, &self.source.state)?;
            for (key, hash) in (0..keys.len()).filter_map(|row| keys.get(row)) {
                matched.extend(loaded.table.find(key, hash));
            }
        }
        Ok(matched)
    }

    /// Sends the rows to be written: first those that are rewritten, then those that are inserted.
    pub(super) async fn run(
        &mut self,
        out: &mut Sender<Result<RecordBatch>>,
        handle: &Handle,
    ) -> Result<()> {
        let mut scanned = self.scan(handle)?;
        let inserts = self.options.when_not_matched == WhenNotMatched::Insert;
        let num_parts = self.source.num_parts();
        let mut matched = Vec::with_capacity(num_parts);
        if num_parts == 1 {
            let loaded = self.source.load(0)?;
            let mut seen = none_seen(&loaded);
            let mut pairs = Pairs::default();
            while let Some(batch) = scanned.next().await {
                self.probe(&loaded, &batch?, &mut seen, &mut pairs, out)
                    .await?;
            }
            self.rewrite(&loaded, &mut pairs, out).await?;
            matched.push(seen.finish());
        } else {
            let (aside, parts) = self.put_aside(scanned).await?;
            for (number, part) in parts.iter().enumerate() {
                let loaded = self.source.load(number)?;
                let mut seen = none_seen(&loaded);
                let mut pairs = Pairs::default();
                for segment in &part.segments {
                    let batch = aside.get(*segment)?;
                    self.probe(&loaded, &batch, &mut seen, &mut pairs, out)
                        .await?;
                }
                self.rewrite(&loaded, &mut pairs, out).await?;
                matched.push(seen.finish());
            }
        }
        // Inserted rows follow all rewritten ones: new row ids are given to the rows behind those that bring theirs.
        if inserts {
            for (number, seen) in matched.iter().enumerate() {
                let loaded = self.source.load(number)?;
                self.insert(&loaded, seen, out).await?;
            }
        }
        Ok(())
    }

    /// Keys, addresses and stable ids, if there are any, of all rows of the table.
    fn scan(&self, handle: &Handle) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let mut names = self.on.to_vec();
        names.push(ROW_ADDRESS.to_owned());
        if self.stable {
            names.push(ROW_ID.to_owned());
        }
        let others = &self.options.when_not_matched_by_source;
        let columns = match others {
            WhenNotMatchedBySource::Delete(Some(condition)) => {
                let columns = names.into_iter().map(|name| {
                    let column = col(&name);
                    (name, column)
                });
                let mut columns: Vec<(String, Expr)> = columns.collect();
                let condition = of_target(condition, &self.base.schema().to_arrow())?;
                columns.push((UNMATCHED.to_owned(), condition));
                Projection::Expressions(columns)
            }
            _ => Projection::Names(names),
        };
        let scan = self.base.scan(ScanOptions {
            columns,
            ..self.options.statement.scan_with(SCAN_SHARE, None)
        })?;
        if let WhenNotMatchedBySource::Delete(Some(_)) = others
            && let Some(field) = scan.schema().fields().last()
            && !matches!(field.data_type(), DataType::Boolean | DataType::Null)
        {
            let reason = format!(
                "its condition is {}, it must be true or false",
                type_name(field.data_type())
            );
            return Err(Error::invalid("when_not_matched_by_source", reason));
        }
        Ok(scan.batches(handle))
    }

    /// Spills the scanned rows, partitioned like the source.
    async fn put_aside(
        &self,
        mut scanned: BoxStream<'static, Result<RecordBatch>>,
    ) -> Result<(Spill, Vec<Part>)> {
        let spill = Spill::new()?;
        let limit = self.options.statement.memory_limit;
        let most_waiting = limit.map_or(WAITING_BYTES, |limit| limit / 8);
        let mut parts = Parts::new(&spill, self.source.num_parts(), most_waiting);
        while let Some(batch) = scanned.next().await {
            let batch = unpacked(&batch?)?;
            let keys = keys_of(&batch, self.on, &self.source.state)?;
            parts.add(&batch, |row| self.source.part_of(&keys, row))?;
        }
        let parts = parts.finish()?;
        Ok((spill, parts))
    }

    /// Matches rows of the table.
    async fn probe(
        &mut self,
        loaded: &Loaded,
        batch: &RecordBatch,
        seen: &mut BooleanBufferBuilder,
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
        let most = self.most_rows(loaded);
        for (row, &address) in addresses.iter().enumerate() {
            let mut partners = keys
                .get(row)
                .map(|(key, hash)| loaded.table.find(key, hash));
            let Some(first) = partners.as_mut().and_then(Iterator::next) else {
                if unmatched.as_ref().is_some_and(|gone| gone.value(row)) {
                    self.found.removed.extend([address]);
                    self.found.num_deleted += 1;
                }
                continue;
            };
            let mut partners = partners.into_iter().flatten();
            match &self.options.when_matched {
                WhenMatched::Keep => {
                    self.found.kept.extend([address]);
                    // All source rows of a key are marked at once.
                    if !seen.get_bit(first as usize) {
                        seen.set_bit(first as usize, true);
                        partners.for_each(|partner| seen.set_bit(partner as usize, true));
                    }
                }
                WhenMatched::Fail => {
                    let key = shown(self.on, batch, row);
                    let reason = format!(
                        "a row of the table has the same key ({key}), and when_matched=\"fail\"; leave the row out"
                    );
                    return Err(Error::invalid("the source", reason));
                }
                WhenMatched::Delete => {
                    if partners.next().is_some() {
                        return Err(ambiguous(self.on, batch, row));
                    }
                    seen.set_bit(first as usize, true);
                    self.found.removed.extend([address]);
                    self.found.num_deleted += 1;
                }
                WhenMatched::Update(condition) => {
                    if self.reused.contains(address) {
                        seen.set_bit(first as usize, true);
                        partners.for_each(|partner| seen.set_bit(partner as usize, true));
                        continue;
                    }
                    let mut partner = Some(first);
                    while let Some(source_row) = partner {
                        seen.set_bit(source_row as usize, true);
                        pairs.addresses.push(address);
                        pairs.source_rows.push(source_row);
                        pairs.row_ids.extend(row_ids.and_then(|ids| ids.get(row)));
                        partner = partners.next();
                        if partner.is_some() && condition.is_none() {
                            return Err(ambiguous(self.on, batch, row));
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

    /// The rows to delete unless they match; `None` if none is.
    fn unmatched(&self, batch: &RecordBatch) -> Option<BooleanArray> {
        let all = || BooleanArray::from(vec![true; batch.num_rows()]);
        match &self.options.when_not_matched_by_source {
            WhenNotMatchedBySource::Keep => None,
            WhenNotMatchedBySource::Delete(None) => Some(all()),
            WhenNotMatchedBySource::Delete(Some(_)) => {
                let column = batch.columns().last()?.as_boolean_opt()?;
                // A null condition is not true.
                Some(match column.null_count() {
                    0 => column.clone(),
                    _ => prep_null_mask_filter(column),
                })
            }
        }
    }
}

/// Several source rows match the row of the table that `row` of a scanned batch is.
fn ambiguous(on: &[String], batch: &RecordBatch, row: usize) -> Error {
    let key = shown(on, batch, row);
    let reason = format!("several rows match the same row of the table ({key}); leave one of them");
    Error::invalid("the source", reason)
}

/// One bit for each source row.
fn none_seen(loaded: &Loaded) -> BooleanBufferBuilder {
    let mut seen = BooleanBufferBuilder::new(loaded.num_rows);
    seen.append_n(loaded.num_rows, false);
    seen
}
