//! The rows that a merge writes: updated rows of the table and inserted rows of the source.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_schema::ArrowError;
use arrow_select::filter::filter;
use arrow_select::interleave::interleave;
use futures::SinkExt;
use futures::channel::mpsc::Sender;
use pilum_format::RowIdSequence;

use super::condition::Condition;
use super::keys::shown;
use super::matching::{Merge, Pairs};
use super::source::Loaded;
use pilum_expr::Projection;

use crate::error::{Error, Result};

/// Limits of the rows that are written at once, in rows and in bytes.
const CHUNK_ROWS: u64 = 1 << 16;
const CHUNK_BYTES: u64 = 8 << 20;

/// The rows were checked when they were read and when the source was pulled.
fn failed(error: &ArrowError) -> Error {
    match error {
        ArrowError::OffsetOverflowError(_) => Error::limit(
            "the rows that a merge writes at once",
            "more than 2 GiB of text or bytes in one column",
            "2 GiB",
        ),
        error => Error::bug(format!(
            "a merge made rows that do not fit the table: {error}"
        )),
    }
}

impl Merge<'_> {
    /// Writes waiting pairs: rows of the table with the values of the source.
    pub(super) async fn rewrite(
        &mut self,
        loaded: &Loaded,
        pairs: &mut Pairs,
        out: &mut Sender<Result<RecordBatch>>,
    ) -> Result<()> {
        let mut pairs = std::mem::take(pairs);
        if let Some(condition) = &self.condition {
            let mask = self.passing(condition, loaded, &pairs).await?;
            let left = pairs.addresses.iter().zip(&mask);
            let left = left.filter(|(_, passed)| !passed);
            self.found.kept.extend(left.map(|(address, _)| *address));
            pairs = Pairs {
                addresses: kept(&pairs.addresses, &mask),
                row_ids: kept(&pairs.row_ids, &mask),
                source_rows: kept(&pairs.source_rows, &mask),
            };
            // Source rows that match one row of the table stand together.
            let twins = pairs.addresses.windows(2);
            if let Some(place) = twins.clone().position(|pair| pair[0] == pair[1]) {
                let (batch, row) = loaded.place(pairs.source_rows[place]);
                let key = shown(self.on, &loaded.batches[batch], row);
                let reason = format!(
                    "several rows match the same row of the table ({key}) and pass the condition; leave one of them"
                );
                return Err(Error::invalid("the source", reason));
            }
        }
        if pairs.addresses.is_empty() {
            return Ok(());
        }
        let table = self.take(&pairs.addresses, &self.taken).await?;
        let names: Vec<String> = self.source_names();
        let mut of_source = gather(loaded, &pairs.source_rows, &names)?.into_iter();
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
        let num_rows = pairs.addresses.len();
        self.found.num_updated += num_rows as u64;
        self.found.made_of.origins.extend(&pairs.addresses);
        let row_ids = RowIdSequence::from_values(&pairs.row_ids);
        self.found.made_of.row_ids.extend(&row_ids);
        self.found.removed.extend(pairs.addresses);
        self.send(columns, num_rows, out).await
    }

    /// The pairs for which the condition is true. One row of the table may be in very many pairs, so pairs are evaluated in
    /// steps, and only with the columns of the condition.
    async fn passing(
        &self,
        condition: &Condition,
        loaded: &Loaded,
        pairs: &Pairs,
    ) -> Result<BooleanBuffer> {
        let most = self.most_rows(loaded);
        let mut passing = BooleanBufferBuilder::new(pairs.addresses.len());
        let steps = pairs.addresses.chunks(most);
        for (addresses, source_rows) in steps.zip(pairs.source_rows.chunks(most)) {
            let table = self.take(addresses, &condition.target).await?;
            let target = condition.target.iter().map(|name| {
                let column = table.as_ref().and_then(|table| table.column_by_name(name));
                column.cloned().ok_or_else(|| no_column(name))
            });
            let target = target.collect::<Result<_>>()?;
            let of_source = gather(loaded, source_rows, &condition.source)?;
            let mask = condition.mask(of_source, target, addresses.len())?;
            passing.append_buffer(mask.values());
        }
        Ok(passing.finish())
    }

    /// Columns of rows of the table; nothing where there is no column to read.
    async fn take(&self, addresses: &[u64], names: &[String]) -> Result<Option<RecordBatch>> {
        if names.is_empty() {
            return Ok(None);
        }
        let columns = Projection::Names(names.to_vec());
        let limit = self.options.statement.memory_limit;
        let taken = self.base.take_addresses(addresses, columns, limit).await?;
        Ok(Some(taken))
    }

    /// Rows that are written or evaluated at once, by the bytes of a source row and of the columns that the table adds.
    pub(super) fn most_rows(&self, loaded: &Loaded) -> usize {
        let limit = self.options.statement.memory_limit;
        let most_bytes = limit.map_or(CHUNK_BYTES, |limit| CHUNK_BYTES.min(limit / 16));
        let source_bytes = loaded.num_bytes / (loaded.num_rows as u64).max(1);
        let row_bytes = source_bytes.saturating_add(self.row_bytes).max(1);
        let rows = (most_bytes / row_bytes).clamp(1, CHUNK_ROWS);
        usize::try_from(rows).unwrap_or(1)
    }

    /// The columns of the source, in the order in which they are written.
    fn source_names(&self) -> Vec<String> {
        let fields = self.output.fields().iter();
        let given = fields.filter(|it| self.source.schema.column_with_name(it.name()).is_some());
        given.map(|field| field.name().clone()).collect()
    }

    /// Writes the source rows without a match.
    pub(super) async fn insert(
        &mut self,
        loaded: &Loaded,
        seen: &BooleanBuffer,
        out: &mut Sender<Result<RecordBatch>>,
    ) -> Result<()> {
        let most = self.most_rows(loaded);
        let mut first = 0;
        for batch in &loaded.batches {
            for start in (0..batch.num_rows()).step_by(most) {
                let len = most.min(batch.num_rows() - start);
                let mut mask = !&seen.slice(first + start, len);
                let rows = numbers(first + start, len);
                if self.reused_source.range_cardinality(rows.clone()) > 0 {
                    let reused = rows.clone().map(|row| self.reused_source.contains(row));
                    mask = &mask & &!&BooleanBuffer::from_iter(reused);
                }
                let mask = BooleanArray::new(mask, None);
                let num_rows = mask.true_count();
                if num_rows == 0 {
                    continue;
                }
                let mut columns = Vec::with_capacity(self.output.fields().len());
                for field in self.output.fields() {
                    columns.push(match batch.column_by_name(field.name()) {
                        Some(column) => {
                            filter(&column.slice(start, len), &mask).map_err(|it| failed(&it))?
                        }
                        None => new_null_array(field.data_type(), num_rows),
                    });
                }
                if let Some(inserted) = &mut self.found.made_of.inserted {
                    let new = rows.zip(mask.values()).filter(|(_, is_new)| *is_new);
                    inserted.extend(new.map(|(row, _)| row));
                }
                self.found.num_inserted += num_rows as u64;
                self.send(columns, num_rows, out).await?;
            }
            first += batch.num_rows();
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
        // Not seen by the caller: the writer stopped because of an error of its own, which is the one that is returned.
        sent.map_err(|_| Error::bug("the writer of a merge stopped without an error"))
    }
}

/// The numbers of source rows.
fn numbers(first: usize, len: usize) -> Range<u32> {
    // A key table refuses 2^32 rows and more.
    let number = |row: usize| u32::try_from(row).unwrap_or(u32::MAX);
    number(first)..number(first + len)
}

fn no_column(name: &str) -> Error {
    Error::bug(format!("a merge has no column `{name}` to write"))
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

fn kept<T: Copy>(values: &[T], mask: &BooleanBuffer) -> Vec<T> {
    let kept = values.iter().zip(mask);
    kept.filter(|(_, keep)| *keep).map(|(it, _)| *it).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows come from the scan of the merge: a column that lacks there is no damage of a file.
    #[test]
    fn a_missing_column_is_a_fault_of_pilum_and_no_damage_of_the_table() {
        let error = no_column("x");
        assert_eq!(error.kind(), "bug");
        assert!(error.to_string().contains("report"), "{error}");
        let error = ArrowError::SchemaError("2 columns, 1 field".to_owned());
        assert_eq!(failed(&error).kind(), "bug");
    }
}
