//! The conditions of a merge: that of an update over `source.x` and `target.x`, that of a deletion over the columns of the table.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use pilum_common::type_name;
use pilum_expr::{BoundExpr, ColumnPath, Expr, bind, filter_mask};

use crate::error::{Error, Result};

/// The structs that a condition names: `source.x` and `target.x`.
const SOURCE: &str = "source";
const TARGET: &str = "target";

/// A bound condition, and the columns that it reads of either side.
pub(super) struct Condition {
    bound: BoundExpr,
    schema: SchemaRef,
    pub(super) source: Vec<String>,
    pub(super) target: Vec<String>,
}

/// The condition of an update with `x` as `source.x` or `target.x`, where only one of them has such a column.
///
/// # Errors
/// `InvalidInput` for a column of both.
fn with_sides(condition: &Expr, source: &Schema, target: &Schema) -> Result<Expr> {
    condition.with_columns(&|path: &ColumnPath| {
        let root = path.root();
        let has = |schema: &Schema| schema.column_with_name(root).is_some();
        let side = match (has(source), has(target)) {
            _ if root == SOURCE || root == TARGET => return Ok(path.clone()),
            (true, true) => {
                let reason = format!(
                    "`{path}` is a column of the source and of the table; write {SOURCE}.{path} or {TARGET}.{path}"
                );
                return Err(Error::invalid("when_matched", reason));
            }
            (true, false) => SOURCE,
            (false, true) => TARGET,
            (false, false) => return Ok(path.clone()),
        };
        let names = [side.to_owned()].into_iter().chain(path.names().to_vec());
        Ok(ColumnPath::new(names))
    })
}

/// The condition of a deletion with `target.x` as `x`, unless the table has a column `target`.
///
/// # Errors
/// `InvalidInput` for `source.x`, unless the table has a column `source`.
pub(super) fn of_target(condition: &Expr, target: &Schema) -> Result<Expr> {
    condition.with_columns(&|path: &ColumnPath| {
        let is_side = |side: &str| {
            path.root() == side
                && path.names().len() > 1
                && target.column_with_name(side).is_none()
        };
        if is_side(SOURCE) {
            let reason = format!(
                "`{path}`: the condition is about rows of the table that no row of the source matches; it may name \
                 columns of the table alone"
            );
            return Err(Error::invalid("when_not_matched_by_source", reason));
        }
        if is_side(TARGET) {
            return Ok(ColumnPath::new(path.names()[1..].to_vec()));
        }
        Ok(path.clone())
    })
}

fn side(name: &str, fields: Fields) -> Field {
    Field::new(name, DataType::Struct(fields), false)
}

impl Condition {
    pub(super) fn new(condition: &Expr, source: &Schema, target: &Schema) -> Result<Self> {
        let all = Schema::new(vec![
            side(SOURCE, source.fields().clone()),
            side(TARGET, target.fields().clone()),
        ]);
        let condition = &with_sides(condition, source, target)?;
        let bound = bind(condition, &all)?;
        if !matches!(bound.data_type(), DataType::Boolean | DataType::Null) {
            let reason = format!(
                "`{condition}` is {}, a condition must be true or false",
                type_name(bound.data_type())
            );
            return Err(Error::invalid("when_matched", reason));
        }
        let named = |side: &str, schema: &Schema| -> Fields {
            let is_read = |field: &&Arc<Field>| {
                bound.columns().iter().any(|path| match path.names() {
                    [first] => first == side,
                    [first, second, ..] => first == side && second == field.name(),
                    [] => false,
                })
            };
            schema.fields().iter().filter(is_read).cloned().collect()
        };
        let (source, target) = (named(SOURCE, source), named(TARGET, target));
        let names = |fields: &Fields| fields.iter().map(|field| field.name().clone()).collect();
        let read = Schema::new(vec![
            side(SOURCE, source.clone()),
            side(TARGET, target.clone()),
        ]);
        Ok(Self {
            bound: bind(condition, &read)?,
            schema: Arc::new(read),
            source: names(&source),
            target: names(&target),
        })
    }

    /// The pairs, of `num_rows`, for which the condition is true. The columns are those of `source` and `target`, in their order.
    pub(super) fn mask(
        &self,
        source: Vec<ArrayRef>,
        target: Vec<ArrayRef>,
        num_rows: usize,
    ) -> Result<BooleanArray> {
        let failed = |error: arrow_schema::ArrowError| {
            Error::bug(format!(
                "the condition of a merge got other columns than it reads: {error}"
            ))
        };
        let fields = self.schema.fields().iter().zip([source, target]);
        let sides = fields.map(|(field, columns)| -> Result<ArrayRef> {
            let DataType::Struct(members) = field.data_type() else {
                return Err(Error::bug(
                    "the condition of a merge has neither source nor target",
                ));
            };
            let built = StructArray::try_new_with_length(members.clone(), columns, None, num_rows);
            Ok(Arc::new(built.map_err(failed)?))
        });
        let sides = sides.collect::<Result<_>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(num_rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), sides, &rows);
        Ok(filter_mask(&self.bound, &batch.map_err(failed)?)?)
    }
}
