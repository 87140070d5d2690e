//! The columns of a batch matched with a table schema, and its rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, FieldRef};

use super::bind::{Binder, Part};
use super::block::Block;
use super::column::Column;
use super::given::{Given, MatchError};
use super::other::{self, Other};
use super::sparse::{Order, Seen, Sparse, SparseColumn};
use super::value::{Check, Refusal, RowRefusal, refuse};
use crate::bytes::BytesArray;
use crate::error::{Error, Result, ValueFault};
use crate::schema::{
    KEY_SWITCH, OTHER, RANGE_INDEX, REMAINING, ROW_INDEX, SPARSE, Slot, TableSchema, WireNode,
    WireType,
};
use crate::yson::Limits;

/// What the index columns of the next row are counted from: the rule by which servers leave numbers out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IndexState {
    table: Option<usize>,
    range: Option<i64>,
    row: Option<i64>,
}

/// How a slot is written.
#[derive(Debug)]
enum Step {
    Value(Column),
    KeySwitch(BooleanArray),
    RowIndex { is_three_way: bool },
    RangeIndex { is_three_way: bool },
    RemainingRowBytes,
    Sparse(Sparse),
    Other(Other),
}

/// A batch that is ready to be written.
#[derive(Debug)]
pub(crate) struct TableRows {
    table: usize,
    /// Each with the name of its column.
    steps: Vec<(Step, String)>,
    row_index: Option<Int64Array>,
    range_index: Option<Int64Array>,
    has_index: bool,
}

impl TableRows {
    /// Matches the columns by name.
    pub(crate) fn try_new(
        table: usize,
        schema: &TableSchema,
        batch: &RecordBatch,
        check: Check,
        limits: Limits,
    ) -> Result<Self, MatchError> {
        let mut rows = Self {
            table,
            steps: Vec::with_capacity(schema.slots().len()),
            row_index: None,
            range_index: None,
            has_index: false,
        };
        let mut given = Given::try_new(batch)?;
        for (slot, node, first) in schema.columns() {
            let expected = schema.arrow().fields().get(first..).unwrap_or_default();
            let step = rows.step(slot, node, expected, &mut given, (check, limits))?;
            // A column without bytes is not looked at for every row.
            if !matches!(&step, Step::Value(column) if column.is_void()) {
                rows.steps.push((step, node.name.clone()));
            }
        }
        rows.has_index = rows.row_index.is_some() || rows.range_index.is_some();
        rows.take_unused(&given, schema, check)?;
        Ok(rows)
    }

    /// How a slot is written. `expected` begins with its fields.
    fn step(
        &mut self,
        slot: Slot,
        node: &WireNode,
        expected: &[FieldRef],
        given: &mut Given<'_>,
        (check, limits): (Check, Limits),
    ) -> Result<Step, MatchError> {
        let name = node.name.as_str();
        let missing = || MatchError::Missing(name.to_owned());
        Ok(match slot {
            Slot::Dense => Step::Value(match given.take(name) {
                Some((field, array)) => {
                    let expected = expected.first().ok_or_else(missing)?;
                    let binder = Binder {
                        column: name,
                        yson: check,
                    };
                    binder.bind(Part {
                        node,
                        expected,
                        field: &field,
                        array: &array,
                    })?
                }
                None if node.optional_value().is_some() => Column::Missing,
                None if node.wire_type == WireType::Nothing => Column::Nothing,
                None => return Err(missing()),
            }),
            Slot::KeySwitch => {
                let (field, array) = given.take(name).ok_or_else(missing)?;
                let flags = array
                    .as_boolean_opt()
                    .filter(|flags| flags.null_count() == 0);
                Step::KeySwitch(flags.ok_or_else(|| control(&field))?.clone())
            }
            Slot::RowIndex { is_three_way } => {
                self.row_index = Some(index(given.take(name).ok_or_else(missing)?)?);
                Step::RowIndex { is_three_way }
            }
            Slot::RangeIndex { is_three_way } => {
                self.range_index = Some(index(given.take(name).ok_or_else(missing)?)?);
                Step::RangeIndex { is_three_way }
            }
            Slot::RemainingRowBytes => {
                // Its values are computed, whatever a decoded batch says.
                given.take(name);
                Step::RemainingRowBytes
            }
            Slot::Sparse { .. } => {
                let mut columns = Vec::with_capacity(node.children.len());
                for (child, expected) in node.children.iter().zip(expected) {
                    columns.push(sparse_column(child, expected, given, check)?);
                }
                let order = given.take(name).map(|(_, array)| Order::try_new(&array));
                Step::Sparse(Sparse {
                    columns,
                    order: order.transpose()?,
                })
            }
            Slot::Other => Step::Other(Other {
                maps: given.take(name).map(|(_, array)| array),
                columns: Vec::new(),
                keys: HashMap::new(),
                declared: None,
                limits,
            }),
        })
    }

    /// A writer of many rows at once, when all columns are of fixed size or strings.
    pub(crate) fn block(&self) -> Option<Block<'_>> {
        let columns = self.steps.iter().map(|(step, _)| match step {
            Step::Value(column) => Some(column),
            _ => None,
        });
        Block::try_new(columns.collect::<Option<_>>()?)
    }

    /// Columns without a slot go into `$other_columns`, or are refused.
    fn take_unused(
        &mut self,
        given: &Given<'_>,
        schema: &TableSchema,
        check: Check,
    ) -> Result<(), MatchError> {
        for (field, array) in given.unused() {
            if CONTROL.contains(&field.name().as_str()) {
                return Err(MatchError::Control(field.name().clone()));
            }
            match self.steps.last_mut() {
                Some((Step::Other(other), _)) => {
                    other::check(field)?;
                    other.columns.push((Arc::clone(field), Arc::clone(array)));
                }
                _ => return Err(MatchError::Unexpected(field.name().clone())),
            }
        }
        if let Some((Step::Other(other), _)) = self.steps.last_mut() {
            if let Some(maps) = &other.maps {
                BytesArray::try_new(maps.as_ref()).map_err(|_| {
                    let found = crate::arrow_name::arrow_name(maps.data_type());
                    let reason =
                        format!("it is {found}; the maps are binary, one YSON map per row");
                    Error::unsupported(format!("column `{OTHER}`"), reason)
                })?;
            }
            other.declared = (check != Check::Nothing).then(|| schema.names());
            for (number, (field, _)) in other.columns.iter().enumerate() {
                other.keys.insert(field.name().clone().into_bytes(), number);
            }
        }
        Ok(())
    }

    /// Appends a row without its table tag. After an error the caller cuts `out` back.
    #[inline]
    pub(crate) fn write_row(
        &self,
        row: usize,
        state: &mut IndexState,
        seen: &mut Seen,
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), RowRefusal> {
        let value = |index: &Option<Int64Array>| {
            index
                .as_ref()
                .filter(|index| index.is_valid(row))
                .map(|index| index.value(row))
        };
        let (row_index, range_index) = (value(&self.row_index), value(&self.range_index));
        if self.has_index && (state.table != Some(self.table) || state.range != range_index) {
            *state = IndexState {
                table: Some(self.table),
                range: None,
                row: None,
            };
        }
        let mut remaining = None;
        for (step, name) in &self.steps {
            let written = match step {
                Step::Value(column) => column.write(row, out),
                Step::KeySwitch(flags) => {
                    out.push(u8::from(flags.value(row)));
                    Ok(())
                }
                Step::RowIndex { is_three_way } => {
                    let implied = state.row.and_then(|row| row.checked_add(1));
                    write_index(row_index, implied, *is_three_way, out)
                }
                Step::RangeIndex { is_three_way } => {
                    write_index(range_index, state.range, *is_three_way, out)
                }
                Step::RemainingRowBytes => {
                    remaining = Some(out.len());
                    out.extend_from_slice(&[0; 4]);
                    Ok(())
                }
                Step::Sparse(sparse) => {
                    sparse.write(row, seen, out)?;
                    Ok(())
                }
                Step::Other(other) => other.write(row, out),
            };
            if let Err(refusal) = written {
                return Err((name.clone(), refusal));
            }
        }
        if self.has_index {
            state.range = range_index;
            state.row = row_index;
        }
        if let Some(at) = remaining {
            let Ok(length) = i32::try_from(out.len() - at - 4) else {
                let reason =
                    "a row of 2 GiB or more, whose size `$remaining_row_bytes` does not hold";
                let refusal = refuse(ValueFault::OutOfRange, reason);
                return refusal.map_err(|refusal| (REMAINING.to_owned(), refusal));
            };
            if let Some(slot) = out.get_mut(at..at + 4) {
                slot.copy_from_slice(&length.to_le_bytes());
            }
        }
        Ok(())
    }
}

/// Columns that say something about rows and are no data: they have no place in `$other_columns`.
const CONTROL: [&str; 5] = [KEY_SWITCH, ROW_INDEX, RANGE_INDEX, REMAINING, SPARSE];

fn control(field: &FieldRef) -> Error {
    let found = crate::arrow_name::arrow_name(field.data_type());
    Error::unsupported(
        format!("column `{}`", field.name()),
        format!(
            "the control column is {found}; `$key_switch` is bool without nulls, and an index is int64"
        ),
    )
}

fn index((field, array): (FieldRef, ArrayRef)) -> Result<Int64Array> {
    let values = array.as_primitive_opt::<Int64Type>();
    values.cloned().ok_or_else(|| control(&field))
}

fn write_index(
    value: Option<i64>,
    implied: Option<i64>,
    is_three_way: bool,
    out: &mut Vec<u8>,
) -> std::result::Result<(), Box<Refusal>> {
    match value {
        Some(value) if implied == Some(value) => out.push(0),
        Some(value) => {
            out.push(1);
            out.extend_from_slice(&value.to_le_bytes());
        }
        None if is_three_way => out.push(2),
        None => {
            return refuse(
                ValueFault::NullInRequired,
                "a null, and the two-way form of an index has no way to say that it is not available; declare the column as variant8<nothing; int64; nothing>",
            );
        }
    }
    Ok(())
}

fn sparse_column(
    node: &WireNode,
    expected: &FieldRef,
    given: &mut Given<'_>,
    check: Check,
) -> Result<Option<SparseColumn>, MatchError> {
    let Some((field, array)) = given.take(&node.name) else {
        return Ok(None);
    };
    let binder = Binder {
        column: &node.name,
        yson: check,
    };
    let value = node.optional_value();
    let column = match array.data_type() {
        DataType::Null => Column::Missing,
        _ => binder.bind_nullable(Part {
            node: value.unwrap_or(node),
            expected,
            field: &field,
            array: &array,
        })?,
    };
    Ok(Some(SparseColumn {
        is_optional: value.is_some(),
        column,
        name: node.name.clone(),
    }))
}
