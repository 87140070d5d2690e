//! The columns of a batch matched with a table schema, and its rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, FieldRef};

use super::bind::{bind, bind_nullable};
use super::column::{Check, Column, Refusal, refuse};
use super::other;
use crate::bytes::BytesArray;
use crate::error::{Error, Result, ValueFault};
use crate::schema::{Slot, TableSchema};
use crate::yson::{self, Limits, Node, Style, Value};

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
    Sparse(Vec<SparseColumn>),
    Other(Other),
}

/// A sparse column: its number, whether its value has a tag of its own, its values, and its name.
#[derive(Debug)]
struct SparseColumn {
    tag: u16,
    is_optional: bool,
    column: Column,
    name: String,
}

/// `$other_columns`: the maps of a column of this name, and columns that have no other place.
#[derive(Debug)]
struct Other {
    maps: Option<ArrayRef>,
    columns: Vec<(FieldRef, ArrayRef)>,
    limits: Limits,
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

/// A refusal and the column that it is about.
pub(crate) type RowRefusal = (String, Box<Refusal>);

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
        let mut unused: Vec<usize> = (0..batch.num_columns()).collect();
        let mut find = |name: &str| {
            let place = batch
                .schema_ref()
                .fields()
                .iter()
                .position(|it| it.name() == name)?;
            unused.retain(|other| *other != place);
            let field = batch.schema_ref().fields().get(place)?;
            Some((Arc::clone(field), Arc::clone(batch.columns().get(place)?)))
        };
        for (slot, node, _) in schema.columns() {
            let name = node.name.as_str();
            let missing = || MatchError::Missing(name.to_owned());
            let step = match slot {
                Slot::Dense => Step::Value(match find(name) {
                    Some((field, array)) => bind(node, &field, &array, check)?,
                    None if node.optional_value().is_some() => Column::Missing,
                    None if node.wire_type == crate::WireType::Nothing => Column::Nothing,
                    None => return Err(missing()),
                }),
                Slot::KeySwitch => {
                    let (field, array) = find(name).ok_or_else(missing)?;
                    let flags = array
                        .as_boolean_opt()
                        .filter(|flags| flags.null_count() == 0);
                    Step::KeySwitch(flags.ok_or_else(|| control(&field))?.clone())
                }
                Slot::RowIndex { is_three_way } => {
                    rows.row_index = Some(index(find(name).ok_or_else(missing)?)?);
                    Step::RowIndex { is_three_way }
                }
                Slot::RangeIndex { is_three_way } => {
                    rows.range_index = Some(index(find(name).ok_or_else(missing)?)?);
                    Step::RangeIndex { is_three_way }
                }
                Slot::RemainingRowBytes => {
                    // Its values are computed, whatever a decoded batch says.
                    find(name);
                    Step::RemainingRowBytes
                }
                Slot::Sparse { .. } => {
                    let mut columns = Vec::new();
                    for (tag, child) in (0..u16::MAX).zip(&node.children) {
                        let Some((field, array)) = find(&child.name) else {
                            continue;
                        };
                        let value = child.optional_value();
                        let column = match array.data_type() {
                            DataType::Null => Column::Missing,
                            _ => bind_nullable(value.unwrap_or(child), &field, &array, check)?,
                        };
                        columns.push(SparseColumn {
                            tag,
                            is_optional: value.is_some(),
                            column,
                            name: child.name.clone(),
                        });
                    }
                    Step::Sparse(columns)
                }
                Slot::Other => Step::Other(Other {
                    maps: find(name).map(|(_, array)| array),
                    columns: Vec::new(),
                    limits,
                }),
            };
            rows.steps.push((step, name.to_owned()));
        }
        rows.has_index = rows.row_index.is_some() || rows.range_index.is_some();
        rows.take_unused(batch, &unused)?;
        Ok(rows)
    }

    /// Columns without a slot go into `$other_columns`, or are refused.
    fn take_unused(&mut self, batch: &RecordBatch, unused: &[usize]) -> Result<(), MatchError> {
        for place in unused {
            let Some(field) = batch.schema_ref().fields().get(*place) else {
                continue;
            };
            match self.steps.last_mut() {
                Some((Step::Other(other), _)) => {
                    other::check(field)?;
                    other
                        .columns
                        .push((Arc::clone(field), Arc::clone(batch.column(*place))));
                }
                _ => return Err(MatchError::Unexpected(field.name().clone())),
            }
        }
        if let Some((Step::Other(other), _)) = self.steps.last()
            && let Some(maps) = &other.maps
        {
            BytesArray::try_new(maps.as_ref())?;
        }
        Ok(())
    }

    /// Appends a row without its table tag. After an error the caller cuts `out` back.
    #[inline]
    pub(crate) fn write_row(
        &self,
        row: usize,
        state: &mut IndexState,
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
                Step::Sparse(columns) => {
                    write_sparse(columns, row, out)?;
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
            let length = i32::try_from(out.len() - at - 4).unwrap_or(i32::MAX);
            if let Some(slot) = out.get_mut(at..at + 4) {
                slot.copy_from_slice(&length.to_le_bytes());
            }
        }
        Ok(())
    }
}

/// Why the columns of a batch do not match a table schema.
#[derive(Debug)]
pub(crate) enum MatchError {
    Missing(String),
    Unexpected(String),
    Other(Error),
}

impl From<Error> for MatchError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

fn control(field: &FieldRef) -> Error {
    let found = crate::arrow_name::arrow_name(field.data_type());
    Error::unsupported(
        format!("column `{}`", field.name()),
        format!("the control column is {found}; bool without nulls or int64 is needed"),
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
                "an index that is not available, in a column that cannot say so",
            );
        }
    }
    Ok(())
}

fn write_sparse(
    columns: &[SparseColumn],
    row: usize,
    out: &mut Vec<u8>,
) -> std::result::Result<(), RowRefusal> {
    for sparse in columns {
        if !sparse.column.is_present(row) {
            continue;
        }
        out.extend_from_slice(&sparse.tag.to_le_bytes());
        // The tag of the column says already that there is a value.
        let written = if sparse.is_optional {
            sparse.column.write(row, out)
        } else {
            sparse.column.write_present(row, out)
        };
        if let Err(refusal) = written {
            return Err((sparse.name.clone(), refusal));
        }
    }
    out.extend_from_slice(&u16::MAX.to_le_bytes());
    Ok(())
}

impl Other {
    fn write(&self, row: usize, out: &mut Vec<u8>) -> std::result::Result<(), Box<Refusal>> {
        let map = match &self.maps {
            // The layout was looked at when the batch was matched.
            Some(maps) => BytesArray::try_new(maps.as_ref())
                .ok()
                .and_then(|maps| maps.value(row)),
            None => None,
        };
        let map = map.unwrap_or(b"{}");
        if let Err(error) = yson::validate(map, self.limits) {
            return refuse(ValueFault::BadYson, error.to_string());
        }
        if !yson::is_plain_map(map) {
            let reason = "the value is no map, or a map with attributes";
            return refuse(ValueFault::OtherColumnsNotMap, reason);
        }
        let merged;
        let map = if self.columns.is_empty() {
            map
        } else {
            match self.merge(map, row) {
                Ok(bytes) => merged = bytes,
                Err(error) => return refuse(ValueFault::BadYson, error.to_string()),
            }
            merged.as_slice()
        };
        let Ok(length) = u32::try_from(map.len()) else {
            return refuse(ValueFault::OutOfRange, "a map of 4 GiB or more");
        };
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(map);
        Ok(())
    }

    /// The map with the values of the columns; nulls are left out.
    fn merge(&self, map: &[u8], row: usize) -> Result<Vec<u8>> {
        let mut pairs = match yson::parse(map, self.limits)?.value {
            Value::Map(pairs) => pairs,
            _ => Vec::new(),
        };
        for (field, array) in &self.columns {
            if let Some(value) = other::node(field, array, row, self.limits)? {
                pairs.push((field.name().clone().into_bytes(), value));
            }
        }
        let mut out = Vec::new();
        yson::write_node(
            &Node::from(Value::Map(pairs)),
            Style::Binary,
            false,
            &mut out,
        );
        Ok(out)
    }
}
