//! Batches as a caller has them, made into batches as the table stores them: columns in the table's order and
//! type, dictionary keys into the table's dictionaries.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray,
    OffsetSizeTrait, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{
    ArrowError, DataType, Field as ArrowField, FieldRef, Schema as ArrowSchema, SchemaRef,
};
use pilum_format::{Field, Schema};

use crate::error::{Error, Result};
use crate::write::dictionary_builder::DictionaryBuilders;

/// Types that hold the same values: only the width of offsets, views, or what nested fields declare differ.
fn holds_same(table: &DataType, batch: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, FixedSizeList, LargeBinary, LargeList, LargeListView, LargeUtf8, List,
        ListView, Map, Struct, Utf8, Utf8View,
    };
    match (table, batch) {
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View)
        | (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => true,
        (List(a), List(b))
        | (LargeList(a), LargeList(b))
        | (ListView(a), ListView(b))
        | (LargeListView(a), LargeListView(b)) => holds_same(a.data_type(), b.data_type()),
        (FixedSizeList(a, size), FixedSizeList(b, other)) => {
            size == other && holds_same(a.data_type(), b.data_type())
        }
        // Key and value stand in their places, whatever they are called.
        (Map(a, sorted), Map(b, other)) => match (a.data_type(), b.data_type()) {
            (Struct(a), Struct(b)) if sorted == other && a.len() == b.len() => {
                let mut pairs = a.iter().zip(b);
                pairs.all(|(a, b)| holds_same(a.data_type(), b.data_type()))
            }
            _ => false,
        },
        (Struct(a), Struct(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(a, b)| a.name() == b.name() && holds_same(a.data_type(), b.data_type()))
        }
        (table, batch) => table.equals_datatype(batch),
    }
}

/// How to make batches of one schema fit the table.
#[derive(Debug)]
pub(crate) struct SchemaAdapter {
    schema: Arc<Schema>,
    /// For each column of the table its place in the batches.
    places: Vec<usize>,
    /// Columns with dictionaries replaced by plain keys: what batches are while they wait for their page.
    keyed: SchemaRef,
    /// What the file writer gets. All columns nullable: it is the one that finds the nulls, with their row.
    stored: SchemaRef,
}

impl SchemaAdapter {
    /// Matches columns by name.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] lists every difference.
    pub(crate) fn new(schema: &Arc<Schema>, batches: &ArrowSchema) -> Result<Self> {
        let mut differences = Vec::new();
        let mut places = Vec::with_capacity(schema.fields.len());
        for field in &schema.fields {
            let mut found = batches.fields().iter().enumerate();
            match found.find(|(_, column)| *column.name() == field.name) {
                None => differences.push(format!("column `{}` is missing", field.name)),
                Some((place, column)) => {
                    places.push(place);
                    if !holds_same(&field.data_type, column.data_type()) {
                        differences.push(format!(
                            "column `{}` is {}, the table stores {}",
                            field.name,
                            column.data_type(),
                            field.data_type
                        ));
                    }
                }
            }
        }
        for (place, column) in batches.fields().iter().enumerate() {
            if !places.contains(&place) {
                let is_repeated = schema
                    .fields
                    .iter()
                    .any(|field| field.name == *column.name());
                let what = if is_repeated {
                    "comes twice"
                } else {
                    "is not in the table"
                };
                differences.push(format!("column `{}` {what}", column.name()));
            }
        }
        if !differences.is_empty() {
            return Err(Error::invalid(
                "the data do not fit the table",
                format!(
                    "{}; rename, cast or drop columns, or overwrite the table",
                    differences.join("; ")
                ),
            ));
        }
        let nullable = |keyed: bool| -> SchemaRef {
            let column = |field: &Field| {
                let data_type = if keyed {
                    keyed_type(field)
                } else {
                    field.data_type.clone()
                };
                ArrowField::new(&field.name, data_type, true)
            };
            Arc::new(ArrowSchema::new(
                schema.fields.iter().map(column).collect::<Vec<_>>(),
            ))
        };
        Ok(Self {
            schema: Arc::clone(schema),
            places,
            keyed: nullable(true),
            stored: nullable(false),
        })
    }

    /// True if a column has a dictionary at any depth.
    pub(crate) fn has_dictionaries(&self) -> bool {
        self.keyed.fields() != self.stored.fields()
    }

    /// The batch in the table's order and types, with plain dictionary keys.
    pub(crate) fn keyed(
        &self,
        batch: &RecordBatch,
        dictionaries: &mut DictionaryBuilders,
    ) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.places.len());
        for (field, place) in self.schema.fields.iter().zip(&self.places) {
            columns.push(keyed_array(
                field,
                &field.name,
                batch.column(*place),
                dictionaries,
            )?);
        }
        build(&self.keyed, columns, batch.num_rows())
    }

    /// Batches of plain keys, one after the other, with the dictionaries as they are now.
    pub(crate) fn stored(
        &self,
        batches: &[RecordBatch],
        dictionaries: &mut DictionaryBuilders,
    ) -> Result<RecordBatch> {
        let batch = match batches {
            [one] => one.clone(),
            many => arrow_select::concat::concat_batches(&self.keyed, many)
                .map_err(|error| Error::invalid("the data", error.to_string()))?,
        };
        if !self.has_dictionaries() {
            return Ok(batch);
        }
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (field, column) in self.schema.fields.iter().zip(batch.columns()) {
            columns.push(stored_array(field, &field.name, column, dictionaries)?);
        }
        build(&self.stored, columns, batch.num_rows())
    }

    /// The columns of the table.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The columns of the batches that [`stored`](Self::stored) returns.
    pub(crate) fn stored_schema(&self) -> &SchemaRef {
        &self.stored
    }
}

fn build(schema: &SchemaRef, columns: Vec<ArrayRef>, num_rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(num_rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::invalid("the data", error.to_string()))
}

/// The type of a field while its dictionaries, at any depth, are plain keys.
fn keyed_type(field: &Field) -> DataType {
    let child = |field: &Field| -> FieldRef {
        Arc::new(field.to_arrow().with_data_type(keyed_type(field)))
    };
    match (&field.data_type, field.children.as_slice()) {
        (DataType::Dictionary(keys, _), _) => keys.as_ref().clone(),
        (DataType::Struct(_), children) => DataType::Struct(children.iter().map(child).collect()),
        (DataType::List(_), [item]) => DataType::List(child(item)),
        (DataType::LargeList(_), [item]) => DataType::LargeList(child(item)),
        (DataType::ListView(_), [item]) => DataType::ListView(child(item)),
        (DataType::LargeListView(_), [item]) => DataType::LargeListView(child(item)),
        (DataType::FixedSizeList(_, size), [item]) => DataType::FixedSizeList(child(item), *size),
        (DataType::Map(_, ordered), [entries]) => DataType::Map(child(entries), *ordered),
        (other, _) => other.clone(),
    }
}

fn failed(path: &str) -> impl Fn(ArrowError) -> Error + '_ {
    move |error| Error::invalid(format!("column `{path}`"), error.to_string())
}

fn keyed_array(
    field: &Field,
    path: &str,
    array: &ArrayRef,
    dictionaries: &mut DictionaryBuilders,
) -> Result<ArrayRef> {
    let target = keyed_type(field);
    if matches!(field.data_type, DataType::Dictionary(..)) {
        return dictionaries.keys(field, path, array);
    }
    if *array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    if is_rebuilt(array.data_type(), &target) {
        return rebuild(field, path, array, &target, &mut |field, path, array| {
            keyed_array(field, path, array, dictionaries)
        });
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, &target, &options).map_err(failed(path))
}

/// Whether two types are the same kind of container, so that the children can be looked at one by one.
fn is_rebuilt(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::FixedSizeList(_, from), DataType::FixedSizeList(_, to)) => from == to,
        (DataType::Map(_, from), DataType::Map(_, to)) => from == to,
        (
            _,
            DataType::Struct(_)
            | DataType::List(_)
            | DataType::LargeList(_)
            | DataType::ListView(_)
            | DataType::LargeListView(_),
        ) => std::mem::discriminant(from) == std::mem::discriminant(to),
        _ => false,
    }
}

fn stored_array(
    field: &Field,
    path: &str,
    array: &ArrayRef,
    dictionaries: &mut DictionaryBuilders,
) -> Result<ArrayRef> {
    match &field.data_type {
        DataType::Dictionary(..) => dictionaries.wrap(field.id, array),
        target if target == array.data_type() => Ok(Arc::clone(array)),
        target => rebuild(field, path, array, target, &mut |field, path, array| {
            stored_array(field, path, array, dictionaries)
        }),
    }
}

type EachChild<'a> = dyn FnMut(&Field, &str, &ArrayRef) -> Result<ArrayRef> + 'a;

/// The same struct or list with other children and declarations.
fn rebuild(
    field: &Field,
    path: &str,
    array: &ArrayRef,
    target: &DataType,
    each: &mut EachChild<'_>,
) -> Result<ArrayRef> {
    match (target, field.children.as_slice()) {
        (DataType::Struct(members), children) => {
            let array = array.as_struct();
            let columns = children
                .iter()
                .zip(array.columns())
                .map(|(child, column)| each(child, &format!("{path}.{}", child.name), column));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let nulls = array.nulls().cloned();
            let built =
                StructArray::try_new_with_length(members.clone(), columns, nulls, array.len());
            Ok(Arc::new(built.map_err(failed(path))?))
        }
        (DataType::List(item), [child]) => rebuild_list::<i32>(item, child, path, array, each),
        (DataType::LargeList(item), [child]) => rebuild_list::<i64>(item, child, path, array, each),
        (DataType::ListView(item), [child]) => rebuild_view::<i32>(item, child, path, array, each),
        (DataType::LargeListView(item), [child]) => {
            rebuild_view::<i64>(item, child, path, array, each)
        }
        (DataType::FixedSizeList(item, size), [child]) => {
            let array = array.as_fixed_size_list();
            let values = each(child, &format!("{path}.{}", child.name), array.values())?;
            let (item, nulls) = (Arc::clone(item), array.nulls().cloned());
            let built =
                FixedSizeListArray::try_new_with_length(item, *size, values, nulls, array.len());
            Ok(Arc::new(built.map_err(failed(path))?))
        }
        (DataType::FixedSizeList(..), []) => redeclared(array, target).map_err(failed(path)),
        (DataType::Map(field, ordered), [child]) => {
            let array = array.as_map();
            let entries: ArrayRef = Arc::new(array.entries().clone());
            let entries = each(child, &format!("{path}.{}", child.name), &entries)?;
            let built = MapArray::try_new(
                Arc::clone(field),
                array.offsets().clone(),
                entries.as_struct().clone(),
                array.nulls().cloned(),
                *ordered,
            );
            Ok(Arc::new(built.map_err(failed(path))?))
        }
        (other, _) => Err(Error::invalid(
            format!("column `{path}`"),
            format!(
                "is {}, the table stores {other}; cast it",
                array.data_type()
            ),
        )),
    }
}

/// The same values in lists that declare their items otherwise. Fails for a null among items that may be none.
fn redeclared(array: &ArrayRef, target: &DataType) -> Result<ArrayRef, ArrowError> {
    let (DataType::FixedSizeList(item, size), Some(lists)) =
        (target, array.as_fixed_size_list_opt())
    else {
        return Ok(Arc::clone(array));
    };
    let (values, nulls) = (
        redeclared(lists.values(), item.data_type())?,
        lists.nulls().cloned(),
    );
    let item = Arc::clone(item);
    let built = FixedSizeListArray::try_new_with_length(item, *size, values, nulls, lists.len());
    Ok(Arc::new(built?))
}

fn rebuild_list<O: OffsetSizeTrait>(
    item: &FieldRef,
    child: &Field,
    path: &str,
    array: &ArrayRef,
    each: &mut EachChild<'_>,
) -> Result<ArrayRef> {
    let array = array.as_list::<O>();
    let values = each(child, &format!("{path}.{}", child.name), array.values())?;
    let built = GenericListArray::<O>::try_new(
        Arc::clone(item),
        array.offsets().clone(),
        values,
        array.nulls().cloned(),
    );
    Ok(Arc::new(built.map_err(failed(path))?))
}

fn rebuild_view<O: OffsetSizeTrait>(
    item: &FieldRef,
    child: &Field,
    path: &str,
    array: &ArrayRef,
    each: &mut EachChild<'_>,
) -> Result<ArrayRef> {
    let array = array.as_list_view::<O>();
    let values = each(child, &format!("{path}.{}", child.name), array.values())?;
    let built = GenericListViewArray::<O>::try_new(
        Arc::clone(item),
        array.offsets().clone(),
        array.sizes().clone(),
        values,
        array.nulls().cloned(),
    );
    Ok(Arc::new(built.map_err(failed(path))?))
}
