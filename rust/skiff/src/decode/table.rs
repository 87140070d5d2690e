//! One row into the columns of its table, with the rules of the control columns.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::MutableBuffer;
use arrow_schema::{DataType, SchemaRef};

use super::column::{Check, Column, ReadRules};
use super::cursor::{Cursor, Stop, bad};
use crate::error::{Error, Result, StreamFault};
use crate::schema::{Slot, TableSchema};

/// What the index columns of the next row are counted from; one for the whole stream.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IndexState {
    pub(crate) row: Option<i64>,
    pub(crate) range: Option<i64>,
}

/// How a slot is read. The numbers are those of columns.
#[derive(Debug)]
enum Step {
    Value(usize),
    KeySwitch(usize),
    RowIndex {
        column: usize,
        is_three_way: bool,
    },
    RangeIndex {
        column: usize,
        is_three_way: bool,
    },
    RemainingRowBytes(usize),
    Sparse {
        first: usize,
        are_optional: Vec<bool>,
    },
}

/// The rows of one table that were read since the last batch.
#[derive(Debug)]
pub(crate) struct TableRows {
    steps: Vec<Step>,
    columns: Vec<Column>,
    schema: SchemaRef,
    pub(crate) num_rows: usize,
    /// Estimate of the memory that the rows take.
    pub(crate) num_bytes: usize,
    /// Memory that every row takes.
    width: usize,
    /// `$key_switch` of the last row.
    pub(crate) is_key_switch: bool,
}

/// A stop, and the column that was being read.
pub(crate) type RowStop = (Option<usize>, Stop);

/// Checks that every column of the table maps to its Arrow field.
pub(crate) fn check_mapping(table: &TableSchema) -> Result<()> {
    let rules = ReadRules {
        validates_yson: true,
        limits: Default::default(),
    };
    TableRows::try_new(table, rules).map(|_| ())
}

impl TableRows {
    pub(crate) fn try_new(table: &TableSchema, rules: ReadRules) -> Result<Self> {
        let fields = table.arrow().fields();
        let mut steps = Vec::with_capacity(table.slots().len());
        let mut columns = Vec::with_capacity(fields.len());
        for (slot, node, first) in table.columns() {
            let Some(field) = fields.get(first).or(fields.last()) else {
                // Only an empty sparse part has no field, and it has no columns either.
                continue;
            };
            let control = |data_type: DataType, is_nullable| {
                if field.data_type() == &data_type && field.is_nullable() == is_nullable {
                    return Ok(());
                }
                Err(Error::unsupported(
                    format!("column `{}`", field.name()),
                    "the Arrow type of a control column cannot be chosen",
                ))
            };
            let index = |is_three_way| {
                control(DataType::Int64, is_three_way)?;
                let value = Column::Copy8(MutableBuffer::default());
                Ok::<_, Error>(if is_three_way {
                    Column::Optional {
                        flags: Vec::new(),
                        value: Box::new(value),
                    }
                } else {
                    value
                })
            };
            match slot {
                Slot::Dense => {
                    columns.push(Column::try_new(node, field, rules)?);
                    steps.push(Step::Value(first));
                }
                Slot::Other => {
                    let mut column = Column::try_new(node, field, rules)?;
                    if let Column::Bytes { check, .. } | Column::LargeBytes { check, .. } =
                        &mut column
                    {
                        *check = Check::OtherColumns;
                    }
                    columns.push(column);
                    steps.push(Step::Value(first));
                }
                Slot::KeySwitch => {
                    control(DataType::Boolean, false)?;
                    columns.push(Column::Boolean(Vec::new()));
                    steps.push(Step::KeySwitch(first));
                }
                Slot::RowIndex { is_three_way } => {
                    columns.push(index(is_three_way)?);
                    steps.push(Step::RowIndex {
                        column: first,
                        is_three_way,
                    });
                }
                Slot::RangeIndex { is_three_way } => {
                    columns.push(index(is_three_way)?);
                    steps.push(Step::RangeIndex {
                        column: first,
                        is_three_way,
                    });
                }
                Slot::RemainingRowBytes => {
                    control(DataType::Int32, false)?;
                    columns.push(Column::Copy4(MutableBuffer::default()));
                    steps.push(Step::RemainingRowBytes(first));
                }
                Slot::Sparse { .. } => {
                    let mut are_optional = Vec::with_capacity(node.children.len());
                    for (child, field) in node.children.iter().zip(fields.iter().skip(first)) {
                        let value = child.optional_value();
                        if !field.is_nullable() {
                            return Err(Error::unsupported(
                                format!("column `{}`", field.name()),
                                "a sparse column is nullable",
                            ));
                        }
                        are_optional.push(value.is_some());
                        columns.push(Column::nullable(value.unwrap_or(child), field, rules)?);
                    }
                    steps.push(Step::Sparse {
                        first,
                        are_optional,
                    });
                }
            }
        }
        let width = columns.iter().map(Column::width).sum();
        Ok(Self {
            steps,
            columns,
            schema: SchemaRef::clone(table.arrow()),
            num_rows: 0,
            num_bytes: 0,
            width,
            is_key_switch: false,
        })
    }

    /// Reads one row behind its table tag. After an error [`TableRows::undo`] has to be called.
    #[inline]
    pub(crate) fn read_row(
        &mut self,
        cursor: &mut Cursor<'_>,
        state: &mut IndexState,
        rules: ReadRules,
    ) -> std::result::Result<(), RowStop> {
        let start = cursor.pos;
        let mut remaining = None;
        for step in &self.steps {
            match step {
                Step::Value(column) => {
                    if let Some(builder) = self.columns.get_mut(*column)
                        && let Err(stop) = builder.read(cursor, rules)
                    {
                        return Err((Some(*column), stop));
                    }
                }
                Step::KeySwitch(column) => {
                    let read = read_key_switch(&mut self.columns, *column, cursor);
                    self.is_key_switch = read.map_err(|stop| (Some(*column), stop))?;
                }
                Step::RowIndex {
                    column,
                    is_three_way,
                } => {
                    let next = state.row.and_then(|row| row.checked_add(1));
                    let read = read_index(cursor, *is_three_way, next);
                    state.row = read.map_err(|stop| (Some(*column), stop))?;
                    push_index(&mut self.columns, *column, state.row);
                }
                Step::RangeIndex {
                    column,
                    is_three_way,
                } => {
                    let read = read_index(cursor, *is_three_way, state.range);
                    state.range = read.map_err(|stop| (Some(*column), stop))?;
                    push_index(&mut self.columns, *column, state.range);
                }
                Step::RemainingRowBytes(column) => {
                    let at = cursor.pos;
                    let read = cursor.array::<4>();
                    let bytes = read.map_err(|stop| (Some(*column), stop))?;
                    remaining = Some((*column, at, i32::from_le_bytes(bytes)));
                    if let Some(Column::Copy4(out)) = self.columns.get_mut(*column) {
                        out.extend_from_slice(&bytes);
                    }
                }
                Step::Sparse {
                    first,
                    are_optional,
                } => {
                    let columns = self.columns.get_mut(*first..).unwrap_or_default();
                    read_sparse(columns, are_optional, self.num_rows, cursor, rules)
                        .map_err(|(column, stop)| (column.map(|column| first + column), stop))?;
                }
            }
        }
        if let Some((column, at, announced)) = remaining {
            let found = cursor.pos - at - 4;
            if usize::try_from(announced) != Ok(found) {
                let reason = format!("the row announces {announced} more bytes and has {found}");
                let stop = bad(StreamFault::BadRemainingRowBytes, at, reason);
                return stop.map_err(|stop| (Some(column), stop));
            }
        }
        self.num_rows += 1;
        self.num_bytes += cursor.pos - start + self.width + cursor.charged();
        Ok(())
    }

    /// Removes what an unfinished row left.
    pub(crate) fn undo(&mut self) {
        for column in &mut self.columns {
            column.truncate(self.num_rows);
        }
    }

    /// Removes the last row.
    pub(crate) fn undo_last(&mut self) {
        self.num_rows = self.num_rows.saturating_sub(1);
        self.undo();
    }

    /// Takes the rows as a batch.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch> {
        let num_rows = std::mem::take(&mut self.num_rows);
        self.num_bytes = 0;
        for step in &self.steps {
            if let Step::Sparse {
                first,
                are_optional,
            } = step
            {
                let columns = self.columns.get_mut(*first..).unwrap_or_default();
                for column in columns.iter_mut().take(are_optional.len()) {
                    fill(column, num_rows);
                }
            }
        }
        let pairs = self.columns.iter_mut().zip(self.schema.fields());
        let arrays = pairs.map(|(column, field)| column.finish(field));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(num_rows));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    /// The name of a column.
    pub(crate) fn name(&self, column: usize) -> Option<String> {
        let field = self.schema.fields().get(column)?;
        Some(field.name().clone())
    }
}

fn read_key_switch(
    columns: &mut [Column],
    column: usize,
    cursor: &mut Cursor<'_>,
) -> Result<bool, Stop> {
    let at = cursor.pos;
    let byte = cursor.byte()?;
    if byte > 1 {
        let reason = format!("the byte of a boolean is {byte:#04x}, not 0 or 1");
        return bad(StreamFault::BadBoolean, at, reason);
    }
    if let Some(Column::Boolean(flags)) = columns.get_mut(column) {
        flags.push(byte);
    }
    Ok(byte == 1)
}

/// An index: tag 0 is `implied`, tag 1 is followed by the number, tag 2 is an index that is not available.
fn read_index(
    cursor: &mut Cursor<'_>,
    is_three_way: bool,
    implied: Option<i64>,
) -> Result<Option<i64>, Stop> {
    let at = cursor.pos;
    match cursor.byte()? {
        1 => Ok(Some(i64::from_le_bytes(cursor.array()?))),
        0 if implied.is_some() => Ok(implied),
        0 => {
            let reason = "tag 0 refers to the index of an earlier row, and no row had one";
            bad(StreamFault::BadVariantTag, at, reason)
        }
        2 if is_three_way => Ok(None),
        tag => {
            let most = if is_three_way { 2 } else { 1 };
            let reason = format!("the tag of an index is {tag}, not one of 0 to {most}");
            bad(StreamFault::BadVariantTag, at, reason)
        }
    }
}

fn push_index(columns: &mut [Column], column: usize, value: Option<i64>) {
    let bytes = value.unwrap_or_default().to_le_bytes();
    match columns.get_mut(column) {
        Some(Column::Copy8(out)) => out.extend_from_slice(&bytes),
        Some(Column::Optional {
            flags,
            value: inner,
        }) => {
            flags.push(u8::from(value.is_some()));
            if let Column::Copy8(out) = inner.as_mut() {
                out.extend_from_slice(&bytes);
            }
        }
        _ => {}
    }
}

/// Reads the sparse part. Columns that do not occur are filled with nulls later, many rows at once.
fn read_sparse(
    columns: &mut [Column],
    are_optional: &[bool],
    row: usize,
    cursor: &mut Cursor<'_>,
    rules: ReadRules,
) -> std::result::Result<(), RowStop> {
    loop {
        let at = cursor.pos;
        let tag = cursor.tag(true).map_err(|stop| (None, stop))?;
        if tag == u16::MAX {
            return Ok(());
        }
        let number = usize::from(tag);
        let (Some(column), Some(is_optional)) = (columns.get_mut(number), are_optional.get(number))
        else {
            let count = are_optional.len();
            let reason = format!("the tag is {tag}, and there are {count} sparse columns");
            return bad(StreamFault::BadSparseTag, at, reason).map_err(|stop| (None, stop));
        };
        // Of two values of a column in one row, the last one counts.
        column.truncate(row);
        fill(column, row);
        let read = match column {
            column if *is_optional => column.read(cursor, rules),
            Column::Optional { flags, value } => {
                let read = value.read(cursor, rules);
                flags.push(1);
                read
            }
            _ => Ok(()),
        };
        read.map_err(|stop| (Some(number), stop))?;
    }
}

/// Appends nulls up to a number of rows.
fn fill(column: &mut Column, num_rows: usize) {
    for _ in column.len()..num_rows {
        column.push_default();
    }
}
