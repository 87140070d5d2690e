//! The condition of an update, over `source.x` and `target.x`.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use pilum_expr::{BoundExpr, Expr, bind, filter_mask};
use pilum_format::type_name;

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

fn side(name: &str, fields: Fields) -> Field {
    Field::new(name, DataType::Struct(fields), false)
}

impl Condition {
    pub(super) fn new(condition: &Expr, source: &Schema, target: &Schema) -> Result<Self> {
        let all = Schema::new(vec![
            side(SOURCE, source.fields().clone()),
            side(TARGET, target.fields().clone()),
        ]);
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
