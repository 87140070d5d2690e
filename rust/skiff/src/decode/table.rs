//! One row into the columns of its table, with the rules of the control columns.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::MutableBuffer;
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};

use super::column::{Column, ReadRules, bad_yson};
use super::cursor::{Cursor, Stop, bad};
use super::order::SparseOrder;
use crate::error::{Error, Result, StreamFault};
use crate::schema::{Slot, TableSchema, WireNode};
use crate::yson::{self, Limits};

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
    RowIndex(Index),
    RangeIndex(Index),
    RemainingRowBytes(usize),
    Other {
        column: usize,
        /// The names of the other columns, which must not be keys of the map.
        names: HashSet<Vec<u8>>,
    },
    Sparse {
        first: usize,
        are_optional: Vec<bool>,
    },
}

/// An index column.
#[derive(Debug, Clone, Copy)]
struct Index {
    column: usize,
    is_three_way: bool,
}

/// The rows of one table that were read since the last batch.
#[derive(Debug)]
pub(crate) struct TableRows {
    steps: Vec<Step>,
    columns: Vec<Column>,
    order: Option<SparseOrder>,
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
        special_as_null: false,
        limits: Limits::default(),
    };
    TableRows::try_new(table, rules, false).map(|_| ())
}

/// Collects the steps and columns of a table.
struct Binder {
    steps: Vec<Step>,
    columns: Vec<Column>,
    rules: ReadRules,
}

impl Binder {
    fn slot(
        &mut self,
        slot: Slot,
        node: &WireNode,
        fields: &[FieldRef],
        table: &TableSchema,
    ) -> Result<()> {
        let first = self.columns.len();
        if let Slot::Sparse { .. } = slot {
            return self.sparse(node, fields);
        }
        let Some(field) = fields.first() else {
            return Ok(());
        };
        let (column, step) = match slot {
            Slot::KeySwitch => {
                control(field, &DataType::Boolean, false)?;
                (Column::Boolean(Vec::new()), Step::KeySwitch(first))
            }
            Slot::RowIndex { is_three_way } | Slot::RangeIndex { is_three_way } => {
                control(field, &DataType::Int64, is_three_way)?;
                let step = Index {
                    column: first,
                    is_three_way,
                };
                let step = match slot {
                    Slot::RowIndex { .. } => Step::RowIndex(step),
                    _ => Step::RangeIndex(step),
                };
                (index_column(is_three_way), step)
            }
            Slot::RemainingRowBytes => {
                control(field, &DataType::Int32, false)?;
                let column = Column::Copy4(MutableBuffer::default());
                (column, Step::RemainingRowBytes(first))
            }
            Slot::Other => {
                // The step checks the map: it is read once for its keys and for its form.
                let rules = ReadRules {
                    validates_yson: false,
                    ..self.rules
                };
                let step = Step::Other {
                    column: first,
                    names: table.names(),
                };
                (Column::try_new(node, field, rules)?, step)
            }
            _ => (
                Column::try_new(node, field, self.rules)?,
                Step::Value(first),
            ),
        };
        self.columns.push(column);
        self.steps.push(step);
        Ok(())
    }

    fn sparse(&mut self, node: &WireNode, fields: &[FieldRef]) -> Result<()> {
        let first = self.columns.len();
        let mut are_optional = Vec::with_capacity(node.children.len());
        for (child, field) in node.children.iter().zip(fields) {
            let value = child.optional_value();
            if !field.is_nullable() {
                return Err(Error::unsupported(
                    format!("column `{}`", field.name()),
                    "a sparse column can be absent: make the field nullable",
                ));
            }
            are_optional.push(value.is_some());
            let column = Column::nullable(value.unwrap_or(child), field, self.rules)?;
            self.columns.push(column);
        }
        self.steps.push(Step::Sparse {
            first,
            are_optional,
        });
        Ok(())
    }
}

/// Checks that a control column keeps its own type.
fn control(field: &FieldRef, data_type: &DataType, is_nullable: bool) -> Result<()> {
    if field.data_type() == data_type && field.is_nullable() == is_nullable {
        return Ok(());
    }
    Err(Error::unsupported(
        format!("column `{}`", field.name()),
        format!(
            "the control column is always {}; leave it out of the schema",
            crate::arrow_name::arrow_name(data_type)
        ),
    ))
}

fn index_column(is_three_way: bool) -> Column {
    let value = Column::Copy8(MutableBuffer::default());
    if !is_three_way {
        return value;
    }
    Column::Optional {
        flags: Vec::new(),
        value: Box::new(value),
    }
}

impl TableRows {
    /// With `keeps_sparse_order`, a table with a sparse part gets a column more: the tags of every row in their order.
    pub(crate) fn try_new(
        table: &TableSchema,
        rules: ReadRules,
        keeps_sparse_order: bool,
    ) -> Result<Self> {
        let fields = table.arrow().fields();
        let mut binder = Binder {
            steps: Vec::with_capacity(table.slots().len()),
            columns: Vec::with_capacity(fields.len()),
            rules,
        };
        for (slot, node, first) in table.columns() {
            let fields = fields.get(first..).unwrap_or_default();
            binder.slot(slot, node, fields, table)?;
        }
        let Binder { steps, columns, .. } = binder;
        let has_sparse = steps.iter().any(|it| matches!(it, Step::Sparse { .. }));
        let order = (keeps_sparse_order && has_sparse).then(SparseOrder::default);
        let schema = match order {
            None => SchemaRef::clone(table.arrow()),
            Some(_) => {
                let fields = fields.iter().cloned().chain([SparseOrder::field()]);
                Arc::new(Schema::new(fields.collect::<Vec<_>>()))
            }
        };
        let width = columns.iter().map(Column::width).sum();
        Ok(Self {
            steps,
            columns,
            order,
            schema,
            num_rows: 0,
            num_bytes: 0,
            width,
            is_key_switch: false,
        })
    }

    /// NaN and infinities of decimals that were handed out as nulls.
    pub(crate) fn num_special(&self) -> u64 {
        self.columns.iter().map(Column::num_special).sum()
    }

    /// Reads one row behind its table tag. After an error [`TableRows::undo`] has to be called.
    #[inline]
    pub(crate) fn read_row(
        &mut self,
        cursor: &mut Cursor<'_>,
        state: &mut IndexState,
        rules: ReadRules,
        rejects_duplicates: bool,
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
                Step::RowIndex(index) => {
                    let next = state.row.and_then(|row| row.checked_add(1));
                    state.row = read_index(&mut self.columns, *index, cursor, next)?;
                }
                Step::RangeIndex(index) => {
                    state.range = read_index(&mut self.columns, *index, cursor, state.range)?;
                }
                Step::Other { column, names } => {
                    if let Some(builder) = self.columns.get_mut(*column) {
                        let names = rejects_duplicates.then_some(names);
                        read_other(builder, names, cursor, rules)
                            .map_err(|stop| (Some(*column), stop))?;
                    }
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
                    read_sparse(columns, are_optional, self.num_rows, cursor, rules, |tag| {
                        if let Some(order) = &mut self.order {
                            order.tags.push(tag);
                        }
                    })
                    .map_err(|(column, stop)| (column.map(|column| first + column), stop))?;
                    if let Some(order) = &mut self.order {
                        order.end_row().map_err(|stop| (None, stop))?;
                    }
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
        if let Some(order) = &mut self.order {
            order.truncate(self.num_rows);
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
        let mut arrays = arrays.collect::<Result<Vec<_>>>()?;
        if let Some(order) = &mut self.order {
            arrays.push(order.finish()?);
        }
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
    columns: &mut [Column],
    index: Index,
    cursor: &mut Cursor<'_>,
    implied: Option<i64>,
) -> std::result::Result<Option<i64>, RowStop> {
    let value = read_index_value(cursor, index.is_three_way, implied);
    let value = value.map_err(|stop| (Some(index.column), stop))?;
    push_index(columns, index.column, value);
    Ok(value)
}

fn read_index_value(
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

/// Reads the map of `$other_columns`. A key that is one of `names` is refused.
fn read_other(
    column: &mut Column,
    names: Option<&HashSet<Vec<u8>>>,
    cursor: &mut Cursor<'_>,
    rules: ReadRules,
) -> Result<(), Stop> {
    let at = cursor.pos;
    column.read(cursor, rules)?;
    let map = cursor.since(at + 4);
    let key = match yson::declared_key(map, rules.limits, names) {
        Ok(key) => key,
        Err(error) => return bad_yson(error, at),
    };
    if !yson::is_plain_map(map) {
        let reason = "the value is no map, or a map with attributes";
        return bad(StreamFault::OtherColumnsNotMap, at, reason);
    }
    if let Some(key) = key {
        let key = key.escape_ascii();
        let reason = format!("the map has the key `{key}`, which is the name of a column too");
        return bad(StreamFault::DuplicateColumn, at, reason);
    }
    Ok(())
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
    mut note: impl FnMut(u16),
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
        note(tag);
    }
}

/// Appends nulls up to a number of rows.
fn fill(column: &mut Column, num_rows: usize) {
    for _ in column.len()..num_rows {
        column.push_default();
    }
}
