//! One row into the columns of its table, with the rules of the control columns.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::MutableBuffer;
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};

use super::check::ReadRules;
use super::column::Column;
use super::control::{
    Index, IndexState, control, index_column, read_key_switch, read_range_index, read_row_index,
};
use super::cursor::{Cursor, RowStop, bad};
use super::order::SparseOrder;
use super::tail::{fill, read_other, read_sparse};
use crate::error::{Error, Result, StreamFault};
use crate::schema::{Slot, TableSchema, WireNode};
use crate::yson::Limits;

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
        // A column without bytes is not read; its rows are counted when the batch is made.
        if !column.is_void() {
            self.steps.push(step);
        }
        self.columns.push(column);
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
                    state.row = read_row_index(&mut self.columns, *index, cursor, state.row)?;
                }
                Step::RangeIndex(index) => {
                    state.range = read_range_index(&mut self.columns, *index, cursor, state.range)?;
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
        for column in self.columns.iter_mut().filter(|it| it.is_void()) {
            column.set_void_len(num_rows);
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
