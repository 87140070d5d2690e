//! Rows of all tables of a stream, cut into batches.
//!
//! The decoder is pushed: it takes bytes as they come, in pieces of any size, and never reads by itself. A row whose bytes are
//! not all there is undone and read again when all of them are there, so that a batch holds whole rows only.

mod batches;
mod faults;

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;

use super::check::ReadRules;
use super::control::IndexState;
use super::cursor::{Cursor, Stop};
use super::options::DecodeOptions;
use super::row_end::{Layout, Progress, RowEnd};
use super::table::TableRows;
use crate::error::{Error, Result, StreamFault};
use crate::schema::Format;

/// A decoder of one stream.
#[derive(Debug)]
pub struct Decoder {
    format: Format,
    options: DecodeOptions,
    tables: Vec<Option<TableRows>>,
    /// Tables that hold rows: a stream can declare many more than those.
    filled: HashSet<usize>,
    /// The table of the last row.
    current: usize,
    state: IndexState,
    /// Memory that the rows of all tables take, estimated.
    num_bytes: usize,
    /// Bytes of the stream that were consumed.
    offset: u64,
    /// Rows that were read.
    num_rows: u64,
    has_ended: bool,
    ready: VecDeque<(usize, RecordBatch)>,
    failed: Option<Error>,
    /// Bytes that must be at hand before reading the next row is tried again.
    retry_at: usize,
    /// The next row with its table, when it was read and was not complete.
    unfinished: Option<(usize, RowEnd)>,
    /// How rows of a table end; of the tables that had such a row.
    layouts: HashMap<usize, Arc<Layout>>,
    /// NaN and infinities of decimals that were handed out as nulls.
    num_special: u64,
}

/// Bytes of the tag before every row.
const TAG_BYTES: usize = 2;

impl Decoder {
    /// A decoder at the beginning of a stream.
    #[must_use]
    pub fn new(format: Format, options: DecodeOptions) -> Self {
        let tables = format.tables().iter().map(|_| None).collect();
        Self {
            format,
            options,
            tables,
            filled: HashSet::new(),
            current: 0,
            state: IndexState::default(),
            num_bytes: 0,
            offset: 0,
            num_rows: 0,
            has_ended: false,
            ready: VecDeque::new(),
            failed: None,
            retry_at: 0,
            unfinished: None,
            layouts: HashMap::new(),
            num_special: 0,
        }
    }

    /// The format of the stream.
    #[must_use]
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// Bytes of the stream that were consumed so far.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// NaN and infinities of decimals that were handed out as nulls so far.
    #[must_use]
    pub fn num_special_decimals(&self) -> u64 {
        self.num_special
    }

    /// Rows that were read so far, over all tables.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.num_rows
    }

    /// The next batch with the number of its table, if one is complete.
    ///
    /// # Errors
    ///
    /// After the last complete row was handed out, the error that ended the stream; once.
    pub fn next_batch(&mut self) -> Result<Option<(usize, RecordBatch)>> {
        if let Some(batch) = self.ready.pop_front() {
            return Ok(Some(batch));
        }
        match self.failed.take() {
            Some(error) => {
                self.has_ended = true;
                Err(error)
            }
            None => Ok(None),
        }
    }

    /// Reads rows from the beginning of `bytes` until a batch is complete or no whole row is left, and returns how many bytes it
    /// consumed. The caller passes the others again, with more behind them; after the end of the input it passes what is left
    /// with `is_last`, until all is consumed and [`Decoder::next_batch`] returns nothing.
    ///
    /// Errors are told by [`Decoder::next_batch`], behind the rows before them.
    pub fn decode(&mut self, bytes: &[u8], is_last: bool) -> usize {
        if self.failed.is_some() || !self.ready.is_empty() {
            return 0;
        }
        if bytes.len() < self.retry_at && !is_last {
            return 0;
        }
        self.retry_at = 0;
        if let Some((table, mut row)) = self.unfinished.take().filter(|_| !is_last)
            && let Progress::Needs(needed) = row.advance(bytes)
        {
            self.wait(Some(table), 0..bytes.len(), needed);
            self.unfinished = Some((table, row));
            return 0;
        }
        let mut consumed = 0;
        while self.ready.is_empty() && self.failed.is_none() {
            if consumed == bytes.len() {
                if is_last {
                    self.finish(consumed);
                }
                break;
            }
            match self.read_row(bytes, consumed) {
                Ok(end) => consumed = end,
                Err((table, _, Stop::More { needed, at })) if !is_last => {
                    self.undo(table);
                    let mut needed = (at - consumed).saturating_add(needed);
                    if let Some(table) = table {
                        let mut row = RowEnd::new(self.layout(table), TAG_BYTES);
                        if let Progress::Needs(end) =
                            row.advance(bytes.get(consumed..).unwrap_or_default())
                        {
                            needed = end;
                            self.unfinished = Some((table, row));
                        }
                    }
                    self.wait(table, consumed..bytes.len(), needed);
                    break;
                }
                Err((Some(table), _, Stop::TooLarge)) if self.holds_rows(table) => {
                    // The row may fit into a batch of its own.
                    self.undo(Some(table));
                    self.flush(table);
                }
                Err((table, column, stop)) => {
                    self.undo(table);
                    let error = self.error(consumed..bytes.len(), table, column, stop);
                    self.fail(error);
                }
            }
        }
        self.offset += consumed as u64;
        consumed
    }

    /// Waits until a row of which there are the bytes of `row` has `needed` bytes, unless it is too long already.
    fn wait(&mut self, table: Option<usize>, row: Range<usize>, needed: usize) {
        let most = self.options.max_row_bytes;
        if row.len() > most {
            self.fail(self.too_long(row.start, table));
        }
        // A declared length is not believed beyond the limit: the row is refused when so many bytes are there.
        self.retry_at = needed.min(most.saturating_add(1));
    }

    fn layout(&mut self, table: usize) -> Arc<Layout> {
        let root = self.format.tables().get(table).map(|table| table.root());
        let layout = self.layouts.entry(table);
        let layout = layout.or_insert_with(|| Arc::new(Layout::new(root.map(AsRef::as_ref))));
        Arc::clone(layout)
    }

    /// Bytes that have to be at hand, counted from the first that was not consumed, before it is worth to call
    /// [`Decoder::decode`] again.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.retry_at
    }

    /// True when the stream has ended, well or not, and everything was handed out.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.has_ended && self.ready.is_empty() && self.failed.is_none()
    }

    fn holds_rows(&self, table: usize) -> bool {
        let rows = self.tables.get(table).and_then(Option::as_ref);
        rows.is_some_and(|rows| rows.num_rows > 0)
    }

    fn rules(&self) -> ReadRules {
        ReadRules {
            validates_yson: self.options.validates_yson,
            special_as_null: self.options.special_as_null,
            limits: self.options.yson_limits,
        }
    }

    fn undo(&mut self, table: Option<usize>) {
        let table = table.and_then(|table| self.tables.get_mut(table));
        if let Some(Some(rows)) = table {
            rows.undo();
        }
    }

    /// Reads one row at `start` and returns its end.
    #[inline]
    fn read_row(
        &mut self,
        bytes: &[u8],
        start: usize,
    ) -> Result<usize, (Option<usize>, Option<usize>, Stop)> {
        let mut cursor = Cursor::new(bytes, start, self.options.max_row_bytes);
        if self.has_ended {
            let reason = "the stream goes on behind its end-of-stream tag";
            let stop = super::cursor::bad(StreamFault::TrailingBytes, start, reason);
            return stop.map_err(|stop| (None, None, stop));
        }
        let tag = cursor.tag(true).map_err(|stop| (None, None, stop))?;
        let table = usize::from(tag);
        if table != self.current || !matches!(self.tables.get(table), Some(Some(_))) {
            if tag == u16::MAX && self.options.has_end_of_stream {
                self.has_ended = true;
                // The input may stay open behind the tag: nothing waits for its end.
                self.flush_all();
                return Ok(cursor.pos);
            }
            self.switch(table, start)
                .map_err(|stop| (None, None, stop))?;
            if !self.ready.is_empty() || self.failed.is_some() {
                // The batch of the other table comes first; the row is read afterwards.
                return Ok(start);
            }
        }
        let rules = self.rules();
        let Some(Some(rows)) = self.tables.get_mut(table) else {
            return Ok(start);
        };
        let before = self.state;
        let held = rows.num_bytes;
        let was_empty = rows.num_rows == 0;
        rows.is_key_switch = false;
        let rejects_duplicates = self.options.rejects_duplicates;
        let read = rows.read_row(&mut cursor, &mut self.state, rules, rejects_duplicates);
        if let Err((column, stop)) = read {
            self.state = before;
            return Err((Some(table), column, stop));
        }
        if cursor.pos - start > self.options.max_row_bytes {
            rows.undo_last();
            rows.num_bytes = held;
            self.fail(self.too_long(start, Some(table)));
            return Ok(start);
        }
        if rows.is_key_switch && self.options.cuts_at_key_switch && self.num_bytes > 0 {
            // The row begins a new group: everything before it is handed out first, and then it is read again.
            rows.undo_last();
            rows.num_bytes = held;
            self.state = before;
            self.flush_all();
            return Ok(start);
        }
        if was_empty {
            self.filled.insert(table);
        }
        self.num_bytes += rows.num_bytes - held;
        self.num_rows += 1;
        if rows.num_rows >= self.options.batch_rows {
            self.flush(table);
        } else if self.num_bytes >= self.options.batch_bytes {
            self.flush_largest();
        }
        Ok(cursor.pos)
    }

    /// Makes `table` the current one.
    #[cold]
    fn switch(&mut self, table: usize, start: usize) -> Result<(), Stop> {
        let count = self.format.tables().len();
        if table >= count {
            let reason = if table == usize::from(u16::MAX) {
                "the tag FF FF, which ends a stream only where the options announce it (`end_of_stream`)"
                    .to_owned()
            } else {
                format!("the table index is {table}, and the format has {count} tables")
            };
            return super::cursor::bad(StreamFault::BadTableTag, start, reason);
        }
        if self.options.keeps_order && table != self.current {
            self.flush(self.current);
        }
        self.current = table;
        let rules = self.rules();
        if let Some(slot @ None) = self.tables.get_mut(table)
            && let Some(schema) = self.format.tables().get(table)
        {
            match TableRows::try_new(schema, rules, self.options.keeps_sparse_order) {
                Ok(rows) => *slot = Some(rows),
                Err(error) => self.failed = Some(error),
            }
        }
        Ok(())
    }

    /// The input ended at a row boundary.
    fn finish(&mut self, consumed: usize) {
        self.flush_all();
        if self.options.has_end_of_stream && !self.has_ended {
            let offset = self.offset + consumed as u64;
            self.failed = Some(Error::Stream {
                fault: StreamFault::TruncatedStream,
                offset,
                table: None,
                row: self.num_rows,
                column: None,
                reason: "the stream ends without its end-of-stream tag".to_owned(),
            });
        }
        self.has_ended = true;
    }

    /// Ends the stream with an error; the rows before it are handed out first.
    fn fail(&mut self, error: Error) {
        self.flush_all();
        self.failed = Some(error);
    }
}

#[cfg(test)]
mod tests;
