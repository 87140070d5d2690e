//! Converts stored columns to the columns that replace them: another type, where every value is kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, StructArray, make_array};
use arrow_schema::{ArrowError, DataType, Fields, SchemaRef};
use futures::stream::StreamExt;
use pilum_expr::{AdaptOptions, Conversion, Projection};
use pilum_format::{Field, FieldId, Schema};
use tokio::runtime::Handle;

use super::backfill::Values;
use super::tree;
use crate::dml::assigned_values::{Refusal, check_computed, convert_values, located, masked};
use crate::dml::statement::StatementOptions;
use crate::error::{Error, Result};
use crate::read::options::ScanOptions;
use crate::read::snapshot::Snapshot;

/// The conversion of some columns of a version.
pub(super) struct Retyping {
    /// The fields that are read, by their paths.
    names: Vec<String>,
    /// For each column that is read.
    steps: Vec<Step>,
    schema: SchemaRef,
}

/// What becomes of a field that is read.
enum Step {
    /// It is converted, after the fields inside of it got their new names.
    Convert {
        renamed: DataType,
        conversion: Box<Conversion>,
        path: String,
    },
    /// Members of it are converted.
    Members { fields: Fields, steps: Vec<Self> },
}

impl Retyping {
    /// Plans the conversion of the fields `rewritten` of a version to those of `new`, which has the same shape down to these
    /// fields. `renamed` is the schema of the version with the new names and the old types.
    ///
    /// # Errors
    /// `InvalidInput` for types that do not convert whatever the values; `Unsupported` for a path that two fields have.
    pub(super) fn new(
        base: &Snapshot,
        renamed: &Schema,
        new: &Schema,
        rewritten: &BTreeSet<FieldId>,
    ) -> Result<Self> {
        let mut names = Vec::new();
        for id in base.schema().ids() {
            if rewritten.contains(&id) {
                names.push(tree::path_of(base.schema(), id)?.0.join("."));
            }
        }
        let old = tree::only(base.schema(), rewritten);
        if base.schema().project(&names)?.fields != old.fields {
            let feature = "converting a field beside one whose name says the same path";
            return Err(Error::unsupported(feature, "rename one of them").at(base.uri()));
        }
        let renamed = tree::only(renamed, rewritten);
        let columns = old.fields.iter().zip(&renamed.fields).zip(&new.fields);
        let steps = columns.map(|((old, renamed), new)| {
            Step::new([old, renamed, new], &old.name, rewritten, base.uri())
        });
        Ok(Self {
            names,
            steps: steps.collect::<Result<_>>()?,
            schema: new.to_arrow(),
        })
    }

    /// The converted values of all live rows of some fragments.
    ///
    /// # Errors
    /// When the scan cannot be planned.
    pub(super) fn values<'a>(
        self,
        base: &'a Snapshot,
        fragments: Vec<u64>,
        options: &StatementOptions,
        handle: &Handle,
    ) -> Result<Values<'a>> {
        let scan = base.scan(ScanOptions {
            columns: Projection::Names(self.names.clone()),
            fragments: Some(fragments.clone()),
            ..options.scan(None)
        })?;
        let schema = Arc::clone(&self.schema);
        let converted = scan
            .batches(handle)
            .map(move |batch| self.convert(&batch?, base.uri()));
        Ok(Values {
            schema,
            batches: located(converted, base, fragments).boxed(),
        })
    }

    fn convert(&self, batch: &RecordBatch, uri: &str) -> Result<RecordBatch, Refusal> {
        let columns = self.steps.iter().zip(batch.columns());
        let columns = columns.map(|(step, column)| step.apply(column, uri));
        let columns = columns.collect::<Result<_, _>>()?;
        let built = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        built.map_err(|error| failed(&error).into())
    }
}

fn failed(error: &ArrowError) -> Error {
    Error::bug(format!(
        "converted columns do not fit their schema: {error}"
    ))
}

impl Step {
    /// `fields`: the field as it is stored, the same with its new names, and the field that it becomes.
    fn new(
        fields: [&Field; 3],
        path: &str,
        rewritten: &BTreeSet<FieldId>,
        uri: &str,
    ) -> Result<Self> {
        let [old, renamed, new] = fields;
        if rewritten.contains(&old.id) {
            // Whether the field itself may be null was decided before; here nulls may lie under a null struct.
            let from = renamed.to_arrow().with_name(path).with_nullable(true);
            let to = new.to_arrow().with_name(path).with_nullable(true);
            let conversion = Conversion::new(&from, &to, AdaptOptions::default())
                .map_err(|error| Error::invalid(uri, error.to_string()))?;
            return Ok(Self::Convert {
                renamed: renamed.data_type.clone(),
                conversion: Box::new(conversion),
                path: path.to_owned(),
            });
        }
        let DataType::Struct(members) = &new.data_type else {
            return Err(Error::bug(format!(
                "the conversion of column `{path}` met no struct"
            )));
        };
        let children = old.children.iter().zip(&renamed.children);
        let steps = children.zip(&new.children).map(|((old, renamed), new)| {
            let path = format!("{path}.{}", old.name);
            Self::new([old, renamed, new], &path, rewritten, uri)
        });
        Ok(Self::Members {
            fields: members.clone(),
            steps: steps.collect::<Result<_>>()?,
        })
    }

    fn apply(&self, array: &ArrayRef, uri: &str) -> Result<ArrayRef, Refusal> {
        let (fields, steps) = match self {
            Self::Convert {
                renamed,
                conversion,
                path,
            } => {
                let array = relabelled(array, renamed).map_err(|error| failed(&error))?;
                let converted = convert_values(conversion, &array, uri)?;
                check_computed(&converted, path)?;
                return Ok(converted);
            }
            Self::Members { fields, steps } => (fields, steps),
        };
        let structs = array
            .as_struct_opt()
            .ok_or_else(|| Error::bug("the conversion of a member read no struct"))?;
        let nulls = structs.nulls().filter(|nulls| nulls.null_count() > 0);
        let is_null = nulls.map(|nulls| BooleanArray::new(!nulls.inner(), None));
        let mut columns = Vec::with_capacity(steps.len());
        for (step, column) in steps.iter().zip(structs.columns()) {
            // Slots under a null struct may hold anything, which need not fit.
            columns.push(match &is_null {
                None => step.apply(column, uri)?,
                Some(is_null) => step.apply(&masked(column, is_null)?, uri)?,
            });
        }
        let (nulls, len) = (structs.nulls().cloned(), structs.len());
        let built = StructArray::try_new_with_length(fields.clone(), columns, nulls, len);
        Ok(Arc::new(built.map_err(|error| failed(&error))?))
    }
}

/// Gives an array another type, without a change of its values. The two types may differ only in the names of their nested
/// fields.
fn relabelled(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    use DataType::{FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct};
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    let data = array.to_data();
    let types: Vec<&DataType> = match to {
        Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        List(item)
        | LargeList(item)
        | ListView(item)
        | LargeListView(item)
        | FixedSizeList(item, _)
        | Map(item, _) => vec![item.data_type()],
        _ => Vec::new(),
    };
    let children = data.child_data().iter().zip(types);
    let children = children
        .map(|(child, to)| Ok(relabelled(&make_array(child.clone()), to)?.to_data()))
        .collect::<Result<_, ArrowError>>()?;
    let builder = data.into_builder().data_type(to.clone());
    Ok(make_array(builder.child_data(children).build()?))
}

#[cfg(test)]
mod tests {
    use arrow_array::Int32Array;
    use arrow_array::builder::{Int32Builder, ListBuilder};
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn members_get_other_names_at_every_level_and_keep_their_values() {
        let mut lists = ListBuilder::new(Int32Builder::new());
        lists.append_value([Some(1), None]);
        lists.append_null();
        let lists: ArrayRef = Arc::new(lists.finish());
        let of = |names: [&str; 2], item: &str| {
            let item = Arc::new(Field::new(item, DataType::Int32, true));
            Fields::from(vec![
                Field::new(names[0], DataType::Int32, true),
                Field::new(names[1], DataType::List(item), true),
            ])
        };
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![7, 8]));
        let before = StructArray::new(of(["a", "b"], "item"), vec![numbers, lists], None);
        let before: ArrayRef = Arc::new(before);
        let to = DataType::Struct(of(["x", "y"], "element"));
        let after = relabelled(&before, &to).unwrap();
        assert_eq!(after.data_type(), &to);
        let back = relabelled(&after, before.data_type()).unwrap();
        assert_eq!(&back, &before);
    }
}
