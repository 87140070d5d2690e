//! Rows of all tables of a stream with their tags.

use std::io::Write;
use std::ops::Range;

use arrow_array::RecordBatch;

use super::given::MatchError;
use super::sparse::Seen;
use super::table::{IndexState, TableRows};
use super::value::{Check, Refusal};
use crate::error::{Error, Result, ValueFault};
use crate::schema::Format;
use crate::yson::Limits;

/// Bytes that are written at once.
const CHUNK_BYTES: usize = 256 << 10;

/// The tag before every row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tags {
    /// `00 00`: a stream of rows of one table, as jobs write one per output table and as `write_table` takes it.
    #[default]
    Output,
    /// The number of the table: a stream as jobs read it.
    Input,
}

/// How a stream is encoded.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct EncodeOptions {
    /// The tag before every row.
    pub tags: Tags,
    /// Whether the encoder checks that every `yson32` value is exactly one YSON node. Without this check YTsaurus reports a
    /// malformed value only later, when an operation reads it.
    pub validates_yson: bool,
    /// Whether the stream ends with the tag `FF FF`.
    pub has_end_of_stream: bool,
    /// Limits of YSON nodes.
    pub yson_limits: Limits,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        Self {
            tags: Tags::default(),
            validates_yson: true,
            has_end_of_stream: false,
            yson_limits: Limits::default(),
        }
    }
}

/// An encoder of one stream.
#[derive(Debug)]
pub struct Encoder {
    format: Format,
    options: EncodeOptions,
    state: IndexState,
    seen: Seen,
    num_rows: u64,
}

impl Encoder {
    /// An encoder at the beginning of a stream.
    #[must_use]
    pub fn new(format: Format, options: EncodeOptions) -> Self {
        Self {
            format,
            options,
            state: IndexState::default(),
            seen: Seen::default(),
            num_rows: 0,
        }
    }

    /// Rows that were written so far.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.num_rows
    }

    /// Encodes the rows of a batch and appends the bytes to `out`. Columns of the batch and of the table schema are matched by
    /// name.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] for a value that the schema cannot hold; the error names the row and the column. `out` then has all
    /// rows before that row, and no byte of that row. [`Error::Unsupported`] for a column whose Arrow type cannot be encoded
    /// as the wire type of the table schema.
    pub fn encode(&mut self, table: usize, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let rows = self.bind(table, batch)?;
        self.encode_rows(table, &rows, 0..batch.num_rows(), usize::MAX, out)
            .1
    }

    /// Writes the rows of a batch, about 256 KiB at once: `buffer` holds no more than that and one row.
    ///
    /// # Errors
    ///
    /// As [`Encoder::encode`], and [`Error::Io`]. After an error of a value the rows before it are written.
    pub fn write(
        &mut self,
        table: usize,
        batch: &RecordBatch,
        buffer: &mut Vec<u8>,
        output: &mut impl Write,
    ) -> Result<()> {
        let rows = self.bind(table, batch)?;
        let mut start = 0;
        while start < batch.num_rows() {
            buffer.clear();
            let range = start..batch.num_rows();
            let (next, encoded) = self.encode_rows(table, &rows, range, CHUNK_BYTES, buffer);
            output.write_all(buffer)?;
            encoded?;
            start = next;
        }
        Ok(())
    }

    /// Appends the end-of-stream tag if the stream has one.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if self.options.has_end_of_stream {
            out.extend_from_slice(&u16::MAX.to_le_bytes());
        }
    }

    fn bind(&self, table: usize, batch: &RecordBatch) -> Result<TableRows> {
        let count = self.format.tables().len();
        let Some(schema) = self.format.tables().get(table) else {
            return Err(Error::schema(
                format!("table {table}"),
                format!("the format has {count} tables"),
            ));
        };
        // A table of this number would have the tag that ends a stream.
        if table >= usize::from(u16::MAX) {
            return Err(Error::schema(
                format!("table {table}"),
                "a stream has at most 65,535 tables",
            ));
        }
        let limits = self.options.yson_limits;
        let check = if self.options.validates_yson {
            Check::Yson(limits)
        } else {
            Check::Nothing
        };
        let refused = |fault, column, reason: &str| Error::Value {
            fault,
            table,
            row: self.num_rows,
            column: Some(column),
            reason: reason.to_owned(),
        };
        TableRows::try_new(table, schema, batch, check, limits).map_err(|error| match error {
            MatchError::Missing(column) => refused(
                ValueFault::MissingColumn,
                column,
                "the format requires the column, and the batch does not have it; add it, or make it optional in the format",
            ),
            MatchError::Unexpected(column) => refused(
                ValueFault::UnexpectedColumn,
                column,
                "the format does not have the column, and no `$other_columns` to put it in; drop it, or add it to the format",
            ),
            MatchError::Control(column) => refused(
                ValueFault::UnexpectedColumn,
                column,
                "the format does not have the control column, and it is no data for `$other_columns`; drop it",
            ),
            MatchError::Duplicate(column) => refused(
                ValueFault::DuplicateColumn,
                column,
                "the batch has two columns of this name; rename or drop one of them",
            ),
            MatchError::Other(error) => error,
        })
    }

    /// Appends rows until `out` has `max_bytes`, and returns the first row that is left.
    fn encode_rows(
        &mut self,
        table: usize,
        rows: &TableRows,
        mut range: Range<usize>,
        max_bytes: usize,
        out: &mut Vec<u8>,
    ) -> (usize, Result<()>) {
        let tag = match self.options.tags {
            Tags::Output => [0; 2],
            // `bind` refused tables whose number is no tag.
            Tags::Input => u16::try_from(table).unwrap_or(u16::MAX).to_le_bytes(),
        };
        if let Some(block) = rows.block() {
            let next = block.write(tag, range.clone(), max_bytes, out);
            self.num_rows += (next - range.start) as u64;
            return (next, Ok(()));
        }
        while !range.is_empty() && out.len() < max_bytes {
            let start = out.len();
            out.extend_from_slice(&tag);
            let before = self.state;
            let written = rows.write_row(range.start, &mut self.state, &mut self.seen, out);
            if let Err((column, refusal)) = written {
                out.truncate(start);
                self.state = before;
                let refused = match *refusal {
                    Refusal::Value { fault, reason } => Error::Value {
                        fault,
                        table,
                        row: self.num_rows,
                        column: Some(column),
                        reason,
                    },
                    Refusal::Limit { what, remedy } => Error::Limit {
                        what: format!(
                            "table {table}, row {}, column `{column}`: {what}",
                            self.num_rows
                        ),
                        remedy,
                    },
                };
                return (range.start, Err(refused));
            }
            self.num_rows += 1;
            range.start += 1;
        }
        (range.start, Ok(()))
    }
}

/// Writes all batches, each with the number of its table, to a file, pipe or socket, and returns the number of rows.
///
/// # Errors
///
/// As [`Encoder::write`], and the errors of the batches.
pub fn write_all(
    batches: impl IntoIterator<Item = Result<(usize, RecordBatch)>>,
    format: Format,
    options: EncodeOptions,
    output: &mut impl Write,
) -> Result<u64> {
    let mut encoder = Encoder::new(format, options);
    let mut buffer = Vec::new();
    for batch in batches {
        let (table, batch) = batch?;
        encoder.write(table, &batch, &mut buffer, output)?;
    }
    buffer.clear();
    encoder.finish(&mut buffer);
    output.write_all(&buffer)?;
    output.flush()?;
    Ok(encoder.num_rows())
}
